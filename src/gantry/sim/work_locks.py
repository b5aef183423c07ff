"""The check of the locks of jobs at work: who changes an instance holds it alone, and has locks of its nodes.

The locks that a job needs follow from the state; while the job waits for them, another job may move the instance
(explanation/locks.md#whole-sets). So they are compared with the state at that moment, not with what the job asked for.
"""

from collections.abc import Iterator, Mapping, Sequence

from gantry.daemons import master
from gantry.model import job as jobs
from gantry.model import lock
from gantry.sim import cluster
from gantry.sim.story import Violation

NEEDED = "a job that changes an instance holds it alone, and has locks of its nodes"

CHANGING = frozenset(
    f"OP_INSTANCE_{verb}"
    for verb in ("STARTUP", "SHUTDOWN", "REBOOT", "REMOVE", "SET_PARAMS", "FAILOVER", "MIGRATE", "MOVE")
)
"""The opcodes that are checked: they name the instance, and keep its name until their end."""

Moment = tuple[master.Master, Sequence[int], int]
"""A master, the jobs that are at work there, and the serial of its state: what the check depends on."""

Modes = Mapping[tuple[int, str], str | None]
"""The mode of each lock that a job holds, by the number of the job and the name of the lock."""


class WorkLocks:
    """Checks the locks of the jobs at work on each master."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._checked: dict[str, Moment] = {}

    def glance(self) -> None:
        """Check the jobs at work if anything has changed since the last call; raises Violation."""
        for name in self._lab.masters():
            daemon = self._lab.daemons[name]
            moment = daemon, daemon.queue.executing(), daemon.store.snapshot.serial
            if moment[1] and self._checked.get(name) != moment:
                self._checked[name] = moment
                _check(daemon, moment[1])


def _check(daemon: master.Master, at_work: Sequence[int]) -> None:
    state, lock_modes = daemon.store.snapshot, None
    for number in at_work:
        for op_id, instance_name in _work(daemon, number):
            vm = state.instances.get(state.names.get(("instances", instance_name), ""))
            if vm is None:
                continue
            lock_modes = lock_modes if lock_modes is not None else _modes_of_locks(daemon)
            if _mode(lock_modes, number, lock.Level.INSTANCE, vm.uuid) != lock.Mode.EXCLUSIVE.value:
                raise Violation(NEEDED, f"job {number} ({op_id}) to hold {vm.name} alone", "others may hold it too")
            for uuid in vm.nodes:
                if not _mode(lock_modes, number, lock.Level.NODE, uuid):
                    node = state.nodes[uuid].name
                    raise Violation(NEEDED, f"job {number} ({op_id}) on {vm.name} to have a lock of {node}", "none")


def _work(daemon: master.Master, number: int) -> Iterator[tuple[str, str]]:
    """Yield the id of the running opcode of a job and its instance, if it is one that is checked."""
    job = daemon.queue.jobs().get(number)
    for step in job.ops if job else ():
        op_id, name = getattr(step.input, "op_id", ""), getattr(step.input, "instance_name", None)
        if step.status is jobs.Status.RUNNING and op_id in CHANGING and name:
            yield op_id, name


def _modes_of_locks(daemon: master.Master) -> Modes:
    return {(owner, usage.name): usage.mode for usage in daemon.locks.owners_and_waiters() for owner in usage.owners}


def _mode(lock_modes: Modes, number: int, level: lock.Level, uuid: str) -> str | None:
    """Return the mode in which a job holds an object, by its own lock or by the metalock of its level."""
    names = f"{_LEVEL_NAMES[level]}/{uuid}", f"{_LEVEL_NAMES[level]}/[lockset]"
    return next((mode for name in names if (mode := lock_modes.get((number, name)))), None)


_LEVEL_NAMES = {lock.Level.INSTANCE: "instance", lock.Level.NODE: "node"}
