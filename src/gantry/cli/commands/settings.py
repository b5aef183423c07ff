"""``gnt-cluster modify``, and the settings that it shares with ``gnt-cluster init``.

Options have the spelling of the 2.0 design and today's spelling: ``--defaults bridge=br5`` is ``-N link=br5``,
``--hypervisor-defaults`` is ``-H`` (contracts/commands.md#letters-of-options). The word ``default`` resets a setting.
The options of single settings come from their declarations (``opcode_fields.SETTINGS``).
"""

from collections.abc import Callable

from gantry.cli import errors
from gantry.cli.commands import policies
from gantry.cli.framework import command, opcode_fields, submit
from gantry.cli.grammar import syntax

Structure = syntax.Structure

SET = "OP_CLUSTER_SET_PARAMS"
DEFAULTS = {"hypervisor": "default_hypervisor", "disksize": "default_disk_size", "bridge": "nicparams"}
"""Maps a key of ``--defaults`` to the opcode's field for its value."""


def opcode(call: command.Call) -> Structure:
    """Return OP_CLUSTER_SET_PARAMS with the settings of the options; raises InvalidError."""
    op = call.opcode(SET, **policies.opcode_fields(call.options))
    if call.options.hypervisor:
        op["hvparams"] = _by_hypervisor(call.options.hypervisor)
    if changes := [
        [action, *pair]
        for action, pairs in (("add", call.option("allow")), ("remove", call.option("disallow")))
        for pair in pairs or ()
    ]:
        op["allowed"] = changes
    for key, value in (call.options.defaults or {}).items():
        if key == "bridge":
            op["nicparams"] = _with_bridge(call.options.nic_parameters or {}, str(value))
        else:
            op[DEFAULTS[key]] = value
    return op


def _by_hypervisor(pairs: list[tuple[str, syntax.Parameters]]) -> dict[str, syntax.Parameters]:
    return policies.by_name(pairs, option="-H", example="kvm:accel=tcg")


def _with_bridge(nic: syntax.Parameters, bridge: str) -> syntax.Parameters:
    if "link" in nic or nic.get("mode", "bridged") != "bridged":
        raise errors.InvalidError("-N and --defaults bridge= both set the link of NICs", hint="give only one of them")
    return {**nic, "mode": syntax.RESET if bridge == syntax.RESET else "bridged", "link": bridge}


def _entry(text: str) -> list[str]:
    name, separator, entry = text.partition("=")
    if not (name and separator and entry):
        raise errors.InvalidError(f"{text!r} is not LIST=ENTRY", hint="as in images=/srv/cd")
    return [name, entry]


def modify(call: command.Call) -> int:
    """Change settings of the cluster."""
    return submit.carry_out(call, opcode(call))


def modify_system(call: command.Call) -> int:
    """Change the cluster's defaults for an operating system (``gnt-os modify``)."""
    name, options = call.arguments[0], call.options
    op: syntax.Structure = {"OP_ID": SET}
    if options.os_parameters:
        op["osparams"] = {name: options.os_parameters}
    if options.os_parameters_private:
        op["osparams_private_cluster"] = {name: options.os_parameters_private}
    for field in ("hidden", "blacklisted"):
        if word := getattr(options, field):
            op[f"{field}_os"] = [["add" if word == "yes" else "remove", name]]
    if options.hypervisor:
        op["os_hvp"] = {name: _by_hypervisor(options.hypervisor)}
    return submit.carry_out(call, op)


def _thresholds(text: str) -> list[int]:
    parts = [syntax.number(word) for word in syntax.words(text)]
    if len(parts) != 2:
        raise errors.InvalidError(f"{text!r} is not two percentages, as in 80,95")
    return parts


def _defaults(text: str) -> syntax.Parameters:
    defaults = syntax.parameters(text)
    unknown = [key for key in defaults if key not in DEFAULTS]
    if unknown:
        keys = "key" if len(unknown) == 1 else "keys"
        raise errors.InvalidError(
            f"--defaults: unknown {keys} {', '.join(unknown)}", hint=f"valid keys: {', '.join(DEFAULTS)}"
        )
    valueless = [key for key, value in defaults.items() if not isinstance(value, str) or not value]
    if valueless:
        raise errors.InvalidError(f"--defaults: {', '.join(valueless)} has no value")
    if defaults.get("disksize", syntax.RESET) != syntax.RESET:
        defaults["disksize"] = syntax.size(str(defaults["disksize"]))
    return defaults


PARSERS: dict[str, Callable[[str], object]] = {
    "switch": str,
    "number": policies.or_default(syntax.number),
    "seconds": policies.or_default(syntax.seconds),
    "percentages": policies.or_default(_thresholds),
    "parameters": syntax.parameters,
    "text": str,
}
"""The grammar of a setting's value, by its kind."""


