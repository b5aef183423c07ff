"""What a daemon counts and times while it runs, for a monitoring system.

Whoever counts declares a ``Measure`` next to its code and writes to the ``Measures`` of its daemon. The values grow
from the daemon's start and end with it; a monitoring system makes rates of them. ``families`` returns them in a form
that can be sent: ``doors.luxi`` sends those of the master, ``doors.rapi.metrics`` writes all in Prometheus' format.
"""

import asyncio
import bisect
import contextlib
import enum
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds of the classes that durations are counted in; one more class has the longer ones."""


class Kind(enum.StrEnum):
    """What the values of a measure are."""

    COUNTER = "counter"
    DURATION = "duration"
    GAUGE = "gauge"


@dataclass(frozen=True)
class Measure:
    """A declaration: the name for Prometheus, the kind, the names of its labels, and a text that explains it.

    The values of labels must be few: kinds of calls or statuses, not names of objects or texts of clients.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str


class Sample(msgspec.Struct, frozen=True):
    """The value for some labels: the sum, and for durations how many lie in each class of ``BOUNDS``."""

    labels: list[str]
    value: float
    classes: list[int] = []


class Family(msgspec.Struct, frozen=True):
    """A measure with its values; ``bounds`` are those of the classes, which another version may draw elsewhere."""

    name: str
    kind: Kind
    labels: list[str]
    text: str
    samples: list[Sample]
    bounds: list[float] = []


@dataclass
class _Value:
    sum: float = 0.0
    classes: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class Measures:
    """The values of one daemon."""

    def __init__(self) -> None:
        self._values: dict[Measure, dict[tuple[str, ...], _Value]] = {}
        self._sources: list[Callable[[], Iterable[Family]]] = []

    def count(self, measure: Measure, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter."""
        self._value(measure, labels).sum += amount

    def took(self, measure: Measure, seconds: float, *labels: str) -> None:
        """Count something that took this long."""
        value = self._value(measure, labels)
        value.sum += seconds
        value.classes[bisect.bisect_left(BOUNDS, seconds)] += 1

    @contextlib.contextmanager
    def timed(self, measure: Measure, *labels: str) -> Iterator[None]:
        """Count how long the block takes by the time of the event loop, whatever its outcome is."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        try:
            yield
        finally:
            self.took(measure, loop.time() - begin, *labels)

    def add_source(self, source: Callable[[], Iterable[Family]]) -> None:
        """Add what ``source`` returns to each answer of ``families``: measures whose values are those of the moment."""
        self._sources.append(source)

    def families(self) -> list[Family]:
        """Return all measures that have values: those that were counted by name, then those of the sources."""
        return [
            *self._counted(),
            *itertools.chain.from_iterable(source() for source in self._sources),
        ]

    def _counted(self) -> list[Family]:
        return [
            Family(
                measure.name,
                measure.kind,
                list(measure.labels),
                measure.text,
                [
                    Sample(list(labels), value.sum, value.classes if measure.kind is Kind.DURATION else [])
                    for labels, value in sorted(self._values[measure].items())
                ],
                list(BOUNDS) if measure.kind is Kind.DURATION else [],
            )
            for measure in sorted(self._values, key=lambda measure: measure.name)
        ]

    def _value(self, measure: Measure, labels: tuple[str, ...]) -> _Value:
        return self._values.setdefault(measure, {}).setdefault(labels, _Value())
