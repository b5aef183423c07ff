"""The stored form of reservations: compact, complete, and checked when it is read."""

import random

import msgspec
import pytest

from gantry import errors
from gantry.address import policies, ranges, reservations, stored

NET6 = ranges.parse_cidr("2001:db8::/64").range


def encode(kept: reservations.Reservations) -> bytes:
    return msgspec.json.encode(stored.dump(kept))


def test_an_empty_64_is_a_few_bytes() -> None:
    assert len(encode(reservations.Reservations([NET6]))) < 100


def test_runs_are_stored_once_and_keys_only_if_there_are_some() -> None:
    kept = reservations.Reservations([ranges.Range(0, 65535)])
    for number in range(1000):
        kept.reserve_any(f"i{number}", now=5.0)
    data = stored.dump(kept)
    assert (data.runs, data.keys) == (("0-3e7",), ())


def test_everything_comes_back_through_json() -> None:
    kept = reservations.Reservations(
        [NET6], excluded=[ranges.sized(NET6.first, 10)], quarantine_seconds=3.5, oldest_first=True
    )
    policy = policies.random(random.Random(2).randrange)
    for number in range(300):
        kept.reserve_any(f"inst{number % 40}", f"nic{number}", now=number / 8, policy=policy)
    kept.reserve_one(NET6.first + 3, "inst1", now=50.0, force=True)
    for number in kept.numbers_of("inst7"):
        kept.release(number, now=60.0)
    again = stored.load(msgspec.json.decode(encode(kept), type=stored.Stored))
    assert stored.dump(again) == stored.dump(kept)
    assert list(again.space.used_runs(NET6)) == list(kept.space.used_runs(NET6))
    assert again.find("inst8", "nic8") == kept.find("inst8", "nic8")
    again.include(ranges.sized(NET6.first, 10))
    assert again.space.count(ranges.sized(NET6.first, 10)) == 1


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"parts": ("x",)}, "invalid literal"),
        ({"parts": ("9-1",)}, "'9-1' is not a range"),
        ({"runs": ("1-3",)}, "the counts of numbers, owners, keys and times differ"),
        ({"runs": ("1",)}, "the counts of numbers, owners, keys and times differ"),
        ({"runs": ("2", "1")}, "not in order"),
        ({"runs": ("1", "1")}, "not in order"),
        ({"owners": ("a", "a")}, "two numbers under the key ''"),
        ({"times": (1.0,)}, "the counts of numbers, owners, keys and times differ"),
        ({"keys": ("x",)}, "the counts of numbers, owners, keys and times differ"),
        ({"quarantined": (("1", 0.0, "a"),)}, "1 is reserved and quarantined"),
    ],
)
def test_damage_is_refused(damage: dict[str, object], why: str) -> None:
    whole = stored.Stored(parts=("0-ff",), runs=("1-2",), owners=("a", "b"), times=(1.0, 2.0))
    assert len(stored.load(whole)) == 2
    with pytest.raises(errors.ConfigurationError, match=why):
        stored.load(msgspec.structs.replace(whole, **damage))
