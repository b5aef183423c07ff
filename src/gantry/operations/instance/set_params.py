"""OP_INSTANCE_SET_PARAMS: change an instance's NICs, disks and parameters, immediately where a running guest allows it.

The changes are one transaction. If the instance runs and its hypervisor supports hotplug, steps on the node follow,
each with its undo. Removed addresses linger until those steps are done, so that no other owner gets an address that
the guest may still use; removed and detached disks leave the instance only then. Changes that cannot be, or were not to
be, applied to a running guest take effect at its next start, and the job's log says so.
"""

from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import allowed, confidential, instance, lock, opcodes, parameters
from gantry.model import base as entities
from gantry.operations import base, device_index, draws, fill, hook_environment, parameter_levels
from gantry.operations.disk import changes, convert
from gantry.operations.instance import hotplug
from gantry.operations.network import attached_ports, nics
from gantry.operations.os import os_check
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

NICS = 8
"""The maximum number of NICs of an instance (contracts/opcodes.md#value-coercion)."""

Running = calls.RunningInstance | None


@dataclass(frozen=True)
class Facts:
    """The running instance, what nodes reported for new and converted disks, and the values drawn for the draft."""

    running: Running
    disks: convert.AnyFacts = changes.NOTHING
    drawn: draws.Draws = field(default_factory=draws.Draws)


Report = list[tuple[str, object]]
"""The changes: parameter and new value (contracts/opcodes.md#results)."""


