"""``gnt-cluster renew-crypto``: renew certificates and keys (how-to/certificates.md).

Some options of Ganeti are about secrets that do not exist here. They are accepted, because scripts pass them together
with others, and the command says that there is nothing to renew. An option that names a file which would not be used is
refused: somebody wants its content to have an effect (how-to/certificates.md#options-that-scripts-for-ganeti-pass).
"""

import os

from gantry.cli import errors, machine
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax

RENEW = "OP_CLUSTER_RENEW_CRYPTO"

WITHOUT_EFFECT = {
    "new_confd_hmac_key": "there is no confd, and so no key for it",
    "new_cluster_domain_secret": "there are no moves between clusters, and so no secret for them",
    "new_spice_certificate": "SPICE has the certificates of vnc_x509_path, which are yours",
    "new_ssh_keys": "no SSH keys are managed",
    "no_ssh_key_check": "no SSH keys are managed",
    "ssh_key_type": "no SSH keys are managed",
    "ssh_key_bits": "no SSH keys are managed",
}
SPICE = "SPICE uses the files ca-cert.pem, server-cert.pem and server-key.pem in the folder vnc_x509_path on each node"
REFUSED = {
    "spice_certificate": (SPICE, "copy the certificate and its key there, for example with gnt-cluster copyfile"),
    "spice_ca_certificate": (SPICE, "copy the certificate there, for example with gnt-cluster copyfile"),
    "cluster_domain_secret": (
        "there are no moves between clusters, and so no secret for them",
        "omit the option",
    ),
}
"""The options with a file, each with why the file cannot be used, and what to do instead."""
EXCLUSIVE = (
    ("new_rapi_certificate", "rapi_certificate"),
    ("new_spice_certificate", "spice_certificate"),
    ("new_spice_certificate", "spice_ca_certificate"),
    ("new_cluster_domain_secret", "cluster_domain_secret"),
)


def renew_crypto(call: command.Call) -> int:
    """Renew certificates and keys; the exit code is 1 if a node kept its certificate."""
    options = call.options
    _check(call)
    useless = [name for name in WITHOUT_EFFECT if getattr(options, name)]
    for name in useless:
        print(f"{_option(name)}: nothing to renew: {WITHOUT_EFFECT[name]}")
    op = call.opcode(RENEW)
    if options.rapi_certificate:
        _install(options.rapi_certificate)
        submit.carry_out(call, call.opcode("OP_CLUSTER_REDIST_CONF"))
    if len(op) == 1 and (useless or options.rapi_certificate):
        return 0
    failed: list[object] = []
    submit.carry_out(call, op, report=lambda result: failed.extend(result if isinstance(result, list) else []))
    return 1 if failed else 0


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _without_effect(name: str, text: str) -> command.Option:
    option = command.Option((_option(name),), f"Accepted for scripts: {text}")
    if name == "ssh_key_type":
        return option._replace(metavar="TYPE", choices=("rsa", "dsa", "ecdsa"))
    if name == "ssh_key_bits":
        return option._replace(metavar="BITS", parse=syntax.number)
    return option


def _check(call: command.Call) -> None:
    """Refuse options that exclude each other, and files that would not be used."""
    options = {name for name in vars(call.options) if getattr(call.options, name)}
    for renewed, named in EXCLUSIVE:
        if {renewed, named} <= options:
            raise errors.InvalidError(f"{_option(renewed)} and {_option(named)} exclude each other; use one of them")
    for name, (reason, advice) in REFUSED.items():
        if name in options:
            raise errors.InvalidError(f"{_option(name)} is not supported: {reason}; {advice}")


def _install(path: str) -> None:
    """Make a file with certificate and key that of the remote API on this machine, readable by root alone."""
    text, target = machine.read_file(path), machine.rapi_certificate()
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY-----" not in text:
        raise errors.InvalidError(f"{path} does not have a certificate and a private key, both in PEM")
    try:
        with open(os.open(f"{target}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(f"{target}.new", target)
    except OSError as error:
        raise errors.CommandError(f"cannot write {target}: {error.strerror}") from None


TEXT = """
    Without an option, all nodes get new keys and certificates. Guests, jobs and daemons continue to run. A new
    authority is trusted beside the old one until all nodes have its certificates; clients of the remote API then need
    the new certs/authority.pem. A node that does not answer is reported and keeps its certificate; mark nodes that are
    down offline.
"""

COMMANDS = (
    command.Command(
        "renew-crypto",
        renew_crypto,
        "Renew certificates and keys",
        options=(
            command.field_option(RENEW, "node_certificates", "--new-node-certificates"),
            command.field_option(
                RENEW, "nodes", "-n", "--node", metavar="NODE", repeatable=True, dest="nodes", completes="node"
            ),
            command.field_option(RENEW, "keep_keys", "--keep-keys"),
            command.field_option(RENEW, "cluster_certificate", "--new-cluster-certificate"),
            command.field_option(RENEW, "rapi_certificate", "--new-rapi-certificate"),
            command.Option(("--rapi-certificate",), "Use this certificate and key for the remote API", "FILE"),
            *(_without_effect(name, text) for name, text in WITHOUT_EFFECT.items()),
            *(command.Option((_option(name),), f"Refused: {reason}", "FILE") for name, (reason, _) in REFUSED.items()),
            command.Option(("-v", "--verbose"), "Accepted for scripts: all messages of the job are always printed"),
            command.FORCE._replace(help="Accepted for scripts: there is no question to confirm"),
            *command.JOB,
        ),
        text=TEXT,
    ),
)
