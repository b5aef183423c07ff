"""OP_INSTANCE_MIGRATE: migrate a running instance to another node that has its disks.

The target prepares the same virtual machine, and the source sends the guest (``rpc.calls.migration``); this unit logs
the progress. When everything has arrived, the guest is paused on both nodes; the other node is recorded, and
only then the guest resumes there. So the state always names the node that may run the instance, even if the master
fails. After an earlier failure, or when the job is canceled, the undo clears the target, and the guest continues at the
source. Where the outcome is unknown, ``--cleanup`` finds it out (``interrupted_move``).

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
from gantry.state.objects import snapshot as states

POLL_INTERVAL_SECONDS = 1.0
"""Interval between two polls of a migration; the source answers sooner when the migration ends."""

LOG_EVERY_POLLS = 5
"""After this many polls the job's log reports the progress."""

STALLED_POLLS = 10
"""After this many polls without progress, check whether the target answers."""

MIB = 1 << 20


@dataclass(frozen=True)
class Facts:
    """The target and why, live or not; why it fails over instead; whether it runs; or what a cleanup found."""

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
        """Lock the instance exclusively, its nodes and the possible targets shared."""
        vm = snapshot.instance(self.op.instance_name)
        return relocation.locks(snapshot, vm, target=self.op.target_node)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Choose the target; check that the instance can be migrated and that the target can take it."""
        op, vm = self.op, snapshot.instance(self.op.instance_name)
        if op.cleanup:
            cleanup = interrupted_move.Cleanup(self.environment, vm, target=op.target_node)
            return Facts(snapshot.nodes[vm.primary_node], finding=await cleanup.look(snapshot))
        relocation.check_in_use(vm)
        relocation.check_mobile(snapshot, vm)
        runs = await self._running(snapshot, vm)
        requirements = relocation.need(snapshot, vm, runs=runs or vm.admin_state is instance.AdminState.UP)
        target, why = await relocation.target(
            self.environment,
            snapshot,
            vm,
            requirements=requirements,
            named=op.target_node,
            iallocator=op.iallocator,
        )
        relocation.check_target(snapshot, vm, target, ignore_policy=op.ignore_ipolicy)
        if vm.secondary_nodes and target.uuid not in vm.secondary_nodes:
            raise errors.WrongStateError(
                f"instance {vm.name} cannot be migrated to {target.name}, which has no copy of its disks",
                hint=f"gnt-instance failover -n {target.name} creates a copy there",
            )
        failover = self._failover(snapshot, vm, runs=runs)
        await relocation.check_fits(self.environment, snapshot, vm, node=target, requirements=requirements)
        if not failover:
            await self._check_migratable(snapshot, vm)
        return Facts(target, why, self._live(snapshot, vm), failover, runs)

    async def _running(self, snapshot: states.Snapshot, vm: instance.Instance) -> bool:
        node = snapshot.nodes[vm.primary_node]
        if node.offline:
            raise errors.EnvironmentFaultError(
                f"primary node {node.name} of instance {vm.name} is offline",
                hint="gnt-instance failover starts it on another node",
            )
        running = await relocation.running(self.environment, snapshot, vm, node.uuid)
        if running is not None and running.state in ("migrating", "migrated"):
            raise errors.WrongStateError(
                f"a migration of instance {vm.name} was interrupted",
                hint=f"gnt-instance migrate --cleanup {vm.name} finds out where the instance is",
            )
        return running is not None

    def _failover(self, snapshot: states.Snapshot, vm: instance.Instance, *, runs: bool) -> str:
        """Return why it fails over instead, empty if it is migrated; raises WrongStateError if neither is allowed."""
        always = bool(parameters.fill_backend(snapshot.the_cluster, vm)["always_failover"])
        reason = "it is not running" if not runs else "its backend parameter always_failover is set" if always else ""
        if reason and not self.op.allow_failover:
            raise errors.WrongStateError(
                f"instance {vm.name} cannot be migrated: {reason}",
                hint=f"gnt-instance failover {vm.name}, or migrate --allow-failover",
            )
        return reason

    async def _check_migratable(self, snapshot: states.Snapshot, vm: instance.Instance) -> None:
        source = snapshot.target(snapshot.nodes[vm.primary_node])
        await self.environment.nodes.call(source, calls.InstanceMigrationInfo(instance=fill.fill(snapshot, vm)))

    def _live(self, snapshot: states.Snapshot, vm: instance.Instance) -> bool:
        if self.op.mode and self.op.live is not None:
            raise errors.InvalidError("mode and live exclude each other", hint="specify only one of them")
        if self.op.live is not None:
            return self.op.live
        default = parameters.fill_hypervisor(snapshot.the_cluster, vm).get("migration_mode", "live")
        return (self.op.mode or default) == "live"

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Send the guest, record the other node, resume the guest there."""
        vm = snapshot.instance(self.op.instance_name)
        if facts.finding:
            return interrupted_move.Cleanup(self.environment, vm).plan(snapshot, facts.finding)
        now, target_node = self.environment.inputs.now, facts.target
        new = relocation.moved(vm, now, primary=target_node.uuid, **({"lingering": ()} if facts.failover else {}))
        work = relocation.Work(self.environment, snapshot, vm, new=new, timeout=float(_TIMEOUT))
        passage = Passage(self.environment, snapshot, vm, new=new, live=facts.live)
        up = vm.admin_state is instance.AdminState.UP
        steps = work.leave(runs=facts.runs) if facts.failover else passage.go()
        after = (work.arrive() if up else []) if facts.failover else passage.arrive()
        source = snapshot.nodes[vm.primary_node].name
        description = (
            f"fails over, because {facts.failover},"
            if facts.failover
            else f"is migrated{'' if facts.live else ' not live'}"
        )
        return base.Plan(
            lines=[*facts.why, f"instance {vm.name} {description} from {source} to {target_node.name}"]
            + [step.text for step in (*steps, *after)],
            steps=[*base.log_steps(facts.why), *steps],
            finish=lambda _: [states.Put(new)],
            after=after,
            hooks=relocation.hooks(
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
        """Return the steps until the whole guest has arrived; their undo resumes the guest at the source."""
        send = base.Procedure("polls the migration, and ends when the job is canceled", self._send)
        back = base.Procedure("depends on the progress of the migration", self._back)
        return [*self._open(), base.Step(f"send {self._leaving.name} to {self._target.name}", (send,), (back,))]

    def _open(self) -> list[base.Step]:
        """Return the steps that let both nodes use the disks at the same time."""
        if not self._mirrored:
            return self._new_disks.activate()
        both = [(self._source, self._leaving.disks), (self._target, self._coming.disks)]
        attach_steps = [
            base.Step(
                f"let both nodes write to disk {disk.index}: {target.name}",
                (base.Command(target, calls.DrbdAttachNet(disk=disk, multimaster=True)),),
                self._single(target, disk),
            )
            for target, disks in both
            for disk in disks
            if disk.mirror
        ]
        open_steps = [
            base.Step(
                f"let {self._target.name} write to disk {disk.index}",
                (base.Command(self._target, calls.BlockdevOpen(disk=disk)),),
                self._tolerant(self._target, calls.BlockdevClose(disk=disk)),
            )
            for disk in self._coming.disks
            if disk.mirror
        ]
        return attach_steps + self._all_disks.wait() + open_steps

    def _single(self, target: targets.Target, disk: calls.Disk) -> base.Actions:
        return self._tolerant(target, calls.DrbdAttachNet(disk=disk))

    def _tolerant(self, target: targets.Target, call: calls.Call[object]) -> base.Actions:
        """Return the action that calls a node and ignores that the node does not answer."""
        return (base.Command(target, call, errors.RemoteError),)

    async def _send(self) -> None:
        source, target, whole = self._source, self._target, self._leaving
        here = await self._nodes.call(source, calls.InstanceInfo(hypervisor=whole.hypervisor, name=whole.name))
        if here is not None and here.state == "migrated":
            return  # the guest has arrived already
        with self._environment.stoppable() as canceled:
            info = await self._nodes.call(source, calls.InstanceMigrationInfo(instance=whole))
            accept = calls.InstanceAccept(instance=self._coming, info=info, address=self._address)
            reception = await self._nodes.call(target, accept)
            await self._nodes.call(source, calls.InstanceMigrate(instance=whole, reception=reception, live=self._live))
            status = await self._watch(canceled)
        if status.status != "completed":
            problem = f"{status.status}: {status.reason or 'no reason'}"
            raise errors.HypervisorError(
                f"the migration of instance {whole.name} to {target.name} {problem}",
                hint=f"the instance continues on {source.name}",
            )
        self._environment.log.progress("")
        self._environment.log.info(
            f"migration complete: {status.transferred // MIB} MiB in {status.seconds:.1f} s, "
            f"downtime {status.downtime} ms"
        )

    async def _watch(self, canceled: Callable[[], bool]) -> calls.MigrationStatus:
        """Poll the migration until its status is final; raises JobCanceledError when the job was canceled in time.

        The source does not notice that the target machine failed, and would wait for 15 minutes. So a migration that
        makes no progress is canceled when its target does not answer.
        """
        polls, stalled, sent = 0, 0, -1
        while True:
            ask = calls.InstanceMigrationStatus(instance=self._leaving, wait=POLL_INTERVAL_SECONDS)
            status = await self._nodes.call(self._source, ask)
            if status.final:
                return status
            if canceled():
                ended = await self._cancel()
                if ended.status == "completed":
                    self._environment.log.warning("the migration has completed already and cannot be canceled")
                    return ended
                raise errors.JobCanceledError
            stalled, sent = (stalled + 1 if status.transferred == sent else 0), status.transferred
            if stalled and stalled % STALLED_POLLS == 0 and (problem := await self._unreachable()):
                ended = await self._cancel()
                lost = msgspec.structs.replace(ended, status="failed", reason=problem)
                return ended if ended.status == "completed" else lost
            self._environment.log.progress(_progress(status))
            if polls % LOG_EVERY_POLLS == 0:
                self._environment.log.info(_progress(status))
            polls += 1

    async def _cancel(self) -> calls.MigrationStatus:
        return await self._nodes.call(self._source, calls.InstanceMigrateCancel(instance=self._leaving))

    async def _unreachable(self) -> str:
        """Return why the target cannot be reached; empty if it answers."""
        ask = calls.InstanceInfo(hypervisor=self._coming.hypervisor, name=self._coming.name)
        try:
            await self._nodes.call(self._target, ask)
        except errors.RemoteError as error:
            return error.message
        return ""

    async def _back(self) -> None:
        """Resume the guest at the source, after making sure that it cannot resume at the target."""
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
        """Return the steps that resume the guest at the target and clear the source."""
        source, target = self._source, self._target
        name = self._leaving.name
        end = calls.InstanceFinalizeMigrationSrc(instance=self._leaving, success=True)
        resume = base.Procedure("reports what to do if the target does not answer", self._resume)
        steps = [
            base.Step(f"resume {name} on {target.name}", (resume,)),
            base.Step(f"clear {source.name}", self._tolerant(source, end)),
        ]
        if not self._mirrored:
            return steps + [
                replace(step, do=base.tolerant(step.do, errors.GantryError)) for step in self._old_disks.deactivate()
            ]
        close_steps = [
            base.Step(
                f"stop {source.name} writing to disk {disk.index}",
                self._tolerant(source, calls.BlockdevClose(disk=disk)),
            )
            for disk in self._leaving.disks
            if disk.mirror
        ]
        single_steps = [
            base.Step(f"let one node write to disk {disk.index}: {target_node.name}", self._single(target_node, disk))
            for target_node, disks in ((source, self._leaving.disks), (target, self._coming.disks))
            for disk in disks
            if disk.mirror
        ]
        return steps + close_steps + single_steps

    async def _resume(self) -> None:
        """Resume the guest at the target; if the target does not answer, it may have resumed."""
        call = calls.InstanceFinalizeMigrationDst(instance=self._coming, success=True)
        try:
            await self._nodes.call(self._target, call)
        except errors.RemoteError as error:
            raise errors.RemoteError(
                f"instance {self._coming.name} was sent from {self._source.name}; {self._target.name} does not answer "
                f"whether the instance runs there: {error.message}",
                hint=f"when that node answers or is marked offline: gnt-instance migrate --cleanup {self._coming.name}",
            ) from None


def _progress(status: calls.MigrationStatus) -> str:
    done, total = status.transferred // MIB, status.total // MIB
    if status.status == "mirroring":
        return f"copying disks: {done} of {total} MiB"
    return f"sent {done} MiB; {status.remaining // MIB} of {total} MiB remain"
