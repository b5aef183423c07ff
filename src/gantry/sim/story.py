"""The story of a simulated run for people: a line for each event and each message that the daemons log.

    72.413  node2    WARNING master candidate node3 does not hold the newest changes: no answer within 5 s

Time is virtual, in seconds since the world began. Two runs of a seed have the same story, byte for byte: nothing in it
comes from outside the world. ``scenario`` creates a story for each run, ``program`` prints it.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gantry.runtime.simulated import boot, clock

_SIZES = re.compile(r"\b\d+(?= bytes)|(?<=byte offset )\d+|(?<=header says )\d+")
"""Sizes of files: some files have certificates, whose random bytes change the size from process to process."""

OUTSIDE = "world"
"""The subject of lines that concern no machine."""


class Violation(Exception):  # noqa: N818 - runs look for violations; a violation is not an error of the program
    """A broken promise, with the expected and the observed state."""

    def __init__(self, promise: str, expected: str, seen: str) -> None:
        super().__init__(f"{promise}: expected {expected}; seen {seen}")
        self.promise = promise
        self.expected = expected
        self.seen = seen


class Story:
    """The lines of one run."""

    def __init__(self, now: clock.Clock) -> None:
        self.lines: list[str] = []
        self.faults: list[str] = []
        self._clock = now

    def tell(self, who: str, what: str) -> None:
        """Add a line; ``who`` is a machine, or a client."""
        self.lines.append(f"{self._clock.monotonic():10.3f}  {who:<8} {what}")

    def fail(self, context: Mapping[str, object]) -> None:
        """Record an error that the event loop reports: a task whose exception was not retrieved."""
        text = f"{context.get('message')}: {context.get('exception')!r}"
        self.faults.append(text)
        self.tell(OUTSIDE, f"ERROR {text}")

    @property
    def text(self) -> str:
        """Return the whole story."""
        return "".join(f"{line}\n" for line in self.lines)


class _LogHandler(logging.Handler):
    """Adds the daemons' log messages to a story, and unexpected errors to its ``faults``."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.WARNING)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line; a message with a traceback at level ERROR is a fault of the program."""
        running = boot.current()
        text = _SIZES.sub("...", record.getMessage())
        if record.exc_info and record.levelno >= logging.ERROR:
            text += f" ({record.exc_info[1]!r})"
            self._story.faults.append(text)
        self._story.tell(running.host if running else OUTSIDE, f"{record.levelname} {text}")


@contextmanager
def listening(story: Story) -> Iterator[None]:
    """Send the daemons' log messages to a story only."""
    root, handler = logging.getLogger("gantry"), _LogHandler(story)
    level, propagate = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    root.propagate = False
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        root.propagate = propagate
