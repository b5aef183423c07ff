"""Plausible mistakes in operations, each found by the very promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

from collections.abc import Iterable

import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry import errors
from gantry.jobs import execution, hooks, lock_table, processor, records
from gantry.model import instance, lock, network
from gantry.node.hypervisors import fake
from gantry.operations import base
from gantry.operations.cluster import settings
from gantry.operations.disk import grow
from gantry.operations.disk_planning import volumes
from gantry.operations.move import relocation
from gantry.operations.segment import segment_range
from gantry.rpc import calls
from gantry.sim import invariants, job_checks, node_disks, outcome, work_locks
from gantry.sim.schedules import small_node
from gantry.state.objects import snapshot as states


def a_migration_leaves_the_source_running(patch: pytest.MonkeyPatch) -> None:
    original = fake.Fake.finalize_source

    async def finalize(self: fake.Fake, machine: calls.Instance, *, success: bool) -> None:
        await original(self, machine, success=False)

    patch.setattr(fake.Fake, "finalize_source", finalize)


def a_failover_does_not_stop_the_instance(patch: pytest.MonkeyPatch) -> None:
    def leave(self: relocation.Work, *, runs: bool, lenient: bool = False) -> list[base.Step]:
        return []

    patch.setattr(relocation.Work, "leave", leave)


def a_grown_disk_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    def recorded(self: grow.InstanceGrowDisk, current: states.Snapshot, growth: grow._Growth) -> instance.Instance:
        return current.instances[growth.vm.uuid]

    patch.setattr(grow.InstanceGrowDisk, "_recorded", recorded)


def a_disk_grows_in_the_state_alone(patch: pytest.MonkeyPatch) -> None:
    def grow_steps(self: volumes.Volumes, size: int) -> list[base.Step]:
        return []

    patch.setattr(volumes.Volumes, "grow", grow_steps)


def a_range_gives_up_used_ids(patch: pytest.MonkeyPatch) -> None:
    def check(
        environment: base.Environment,
        snapshot: states.Snapshot,
        run: network.SegmentRange,
        removed: Iterable[object],
    ) -> None:
        """Accept everything."""

    patch.setattr(segment_range, "_check_unused", check)


def ranges_may_overlap(patch: pytest.MonkeyPatch) -> None:
    def check(environment: base.Environment, snapshot: states.Snapshot, *ranges: network.SegmentRange) -> None:
        """Accept everything."""

    patch.setattr(segment_range, "_check_apart", check)


def a_hook_that_refuses_is_ignored(patch: pytest.MonkeyPatch) -> None:
    original = hooks.Runner.before

    async def lenient(self: hooks.Runner, snapshot: states.Snapshot) -> None:
        try:
            await original(self, snapshot)
        except errors.HooksError:
            """Continue."""

    patch.setattr(hooks.Runner, "before", lenient)


def a_setting_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    def values(op: object) -> dict[str, object]:
        return {}

    patch.setattr(settings, "_values", values)


def locks_are_not_computed_again_after_the_wait(patch: pytest.MonkeyPatch) -> None:
    async def acquire(
        self: processor.Processor, record: records.Record, index: int, unit: execution.AnyUnit
    ) -> lock_table.Request:
        needed = unit.locks(self._book.store.snapshot)
        request = self._locks.ask(record.current.id, needed, priority=record.current.ops[index].priority)
        try:
            if request.state is lock_table.State.WAITING:
                await self._wait(record, index, request)
        except BaseException:
            self._locks.release(request)
            raise
        return request

    patch.setattr(processor.Processor, "_acquire", acquire)


def moves_share_the_lock_of_the_instance(patch: pytest.MonkeyPatch) -> None:
    original = relocation.locks

    def locks(snapshot: states.Snapshot, vm: instance.Instance, *, target: str | None) -> lock.LockSet:
        needed = original(snapshot, vm, target=target)
        return {**needed, (lock.Level.INSTANCE, vm.uuid): lock.Mode.SHARED}

    patch.setattr(relocation, "locks", locks)


def a_move_does_not_check_the_target(patch: pytest.MonkeyPatch) -> None:
    async def check(*arguments: object, **options: object) -> None:
        """Accept every node."""

    patch.setattr(relocation, "check_fits", check)


OPERATION_MISTAKES: dict[Patch, tuple[int, str]] = {
    a_migration_leaves_the_source_running: (4, invariants.GUESTS),
    a_failover_does_not_stop_the_instance: (0, invariants.GUESTS),
    a_grown_disk_is_not_recorded: (1, outcome.FACTS),
    a_disk_grows_in_the_state_alone: (104, node_disks.SIZES),
    a_range_gives_up_used_ids: (97, invariants.RANGES),
    ranges_may_overlap: (30, invariants.RANGES),
    a_hook_that_refuses_is_ignored: (12, job_checks.VETO),
    a_setting_is_not_kept: (1, outcome.FACTS),
    locks_are_not_computed_again_after_the_wait: (113, work_locks.NEEDED),
    moves_share_the_lock_of_the_instance: (0, work_locks.NEEDED),
    a_move_does_not_check_the_target: (161, small_node.FITS),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", OPERATION_MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = OPERATION_MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)
