"""The commands ``list-tags``, ``add-tags`` and ``remove-tags`` of every program whose objects have tags.

``search-tags`` is the cluster's, and finds them wherever they are.
"""

from gantry.cli import client, errors, machine
from gantry.cli.framework import command, submit

FROM = command.Option(
    ("--from",), "Read tags from this file, one per line; - is standard input", "FILE", dest="source", completes="file"
)


def commands(kind: str, *names: command.Argument) -> tuple[command.Command, ...]:
    """Declare the commands for a kind of object; ``names`` is the argument that names one, none for the cluster."""
    tags = command.Argument("TAG", least=0, most=None)
    options = (FROM, *command.JOB)

    def show(call: command.Call) -> int:
        found = client.expect(call.client.call("QueryTags", kind, call.arguments[0] if names else ""), list)
        for tag in sorted(map(str, found)):
            print(tag)
        return 0

    def edit(op_id: str, call: command.Call) -> int:
        name, *given = call.arguments if names else ["", *call.arguments]
        if call.options.source:
            given += [line.strip() for line in machine.read_file(call.options.source).splitlines() if line.strip()]
        if not given:
            raise errors.InvalidError("no tags given", hint="write them after the name, or use --from FILE")
        return submit.carry_out(call, call.opcode(op_id, kind=kind, name=name, tags=given))

    noun = {"cluster": "the cluster", "nodegroup": "one node group"}.get(kind, f"one {kind}")
    return (
        command.Command("list-tags", show, f"List the tags of {noun}", names),
        command.Command(
            "add-tags", lambda call: edit("OP_TAGS_SET", call), f"Add tags to {noun}", (*names, tags), options
        ),
        command.Command(
            "remove-tags", lambda call: edit("OP_TAGS_DEL", call), f"Remove tags from {noun}", (*names, tags), options
        ),
    )


def search(call: command.Call) -> int:
    """Print the objects that have a tag in which the pattern is found, with the tag; the exit code is 1 for none."""
    found = client.expect(submit.ask(call, call.opcode("OP_TAGS_SEARCH")), list)
    for path, tag in found:
        print(path, tag)
    return 0 if found else 1


SEARCH = command.Command(
    "search-tags",
    search,
    "Find tags of all objects by a regular expression",
    (command.Argument("PATTERN", field="pattern"),),
    command.PRIORITY,
)
