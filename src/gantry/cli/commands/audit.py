"""``gantry audit``: who did what, from where and by which right, and what it changed.

``programs.gantry`` includes ``COMMAND``. The master answers with entries (QueryAudit); this module shows them.
"""

import json
import sys
import time
from collections.abc import Mapping

from gantry.cli import client, errors
from gantry.cli.framework import command, query
from gantry.cli.grammar import moments, syntax
from gantry.cli.output import documents

FIELDS = (
    client.Field("time", "Time", "timestamp", "When the job was submitted, or when it was done without a job"),
    client.Field("serial", "Serial", "number", "First record of the journal about it"),
    client.Field("job", "Job", "number", "Number of the job"),
    client.Field("user", "User", "text", "User with the API token, or (cluster) for the cluster itself"),
    client.Field("door", "Door", "text", "luxi, for the commands and the other front ends, or rapi"),
    client.Field("from", "From", "text", "Address of the user, or (master) for a process on the master"),
    client.Field("token", "Token", "text", "API token with which the user came"),
    client.Field("named", "Named", "text", "User whom a front end or a script names in the reason, as Neutron's door"),
    client.Field("right", "Right", "text", "By which right: access rules, or administrator"),
    client.Field("what", "What", "text", "Opcodes with their objects, or what was done without a job"),
    client.Field("status", "Status", "text", "How the job ended, or how far it is"),
    client.Field("reason", "Reason", "text", "Reason of the job"),
    client.Field("changes", "Changes", "text", "Changed objects, with their fields before and after"),
    client.Field("ops", "Opcodes", "text", "Opcodes with all their parameters, without secrets"),
)
DEFAULT_COLUMNS = ("time", "job", "user", "from", "right", "what", "status", "changes")
ENTRIES = 100
MOST = 10_000
"""Default and maximum number of entries."""


def show(call: command.Call) -> int:
    """Show the last entries."""
    limit = call.option("limit")
    if not 1 <= limit <= MOST:
        raise errors.InvalidError(f"--limit must be between 1 and {MOST}")
    question = {
        "user": call.option("who") or "",
        "object": call.option("object") or "",
        "since": call.option("since"),
        "until": call.option("until"),
        "limit": min(limit + 1, MOST),
    }
    answer = client.expect(call.client.call("QueryAudit", question), dict)
    entries = client.expect(answer.get("entries"), list)
    known = {field.name: field for field in FIELDS}
    columns = query.chosen_columns(call.option("output"), DEFAULT_COLUMNS)
    fields = [known.get(name) or client.Field(name, name, "unknown", "") for name in columns]
    table = client.Table(fields, [[_cell(entry, field) for field in fields] for entry in entries[-limit:]])
    code = query.print_table(call, table, formatters={"changes": _changes, "ops": json.dumps})
    if len(entries) > limit:
        print(f"Only the last {limit} are shown; --limit shows more", file=sys.stderr)
    else:
        _print_start(answer.get("since"), call.option("since"))
    return code


def _print_start(start: object, since: float | None) -> None:
    """Say where the journal begins if the question reaches back further."""
    begin = start.get("time") if isinstance(start, dict) and start["serial"] > 1 else None
    if isinstance(begin, int | float) and (since is None or since < begin):
        print(f"Earlier entries are not kept: the journal begins at {documents.clock(begin)}", file=sys.stderr)


def _cell(entry: Mapping[str, object], field: client.Field) -> tuple[int, object]:
    user, peer = entry["user"], entry["peer"]
    match field.name:
        case "user":
            token = entry.get("token")
            return 0, f"{user} ({token})" if token else user or "(cluster)"
        case "from":
            return (0, peer or "(master)") if user else (3, None)
    if field.kind == "unknown":
        return 1, None
    value = entry.get(field.name)
    return (0, value) if value else (3, None)


def _changes(value: object) -> str:
    return ", ".join(map(_change, client.expect(value, list)))


def _change(change: Mapping[str, object]) -> str:
    text = f"{change['kind']} {change['name'] or change['key']} {change['what']}"
    if change["fields"] is None:
        return f"{text} (the journal does not have it as it was before)"
    fields = [
        f"{field['path']} {_value(field['before'])} -> {_value(field['after'])}"
        for field in client.expect(change["fields"], list)
    ]
    if change["more_fields"]:
        fields.append(f"{change['more_fields']} more")
    return f"{text} ({'; '.join(fields)})" if fields else text


def _value(value: object) -> str:
    return (
        "-" if value is None else value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    )


def _time(text: str) -> float:
    return moments.parse(text, now=time.time())


COMMAND = command.Command(
    "audit",
    show,
    "Show who did what, from where and by which right, and what it changed",
    options=(
        command.Option(("--who",), "Show only what this user did", metavar="USER"),
        command.Option(
            ("--object",), "Show only what this object is about or changed, by name or UUID", metavar="NAME"
        ),
        command.Option(("--since",), "Start at this time", metavar="TIME", parse=_time),
        command.Option(("--until",), "End at this time", metavar="TIME", parse=_time),
        command.Option(
            ("--limit",),
            "Show at most this many of the last entries",
            metavar="N",
            default=ENTRIES,
            parse=syntax.number,
        ),
        *command.FIELDS_QUERY,
        command.Option(
            ("-o", "--output"),
            f"Set the columns, or +columns to add some: {', '.join(field.name for field in FIELDS)}",
            "FIELDS",
        ),
    ),
    text=f"""
        It is for administrators of the cluster. Times: {moments.FORMS}.
          gantry audit --who alice --since -1d
          gantry audit --object web1.example --format csv
    """,
)
