"""What happened in a simulated run, a line for each thing, for people; and what the daemons themselves logged of it.

    72.413  node2    WARNING master candidate node3 does not hold the newest changes: no answer within 5 s

Time is virtual, in seconds since the world began. Two runs of a seed tell the same story, byte for byte: nothing in it
comes from outside of the world. ``scenario`` makes one for each run, ``program`` prints it.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gantry.runtime.simulated import boot, clock

_SIZES = re.compile(r"\b\d+(?= bytes)|(?<=byte offset )\d+|(?<=header says )\d+")
"""Sizes of files: some hold certificates, whose random bytes make them longer or shorter from process to process."""

OUTSIDE = "world"
"""Who is told of where no machine is concerned."""


class Violation(Exception):  # noqa: N818 - it is what the run was made to find, not an error of the program
    """A promise was broken: which, what was expected, what was seen."""

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
        """Note what an event loop complains of: a task that failed, and nobody looked."""
        text = f"{context.get('message')}: {context.get('exception')!r}"
        self.faults.append(text)
        self.tell(OUTSIDE, f"ERROR {text}")

    @property
    def text(self) -> str:
        """Return the whole story."""
        return "".join(f"{line}\n" for line in self.lines)


class _Ear(logging.Handler):
    """Takes down what daemons log, and keeps as ``faults`` what they did not expect of themselves."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.WARNING)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a line; one that comes with a traceback at level ERROR is a fault of the program."""
        running = boot.current()
        text = _SIZES.sub("...", record.getMessage())
        if record.exc_info and record.levelno >= logging.ERROR:
            text += f" ({record.exc_info[1]!r})"
            self._story.faults.append(text)
        self._story.tell(running.host if running else OUTSIDE, f"{record.levelname} {text}")


@contextmanager
def listening(story: Story) -> Iterator[None]:
    """Take down what the daemons log, and let nobody else hear it."""
    root, ear = logging.getLogger("gantry"), _Ear(story)
    level, loud = root.level, root.propagate
    root.addHandler(ear)
    root.setLevel(logging.WARNING)
    root.propagate = False
    try:
        yield
    finally:
        root.removeHandler(ear)
        root.setLevel(level)
        root.propagate = loud
