"""``gnt-job list``: the master's columns, and behind them columns for a person, which this module derives.

``user`` is who submitted the job, ``age`` how long ago, and ``error`` the first line of why it failed. Scripts read the
columns before them, so a list without headers or with a separator, and every format for programs, has the derived
columns only if ``-o`` names them.
"""

import time
from collections.abc import Mapping, Sequence

from gantry.cli import client, errors
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import filters, syntax
from gantry.cli.output import documents

LISTING = query.Listing(
    "job",
    ("id", "status", "summary"),
    name="id",
    formatters=dict.fromkeys(("received_ts", "start_ts", "end_ts"), documents.moment),
)
DERIVED = {
    "user": client.Field("user", "User", "text", "Who submitted the job: a program, or a user of the remote API"),
    "age": client.Field("age", "Age", "text", "How long ago the job was submitted"),
    "error": client.Field("error", "Error", "text", "Why the job failed"),
}
"""The columns that are made here, by name."""
SOURCES = {"user": "ops", "age": "received_ts"}
"""The master's field that a derived column is made of."""
STATES = {
    "pending": ("queued", "waiting"),
    "queued": ("queued",),
    "waiting": ("waiting",),
    "running": ("running", "canceling"),
    "error": ("error",),
    "finished": submit.FINAL,
}
"""Maps an option to the states of the jobs that it selects."""
ERROR_WIDTH = 60
NEWEST = command.Option(("--newest",), "List only the newest N jobs", "N", parse=syntax.number)
ARCHIVED = command.Option(("--archived",), "Also list archived jobs, and add the column archived")


def selected_states(call: command.Call) -> list[str]:
    """Return the states of the jobs that options such as ``--pending`` select."""
    return [state for name, states in STATES.items() if call.option(name) for state in states]


def show(call: command.Call) -> int:
    """List jobs."""
    options = call.options
    if options.newest is not None and options.newest < 1:
        raise errors.InvalidError("--newest must be at least 1")
    if options.archived:
        options.output = f"{options.output or '+'},archived".replace("+,", "+")
    is_for_scripts = options.no_headers or options.separator is not None or options.format != "table"
    default = LISTING.columns if is_for_scripts else (*LISTING.columns, *DERIVED)
    columns = query.chosen_columns(options.output, default)
    where = query.matching(call, LISTING, filters.any_of("status", selected_states(call)))
    if options.newest is not None:
        ids = _newest(call, where, options.newest)
        # Without a job, a filter that no job matches: an empty filter would match all.
        where = filters.any_of("id", ids or [0])
    return query.print_table(call, _table(call, columns, where), formatters=LISTING.formatters)


def _newest(call: command.Call, where: filters.Filter | None, count: int) -> list[int]:
    records = call.client.records("job", ["id"], where=where)
    return sorted(client.expect(record["id"], int) for record in records)[-count:]


def _table(call: command.Call, columns: Sequence[str], where: filters.Filter | None) -> client.Table:
    """Query the master's columns, and put the derived ones in their places."""
    derived = [name for name in columns if name in DERIVED]
    sources = [SOURCES.get(name, name) for name in columns if name != "error"]
    table = call.client.query("job", list(dict.fromkeys([*sources, *(["id"] if derived else [])])), where=where)
    if not derived:
        return table
    at = {field.name: index for index, field in enumerate(table.fields)}
    reasons = _reasons(call, where) if "error" in derived else {}
    now = time.time()

    def cell(name: str, row: client.Row) -> tuple[int, object]:
        if name not in DERIVED:
            return row[at[name]]
        status, value = row[at[SOURCES.get(name, "id")]]
        if status == 0:
            value = _user(value) if name == "user" else _age(value, now) if name == "age" else reasons.get(value)
        return (0, value) if status == 0 and value else (3, None)

    fields = [DERIVED.get(name) or table.fields[at[name]] for name in columns]
    return client.Table(fields, [[cell(name, row) for name in columns] for row in table.rows])


def _reasons(call: command.Call, where: filters.Filter | None) -> dict[object, str]:
    """Return the first line of each failed job's error, by the job's number; only those jobs' results are large."""
    failed = filters.all_of(where, filters.any_of("status", ["error"]))
    records = call.client.records("job", ["id", "opstatus", "opresult"], where=failed)
    return {record["id"]: _reason(record) for record in records}


def _reason(record: Mapping[str, object]) -> str:
    states, results = record.get("opstatus"), record.get("opresult")
    if not isinstance(states, list) or not isinstance(results, list) or "error" not in states:
        return ""
    line = client.server_error(results[states.index("error")]).message.partition("\n")[0]
    return line if len(line) <= ERROR_WIDTH else f"{line[: ERROR_WIDTH - 3]}..."


def _user(ops: object) -> str:
    """Return who submitted a job: the last part of the first source in its reason that is not the reason itself."""
    first = ops[0] if isinstance(ops, list) and ops else {}
    trail = first.get("reason") if isinstance(first, dict) else None
    names = [str(entry[0]) for entry in trail or [] if entry and entry[0] != "gnt:user"]
    return names[0].rpartition(":")[2] if names else ""


def _age(moment: object, now: float) -> str:
    """Return a job's age in its largest unit, as in ``5 m``."""
    if not isinstance(moment, list) or not moment:
        return ""
    seconds = max(0.0, now - client.expect(moment[0], int))
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


def show_fields(call: command.Call) -> int:
    """List the master's fields and the derived ones, or those that the arguments name."""
    names = [name for name in call.arguments if name not in DERIVED]
    known = call.client.fields("job", names or None) if names or not call.arguments else []
    derived = [field for name, field in DERIVED.items() if not call.arguments or name in call.arguments]
    return query.print_fields(call, [*known, *derived])
