"""Reservations: one example for each rule; the long histories are in test_reservations_machine."""

import functools
import random

import pytest

from gantry import errors
from gantry.address import policies, ranges, reservations

SUBNET = ranges.parse_cidr("192.0.2.0/24").range
FIRST = SUBNET.first
text = functools.partial(ranges.format_address, ranges.Family.IPV4)


def new(
    *,
    quarantine_seconds: float = 0.0,
    oldest_first: bool = False,
    excluded: tuple[ranges.Range, ...] = (),
    size: int = 256,
) -> reservations.Reservations:
    part = ranges.sized(FIRST, size)
    return reservations.Reservations(
        [part], excluded=excluded, quarantine_seconds=quarantine_seconds, oldest_first=oldest_first, text=text
    )


def numbers(first: int, last: int) -> ranges.Range:
    return ranges.Range(FIRST + first, FIRST + last)


def test_asking_twice_with_owner_and_key_gives_the_same_number() -> None:
    kept = new()
    first = kept.reserve_any("inst1", "nic0", now=1.0)
    assert kept.reserve_any("inst1", "nic0", now=2.0) == first
    other = kept.reserve_any("inst1", "nic1", now=3.0)
    assert (first, other) == (FIRST, FIRST + 1)
    assert kept.owner_of(first) == reservations.Reservation("inst1", "nic0", 1.0)
    assert kept.numbers_of("inst1") == [first, other]
    assert (kept.find("inst1", "nic1"), kept.find("inst1"), kept.find("inst2")) == (other, None, None)


def test_a_number_is_reserved_for_a_single_owner_and_an_error_for_another_names_the_owner() -> None:
    kept = new()
    kept.reserve_one(FIRST + 7, "inst1", now=1.0)
    kept.reserve_one(FIRST + 7, "inst1", now=2.0)
    with pytest.raises(errors.NotUniqueError, match=r"192\.0\.2\.7 is reserved by inst1"):
        kept.reserve_one(FIRST + 7, "inst2", now=2.0)
    with pytest.raises(errors.NotUniqueError, match=r"it has 192\.0\.2\.7 under the same key"):
        kept.reserve_one(FIRST + 8, "inst1", now=2.0)
    with pytest.raises(errors.InvalidError, match=r"192\.0\.3\.0 is outside of 192\.0\.2\.0-192\.0\.2\.255"):
        kept.reserve_one(FIRST + 256, "inst2", now=2.0)
    assert len(kept) == 1


def test_an_excluded_number_is_taken_by_force_only_and_stays_excluded_afterwards() -> None:
    kept = new(excluded=(numbers(0, 9),))
    assert kept.reserve_any("inst1", now=1.0) == FIRST + 10
    with pytest.raises(errors.NotUniqueError, match="externally reserved; use force"):
        kept.reserve_one(FIRST + 5, "inst2", now=1.0)
    kept.reserve_one(FIRST + 5, "inst2", now=1.0, force=True)
    assert kept.release(FIRST + 5, now=2.0).owner == "inst2"
    assert kept.space.is_used(FIRST + 5)
    kept.include(numbers(5, 5))
    assert kept.reserve_any("inst3", now=3.0) == FIRST + 5


def test_an_exclusion_may_cover_what_is_reserved_and_keeps_it_from_others_after_the_release() -> None:
    kept = new()
    kept.reserve_one(FIRST, "inst1", now=1.0)
    kept.exclude(numbers(0, 3))
    assert kept.reserved(numbers(0, 3)) == [FIRST]
    kept.release(FIRST, now=2.0)
    assert kept.reserve_any("inst2", now=3.0) == FIRST + 4


def test_an_exclusion_that_is_lifted_leaves_the_reservations_under_it() -> None:
    kept = new()
    kept.reserve_one(FIRST, "inst1", now=1.0)
    kept.exclude(numbers(0, 3))
    kept.include(numbers(0, 3))
    assert kept.reserve_any("inst2", now=3.0) == FIRST + 1


