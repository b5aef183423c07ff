"""The table of calls: which component of the node answers which call of ``rpc.calls``.

``server`` receives the table and adds the calls for joining and leaving; ``wiring`` creates the components. A new call
needs a line here, and a method if it is more than a single method call of a component.
"""

from gantry.node import call_table, drivers
from gantry.node.daemon import console_streams, disk_calls, hooks, instance_calls, node_info, packages, usage
from gantry.node.hypervisors.kvm import accelerator_probe, driver
from gantry.node.membership import fence, master_process, replica, ssconf
from gantry.node.os import backup, os_definitions
from gantry.rpc import calls
from gantry.runtime import interface


class Handlers:
    """The components of a node that answer its calls."""

    def __init__(
        self,
        runtime: interface.Runtime,
        registry: drivers.Registry,
        *,
        queue: str,
        lib: str,
        files: ssconf.Files,
        barrier: fence.Fence,
        replica_store: replica.Replica,
        definitions: os_definitions.Definitions,
        hook_scripts: hooks.Hooks,
        accelerators: accelerator_probe.Accelerators,
        disks: disk_calls.Disks,
        exports: backup.Backup,
        own_packages: packages.Packages,
        recorder: usage.Recorder,
        consoles: console_streams.Consoles,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._queue = queue
        self._lib = lib
        self._files = files
        self._barrier = barrier
        self._replica = replica_store
        self._definitions = definitions
        self._hooks = hook_scripts
        self._accelerators = accelerators
        self._disks = disks
        self._exports = exports
        self._packages = own_packages
        self._recorder = recorder
        self._consoles = consoles

    def table(self) -> call_table.Table:
        """Return the table of all calls that a node answers while it belongs to a cluster."""
        table = call_table.Table()
        table.add(calls.NodeInfo, self._node_info)
        table.add(calls.NodeVerify, self._node_verify)
        table.add(calls.WriteSsconf, lambda call: self._files.write(call.values))
        table.add(calls.UpdateSsconf, self._files.update)
        table.add(calls.UploadFile, self._upload)
        table.add(calls.MasterName, self._master_name)
        table.add(calls.CandidateStatus, lambda call: self._replica.status())
        table.add_for_caller(calls.GrantEpoch, self._replica.grant_epoch)
        table.add_for_caller(calls.LeaseRenew, self._replica.renew_lease)
        table.add_for_caller(calls.LeaseStatus, self._lease_status)
        table.add_for_caller(calls.JournalAppend, self._replica.append)
        table.add_for_caller(calls.CheckpointStore, self._replica.store)
        table.add(calls.ReplicaPrune, self._replica.prune)
        table.add(calls.JournalFetch, self._replica.following)
        table.add(calls.CopyFetch, self._replica.fetch)
        table.add(calls.NodeDemote, self._node_demote)
        stops = master_process.Stops(self._runtime, self._queue, self._barrier)
        table.add_for_caller(calls.StopMaster, lambda call, caller: stops.stop(caller, timeout_seconds=call.patience))
        table.add(calls.OsDiagnose, self._os_diagnose)
        table.add(calls.OsValidate, self._os_validate)
        table.add(calls.OsAdd, self._os_add)
        table.add(calls.OsRename, self._os_rename)
        table.add(calls.OsCancel, lambda call: self._definitions.cancel(call.instance))
        table.add(calls.OsVerify, lambda call: self._definitions.verify(call.instance))
        table.add(calls.HooksRun, self._hooks.run)
        self._disks.add_to(table)
        self._exports.add_to(table)
        self._packages.add_to(table)
        self._recorder.add_to(table)
        self._consoles.add_to(table)
        instance_calls.Instances(self._registry, self._runtime.disk).add_to(table)
        table.add(calls.NicValidate, self._nic_validate)
        table.add(calls.TestDelay, lambda call: self._runtime.clock.sleep(call.duration))
        return table

    async def prepare(self) -> None:
        """Probe the accelerator in advance if the cluster uses kvm: the probe takes long, and a call would wait."""
        if driver.NAME in self._files.read("hypervisor_list").splitlines():
            await self._accelerators.current()

    async def forget(self) -> None:
        """Remove the cluster's files from the node, except certificates, instances and disks."""
        await self._files.forget()
        await self._replica.forget()
        await self._replica.forget_lease()

    async def _node_info(self, call: calls.NodeInfo) -> calls.NodeStatus:
        return await node_info.status(self._runtime.disk, self._registry, accelerators=self._accelerators, request=call)

    async def _node_verify(self, call: calls.NodeVerify) -> dict[str, list[str]]:
        complaints = await node_info.verify(
            self._runtime, self._registry, files=self._files, lib=self._lib, request=call
        )
        return complaints | {"copies": self._replica.kept()}

    async def _upload(self, call: calls.UploadFile) -> None:
        if call.name == "authority.pem" and not self._files.has(call.name, call.content):
            self._barrier.check_trust("replace the authorities that it trusts")
        await self._files.upload(call.name, call.content)

    async def _master_name(self, call: calls.MasterName) -> str:
        return self._files.read("master_node")

    async def _lease_status(self, call: calls.LeaseStatus, caller: str) -> calls.LeaseState:
        return self._replica.lease_status(caller)

    async def _node_demote(self, call: calls.NodeDemote) -> None:
        await self._files.forget_secrets()
        await self._replica.forget()

    async def _os_diagnose(self, call: calls.OsDiagnose) -> tuple[calls.OsScript, ...]:
        return self._definitions.diagnose()

    async def _os_validate(self, call: calls.OsValidate) -> calls.OsScript:
        return self._definitions.find(call.name)

    async def _os_add(self, call: calls.OsAdd) -> str:
        return await self._definitions.create(call.instance, reinstall=call.reinstall, debug=call.debug)

    async def _os_rename(self, call: calls.OsRename) -> str:
        return await self._definitions.rename(call.instance, old=call.old, debug=call.debug)

    async def _nic_validate(self, call: calls.NicValidate) -> None:
        for nic in call.nics:
            await self._registry.nic(nic.mode).validate(nic)
