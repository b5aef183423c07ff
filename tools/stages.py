"""Commands that run one after the other, each with a line of progress and a log: for ``gate`` and ``everything``.

It is run by Debian's Python before the virtual environment exists, so it imports the standard library only.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent

WHOLE_TEXTS = {"CI": "true"}
"""With this, pytest cuts off neither a line of its summary nor the text of a failure."""

TAIL_LINES = 200
"""How much of the log of a failed stage is printed."""

POLL_SECONDS = 0.1
"""How often commands that run together are asked whether they have ended."""

END_SECONDS = 60
"""The time that an interrupted command has to end what it started."""


@dataclass(frozen=True)
class Stage:
    """A command in a checkout; what it prints is kept in ``build/stages``."""

    root: Path
    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Return the file that keeps what the command prints."""
        return self.root / "build/stages" / f"{self.name}.log"

    def run(self) -> tuple[int, float]:
        """Run the command, print a line, and return its exit status and its seconds."""
        print(f"{self.name:<12}", end=" ", flush=True)
        with _started([self]) as (process,):
            begin = time.monotonic()
            status = process.wait()
            seconds = time.monotonic() - begin
        print(self._result(status, seconds), flush=True)
        return status, seconds

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command in a session of its own."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as log:
            return subprocess.Popen(
                self.command,
                cwd=self.root,
                env=os.environ | WHOLE_TEXTS | dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _result(self, status: int, seconds: float) -> str:
        """Return what the line of progress says of the end."""
        return f"{'passed' if status == 0 else 'FAILED'} {minutes(seconds)}  {self.last_line()}".rstrip()

    def lines(self) -> list[str]:
        """Return what the command printed."""
        return self.log.read_text(errors="replace").splitlines()

    def last_line(self) -> str:
        """Return the last line that is not empty."""
        return next((line.strip() for line in reversed(self.lines()) if line.strip()), "")

    def show(self) -> None:
        """Print the end of what the command printed."""
        print(f"\n==== {self.name} failed; the end of {self.log.relative_to(self.root)} ====")
        print("\n".join(self.lines()[-TAIL_LINES:]), flush=True)


def run_together(stages: Sequence[Stage]) -> list[int]:
    """Run commands at the same time, print a line when each has ended, and return their exit statuses."""
    begin = time.monotonic()
    with _started(stages) as processes:
        running = list(zip(stages, processes, strict=True))
        while running:
            time.sleep(POLL_SECONDS)
            for stage, process in [each for each in running if each[1].poll() is not None]:
                print(f"{stage.name:<12} {stage._result(process.returncode, time.monotonic() - begin)}", flush=True)
                running.remove((stage, process))
    return [process.returncode for process in processes]


@contextlib.contextmanager
def _started(stages: Sequence[Stage]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start commands; what they started ends with the block, also when this program is interrupted or terminated."""
    processes: list[subprocess.Popen[bytes]] = []
    terminated = False

    def terminate(number: int, _: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        if len(processes) == len(stages):  # otherwise the one that is being started would be left behind
            sys.exit(128 + number)

    earlier = signal.signal(signal.SIGTERM, terminate)
    # A shell that starts a program in the background lets it ignore interrupts, and its children after it.
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        processes.extend(stage.start() for stage in stages)
        signal.signal(signal.SIGINT, interrupt)
        if terminated:
            sys.exit(128 + signal.SIGTERM)
        yield processes
    finally:
        signal.signal(signal.SIGTERM, earlier)
        for process in processes:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the leader of a session and what it started."""
    # pytest ends what its tests started when it is interrupted, and not when it is terminated.
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def minutes(seconds: float) -> str:
    """Write a time in minutes and seconds.

    >>> minutes(61.7)
    '1:02'
    """
    return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"
