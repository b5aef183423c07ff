"""OP_INSTANCE_SET_PARAMS: change an instance's NICs, disks and parameters, at once when it runs and where it can be.

The changes are one transaction. Where the instance runs and its hypervisor can do it, steps on the node follow, each
with its undo; the addresses that go linger until they are done, so nobody else gets what the guest may still use.
Where it cannot be done, or shall not, the changes hold from the next start, and the job's log says so.
"""

from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import base as entities
from gantry.model import confidential, instance, lock, opcodes, parameters
from gantry.operations import base, device_index, fill, hook_environment, parameter_levels
from gantry.operations.disk import changes, convert
from gantry.operations.instance import hotplug
from gantry.operations.network import nics
from gantry.operations.os import os_check
from gantry.rpc import calls
from gantry.state import snapshot as states

NICS = 8
"""How many NICs an instance can have (contracts/opcodes.md#value-coercion)."""

Running = calls.RunningInstance | None


@dataclass(frozen=True)
class Facts:
    """What runs, what nodes reported for new and converted disks, and what was drawn for the draft they checked."""

    running: Running
    disks: convert.AnyFacts = changes.NOTHING
    drawn: base.Draws = field(default_factory=base.Draws)


Report = list[tuple[str, object]]
"""What changed: parameter and new value (contracts/opcodes.md#results)."""


