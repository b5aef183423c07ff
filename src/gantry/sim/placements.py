"""The invariants of every placement: where an instance, or a copy of its disks, may come.

They compare the state of each master with its state a moment before, so they see each move, whatever job does it: one
that a client submitted, or one of those that empty a node or a node group. ``scenario`` calls ``glance``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gantry.daemons import master
from gantry.model import instance, parameters, policy
from gantry.model import job as jobs
from gantry.sim import cluster
from gantry.sim.story import Violation
from gantry.state.objects import snapshot as states

TAKES = "an instance comes only to a node that takes instances"
POLICY = "an instance comes only to a node group whose instance policy allows it"


@dataclass
class _Known:
    """A master daemon, its state at the last call, and its state when each of the jobs that were at work began."""

    daemon: master.Master
    state: states.Snapshot
    begun: dict[int, states.Snapshot] = field(default_factory=dict)


class Placements:
    """Checks where instances come."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._masters: dict[str, _Known] = {}

    def glance(self) -> None:
        """Check what has come to nodes since the last call; raises Violation."""
        for name in self._lab.masters():
            daemon, known = self._lab.daemons[name], self._masters.get(name)
            state = daemon.store.snapshot
            if known is None or known.daemon is not daemon:
                known = self._masters[name] = _Known(daemon, state)
            # A change that could not be stored is taken back; then the serial number falls.
            if state.serial > known.state.serial and state.instances is not known.state.instances:
                _check(known, state)
            known.state = state
            known.begun = {number: known.begun.get(number, state) for number in daemon.queue.executing()}


def _check(known: _Known, after: states.Snapshot) -> None:
    for uuid, vm in after.instances.items():
        old = known.state.instances.get(uuid)
        if old is vm or not (arrivals := {*vm.nodes} - {*(old.nodes if old else ())}):
            continue
        begun = _begun(known, old or vm)
        # A cleanup records where an instance is after a move that was interrupted, an adoption where its guest runs.
        if begun is None:
            continue
        # A job that fails brings the instance back to where it was.
        before = begun.instances.get(uuid)
        arrivals -= {*(before.nodes if before else ())}
        for node in (after.nodes[arrival] for arrival in arrivals):
            if node.offline or node.drained:
                flag = "offline" if node.offline else "drained"
                raise Violation(TAKES, f"{vm.name} on nodes that take instances", f"it comes to {node.name}: {flag}")
        if vm.primary_node in arrivals:
            _check_policy(begun, after, old, vm)


def _begun(known: _Known, vm: instance.Instance) -> states.Snapshot | None:
    """Return the state when the job that changes an instance began; None if that job only records where it is."""
    every: Mapping[int, jobs.Job] = known.daemon.queue.jobs()
    for number, state in known.begun.items():
        for op in (step.input for step in every[number].ops) if number in every else ():
            if getattr(op, "guest_name", None) == vm.name:
                return None
            if getattr(op, "instance_name", None) == vm.name:
                return None if getattr(op, "cleanup", False) else state
    return known.state


def _check_policy(
    begun: states.Snapshot, after: states.Snapshot, old: instance.Instance | None, vm: instance.Instance
) -> None:
    """Check an instance that comes to a node group, if nobody has changed a policy since its job began."""
    uuid = after.nodes[vm.primary_node].group
    owner, group = after.the_cluster, after.nodegroups[uuid]
    if old and after.nodes[old.primary_node].group == uuid:
        return
    before = begun.nodegroups.get(uuid)
    if before is None or (before.ipolicy, begun.the_cluster.ipolicy) != (group.ipolicy, owner.ipolicy):
        return
    limits = policy.filled(owner.ipolicy, group.ipolicy)
    if broken := policy.violations(limits, vm, parameters.fill_backend(owner, vm)):
        raise Violation(POLICY, f"{vm.name} within the policy of {group.name}", broken[0])
