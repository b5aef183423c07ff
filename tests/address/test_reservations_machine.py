"""Reservations over long histories, compared with dictionaries and sets of single numbers."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz import budget

from gantry import errors
from gantry.address import policies, ranges, reservations, stored

# Where the parts begin, and how many numbers they have: one byte's worth, node borders, both families, tiny and huge.
PARTS = [(0, 5), (252, 8), (0xC0000200, 256), (0xA00FFFC, 1 << 20), (0x20010DB8 << 96, 1 << 64)]

owners = st.sampled_from(["a", "b", "c"])
keys = st.sampled_from(["", "0", "1"])
# Beside the first numbers also some about the borders of nodes.
offsets = st.one_of(st.integers(0, 7), st.integers(0, 24), st.sampled_from([255, 256, 65535, 65536]))
sizes = st.one_of(st.integers(1, 3), st.integers(1, 12))


class ReservationsMachine(RuleBasedStateMachine):
    """The model: owners of numbers, previous owners and times of released numbers, excluded numbers."""

    parts: list[ranges.Range]

    @initialize(part=st.sampled_from(PARTS), quarantine_seconds=st.sampled_from([0.0, 3.0]), oldest_first=st.booleans())
    def begin(self, part: tuple[int, int], quarantine_seconds: float, oldest_first: bool) -> None:
        self.first, self.now, self.oldest_first = part[0], 0.0, oldest_first
        self.quarantine_seconds = quarantine_seconds
        self.whole = ranges.sized(*part)
        self.parts = [self.whole]
        self.reserved: dict[int, tuple[str, str, float]] = {}
        self.quarantine: dict[int, tuple[float, str]] = {}
        self.excluded: set[int] = set()
        self.kept = reservations.Reservations(
            [self.whole], quarantine_seconds=quarantine_seconds, oldest_first=oldest_first
        )

    def inside(self, number: int) -> bool:
        return any(number in part for part in self.parts)

    def quarantine_is_over(self, number: int) -> bool:
        return self.quarantine[number][0] + self.quarantine_seconds <= self.now

    def end_quarantines(self) -> None:
        if not self.oldest_first:
            self.quarantine = {
                number: quarantine
                for number, quarantine in self.quarantine.items()
                if not self.quarantine_is_over(number)
            }

    def free(self, number: int) -> bool:
        return number not in self.reserved and number not in self.quarantine and number not in self.excluded

    def held_by(self, owner: str, key: str) -> int | None:
        return next((number for number, reserved in self.reserved.items() if reserved[:2] == (owner, key)), None)

    def choice(self, windows: list[ranges.Range]) -> int | None:
        """Return the number that the policy "first free" must choose, by a search of number after number."""
        for window in windows:
            number = window.first
            while number <= window.last and not self.free(number):
                number += 1
            if number <= window.last:
                return number
        quarantine_is_over = [
            number for number in self.quarantine if self.quarantine_is_over(number) and number not in self.excluded
        ]
        quarantine_is_over = [number for number in quarantine_is_over if any(number in window for window in windows)]
        return quarantine_is_over[0] if self.oldest_first and quarantine_is_over else None

    def run(self, start: int, size: int) -> ranges.Range:
        return ranges.sized(self.first + start, size)

    @rule(owner=owners, key=keys, start=offsets, size=sizes, windowed=st.booleans())
    def reserve_any(self, owner: str, key: str, start: int, size: int, windowed: bool) -> None:
        windows = [part for part in map(self.run(start, size).intersection, self.parts) if part] if windowed else []
        before = self.held_by(owner, key)
        if before is None:
            self.end_quarantines()
        expected = self.choice(windows or self.parts) if before is None else before
        try:
            number = self.kept.reserve_any(owner, key, now=self.now, within=windows)
        except errors.NoRoomError:
            assert expected is None
            return
        assert number == expected
        if before is None:
            self.reserved[number] = owner, key, self.now
            self.quarantine.pop(number, None)

    @rule(owner=owners, key=keys, draw=st.integers(0, 1 << 64), worker=st.integers(0, 3), spread=st.booleans())
    def reserve_by_policy(self, owner: str, key: str, draw: int, worker: int, spread: bool) -> None:
        before = self.held_by(owner, key)
        if before is None:
            self.end_quarantines()
        policy = policies.spread(worker, workers=4) if spread else policies.random(lambda below: draw % below)
        try:
            number = self.kept.reserve_any(owner, key, now=self.now, policy=policy)
        except errors.NoRoomError:
            assert before is None
            assert self.choice(self.parts) is None
            return
        assert number == before if before is not None else self.inside(number)
        if before is None:
            # A quarantined number is reserved only if no other number is free, and then the oldest.
            assert self.free(number) or number == self.choice(self.parts)
            self.reserved[number] = owner, key, self.now
            self.quarantine.pop(number, None)

    def expect_one(self, number: int, owner: str, key: str, force: bool) -> type[errors.GantryError] | None:
        """Return the error that the request must raise."""
        if number in self.reserved:
            return None if self.reserved[number][:2] == (owner, key) else errors.NotUniqueError
        if not self.inside(number):
            return errors.InvalidError
        if self.held_by(owner, key) is not None:
            return errors.NotUniqueError
        if (
            number in self.quarantine
            and not force
            and self.quarantine[number][1] != owner
            and not self.quarantine_is_over(number)
        ):
            return errors.BusyError
        return errors.NotUniqueError if number in self.excluded and not force else None

    @rule(offset=offsets, owner=owners, key=keys, force=st.booleans())
    def reserve_one(self, offset: int, owner: str, key: str, force: bool) -> None:
        number = self.first + offset
        self.end_quarantines()
        expected = self.expect_one(number, owner, key, force)
        if expected:
            with pytest.raises(expected):
                self.kept.reserve_one(number, owner, key, now=self.now, force=force)
            return
        self.kept.reserve_one(number, owner, key, now=self.now, force=force)
        self.reserved.setdefault(number, (owner, key, self.now))
        self.quarantine.pop(number, None)

    @rule(wishes=st.lists(st.tuples(owners, keys, st.none() | offsets), min_size=1, max_size=4))
    def reserve_many(self, wishes: list[tuple[str, str, int | None]]) -> None:
        self.end_quarantines()
        before = dict(self.reserved), dict(self.quarantine)
        requests = [
            reservations.Request(owner=owner, key=key, number=None if offset is None else self.first + offset)
            for owner, key, offset in wishes
        ]
        expected: list[int] = []
        refused = False
        for request in requests:
            number = request.number
            if number is None:
                number = self.held_by(request.owner, request.key)
                number = self.choice(self.parts) if number is None else number
            elif self.expect_one(number, request.owner, request.key, False):
                number = None
            if number is None:
                refused = True
                break
            expected.append(number)
            self.reserved.setdefault(number, (request.owner, request.key, self.now))
            self.quarantine.pop(number, None)
        if refused:
            self.reserved, self.quarantine = before
        try:
            assert self.kept.reserve_many(requests, now=self.now) == expected
        except errors.GantryError:
            assert refused
        else:
            assert not refused

    @rule(data=st.data(), quarantine=st.booleans())
    def release(self, data: st.DataObject, quarantine: bool) -> None:
        number = data.draw(st.sampled_from([*self.reserved, self.first + 3]))
        try:
            reservation = self.kept.release(number, now=self.now, quarantine=quarantine)
        except errors.NotFoundError:
            assert number not in self.reserved
            return
        assert (reservation.owner, reservation.key, reservation.time) == self.reserved.pop(number)
        if quarantine and (self.quarantine_seconds or self.oldest_first):
            self.quarantine[number] = self.now, reservation.owner

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(start=offsets, size=sizes)
    def exclude(self, start: int, size: int) -> None:
        run = self.run(start, size)
        self.kept.exclude(run)
        self.excluded |= set(range(run.first, run.last + 1))

    @rule(start=offsets, size=sizes)
    def include(self, start: int, size: int) -> None:
        run = self.run(start, size)
        self.kept.include(run)
        self.excluded -= set(range(run.first, run.last + 1))

    @rule(start=offsets, size=sizes)
    def grow(self, start: int, size: int) -> None:
        self.kept.grow(self.run(start, size))
        self.parts = ranges.union([*self.parts, self.run(start, size)])

    @rule(start=offsets, size=sizes)
    def shrink(self, start: int, size: int) -> None:
        run = self.run(start, size)
        allowed = not any(number in run for number in {*self.reserved, *self.excluded})
        if not allowed:
            with pytest.raises(errors.WrongStateError):
                self.kept.shrink(run)
            return
        self.kept.shrink(run)
        self.parts = ranges.difference(self.parts, [run])
        self.quarantine = {number: quarantine for number, quarantine in self.quarantine.items() if number not in run}

    @rule(offset=offsets, late=st.booleans())
    def split_and_merge(self, offset: int, late: bool) -> None:
        at = max(1, self.first + offset)
        upper = self.kept.split(at)
        assert [number for number, _ in upper.items()] == sorted(number for number in self.reserved if number >= at)
        assert [number for number, _ in self.kept.items()] == sorted(number for number in self.reserved if number < at)
        if late:
            upper.merge(self.kept)
            self.kept = upper
        else:
            self.kept.merge(upper)
        freed = [quarantine.freed for _, quarantine in self.kept.quarantined()]
        assert freed == sorted(freed)
        # Numbers that were released at the same time may have changed their order.
        self.quarantine = {number: self.quarantine[number] for number, _ in self.kept.quarantined()}

    @rule()
    def store_and_load(self) -> None:
        raw = msgspec.json.encode(stored.dump(self.kept))
        self.kept = stored.load(msgspec.json.decode(raw, type=stored.Stored))

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.kept.parts == self.parts
        assert {number: (r.owner, r.key, r.time) for number, r in self.kept.items()} == self.reserved
        assert [(number, (r.freed, r.owner)) for number, r in self.kept.quarantined()] == list(self.quarantine.items())
        assert self.kept.excluded == ranges.union(ranges.Range(number, number) for number in self.excluded)
        for owner in "a", "b", "c":
            theirs = sorted(number for number, reserved in self.reserved.items() if reserved[0] == owner)
            assert self.kept.numbers_of(owner) == theirs

    @invariant()
    def uses_reserved_quarantined_and_excluded_numbers(self) -> None:
        busy = {*self.reserved, *self.quarantine, *self.excluded}
        everywhere = ranges.Range(0, (1 << 128) - 1)
        runs = ranges.union(ranges.Range(number, number) for number in busy)
        assert list(self.kept.space.used_runs(everywhere)) == runs
        assert self.kept.space.count(self.whole) == sum(number in self.whole for number in busy)
        assert self.kept.reserved(self.whole) == sorted(number for number in self.reserved if number in self.whole)


TestReservationsMachine = ReservationsMachine.TestCase
TestReservationsMachine.settings = settings(max_examples=budget.examples(250), stateful_step_count=80, deadline=None)
