"""The selection of instances by name, by node or by tag, as in ``gnt-instance start --primary node1``.

Several instances at once need a confirmation or ``--force-multiple`` (contracts/commands.md#conventions).
"""

from collections.abc import Sequence

from gantry.cli import errors
from gantry.cli.framework import command
from gantry.cli.grammar import filters
from gantry.cli.output import terminal

MODES = {
    "all": "Select all instances",
    "instance": "Select instances by name (the default)",
    "primary": "Select instances by primary node: the arguments are nodes",
    "secondary": "Select instances by secondary node: the arguments are nodes",
    "node": "Select instances by primary or secondary node: the arguments are nodes",
    "tags": "Select instances with one of the tags: the arguments are tags",
    "node-tags": "Select nodes by tag, then instances as with --node: the arguments are tags",
    "pri-node-tags": "Select nodes by tag, then instances as with --primary: the arguments are tags",
    "sec-node-tags": "Select nodes by tag, then instances as with --secondary: the arguments are tags",
}
OPTIONS = (
    *(command.Option((f"--{mode}",), text, dest=f"select_{mode}") for mode, text in MODES.items()),
    command.Option(("--force-multiple",), "Do not ask for confirmation for several instances"),
)
ARGUMENTS = (command.Argument("INSTANCE", minimum=0, maximum=None, completes="instance"),)


def instances(call: command.Call, *, verb: str) -> list[str]:
    """Return the names of the selected instances; ask for confirmation if there are several."""
    modes = [mode for mode in MODES if call.option(f"select_{mode}")]
    if len(modes) > 1:
        raise errors.InvalidError(f"--{' and --'.join(modes)} exclude each other")
    mode = modes[0] if modes else "instance"
    if bool(call.arguments) == (mode == "all"):
        problem = "--all does not take names" if call.arguments else "no instances given"
        raise errors.InvalidError(problem, hint=f"name them, or give --all alone; see {call.program} --help")
    names = call.arguments if mode == "instance" else _selected(call, mode)
    if not names:
        raise errors.InvalidError(f"no instance matches --{mode} {' '.join(call.arguments)}".rstrip())
    if (len(names) > 1 or mode != "instance") and not call.option("force_multiple"):
        terminal.confirm(f"The {verb} will work on {len(names)} instances:", names=names, option="--force-multiple")
    return names


def _selected(call: command.Call, mode: str) -> list[str]:
    where = None
    if mode == "tags":
        where = filters.any_of("tags", call.arguments, operator="=[]")
    elif mode != "all":
        nodes = call.arguments if not mode.endswith("node-tags") else _tagged_nodes(call)
        where = _on_nodes(nodes, mode)
    return [str(record["name"]) for record in call.client.records("instance", ["name"], where=where)]


def _tagged_nodes(call: command.Call) -> list[str]:
    where = filters.any_of("tags", call.arguments, operator="=[]")
    nodes = [str(record["name"]) for record in call.client.records("node", ["name"], where=where)]
    if not nodes:
        raise errors.InvalidError(f"no node has any of the tags {', '.join(call.arguments)}")
    return nodes


def _on_nodes(nodes: Sequence[str], mode: str) -> filters.Filter:
    primary: filters.Filter = [["=", "pnode", node] for node in nodes]
    secondary: filters.Filter = [["=[]", "snodes", node] for node in nodes]
    kind = {"pri-node-tags": "primary", "sec-node-tags": "secondary"}.get(mode, mode)
    return ["|", *(primary if kind != "secondary" else []), *(secondary if kind != "primary" else [])]
