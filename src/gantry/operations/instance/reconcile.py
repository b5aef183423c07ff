"""OP_CLUSTER_REPAIR_STRAY_GUESTS and OP_STRAY_GUEST_REPAIR: apply the operator's rule to stray guests.

``stray_guests`` finds them and decides.
The first takes no locks: it asks the nodes, and submits a job for each guest to which the rule applies. That job locks
the guest's name and UUID, so it waits for every job that works on the instance; then it looks again, at a state and a
node that nobody changes meanwhile. A guest that is no longer stray is left alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import lock, opcodes
from gantry.operations import base, guest_lists, stray_guests
from gantry.rpc import calls, liveness
from gantry.state.objects import snapshot as states

SHUTDOWN_TIMEOUT_SECONDS = 120.0
"""How long a guest may take to shut down before its power is cut, as for gnt-instance stop."""


@dataclass(frozen=True)
class Facts:
    """The stray guests with what the rule makes of them."""

    strays: Sequence[tuple[stray_guests.Stray, stray_guests.Decision]]


class ClusterRepairStrayGuests(base.Unit[opcodes.ClusterRepairStrayGuests, Facts]):
    """Finds all stray guests and submits a job for each to which the rule applies."""

    OPCODE = opcodes.ClusterRepairStrayGuests

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing: the submitted jobs have locks of their own."""
        del snapshot
        return {}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask all online nodes for their guests, and for the devices of the stray ones."""
        candidates = await stray_guests.reported(self.environment.nodes, snapshot, snapshot.nodes.values())
        strays = await asyncio.gather(*(stray_guests.examine(self.environment.nodes, stray) for stray in candidates))
        rule = self._rule(snapshot)
        return Facts([(stray, stray_guests.decide(snapshot, stray, rule)) for stray in strays])

    def _rule(self, snapshot: states.Snapshot) -> str:
        return self.op.rule or snapshot.the_cluster.stray_guests

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Submit the jobs, and say why the other guests are left."""
        chosen = [stray for stray, decision in facts.strays if decision.action is not stray_guests.Action.LEAVE]
        remaining = {stray.name: decision.reason for stray, decision in facts.strays if stray not in chosen}
        lines = [
            f"{stray_guests.description(snapshot, stray)}: {decision.action.value}"
            + (f", {decision.reason}" if decision.reason else "")
            for stray, decision in facts.strays
        ]
        return base.Plan(
            lines=lines or ["there are no stray guests"],
            steps=[base.Step("look for stray guests", (self._warnings(lines),))],
            jobs=[[self._job(snapshot, stray)] for stray in chosen],
            result=lambda: {"left": remaining},
        )

    def _warnings(self, lines: Sequence[str]) -> base.Procedure:
        async def warn() -> None:
            for line in lines:
                self.environment.log.warning(line)

        return base.Procedure("only writes warnings to the job's log", warn)

    def _job(self, snapshot: states.Snapshot, stray: stray_guests.Stray) -> opcodes.StrayGuestRepair:
        return opcodes.StrayGuestRepair(
            guest_name=stray.guest.name,
            guest_uuid=stray.guest.uuid,
            node_name=stray.target.name,
            rule="adopt" if self._rule(snapshot) == "adopt" else "stop",
            reason=self.op.reason,
            priority=self.op.priority,
        )


class StrayGuestRepair(base.Unit[opcodes.StrayGuestRepair, stray_guests.Stray | None]):
    """Stops or adopts one guest; does nothing if it is not stray."""

    OPCODE = opcodes.StrayGuestRepair

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, also by the name that a job which creates it locks; the node shared."""
        names = {self.op.guest_name, self.op.guest_uuid}
        return {
            **{(lock.Level.INSTANCE, name): lock.Mode.EXCLUSIVE for name in names},
            (lock.Level.NODE, snapshot.node(self.op.node_name).uuid): lock.Mode.SHARED,
        }

    async def inspect(self, snapshot: states.Snapshot) -> stray_guests.Stray | None:
        """Look for the guest again, on its node and on its primary node in the state."""
        target = snapshot.target(snapshot.node(self.op.node_name))
        vm = snapshot.instances.get(self.op.guest_uuid)
        home = [snapshot.target(snapshot.nodes[vm.primary_node])] if vm and vm.primary_node != target.uuid else []
        here, *there = await liveness.attend(self.environment.nodes, [target, *home], guest_lists.ask(snapshot))
        if here.error is not None:
            raise here.error
        strays = stray_guests.find(snapshot, [here, *there])
        own = [stray for stray in strays if stray.guest.uuid == self.op.guest_uuid and stray.target == target]
        return await stray_guests.examine(self.environment.nodes, own[0]) if own else None

    def plan(self, snapshot: states.Snapshot, facts: stray_guests.Stray | None) -> base.Plan:
        """Stop the guest, or record it; WrongStateError if an adoption is impossible."""
        if facts is None:
            line = f"guest {self.op.guest_name} on {self.op.node_name} is not stray: nothing is changed"
            return base.Plan(lines=[line], steps=[base.Step(line)], result=lambda: "none")
        decision = stray_guests.decide(snapshot, facts, self.op.rule)
        if decision.action is stray_guests.Action.LEAVE:
            raise errors.WrongStateError(
                f"{facts.name} cannot be adopted: {decision.reason}",
                hint="end the conflict, or stop the guest: gnt-cluster repair-stray-guests --rule stop",
            )
        if decision.action is stray_guests.Action.STOP:
            return self._stop(snapshot, facts)
        line = f"adopt {facts.name}: {stray_guests.description(snapshot, facts)}"
        vm = stray_guests.adopted(snapshot, facts, self.environment.inputs.now)
        return base.Plan(lines=[line], changes=[states.Put(vm)], steps=[base.Step(line)], result=lambda: "adopted")

    def _stop(self, snapshot: states.Snapshot, stray: stray_guests.Stray) -> base.Plan:
        guest = stray.machine or calls.Instance(
            name=stray.guest.name, uuid=stray.guest.uuid, hypervisor=stray.guest.hypervisor
        )
        line = (
            f"stop {stray.name}: {stray_guests.description(snapshot, stray)}; {stray_guests.disks_text(stray.machine)}"
        )
        call = calls.InstanceShutdown(instance=guest, timeout=SHUTDOWN_TIMEOUT_SECONDS)
        return base.Plan(lines=[line], steps=[base.call_step(line, stray.target, call)], result=lambda: "stopped")