class InstanceSetParams(base.Unit[opcodes.InstanceSetParams, Facts]):
    """Changes an instance."""

    OPCODE = opcodes.InstanceSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the instance and disks that come or go; share its node, its networks, those that its NICs get."""
        vm = snapshot.instance(self.op.instance_name)
        wanted = {nics.edit(change).nic.network for change in self.op.nics}
        networks = {nic.network for nic in vm.nics if nic.network}
        networks |= {snapshot.network(str(name)).uuid for name in wanted if nics.given(name)}
        return {
            (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
            **convert.locks(snapshot, vm, self.op),
            **{(lock.Level.NODE, node): lock.Mode.SHARED for node in vm.nodes},
            **{(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in networks},
        }

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Try the change, have the node check what only it knows, and ask it whether the instance runs.

        A node that is marked offline is not asked: nothing runs there.
        """
        vm = snapshot.instance(self.op.instance_name)
        op = self.op
        asked = (op.nics, op.disks, op.disk_template, op.hvparams, op.beparams, op.osparams, op.osparams_private)
        if not any(asked) and op.runtime_mem is None and op.offline is None:
            raise errors.InvalidError(
                f"nothing of instance {vm.name} is to be changed", hint="give NICs, disks or parameters"
            )
        made = await convert.ask(self.environment, snapshot, vm, op)
        recorder = base.Recorder(self.environment.inputs)
        change = _Change(self, snapshot, made, recorder.inputs)
        draft, drawn = change.vm, recorder.drawn()
        node, nodes = snapshot.nodes[vm.primary_node], self.environment.nodes
        if node.offline:
            return Facts(None, made, drawn)
        target, before, after = snapshot.target(node), fill.fill(snapshot, vm), fill.fill(snapshot, draft)
        if after.hvparams != before.hvparams:
            check = calls.HypervisorValidate(hypervisor=vm.hypervisor, hvparams=after.hvparams)
            await nodes.call(target, check)
        given = {*op.osparams, *op.osparams_private}
        await os_check.check_parameters(nodes, target, after, given)
        plugs = {_plug(nic) for nic in before.nics}
        if new := tuple(nic for nic in after.nics if _plug(nic) not in plugs):
            await nodes.call(target, calls.NicValidate(nics=new))
        running = await nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))
        change.disks.check_running(running, hotplug=op.hotplug)
        more = (self._memory() or 0) - (running.memory if running else 0)
        if running and more > 0 and (free := (await nodes.call(target, calls.NodeInfo())).memory_free) < more:
            raise errors.NoRoomError(
                f"instance {vm.name} needs {more} MiB more, node {target.name} has {free} MiB free"
            )
        return Facts(running, made, drawn)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the changed instance; then change the running one."""
        old, running, plugs = snapshot.instance(self.op.instance_name), facts.running, self.op.hotplug
        change = _Change(self, snapshot, facts.disks, facts.drawn.replay(self.environment.inputs))
        new = structs.replace(change.vm, lingering=self._lingering(old, change.vm, running=running))
        # The guest may go on with any of its addresses when a step fails and cannot be undone.
        first = structs.replace(change.during, lingering=self._lingering(old, change.vm, running=running, told=False))
        steps = [*self._memory_steps(snapshot, new, running=running), *self._steps(snapshot, old, new, running=running)]
        steps += change.disks.steps(new, running, hotplug=plugs, wait=self.op.wait_for_sync)
        after = change.disks.after()
        notes = self._notes(old, new, running=running) + change.disks.notes(running, hotplug=plugs)
        return base.Plan(
            lines=[f"{what}: {_text(value)}" for what, value in change.report]
            + [step.text for step in [*steps, *after]]
            + notes,
            changes=[
                *([states.Put(base.changed(first, self.environment.inputs.now))] if first != old else []),
                *change.disks.changes(),
            ],
            steps=[*steps, *base.noted(notes)],
            finish=None if first == new else lambda _: [states.Put(base.changed(new, self.environment.inputs.now))],
            after=after,
            result=lambda: change.report,
            hooks=hook_environment.of_instance(
                snapshot,
                old,
                path="instance-modify",
                wanted=new,
                **({} if self._memory() is None else {"RUNTIME_MEMORY": self._memory()}),
                **({"NEW_DISK_TEMPLATE": self.op.disk_template} if self.op.disk_template else {}),
            ),
        )

    def _notes(self, old: instance.Instance, new: instance.Instance, *, running: Running) -> list[str]:
        """Return what the job's log says of changes that a running guest does not see."""
        if running is None:
            return []
        notes = []
        if old.hvparams != new.hvparams or _seen_by_guest(old) != _seen_by_guest(new):
            notes.append(f"instance {old.name} runs: its parameters hold from its next start")
        moved = {(nic.uuid, nic.mac) for nic in old.nics} != {(nic.uuid, nic.mac) for nic in new.nics}
        if old.nics != new.nics and not self.op.hotplug:
            notes.append(f"instance {old.name} runs: the changes of its NICs hold from its next start")
        elif moved and not running.hotplug:
            notes.append(
                f"instance {old.name} runs, and NICs cannot be plugged into it: they change with its next start"
            )
        if new.lingering:
            held = ", ".join(one.ip for one in new.lingering)
            notes.append(f"the guest of {old.name} still uses {held}: nobody else gets that until it has stopped")
        return notes

    def _memory(self) -> int | None:
        return None if self.op.runtime_mem is None else parameters.size(self.op.runtime_mem, what="memory")

    def _memory_steps(self, snapshot: states.Snapshot, new: instance.Instance, *, running: Running) -> list[base.Step]:
        """Return the step that gives a running guest more or less memory."""
        memory = self._memory()
        if memory is None:
            return []
        if running is None:
            raise errors.WrongStateError(
                f"instance {new.name} does not run: it has no memory now", hint="-B maxmem= is what it starts with"
            )
        whole, target = fill.fill(snapshot, new), snapshot.target(snapshot.nodes[new.primary_node])
        text = f"give {new.name} {memory} MiB of memory instead of {running.memory}"
        more, back = (calls.InstanceBalloonMemory(instance=whole, memory=size) for size in (memory, running.memory))
        return [base.call_step(text, target, more, back)]

    def _lingering(
        self, old: instance.Instance, new: instance.Instance, *, running: Running, told: bool = True
    ) -> tuple[instance.Lingering, ...]:
        """Return the addresses that the instance gives up on paper only: its guest runs on with the NIC as it was.

        Not ``told`` is a guest of which no NIC has been changed yet, though it can be.
        """
        if running is None:
            return ()
        stays = {(nic.uuid, nic.mac) for nic in new.nics}
        changed = [nic for nic in old.nics if nic not in new.nics]
        plugs = told and self.op.hotplug
        heard = {nic.uuid for nic in changed if plugs and (running.hotplug or (nic.uuid, nic.mac) in stays)}
        kept = {(nic.network, ip) for nic in new.nics for ip in nic.ip}
        return tuple(
            instance.Lingering(network=one.network, ip=one.ip, nic=one.nic)
            for one in old.places()
            if one.network and one.nic not in heard and (one.network, one.ip) not in kept
        )

    def _steps(
        self, snapshot: states.Snapshot, old: instance.Instance, new: instance.Instance, *, running: Running
    ) -> list[base.Step]:
        """Return the steps on the node: NICs out, NICs connected anew, NICs in."""
        if running is None or not self.op.hotplug:
            return []
        do = hotplug.HotPlug(
            self.environment,
            snapshot.target(snapshot.nodes[old.primary_node]),
            before=fill.fill(snapshot, old),
            after=fill.fill(snapshot, new),
        )
        return [*do.out(), *do.anew(), *do.into()] if running.hotplug else do.anew()


