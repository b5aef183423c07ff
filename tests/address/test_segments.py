"""Segmentation ids: which project may allocate which id, after any sequence of changes of ranges."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.fuzz import budget

from gantry import errors
from gantry.address import ranges, segments

PROJECTS = ("p1", "p2")
HIGHEST = 40
"""The machine uses ids up to this claim, so that ranges overlap; the limit of VLAN is far above."""


def run(first: int, last: int) -> ranges.Range:
    return ranges.Range(first, last)


def free(ids: segments.ScopeIds, owner: str) -> list[int]:
    """Return all ids that an owner may allocate, by allocating and releasing them."""
    allocated: list[int] = []
    while (number := ids.next_free(owner)) is not None:
        ids.allocate(number)
        allocated.append(number)
    for number in allocated:
        ids.release(number)
    return allocated


@pytest.mark.parametrize(
    ("kind", "highest"), [("vlan", 4094), ("vxlan", 2**24 - 1), ("gre", 2**32 - 1), ("geneve", 2**24 - 1)]
)
def test_a_type_has_the_ids_up_to_its_limit(kind: str, highest: int) -> None:
    assert segments.checked_run(kind, 1, maximum=highest) == run(1, highest)
    for minimum, maximum in ((1, highest + 1), (0, 5), (highest + 1, highest + 1), (-3, 2)):
        with pytest.raises(errors.InvalidError, match=f"ids of {kind} are 1 to {highest}"):
            segments.checked_run(kind, minimum, maximum=maximum)
    ids = segments.ScopeIds(kind)
    ids.add(segments.Claim(run(highest, highest)))
    assert free(ids, segments.SHARED) == [highest]


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(errors.InvalidError, match="the minimum 9 is above the maximum 8"):
        segments.checked_run("vxlan", 9, maximum=8)


@pytest.mark.parametrize(
    ("kind", "physical", "fault"),
    [
        ("vlan", "", "a VLAN needs a physical network"),
        ("vxlan", "physnet1", "a network of type vxlan has no physical network"),
        ("VLAN", "physnet1", "'VLAN' is not a network type.*use one of vlan, vxlan, gre, geneve"),
        ("flat", "physnet1", "'flat' is not a network type"),
    ],
)
def test_an_invalid_scope_is_refused(kind: str, physical: str, fault: str) -> None:
    with pytest.raises(errors.InvalidError, match=fault):
        segments.check_scope(kind, physical)


def test_an_id_in_a_projects_range_belongs_to_no_other_project_despite_a_shared_range() -> None:
    ids = segments.ScopeIds("gre")
    ids.add(segments.Claim(run(1, 5), default=True))
    ids.add(segments.Claim(run(1, 5), owner="p1"))
    assert (free(ids, "p1"), free(ids, segments.SHARED), free(ids, "p2")) == ([1, 2, 3, 4, 5], [], [])
    assert ids.next_configured() == 1
    ids.remove(segments.Claim(run(1, 5), owner="p1"))
    assert (free(ids, "p1"), free(ids, segments.SHARED)) == ([], [1, 2, 3, 4, 5])


def test_a_held_id_is_not_free_until_its_hold_ends_whatever_happens_to_its_range() -> None:
    ids = segments.ScopeIds("vlan")
    ids.hold(2, 7)
    ids.add(segments.Claim(run(1, 3)))
    assert free(ids, segments.SHARED) == [1, 3]
    ids.allocate(2)
    ids.end_hold(2)
    assert free(ids, segments.SHARED) == [1, 3]
    ids.release(2)
    assert free(ids, segments.SHARED) == [1, 2, 3]


def test_a_range_of_all_vxlan_ids_costs_nothing_to_add_and_remove() -> None:
    ids = segments.ScopeIds("vxlan")
    claim = segments.Claim(run(1, 2**24 - 1), owner="p1")
    for _ in range(1000):
        ids.add(claim)
        assert ids.next_free("p1") == 1
        ids.remove(claim)
        assert ids.next_free("p1") is None


ENDS = st.tuples(st.integers(1, HIGHEST), st.integers(1, HIGHEST)).map(lambda two: run(min(two), max(two)))


class Machine(RuleBasedStateMachine):
    """The ids of a scope, compared with a model that applies the rules to each id."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = segments.ScopeIds("vlan")
        self.claims: list[segments.Claim] = []
        self.used: set[int] = set()
        self.held: set[int] = set()

    @rule(ends=ENDS, owner=st.sampled_from((segments.SHARED, *PROJECTS)), default=st.booleans())
    def add(self, ends: ranges.Range, owner: str, default: bool) -> None:
        claim = segments.Claim(ends, owner="" if default else owner, default=default)
        overlapping = [each for each in self.claims if not each.default and each.run.overlaps(ends)]
        assert sorted(overlapping, key=lambda each: each.run) == list(self.ids.overlapping(ends))
        if default or not overlapping:
            self.ids.add(claim)
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.ids.remove(claim)

    @rule(number=st.integers(1, HIGHEST))
    def use(self, number: int) -> None:
        if number in self.used:
            self.used.discard(number)
            self.ids.release(number)
        else:
            self.used.add(number)
            self.ids.allocate(number)

    @rule(number=st.integers(1, HIGHEST))
    def hold(self, number: int) -> None:
        if number in self.held:
            self.held.discard(number)
            self.ids.end_hold(number)
        else:
            self.held.add(number)
            self.ids.hold(number, 1)

    def owner(self, number: int) -> str | None:
        owners = [claim.owner for claim in self.claims if not claim.default and number in claim.run]
        return owners[0] if owners else segments.SHARED if self.is_default(number) else None

    def is_default(self, number: int) -> bool:
        return any(claim.default and number in claim.run for claim in self.claims)

    @invariant()
    def next_free_is_the_lowest_free_id_of_each_project(self) -> None:
        free_ids = [number for number in range(1, HIGHEST + 1) if number not in self.used | self.held]
        for owner in (segments.SHARED, *PROJECTS):
            theirs = (number for number in free_ids if self.owner(number) == owner)
            assert self.ids.next_free(owner) == next(theirs, None)
            assert self.ids.has(owner) == any(claim.owner == owner for claim in self.claims)
        assert self.ids.next_configured() == next(filter(self.is_default, free_ids), None)


TestScopeIds = Machine.TestCase
TestScopeIds.settings = settings(max_examples=budget.examples(60), stateful_step_count=25, deadline=None)


@given(st.sets(st.integers(1, HIGHEST)), ENDS)
def test_used_ids_are_counted_in_any_range(used: set[int], ends: ranges.Range) -> None:
    ids = segments.ScopeIds("geneve")
    for number in used:
        ids.allocate(number)
    assert ids.used.count(ends) == sum(number in ends for number in used)
