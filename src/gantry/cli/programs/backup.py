"""``gnt-backup``: exports of instances, on the nodes."""

from gantry.cli import errors
from gantry.cli.commands import creation
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import filters
from gantry.cli.output import terminal

ABOUT = "Exports virtual machines to nodes, and imports them again."

LISTING = query.Listing("export", ("node", "export"), name="export")
COMPRESSIONS = ("none", "gzip", "gzip-fast", "gzip-slow", "zstd", "lzop")


def export(call: command.Call) -> int:
    """Export an instance."""
    name, options = call.arguments[0], call.options
    if not options.node:
        raise errors.MisuseError("Target node must be specified", hint="-n NODE", exit_code=1)
    if options.remove_instance and not (options.force or options.dry_run):
        terminal.confirm(f"This removes the instance {name} when its export is complete. Continue?")
    op = {
        "OP_ID": "OP_BACKUP_EXPORT",
        "instance_name": name,
        "target_node": options.node,
        "mode": "local",
        "shutdown": not options.noshutdown,
        "shutdown_timeout": options.shutdown_timeout,
        "compress": options.transport_compression,
        "remove_instance": options.remove_instance,
        "ignore_remove_failures": options.ignore_remove_failures,
    }
    return submit.carry_out(call, op)


def restore(call: command.Call) -> int:
    """Create an instance from an export; what is not said comes from there."""
    options = call.options
    op = creation.opcode(call) | {"mode": "import"}
    if not options.net and not options.no_nics:
        op["nics"] = []
    given = {"src_node": options.src_node, "src_path": options.src_dir}
    return submit.carry_out(call, op | {key: value for key, value in given.items() if value})


def show_list(call: command.Call) -> int:
    """List the exports, of all nodes or one."""
    node = call.options.node
    return query.show(call, LISTING, where=filters.any_of("node", [node]) if node else None)


def remove(call: command.Call) -> int:
    """Remove the exports of an instance."""
    return submit.carry_out(call, {"OP_ID": "OP_BACKUP_REMOVE", "instance_name": call.arguments[0]})


_, LIST_FIELDS = query.commands(LISTING, "exports", arguments=())
EXPORT_OPTIONS = (
    command.Option(("-n", "--node"), "Node that gets the export", "NODE", completes="node"),
    command.Option(
        ("--transport-compression", "--compress"),
        "Program that compresses the dumps",
        "PROGRAM",
        dest="transport_compression",
        choices=COMPRESSIONS,
        default="none",
    ),
    command.Option(("--noshutdown",), "Do not stop the instance: its storage has to make snapshots"),
    command.SHUTDOWN_TIMEOUT,
    command.Option(("--remove-instance",), "Remove the instance when its export is complete"),
    command.Option(("--ignore-remove-failures",), "Remove it even when its disks cannot be removed"),
    command.FORCE,
    *command.JOB,
)
EXPORT_TEXT = """
    The export is a folder on the node, with a file per disk and a description:
      gnt-backup export -n node2 --compress gzip web1
"""
IMPORT_OPTIONS = (
    command.Option(("--src-node",), "Node that has the export; found by itself when only one has it", "NODE"),
    command.Option(("--src-dir",), "Name of the export, when it is not the instance's", "EXPORT"),
    *creation.OPTIONS,
)
IMPORT_TEXT = """
    All that no option says comes from the export. Under its old name an instance gets its addresses back:
      gnt-backup import -n node3 web1
    Under another name it gets new MAC addresses, and IP addresses where they are asked for:
      gnt-backup import -n node3 --src-dir web1 --net 0:network=net1,ip0=pool web2
"""

COMMANDS = (
    command.Command(
        "export",
        export,
        "Export an instance to a node",
        (command.Argument("INSTANCE", completes="instance"),),
        EXPORT_OPTIONS,
        text=EXPORT_TEXT,
    ),
    command.Command(
        "import",
        restore,
        "Create an instance from an export",
        (command.Argument("INSTANCE"),),
        IMPORT_OPTIONS,
        text=IMPORT_TEXT,
    ),
    command.Command(
        "list",
        show_list,
        "List exports",
        (command.Argument("EXPORT", least=0, most=None),),
        (command.NODE, *command.QUERY, *command.FILTER),
        text=query.LIST_TEXT.replace("mfree > 1024 and not offline", 'node == "node1"'),
    ),
    LIST_FIELDS,
    command.Command("remove", remove, "Remove the exports of an instance", (command.Argument("EXPORT"),), command.JOB),
)
