"""``gnt-node``: the machines of the cluster."""

from gantry.cli import errors, machine
from gantry.cli.commands import moves, storage, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents, object_info

ABOUT = "Adds, shows and removes the machines of the cluster."

LISTING = query.Listing("node", ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"))
ADD = "OP_NODE_ADD"
MODIFY = "OP_NODE_SET_PARAMS"
NODE = (command.Argument("NODE", completes="node", field="node_name"),)
NODES = (command.Argument("NODE", minimum=0, maximum=None, completes="node"),)


def add(call: command.Call) -> int:
    """Add a machine to the cluster."""
    options = call.options
    if bool(options.join_token) == bool(options.join_token_file):
        raise errors.InvalidError(
            "give the node's join token with --join-token-file or --join-token",
            hint="gantry-noded on the new node writes the token to /var/lib/gantry/join-token",
        )
    token = options.join_token or machine.read_file(options.join_token_file)
    return submit.carry_out(call, call.opcode(ADD, join_token=token.strip()))


def info(call: command.Call) -> int:
    """Show nodes in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("node", list(object_info.NODE_FIELDS), where=where)
    print(documents.document([object_info.node(record) for record in records]))
    return 0


def modify(call: command.Call) -> int:
    """Change a node's flags and parameters."""
    return submit.carry_out(call, call.opcode(MODIFY), report=_print_changes)


def _print_changes(result: object) -> None:
    changes = result if isinstance(result, list) else []
    if changes:
        print("Modified node")
    for name, value in changes:
        print(f" - {name} -> {value}")


def _flag(opcode: str, field: str, *names: str) -> command.Option:
    return command.field_option(
        opcode, field, *names, metavar="yes|no", parse=lambda text: syntax.truth(text, name=field)
    )


def remove(call: command.Call) -> int:
    """Remove a node from the cluster."""
    return submit.carry_out(call, call.opcode("OP_NODE_REMOVE"))


PARAMETERS = command.Option(
    ("--node-parameters",),
    "Set node parameters that differ from the node group's, as in cpu_speed=1.5; -name resets one",
    "PARAMS",
    parse=syntax.parameters,
    field="ndparams",
)
ADD_TEXT = """
    The machine runs gantry-noded and is not yet part of a cluster. On its first start the daemon writes
    a join token to /var/lib/gantry/join-token (below GANTRY_ROOT: lib/join-token). Copy that file to
    this machine over a channel that you trust; both sides authenticate each other with it:
      scp node2:/var/lib/gantry/join-token . && gnt-node add --join-token-file join-token node2
"""

COMMANDS = (
    command.Command(
        "add",
        add,
        "Add a machine to the cluster",
        (command.Argument("NODE", field="node_name"),),
        (
            command.Option(
                ("--join-token-file",),
                "Read the node's join token from this file; - is standard input",
                "FILE",
                completes="file",
            ),
            command.Option(
                ("--join-token",), "Give the join token itself; other users of this machine may see it", "TEXT"
            ),
            command.field_option(
                ADD,
                "primary_ip",
                "--primary-ip",
                help="Set the address of the node daemon; without it the node name is resolved",
                metavar="ADDRESS",
            ),
            command.field_option(ADD, "port", "--port", metavar="PORT"),
            command.field_option(ADD, "group", "-g", "--node-group", metavar="GROUP", completes="group"),
            _flag(ADD, "master_capable", "--master-capable"),
            _flag(ADD, "vm_capable", "--vm-capable"),
            PARAMETERS,
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
    *query.commands(LISTING, "nodes", arguments=NODES),
    command.Command("info", info, "Show nodes in full", NODES, aliases=("show",)),
    command.Command(
        "modify",
        modify,
        "Change a node's flags and parameters",
        NODE,
        (
            _flag(MODIFY, "master_candidate", "-C", "--master-candidate"),
            _flag(MODIFY, "drained", "-D", "--drained"),
            _flag(MODIFY, "offline", "-O", "--offline"),
            _flag(MODIFY, "master_capable", "--master-capable"),
            _flag(MODIFY, "vm_capable", "--vm-capable"),
            PARAMETERS,
            command.field_option(MODIFY, "auto_promote", "--auto-promote"),
            command.field_option(MODIFY, "force", "-f", "--force"),
            *command.JOB,
        ),
    ),
    command.Command("remove", remove, "Remove a node from the cluster", NODE, command.JOB),
    *moves.NODE_COMMANDS,
    *storage.NODE_COMMANDS,
    *tags.commands("node", *NODE),
)