def _option(name: str, setting: opcode_fields.Setting) -> command.Option:
    choices = ("yes", "no", syntax.RESET) if setting.kind == "switch" else ()
    return command.Option(
        setting.names, setting.help, setting.metavar, parse=PARSERS[setting.kind], choices=choices, field=name
    )


OPTIONS = (
    command.field_option(
        SET,
        "enabled_hypervisors",
        "--enabled-hypervisors",
        help="Enable hypervisors, the default one first, as in kvm,fake",
        metavar="NAMES",
    ),
    command.field_option(
        SET,
        "enabled_disk_templates",
        "--enabled-disk-templates",
        help="Enable disk templates, the default one first, as in file,diskless",
        metavar="NAMES",
    ),
    command.Option(
        ("--defaults",),
        "Set the default hypervisor, disk size and NIC bridge of instances",
        "hypervisor=HV,disksize=SIZE,bridge=BRIDGE",
        parse=_defaults,
    ),
    command.Option(
        (*command.HYPERVISOR_NAMES, "--hypervisor-defaults"),
        "Set default parameters of a hypervisor, as in kvm:accel=tcg",
        "HV:PARAMS",
        completes="by-hypervisor-parameter",
        dest="hypervisor",
        repeatable=True,
        parse=syntax.hypervisor,
    ),
    command.BACKEND,
    command.field_option(
        SET,
        "nicparams",
        "-N",
        "--nic-parameters",
        help="Set default NIC parameters, as in mode=bridged,link=br0",
        metavar="PARAMS",
        parse=syntax.parameters,
        completes="nic-parameter",
    ),
    *policies.OPTIONS,
    policies.STD,
    *(_option(name, setting) for name, setting in opcode_fields.SETTINGS.items() if setting.names),
    command.Option(
        ("--allow",),
        "As root, add an entry to an allow-list, as in images=/srv/cd; LIST=default resets the list",
        "LIST=ENTRY",
        repeatable=True,
        parse=_entry,
    ),
    command.Option(
        ("--disallow",),
        "As root, remove an entry from an allow-list",
        "LIST=ENTRY",
        repeatable=True,
        parse=_entry,
    ),
)
ACCEPTED = (
    command.accepted(
        "--maintain-node-health",
        metavar="YES|NO",
        idle=("no",),
        because="--stray-guests sets what the watcher does with guests that should not run",
    ),
    command.accepted(
        "--use-external-mip-script", metavar="YES|NO", idle=("no",), because="the master has no address of its own"
    ),
    command.accepted(
        "--drbd-usermode-helper",
        metavar="PATH",
        idle=("/bin/true", "/usr/bin/true"),
        because="the module drbd is loaded with the helper /bin/true",
    ),
    command.accepted("--enabled-data-collectors", metavar="LIST", because="there are no data collectors"),
    command.accepted("--data-collector-interval", metavar="LIST", because="there are no data collectors"),
)
"""Options of Ganeti's that ``init`` and ``modify`` take."""
ACCEPTED_AT_INIT = (
    *ACCEPTED,
    command.accepted("--no-etc-hosts", because="/etc/hosts is never written"),
    *(
        command.accepted(name, metavar=metavar, because="no SSH keys are managed")
        for name, metavar in (("--no-ssh-init", ""), ("--ssh-key-type", "TYPE"), ("--ssh-key-bits", "BITS"))
    ),
    command.accepted("--primary-ip-version", metavar="4|6", because="each node has the version of its address"),
)
TEXT = """
    Settings that no option names stay unchanged. The word default resets a setting, as in -C default or
    -B vcpus=default. A hypervisor or disk template that an instance uses cannot be disabled. Nodes check the values
    before anything is changed. With -C, nodes are promoted or demoted until there are that many master candidates.
"""
MODIFY = command.Command(
    "modify",
    modify,
    "Change settings of the cluster",
    options=(
        *OPTIONS,
        command.field_option(SET, "ipam_driver", "--ipam-driver", metavar="DRIVER"),
        command.field_option(
            SET,
            "ipam_database",
            "--ipam-database",
            help="Set the database of the sql driver, sqlite:///FILE or postgresql://USER@HOST/DATABASE",
            metavar="URL",
        ),
        command.field_option(
            SET,
            "force",
            "-f",
            "--force",
            help="Continue although nodes or the database do not answer, nodes lack a bridge, "
            "or a later master used the database",
        ),
        *ACCEPTED,
        command.accepted("--modify-etc-hosts", metavar="YES|NO", idle=("no",), because="/etc/hosts is never written"),
        command.accepted("--max-tracked-jobs", metavar="COUNT", because="a job that waits takes no process"),
        *command.JOB,
    ),
    text=TEXT,
)
