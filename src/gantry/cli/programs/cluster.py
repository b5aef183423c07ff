"""``gnt-cluster``: the cluster as a whole, from its making to its end.

``init`` is the one command that finds no master: it hands what the options say to ``gantry-masterd init`` as a JSON
document on its standard input, then starts ``gantry-masterd`` in a session of its own and waits for its socket.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

from gantry.cli import client, command, description, failures, machine, output, syntax, terminal, waiting

ABOUT = "Makes, checks, shows and destroys the cluster."

START_LIMIT = 60.0
STOP_LIMIT = 30.0
POLL = 0.05
"""Seconds: for the daemon's socket to answer, for it to go, between two looks."""


def init(call: command.Call) -> int:
    """Make a cluster of this machine."""
    options = call.options
    node = options.node_name or socket.gethostname()
    document = {
        "cluster_name": call.arguments[0],
        "node_name": node,
        "primary_ip": options.primary_ip or _resolve(node),
        "port": options.port,
        "mac_prefix": options.mac_prefix,
        "master_netdev": options.master_netdev,
        "enabled_hypervisors": options.enabled_hypervisors,
        "enabled_disk_templates": options.enabled_disk_templates,
        "candidate_pool_size": options.candidate_pool_size,
        "hvparams": _by_hypervisor(options.hypervisor),
        "beparams": options.backend_parameters or {},
        "nicparams": options.nic_parameters or {},
    }
    _make_state({key: value for key, value in document.items() if value is not None})
    _start_daemon()
    print(f"The cluster {call.arguments[0]} is up; {node} is its master")
    return 0