def test_a_released_number_is_quarantined() -> None:
    kept = new(quarantine_seconds=60.0, size=2)
    first, second = kept.reserve_any("inst1", now=0.0), kept.reserve_any("inst2", now=0.0)
    kept.release(first, now=100.0)
    with pytest.raises(errors.NoRoomError, match="1 are quarantined"):
        kept.reserve_any("inst3", now=159.0)
    with pytest.raises(errors.BusyError, match=r"192\.0\.2\.0 was released by inst1 and is quarantined for 60 s"):
        kept.reserve_one(first, "inst3", now=159.0)
    kept.reserve_one(first, "inst1", now=159.0)
    kept.release(first, now=160.0, quarantine=False)
    assert kept.reserve_any("inst3", now=160.0) == first
    kept.release(second, now=170.0)
    kept.reserve_one(second, "inst4", now=171.0, force=True)


def test_a_number_is_used_again_when_its_hold_time_is_over() -> None:
    kept = new(quarantine_seconds=60.0, size=1)
    kept.release(kept.reserve_any("inst1", now=0.0), now=100.0)
    assert kept.reserve_any("inst2", now=160.0) == FIRST


def test_least_recently_freed_takes_fresh_numbers_first_and_then_the_oldest() -> None:
    kept = new(oldest_first=True, size=4)
    first, second = kept.reserve_any("inst1", now=0.0), kept.reserve_any("inst2", now=0.0)
    kept.release(second, now=1.0)
    kept.release(first, now=2.0)
    order = [kept.reserve_any(f"inst{number}", now=3.0) for number in range(3, 7)]
    assert order == [FIRST + 2, FIRST + 3, second, first]
    with pytest.raises(errors.NoRoomError):
        kept.reserve_any("inst7", now=4.0)


def test_windows_are_tried_in_their_order_and_named_when_all_are_full() -> None:
    kept = new()
    windows = numbers(10, 10), numbers(5, 6)
    order = [kept.reserve_any(f"inst{number}", now=0.0, within=windows) for number in range(3)]
    assert order == [FIRST + 10, FIRST + 5, FIRST + 6]
    with pytest.raises(errors.NoRoomError, match=r"no number is free in 192\.0\.2\.10, 192\.0\.2\.5-192\.0\.2\.6"):
        kept.reserve_any("inst4", now=0.0, within=windows)


def test_the_random_policy_finds_the_last_free_number() -> None:
    kept = new()
    policy = policies.random(random.Random(1).randrange)
    order = [kept.reserve_any(f"inst{number}", now=0.0, policy=policy) for number in range(SUBNET.size)]
    assert sorted(order) == list(range(FIRST, SUBNET.last + 1))
    assert order != sorted(order)


def test_workers_that_spread_do_not_meet_until_their_slices_are_full() -> None:
    kept = new()
    spread = [policies.spread(worker, workers=4) for worker in range(4)]
    for number in range(64):
        for worker, policy in enumerate(spread):
            number_of_worker = kept.reserve_any(f"inst{worker}-{number}", now=0.0, policy=policy)
            assert number_of_worker == FIRST + 64 * worker + number
    kept.release(FIRST + 1, now=0.0)
    assert kept.reserve_any("late", now=0.0, policy=spread[3]) == FIRST + 1


def test_many_are_reserved_in_one_step() -> None:
    kept = new()
    requests = [
        reservations.Request(owner="inst1", key="0"),
        reservations.Request(owner="inst1", key="1", number=FIRST + 9),
        reservations.Request(owner="inst1", key="2", within=(numbers(100, 110),)),
        reservations.Request(owner="inst1", key="0"),
    ]
    assert kept.reserve_many(requests, now=1.0) == [FIRST, FIRST + 9, FIRST + 100, FIRST]


def test_many_are_reserved_all_or_none() -> None:
    kept = new(quarantine_seconds=60.0, excluded=(numbers(50, 59),))
    kept.reserve_one(FIRST + 9, "inst1", now=0.0)
    kept.release(kept.reserve_any("inst2", now=0.0), now=0.0)
    before = list(kept.space.used_runs(SUBNET)), kept.items(), kept.quarantined()
    requests = [
        reservations.Request(owner="inst2", number=FIRST),
        reservations.Request(owner="inst3"),
        reservations.Request(owner="inst4", number=FIRST + 55, force=True),
        reservations.Request(owner="inst5", number=FIRST + 9),
    ]
    with pytest.raises(errors.NotUniqueError, match="inst1"):
        kept.reserve_many(requests, now=1.0)
    assert (list(kept.space.used_runs(SUBNET)), kept.items(), kept.quarantined()) == before
    kept.include(numbers(50, 59))
    kept.reserve_one(FIRST + 55, "inst6", now=1.0)


