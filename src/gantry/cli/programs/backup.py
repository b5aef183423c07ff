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
        raise errors.InvalidError("Target node must be specified", hint="add -n NODE")
    if options.remove_instance and not (options.force or options.dry_run):
        terminal.confirm(f"This removes the instance {name} when its export is complete. Continue?")
    return submit.carry_out(call, call.opcode("OP_BACKUP_EXPORT", mode="local"))


def restore(call: command.Call) -> int:
    """Create an instance from an export; settings without an option come from the export."""
    op = creation.opcode(call) | {"mode": "import"}
    if not call.options.net and not call.options.no_nics:
        op["nics"] = []
    return submit.carry_out(call, op)


def show_list(call: command.Call) -> int:
    """List the exports of all nodes or of one node."""
    node = call.options.node
    return query.show(call, LISTING, where=filters.any_of("node", [node]) if node else None)


def remove(call: command.Call) -> int:
    """Remove the exports of an instance."""
    return submit.carry_out(call, call.opcode("OP_BACKUP_REMOVE"))


_, LIST_FIELDS = query.commands(LISTING, "exports", arguments=())
EXPORT = "OP_BACKUP_EXPORT"
EXPORT_OPTIONS = (
    command.field_option(EXPORT, "target_node", "-n", "--node", metavar="NODE", completes="node"),
    command.field_option(
        EXPORT,
        "compress",
        "--transport-compression",
        "--compress",
        metavar="PROGRAM",
        dest="transport_compression",
        choices=COMPRESSIONS,
    ),
    command.field_option(
        EXPORT,
        "shutdown",
        "--noshutdown",
        help="Do not stop the instance; its storage must support snapshots",
        negated=True,
    ),
    command.field_option(EXPORT, "shutdown_timeout", "--shutdown-timeout", metavar="SECONDS"),
    command.field_option(EXPORT, "remove_instance", "--remove-instance"),
    command.field_option(EXPORT, "ignore_remove_failures", "--ignore-remove-failures"),
    command.FORCE,
    command.accepted("--long-sleep", because="storage without snapshots always keeps the instance down for the copy"),
    *(
        command.accepted(f"--zeroing-timeout-{part}", metavar="SECONDS", because="no helper machine writes the disks")
        for part in ("fixed", "per-mib")
    ),
    *command.JOB,
)
EXPORT_TEXT = """
    The export is a folder on the node, with a file per disk and a description:
      gnt-backup export -n node2 --compress gzip web1
"""
IMPORT_OPTIONS = (
    command.field_option(creation.CREATE, "src_node", "--src-node", metavar="NODE"),
    command.field_option(creation.CREATE, "src_path", "--src-dir", metavar="EXPORT"),
    command.accepted("--compress", metavar="PROGRAM", because="an export says how it is compressed"),
    *creation.OPTIONS,
)
IMPORT_TEXT = """
    What no option sets comes from the export. Under its old name an instance gets its old addresses:
      gnt-backup import -n node3 web1
    Under another name it gets new MAC addresses, and the IP addresses that options ask for:
      gnt-backup import -n node3 --src-dir web1 --net 0:network=net1,ip0=pool web2
"""

COMMANDS = (
    command.Command(
        "export",
        export,
        "Export an instance to a node",
        (command.Argument("INSTANCE", completes="instance", field="instance_name"),),
        EXPORT_OPTIONS,
        text=EXPORT_TEXT,
    ),
    command.Command(
        "import",
        restore,
        "Create an instance from an export",
        creation.ARGUMENTS,
        IMPORT_OPTIONS,
        text=IMPORT_TEXT,
    ),
    command.Command(
        "list",
        show_list,
        "List exports",
        (command.Argument("EXPORT", minimum=0, maximum=None),),
        (command.NODE, *command.QUERY, *command.FILTER),
        text=query.LIST_TEXT.replace("mfree > 1024 and not offline", 'node == "node1"'),
    ),
    LIST_FIELDS,
    command.Command(
        "remove",
        remove,
        "Remove the exports of an instance",
        (command.Argument("EXPORT", field="instance_name"),),
        command.JOB,
    ),
)
