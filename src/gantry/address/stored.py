"""The stored form of reservations: converts them to a struct of plain values, and back.

It is for callers that store reservations (explanation/addresses.md#spaces). Numbers are hexadecimal text, because JSON
integers have at most 64 bits. ::

    {"parts": ["a000000-a0000ff"], "excluded": ["a000000"], "runs": ["a000002-a000003", "a000009"],
     "owners": ["inst1", "inst1", "inst2"], "keys": ["0", "1", ""], "times": [1.0, 1.0, 7.5]}

Runs are the reserved numbers; owners, keys and times are in the same order. So the size does not depend on a range's
size: an empty /64 has only its part. Invariant: ``load(dump(x))`` behaves like ``x``.
"""

from collections.abc import Callable, Iterable

import msgspec

from gantry import errors
from gantry.address import ranges, reservations


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored reservations; ``keys`` is empty if all keys are empty, ``quarantined`` is in the order of release."""

    parts: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    times: tuple[float, ...] = ()
    quarantined: tuple[tuple[str, float, str], ...] = msgspec.field(default=(), name="resting")
    quarantine_seconds: float = msgspec.field(default=0.0, name="hold")
    oldest_first: bool = False


def dump(restored: reservations.Reservations) -> Stored:
    """Return the stored form. Cost: a sort of the reserved numbers."""
    items = restored.items()
    keys = tuple(reservation.key for _, reservation in items)
    return Stored(
        parts=tuple(map(_write, restored.parts)),
        excluded=tuple(map(_write, restored.excluded)),
        runs=tuple(map(_write, ranges.joined((number, number) for number, _ in items))),
        owners=tuple(reservation.owner for _, reservation in items),
        keys=keys if any(keys) else (),
        times=tuple(reservation.time for _, reservation in items),
        quarantined=tuple((f"{number:x}", entry.freed, entry.owner) for number, entry in restored.quarantined()),
        quarantine_seconds=restored.quarantine_seconds,
        oldest_first=restored.oldest_first,
    )


def load(data: Stored, *, text: Callable[[int], str] = str) -> reservations.Reservations:
    """Return the stored reservations; ConfigurationError if the data is inconsistent."""
    try:
        return _load(data, text)
    except ValueError as error:
        raise errors.ConfigurationError(f"stored reservations are damaged: {error}") from None


def _load(data: Stored, text: Callable[[int], str]) -> reservations.Reservations:
    restored = reservations.Reservations(
        map(_read, data.parts),
        excluded=map(_read, data.excluded),
        quarantine_seconds=data.quarantine_seconds,
        oldest_first=data.oldest_first,
        text=text,
    )
    numbers = _numbers(data.runs)
    keys = data.keys or ("",) * len(numbers)
    if not len(numbers) == len(data.owners) == len(keys) == len(data.times):
        raise ValueError("the counts of numbers, owners, keys and times differ")
    try:
        restored.adopt_all(numbers, data.owners, keys=keys, times=data.times)
    except errors.NotUniqueError as error:
        raise ValueError(error.message) from None
    for digits, freed, owner in data.quarantined:
        number = int(digits, 16)
        if restored.owner_of(number):
            raise ValueError(f"{text(number)} is reserved and quarantined")
        restored.adopt_quarantine(number, reservations.Quarantine(freed, owner))
    return restored


def _numbers(runs: Iterable[str]) -> list[int]:
    """Return the numbers of the runs; ValueError unless the runs are sorted and do not overlap."""
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
        raise ValueError(f"'{text}' is not a range")
    return run
