"""Segmentation ids: whose they are, however ranges come, change and go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gantry import errors
from gantry.address import ranges, segments

PROJECTS = ("p1", "p2")
HIGHEST = 40
"""Ids of the machine lie below this one, so that ranges meet; the limits of VLAN are far above."""


def run(first: int, last: int) -> ranges.Range:
    return ranges.Range(first, last)


def free(place: segments.Place, owner: str) -> list[int]:
    """Take all that an owner may take, and give it back."""
    taken: list[int] = []
    while (number := place.next_free(owner)) is not None:
        place.take(number)
        taken.append(number)
    for number in taken:
        place.give(number)
    return taken


@pytest.mark.parametrize(
    ("kind", "highest"), [("vlan", 4094), ("vxlan", 2**24 - 1), ("gre", 2**32 - 1), ("geneve", 2**24 - 1)]
)
def test_a_type_has_the_ids_up_to_its_limit(kind: str, highest: int) -> None:
    assert segments.checked_run(kind, 1, maximum=highest) == run(1, highest)
    for minimum, maximum in ((1, highest + 1), (0, 5), (highest + 1, highest + 1), (-3, 2)):
        with pytest.raises(errors.InvalidError, match=f"ids of {kind} are 1 to {highest}"):
            segments.checked_run(kind, minimum, maximum=maximum)
    place = segments.Place(kind)
    place.add(segments.Claim(run(highest, highest)))
    assert free(place, segments.SHARED) == [highest]


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(errors.InvalidError, match="the minimum 9 is above the maximum 8"):
        segments.checked_run("vxlan", 9, maximum=8)


@pytest.mark.parametrize(
    ("kind", "physical", "fault"),
    [
        ("vlan", "", "a VLAN needs its physical network"),
        ("vxlan", "physnet1", "a network of type vxlan has no physical network"),
        ("VLAN", "physnet1", "'VLAN' is no network type.*there are vlan, vxlan, gre, geneve"),
        ("flat", "physnet1", "'flat' is no network type"),
    ],
)
def test_a_place_that_cannot_be_is_refused(kind: str, physical: str, fault: str) -> None:
    with pytest.raises(errors.InvalidError, match=fault):
        segments.check_place(kind, physical)


def test_an_id_in_a_projects_range_is_nobody_elses_though_a_shared_range_lies_below() -> None:
    place = segments.Place("gre")
    place.add(segments.Claim(run(1, 5), default=True))
    place.add(segments.Claim(run(1, 5), owner="p1"))
    assert (free(place, "p1"), free(place, segments.SHARED), free(place, "p2")) == ([1, 2, 3, 4, 5], [], [])
    assert place.next_configured() == 1
    place.remove(segments.Claim(run(1, 5), owner="p1"))
    assert (free(place, "p1"), free(place, segments.SHARED)) == ([], [1, 2, 3, 4, 5])


def test_a_held_id_is_taken_until_it_is_released_whatever_becomes_of_its_range() -> None:
    place = segments.Place("vlan")
    place.hold(2, 7)
    place.add(segments.Claim(run(1, 3)))
    assert free(place, segments.SHARED) == [1, 3]
    place.take(2)
    place.release(2)
    assert free(place, segments.SHARED) == [1, 3]
    place.give(2)
    assert free(place, segments.SHARED) == [1, 2, 3]


def test_a_range_of_all_vxlan_ids_costs_nothing_to_share_out_and_take_back() -> None:
    place = segments.Place("vxlan")
    claim = segments.Claim(run(1, 2**24 - 1), owner="p1")
    for _ in range(1000):
        place.add(claim)
        assert place.next_free("p1") == 1
        place.remove(claim)
        assert place.next_free("p1") is None


ENDS = st.tuples(st.integers(1, HIGHEST), st.integers(1, HIGHEST)).map(lambda two: run(min(two), max(two)))


class Machine(RuleBasedStateMachine):
    """A place beside what the rules say of each id, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.place = segments.Place("vlan")
        self.claims: list[segments.Claim] = []
        self.used: set[int] = set()
        self.held: set[int] = set()

    @rule(ends=ENDS, owner=st.sampled_from((segments.SHARED, *PROJECTS)), default=st.booleans())
    def add(self, ends: ranges.Range, owner: str, default: bool) -> None:
        claim = segments.Claim(ends, owner="" if default else owner, default=default)
        met = [one for one in self.claims if not one.default and one.run.overlaps(ends)]
        assert sorted(met, key=lambda one: one.run) == list(self.place.overlapping(ends))
        if default or not met:
            self.place.add(claim)
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.place.remove(claim)

    @rule(number=st.integers(1, HIGHEST))
    def use(self, number: int) -> None:
        if number in self.used:
            self.used.discard(number)
            self.place.give(number)
        else:
            self.used.add(number)
            self.place.take(number)

    @rule(number=st.integers(1, HIGHEST))
    def hold(self, number: int) -> None:
        if number in self.held:
            self.held.discard(number)
            self.place.release(number)
        else:
            self.held.add(number)
            self.place.hold(number, 1)

    def owner(self, number: int) -> str | None:
        made = [one.owner for one in self.claims if not one.default and number in one.run]
        return made[0] if made else segments.SHARED if self.is_default(number) else None

    def is_default(self, number: int) -> bool:
        return any(one.default and number in one.run for one in self.claims)

    @invariant()
    def everybody_gets_the_lowest_of_what_is_free_and_theirs(self) -> None:
        left = [number for number in range(1, HIGHEST + 1) if number not in self.used | self.held]
        for owner in (segments.SHARED, *PROJECTS):
            theirs = (number for number in left if self.owner(number) == owner)
            assert self.place.next_free(owner) == next(theirs, None)
            assert self.place.has(owner) == any(one.owner == owner for one in self.claims)
        assert self.place.next_configured() == next(filter(self.is_default, left), None)


TestPlace = Machine.TestCase
TestPlace.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(st.sets(st.integers(1, HIGHEST)), ENDS)
def test_used_ids_are_counted_whoever_may_take_them(used: set[int], ends: ranges.Range) -> None:
    place = segments.Place("geneve")
    for number in used:
        place.take(number)
    assert place.used.count(ends) == sum(number in ends for number in used)
