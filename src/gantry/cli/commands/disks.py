"""The commands of ``gnt-instance`` for disks, and the grammar of ``--disk`` where disks are changed.

The values of a disk are those of ``grammar.syntax``.
"""

from gantry.cli import errors
from gantry.cli.framework import command, submit
from gantry.cli.grammar import changes, syntax

FORMS = (
    "add:KEY=VALUE,...             behind the last one; PLACE:add,KEY=VALUE,... elsewhere",
    "IDENT:modify,KEY=VALUE,...    IDENT is a number from 0, -1 for the last, a name or a UUID",
    "IDENT:KEY=VALUE,...           the same; mode (or access) and name can change",
    "IDENT:remove                  remove alone takes the last one away, with all that is on it",
    "IDENT:detach                  detach alone takes the last one out, and leaves what is on it",
    "attach:uuid=UUID              or name=NAME: one that was detached; PLACE:attach,... elsewhere",
    "KEY is size, mode, access, name, vg, metavg, path, format or provider",
)
ACTIONS = (*changes.ACTIONS, "attach", "detach")
GRAMMAR = changes.Grammar("--disk", "disk", FORMS, syntax.disk, syntax.disk_change, ACTIONS)


def change(text: str) -> changes.Change:
    """Parse one change of a disk."""
    return GRAMMAR.change(text)


def grow(call: command.Call) -> int:
    """Grow a disk of an instance."""
    name, index, amount = call.arguments
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_GROW_DISK",
        "instance_name": name,
        "disk": syntax.number(index),
        "amount": syntax.size(amount.removeprefix("+")),
    }
    op |= {"absolute": True} if call.options.absolute else {}
    op |= {"ignore_ipolicy": True} if call.options.ignore_ipolicy else {}
    return submit.carry_out(call, op | _sync(call))


def _sync(call: command.Call) -> dict[str, object]:
    return {"wait_for_sync": False} if call.options.no_wait_for_sync else {}


def conversion(call: command.Call) -> dict[str, object]:
    """Return the fields that ask for disks of another template."""
    options = call.options
    given = {
        "disk_template": options.disk_template,
        "remote_node": options.node,
        "iallocator": options.iallocator,
        "ext_params": options.ext_params,
    }
    found = {key: value for key, value in given.items() if value}
    if found and "disk_template" not in found:
        raise errors.InvalidError("-n, -I and -e are for disks that become others", hint="-t says which")
    return found


def activate(call: command.Call) -> int:
    """Make the disks of an instance usable."""
    op = {
        "OP_ID": "OP_INSTANCE_ACTIVATE_DISKS",
        "instance_name": call.arguments[0],
        "wait_for_sync": call.options.wait_for_sync,
        "ignore_size": call.options.ignore_size,
    }

    def report(result: object) -> None:
        for node, disk, path in result if isinstance(result, list) else []:
            print(f"{node}:{disk}:{path}")

    return submit.carry_out(call, op, report=report)


def deactivate(call: command.Call) -> int:
    """Take the disks of an instance out of use."""
    op = {
        "OP_ID": "OP_INSTANCE_DEACTIVATE_DISKS",
        "instance_name": call.arguments[0],
        "force": call.options.force,
    }
    return submit.carry_out(call, op)


def lost(text: str) -> int | list[object]:
    """Parse ``N`` or ``N:size=SIZE``, a disk that is made anew."""
    number, _, rest = text.partition(":")
    index, values = syntax.number(number), syntax.key_values(rest)
    return [index, syntax.disk_change(values, place=f"disk {index}")] if values else index


def recreate(call: command.Call) -> int:
    """Make lost disks of an instance anew."""
    name, options = call.arguments[0], call.options
    op = {
        "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
        "instance_name": name,
        "disks": options.disk,
        "nodes": [node for node in (options.node or "").split(":") if node],
    }
    op |= {"iallocator": options.iallocator} if options.iallocator else {}
    return submit.carry_out(call, op)


MODES = {
    "on_primary": "replace_on_primary",
    "on_secondary": "replace_on_secondary",
    "auto": "replace_auto",
}