class _Change:
    """An instance after the opcode, ``vm``, and ``during`` its steps; the ``report`` says what that changes."""

    def __init__(
        self, unit: InstanceSetParams, snapshot: states.Snapshot, made: convert.AnyFacts, inputs: base.Inputs
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
            macs=nics.Macs(snapshot, inputs, held=unit.environment.ledger.macs),
            allocations=allocations,
            force=unit.op.force,
            conflicts_check=unit.op.conflicts_check,
        )
        self.report: Report = []
        self._nics = list(old.nics)
        for one in unit.op.nics:
            self._apply(nics.edit(one))
        if len(self._nics) > NICS:
            raise errors.InvalidError(
                f"instance {old.name} would have {len(self._nics)} NICs, {NICS} is the most", hint="remove one first"
            )
        self.disks = convert.changed(unit.environment, snapshot, old, unit.op, made)
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
            memory = parameters.size(unit.op.runtime_mem, what="memory")
            self.report.append(("runtime_memory", memory))
            _check_runtime(old.name, memory, backend)
        if not unit.op.ignore_ipolicy:
            parameter_levels.check_policy(snapshot, self.vm, before=old)
        held = self.disks.during
        self.during = structs.replace(self.vm, disks=held.disks, disk_template=held.disk_template)

    def _state(self, old: instance.Instance, *, offline: bool | None) -> instance.AdminState:
        """Return what is wanted of the instance: only one that is down is put aside, only one that was comes back."""
        if offline is None or offline == (old.admin_state is instance.AdminState.OFFLINE):
            return old.admin_state
        if old.admin_state is instance.AdminState.UP:
            raise errors.WrongStateError(
                f"instance {old.name} shall be up and cannot be marked offline", hint=f"gnt-instance stop {old.name}"
            )
        state = instance.AdminState.OFFLINE if offline else instance.AdminState.DOWN
        self.report.append(("admin_state", state.value))
        return state

    def _set(self, kind: str, stored: entities.Parameters, given: entities.Parameters) -> entities.Parameters:
        self.report += [(f"{kind}/{name}", value) for name, value in given.items()]
        return parameters.merge(stored, given)

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
        self._give_back(old)
        new = self._nics[index] = self._maker.change(index, old, change.nic)
        before = self._parts(old)
        self.report += [
            (f"nic.{name}/{index}", value) for name, value in self._parts(new).items() if value != before.get(name)
        ]

    def _give_back(self, nic: instance.Nic) -> None:
        """Let a NIC have the addresses again that it gave up on paper only; on another one the guest had them twice."""
        for kept in [one for one in self._lingering if one.nic == nic.uuid]:
            self._lingering.remove(kept)
            self._allocations.release(self._networks[kept.network], kept.ip)

    def _parts(self, nic: instance.Nic) -> dict[str, object]:
        """Return what a report says of a NIC; the addresses are a list."""
        name = self._networks[nic.network].name if nic.network else ""
        return {"mac": nic.mac, "ip": list(nic.ip), "network": name, "name": nic.name, **nic.nicparams}

    def _add(self, change: nics.Edit) -> None:
        index = device_index.place(len(self._nics), change.ident, noun="NIC")
        given = {name: value for name, value in structs.asdict(change.nic).items() if value is not None}
        given["ip"] = tuple(nics.patched((), change.nic.ip, place=f"NIC {index}"))
        made = self._maker.make(index, opcodes.NicSpec(**given))
        self._nics.insert(index, made)
        shown = ",".join(f"{name}={_text(value)}" for name, value in self._parts(made).items() if value)
        self.report.append((f"nic/{index}", f"add:{shown}"))


def _check_runtime(name: str, memory: int, backend: entities.Parameters) -> None:
    least, most = int(backend["minmem"]), int(backend["maxmem"])
    if not least <= memory <= most:
        raise errors.InvalidError(
            f"instance {name} can have {least} to {most} MiB while it runs, not {memory}",
            hint="minmem is the least and maxmem the most",
        )


def _seen_by_guest(vm: instance.Instance) -> list[entities.Value | None]:
    """Return the backend parameters that a guest is started with."""
    return [vm.beparams.get(name) for name in ("maxmem", "vcpus")]


def _plug(nic: calls.Nic) -> tuple[str, str, str, calls.Segment | None]:
    return nic.mode, nic.link, nic.vlan, nic.network.segment if nic.network else None


def _text(value: object) -> str:
    return (" ".join(value) if isinstance(value, list) else str(value)) or "none"
