"""``gnt-group``: node groups, what their nodes and instances have in common."""

from gantry.cli.commands import moves, policies, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.output import documents, object_info

ABOUT = "Makes and changes node groups, and puts nodes into them."

LISTING = query.Listing("group", ("name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"))
ONE = (command.Argument("GROUP", completes="group"),)
SOME = (command.Argument("GROUP", least=0, most=None, completes="group"),)


def _settings(call: command.Call) -> dict[str, object]:
    policy = {"alloc_policy": call.options.alloc_policy} if call.options.alloc_policy else {}
    return {"group_name": call.arguments[0], **policy, **policies.given(call.options)}


def add(call: command.Call) -> int:
    """Make a node group."""
    op = {"OP_ID": "OP_GROUP_ADD", **_settings(call)}
    if call.options.tags:
        op["tags"] = call.options.tags
    return submit.carry_out(call, op)


def modify(call: command.Call) -> int:
    """Change a node group."""
    return submit.carry_out(call, {"OP_ID": "OP_GROUP_SET_PARAMS", **_settings(call)})


def rename(call: command.Call) -> int:
    """Give a node group another name."""
    name, new_name = call.arguments
    return submit.carry_out(call, {"OP_ID": "OP_GROUP_RENAME", "group_name": name, "new_name": new_name})


def remove(call: command.Call) -> int:
    """Remove a node group."""
    return submit.carry_out(call, {"OP_ID": "OP_GROUP_REMOVE", "group_name": call.arguments[0]})


def assign_nodes(call: command.Call) -> int:
    """Put nodes into a node group."""
    name, *nodes = call.arguments
    op = {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": name, "nodes": nodes, "force": call.options.force}
    return submit.carry_out(call, op)


def info(call: command.Call) -> int:
    """Show node groups in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("group", list(object_info.GROUP_FIELDS), where=where)
    print(documents.document([object_info.group(record) for record in records]))
    return 0


SETTINGS = (
    command.Option(
        ("--alloc-policy",),
        "Whether instances that name no node may come here: yes, when no other group has room, no",
        "POLICY",
        choices=("preferred", "last_resort", "unallocable"),
    ),
    *policies.OPTIONS,
)
TEXT = """
    Parameters and policy are the cluster's where nothing is set. What is not named stays; the word default takes a
    setting back, as in --node-parameters cpu_speed=default or --ipolicy-bounds-specs default.
"""

COMMANDS = (
    command.Command("add", add, "Make a node group", ONE, (*SETTINGS, command.TAGS, *command.JOB), text=TEXT),
    command.Command("modify", modify, "Change a node group", ONE, (*SETTINGS, *command.JOB), text=TEXT),
    command.Command(
        "rename", rename, "Give a node group another name", (*ONE, command.Argument("NEW-NAME")), command.JOB
    ),
    command.Command(
        "assign-nodes",
        assign_nodes,
        "Put nodes into a node group",
        (*ONE, command.Argument("NODE", most=None, completes="node")),
        (
            command.Option(("-f", "--force"), "Go on though an instance loses a network, or has disks in two groups"),
            *command.JOB,
        ),
    ),
    *moves.GROUPS,
    *query.commands(LISTING, "node groups", arguments=SOME),
    command.Command("info", info, "Show node groups in full", SOME, aliases=("show",)),
    command.Command(
        "show-ispecs-cmd",
        policies.show_groups,
        "Print the command that makes node groups with their sizes of instances",
        SOME,
    ),
    command.Command("remove", remove, "Remove a node group without nodes", ONE, command.JOB),
    *tags.commands("nodegroup", *ONE),
)
