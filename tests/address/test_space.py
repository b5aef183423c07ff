"""Space: examples, and a state machine against a list of runs."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz import budget

from gantry.address import ranges, space

UNIVERSES = [
    ranges.Range(0, 20),
    ranges.parse_range("192.0.2.0/24")[1],
    ranges.parse_range("10.0.255.250-10.3.0.9")[1],
    ranges.parse_range("2001:db8::/64")[1],
    ranges.parse_range("::/0")[1],
]


def test_an_empty_space_costs_nothing_and_everything_in_it_is_free() -> None:
    numbers = space.Space()
    whole = ranges.Range(0, (1 << 128) - 1)
    assert numbers.next_free(0, whole.last) == 0
    assert numbers.count(whole) == 0
    assert list(numbers.used_runs(whole)) == []
    assert list(numbers.free_runs(whole)) == [whole]


def test_a_full_space_says_so_at_once() -> None:
    whole = ranges.Range(0, (1 << 128) - 1)
    numbers = space.Space.of([whole])
    assert numbers.next_free(0, whole.last) is None
    assert numbers.count(whole) == whole.size
    assert numbers.release(1 << 127)
    assert numbers.next_free(5, whole.last) == 1 << 127
    assert numbers.allocate(1 << 127)
    assert list(numbers.used_runs(whole)) == [whole]


def test_numbers_are_handed_out_upwards_over_every_node_border() -> None:
    first, size = (1 << 24) - 1000, 140_000
    numbers = space.Space()
    for expected in range(first, first + size):
        number = numbers.next_free(first, first + size - 1)
        assert number == expected
        assert numbers.allocate(number)
    assert numbers.next_free(first, first + size - 1) is None
    assert numbers.count(ranges.sized(first, size)) == size


def test_a_search_returns_nothing_below_its_start_whatever_was_released_meanwhile() -> None:
    numbers = space.Space.of([ranges.Range(0, 999)])
    for released, expected in (
        (ranges.Range(0, 99), 1000),
        (ranges.Range(500, 509), 500),
        (ranges.Range(50, 600), 300),
    ):
        assert numbers.next_free(300, 2000) == 1000
        numbers.release_range(released)
        assert numbers.next_free(300, 2000) == expected
        numbers.allocate_range(released)


def test_a_number_in_full_nodes_of_any_level_is_used_and_those_beside_it_are_free() -> None:
    for bits in (8, 16, 24, 32, 64):
        run = ranges.sized(5 << bits, 3 << bits)
        numbers = space.Space.of([run])
        for number in (run.first, run.first + 7, run.first + (1 << bits) - 1, run.first + (1 << bits), run.last):
            assert numbers.is_used(number)
            assert not numbers.allocate(number)
        for number in (run.first - 1, run.last + 1, run.first >> 1, run.first << 1, (run.first << 1) + 7):
            assert not numbers.is_used(number)


def test_a_hole_is_found_wherever_it_is() -> None:
    run = ranges.sized(0x20010DB8 << 96, 1 << 64)
    numbers = space.Space.of([run])
    for offset in (0, 255, 256, 65535, 65536, 1 << 40, (1 << 64) - 1):
        assert numbers.release(run.first + offset)
        assert numbers.next_free(run.first, run.last) == run.first + offset
        assert numbers.allocate(run.first + offset)


def test_a_search_stores_the_full_nodes_that_it_passes_as_marks() -> None:
    numbers = space.Space.of([ranges.Range(0, 255)])
    for number in range(256, 512):
        numbers.allocate(number)
    assert sum(map(len, numbers._levels)) == 2
    assert numbers.next_free(0, 1023) == 512
    assert sum(map(len, numbers._levels)) == 1
    assert list(numbers.used_runs(ranges.Range(0, 1023))) == [ranges.Range(0, 511)]


def test_a_search_goes_on_above_a_full_node_without_a_mark() -> None:
    numbers = space.Space.of([ranges.Range(0, 255)])
    for number in range(5 * 256 + 128, 7 * 256):
        numbers.allocate(number)
    assert numbers.next_free(5 * 256 + 200, 9999) == 7 * 256
    assert numbers.next_free(0, 9999) == 256


def test_the_release_of_a_free_number_beside_a_full_node_changes_nothing() -> None:
    full_nodes = ranges.Range(0, 511)
    numbers = space.Space.of([full_nodes])
    assert not numbers.release(512)
    numbers.release_range(ranges.Range(600, 610))
    assert list(numbers.used_runs(ranges.Range(0, 1023))) == [full_nodes]
    assert numbers.next_free(0, 1023) == 512


def test_a_huge_range_is_stored_in_two_nodes_a_level() -> None:
    numbers = space.Space.of([ranges.sized((0x20010DB8 << 96) + 77, (1 << 64) - 99)])
    assert sum(map(len, numbers._levels)) <= 2 * 9
    numbers.release_range(ranges.sized(0, 1 << 128))
    assert sum(map(len, numbers._levels)) == 0


class SpaceMachine(RuleBasedStateMachine):
    """The model is the sorted list of used runs."""

    universe: ranges.Range
    used: list[ranges.Range]

    @initialize(universe=st.sampled_from(UNIVERSES), based=st.sampled_from(["no", "first", "inside"]))
    def begin(self, universe: ranges.Range, based: str) -> None:
        self.universe = universe
        self.used = []
        middle = universe.first + universe.size // 2
        self.base = {"no": 0, "first": universe.first, "inside": middle}[based]
        self.space = space.Space(base=self.base)

    def number(self, data: st.DataObject) -> int:
        """Draw near the ends, near what is used, near a node's border, or anywhere."""
        ends = [end for run in self.used for end in (run.first, run.last)]
        anchor = data.draw(st.sampled_from([self.universe.first, self.universe.last, *ends]))
        border = anchor >> (shift := data.draw(st.sampled_from([0, 0, 8, 16, 24, 64]))) << shift
        near = border + data.draw(st.one_of(st.integers(-3, 3), st.sampled_from([-256, 255, 256, 65535, 65536])))
        anywhere = st.integers(self.universe.first, self.universe.last)
        return near if near in self.universe else data.draw(anywhere)

    def run(self, data: st.DataObject) -> ranges.Range:
        ends = self.number(data), self.number(data)
        return ranges.Range(min(ends), max(ends))

    def is_used(self, number: int) -> bool:
        return any(number in run for run in self.used)

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        number = self.number(data)
        assert self.space.allocate(number) is not self.is_used(number)
        self.used = ranges.union([*self.used, ranges.Range(number, number)])

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = self.number(data)
        assert self.space.release(number) is self.is_used(number)
        self.used = ranges.difference(self.used, [ranges.Range(number, number)])

    @rule(data=st.data())
    def take_range(self, data: st.DataObject) -> None:
        run = self.run(data)
        self.space.allocate_range(run)
        self.used = ranges.union([*self.used, run])

    @rule(data=st.data())
    def give_range(self, data: st.DataObject) -> None:
        run = self.run(data)
        self.space.release_range(run)
        self.used = ranges.difference(self.used, [run])

    @rule(data=st.data(), count=st.integers(1, 600))
    def take_next(self, data: st.DataObject, count: int) -> None:
        start = self.number(data)
        for _ in range(count):
            free = ranges.difference([ranges.Range(start, self.universe.last)], self.used)
            number = self.space.next_free(start, self.universe.last)
            assert number == (free[0].first if free else None)
            if number is None:
                break
            assert self.space.allocate(number)
            self.used = ranges.union([*self.used, ranges.Range(number, number)])

    @rule(data=st.data())
    def search(self, data: st.DataObject) -> None:
        run = self.run(data)
        free = ranges.difference([run], self.used)
        assert self.space.next_free(run.first, run.last) == (free[0].first if free else None)
        start = data.draw(st.integers(run.first, run.last))
        above = ranges.difference([ranges.Range(start, run.last)], self.used)
        assert self.space.next_free(start, run.last) == (above[0].first if above else None)

    @rule(data=st.data())
    def look_at_a_part(self, data: st.DataObject) -> None:
        run = self.run(data)
        free = ranges.difference([run], self.used)
        assert list(self.space.free_runs(run)) == free
        assert list(self.space.used_runs(run)) == ranges.difference([run], free)
        assert self.space.count(run) == run.size - ranges.size(free)
        number = self.number(data)
        assert self.space.is_used(number) is self.is_used(number)

    @rule()
    def load(self) -> None:
        self.space = space.Space.of(reversed(self.used), base=self.base)

    @rule()
    def load_one_by_one(self) -> None:
        if ranges.size(self.used) < 10_000:
            self.space = space.Space(base=self.base)
            for run in self.used:
                for number in range(run.first, run.last + 1):
                    self.space.allocate(number)

    @invariant()
    def uses_what_the_model_uses(self) -> None:
        assert list(self.space.used_runs(self.universe)) == self.used

    @invariant()
    def stores_no_node_without_bits_and_none_below_a_mark(self) -> None:
        levels = self.space._levels
        for level, nodes in enumerate(levels):
            for key, word in nodes.items():
                assert 0 < word < 1 << 256
                for above, distance in zip(levels[level + 1 :], itertools.count(1)):
                    mark = key >> 8 * (distance - 1)
                    assert not above.get(mark >> 8, 0) >> (mark & 255) & 1


TestSpaceMachine = SpaceMachine.TestCase
TestSpaceMachine.settings = settings(max_examples=budget.examples(150), stateful_step_count=50, deadline=None)