class InstanceSetParams(base.Unit[opcodes.InstanceSetParams, Facts]):
    """Changes an instance."""

    OPCODE = opcodes.InstanceSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance and the disks that change exclusively; its nodes, networks and those of new NICs shared."""
        vm = snapshot.instance(self.op.instance_name)
        specs = [nics.edit(change).nic for change in self.op.nics]
        new_networks = (attached_ports.network_of(snapshot, spec) for spec in specs)
        networks = {nic.network for nic in vm.nics if nic.network} | {net.uuid for net in new_networks if net}
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            **convert.locks(snapshot, vm, self.op),
            **{(lock.Level.NODE, node): lock.Mode.SHARED for node in vm.nodes},
            **{(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in networks},
            **attached_ports.locks(snapshot, specs),
        }

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Try the change on a draft, let the node check the draft, and ask the node whether the instance runs.

        A node that is marked offline is not asked: nothing runs there.
        """
        vm = snapshot.instance(self.op.instance_name)
        op = self.op
        changes = (op.nics, op.disks, op.disk_template, op.hvparams, op.beparams, op.osparams, op.osparams_private)
        if not any(changes) and op.runtime_mem is None and op.offline is None:
            raise errors.InvalidError(
                f"no change of instance {vm.name} was requested", hint="specify NICs, disks or parameters"
            )
        allowed.check(snapshot.the_cluster, vm.hypervisor, op.hvparams)
        disk_facts = await convert.ask(self.environment, snapshot, vm, op)
        recorder = draws.Recorder(self.environment.inputs)
        change = _Change(self, snapshot, disk_facts, recorder.inputs)
        draft, drawn = change.vm, recorder.drawn()
        node, nodes = snapshot.nodes[vm.primary_node], self.environment.nodes
        if node.offline:
            return Facts(None, disk_facts, drawn)
        target, before, after = snapshot.target(node), fill.fill(snapshot, vm), fill.fill(snapshot, draft)
        if after.hvparams != before.hvparams:
            check = calls.HypervisorValidate(hypervisor=vm.hypervisor, hvparams=after.hvparams)
            await nodes.call(target, check)
        changed_names = {*op.osparams, *op.osparams_private}
        await os_check.check_parameters(nodes, target, after, changed_names)
        plugs = {_plug(nic) for nic in before.nics}
        if new := tuple(nic for nic in after.nics if _plug(nic) not in plugs):
            await nodes.call(target, calls.NicValidate(nics=new))
        running = await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        change.disks.check_running(running, hotplug=op.hotplug)
        missing = (self._memory() or 0) - (running.memory if running else 0)
        if running and missing > 0 and (free := (await nodes.call(target, calls.NodeInfo())).memory_free) < missing:
            raise errors.NoRoomError(
                f"instance {vm.name} needs {missing} MiB more memory, node {target.name} has {free} MiB free"
            )
        return Facts(running, disk_facts, drawn)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the changed instance; then change the running guest."""
        old, running, plugs = snapshot.instance(self.op.instance_name), facts.running, self.op.hotplug
        change = _Change(self, snapshot, facts.disks, facts.drawn.replay(self.environment.inputs))
        new = structs.replace(change.vm, lingering=self._lingering(old, change.vm, running=running))
        _check_released(old, new)
        steps = [*self._memory_steps(snapshot, new, running=running), *self._steps(snapshot, old, new, running=running)]
        steps += change.disks.steps(new, running, hotplug=plugs, wait=self.op.wait_for_sync)
        port_changes = attached_ports.changes(old, new, now=self.environment.inputs.now)
        # If a step fails and cannot be undone, or the master ends, the guest may keep any of its addresses and disks.
        lingering = self._lingering(old, change.during, running=running, plugged=False)
        first = structs.replace(change.during, lingering=lingering) if steps else new
        # A change of the instance holds the numbers of its mirrored disks until the job has deactivated removed ones.
        puts = first != old or bool(change.disks.removed)
        last = [
            *change.disks.last_changes(),
            *(each for each in port_changes if isinstance(each, states.Put)),
        ]
        after = change.disks.after()
        notes = self._notes(old, new, running=running) + change.disks.notes(running, hotplug=plugs)
        return base.Plan(
            lines=[f"{what}: {_text(value)}" for what, value in change.report]
            + [step.text for step in [*steps, *after]]
            + notes,
            changes=[
                *([states.Put(base.changed(first, self.environment.inputs.now))] if puts else []),
                *change.disks.changes(),
                *(each for each in port_changes if isinstance(each, states.Delete)),
                *(last if first == new else []),
            ],
            steps=[*steps, *base.log_steps(notes)],
            finish=None
            if first == new
            else lambda _: [states.Put(base.changed(new, self.environment.inputs.now)), *last],
            after=after,
            result=lambda: change.report,
            hooks=hook_environment.of_instance(
                snapshot,
                old,
                path="instance-modify",
                planned=new,
                **({} if self._memory() is None else {"RUNTIME_MEMORY": self._memory()}),
                **({"NEW_DISK_TEMPLATE": self.op.disk_template} if self.op.disk_template else {}),
            ),
        )

    def _notes(self, old: instance.Instance, new: instance.Instance, *, running: Running) -> list[str]:
        """Return the log's lines about changes that a running guest does not get."""
        if running is None:
            return []
        notes = []
        if old.hvparams != new.hvparams or _seen_by_guest(old) != _seen_by_guest(new):
            notes.append(f"instance {old.name} is running: its new parameters take effect at its next start")
        moved = {(nic.uuid, nic.mac) for nic in old.nics} != {(nic.uuid, nic.mac) for nic in new.nics}
        if old.nics != new.nics and not self.op.hotplug:
            notes.append(f"instance {old.name} is running: its NIC changes take effect at its next start")
        elif moved and not running.hotplug:
            notes.append(
                f"instance {old.name} is running without NIC hotplug: its NIC changes take effect at its next start"
            )
        if new.lingering:
            addresses = ", ".join(address.ip for address in new.lingering)
            notes.append(f"the guest of {old.name} still uses {addresses}: kept for it until the instance stops")
        return notes

    def _memory(self) -> int | None:
        return None if self.op.runtime_mem is None else parameters.size(self.op.runtime_mem, noun="memory")

    def _memory_steps(self, snapshot: states.Snapshot, new: instance.Instance, *, running: Running) -> list[base.Step]:
        """Return the step that changes the memory of a running guest."""
        memory = self._memory()
        if memory is None:
            return []
        if running is None:
            raise errors.WrongStateError(
                f"instance {new.name} is not running, so its runtime memory cannot change",
                hint="-B maxmem= sets the memory that the instance starts with",
            )
        whole, target = fill.fill(snapshot, new), snapshot.target(snapshot.nodes[new.primary_node])
        text = f"change the memory of {new.name} from {running.memory} to {memory} MiB"
        change, undo = (calls.InstanceBalloonMemory(instance=whole, memory=size) for size in (memory, running.memory))
        return [base.call_step(text, target, change, undo)]

    def _lingering(
        self, old: instance.Instance, new: instance.Instance, *, running: Running, plugged: bool = True
    ) -> tuple[instance.Lingering, ...]:
        """Return the addresses that the instance loses in the state, but not in its running guest.

        ``plugged`` means that the steps have changed the guest's NICs as far as hotplug can.
        """
        if running is None:
            return ()
        remaining = {(nic.uuid, nic.mac) for nic in new.nics}
        changed = [nic for nic in old.nics if nic not in new.nics]
        plugs = plugged and self.op.hotplug
        changed_in_guest = {
            nic.uuid for nic in changed if plugs and (running.hotplug or (nic.uuid, nic.mac) in remaining)
        }
        kept = {(nic.network, ip) for nic in new.nics for ip in nic.ip}
        return tuple(
            instance.Lingering(network=owner.network, ip=owner.ip, nic=owner.nic)
            for owner in old.allocations()
            if owner.network and owner.nic not in changed_in_guest and (owner.network, owner.ip) not in kept
        )

    def _steps(
        self, snapshot: states.Snapshot, old: instance.Instance, new: instance.Instance, *, running: Running
    ) -> list[base.Step]:
        """Return the steps on the node: unplug NICs, reconnect NICs, plug NICs."""
        if running is None or not self.op.hotplug:
            return []
        plugs = hotplug.HotPlug(
            self.environment,
            snapshot.target(snapshot.nodes[old.primary_node]),
            before=fill.fill(snapshot, old),
            after=fill.fill(snapshot, new),
        )
        return [*plugs.unplug(), *plugs.reconnect(), *plugs.plug()] if running.hotplug else plugs.reconnect()


