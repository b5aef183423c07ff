"""Plausible mistakes about a shared database of addresses: each is found by the promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry import errors
from gantry.ipam import quarantine, shared
from gantry.ipam.sql import records, sharing, statements
from gantry.model import network
from gantry.sim import invariants, outcome
from gantry.state.objects import snapshot as states


def a_lost_answer_counts_as_a_failure(patch: pytest.MonkeyPatch) -> None:
    original = shared.Shared.secure

    async def secure(
        self: shared.Shared, job: int, before: states.Snapshot, changes: Sequence[states.Change], *, attempt: int
    ) -> bool:
        known = dict(self._unsettled._addresses)
        try:
            return await original(self, job, before, changes, attempt=attempt)
        except errors.EnvironmentFaultError:
            self._unsettled._addresses = known
            raise

    patch.setattr(shared.Shared, "secure", secure)


def an_address_of_another_owner_is_taken_over(patch: pytest.MonkeyPatch) -> None:
    original = sharing.secure

    def secure(db: statements.Statements, allocations: Iterable[records.Allocation], *, mark: str, ahead: int) -> None:
        original(db, allocations, mark="", ahead=ahead)

    patch.setattr(sharing, "secure", secure)


def an_address_is_released_for_every_owner(patch: pytest.MonkeyPatch) -> None:
    original = sharing.release

    def release(db: statements.Statements, addresses: Iterable[tuple[str, str]], *, mark: str) -> None:
        original(db, addresses, mark="")

    patch.setattr(sharing, "release", release)


def a_conflict_in_the_database_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def secure(db: statements.Statements, allocations: Iterable[records.Allocation], *, mark: str, ahead: int) -> None:
        for each in sorted(allocations):
            sharing._conflict(db, each, mark)

    patch.setattr(sharing, "secure", secure)


def an_address_is_given_before_the_database_has_it(patch: pytest.MonkeyPatch) -> None:
    def secure(db: statements.Statements, allocations: Iterable[records.Allocation], *, mark: str, ahead: int) -> None:
        """Leave it to the next comparison with the state."""

    patch.setattr(sharing, "secure", secure)


def a_lost_answer_counts_as_a_success(patch: pytest.MonkeyPatch) -> None:
    original = shared.Shared._do

    async def do(self: shared.Shared, work: Callable[[statements.Statements], object]) -> object:
        try:
            return await original(self, work)
        except errors.EnvironmentFaultError as error:
            if "outcome unknown" in str(error):
                return None
            raise

    patch.setattr(shared.Shared, "_do", do)


def an_address_is_released_before_its_release_is_durable(patch: pytest.MonkeyPatch) -> None:
    original, releases = shared.Shared.follow, set[asyncio.Task[None]]()

    async def release(self: shared.Shared, addresses: Sequence[tuple[str, str]], mark: str) -> None:
        with contextlib.suppress(errors.GantryError):
            await self._do(lambda db: sharing.release(db, addresses, mark=mark))

    def follow(
        self: shared.Shared, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]
    ) -> None:
        known = {*self._unsettled._addresses}
        original(self, before, after, changes)
        addresses = [(subnet, key[1]) for key, subnet in self._unsettled._addresses.items() if key not in known]
        if addresses:
            releases.add(asyncio.create_task(release(self, addresses, self._mark)))

    patch.setattr(shared.Shared, "follow", follow)


def an_address_is_allocated_in_its_quarantine(patch: pytest.MonkeyPatch) -> None:
    def expire(self: quarantine.Quarantine) -> Iterator[network.Quarantine]:
        yield from [*self._live.values()]
        self._live.clear()

    patch.setattr(quarantine.Quarantine, "expire", expire)


DATABASE_MISTAKES: dict[Patch, tuple[int, str]] = {
    a_lost_answer_counts_as_a_failure: (32, outcome.DATABASE),
    a_lost_answer_counts_as_a_success: (51, invariants.STORED),
    an_address_is_released_before_its_release_is_durable: (23, invariants.STORED),
    an_address_is_allocated_in_its_quarantine: (51, invariants.QUARANTINED),
    an_address_is_given_before_the_database_has_it: (80, invariants.STORED),
    an_address_of_another_owner_is_taken_over: (10, invariants.FOREIGN),
    an_address_is_released_for_every_owner: (10, invariants.FOREIGN),
    a_conflict_in_the_database_is_ignored: (18, invariants.SHARED),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", DATABASE_MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = DATABASE_MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)
