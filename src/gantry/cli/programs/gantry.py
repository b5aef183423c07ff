"""``gantry``: the commands without a Ganeti counterpart, from history and events to API tokens and webhooks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from gantry.cli import client, errors, machine
from gantry.cli.commands import audit, segment_ranges, segments, tokens, webhooks
from gantry.cli.framework import command, query
from gantry.cli.grammar import moments, syntax
from gantry.cli.output import documents

ABOUT = """\
Shows history, audit and events, exports the configuration, examines a machine,
and manages segment ranges, API tokens and webhooks. Instances, networks, nodes and the rest are managed by
gnt-instance, gnt-network, gnt-node and the other gnt-* programs."""

KINDS = (
    "cluster",
    "group",
    "node",
    "network",
    "port",
    "segmentrange",
    "subnetpool",
    "instance",
    "access",
    "token",
    "webhook",
    "job",
)
EVENTS_PER_REQUEST = 1000
WAIT_SECONDS = 60.0
"""Seconds that a request waits for events."""

BACK_OFF_SECONDS = 1.0
"""Wait before the next attempt to reach the master."""

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
        raise errors.InvalidError("--limit must be at least 1")
    serial, moment = call.option("since") or (None, None)
    answer = call.client.call("QueryHistory", call.option("kind"), call.option("name"), serial, moment, limit + 1)
    rows = client.expect(client.expect(answer, dict).get("events"), list)
    last_rows = rows[-limit:]
    code = query.print_table(call, client.Table(FIELDS, [_row(event) for event in last_rows]))
    if len(rows) > len(last_rows):
        print(f"Only the last {len(last_rows)} changes are shown; --limit shows more", file=sys.stderr)
    else:
        _print_start(client.expect(answer, dict).get("since"), serial=serial, moment=moment)
    return code


def _print_start(start: object, *, serial: int | None, moment: float | None) -> None:
    """Say where the journal begins if the question reaches back further."""
    if not isinstance(start, dict) or not isinstance(start.get("time"), int | float) or start["serial"] <= 1:
        return
    is_covered = (serial is not None and serial >= start["serial"]) or (moment is not None and moment >= start["time"])
    if not is_covered:
        begin = documents.clock(start["time"])
        print(
            f"Earlier changes are not kept: the journal begins with serial {start['serial']}, {begin}", file=sys.stderr
        )


def _row(event: Mapping[str, object]) -> client.Row:
    cause = client.expect(event["cause"], dict)
    changes = [_words(change) for change in client.expect(event["changes"], list)]
    values = {**cause, "serial": event["serial"], "time": event["time"], "changes": ", ".join(changes)}
    cells = [values.get(field.name) for field in FIELDS]
    return [(0, cell) if cell else (3, None) for cell in cells]


def _words(change: Mapping[str, object]) -> str:
    return f"{change['kind']} {change['name'] or change['key']} {change['what']}"


def events(call: command.Call) -> int:
    """Print each event as a line of JSON; with ``--follow``, wait for further events."""
    start, follow = call.option("first"), call.option("follow")
    expected = start
    for event in _stream(call, start - 1, follow=follow):
        if event["serial"] != expected:
            print(
                f"events {expected} to {event['serial'] - 1} are missing: this master no longer keeps them",
                file=sys.stderr,
            )
        expected = event["serial"] + 1
        print(json.dumps(event, ensure_ascii=False), flush=True)
    return 0


def _stream(call: command.Call, after: int, *, follow: bool) -> Iterator[dict[str, int]]:
    """Yield events after a serial; with ``follow``, reconnect to a master that was unreachable."""
    was_connected = False
    while True:
        try:
            answer = call.client.call("WaitForEvents", after, EVENTS_PER_REQUEST, WAIT_SECONDS if follow else 0)
        except errors.CommandError as error:
            if isinstance(error, errors.ServerError) or not (follow and was_connected):
                raise
            time.sleep(BACK_OFF_SECONDS)
            continue
        was_connected = True
        batch = client.expect(client.expect(answer, dict)["events"], list)
        yield from batch
        if batch:
            after = batch[-1]["serial"]
        elif not follow:
            return


def export(call: command.Call) -> int:
    """Print the configuration as JSON, or write it to a file that only its owner can read."""
    text = json.dumps(call.client.call("ExportConfig"), indent=1, ensure_ascii=False) + "\n"
    path = call.option("output")
    if path is None:
        sys.stdout.write(text)
        return 0
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
    except OSError as error:
        raise errors.CommandError(f"cannot write {path}: {error.strerror or error}") from None
    return 0


def simulate(call: command.Call) -> int:
    """Run simulated clusters with faults, each from a seed."""
    options = call.options
    if (options.seed is None) == (options.seeds is None):
        raise errors.InvalidError("give either --seed N or --seeds FIRST-LAST")
    seeds = ["--seed", str(options.seed)] if options.seeds is None else ["--seeds", options.seeds]
    words = [machine.program("gantry-simulate"), *seeds]
    words += ["--processes", str(options.processes)] if options.processes else []
    # With random hashes, the order of a set of names, and therefore the run, would differ between processes.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        return subprocess.run(words, env=environment, check=False).returncode
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="is Gantry's simulation installed here?"
        ) from None


def doctor(call: command.Call) -> int:
    """Examine this machine; the checks are a program of their own, which needs more than the standard library."""
    words = [machine.program("gantry-node"), "doctor", *(["--json"] if call.options.json else [])]
    try:
        return subprocess.run(words, check=False).returncode
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="install the package gantry-node"
        ) from None


FOLDERS = {
    "bash": "/etc/bash_completion.d/gnt",
    "zsh": "/usr/local/share/zsh/site-functions/_gantry",
    "fish": "/etc/fish/conf.d/gantry.fish",
}
"""The file of each shell's completion, for all users of the machine."""