class _Change:
    """The instance after the opcode (``vm``) and during its steps (``during``), and the ``report`` of the changes."""

    def __init__(
        self, unit: InstanceSetParams, snapshot: states.Snapshot, disk_facts: convert.AnyFacts, inputs: draws.Inputs
    ) -> None:
        old = snapshot.instance(unit.op.instance_name)
        self._networks = snapshot.networks
        allocations = unit.environment.ledger.allocations(snapshot, owner=old.uuid)
        self._allocations = allocations
        self._lingering = list(old.lingering)
        self._maker = nics.Maker(
            snapshot,
            snapshot.nodegroups[snapshot.nodes[old.primary_node].group],
            inputs,
            macs=nics.Macs(snapshot, inputs, held_macs=unit.environment.ledger.macs),
            allocations=allocations,
            force=unit.op.force,
            conflicts_check=unit.op.conflicts_check,
        )
        self.report: Report = []
        self._nics = list(old.nics)
        for change in unit.op.nics:
            self._apply(nics.edit(change))
        if len(self._nics) > NICS:
            raise errors.InvalidError(
                f"instance {old.name} would have {len(self._nics)} NICs, the maximum is {NICS}",
                hint="remove a NIC first",
            )
        attached_ports.check(structs.replace(old, nics=tuple(self._nics)))
        self.disks = convert.changed(unit.environment, snapshot, old, unit.op, disk_facts)
        self.report += self.disks.report
        self.vm = structs.replace(
            old,
            disks=self.disks.vm.disks,
            disk_template=self.disks.vm.disk_template,
            nics=tuple(self._nics),
            hvparams=self._set("hv", old.hvparams, parameters.instance_hypervisor(old.hypervisor, unit.op.hvparams)),
            beparams=self._set("be", old.beparams, parameters.backend(unit.op.beparams)),
            osparams=self._set("os", old.osparams, unit.op.osparams),
            osparams_private=parameters.merge(old.osparams_private, unit.op.osparams_private),
            admin_state=self._state(old, offline=unit.op.offline),
        )
        self.report += [(f"os_private/{name}", confidential.BLANK) for name in unit.op.osparams_private]
        confidential.check_apart(public=self.vm.osparams, private=self.vm.osparams_private)
        backend = parameters.fill_backend(snapshot.the_cluster, self.vm)
        parameters.check_memory(backend)
        if unit.op.runtime_mem is not None:
            memory = parameters.size(unit.op.runtime_mem, noun="memory")
            self.report.append(("runtime_memory", memory))
            _check_runtime(old.name, memory, backend)
        if not unit.op.ignore_ipolicy:
            parameter_levels.check_policy(snapshot, self.vm, before=old)
        disks_during = self.disks.during
        self.during = structs.replace(
            self.vm, disks=disks_during.disks, disk_template=disks_during.disk_template, nics=self._nics_during(old)
        )

    def _nics_during(self, old: instance.Instance) -> tuple[instance.Nic, ...]:
        """Return the NICs during the steps: removed ones that are made of ports stay, or their ports would be lost."""
        nics, uuids = list(self._nics), {nic.uuid for nic in self._nics}
        for index, nic in enumerate(old.nics):
            if nic.port and nic.uuid not in uuids:
                nics.insert(index, nic)
        return tuple(nics)

    def _state(self, old: instance.Instance, *, offline: bool | None) -> instance.AdminState:
        """Return the new admin state: only a stopped instance can be marked offline, and only an offline one online."""
        if offline is None or offline == (old.admin_state is instance.AdminState.OFFLINE):
            return old.admin_state
        if old.admin_state is instance.AdminState.UP:
            raise errors.WrongStateError(
                f"instance {old.name} is recorded as up and cannot be marked offline",
                hint=f"gnt-instance stop {old.name}",
            )
        state = instance.AdminState.OFFLINE if offline else instance.AdminState.DOWN
        self.report.append(("admin_state", state.value))
        return state

    def _set(self, kind: str, stored: entities.Parameters, new_values: entities.Parameters) -> entities.Parameters:
        self.report += [(f"{kind}/{name}", value) for name, value in new_values.items()]
        return parameters.merge(stored, new_values)

    def _apply(self, change: nics.Edit) -> None:
        if change.action == "add":
            self._add(change)
            return
        index = device_index.find(self._nics, change.ident, noun="NIC")
        old = self._nics[index]
        if change.action == "remove":
            if change.nic != opcodes.NicMod():
                raise errors.InvalidError(f"NIC {index}: remove takes no parameters")
            self._maker.free(self._nics.pop(index))
            self.report.append((f"nic/{index}", "remove"))
            return
        self._reclaim_lingering(old)
        new = self._nics[index] = self._maker.change(index, old, change.nic)
        before = self._parts(old)
        self.report += [
            (f"nic.{name}/{index}", value) for name, value in self._parts(new).items() if value != before.get(name)
        ]

    def _reclaim_lingering(self, nic: instance.Nic) -> None:
        """Let a NIC allocate its lingering addresses again; any other NIC would duplicate them in the guest."""
        for lingering in [address for address in self._lingering if address.nic == nic.uuid]:
            self._lingering.remove(lingering)
            self._allocations.release(self._networks[lingering.network], lingering.ip)

    def _parts(self, nic: instance.Nic) -> dict[str, object]:
        """Return what a report contains about a NIC; the addresses are a list."""
        name = self._networks[nic.network].name if nic.network else ""
        return {"mac": nic.mac, "ip": list(nic.ip), "network": name, "name": nic.name, **nic.nicparams}

    def _add(self, change: nics.Edit) -> None:
        index = device_index.insert_index(len(self._nics), change.ident, noun="NIC")
        values = {name: value for name, value in structs.asdict(change.nic).items() if value is not None}
        values["ip"] = tuple(nics.patched((), change.nic.ip, where=f"NIC {index}"))
        nic = self._maker.make(index, opcodes.NicSpec(**values))
        self._nics.insert(index, nic)
        description = ",".join(f"{name}={_text(value)}" for name, value in self._parts(nic).items() if value)
        self.report.append((f"nic/{index}", f"add:{description}"))


