"""The time, identifiers and random numbers of a plan, and how a plan draws those of an earlier draft again.

A plan may not make them up by itself: they are ``Inputs``. A unit whose nodes check a draft records what the draft drew
(``Recorder``), and plans with the same values (``Draws.replay``), so that the plan equals the draft.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Inputs:
    """What a plan may not make up by itself: the time, and sources of identifiers."""

    now: float
    uuid: Callable[[], str]
    below: Callable[[int], int]


@dataclass(frozen=True)
class Draws:
    """The identifiers and random numbers that ``inspect`` drew for a draft, so that ``plan`` draws the same ones.

    Each number is kept with the limit that it was drawn below.
    """

    uuids: Sequence[str] = ()
    numbers: Sequence[tuple[int, int]] = ()

    def replay(self, inputs: Inputs) -> Inputs:
        """Return inputs that draw these values again in their order, and new values once they are used up.

        A number is drawn again below its own limit only: a MAC address's must never become a disk's secret.
        """
        uuids = iter(self.uuids)
        numbers = {limit: iter([number for own, number in self.numbers if own == limit]) for limit, _ in self.numbers}

        def below(limit: int) -> int:
            number = next(numbers.get(limit, iter(())), None)
            return inputs.below(limit) if number is None else number

        return Inputs(inputs.now, lambda: next(uuids, "") or inputs.uuid(), below)


class Recorder:
    """Draws from ``inputs`` for a draft, and keeps what it drew."""

    def __init__(self, inputs: Inputs) -> None:
        self._source = inputs
        self._uuids: list[str] = []
        self._numbers: list[tuple[int, int]] = []

    @property
    def inputs(self) -> Inputs:
        """Return the inputs for the draft."""
        return Inputs(self._source.now, self._uuid, self._below)

    def drawn(self) -> Draws:
        """Return what has been drawn so far."""
        return Draws(tuple(self._uuids), tuple(self._numbers))

    def _uuid(self) -> str:
        self._uuids.append(self._source.uuid())
        return self._uuids[-1]

    def _below(self, limit: int) -> int:
        number = self._source.below(limit)
        self._numbers.append((limit, number))
        return number