def complete(call: command.Call) -> int:
    """Print the completion script of a shell, or install it for all users."""
    (shell,) = call.arguments
    if shell not in FOLDERS:
        raise errors.InvalidError(f"{shell!r} is not a shell with completion", hint=f"write {', '.join(FOLDERS)}")
    # The completion reads the declarations of all programs, so it is a program above them.
    words = [sys.executable, "-m", "gantry.cli.completion", shell]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    text = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    if not call.options.install:
        sys.stdout.write(text)
        return 0
    path = FOLDERS[shell]
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise errors.CommandError(f"cannot create the folder of {path}: {error.strerror}", hint=INSTALL_HINT) from None
    machine.write_file(path, text)
    print(f"The completion of {shell} is in {path}; the next shell has it")
    return 0


INSTALL_HINT = "run the command as root, or load the script that it prints without --install"


def _since(text: str) -> tuple[int | None, float | None]:
    """Return a serial or a time: a number alone is a serial."""
    if text.isdecimal():
        return syntax.number(text), None
    return None, moments.parse(text, now=time.time())


COMMANDS = (
    command.Command(
        "history",
        history,
        "Show the last changes of the cluster's state, and the jobs that caused them",
        options=(
            command.Option(("--kind",), "Show only changes of this kind of object", metavar="KIND", choices=KINDS),
            command.Option(("--name",), "Show only changes of this object, by name, UUID or number", metavar="NAME"),
            command.Option(("--since",), "Start at this serial or time", metavar="SERIAL|TIME", parse=_since),
            command.Option(
                ("--limit",),
                "Show at most this many of the last changes",
                metavar="N",
                default=100,
                parse=syntax.number,
            ),
            *command.FIELDS_QUERY,
        ),
        text=f"A number is a serial; for times {moments.FORMS.replace(', seconds since the epoch,', ',')}.",
    ),
    audit.COMMAND,
    command.Command(
        "events",
        events,
        "Print changes of the cluster's state, each as a line of JSON",
        options=(
            command.Option(("--from",), "Start at this serial", "SERIAL", dest="first", default=1, parse=syntax.number),
            command.Option(("--follow",), "Keep waiting for changes, also across restarts of the master"),
        ),
    ),
    command.Command(
        "export-config",
        export,
        "Print the configuration as JSON, without secrets",
        options=(command.Option(("--output",), "Write to this file", metavar="FILE", completes="file"),),
    ),
    command.Command(
        "simulate",
        simulate,
        "Run simulated clusters with faults, each from a seed, and report broken promises",
        options=(
            command.Option(("--seed",), "Run this seed and print its events", metavar="N", parse=syntax.number),
            command.Option(("--seeds",), "Run these seeds on all processors", metavar="FIRST-LAST"),
            command.Option(("--processes",), "Run this many clusters in parallel", metavar="N", parse=syntax.number),
        ),
    ),
    command.Command(
        "doctor",
        doctor,
        "Report what is wrong or missing on this machine, each with its remedy",
        options=(command.Option(("--json",), "Print the results as JSON"),),
        text="It needs root, but no cluster and no running daemon. The exit code is 1 if something is wrong.",
    ),
    command.Command(
        "completion",
        complete,
        "Print the completion of the gnt-* commands for a shell, or install it",
        (command.Argument("bash|zsh|fish", completes="shell"),),
        (command.Option(("--install",), "As root, install it for all users of this machine"),),
        text="""
            In a shell of your own, without root:
              source <(gantry completion bash)
        """,
    ),
    *segments.COMMANDS,
    *segment_ranges.COMMANDS,
    *tokens.COMMANDS,
    *webhooks.COMMANDS,
)