def _check_released(old: instance.Instance, new: instance.Instance) -> None:
    """Refuse to remove the NIC of a port whose addresses the running guest would keep: they are the port's again."""
    lingering = {address.nic for address in new.lingering}
    for index, nic in enumerate(old.nics):
        if nic.port and nic.uuid in lingering and nic.uuid not in {remaining.uuid for remaining in new.nics}:
            raise errors.WrongStateError(
                f"NIC {index} of {old.name} is port {nic.port.name or nic.uuid}; the running guest keeps its addresses",
                hint=f"stop the instance first (gnt-instance stop {old.name})",
            )


def _check_runtime(name: str, memory: int, backend: entities.Parameters) -> None:
    minimum, maximum = int(backend["minmem"]), int(backend["maxmem"])
    if not minimum <= memory <= maximum:
        raise errors.InvalidError(
            f"runtime memory of instance {name} must be {minimum} to {maximum} MiB, not {memory}",
            hint="minmem and maxmem are the limits",
        )


def _seen_by_guest(vm: instance.Instance) -> list[entities.Value | None]:
    """Return the backend parameters that only a start of the guest applies."""
    return [vm.beparams.get(name) for name in ("maxmem", "vcpus")]


def _plug(nic: calls.Nic) -> tuple[str, str, str, calls.Segment | None]:
    return nic.mode, nic.link, nic.vlan, nic.network.segment if nic.network else None


def _text(value: object) -> str:
    return (" ".join(value) if isinstance(value, list) else str(value)) or "none"
