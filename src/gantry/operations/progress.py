"""The progress of long work: how much is done, how fast, and how long the rest takes.

    disk 0: 512 of 4096 MiB (12 %), 210 MiB/s, 17 s to go

Every report is shown at once to clients that wait for the job (``Log.progress``). The job's log, which is stored, has
the first one after ``FIRST_LOG_SECONDS``; then the intervals double up to ``MAX_LOG_SECONDS``.
"""

from collections import deque

from gantry.operations import base

FIRST_LOG_SECONDS = 10.0
MAX_LOG_SECONDS = 300.0
WINDOW_SECONDS = 10.0
"""The rate is that of the last seconds: it changes when another job begins to use the disk or the network."""

MINUTE, HOUR = 60, 3600


class Meter:
    """Reports how many MiB of ``total`` are done; 0 if the total is unknown. ``text`` names the work: "disk 0"."""

    def __init__(self, environment: base.Environment, text: str, *, total: int = 0) -> None:
        self._environment = environment
        self._text = text
        self._total = total
        self._began = self._now()
        self._samples = deque([(self._began, 0.0)])
        self._log_interval = FIRST_LOG_SECONDS
        self._log_at = self._began + FIRST_LOG_SECONDS

    def report(self, done: float) -> None:
        """Report the MiB that are done."""
        now = self._now()
        if now < self._samples[-1][0]:
            # The clock was set back; an interval from before says nothing.
            self._samples.clear()
            self._log_at = now + self._log_interval
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()
        line = describe(self._text, done, total=self._total, rate=self._rate())
        self._environment.log.progress(line)
        if now >= self._log_at:
            self._environment.log.info(line)
            self._log_interval = min(2 * self._log_interval, MAX_LOG_SECONDS)
            self._log_at = now + self._log_interval

    def end(self) -> None:
        """Show no progress any more."""
        self._environment.log.progress("")

    def _rate(self) -> float:
        """Return the MiB per second of the last seconds; 0 if they are too few to tell."""
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return max(0.0, (after - before) / (last - first)) if last > first else 0.0

    def _now(self) -> float:
        return self._environment.inputs.now


def describe(text: str, done: float, *, total: float, rate: float) -> str:
    """Return a line about work in MiB, at a rate in MiB per second.

    >>> describe("disk 0", 512, total=4096, rate=210.0)
    'disk 0: 512 of 4096 MiB (12 %), 210 MiB/s, 17 s to go'
    >>> describe("disk 1", 7, total=0, rate=0.4)
    'disk 1: 7 MiB, 0.4 MiB/s'
    >>> describe("disk 1", 0, total=4096, rate=0)
    'disk 1: 0 of 4096 MiB (0 %)'
    """
    parts = [
        f"{text}: {done:.0f} of {total:.0f} MiB ({100 * done // total:.0f} %)" if total else f"{text}: {done:.0f} MiB"
    ]
    if rate > 0:
        parts.append(f"{rate:.0f} MiB/s" if rate >= 10 else f"{rate:.1f} MiB/s")
        if total:
            parts.append(f"{duration(max(0.0, total - done) / rate)} to go")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration as text; the longer, the less precise.

    >>> duration(17.2), duration(95), duration(7500)
    ('17 s', '1 min 35 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
