"""OP_INSTANCE_MIGRATE: a running instance goes to another node that has its disks, and runs on.

Life of a migration: the target prepares the same machine, the source sends it (``rpc.calls.migration``), this unit
looks how far it is and says so in the job's log. When all has arrived, the guest stands still on both nodes; the other
node is recorded, and only then the guest goes on there. So the state names the node that may run it whenever the
master dies. A failure before that lets it go on where it was; the undo clears the target first. A job that is canceled
meanwhile does the same. What nobody can tell any more is for ``--cleanup`` (``interrupted_move``).

See contracts/opcodes.md#migration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from gantry import errors
from gantry.model import cluster, instance, lock, opcodes, parameters
from gantry.operations import base, fill
from gantry.operations.disk_planning import volumes
from gantry.operations.move import interrupted_move, relocation
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

LOOK = 1.0
"""Seconds between two looks at a migration under way; the source answers sooner when it ends."""

TOLD_EVERY = 5
"""After so many looks the job's log says how far it is."""

SILENT = 10
"""After so many looks at which nothing more had been sent, the target is asked whether it is there."""

MIB = 1 << 20


@dataclass(frozen=True)
class Facts:
    """Where it goes and why, and whether it runs on; with ``failover`` it is stopped; or what a cleanup found."""

    target: cluster.Node
    why: Sequence[str] = ()
    live: bool = True
    failover: str = ""
    runs: bool = True
    finding: interrupted_move.Finding | None = None


