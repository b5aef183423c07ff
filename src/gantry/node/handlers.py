"""The table of calls: which part of the node answers which call of ``rpc.calls``.

``agent`` gets the table and adds what joining and leaving need; ``assembly`` puts the parts together. A new call is a
line here, and a method where it is more than one call of a part.
"""

from gantry import errors
from gantry.node import agent, drivers, hooks, master, probe, replica, resources, scripts, ssconf
from gantry.rpc import calls
from gantry.runtime import interface


class Handlers:
    """The parts of one node behind its calls."""

    def __init__(
        self,
        runtime: interface.Runtime,
        registry: drivers.Registry,
        *,
        queue: str,
        files: ssconf.Files,
        copy: replica.Replica,
        definitions: scripts.Definitions,
        hook_scripts: hooks.Hooks,
        accelerators: probe.Accelerators,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._queue = queue
        self._files = files
        self._copy = copy
        self._definitions = definitions
        self._hooks = hook_scripts
        self._accelerators = accelerators

    def table(self) -> agent.Table:
        """Return the table of all calls that concern a cluster's member."""
        table = agent.Table()
        table.add(calls.NodeInfo, self._node_info)
        table.add(calls.NodeVerify, self._node_verify)
        table.add(calls.WriteSsconf, lambda call: self._files.write(call.values, epoch=call.epoch))
        table.add(calls.UploadFile, lambda call: self._files.upload(call.name, call.content))
        table.add(calls.MasterName, self._master_name)
        table.add(calls.CandidateStatus, lambda call: self._copy.status())
        table.add(calls.JournalAppend, self._copy.append)
        table.add(calls.CheckpointStore, self._copy.store)
        table.add(calls.JournalFetch, lambda call: self._copy.following(call.after))
        table.add(calls.NodeDemote, self._node_demote)
        table.add(calls.StopMaster, lambda call: master.stop(self._runtime, self._queue, patience=call.patience))
        table.add(calls.OsDiagnose, self._os_diagnose)
        table.add(calls.OsValidate, self._os_validate)
        table.add(calls.OsAdd, self._os_add)
        table.add(calls.HooksRun, self._hooks.run)
        table.add(calls.HypervisorValidate, self._hypervisor_validate)
        table.add(calls.BlockdevPath, self._blockdev_path)
        table.add(calls.BlockdevCreate, self._blockdev_create)
        table.add(calls.BlockdevRemove, self._blockdev_remove)
        table.add(calls.BlockdevFind, self._blockdev_find)
        table.add(calls.NicValidate, self._nic_validate)
        table.add(calls.InstanceList, self._instance_list)
        table.add(calls.InstanceInfo, self._instance_info)
        table.add(calls.InstanceStart, self._instance_start)
        table.add(calls.InstanceShutdown, self._instance_shutdown)
        table.add(calls.InstanceReboot, self._instance_reboot)
        table.add(calls.NicPlug, self._nic_plug)
        table.add(calls.NicUnplug, self._nic_unplug)
        table.add(calls.NicUpdate, self._nic_update)
        table.add(calls.InstanceConsole, self._instance_console)
        table.add(calls.TestDelay, lambda call: self._runtime.clock.sleep(call.duration))
        return table

    async def prepare(self) -> None:
        """Find out what takes long, before a call waits for it."""
        await self._accelerators.current()

    async def forget(self) -> None:
        """Remove what the cluster left on the node, apart from certificates, instances and disks."""
        await self._files.forget()
        await self._copy.forget()

    async def _node_info(self, call: calls.NodeInfo) -> calls.NodeStatus:
        return await resources.status(
            self._runtime.disk, self._registry, accelerators=self._accelerators, again=call.probe
        )

    async def _node_verify(self, call: calls.NodeVerify) -> dict[str, list[str]]:
        return await resources.verify(self._runtime, self._registry, files=self._files, wanted=call)

    async def _master_name(self, call: calls.MasterName) -> str:
        return self._files.read("master_node")

    async def _node_demote(self, call: calls.NodeDemote) -> None:
        await self._files.forget_secrets()
        await self._copy.forget()

    async def _os_diagnose(self, call: calls.OsDiagnose) -> tuple[calls.OsScript, ...]:
        return self._definitions.diagnose()

    async def _os_validate(self, call: calls.OsValidate) -> calls.OsScript:
        return self._definitions.find(call.name)

    async def _os_add(self, call: calls.OsAdd) -> str:
        return await self._definitions.create(call.instance, reinstall=call.reinstall, debug=call.debug)

    async def _hypervisor_validate(self, call: calls.HypervisorValidate) -> None:
        await self._registry.hypervisor(call.hypervisor).validate(call.hvparams)

    async def _blockdev_path(self, call: calls.BlockdevPath) -> tuple[str, ...]:
        driver = self._registry.block_device(call.dev_type)
        return tuple(driver.logical_id(call.instance, uuid) for uuid in call.uuids)

    async def _blockdev_create(self, call: calls.BlockdevCreate) -> str:
        return await self._registry.block_device(call.disk.dev_type).create(call.disk, owner=call.owner)

    async def _blockdev_remove(self, call: calls.BlockdevRemove) -> None:
        await self._registry.block_device(call.disk.dev_type).remove(call.disk)

    async def _blockdev_find(self, call: calls.BlockdevFind) -> bool:
        return self._registry.block_device(call.disk.dev_type).exists(call.disk)

    async def _nic_validate(self, call: calls.NicValidate) -> None:
        for nic in call.nics:
            await self._registry.nic(nic.mode).validate(nic)

    async def _instance_list(self, call: calls.InstanceList) -> tuple[calls.RunningInstance, ...]:
        found = [await self._registry.hypervisor(name).running() for name in call.hypervisors]
        return tuple(running for hypervisor in found for running in hypervisor)

    async def _instance_info(self, call: calls.InstanceInfo) -> calls.RunningInstance | None:
        return await self._registry.hypervisor(call.hypervisor).info(call.name)

    async def _instance_start(self, call: calls.InstanceStart) -> None:
        await self._registry.hypervisor(call.instance.hypervisor).start(call.instance, paused=call.paused)

    async def _instance_shutdown(self, call: calls.InstanceShutdown) -> None:
        await self._registry.hypervisor(call.instance.hypervisor).stop(call.instance.name, timeout=call.timeout)

    async def _instance_reboot(self, call: calls.InstanceReboot) -> None:
        if call.kind not in ("soft", "hard"):
            raise errors.InvalidError(f"{call.kind!r} is no kind of reboot", hint="a node knows soft and hard")
        hypervisor = self._registry.hypervisor(call.instance.hypervisor)
        await hypervisor.reboot(call.instance.name, kind=call.kind, timeout=call.timeout)

    async def _nic_plug(self, call: calls.NicPlug) -> None:
        await self._registry.hypervisor(call.instance.hypervisor).plug_nic(call.instance, call.nic)

    async def _nic_unplug(self, call: calls.NicUnplug) -> None:
        await self._registry.hypervisor(call.instance.hypervisor).unplug_nic(call.instance, call.nic)

    async def _nic_update(self, call: calls.NicUpdate) -> bool:
        return await self._registry.hypervisor(call.instance.hypervisor).update_nic(call.instance, call.nic)

    async def _instance_console(self, call: calls.InstanceConsole) -> calls.Console:
        return await self._registry.hypervisor(call.instance.hypervisor).console(call.instance.name)
