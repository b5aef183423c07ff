"""``gantry``: what is ours alone: what happened in the cluster, what happens now, the configuration for others."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from gantry.cli import client, errors, machine
from gantry.cli.commands import segment_ranges
from gantry.cli.framework import command, query
from gantry.cli.grammar import moments, syntax

ABOUT = "Tells what happened in the cluster and what happens, exports the configuration, and keeps segment ranges."

KINDS = ("cluster", "group", "node", "network", "port", "segmentrange", "subnetpool", "instance", "job")
PART = 1000
PATIENCE = 60.0
"""Seconds that one question for events waits."""

GAP = 1.0
"""Seconds between two attempts to reach the master again."""

FIELDS = [
    client.Field("serial", "Serial", "number", ""),
    client.Field("time", "Time", "timestamp", ""),
    client.Field("job", "Job", "number", ""),
    client.Field("opcode", "Opcode", "text", ""),
    client.Field("user", "User", "text", ""),
    client.Field("reason", "Reason", "text", ""),
    client.Field("changes", "Changes", "text", ""),
]


def history(call: command.Call) -> int:
    """Show the last changes of the state."""
    limit = call.option("limit")
    if limit < 1:
        raise errors.InvalidError("--limit has to be 1 or more")
    serial, moment = call.option("since") or (None, None)
    answer = call.client.call("QueryHistory", call.option("kind"), call.option("name"), serial, moment, limit + 1)
    found = client.expect(client.expect(answer, dict).get("events"), list)
    shown = found[-limit:]
    code = query.print_table(call, client.Table(FIELDS, [_row(one) for one in shown]))
    if len(found) > len(shown):
        print(f"Only the last {len(shown)} are shown; --limit shows more", file=sys.stderr)
    return code


def _row(event: Mapping[str, object]) -> client.Row:
    cause = client.expect(event["cause"], dict)
    changes = [_words(change) for change in client.expect(event["changes"], list)]
    values = {**cause, "serial": event["serial"], "time": event["time"], "changes": ", ".join(changes)}
    cells = [values.get(field.name) for field in FIELDS]
    return [(0, cell) if cell else (3, None) for cell in cells]


def _words(change: Mapping[str, object]) -> str:
    return f"{change['kind']} {change['name'] or change['key']} {change['what']}"


def events(call: command.Call) -> int:
    """Print events, a line of JSON each, up to now or for ever."""
    start, follow = call.option("first"), call.option("follow")
    expected = start
    for event in _stream(call, start - 1, follow=follow):
        if event["serial"] != expected:
            print(f"events {expected} to {event['serial'] - 1} are not kept on this master", file=sys.stderr)
        expected = event["serial"] + 1
        print(json.dumps(event, ensure_ascii=False), flush=True)
    return 0


def _stream(call: command.Call, after: int, *, follow: bool) -> Iterator[dict[str, int]]:
    """Yield events after a serial; with ``follow`` from a master that was away too, when it is back."""
    reached = False
    while True:
        try:
            answer = call.client.call("WaitForEvents", after, PART, PATIENCE if follow else 0)
        except errors.CommandError as error:
            if isinstance(error, errors.ServerError) or not (follow and reached):
                raise
            time.sleep(GAP)
            continue
        reached = True
        found = client.expect(client.expect(answer, dict)["events"], list)
        yield from found
        if found:
            after = found[-1]["serial"]
        elif not follow:
            return


def export(call: command.Call) -> int:
    """Print the configuration as JSON, or write it to a file that only its owner reads."""
    text = json.dumps(call.client.call("ExportConfig"), indent=1, ensure_ascii=False) + "\n"
    path = call.option("output")
    if path is None:
        sys.stdout.write(text)
        return 0
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
    except OSError as error:
        raise errors.CommandError(f"{path}: {error.strerror or error}") from None
    return 0


def simulate(call: command.Call) -> int:
    """Run simulated clusters under faults, each from a seed."""
    options = call.options
    if (options.seed is None) == (options.seeds is None):
        raise errors.InvalidError("either --seed N or --seeds FIRST-LAST is needed")
    chosen = ["--seed", str(options.seed)] if options.seeds is None else ["--seeds", options.seeds]
    words = [machine.program("gantry-simulate"), *chosen]
    words += ["--processes", str(options.processes)] if options.processes else []
    # Else the order of a set of names would be another one in every process, and so would the run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        return subprocess.run(words, env=environment, check=False).returncode
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="is Gantry's simulation installed here?"
        ) from None


def _since(text: str) -> tuple[int | None, float | None]:
    """Return a serial or a time: a number alone is a serial."""
    if text.isdecimal():
        return syntax.number(text), None
    return None, moments.parse(text, now=time.time())


COMMANDS = (
    command.Command(
        "history",
        history,
        "Show the last changes of the cluster's state, and which jobs made them",
        options=(
            command.Option(("--kind",), "Changes of such objects only", metavar="KIND", choices=KINDS),
            command.Option(("--name",), "Changes of this object only, by name, UUID or number", metavar="NAME"),
            command.Option(("--since",), "From this serial, or this time, on", metavar="SERIAL|TIME", parse=_since),
            command.Option(("--limit",), "How many changes", metavar="N", default=100, parse=syntax.number),
            *command.FIELDS_QUERY,
        ),
        text=f"A number is a serial; for times {moments.FORMS.replace(', seconds since the epoch,', ',')}.",
    ),
    command.Command(
        "events",
        events,
        "Print changes of the state as they happen, a line of JSON each",
        options=(
            command.Option(
                ("--from",), "Begin with this serial", "SERIAL", dest="first", default=1, parse=syntax.number
            ),
            command.Option(("--follow",), "Go on for ever, over restarts of the master too"),
        ),
    ),
    command.Command(
        "export-config",
        export,
        "Print the configuration as JSON, with secrets blanked",
        options=(command.Option(("--output",), "Write it to this file", metavar="FILE", completes="file"),),
    ),
    command.Command(
        "simulate",
        simulate,
        "Run simulated clusters under faults, each from a seed; tell which promise was broken",
        options=(
            command.Option(("--seed",), "Run this seed and show its story", metavar="N", parse=syntax.number),
            command.Option(("--seeds",), "Run these seeds on all processors", metavar="FIRST-LAST"),
            command.Option(("--processes",), "How many at once", metavar="N", parse=syntax.number),
        ),
    ),
    *segment_ranges.COMMANDS,
)
