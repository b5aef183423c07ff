"""OP_CLUSTER_SET_PARAMS: change settings of the cluster.

The new settings come from ``settings.applied``. The unit checks what that cannot: whether an instance uses a removed
setting, and whether the nodes accept a value. A new size of the candidate pool fills or empties the pool at once
(``node.candidate_pool``).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, instance, lock, opcodes, parameters
from gantry.operations import base, fill, hook_environment, parameter_levels
from gantry.operations.cluster import ipam_database, settings
from gantry.operations.node import accelerators, candidate_pool
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """What nodes reported before a change.

    ``lagging`` are the names of candidates whose copy of the state is behind or that do not answer; ``updated`` are the
    nodes with accelerators that the cluster did not need until now.
    """

    lagging: frozenset[str] = frozenset()
    updated: tuple[cluster.Node, ...] = ()


class ClusterSetParams(base.Unit[opcodes.ClusterSetParams, Facts]):
    """Changes settings of the cluster; with the candidate pool size also the number of candidates."""

    OPCODE = opcodes.ClusterSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the cluster's entry and the pool of candidates exclusively; what may conflict or is asked shared."""
        needed = {(lock.Level.CONFIG, "cluster"): lock.Mode.EXCLUSIVE, candidate_pool.POOL: lock.Mode.EXCLUSIVE}
        if ipam_database.is_meant(self.op):
            return needed | {ipam_database.NETWORKS: lock.Mode.EXCLUSIVE}
        if self.op.enabled_hypervisors is not None:
            needed[lock.Level.NODE, lock.ALL_NAMES] = lock.Mode.SHARED
        if self.op.enabled_hypervisors is not None or self.op.enabled_disk_templates is not None:
            needed[lock.Level.INSTANCE, lock.ALL_NAMES] = lock.Mode.SHARED
        return needed

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Try the change and let nodes check the values; if candidates must leave, find those that are behind."""
        if ipam_database.is_meant(self.op):
            await ipam_database.check(self.environment, snapshot.the_cluster, self.op)
            return Facts()
        old, new = snapshot.the_cluster, self._changed(snapshot)
        await self._ask(snapshot, old, new)
        updated = await self._accelerators(snapshot, old, new)
        if not self._leaving(snapshot, new):
            return Facts(updated=updated)
        behind = await candidate_pool.lagging(self.environment, snapshot)
        return Facts(lagging=frozenset(name for name, _ in behind), updated=updated)

    def ends_wait(self) -> bool:
        """Set the policy of replication, and nothing else."""
        return all((getattr(self.op, name) is not None) is (name == "replication") for name in settings.NAMES)

    async def _accelerators(
        self, snapshot: states.Snapshot, old: cluster.Cluster, new: cluster.Cluster
    ) -> tuple[cluster.Node, ...]:
        """Return the nodes with their accelerators, if the change makes guests need them."""
        if accelerators.needed(old) or not accelerators.needed(new):
            return ()
        online = {node.uuid: node for node in snapshot.nodes.values() if not node.offline}
        node_targets = [snapshot.target(node) for node in online.values()]
        answers = await self.environment.nodes.fan_out(node_targets, accelerators.question(new))
        return tuple(
            accelerators.with_status(online[answer.target.uuid], answer.value) for answer in answers if answer.value
        )

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the cluster without the leaving candidates; then delete their copies, or fill the pool."""
        if ipam_database.is_meant(self.op):
            return ipam_database.plan(self.environment, snapshot, self.op)
        snapshot = parameter_levels.with_changes(snapshot, *facts.updated)
        old, new, now = snapshot.the_cluster, self._changed(snapshot), self.environment.inputs.now
        leaving, coming = self._leaving(snapshot, new, first=facts.lagging), self._coming(snapshot, new)
        lines = [*settings.differences(old, new), *(f"{node.name} is no longer a master candidate" for node in leaving)]
        if not lines and not coming:
            note = f"nothing changes: cluster {old.name} already has these settings"
            return base.Plan(lines=[note], steps=[base.Step(note)])
        lines += self._notes(snapshot, old, new)
        after = parameter_levels.with_changes(
            snapshot, new, *(base.changed(node, now, master_candidate=False) for node in leaving)
        )
        weakened = candidate_pool.weakened(snapshot, after)
        steps = [*base.log_steps(lines), *weakened]
        steps += [candidate_pool.demotion(self.environment, snapshot.target(node)) for node in leaving]
        promotion = candidate_pool.Promotion(self.environment)
        return base.Plan(
            lines=[*lines, *(f"{node.name} becomes a master candidate" for node in coming)],
            changes=[
                states.Put(base.changed(new, now)),
                *(states.Put(base.changed(node, now)) for node in facts.updated if node not in leaving),
                *(states.Put(base.changed(node, now, master_candidate=False)) for node in leaving),
            ],
            steps=[*steps, promotion.step] if coming else steps,
            finish=promotion.changes if coming else None,
            hooks=hook_environment.of_cluster_modify(snapshot),
        )

    def _changed(self, snapshot: states.Snapshot) -> cluster.Cluster:
        """Return the cluster with the changes; raises PrerequisiteError."""
        if all(getattr(self.op, name) is None for name in settings.NAMES):
            raise errors.InvalidError("no change of the cluster was requested", hint="specify at least one setting")
        old = snapshot.the_cluster
        new = settings.applied(old, self.op)
        if new.ipolicy != old.ipolicy:
            parameter_levels.check_groups(new, snapshot.nodegroups.values())
        _check_instances(snapshot, old, new)
        for field, attribute, what in (
            ("enabled_hypervisors", "hypervisor", "hypervisor"),
            ("enabled_disk_templates", "disk_template", "disk template"),
        ):
            for name in sorted({*getattr(old, field)} - {*getattr(new, field)}):
                users = sorted(vm.name for vm in snapshot.instances.values() if getattr(vm, attribute) == name)
                if users:
                    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
                    raise errors.WrongStateError(
                        f"{what} {name} is in use by instance {', '.join(users[:5])}{more}",
                        hint="remove these instances first, or keep it enabled",
                    )
        return new

    def _leaving(
        self, snapshot: states.Snapshot, new: cluster.Cluster, *, first: Collection[str] = ()
    ) -> list[cluster.Node]:
        """Return the surplus candidates; the pool is only resized if its size is in the request."""
        resized = self.op.candidate_pool_size is not None
        return candidate_pool.surplus(parameter_levels.with_changes(snapshot, new), first=first) if resized else []

    def _coming(self, snapshot: states.Snapshot, new: cluster.Cluster) -> list[cluster.Node]:
        """Return the nodes that will fill the pool; nodes that do not answer are skipped later."""
        after = parameter_levels.with_changes(snapshot, new)
        lacking = max(0, candidate_pool.missing(after)) if self.op.candidate_pool_size is not None else 0
        return candidate_pool.eligible(after)[:lacking]

    def _notes(self, snapshot: states.Snapshot, old: cluster.Cluster, new: cluster.Cluster) -> Iterator[str]:
        if (old.hvparams, old.beparams, old.os_hvp) != (new.hvparams, new.beparams, new.os_hvp):
            yield "running instances use their new parameters from their next start"
        if (old.ipolicy, old.beparams) != (new.ipolicy, new.beparams):
            yield from parameter_levels.misfits(
                snapshot, parameter_levels.with_changes(snapshot, new), groups=snapshot.nodegroups
            )
        if new.segment_ranges and not old.segment_ranges:
            yield "Gantry now manages segment ranges: update procedures that describe where ids come from"
        elif old.segment_ranges and not new.segment_ranges:
            yield "only the segment ranges of segments.ini apply now"
        if old.candidate_pool_size != new.candidate_pool_size:
            after = parameter_levels.with_changes(snapshot, new)
            short = candidate_pool.missing(after) - len(candidate_pool.eligible(after))
            if short > 0:
                yield f"the pool of master candidates lacks {short}: no other node is eligible"

    async def _ask(self, snapshot: states.Snapshot, old: cluster.Cluster, new: cluster.Cluster) -> None:
        """Let vm_capable nodes check the values that only they know; raises the first error."""
        nodes = sorted(snapshot.nodes.values(), key=lambda node: node.name)
        node_targets = [snapshot.target(node) for node in nodes if node.vm_capable and not node.offline]
        for name in new.enabled_hypervisors:
            for system in ("", *sorted({*old.os_hvp, *new.os_hvp})):
                values, before = (parameters.fill_system(owner, name, system) for owner in (new, old))
                if values == before and (system or name in old.enabled_hypervisors):
                    continue
                validate = calls.HypervisorValidate(hypervisor=name, hvparams=values)
                for answer in await self.environment.nodes.fan_out(node_targets, validate):
                    self._raise_error(answer, f"hypervisor {name}" + (f" with OS {system}" if system else ""))
        tuned, private = self.op.os_hvp or {}, self.op.osparams_private_cluster or {}
        public = self.op.osparams or {}
        os_parameters = {name: {**public.get(name, {}), **private.get(name, {})} for name in {**public, **private}}
        changes = (*(self.op.hidden_os or ()), *(self.op.blacklisted_os or ()))
        listed = {name for action, name in changes if action == "add"}
        for name in sorted({*tuned, *os_parameters, *listed}):
            set_names = {key for key, value in os_parameters.get(name, {}).items() if value != parameters.RESET}
            needed = bool(set_names) or name in listed or any(_sets(values) for values in tuned.get(name, {}).values())
            await self._check_system(node_targets, name, set_names, needed=needed)
        plug = _plug(new)
        if plug != _plug(old):
            for answer in await self.environment.nodes.fan_out(node_targets, calls.NicValidate(nics=(plug,))):
                self._raise_error(answer, "defaults of NICs", forced=self.op.force)

    async def _check_system(
        self, node_targets: Sequence[targets.Target], name: str, set_names: Collection[str], *, needed: bool
    ) -> None:
        """Refuse a ``needed`` operating system that no node has, and parameters that no definition lists."""
        ask = calls.OsValidate(name=name.partition("+")[0])
        answers = await self.environment.nodes.fan_out(node_targets, ask) if needed else []
        known = {key for answer in answers if answer.value for key, _ in answer.value.parameters}
        if needed and not any(answer.value for answer in answers):
            raise errors.NotFoundError(f"no node has operating system {name}", hint="gnt-os list shows all OSes")
        if unlisted := sorted(set(set_names) - known):
            raise parameters.unknown(f"parameter of operating system {name}:", unlisted, known)

    def _raise_error(self, answer: targets.Answer[None], what: str, *, forced: bool = False) -> None:
        """Raise the error of a node; with ``force``, only log that a node does not answer."""
        error = answer.error
        if error is None:
            return
        silent = isinstance(error, errors.RemoteError)
        if forced or (silent and self.op.force):
            self.environment.log.warning(f"{what}: {error}")
            return
        hint = "mark the node offline, or add -f to continue without it" if silent else error.hint
        raise errors.EnvironmentFaultError(f"{what}: {error.message}", hint=hint)


def _sets(values: entities.Parameters) -> bool:
    return any(value != parameters.RESET for value in values.values())


def _check_instances(snapshot: states.Snapshot, old: cluster.Cluster, new: cluster.Cluster) -> None:
    """Refuse memory defaults that conflict with the parameters of an instance."""
    for vm in snapshot.instances.values() if old.beparams != new.beparams else ():
        try:
            parameters.check_memory(parameters.fill_backend(new, vm))
        except errors.InvalidError as error:
            raise errors.InvalidError(f"instance {vm.name}: {error.message}", hint=error.hint) from None


def _plug(the_cluster: cluster.Cluster) -> calls.Nic:
    """Return a NIC that has only the cluster's defaults, as nodes see it."""
    return fill.fill_nic(the_cluster, 0, instance.Nic(uuid="", mac=""), net=None)
