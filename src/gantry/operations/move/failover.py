"""OP_INSTANCE_FAILOVER: stop an instance on its node and start it on another node.

Where nothing is copied: stop the instance, deactivate the disks, record the other node, start the instance there. With
mirrored disks and a third node as the target, contracts/cluster-design.md#failover-to-any-node adds steps
(``model.pairing`` decides, ``disk_planning.remirror`` has the steps): the node that keeps its copy is checked, its old
pair is disconnected and paired with the target; as soon as the target receives data, the target is recorded as the
primary node and promoted, and the instance starts; when the copy is complete, the abandoned copy is removed.

A failure before the other node is recorded undoes everything, and the instance starts where it was. After a later
failure the instance stays on the other node, where the watcher starts it again.

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
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """The target and why, the pair of nodes for its copies, whether it runs; or what a cleanup found."""

    target: cluster.Node
    why: Sequence[str] = ()
    pair: pairing.Pairing | None = None
    runs: bool = False
    finding: interrupted_move.Finding | None = None


class InstanceFailover(base.Unit[opcodes.InstanceFailover, Facts]):
    """Fails an instance over."""

    OPCODE = opcodes.InstanceFailover

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance exclusively, its nodes and the possible targets shared."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Choose the target, and check that it can take the instance and its disks."""
        vm = snapshot.instance(self.op.instance_name)
        if self.op.cleanup:
            cleanup = interrupted_move.Cleanup(self.environment, vm, target=self.op.target_node)
            return Facts(snapshot.nodes[vm.primary_node], finding=await cleanup.look(snapshot))
        relocation.check_in_use(vm)
        relocation.check_mobile(snapshot, vm)
        requirements = relocation.need(snapshot, vm, runs=vm.admin_state is instance.AdminState.UP)
        target, why = await relocation.target(
            self.environment,
            snapshot,
            vm,
            requirements=requirements,
            named=self.op.target_node,
            iallocator=self.op.iallocator,
        )
        relocation.check_target(snapshot, vm, target, ignore_policy=self.op.ignore_ipolicy)
        runs, failed = await self._source(snapshot, vm)
        pair = await self._pair(snapshot, vm, target, failed=failed) if vm.secondary_nodes else None
        await self._check_fits(snapshot, vm, target, requirements=requirements, pair=pair)
        return Facts(target, why, pair, runs)

    async def _source(self, snapshot: states.Snapshot, vm: instance.Instance) -> tuple[bool, bool]:
        """Return whether the instance runs, and whether its node failed: a silent node only if the user says so."""
        node = snapshot.nodes[vm.primary_node]
        if node.offline:
            return False, True
        try:
            return await relocation.running(self.environment, snapshot, vm, node.uuid) is not None, False
        except errors.RemoteError as error:
            if not self.op.ignore_consistency:
                raise errors.EnvironmentFaultError(
                    f"node {node.name} does not answer, so instance {vm.name} cannot be stopped there: {error.message}",
                    hint=f"if the node is really down: gnt-node modify -f --offline yes {node.name}",
                ) from None
            self.environment.log.warning(f"{node.name} is considered failed, as requested: {error.message}")
            return False, True

    async def _pair(
        self, snapshot: states.Snapshot, vm: instance.Instance, target: cluster.Node, *, failed: bool
    ) -> pairing.Pairing:
        """Decide which node keeps its copy, and check that copy."""
        secondary = snapshot.nodes[vm.secondary_nodes[0]]
        failed_nodes = {vm.primary_node} if failed else set()
        failed_nodes |= {secondary.uuid} if secondary.offline else set()
        try:
            pair = pairing.decide(
                primary=vm.primary_node,
                secondary=secondary.uuid,
                target=target.uuid,
                failed=failed_nodes,
                keep=self.op.keep,
            )
        except errors.WrongStateError as error:
            raise errors.WrongStateError(
                f"instance {vm.name} cannot fail over to {target.name}: {error.message}"
            ) from None
        keeper = snapshot.nodes[pair.primary if pair.swapped else pair.secondary]
        lenient = self.op.ignore_consistency or failed
        follows = keeper is secondary and not lenient
        await remirror.check_copy(self.environment, snapshot, vm, node=keeper, follows=follows, lenient=lenient)
        return pair

    async def _check_fits(
        self,
        snapshot: states.Snapshot,
        vm: instance.Instance,
        target: cluster.Node,
        *,
        requirements: builtin_allocator.Need,
        pair: pairing.Pairing | None,
    ) -> None:
        await relocation.check_fits(self.environment, snapshot, vm, node=target, requirements=requirements)
        if await relocation.running(self.environment, snapshot, vm, target.uuid) is not None:
            raise errors.WrongStateError(
                f"node {target.name} has a guest of instance {vm.name} already: an earlier move is not finished",
                hint=f"gnt-instance migrate --cleanup {vm.name}",
            )
        if pair and not pair.swapped:
            await remirror.check_free_space(self.environment, snapshot, vm, node=target)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Stop the instance, move its disks, record the node, start the instance there."""
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
        mirroring = remirror.Remirror(self.environment, snapshot, vm, new=new)
        steps = work.leave(runs=facts.runs, lenient=self.op.ignore_consistency)
        before: list[base.Step] = []
        later: list[base.Step] = []
        if facts.pair and not facts.pair.swapped:
            steps = [*([] if facts.runs else self._synchronize(snapshot, vm, facts.pair)), *steps]
            before = mirroring.begin(facts.pair, wait=self.op.wait_for_sync)
            later = mirroring.end(facts.pair)
        up = vm.admin_state is instance.AdminState.UP
        if later and not up:
            later += volumes.Volumes(self.environment, snapshot, new).deactivate()
        after = [*(work.arrive() if up else []), *later]
        return base.Plan(
            lines=[
                *facts.why,
                *_describe(snapshot, vm, new, facts.pair),
                *(step.text for step in (*steps, *before, *after)),
            ],
            steps=[*base.log_steps(facts.why), *steps, *before],
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.hooks(
                snapshot,
                vm,
                new=new,
                path="instance-failover",
                IGNORE_CONSISTENCY=self.op.ignore_consistency,
                SHUTDOWN_TIMEOUT=self.op.shutdown_timeout,
            ),
        )

    def _synchronize(self, snapshot: states.Snapshot, vm: instance.Instance, pair: pairing.Pairing) -> list[base.Step]:
        """Return the steps that synchronize inactive disks if both nodes work: S2 may have missed writes."""
        if snapshot.nodes[vm.primary_node].offline or self.op.ignore_consistency or pair.secondary == vm.primary_node:
            return []
        own = volumes.Volumes(self.environment, snapshot, vm)
        return [*own.activate(), *own.wait()]


def _describe(
    snapshot: states.Snapshot, vm: instance.Instance, new: instance.Instance, pair: pairing.Pairing | None
) -> list[str]:
    names = {uuid: snapshot.nodes[uuid].name for uuid in {*vm.nodes, *new.nodes}}
    lines = [f"instance {vm.name} moves from {names[vm.primary_node]} to {names[new.primary_node]}"]
    if pair and not pair.swapped:
        lines.append(f"{names[pair.secondary]} keeps its copy of the disks, {names[pair.gone]} abandons its copy")
    return lines
