"""The check that an address in quarantine goes to no other owner; a scenario makes it after each step.

No client of the simulation forces an address out of its quarantine. A master judges the end of a quarantine by its own
clock, so a step in which that clock was changed proves nothing.
"""

from gantry.daemons import master
from gantry.sim import cluster, invariants, story
from gantry.state.objects import snapshot as states

Look = tuple[master.Master, states.Snapshot, float]
"""A master with its state at a moment, and by how many seconds its clock was wrong."""


class Quarantined:
    """Compares the state of each master with that at the last call."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._before: dict[str, Look] = {}

    def check(self) -> None:
        """Check the addresses that were in quarantine at the last call and still are; raises Violation."""
        for name in self._lab.masters():
            clock, daemon = self._lab.world.machine(name).clock, self._lab.daemons[name]
            look = daemon, daemon.store.snapshot, clock.offset
            before = self._before.get(name, look)
            self._before[name] = look
            if (before[0], before[2]) == (daemon, clock.offset):
                _check_kept(before[1], look[1], now=clock.now())


def _check_kept(before: states.Snapshot, after: states.Snapshot, *, now: float) -> None:
    for record in before.resting.values():
        owner = after.addresses.get((record.network, record.ip)) if record.until > now else None
        if owner is not None and record.instance not in (owner.port, owner.instance):
            raise story.Violation(
                invariants.QUARANTINED,
                f"{record.ip} kept for {record.name} until {record.until:.0f}",
                f"{owner.port or owner.instance} has it at {now:.0f}",
            )