def test_a_quarantined_number_that_is_reserved_in_the_same_step_is_not_reserved_twice() -> None:
    kept = new(oldest_first=True, size=1)
    kept.release(kept.reserve_any("inst1", now=0.0), now=0.0)
    requests = [reservations.Request(owner="inst1", number=FIRST), reservations.Request(owner="inst2")]
    with pytest.raises(errors.NoRoomError):
        kept.reserve_many(requests, now=1.0)
    assert len(kept) == 0
    assert kept.reserve_any("inst2", now=1.0) == FIRST


def test_a_number_without_an_owner_cannot_be_released() -> None:
    with pytest.raises(errors.NotFoundError, match=r"192\.0\.2\.1 is not reserved"):
        new().release(FIRST + 1, now=0.0)


def test_shrinking_is_refused_over_reservations_and_exclusions() -> None:
    kept = new(quarantine_seconds=60.0)
    kept.reserve_one(FIRST + 200, "inst1", now=0.0)
    with pytest.raises(errors.WrongStateError, match=r"192\.0\.2\.200 by inst1"):
        kept.shrink(numbers(128, 255))
    kept.release(FIRST + 200, now=0.0)
    kept.exclude(numbers(130, 131))
    with pytest.raises(errors.WrongStateError, match=r"192\.0\.2\.130-192\.0\.2\.131 .* externally reserved"):
        kept.shrink(numbers(128, 255))
    kept.include(numbers(130, 131))
    kept.shrink(numbers(128, 255))
    assert kept.parts == [numbers(0, 127)]
    kept.grow(numbers(128, 255))
    assert kept.reserve_any("inst2", now=1.0, within=[numbers(200, 200)]) == FIRST + 200


def test_a_split_parts_reservations_and_a_merge_brings_them_together() -> None:
    kept = new(quarantine_seconds=60.0, excluded=(numbers(120, 139),))
    for number in 5, 127, 128, 200:
        kept.reserve_one(FIRST + number, "inst1", str(number), now=0.0, force=True)
    kept.release(FIRST + 200, now=1.0)
    before = kept.items(), kept.quarantined(), list(kept.space.used_runs(SUBNET))
    upper = kept.split(FIRST + 128)
    assert [number - FIRST for number, _ in kept.items()] == [5, 127]
    assert [number - FIRST for number, _ in upper.items()] == [128]
    assert (kept.parts, upper.parts) == ([numbers(0, 127)], [numbers(128, 255)])
    assert (kept.excluded, upper.excluded) == ([numbers(120, 127)], [numbers(128, 139)])
    kept.merge(upper)
    assert (kept.items(), kept.quarantined(), list(kept.space.used_runs(SUBNET))) == before
    assert (kept.parts, kept.excluded) == ([SUBNET], [numbers(120, 139)])


def test_what_is_lifted_and_released_between_split_and_merge_is_free_afterwards() -> None:
    kept = new(excluded=(numbers(200, 200),))
    kept.reserve_one(FIRST + 200, "inst1", now=0.0, force=True)
    upper = kept.split(FIRST + 128)
    upper.include(numbers(200, 200))
    upper.release(FIRST + 200, now=0.0)
    kept.merge(upper)
    kept.reserve_one(FIRST + 200, "inst2", now=0.0)
    kept.release(FIRST + 200, now=0.0)
    assert not kept.space.is_used(FIRST + 200)


def test_a_merge_is_refused_for_parts_that_overlap_and_for_keys_that_clash() -> None:
    kept, other = new(), new(size=10)
    with pytest.raises(errors.InvalidError, match="overlap"):
        kept.merge(other)
    upper = kept.split(FIRST + 128)
    kept.reserve_any("inst1", now=0.0)
    upper.reserve_any("inst1", now=0.0)
    with pytest.raises(errors.NotUniqueError, match="inst1"):
        kept.merge(upper)
    assert len(kept) == 1
    with pytest.raises(errors.InvalidError, match="nothing below"):
        kept.split(0)