def _resolve(node: str) -> str:
    hint = "say it by --primary-ip"
    try:
        address = str(socket.getaddrinfo(node, 0, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise failures.InvalidError(f"the address of {node} is not known: {error.strerror}", hint=hint) from None
    if address.startswith("127.") or address == "::1":
        raise failures.InvalidError(f"{node} resolves to {address}, where no other node can reach it", hint=hint)
    return address


def _by_hypervisor(given: list[tuple[str, syntax.Parameters]]) -> dict[str, syntax.Parameters]:
    found: dict[str, syntax.Parameters] = {}
    for name, parameters in given:
        if not name:
            raise failures.InvalidError("-H needs the hypervisor's name in front, as in kvm:accel=tcg")
        found[name] = found.get(name, {}) | parameters
    return found


def _run(words: list[str], document: object) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=json.dumps(document), capture_output=True, text=True, check=False)
    except OSError as error:
        raise _no_daemon(words[0], error) from None


def _no_daemon(path: str, error: OSError) -> failures.CommandError:
    return failures.CommandError(
        f"cannot run {path}: {error.strerror}", hint="is Gantry's master daemon installed here?"
    )


def _make_state(document: dict[str, object]) -> None:
    done = _run([machine.program("gantry-masterd"), "init"], document)
    sys.stdout.write(done.stdout)
    if done.returncode:
        # Lines of its log may stand before the one that is for us.
        said = done.stderr.rpartition("gantry-masterd: ")[2].strip() or f"it ended with exit code {done.returncode}"
        raise failures.CommandError(said, exit_code=done.returncode if done.returncode > 0 else 1)


def _start_daemon() -> None:
    words = [machine.program("gantry-masterd")]
    quiet = subprocess.DEVNULL
    try:
        daemon = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError as error:
        raise _no_daemon(words[0], error) from None
    progress = terminal.Progress()
    began = time.monotonic()
    try:
        while not _answers():
            waited = time.monotonic() - began
            if daemon.poll() is not None:
                raise failures.CommandError(
                    f"the cluster is made, but the master daemon ended at once (exit code {daemon.returncode})",
                    hint=f"see {machine.master_log()}",
                )
            if waited > START_LIMIT:
                raise failures.CommandError(
                    f"the master daemon does not answer after {START_LIMIT:.0f} s", hint=f"see {machine.master_log()}"
                )
            progress.show(f"Waiting for the master daemon, {waited:.0f} s")
            time.sleep(POLL)
    finally:
        progress.clear()


def _answers() -> bool:
    luxi = client.Client(attempts=1)
    try:
        luxi.cluster_info()
    except failures.CommandError:
        return False
    finally:
        luxi.close()
    return True


def destroy(call: command.Call) -> int:
    """Take the cluster apart."""
    if not call.options.yes_do_it:
        raise failures.CommandError("destroying a cluster cannot be undone", hint="if you mean it, add --yes-do-it")
    job = waiting.submit(call, {"OP_ID": "OP_CLUSTER_DESTROY"})
    # The daemon ends with its cluster, perhaps before we heard of the job's end.
    with contextlib.suppress(failures.ConnectionLostError):
        waiting.results(call.client, job, log=sys.stdout)
    call.client.close()
    began = time.monotonic()
    while os.path.exists(machine.master_socket()) and _answers():
        if time.monotonic() - began > STOP_LIMIT:
            raise failures.CommandError("the master daemon goes on", hint=f"see {machine.master_log()}")
        time.sleep(POLL)
    return 0


def verify(call: command.Call) -> int:
    """Check the cluster; the exit code is 1 when something is wrong."""
    options = call.options
    op = {"OP_ID": "OP_CLUSTER_VERIFY", "verbose": options.verbose, "error_codes": options.error_codes}
    job = waiting.submit(call, op)
    found = waiting.results(call.client, job, log=sys.stdout)
    if options.dry_run:
        waiting.print_plan(found[0])
        return 0
    return 0 if all(found) else 1


def info(call: command.Call) -> int:
    """Show the cluster."""
    print(output.document(description.cluster(call.client.cluster_info())))
    return 0


VERSIONS = {
    "Software version": "software_version",
    "Internode protocol": "protocol_version",
    "Configuration format": "config_version",
    "OS api version": "os_api_version",
    "Export interface": "export_version",
    "VCS version": "vcs_version",
}


def version(call: command.Call) -> int:
    """Show the cluster's versions."""
    found = call.client.cluster_info()
    for word, key in VERSIONS.items():
        print(f"{word}: {found.get(key)}")
    return 0


def getmaster(call: command.Call) -> int:
    """Print the master's name; without a master daemon here it is what ssconf says."""
    name = machine.ssconf("master_node")
    if os.path.exists(machine.master_socket()) or not name:
        try:
            (name,) = client.expect(call.client.call("QueryConfigValues", ["master_node"]), list)
        except failures.CommandError:
            if not name:
                raise
    print(name)
    return 0


INIT_OPTIONS = (
    command.Option(("--node-name",), "Name of this machine in the cluster; without it the host's name", "NAME"),
    command.Option(("--primary-ip",), "Address of its node daemon; without it the name is resolved", "ADDRESS"),
    command.Option(("--port",), "Port of the node daemons", "PORT", parse=syntax.number),
    command.Option(
        ("--enabled-hypervisors",), "Hypervisors, the default one first, as in kvm,fake", "NAMES", parse=syntax.words
    ),
    command.Option(
        ("--enabled-disk-templates",),
        "Kinds of disks, the default one first, as in file,diskless",
        "NAMES",
        parse=syntax.words,
    ),
    command.Option(
        (*command.HYPERVISOR_NAMES, "--hypervisor-defaults"),
        "Defaults of a hypervisor, as in kvm:accel=tcg",
        "HV:PARAMS",
        dest="hypervisor",
        many=True,
        parse=syntax.hypervisor,
    ),
    command.BACKEND,
    command.Option(
        ("-N", "--nic-parameters"), "Defaults of NICs, as in mode=bridged,link=br0", "PARAMS", parse=syntax.parameters
    ),
    command.Option(("-m", "--mac-prefix"), "First half of MAC addresses, as in aa:00:00", "PREFIX"),
    command.Option(
        ("-C", "--candidate-pool-size"), "How many nodes keep a copy of the state", "COUNT", parse=syntax.number
    ),
    command.Option(("--master-netdev",), "Network device of the master's own address", "DEVICE"),
)
INIT_TEXT = """
    gantry-noded must run on this machine already. What init writes is below /var/lib/gantry,
    or below GANTRY_ROOT if that is set.
"""
ONLY_JOB = (*command.DRY_RUN, *command.PRIORITY)

COMMANDS = (
    command.Command(
        "init",
        init,
        "Make a cluster of this machine",
        (command.Argument("CLUSTER"),),
        INIT_OPTIONS,
        text=INIT_TEXT,
    ),
    command.Command("info", info, "Show the cluster", aliases=("show",)),
    command.Command("version", version, "Show the cluster's versions"),
    command.Command("getmaster", getmaster, "Print the master's name"),
    command.Command(
        "verify",
        verify,
        "Check configuration, nodes and instances",
        options=(
            command.Option(("-v", "--verbose"), "Say also what is right"),
            command.Option(("--error-codes",), "Print errors for programs to read"),
            *ONLY_JOB,
        ),
    ),
    command.Command(
        "destroy",
        destroy,
        "Take the cluster apart",
        options=(command.Option(("--yes-do-it",), "Mean it"),),
    ),
)
