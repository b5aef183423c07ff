"""The commands ``list-tags``, ``add-tags`` and ``remove-tags`` of every program whose objects have tags.

``search-tags``, a command of ``gnt-cluster``, finds the tags of all objects.
"""

from gantry.cli import client, errors, machine
from gantry.cli.framework import command, submit

FROM = command.Option(
    ("--from",), "Read tags from this file, one per line; - is standard input", "FILE", dest="source", completes="file"
)


def commands(kind: str, *names: command.Argument) -> tuple[command.Command, ...]:
    """Declare the commands for a kind of object; ``names`` is the argument with the object's name, if it has one."""
    tags = command.Argument("TAG", minimum=0, maximum=None, field="tags")
    options = (FROM, *command.JOB)

    def show(call: command.Call) -> int:
        answer = client.expect(call.client.call("QueryTags", kind, call.arguments[0] if names else ""), list)
        for tag in sorted(map(str, answer)):
            print(tag)
        return 0

    def edit(op_id: str, call: command.Call) -> int:
        name, *values = call.arguments if names else ["", *call.arguments]
        if call.options.source:
            values += [line.strip() for line in machine.read_file(call.options.source).splitlines() if line.strip()]
        if not values:
            raise errors.InvalidError("no tags given", hint="write them after the name, or use --from FILE")
        return submit.carry_out(call, call.opcode(op_id, kind=kind, name=name, tags=values))

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
    """Print each object with a tag that matches the pattern, and the tag; the exit code is 1 if none matches."""
    matches = client.expect(submit.query(call, call.opcode("OP_TAGS_SEARCH")), list)
    for path, tag in matches:
        print(path, tag)
    return 0 if matches else 1


SEARCH = command.Command(
    "search-tags",
    search,
    "Find tags of all objects by a regular expression",
    (command.Argument("PATTERN", field="pattern"),),
    command.PRIORITY,
)
