"""``gnt-group``: node groups, with the parameters and policy that their nodes and instances share."""

from gantry.cli.commands import moves, policies, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.output import documents, object_info

ABOUT = "Creates and changes node groups, and assigns nodes to them."

LISTING = query.Listing("group", ("name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"))
GROUP = (command.Argument("GROUP", completes="group", field="group_name"),)
GROUPS = (command.Argument("GROUP", minimum=0, maximum=None, completes="group"),)


def add(call: command.Call) -> int:
    """Create a node group."""
    return submit.carry_out(call, call.opcode("OP_GROUP_ADD", **policies.opcode_fields(call.options)))


def modify(call: command.Call) -> int:
    """Change a node group."""
    return submit.carry_out(call, call.opcode("OP_GROUP_SET_PARAMS", **policies.opcode_fields(call.options)))


def rename(call: command.Call) -> int:
    """Rename a node group."""
    return submit.carry_out(call, call.opcode("OP_GROUP_RENAME"))


def remove(call: command.Call) -> int:
    """Remove a node group."""
    return submit.carry_out(call, call.opcode("OP_GROUP_REMOVE"))


def assign_nodes(call: command.Call) -> int:
    """Move nodes to a node group."""
    return submit.carry_out(call, call.opcode("OP_GROUP_ASSIGN_NODES", nodes=call.arguments[1:]))


def info(call: command.Call) -> int:
    """Show node groups in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("group", list(object_info.GROUP_FIELDS), where=where)
    print(documents.document([object_info.group(record) for record in records]))
    return 0


SETTINGS = (
    command.field_option(
        "OP_GROUP_ADD",
        "alloc_policy",
        "--alloc-policy",
        metavar="POLICY",
        choices=("preferred", "last_resort", "unallocable"),
    ),
    *policies.OPTIONS,
)
TEXT = """
    A parameter or policy that the node group does not set has the cluster's value. The word default resets a
    setting, as in --node-parameters cpu_speed=default or --ipolicy-bounds-specs default.
"""

COMMANDS = (
    command.Command("add", add, "Create a node group", GROUP, (*SETTINGS, command.TAGS, *command.JOB), text=TEXT),
    command.Command("modify", modify, "Change a node group", GROUP, (*SETTINGS, *command.JOB), text=TEXT),
    command.Command(
        "rename", rename, "Rename a node group", (*GROUP, command.Argument("NEW-NAME", field="new_name")), command.JOB
    ),
    command.Command(
        "assign-nodes",
        assign_nodes,
        "Move nodes to a node group",
        (*GROUP, command.Argument("NODE", maximum=None, completes="node")),
        (
            command.field_option("OP_GROUP_ASSIGN_NODES", "force", "-f", "--force"),
            *command.JOB,
        ),
    ),
    *moves.GROUP_COMMANDS,
    *query.commands(LISTING, "node groups", arguments=GROUPS),
    command.Command("info", info, "Show node groups in full", GROUPS, aliases=("show",)),
    command.Command(
        "show-ispecs-cmd",
        policies.show_groups,
        "Print the commands that create node groups with the same instance sizes",
        GROUPS,
        (policies.INCLUDE_DEFAULTS,),
    ),
    command.Command("remove", remove, "Remove a node group without nodes", GROUP, command.JOB),
    *tags.commands("nodegroup", *GROUP),
)
