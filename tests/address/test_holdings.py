"""Holdings: a state machine against a dictionary, with enough numbers to divide blocks and to empty them."""

import uuid

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz import budget

from gantry import errors
from gantry.address import holdings, ranges

FAR = 0x20010DB8 << 96
OWNERS = ("owner0", "owner1", "2b5f3c1e-7a9d-4f60-8c3b-d1e2f3a4b5c6")
starts = st.one_of(st.integers(0, 400), st.integers(0, 400).map(lambda number: FAR + number), st.integers(0, FAR))


def test_many_at_once_are_the_same_as_one_after_the_other() -> None:
    numbers = [3, 5, 8, 9]
    owners, keys, times = ["a", "b", "a", "a"], ["", "", "0", "1"], [1.0, 2.0, 3.0, 4.0]
    entries = holdings.Holdings.of(numbers, owners, keys=keys, times=times)
    assert list(entries) == [(3, ("a", "", 1.0)), (5, ("b", "", 2.0)), (8, ("a", "0", 3.0)), (9, ("a", "1", 4.0))]
    assert (entries.numbers_of("a"), entries.find("a", "0"), entries.find("b", ""), entries.find("b", "0")) == (
        [3, 8, 9],
        8,
        5,
        None,
    )


def test_an_owner_has_one_number_under_a_key() -> None:
    with pytest.raises(errors.NotUniqueError, match="b has two numbers under the key '1'"):
        holdings.Holdings.of([1, 2, 3], ["b", "a", "b"], keys=["1", "1", "1"], times=[0.0] * 3)


def test_an_owner_of_many_numbers_is_one_string() -> None:
    owners = msgspec.json.decode(b'["instance1", "instance1"]', type=list[str])
    assert owners[0] is not owners[1]
    entries = holdings.Holdings.of([1, 2], owners, keys=["", "0"], times=[0.0, 0.0])
    assert entries.owner_of(1) is entries.owner_of(2)


class HoldingsMachine(RuleBasedStateMachine):
    """The model: number to holder. Three owners have many numbers, under the numbers as keys; others have one each.

    There are UUIDs among both.
    """

    @initialize(base=st.sampled_from([0, 200, FAR]))
    def begin(self, base: int) -> None:
        self.base = base
        self.entries = holdings.Holdings(base=base)
        self.model: dict[int, holdings.Entry] = {}

    def holder(self, number: int) -> holdings.Entry:
        if number % 5 == 0:
            return f"owner of {number}", "" if number % 2 else "only", number % 7 / 2
        if number % 5 == 1:
            return str(uuid.UUID(int=number)), "", number % 7 / 2
        return OWNERS[number % 3], str(number), number % 7 / 2

    @rule(start=starts, count=st.integers(1, 250), step=st.sampled_from([1, 3, -1, 1 << 70]))
    def add(self, start: int, count: int, step: int) -> None:
        for number in range(start, max(start + count * step, -1), step):
            if number not in self.model:
                owner, key, time = self.model[number] = self.holder(number)
                self.entries.add(number, owner, key, time=time)

    @rule(data=st.data(), count=st.integers(1, 250), step=st.sampled_from([1, 2]))
    def pop(self, data: st.DataObject, count: int, step: int) -> None:
        numbers = sorted(self.model) or [7]
        first = data.draw(st.integers(0, len(numbers) - 1))
        for number in numbers[first : first + count : step]:
            assert self.entries.pop(number) == self.model.pop(number, None)
            assert self.entries.pop(number) is None

    @rule()
    def load(self) -> None:
        numbers = sorted(self.model)
        owners, keys, times = zip(*map(self.model.__getitem__, numbers), strict=True) if numbers else ((), (), ())
        self.entries = holdings.Holdings.of(numbers, owners, keys=keys, times=times, base=self.base)

    @rule(start=starts, size=st.one_of(st.integers(1, 300), st.just(FAR)))
    def look_at_a_range(self, start: int, size: int) -> None:
        run = ranges.sized(start, size)
        assert self.entries.within(run) == [number for number in sorted(self.model) if number in run]

    @rule(number=starts)
    def look_at_a_number(self, number: int) -> None:
        assert self.entries.get(number) == self.model.get(number)
        assert (number in self.entries) is (number in self.model)
        owner, key, _ = self.holder(number)
        assert self.entries.find(owner, key) == (number if number in self.model else None)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert list(self.entries) == sorted(self.model.items())
        assert len(self.entries) == len(self.model)
        for owner in OWNERS:
            theirs = sorted(number for number, holder in self.model.items() if holder[0] == owner)
            assert self.entries.numbers_of(owner) == theirs

    @invariant()
    def has_blocks_that_are_neither_empty_nor_too_long(self) -> None:
        sizes = [len(block.numbers) for block in self.entries._blocks]
        assert max(sizes) <= holdings.SIZE
        assert min(sizes) > 0 or len(sizes) == 1
        assert len(self.entries._bounds) == len(sizes) + 1


TestHoldingsMachine = HoldingsMachine.TestCase
TestHoldingsMachine.settings = settings(max_examples=budget.examples(100), stateful_step_count=30, deadline=None)
