"""Runs hostile messages against a server and watches what an operator would: answers, the log, memory, time.

``GANTRY_MESSAGES`` is how many messages a server gets: 10,000 in ``make test-landing``, a
million in ``make test-long``, and 2,000 where it is not set, as in ``make unit``. The messages are numbered;
``GANTRY_FUZZ_FROM`` is the first number, so that a long run can continue where it ended, and ``GANTRY_FUZZ_SECONDS``
ends one early. A run reports how many messages it sent, and up to which number, on its output and, if their number was
set, in build/fuzz.txt.
"""

import asyncio
import contextlib
import gc
import logging
import os
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

IS_LONG = bool(os.environ.get("GANTRY_MESSAGES"))
COUNT = int(os.environ.get("GANTRY_MESSAGES") or 2000)
FIRST = int(os.environ.get("GANTRY_FUZZ_FROM") or 0)
SECONDS = float(os.environ.get("GANTRY_FUZZ_SECONDS") or "inf")

ROUND = 10_000
"""Messages to one server, before a new one takes its place."""

ANSWER_SECONDS = 10.0
"""Longest CPU time for one message: the largest takes 0.2 s, alone on the machine."""

WAIT_SECONDS = 1000.0
"""Longest wait for an answer, by the server's clock: a master waits 900 s for a slow call to a node."""

LOG_BYTES = 1500
"""Most bytes of log for a message on average, and for one line ``LINE_BYTES``."""

LINE_BYTES = 20_000

REPEATED = 500
"""Refused messages that are sent again, some times, to see whether any memory is left behind."""

REPETITIONS = 4
"""A leak grows with each repetition; a cache or a table that is enlarged grows with one of them."""

LEFT_BYTES = 200_000
"""Most memory that may be left after them: 400 bytes for a message. Caches of bounded size are full before."""

RESIDENT_BYTES = 150 << 20
"""Most memory of the process after a round above that after the first one, in a run of several."""


class Server(Protocol):
    """A server under test."""

    async def send(self, number: int) -> str:
        """Send a message, and return the outcome's name; AssertionError if the answer is not one that may be."""
        ...

    async def check(self) -> None:
        """Fail if the server no longer answers a good request."""
        ...


Run = Callable[[Coroutine[object, object, None]], None]
"""Runs a coroutine beside a server."""

Start = Callable[[], AbstractContextManager[tuple[Server, Run]]]
"""Starts a server."""


@dataclass
class Log(logging.Handler):
    """Counts what is logged, and keeps each message with a traceback."""

    lines: int = 0
    bytes: int = 0
    longest: int = 0
    tracebacks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(logging.INFO)

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.lines += 1
        self.bytes += len(text)
        self.longest = max(self.longest, len(text))
        if record.exc_info or "Traceback" in text:
            self.tracebacks.append(text)


@dataclass
class Outcome:
    """What a run did."""

    sent: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, 0)
    refused: list[int] = field(default_factory=list)


def check(name: str, start: Start) -> Outcome:
    """Send all messages of this run to servers, one for each round, and check log, memory and time."""
    outcome, begin, first_resident = Outcome(), time.monotonic(), 0
    number = FIRST
    with logged() as log:
        while number < FIRST + COUNT and time.monotonic() - begin < SECONDS:
            numbers = range(number, min(number + ROUND, FIRST + COUNT))
            outcome.refused.clear()
            with start() as (server, run):
                run(_round(server, numbers, outcome, log, end=begin + SECONDS))
                _check_memory(server, run, outcome.refused[-REPEATED:])
                run(server.check())
            number = FIRST + outcome.sent
            gc.collect()
            first_resident = first_resident or _resident()
            assert _resident() - first_resident < RESIDENT_BYTES, f"memory grows: message {number} of {name}"
    report(
        f"{name}: {outcome.sent} messages, numbers {FIRST} to {number - 1}, in {time.monotonic() - begin:.0f} s; "
        f"{log.lines} lines of log; slowest {outcome.slowest[0]:.2f} s (number {outcome.slowest[1]}); "
        f"{dict(sorted(outcome.counts.items()))}"
    )
    assert log.bytes < LOG_BYTES * outcome.sent
    assert log.longest < LINE_BYTES
    return outcome


@contextlib.contextmanager
def logged() -> Iterator[Log]:
    """Count what is logged; no other handler gets it: those of pytest keep each line in memory.

    A test of a daemon in this process may have given the access log handlers of its own.
    """
    log, loggers = Log(), [logging.getLogger(name) for name in ("gantry", "gantry.access", "asyncio")]
    before = [(each.level, each.propagate, each.handlers) for each in loggers]
    for each in loggers:
        each.handlers = [log]
        each.setLevel(logging.INFO)
        each.propagate = False
    try:
        yield log
    finally:
        for each, (level, propagate, handlers) in zip(loggers, before, strict=True):
            each.handlers = handlers
            each.setLevel(level)
            each.propagate = propagate


def report(line: str) -> None:
    """Print a result, and keep it in build/fuzz.txt after a run of a set length, whose workers print nothing."""
    print(f"\n{line}")
    if os.environ.get("GANTRY_MESSAGES"):
        file = Path(__file__).parents[2] / "build/fuzz.txt"
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as results:
            results.write(f"{line}\n")


async def _round(server: Server, numbers: Iterable[int], outcome: Outcome, log: Log, *, end: float) -> None:
    for number in numbers:
        begin = time.process_time()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                result = await server.send(number)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"message {number} was not answered") from error
        seconds = time.process_time() - begin
        assert not log.tracebacks, f"message {number}: {log.tracebacks[0]}"
        assert seconds < ANSWER_SECONDS, f"message {number} took {seconds:.1f} s"
        outcome.sent += 1
        outcome.counts[result] += 1
        outcome.slowest = max(outcome.slowest, (seconds, number))
        if result.startswith("4"):
            outcome.refused.append(number)
        if time.monotonic() > end:
            return
        await asyncio.sleep(0)


def _check_memory(server: Server, run: Run, numbers: list[int]) -> None:
    """Fail if messages that are refused leave something in memory whenever they are sent again."""

    async def again() -> None:
        for number in numbers:
            await server.send(number)

    run(again())
    tracemalloc.start()
    try:
        run(again())
        for _ in range(REPETITIONS):
            before = _allocated()
            run(again())
            growth = _allocated().compare_to(before, "lineno")
            remaining = sum(line.size_diff for line in growth)
            if remaining < LEFT_BYTES:
                return
    finally:
        tracemalloc.stop()
    most = "\n".join(map(str, growth[:10]))
    raise AssertionError(f"{remaining} bytes are left in memory, most of them from\n{most}")


def _allocated() -> tracemalloc.Snapshot:
    """Return what is in memory, without the files on the disks of simulated machines."""
    gc.collect()
    everything = tracemalloc.take_snapshot()
    return everything.filter_traces([tracemalloc.Filter(False, "*/runtime/simulated/*")])


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
