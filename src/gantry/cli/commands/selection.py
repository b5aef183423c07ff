"""Which instances a command works on: names, all, those of nodes, or those with tags.

``gnt-instance start --primary node1`` and its kin. Several instances at once need a yes or ``--force-multiple``.

See contracts/commands.md#conventions.
"""

from collections.abc import Sequence

from gantry.cli import errors
from gantry.cli.framework import command
from gantry.cli.grammar import filters
from gantry.cli.output import terminal

MODES = {
    "all": "All instances",
    "instance": "The arguments are instances (the default)",
    "primary": "The arguments are nodes: instances that run there",
    "secondary": "The arguments are nodes: instances with a copy of their disks there",
    "node": "The arguments are nodes: both",
    "tags": "The arguments are tags: instances with one of them",
    "node-tags": "The arguments are tags of nodes, taken as by --node",
    "pri-node-tags": "The arguments are tags of nodes, taken as by --primary",
    "sec-node-tags": "The arguments are tags of nodes, taken as by --secondary",
}
OPTIONS = (
    *(command.Option((f"--{mode}",), text, dest=f"select_{mode}") for mode, text in MODES.items()),
    command.Option(("--force-multiple",), "Do not ask when there are several"),
)
ARGUMENTS = (command.Argument("INSTANCE", least=0, most=None, completes="instance"),)


def instances(call: command.Call, *, verb: str) -> list[str]:
    """Return the names of the chosen instances, after asking when they are several."""
    modes = [mode for mode in MODES if call.option(f"select_{mode}")]
    if len(modes) > 1:
        raise errors.InvalidError(f"--{' and --'.join(modes)} exclude each other")
    mode = modes[0] if modes else "instance"
    if bool(call.arguments) == (mode == "all"):
        raise errors.InvalidError("name what to work on, or give --all alone", hint=f"see {call.program} --help")
    names = call.arguments if mode == "instance" else _found(call, mode)
    if not names:
        raise errors.InvalidError(f"no instance is chosen by --{mode} {' '.join(call.arguments)}".rstrip())
    if (len(names) > 1 or mode != "instance") and not call.option("force_multiple"):
        terminal.confirm(f"The {verb} will work on {len(names)} instances:", names=names)
    return names


def _found(call: command.Call, mode: str) -> list[str]:
    where = None
    if mode == "tags":
        where = filters.any_of("tags", call.arguments, operator="=[]")
    elif mode != "all":
        nodes = call.arguments if not mode.endswith("node-tags") else _nodes_with(call)
        where = _on_nodes(nodes, mode)
    return [str(record["name"]) for record in call.client.records("instance", ["name"], where=where)]


def _nodes_with(call: command.Call) -> list[str]:
    where = filters.any_of("tags", call.arguments, operator="=[]")
    found = [str(record["name"]) for record in call.client.records("node", ["name"], where=where)]
    if not found:
        raise errors.InvalidError(f"no node has one of the tags {', '.join(call.arguments)}")
    return found


def _on_nodes(nodes: Sequence[str], mode: str) -> filters.Filter:
    primary: filters.Filter = [["=", "pnode", node] for node in nodes]
    secondary: filters.Filter = [["=[]", "snodes", node] for node in nodes]
    kind = {"pri-node-tags": "primary", "sec-node-tags": "secondary"}.get(mode, mode)
    return ["|", *(primary if kind != "secondary" else []), *(secondary if kind != "primary" else [])]
