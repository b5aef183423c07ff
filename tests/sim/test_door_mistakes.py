"""Plausible mistakes in front ends: each is found within 300 seeds, by the promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry.doors.neutron import master
from gantry.doors.rapi import reading, routes, wire
from gantry.rpc import jobs, luxi
from gantry.sim import doors, job_checks


def the_remote_api_drops_the_user(patch: pytest.MonkeyPatch) -> None:
    original = routes.Master.submit

    async def submit(self: routes.Master, request: wire.Request, ops: Iterable[Mapping[str, object]]) -> int:
        return await original(self, dataclasses.replace(request, user=""), ops)

    patch.setattr(routes.Master, "submit", submit)


def the_neutron_api_drops_the_user(patch: pytest.MonkeyPatch) -> None:
    original = master.Master.run

    async def run(
        self: master.Master,
        ops: Sequence[jobs.Op],
        origin: master.Origin,
        *,
        conditions: Sequence[jobs.Condition] = (),
        query: jobs.Query | None = None,
    ) -> jobs.Done:
        return await original(self, ops, master.Origin("", origin.request), conditions=conditions, query=query)

    patch.setattr(master.Master, "run", run)


def a_precondition_is_dropped(patch: pytest.MonkeyPatch) -> None:
    async def check(
        master: routes.Master, request: wire.Request, route: routes.Route, names: Mapping[str, str]
    ) -> None:
        """Accept every version."""

    patch.setattr(reading, "check_version", check)


def a_job_is_answered_before_it_ends(patch: pytest.MonkeyPatch) -> None:
    async def run(
        caller: luxi.Caller,
        ops: Sequence[jobs.Op],
        *,
        timeout_seconds: float,
        conditions: Sequence[jobs.Condition] = (),
        query: jobs.Query | None = None,
    ) -> jobs.Done:
        await caller.call(int, "SubmitJob", ops)
        rows = await jobs.rows(caller, query.kind, query.fields, query.filter) if query else []
        return jobs.Done([None for _ in ops], rows)

    patch.setattr(jobs, "run", run)


DOOR_MISTAKES: dict[Patch, tuple[int, str]] = {
    the_remote_api_drops_the_user: (21, job_checks.USER),
    the_neutron_api_drops_the_user: (85, job_checks.USER),
    a_precondition_is_dropped: (21, doors.CONDITION),
    a_job_is_answered_before_it_ends: (85, doors.DONE),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", DOOR_MISTAKES, ids=lambda patch: patch.__name__)
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = DOOR_MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)
