"""How reservations are stored: a struct of plain values, and back.

Who calls it: who keeps reservations in the state (explanation/addresses.md#spaces). Numbers are hexadecimal
text, because JSON integers end at 64 bits. ::

    {"parts": ["a000000-a0000ff"], "excluded": ["a000000"], "runs": ["a000002-a000003", "a000009"],
     "owners": ["inst1", "inst1", "inst2"], "keys": ["0", "1", ""], "times": [1.0, 1.0, 7.5]}

Runs are the reserved numbers; owners, keys and times are in their order. So nothing grows with a range's size: an empty
/64 is its part and nothing else. Invariant: ``load(dump(x))`` answers everything as ``x`` does.
"""

from collections.abc import Callable, Iterable

import msgspec

from gantry import errors
from gantry.address import ranges, reservations


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reservations at rest; ``keys`` is empty if all of them are, ``resting`` is in the order of release."""

    parts: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    times: tuple[float, ...] = ()
    resting: tuple[tuple[str, float, str], ...] = ()
    hold: float = 0.0
    oldest_first: bool = False


def dump(kept: reservations.Reservations) -> Stored:
    """Return the stored form. Cost: a sort of the reserved numbers."""
    held = kept.items()
    keys = tuple(reservation.key for _, reservation in held)
    return Stored(
        parts=tuple(map(_write, kept.parts)),
        excluded=tuple(map(_write, kept.excluded)),
        runs=tuple(map(_write, ranges.joined((number, number) for number, _ in held))),
        owners=tuple(reservation.owner for _, reservation in held),
        keys=keys if any(keys) else (),
        times=tuple(reservation.time for _, reservation in held),
        resting=tuple((f"{number:x}", rest.freed, rest.owner) for number, rest in kept.resting()),
        hold=kept.hold,
        oldest_first=kept.oldest_first,
    )


def load(data: Stored, *, text: Callable[[int], str] = str) -> reservations.Reservations:
    """Return the reservations as they were stored; ConfigurationError if the parts do not fit together."""
    try:
        return _load(data, text)
    except ValueError as error:
        raise errors.ConfigurationError(f"stored reservations are damaged: {error}") from None


def _load(data: Stored, text: Callable[[int], str]) -> reservations.Reservations:
    kept = reservations.Reservations(
        map(_read, data.parts),
        excluded=map(_read, data.excluded),
        hold=data.hold,
        oldest_first=data.oldest_first,
        text=text,
    )
    numbers = _numbers(data.runs)
    keys = data.keys or ("",) * len(numbers)
    if not len(numbers) == len(data.owners) == len(keys) == len(data.times):
        raise ValueError("numbers, owners, keys and times are not equally many")
    try:
        kept.adopt_all(numbers, data.owners, keys=keys, times=data.times)
    except errors.NotUniqueError as error:
        raise ValueError(error.message) from None
    for digits, freed, owner in data.resting:
        number = int(digits, 16)
        if kept.owner_of(number):
            raise ValueError(f"{text(number)} is reserved and free")
        kept.adopt_rest(number, reservations.Rest(freed, owner))
    return kept


def _numbers(runs: Iterable[str]) -> list[int]:
    """Return the numbers of the runs, which are to be sorted and apart."""
    numbers = [-1]
    for text in runs:
        low, _, high = text.partition("-")
        first = int(low, 16)
        last = int(high, 16) if high else first
        if not numbers[-1] < first <= last:
            raise ValueError(f"the run '{text}' is backwards or not in order")
        numbers.extend(range(first, last + 1))
    return numbers[1:]


def _write(run: ranges.Range) -> str:
    return f"{run.first:x}" if run.size == 1 else f"{run.first:x}-{run.last:x}"


def _read(text: str) -> ranges.Range:
    first, _, last = text.partition("-")
    run = ranges.span(int(first, 16), int(last or first, 16))
    if run is None or run.first < 0:
        raise ValueError(f"'{text}' is no range")
    return run
