"""The commands of ``gnt-instance`` for disks, and the grammar of ``--disk`` for existing instances.

``grammar.syntax`` parses the values of a disk.
"""

from gantry.cli import errors
from gantry.cli.framework import command, submit
from gantry.cli.grammar import changes, syntax

FORMS = (
    "add:KEY=VALUE,...             after the last disk; INDEX:add,KEY=VALUE,... elsewhere",
    "IDENT:modify,KEY=VALUE,...    IDENT is a number from 0, -1 for the last, a name or a UUID",
    "IDENT:KEY=VALUE,...           the same; mode (or access) and name can change",
    "IDENT:remove                  remove alone removes the last disk and its data",
    "IDENT:detach                  detach alone detaches the last disk and keeps its data",
    "attach:uuid=UUID              or name=NAME: a detached disk; INDEX:attach,... elsewhere",
    "KEY is size, mode, access, name, vg, metavg, path, format or provider",
)
ACTIONS = (*changes.ACTIONS, "attach", "detach")
GRAMMAR = changes.Grammar("--disk", "disk", FORMS, syntax.disk, syntax.disk_change, ACTIONS)


def change(text: str) -> changes.Change:
    """Parse one change of a disk."""
    return GRAMMAR.change(text)


def grow(call: command.Call) -> int:
    """Grow a disk of an instance."""
    _, index, amount = call.arguments
    size = syntax.size(amount.removeprefix("+"))
    return submit.carry_out(call, call.opcode("OP_INSTANCE_GROW_DISK", disk=syntax.number(index), amount=size))


def check_conversion(op: syntax.Structure) -> None:
    """Raise InvalidError for options of a conversion to another disk template without the template."""
    if op.keys() & {"remote_node", "iallocator", "ext_params"} and "disk_template" not in op:
        raise errors.InvalidError(
            "-n, -I and -e need -t: they only apply to a change of the disk template", hint="add -t TEMPLATE"
        )


def activate(call: command.Call) -> int:
    """Activate the disks of an instance."""

    def report(result: object) -> None:
        for node, disk, path in result if isinstance(result, list) else []:
            print(f"{node}:{disk}:{path}")

    return submit.carry_out(call, call.opcode("OP_INSTANCE_ACTIVATE_DISKS"), report=report)


def deactivate(call: command.Call) -> int:
    """Deactivate the disks of an instance."""
    return submit.carry_out(call, call.opcode("OP_INSTANCE_DEACTIVATE_DISKS"))


def lost_disk(text: str) -> int | list[object]:
    """Parse ``N`` or ``N:size=SIZE``, a disk to recreate."""
    number, _, values_text = text.partition(":")
    index, values = syntax.number(number), syntax.key_values(values_text)
    return [index, syntax.disk_change(values, subject=f"disk {index}")] if values else index


def _nodes(text: str) -> list[str]:
    """Parse ``NODE[:SECONDARY]``."""
    return [node for node in text.split(":") if node]


def _numbers(text: str) -> list[int]:
    """Parse ``0,2``."""
    return [syntax.number(word) for word in syntax.words(text)]


def recreate(call: command.Call) -> int:
    """Recreate lost disks of an instance."""
    return submit.carry_out(call, call.opcode("OP_INSTANCE_RECREATE_DISKS"))


MODES = {
    "on_primary": "replace_on_primary",
    "on_secondary": "replace_on_secondary",
    "auto": "replace_auto",
}


def replace(call: command.Call) -> int:
    """Replace one side of mirrored disks."""
    options = call.options
    modes = [mode for option, mode in MODES.items() if getattr(options, option)]
    if options.new_secondary or options.iallocator:
        modes.append("replace_new_secondary")
    if len(modes) != 1:
        raise errors.InvalidError("give exactly one of -p, -s, -a, -n NODE and -I ALLOCATOR")
    if options.new_secondary and options.iallocator:
        raise errors.InvalidError("-n and -I exclude each other")
    return submit.carry_out(call, call.opcode("OP_INSTANCE_REPLACE_DISKS", mode=modes[0]))


