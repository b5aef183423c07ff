"""What a benchmark measures: samples of one quantity, and their representation as text."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """Samples of a quantity, and what it must reach: ``limit`` is the most, or the least with ``at_least``.

    With ``goal`` the limit is one that the product does not have to reach yet: a run lists it as missed, and succeeds.
    """

    name: str
    unit: str
    samples: Sequence[float]
    limit: float | None = None
    at_least: bool = False
    goal: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> str:
        return f"{min(self.samples):.4g} to {max(self.samples):.4g}"

    @property
    def reached(self) -> bool | None:
        if self.limit is None:
            return None
        return self.median >= self.limit if self.at_least else self.median <= self.limit


def median_of_runs(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Return the figures of several whole runs as one: the samples of each are its medians in the runs.

    A figure that not every run has, because a part of the machine was missing, stays with the samples that there are.
    """
    if len(runs) == 1:
        return list(runs[0])
    samples: dict[str, list[float]] = {}
    last: dict[str, Figure] = {}
    for figure in (figure for run in runs for figure in run):
        samples.setdefault(figure.name, []).append(figure.median)
        last[figure.name] = figure
    return [replace(figure, samples=samples[name]) for name, figure in last.items()]


def timed(work: Callable[[], object], *, rounds: int, scale: float = 1e3) -> list[float]:
    """Return how long each of ``rounds`` calls took, in seconds times ``scale``."""
    samples = []
    gc.collect()
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        samples.append((time.perf_counter() - start) * scale)
    return samples


def resident_megabytes(pid: int) -> float:
    """Return how much memory a process has."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6
