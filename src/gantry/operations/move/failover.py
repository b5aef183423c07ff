"""OP_INSTANCE_FAILOVER: stop an instance on its node, start it on another one.

What is done where nothing is copied: stop, give up the disks, record the other node, start there. With mirrored disks
and a third node as the target, the algorithm of contracts/cluster-design.md#failover-to-any-node comes between
(``model.pairing`` decides, ``disk_planning.remirror`` works): the node that keeps its copy is checked, its old pairing
torn down and one with the target made; as soon as the target receives, it is recorded as the primary node, promoted,
and the instance starts; when the copy is complete, the one that was given up is removed.

A failure before the other node is recorded takes everything back, the instance starts where it was. One after that
leaves it on the other node, where whoever starts what is down tries again.

See contracts/cluster-design.md#failover-to-any-node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes, pairing
from gantry.operations import base
from gantry.operations.disk_planning import remirror, volumes
from gantry.operations.move import interrupted_move, relocation
from gantry.operations.placement import builtin_allocator
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """Where it goes and why, what becomes of its copies, whether it runs; or what a cleanup found."""

    target: cluster.Node
    why: Sequence[str] = ()
    pair: pairing.Pairing | None = None
    runs: bool = False
    finding: interrupted_move.Finding | None = None


class InstanceFailover(base.Unit[opcodes.InstanceFailover, Facts]):
    """Fails an instance over."""

    OPCODE = opcodes.InstanceFailover

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its nodes and those that it may go to."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Find the target, and whether instance and disks can go there."""
        vm = snapshot.instance(self.op.instance_name)
        if self.op.cleanup:
            cleanup = interrupted_move.Cleanup(self.environment, vm, target=self.op.target_node)
            return Facts(snapshot.nodes[vm.primary_node], finding=await cleanup.look(snapshot))
        relocation.check_in_use(vm)
        relocation.check_mobile(vm)
        wanted = relocation.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP)
        target, why = await relocation.target(
            self.environment, snapshot, vm, wanted=wanted, named=self.op.target_node, iallocator=self.op.iallocator
        )
        relocation.check_target(snapshot, vm, target, ignore_policy=self.op.ignore_ipolicy)
        runs, failed = await self._source(snapshot, vm)
        pair = await self._pair(snapshot, vm, target, failed=failed) if vm.secondary_nodes else None
        await self._check_room(snapshot, vm, target, wanted=wanted, pair=pair)
        return Facts(target, why, pair, runs)

    async def _source(self, snapshot: states.Snapshot, vm: instance.Instance) -> tuple[bool, bool]:
        """Tell whether it runs on its node, and whether that node failed: a silent one only by its user's word."""
        node = snapshot.nodes[vm.primary_node]
        if node.offline:
            return False, True
        try:
            return await relocation.running(self.environment, snapshot, vm, node.uuid) is not None, False
        except errors.RemoteError as error:
            if not self.op.ignore_consistency:
                raise errors.EnvironmentFaultError(
                    f"node {node.name} cannot be told to stop instance {vm.name}: {error.message}",
                    hint=f"when it is really down: gnt-node modify -f --offline yes {node.name}",
                ) from None
            self.environment.log.warning(f"{node.name} is taken for dead, as was asked: {error.message}")
            return False, True

    async def _pair(
        self, snapshot: states.Snapshot, vm: instance.Instance, target: cluster.Node, *, failed: bool
    ) -> pairing.Pairing:
        """Decide which node keeps its copy, and check that copy."""
        secondary = snapshot.nodes[vm.secondary_nodes[0]]
        gone = {vm.primary_node} if failed else set()
        gone |= {secondary.uuid} if secondary.offline else set()
        try:
            pair = pairing.decide(
                primary=vm.primary_node, secondary=secondary.uuid, target=target.uuid, failed=gone, keep=self.op.keep
            )
        except errors.WrongStateError as error:
            raise errors.WrongStateError(f"instance {vm.name} cannot go to {target.name}: {error.message}") from None
        keeper = snapshot.nodes[pair.primary if pair.swapped else pair.secondary]
        lenient = self.op.ignore_consistency or failed
        follows = keeper is secondary and not lenient
        await remirror.check_copy(self.environment, snapshot, vm, node=keeper, follows=follows, lenient=lenient)
        return pair

    async def _check_room(
        self,
        snapshot: states.Snapshot,
        vm: instance.Instance,
        target: cluster.Node,
        *,
        wanted: builtin_allocator.Need,
        pair: pairing.Pairing | None,
    ) -> None:
        await relocation.check_room(self.environment, snapshot, vm, node=target, wanted=wanted)
        if pair and not pair.swapped:
            await remirror.check_room(self.environment, snapshot, vm, node=target)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop it, bring its disks over, record the node, start it there."""
        vm = snapshot.instance(self.op.instance_name)
        if facts.finding:
            return interrupted_move.Cleanup(self.environment, vm).plan(snapshot, facts.finding)
        now, mirrors = self.environment.inputs.now, self.environment.ledger.mirrors
        disks = vm.disks
        if facts.pair and not facts.pair.swapped:
            keeps, target = facts.pair.secondary, facts.pair.primary
            disks = remirror.paired(vm, keeps=keeps, new=target, picks=mirrors.picks())
        new = relocation.moved(vm, now, primary=facts.target.uuid, disks=disks, lingering=())
        work = relocation.Work(self.environment, snapshot, vm, new=new, timeout=float(self.op.shutdown_timeout))
        again = remirror.Remirror(self.environment, snapshot, vm, new=new)
        steps = work.leave(runs=facts.runs, lenient=self.op.ignore_consistency)
        before: list[base.Step] = []
        later: list[base.Step] = []
        if facts.pair and not facts.pair.swapped:
            steps = [*([] if facts.runs else self._same(snapshot, vm, facts.pair)), *steps]
            before = again.begin(facts.pair, wait=self.op.wait_for_sync)
            later = again.end(facts.pair)
        up = vm.admin_state is instance.AdminState.UP
        if later and not up:
            later += volumes.Volumes(self.environment, snapshot, new).deactivate()
        after = [*(work.arrive() if up else []), *later]
        return base.Plan(
            lines=[
                *facts.why,
                *_said(snapshot, vm, new, facts.pair),
                *(step.text for step in (*steps, *before, *after)),
            ],
            steps=[*base.noted(facts.why), *steps, *before],
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.told(
                snapshot,
                vm,
                new=new,
                path="instance-failover",
                IGNORE_CONSISTENCY=self.op.ignore_consistency,
                SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
            ),
        )

    def _same(self, snapshot: states.Snapshot, vm: instance.Instance, pair: pairing.Pairing) -> list[base.Step]:
        """Return the steps that bring idle disks to the same state, if both nodes work: S2 may have missed writes."""
        if snapshot.nodes[vm.primary_node].offline or self.op.ignore_consistency or pair.secondary == vm.primary_node:
            return []
        own = volumes.Volumes(self.environment, snapshot, vm)
        return [*own.activate(), *own.wait()]


def _said(
    snapshot: states.Snapshot, vm: instance.Instance, new: instance.Instance, pair: pairing.Pairing | None
) -> list[str]:
    names = {uuid: snapshot.nodes[uuid].name for uuid in {*vm.nodes, *new.nodes}}
    lines = [f"instance {vm.name} moves from {names[vm.primary_node]} to {names[new.primary_node]}"]
    if pair and not pair.swapped:
        lines.append(f"{names[pair.secondary]} keeps its copy of the disks, {names[pair.gone]} gives its own up")
    return lines
