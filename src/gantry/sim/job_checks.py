"""What must hold of single jobs: they name their clients, no hook has refused what they did, and so on.

``client`` creates a ``Beginning`` before it submits a job, and calls ``check`` at its successful end.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gantry.daemons import master as daemons
from gantry.model import instance
from gantry.model import job as jobs
from gantry.sim import cluster, copies
from gantry.sim.steps import wish as wishes
from gantry.sim.story import Violation
from gantry.state.objects import snapshot as states

VETO = "an opcode that a hook refused is not carried out"
USER = "a job names the user of the front end that asked for it"
EMPTIED = "a job that empties a node moves each instance, or says that it stays"
EMPTYING = ("OP_NODE_EVACUATE", "OP_NODE_MIGRATE")
RUNNING = "up"
"""What OP_NODE_MIGRATE moves, as a mode of OP_NODE_EVACUATE: the instances whose admin state is up."""


class _Emptied(msgspec.Struct):
    """The result of a job that empties a node: the submitted jobs, and why instances stay."""

    jobs: list[tuple[bool, int]]
    stay: dict[str, str]


class Beginning:
    """The time, the master daemons and their states before a job was submitted."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._since = lab.world.clock.monotonic()
        self._daemons: Mapping[str, daemons.Master] = dict(lab.daemons)
        self._states = {name: daemon.store.snapshot for name, daemon in lab.daemons.items()}

    def check(self, wish: wishes.Wish, master: str, *, results: Iterable[object], log: str) -> None:
        """Check a job that has succeeded, unless its master has changed; raises Violation."""
        daemon = self._daemons.get(master)
        if daemon is None or self._lab.daemons.get(master) is not daemon:
            return
        self._check_hooks(wish, master, log)
        for op, result in zip(wish.ops, results, strict=True):
            if op["OP_ID"] in EMPTYING:
                _check_emptied(self._states[master], daemon, op, msgspec.convert(result, _Emptied))

    def _check_hooks(self, wish: wishes.Wish, master: str, log: str) -> None:
        """Check that no script on the master's own machine refused; if its answer did not arrive, the log says so."""
        for op in wish.ops:
            for _, name in wish.keys:
                refused = self._lab.hooks.refused(master, str(op["OP_ID"]), name, since=self._since)
                if refused and f"on {master}: did not run" not in log:
                    raise Violation(VETO, f"no {op['OP_ID']} of {name}, which a hook refused", "it succeeded")


def _check_emptied(before: states.Snapshot, daemon: daemons.Master, op: cluster.Opcode, emptied: _Emptied) -> None:
    """Check that each instance that was there all the time is in a submitted job, or stays."""
    after, every = daemon.store.snapshot, daemon.queue.jobs()
    numbers = [number for accepted, number in emptied.jobs if accepted]
    if not every.keys() >= {*numbers}:
        # An archived job has nothing to tell.
        return
    moved = {getattr(step.input, "instance_name", "") for number in numbers for step in every[number].ops}
    for vm in _leaving(before, op):
        if after.instances.get(vm.uuid) == vm and vm.name not in moved | emptied.stay.keys():
            raise Violation(EMPTIED, f"a job for {vm.name}, or why it stays on {op['node_name']}", "neither")


def _leaving(state: states.Snapshot, op: cluster.Opcode) -> Iterator[instance.Instance]:
    """Yield the instances that an opcode should move, or whose copies it should move."""
    node, mode = state.names.get(("nodes", str(op["node_name"])), ""), op.get("mode", RUNNING)
    for vm in state.instances.values():
        is_up = vm.admin_state is instance.AdminState.UP
        goes = vm.primary_node == node and (is_up if mode == RUNNING else mode != "secondary-only")
        if goes or (node in vm.secondary_nodes and mode in ("secondary-only", "all")):
            yield vm


def check_users(jobs: Iterable[jobs.Job]) -> None:
    """Check that jobs name their clients; all of them do, by a comment or as users of a front end."""
    for each in jobs:
        if not copies.mark_of(msgspec.to_builtins(each.ops[0].input)):
            raise Violation(USER, f"a user of job {each.id}", f"{each.ops[0].input.reason}")
