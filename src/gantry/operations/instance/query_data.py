"""OP_INSTANCE_QUERY_DATA: describe instances in full, with what their nodes report about them and their disks."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gantry.model import confidential, instance, lock, opcodes
from gantry.operations import base, fill, guest_lists
from gantry.rpc import calls, liveness
from gantry.state.objects import snapshot as states

Running = dict[str, str]
"""The running instances of a node: accelerator by instance name."""

States = dict[tuple[str, str], calls.DiskState | None]
"""Disk states that nodes reported: by UUID of node and disk."""

DRBD_MAJOR = 147


@dataclass(frozen=True)
class Seen:
    """What the nodes reported; nodes that did not answer are missing."""

    running: dict[str, Running]
    disks: States


class InstanceQueryData(base.Unit[opcodes.InstanceQueryData, dict[str, dict[str, object]]]):
    """Describes instances in full (contracts/commands.md#instance-data)."""

    OPCODE = opcodes.InstanceQueryData
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing: a description is of one snapshot. Refuse unknown names."""
        for name in self.op.instances:
            snapshot.instance(name)
        return {}

    async def inspect(self, snapshot: states.Snapshot) -> dict[str, dict[str, object]]:
        """Describe each instance; ask its nodes unless ``static``."""
        names = self.op.instances or sorted(vm.name for vm in snapshot.instances.values())
        vms = [snapshot.instance(name) for name in names]
        static = Seen({}, {})
        seen = static if self.op.static else await self._ask(snapshot, vms)
        return {vm.name: self._describe(snapshot, vm, seen) for vm in vms}

    async def _ask(self, snapshot: states.Snapshot, vms: Sequence[instance.Instance]) -> Seen:
        """Ask all nodes at once, so that several silent nodes delay the answer no longer than one of them."""
        running, disks = await asyncio.gather(self._running(snapshot, vms), self._disks(snapshot, vms))
        return Seen(running, disks)

    async def _running(self, snapshot: states.Snapshot, vms: Sequence[instance.Instance]) -> dict[str, Running]:
        nodes = dict.fromkeys(vm.primary_node for vm in vms)
        targets = [snapshot.target(snapshot.nodes[uuid]) for uuid in nodes]
        return {
            answer.target.uuid: {
                running_instance.name: running_instance.accelerator for running_instance in answer.value
            }
            for answer in await liveness.read(self.environment.nodes, targets, guest_lists.ask(snapshot, vms))
            if answer.value is not None
        }

    async def _disks(self, snapshot: states.Snapshot, vms: Iterable[instance.Instance]) -> States:
        """Ask each node for the states of its disks, all of them in one call."""
        disks_by_node: dict[str, list[calls.Disk]] = {}
        for vm in vms:
            for node in vm.nodes if vm.disks else ():
                disks_by_node.setdefault(node, []).extend(fill.fill(snapshot, vm, node=node).disks)
        asking = (
            liveness.read(
                self.environment.nodes,
                [snapshot.target(snapshot.nodes[uuid])],
                calls.BlockdevStatus(disks=tuple(disks)),
            )
            for uuid, disks in disks_by_node.items()
        )
        reported: States = {}
        for (uuid, disks), (answer,) in zip(disks_by_node.items(), await asyncio.gather(*asking), strict=True):
            reported |= {(uuid, disk.uuid): state for disk, state in zip(disks, answer.value or (), strict=False)}
        return reported

    def _describe(self, snapshot: states.Snapshot, vm: instance.Instance, seen: Seen) -> dict[str, object]:
        primary, running = snapshot.nodes[vm.primary_node], seen.running.get(vm.primary_node)
        secondaries = [snapshot.nodes[uuid] for uuid in vm.secondary_nodes]
        whole = fill.fill(snapshot, vm)
        return {
            "name": vm.name,
            "uuid": vm.uuid,
            "serial_no": vm.serial_no,
            "ctime": vm.ctime,
            "mtime": vm.mtime,
            "tags": list(vm.tags),
            "config_state": vm.admin_state.value,
            "run_state": None if running is None else ("up" if vm.name in running else "down"),
            "accelerator": (running or {}).get(vm.name, ""),
            "pnode": primary.name,
            "pnode_group_uuid": primary.group,
            "pnode_group_name": snapshot.nodegroups[primary.group].name,
            "snodes": [node.name for node in secondaries],
            "snodes_group_uuids": [node.group for node in secondaries],
            "snodes_group_names": [snapshot.nodegroups[node.group].name for node in secondaries],
            "os": vm.os,
            "hypervisor": vm.hypervisor,
            "network_port": vm.network_port or None,
            "hv_instance": vm.hvparams,
            "hv_actual": whole.hvparams,
            "be_instance": vm.beparams,
            "be_actual": whole.beparams,
            "os_instance": confidential.own_public(vm),
            "os_actual": confidential.filled_public(snapshot.the_cluster, vm),
            "nics": [_describe_nic(nic) for nic in whole.nics],
            "disk_template": vm.disk_template,
            "disks": [
                _describe_disk(snapshot, vm, index, disk, seen=seen.disks) for index, disk in enumerate(vm.disks)
            ],
        }

    def plan(self, snapshot: states.Snapshot, facts: dict[str, dict[str, object]]) -> base.Plan:
        """Change nothing; the result is the description."""
        return base.Plan(result=lambda: facts)


def _describe_nic(nic: calls.Nic) -> list[object]:
    """Return the nine elements that clients know; the addresses are a list.

    See contracts/networks.md#several-addresses-of-a-nic.
    """
    net, info = nic.network, None
    if net:
        info = {
            "name": net.name,
            "subnets": [{"cidr": address.subnet, "gateway": address.gateway} for address in nic.addresses],
        }
    addresses = [address.ip for address in nic.addresses]
    plug = [nic.mode, nic.link, nic.vlan, net.uuid if net else None]
    return [nic.name or None, nic.uuid, addresses, nic.mac, *plug, info]


def _describe_disk(
    snapshot: states.Snapshot, vm: instance.Instance, index: int, disk: instance.Disk, *, seen: States
) -> dict[str, object]:
    second = next(iter(vm.secondary_nodes), "")
    return {
        "iv_name": f"disk/{index}",
        "dev_type": disk.dev_type,
        "logical_id": list(disk.logical_id) if disk.mirror is None else _mirror_id(vm, disk.mirror),
        "size": disk.size,
        "mode": disk.mode,
        "name": disk.name or None,
        "uuid": disk.uuid,
        "spindles": None,
        "children": [_describe_disk(snapshot, vm, index, child, seen={}) for child in disk.children],
        "drbd_info": _mirror_info(snapshot, vm, disk.mirror) if disk.mirror else None,
        "pstatus": _status(seen.get((vm.primary_node, disk.uuid)), disk.mirror, vm.primary_node),
        "sstatus": _status(seen.get((second, disk.uuid)), disk.mirror, second),
    }


def _mirror_id(vm: instance.Instance, mirror: instance.Mirror) -> list[object]:
    """Return the id that clients know, without the secret (contracts/configuration.md#disk-identifiers)."""
    nodes = (vm.primary_node, *(uuid for uuid in mirror.minors if uuid != vm.primary_node))
    return [*nodes, mirror.port, *(mirror.minors[uuid] for uuid in nodes), ""]


def _mirror_info(snapshot: states.Snapshot, vm: instance.Instance, mirror: instance.Mirror) -> dict[str, object]:
    second = next((uuid for uuid in mirror.minors if uuid != vm.primary_node), "")
    return {
        "primary_node": snapshot.nodes[vm.primary_node].name,
        "primary_minor": mirror.minors[vm.primary_node],
        "secondary_node": snapshot.nodes[second].name if second else None,
        "secondary_minor": mirror.minors.get(second),
        "port": mirror.port,
    }


def _status(state: calls.DiskState | None, mirror: instance.Mirror | None, node: str) -> Sequence[object] | None:
    """Return the seven elements that clients know: path, major, minor, percent, seconds, degraded, the data's state."""
    if state is None:
        return None
    numbers = [DRBD_MAJOR, mirror.minors[node]] if mirror else [None, None]
    local = state.problem or state.local or ("ok" if state.active else "not active")
    return [state.path, *numbers, state.sync_percent, state.sync_seconds, state.degraded, local]