MODIFY = "OP_INSTANCE_SET_PARAMS"
GROW = "OP_INSTANCE_GROW_DISK"
ACTIVATE = "OP_INSTANCE_ACTIVATE_DISKS"
RECREATE = "OP_INSTANCE_RECREATE_DISKS"
REPLACE = "OP_INSTANCE_REPLACE_DISKS"
INSTANCE = command.Argument("INSTANCE", completes="instance", field="instance_name")
NO_WAIT = command.field_option(
    MODIFY, "wait_for_sync", "--no-wait-for-sync", help="Do not wait until mirrored disks are in sync", negated=True
)
CONVERSION = (
    command.field_option(
        MODIFY,
        "disk_template",
        "-t",
        "--disk-template",
        help="Convert the disks of a stopped instance to file, sharedfile, plain, drbd or ext",
        metavar="TEMPLATE",
        completes="template",
    ),
    command.field_option(
        MODIFY,
        "remote_node",
        "-n",
        "--node",
        help="Set the secondary node for -t drbd; without it the allocator chooses one",
        metavar="NODE",
        completes="node",
    ),
    command.field_option(
        MODIFY,
        "iallocator",
        "-I",
        "--iallocator",
        help="Let an allocator choose the secondary node; gantry is the built-in allocator",
        metavar="NAME",
    ),
    command.field_option(
        MODIFY,
        "ext_params",
        "-e",
        "--ext-params",
        help="Set the provider for -t ext and its parameters, as in provider=san,tier=gold",
        metavar="PARAMS",
        parse=syntax.parameters,
    ),
)
IGNORE_POLICY = command.field_option(GROW, "ignore_ipolicy", "--ignore-ipolicy")
REPLACE_TEXT = """
    Recreate the volumes on the secondary node; move them to another secondary node; repair what is broken:
      gnt-instance replace-disks -s web1
      gnt-instance replace-disks -n node3 web1
      gnt-instance replace-disks -a web1
"""
COMMANDS = (
    command.Command(
        "grow-disk",
        grow,
        "Grow a disk",
        (INSTANCE, command.Argument("DISK"), command.Argument("SIZE")),
        (
            command.field_option(GROW, "absolute", "--absolute", help="Grow the disk to SIZE, not by SIZE"),
            NO_WAIT,
            IGNORE_POLICY,
            *command.JOB,
        ),
    ),
    command.Command(
        "activate-disks",
        activate,
        "Activate the disks of an instance on its nodes",
        (INSTANCE,),
        (
            command.field_option(ACTIVATE, "wait_for_sync", "--wait-for-sync"),
            command.field_option(ACTIVATE, "ignore_size", "--ignore-size"),
            *command.JOB,
        ),
    ),
    command.Command(
        "deactivate-disks",
        deactivate,
        "Deactivate the disks of an instance",
        (INSTANCE,),
        (
            command.field_option(
                "OP_INSTANCE_DEACTIVATE_DISKS",
                "force",
                "-f",
                "--force",
                help="Do not check whether the instance runs; disks in use stay active",
            ),
            *command.JOB,
        ),
    ),
    command.Command(
        "recreate-disks",
        recreate,
        "Recreate lost disks of an instance, empty",
        (INSTANCE,),
        (
            command.field_option(
                RECREATE,
                "disks",
                "--disk",
                help="Recreate only this disk, as in 1, or 1:size=20g for another size; without it, all lost disks",
                metavar="N[:KEY=VALUE]",
                repeatable=True,
                parse=lost_disk,
            ),
            command.field_option(
                RECREATE,
                "nodes",
                "-n",
                "--node",
                help="Recreate the disks on other nodes",
                metavar="NODE[:SECONDARY]",
                completes="node",
                parse=_nodes,
            ),
            command.ALLOCATOR,
            *command.JOB,
        ),
    ),
    command.Command(
        "replace-disks",
        replace,
        "Replace one side of mirrored disks",
        (INSTANCE,),
        (
            command.Option(("-p", "--on-primary"), "Recreate the volumes on the primary node"),
            command.Option(("-s", "--on-secondary"), "Recreate the volumes on the secondary node"),
            command.Option(("-a", "--auto"), "Recreate the volumes that are broken"),
            command.field_option(
                REPLACE,
                "remote_node",
                "-n",
                "--new-secondary",
                help="Set another secondary node",
                metavar="NODE",
                completes="node",
            ),
            command.field_option(
                REPLACE,
                "iallocator",
                "-I",
                "--iallocator",
                help="Let an allocator choose the secondary node; . is the cluster's default allocator",
                metavar="NAME",
            ),
            command.field_option(
                REPLACE,
                "disks",
                "--disks",
                help="Replace only these disks, as in 0,2",
                metavar="NUMBERS",
                parse=_numbers,
            ),
            command.field_option(REPLACE, "early_release", "--early-release"),
            IGNORE_POLICY,
            *command.JOB,
        ),
        text=REPLACE_TEXT,
    ),
)