def replace(call: command.Call) -> int:
    """Replace one side of mirrored disks."""
    options = call.options
    chosen = [mode for option, mode in MODES.items() if getattr(options, option)]
    if options.new_secondary or options.iallocator:
        chosen.append("replace_new_secondary")
    if len(chosen) != 1:
        raise errors.InvalidError("give one of -p, -s, -a, -n NODE and -I ALLOCATOR")
    if options.new_secondary and options.iallocator:
        raise errors.InvalidError("-n and -I exclude each other")
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": call.arguments[0],
        "mode": chosen[0],
        "disks": [syntax.number(word) for word in syntax.words(options.disks or "")],
        "early_release": options.early_release,
    }
    given = {"remote_node": options.new_secondary, "iallocator": options.iallocator}
    op |= {"ignore_ipolicy": True} if options.ignore_ipolicy else {}
    return submit.carry_out(call, op | {key: value for key, value in given.items() if value})


ONE = command.Argument("INSTANCE", completes="instance")
NO_WAIT = command.of(
    "OP_INSTANCE_SET_PARAMS",
    "wait_for_sync",
    "--no-wait-for-sync",
    help="Do not wait until mirrored disks are in sync",
    negated=True,
)
CONVERSION = (
    command.Option(
        ("-t", "--disk-template"),
        "What the disks of a stopped instance become: file, sharedfile, plain, drbd, ext",
        "TEMPLATE",
    ),
    command.Option(
        ("-n", "--node"), "Secondary node of disks that become drbd; chosen without it", "NODE", completes="node"
    ),
    command.Option(("-I", "--iallocator"), "Who chooses that node; gantry is the built-in allocator", "NAME"),
    command.Option(
        ("-e", "--ext-params"),
        "Provider of disks that become ext, and what it takes, as in provider=san,tier=gold",
        "PARAMS",
        parse=syntax.parameters,
    ),
)
IGNORE_POLICY = command.Option(("--ignore-ipolicy",), "Go beyond what its node group's policy allows")
REPLACE_TEXT = """
    New volumes on the secondary node; another secondary node; and whatever is broken:
      gnt-instance replace-disks -s web1
      gnt-instance replace-disks -n node3 web1
      gnt-instance replace-disks -a web1
"""
COMMANDS = (
    command.Command(
        "grow-disk",
        grow,
        "Grow a disk",
        (ONE, command.Argument("DISK"), command.Argument("SIZE")),
        (
            command.Option(("--absolute",), "SIZE is what it shall have, not how much more"),
            NO_WAIT,
            IGNORE_POLICY,
            *command.JOB,
        ),
    ),
    command.Command(
        "activate-disks",
        activate,
        "Make the disks of an instance usable on its nodes",
        (ONE,),
        (
            command.Option(("--wait-for-sync",), "Wait until mirrored disks are the same on both nodes"),
            command.Option(("--ignore-size",), "Accepted; sizes are not compared"),
            *command.JOB,
        ),
    ),
    command.Command(
        "deactivate-disks",
        deactivate,
        "Take the disks of an instance out of use",
        (ONE,),
        (command.Option(("-f", "--force"), "Do not ask whether it runs; disks in use stay so"), *command.JOB),
    ),
    command.Command(
        "recreate-disks",
        recreate,
        "Make lost disks of an instance anew, empty",
        (ONE,),
        (
            command.Option(
                ("--disk",),
                "Only this one, as in 1, or 1:size=20g for another size; all that are lost without it",
                "N[:KEY=VALUE]",
                many=True,
                parse=lost,
            ),
            command.Option(("-n", "--node"), "Other nodes", metavar="NODE[:SECONDARY]", completes="node"),
            command.ALLOCATOR,
            *command.JOB,
        ),
    ),
    command.Command(
        "replace-disks",
        replace,
        "Replace one side of mirrored disks",
        (ONE,),
        (
            command.Option(("-p", "--on-primary"), "Make the volumes on the primary node anew"),
            command.Option(("-s", "--on-secondary"), "Make the volumes on the secondary node anew"),
            command.Option(("-a", "--auto"), "Make anew what is broken"),
            command.Option(("-n", "--new-secondary"), "Give it another secondary node", "NODE", completes="node"),
            command.Option(("-I", "--iallocator"), "Let an allocator choose that node; . is the default one", "NAME"),
            command.Option(("--disks",), "Only these, as in 0,2", "NUMBERS"),
            command.Option(("--early-release",), "Give up the old copy before the new one is complete"),
            IGNORE_POLICY,
            *command.JOB,
        ),
        text=REPLACE_TEXT,
    ),
)
