"""``gnt-job list``: the columns that scripts read, and behind them columns for a person.

``user`` is who submitted the job, ``age`` how long ago, and ``error`` the first line of why it failed. A list without
headers or with a separator, and every format for programs, has these columns only if ``-o`` names them. The age is made
here; every other column is a field of the master, which is asked for the fields of the table and for no other.
"""

import time
from collections.abc import Sequence

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
PERSONAL = ("user", "age", "error")
"""The columns for a person, behind those of scripts."""
AGE = client.Field("age", "Age", "text", "How long ago the job was submitted")
AGE_SOURCE = "received_ts"
"""The master's field that the age is made of."""
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
    default = LISTING.columns if is_for_scripts else (*LISTING.columns, *PERSONAL)
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
    """Query the columns, with the age in its place and errors that fit a line of the table."""
    sources = [AGE_SOURCE if name == AGE.name else name for name in columns]
    table = call.client.query("job", list(dict.fromkeys(sources)), where=where)
    if not {AGE.name, "error"} & {*columns}:
        return table
    at = {field.name: index for index, field in enumerate(table.fields)}
    now = time.time()

    def cell(name: str, source: str, row: client.Row) -> tuple[int, object]:
        status, value = row[at[source]]
        if status == 0 and name == AGE.name:
            value = _age(value, now)
            return (0, value) if value else (3, None)
        if status == 0 and name == "error":
            value = _shortened(client.expect(value, str))
        return status, value

    fields = [AGE if name == AGE.name else table.fields[at[name]] for name in columns]
    pairs = list(zip(columns, sources, strict=True))
    return client.Table(fields, [[cell(*pair, row) for pair in pairs] for row in table.rows])


def _shortened(line: str) -> str:
    return line if len(line) <= ERROR_WIDTH else f"{line[: ERROR_WIDTH - 3]}..."


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
    """List the master's fields and the age, or those that the arguments name."""
    names = [name for name in call.arguments if name != AGE.name]
    known = call.client.fields("job", names or None) if names or not call.arguments else []
    return query.print_fields(call, [*known, *([AGE] if AGE.name in call.arguments or not call.arguments else [])])