class InstanceMigrate(base.Unit[opcodes.InstanceMigrate, Facts]):
    """Migrates an instance."""

    OPCODE = opcodes.InstanceMigrate

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance, share its nodes and those that it may go to."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Find the target, whether the instance runs, and whether it can go there."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        if op.cleanup:
            cleanup = interrupted_move.Cleanup(self.environment, vm, target=op.target_node)
            return Facts(snapshot.nodes[vm.primary_node], finding=await cleanup.look(snapshot))
        relocation.check_in_use(vm)
        relocation.check_mobile(vm)
        runs = await self._running(snapshot, vm)
        wanted = relocation.need(snapshot, vm, runs=runs or vm.admin_state is instance.AdminState.UP)
        target, why = await relocation.target(
            self.environment, snapshot, vm, wanted=wanted, named=op.target_node, iallocator=op.iallocator
        )
        relocation.check_target(snapshot, vm, target, ignore_policy=op.ignore_ipolicy)
        if vm.secondary_nodes and target.uuid not in vm.secondary_nodes:
            raise errors.WrongStateError(
                f"instance {vm.name} cannot be migrated to {target.name}, which has no copy of its disks",
                hint=f"gnt-instance failover -n {target.name} gives it one",
            )
        failover = self._failover(snapshot, vm, runs=runs)
        await relocation.check_room(self.environment, snapshot, vm, node=target, wanted=wanted)
        if not failover:
            await self._check_migratable(snapshot, vm)
        return Facts(target, why, self._live(snapshot, vm), failover, runs)

    async def _running(self, snapshot: states.Snapshot, vm: instance.Instance) -> bool:
        node = snapshot.nodes[vm.primary_node]
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"node {node.name} of instance {vm.name} is offline", hint="gnt-instance failover starts it elsewhere"
            )
        found = await relocation.running(self.environment, snapshot, vm, node.uuid)
        if found is not None and found.state in ("migrating", "migrated"):
            raise errors.WrongStateError(
                f"a migration of instance {vm.name} was interrupted",
                hint=f"gnt-instance migrate --cleanup {vm.name} says where it is",
            )
        return found is not None

    def _failover(self, snapshot: states.Snapshot, vm: instance.Instance, *, runs: bool) -> str:
        """Return why it is failed over instead; empty where it is migrated. WrongStateError where neither may be."""
        always = bool(parameters.fill_backend(snapshot.the_cluster, vm)["always_failover"])
        why = "it does not run" if not runs else "its parameter always_failover says so" if always else ""
        if why and not self.op.allow_failover:
            raise errors.WrongStateError(
                f"instance {vm.name} cannot be migrated: {why}",
                hint=f"gnt-instance failover {vm.name}, or migrate --allow-failover",
            )
        return why

    async def _check_migratable(self, snapshot: states.Snapshot, vm: instance.Instance) -> None:
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        await self.environment.nodes.call(source, calls.InstanceMigrationInfo(instance=fill.fill(snapshot, vm)))

    def _live(self, snapshot: states.Snapshot, vm: instance.Instance) -> bool:
        if self.op.mode and self.op.live is not None:
            raise errors.InvalidError("mode and live say the same", hint="give one of them")
        if self.op.live is not None:
            return self.op.live
        default = parameters.fill_hypervisor(snapshot.the_cluster, vm).get("migration_mode", "live")
        return (self.op.mode or default) == "live"

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Send it, record the other node, let it go on there."""
        vm = snapshot.instance(self.op.instance_name)
        if facts.finding:
            return interrupted_move.Cleanup(self.environment, vm).plan(snapshot, facts.finding)
        now, to = self.environment.inputs.now, facts.target
        new = relocation.moved(vm, now, primary=to.uuid, **({"lingering": ()} if facts.failover else {}))
        work = relocation.Work(self.environment, snapshot, vm, new=new, timeout=float(_TIMEOUT))
        passage = Passage(self.environment, snapshot, vm, new=new, live=facts.live)
        up = vm.admin_state is instance.AdminState.UP
        steps = work.leave(runs=facts.runs) if facts.failover else passage.go()
        after = (work.arrive() if up else []) if facts.failover else passage.arrive()
        source = snapshot.nodes[vm.primary_node].name
        how = (
            f"fails over, because {facts.failover},"
            if facts.failover
            else f"is migrated{'' if facts.live else ' not live'}"
        )
        return base.Plan(
            lines=[*facts.why, f"instance {vm.name} {how} from {source} to {to.name}"]
            + [step.text for step in (*steps, *after)],
            steps=[*base.noted(facts.why), *steps],
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.told(
                snapshot, vm, new=new, path="instance-migrate", MIGRATE_LIVE=facts.live, MIGRATE_CLEANUP=False
            ),
        )


_TIMEOUT = 120


class Passage:
    """The steps of one migration."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        *,
        new: instance.Instance,
        live: bool,
    ) -> None:
        self._environment = environment
        self._source = snapshot.target(snapshot.nodes[old.primary_node])
        self._target = snapshot.target(snapshot.nodes[new.primary_node])
        self._leaving = fill.fill(snapshot, old)
        self._coming = fill.fill(snapshot, new)
        node = snapshot.nodes[new.primary_node]
        self._address = node.secondary_ip or node.primary_ip
        self._live = live
        self._mirrored = any(disk.mirror for disk in old.disks)
        self._old_disks = volumes.Volumes(environment, snapshot, old, nodes=[old.primary_node])
        self._new_disks = volumes.Volumes(environment, snapshot, new, nodes=[new.primary_node])
        self._all_disks = volumes.Volumes(environment, snapshot, old)

    @property
    def _nodes(self) -> base.Nodes:
        return self._environment.nodes

    def go(self) -> list[base.Step]:
        """Return the steps until all of the guest has arrived; their undo lets it go on at the source."""
        send = base.Procedure("polls the migration, and ends when the job is canceled", self._send)
        back = base.Procedure("depends on how far the migration came", self._back)
        return [*self._open(), base.Step(f"send {self._leaving.name} to {self._target.name}", (send,), (back,))]

    def _open(self) -> list[base.Step]:
        """Return the steps that let both nodes use the disks at once."""
        if not self._mirrored:
            return self._new_disks.activate()
        both = [(self._source, self._leaving.disks), (self._target, self._coming.disks)]
        attached = [
            base.Step(
                f"let both nodes write to disk {disk.index}: {target.name}",
                (base.Command(target, calls.DrbdAttachNet(disk=disk, multimaster=True)),),
                self._single(target, disk),
            )
            for target, disks in both
            for disk in disks
            if disk.mirror
        ]
        opened = [
            base.Step(
                f"let {self._target.name} write to disk {disk.index}",
                (base.Command(self._target, calls.BlockdevOpen(disk=disk)),),
                self._tolerant(self._target, calls.BlockdevClose(disk=disk)),
            )
            for disk in self._coming.disks
            if disk.mirror
        ]
        return attached + self._all_disks.wait() + opened

    def _single(self, target: targets.Target, disk: calls.Disk) -> base.Actions:
        return self._tolerant(target, calls.DrbdAttachNet(disk=disk))

    def _tolerant(self, target: targets.Target, call: calls.Call[object]) -> base.Actions:
        """Return the action that calls a node and ignores that it cannot be reached."""
        return (base.Command(target, call, errors.RemoteError),)

    async def _send(self) -> None:
        source, target, whole = self._source, self._target, self._leaving
        here = await self._nodes.call(source, calls.InstanceInfo(hypervisor=whole.hypervisor, name=whole.name))
        if here is not None and here.state == "migrated":
            return  # it is there already
        with self._environment.stoppable() as canceled:
            info = await self._nodes.call(source, calls.InstanceMigrationInfo(instance=whole))
            accept = calls.InstanceAccept(instance=self._coming, info=info, address=self._address)
            reception = await self._nodes.call(target, accept)
            await self._nodes.call(source, calls.InstanceMigrate(instance=whole, reception=reception, live=self._live))
            status = await self._watch(canceled)
        if status.status != "completed":
            why = f"{status.status}: {status.reason or 'no reason'}"
            raise errors.HypervisorError(
                f"the migration of instance {whole.name} to {target.name} {why}",
                hint=f"it goes on on {source.name}",
            )
        self._environment.log.info(
            f"all of it has arrived: {status.transferred // MIB} MiB in {status.seconds:.1f} s, "
            f"it stood still for {status.downtime} ms"
        )

    async def _watch(self, canceled: Callable[[], bool]) -> calls.MigrationStatus:
        """Look how far it is until that is final; raises JobCanceledError when the job was canceled in time.

        Of a machine that is dead the source hears nothing, and it would wait for a quarter of an hour. So a migration
        that stands still is given up when its target does not answer.
        """
        looks, silent, sent = 0, 0, -1
        while True:
            ask = calls.InstanceMigrationStatus(instance=self._leaving, wait=LOOK)
            status = await self._nodes.call(self._source, ask)
            if status.final:
                return status
            if canceled():
                ended = await self._cancel()
                if ended.status == "completed":
                    self._environment.log.warning("it has arrived already, and cannot be canceled any more")
                    return ended
                raise errors.JobCanceledError
            silent, sent = (silent + 1 if status.transferred == sent else 0), status.transferred
            if silent and silent % SILENT == 0 and (why := await self._unreachable()):
                ended = await self._cancel()
                lost = msgspec.structs.replace(ended, status="failed", reason=why)
                return ended if ended.status == "completed" else lost
            if looks % TOLD_EVERY == 0:
                self._environment.log.info(_progress(status))
            looks += 1

    async def _cancel(self) -> calls.MigrationStatus:
        return await self._nodes.call(self._source, calls.InstanceMigrateCancel(instance=self._leaving))

    async def _unreachable(self) -> str:
        """Return why the target cannot be reached; empty when it answers."""
        ask = calls.InstanceInfo(hypervisor=self._coming.hypervisor, name=self._coming.name)
        try:
            await self._nodes.call(self._target, ask)
        except errors.RemoteError as error:
            return error.message
        return ""

    async def _back(self) -> None:
        """Let it go on at the source, when nothing can begin at the target any more."""
        end = self._tolerant(self._target, calls.InstanceFinalizeMigrationDst(instance=self._coming, success=False))
        await base.perform(end, self._nodes, self._environment.log)
        running = await self._nodes.call(
            self._source, calls.InstanceInfo(hypervisor=self._leaving.hypervisor, name=self._leaving.name)
        )
        if running is None:
            return
        if running.state == "migrating":
            await self._cancel()
        await self._nodes.call(self._source, calls.InstanceFinalizeMigrationSrc(instance=self._leaving, success=False))

    def arrive(self) -> list[base.Step]:
        """Return the steps that let it go on at the target and clear the source."""
        source, target = self._source, self._target
        name = self._leaving.name
        end = calls.InstanceFinalizeMigrationSrc(instance=self._leaving, success=True)
        go_on = base.Procedure("says what to do when the target does not answer", self._go_on)
        steps = [
            base.Step(f"resume {name} on {target.name}", (go_on,)),
            base.Step(f"clear {source.name}", self._tolerant(source, end)),
        ]
        if not self._mirrored:
            return steps + [
                replace(step, do=base.tolerant(step.do, errors.GantryError)) for step in self._old_disks.deactivate()
            ]
        closed = [
            base.Step(
                f"stop {source.name} writing to disk {disk.index}",
                self._tolerant(source, calls.BlockdevClose(disk=disk)),
            )
            for disk in self._leaving.disks
            if disk.mirror
        ]
        single = [
            base.Step(f"let one node write to disk {disk.index}: {where.name}", self._single(where, disk))
            for where, disks in ((source, self._leaving.disks), (target, self._coming.disks))
            for disk in disks
            if disk.mirror
        ]
        return steps + closed + single

    async def _go_on(self) -> None:
        """Wake the guest at the target; a target that cannot be reached now may have done so."""
        call = calls.InstanceFinalizeMigrationDst(instance=self._coming, success=True)
        try:
            await self._nodes.call(self._target, call)
        except errors.RemoteError as error:
            raise errors.RemoteError(
                f"instance {self._coming.name} has left {self._source.name}, and whether it goes on on "
                f"{self._target.name} cannot be told: {error.message}",
                hint=f"when that node is back, or marked offline: gnt-instance migrate --cleanup {self._coming.name}",
            ) from None


def _progress(status: calls.MigrationStatus) -> str:
    done, total = status.transferred // MIB, status.total // MIB
    left = status.remaining // MIB
    if status.status == "mirroring":
        return f"disks are copied: {done} of {total} MiB"
    return f"{done} MiB are sent, {left} of {total} MiB are left"
