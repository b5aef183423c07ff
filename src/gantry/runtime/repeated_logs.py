"""Log lines that a client can cause at will: a few for each cause, then one line with the number of the others.

The first ``BURST`` lines of a cause in ``WINDOW_SECONDS`` are written; at the end of that time one line says how many
more there were. Causes are few: a caller that makes them of addresses gets at most ``MAX_CAUSES`` of them at a time,
the others share one.
"""

import asyncio
import logging
from dataclasses import dataclass

BURST = 5
WINDOW_SECONDS = 60.0
MAX_CAUSES = 100
OTHER = "others"


@dataclass
class _Count:
    level: int
    lines: int = 0


class RepeatedLog:
    """Writes to a logger, at most ``burst`` lines for each cause in ``WINDOW_SECONDS``."""

    def __init__(self, logger: logging.Logger, *, burst: int = BURST) -> None:
        self._logger = logger
        self._burst = burst
        self._counts: dict[str, _Count] = {}

    def is_due(self, cause: str, level: int = logging.INFO) -> bool:
        """Count one more line of a cause; return whether it is to be written. Needs a running event loop."""
        if cause not in self._counts:
            if len(self._counts) >= MAX_CAUSES:
                cause = OTHER
            if cause not in self._counts:
                self._counts[cause] = _Count(level)
                asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._summarize, cause)
        count = self._counts[cause]
        count.lines += 1
        return count.lines <= self._burst

    def write(self, level: int, cause: str, message: str, *arguments: object, traceback: bool = False) -> None:
        """Write a line, with the traceback of the present exception, unless its cause has had its lines."""
        if self.is_due(cause, level):
            self._logger.log(level, message, *arguments, exc_info=traceback)

    def _summarize(self, cause: str) -> None:
        count = self._counts.pop(cause)
        if count.lines > self._burst:
            more = count.lines - self._burst
            self._logger.log(count.level, "%s: and %d more like it in %.0f s", cause, more, WINDOW_SECONDS)
