"""The calls about instances: finds the hypervisor that answers each. ``handlers`` adds them to its table."""

from typing import Protocol

import msgspec

from gantry import errors
from gantry.node import call_table, drivers
from gantry.node.hypervisors import allowed, consoles
from gantry.rpc import calls
from gantry.runtime import interface


class _InstanceCall(Protocol):
    """A call with a whole instance among its arguments."""

    @property
    def instance(self) -> calls.Instance: ...


class Instances:
    """The instance calls of a node."""

    def __init__(self, registry: drivers.Registry, disk: interface.Disk) -> None:
        self._registry = registry
        self._disk = disk

    def add_to(self, table: call_table.Table) -> None:
        """Add all calls to a table."""
        table.add(calls.HypervisorValidate, self._validate)
        table.add(calls.InstanceList, self._list)
        table.add(calls.InstanceInfo, lambda call: self._registry.hypervisor(call.hypervisor).info(call.name))
        table.add(calls.InstanceMachine, self._machine)
        table.add(calls.InstanceEndings, self._endings)
        table.add(calls.InstanceStart, self._start)
        table.add(
            calls.InstanceShutdown, lambda call: self._hypervisor(call).stop(call.instance.name, timeout=call.timeout)
        )
        table.add(calls.InstanceReboot, self._reboot)
        table.add(calls.InstanceBalloonMemory, lambda call: self._hypervisor(call).balloon(call.instance, call.memory))
        self._add_devices(table)
        self._add_migration(table)

    def _add_devices(self, table: call_table.Table) -> None:
        table.add(calls.NicPlug, lambda call: self._hypervisor(call).plug_nic(call.instance, call.nic))
        table.add(calls.NicUnplug, lambda call: self._hypervisor(call).unplug_nic(call.instance, call.nic))
        table.add(calls.NicUpdate, lambda call: self._hypervisor(call).update_nic(call.instance, call.nic))
        table.add(calls.DiskPlug, lambda call: self._hypervisor(call).plug_disk(call.instance, call.disk))
        table.add(calls.DiskUnplug, lambda call: self._hypervisor(call).unplug_disk(call.instance, call.disk))
        table.add(calls.DiskResize, lambda call: self._hypervisor(call).resize_disk(call.instance, call.disk))

    def _add_migration(self, table: call_table.Table) -> None:
        table.add(calls.InstanceMigrationInfo, lambda call: self._hypervisor(call).migration_info(call.instance))
        table.add(calls.InstanceAccept, self._accept)
        table.add(calls.InstanceMigrate, self._migrate)
        table.add(
            calls.InstanceMigrationStatus,
            lambda call: self._hypervisor(call).migration_status(call.instance, wait=call.wait),
        )
        table.add(calls.InstanceMigrateCancel, lambda call: self._hypervisor(call).cancel_migration(call.instance))
        table.add(
            calls.InstanceFinalizeMigrationSrc,
            lambda call: self._hypervisor(call).finalize_source(call.instance, success=call.success),
        )
        table.add(
            calls.InstanceFinalizeMigrationDst,
            lambda call: self._hypervisor(call).finalize_target(call.instance, success=call.success),
        )

    def _hypervisor(self, call: _InstanceCall) -> drivers.Hypervisor:
        return self._registry.hypervisor(call.instance.hypervisor)

    async def _start(self, call: calls.InstanceStart) -> None:
        allowed.check(self._disk, call.instance)
        consoles.check(self._disk, call.instance.hvparams)
        await self._hypervisor(call).start(call.instance, paused=call.paused)

    async def _validate(self, call: calls.HypervisorValidate) -> None:
        consoles.check(self._disk, call.hvparams)
        await self._registry.hypervisor(call.hypervisor).validate(call.hvparams)

    async def _list(self, call: calls.InstanceList) -> tuple[calls.RunningInstance, ...]:
        names = None if call.names is None else frozenset(call.names)
        lists = [await self._registry.hypervisor(name).running(names) for name in call.hypervisors]
        return tuple(instance for instances in lists for instance in instances)

    async def _machine(self, call: calls.InstanceMachine) -> calls.Instance | None:
        machine = await self._registry.hypervisor(call.hypervisor).machine(call.name)
        # OS parameters may contain secrets, and only scripts need them.
        return msgspec.structs.replace(machine, osparams={}) if machine else None

    async def _endings(self, call: calls.InstanceEndings) -> tuple[calls.Ending, ...]:
        lists = [await self._registry.hypervisor(name).endings() for name in call.hypervisors]
        return tuple(ending for endings in lists for ending in endings)

    async def _reboot(self, call: calls.InstanceReboot) -> None:
        if call.kind not in ("soft", "hard"):
            raise errors.InvalidError(f"{call.kind!r} is not a reboot type of a node", hint="use soft or hard")
        await self._hypervisor(call).reboot(call.instance.name, kind=call.kind, timeout=call.timeout)

    async def _accept(self, call: calls.InstanceAccept) -> calls.Reception:
        return await self._hypervisor(call).accept(call.instance, call.info, address=call.address, mirror=call.mirror)

    async def _migrate(self, call: calls.InstanceMigrate) -> None:
        await self._hypervisor(call).migrate(call.instance, call.reception, live=call.live)
