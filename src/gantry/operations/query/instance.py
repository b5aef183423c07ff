"""Getters of the instance fields."""

from collections.abc import Callable

import msgspec

from gantry.model import cluster, confidential, fields, instance, parameters
from gantry.operations import fill
from gantry.operations.query import cells

Nic = instance.Nic
NicGetter = Callable[[cells.Context, Nic], cells.Cell]


def status(context: cells.Context, vm: instance.Instance) -> cells.Cell:
    """Return an instance's state compared with its admin state (contracts/query.md#instance-status)."""
    node = context.state.nodes[vm.primary_node]
    running = context.live.running.get(vm.name)
    up = vm.admin_state is instance.AdminState.UP
    if running is not None:
        if running[0] != vm.primary_node:
            return "ERROR_wrongnode"
        return "running" if up else "ERROR_up"
    if node.offline:
        return "ERROR_nodeoffline"
    if node.uuid in context.live.silent:
        return "ERROR_nodedown"
    if up:
        return "USER_down" if vm.uuid in context.live.switched_off else "ERROR_down"
    return "ADMIN_offline" if vm.admin_state is instance.AdminState.OFFLINE else "ADMIN_down"


def _oper_state(context: cells.Context, vm: instance.Instance) -> cells.Cell:
    return _silence(context, vm) or vm.name in context.live.running


def _silence(context: cells.Context, vm: instance.Instance) -> cells.Missing | None:
    return context.live.silent.get(vm.primary_node)


def _oper_ram(context: cells.Context, vm: instance.Instance) -> cells.Cell:
    running = context.live.running.get(vm.name)
    return running[1].memory if running else _silence(context, vm) or cells.Missing.UNAVAILABLE


def _oper_vcpus(context: cells.Context, vm: instance.Instance) -> cells.Cell:
    running = context.live.running.get(vm.name)
    return running[1].vcpus if running else _silence(context, vm) or cells.Missing.UNAVAILABLE


def _console(context: cells.Context, vm: instance.Instance) -> cells.Cell:
    console = context.live.consoles.get(vm.name)
    return msgspec.to_builtins(console) if console else _silence(context, vm) or cells.Missing.UNAVAILABLE


def _primary(read: Callable[[cells.Context, cluster.Node], cells.Cell]) -> cells.Getter[instance.Instance]:
    return lambda context, vm: read(context, context.state.nodes[vm.primary_node])


def _secondary(read: Callable[[cells.Context, cluster.Node], cells.Cell]) -> cells.Getter[instance.Instance]:
    return lambda context, vm: [read(context, context.state.nodes[uuid]) for uuid in vm.secondary_nodes]


def _group_name(context: cells.Context, node: cluster.Node) -> cells.Cell:
    group = context.state.nodegroups.get(node.group)
    return group.name if group else cells.Missing.UNAVAILABLE


def nic_parameters(context: cells.Context, nic: Nic) -> dict[str, object]:
    """Return a NIC's filled mode, link and VLAN."""
    filled = parameters.fill_nic(context.state.the_cluster, nic)
    return {**filled, "vlan": fill.vlan_of(context.state.networks.get(nic.network), str(filled["vlan"]))}


def _bridge(context: cells.Context, nic: Nic) -> cells.Cell:
    plug, net = nic_parameters(context, nic), context.state.networks.get(nic.network)
    tunnelled = net is not None and net.segment is not None and net.segment.network_type != "vlan"
    return plug["link"] if plug["mode"] == "bridged" and not tunnelled else None


def _network_name(context: cells.Context, nic: Nic) -> cells.Cell:
    net = context.state.networks.get(nic.network) if nic.network else None
    return net.name if net else None


_NIC: dict[str, tuple[str, NicGetter]] = {
    "mac": ("nic.macs", lambda _, nic: nic.mac),
    "ip": ("nic.ips", lambda _, nic: list(nic.ip)),
    "name": ("nic.names", lambda _, nic: nic.name or None),
    "uuid": ("nic.uuids", lambda _, nic: nic.uuid),
    "mode": ("nic.modes", lambda context, nic: nic_parameters(context, nic)["mode"]),
    "link": ("nic.links", lambda context, nic: nic_parameters(context, nic)["link"]),
    "vlan": ("nic.vlans", lambda context, nic: nic_parameters(context, nic)["vlan"] or None),
    "bridge": ("nic.bridges", _bridge),
    "network": ("nic.networks", lambda _, nic: nic.network or None),
    "network.name": ("nic.networks.names", _network_name),
}

_DISK: dict[str, tuple[str, Callable[[instance.Disk], cells.Cell]]] = {
    "size": ("disk.sizes", lambda disk: disk.size),
    "spindles": ("disk.spindles", lambda _: None),
    "name": ("disk.names", lambda disk: disk.name or None),
    "uuid": ("disk.uuids", lambda disk: disk.uuid),
}


def _nth_nic(read: NicGetter, index: int) -> cells.Getter[instance.Instance]:
    def get(context: cells.Context, vm: instance.Instance) -> cells.Cell:
        return cells.or_none(read(context, vm.nics[index])) if index < len(vm.nics) else cells.Missing.UNAVAILABLE

    return get


def _nth_disk(read: Callable[[instance.Disk], cells.Cell], index: int) -> cells.Getter[instance.Instance]:
    return lambda _, vm: cells.or_none(read(vm.disks[index])) if index < len(vm.disks) else cells.Missing.UNAVAILABLE


def _every_nic(read: NicGetter) -> cells.Getter[instance.Instance]:
    return lambda context, vm: [read(context, nic) for nic in vm.nics]


def _every_disk(read: Callable[[instance.Disk], cells.Cell]) -> cells.Getter[instance.Instance]:
    return lambda _, vm: [read(disk) for disk in vm.disks]


def _first_address(_: cells.Context, nic: Nic) -> cells.Cell:
    return nic.ip[0] if nic.ip else None


def _devices() -> dict[str, cells.Getter[instance.Instance]]:
    getters: dict[str, cells.Getter[instance.Instance]] = {}
    for key, (listed, read) in _NIC.items():
        getters[listed] = _every_nic(read)
        getters |= {f"nic.{key}/{i}": _nth_nic(read, i) for i in range(fields.NICS)}
    for key, (listed, of_disk) in _DISK.items():
        getters[listed] = _every_disk(of_disk)
        getters |= {f"disk.{key}/{i}": _nth_disk(of_disk, i) for i in range(fields.DISKS)}
    return getters


def _hypervisor_parameter(name: str) -> cells.Getter[instance.Instance]:
    def get(context: cells.Context, vm: instance.Instance) -> cells.Cell:
        filled = parameters.fill_hypervisor(context.state.the_cluster, vm)
        return filled.get(name, cells.Missing.UNAVAILABLE)

    return get


def _backend_parameter(name: str) -> cells.Getter[instance.Instance]:
    return lambda context, vm: parameters.fill_backend(context.state.the_cluster, vm)[name]


_HV_NAMES = sorted({name for known in parameters.HYPERVISORS.values() for name in known})

GETTERS: dict[str, cells.Getter[instance.Instance]] = {
    "name": lambda _, vm: vm.name,
    "admin_state": lambda _, vm: vm.admin_state.value,
    "admin_state_source": lambda *_: "admin",
    "disks_active": lambda _, vm: vm.admin_state is instance.AdminState.UP,
    "forthcoming": lambda *_: False,
    "admin_up": lambda _, vm: vm.admin_state is instance.AdminState.UP,
    "hypervisor": lambda _, vm: vm.hypervisor,
    "os": lambda _, vm: vm.os,
    "pnode": _primary(lambda _, node: node.name),
    "pnode.group": _primary(_group_name),
    "pnode.group.uuid": _primary(lambda _, node: cells.or_none(node.group)),
    "project": lambda _, vm: vm.project,
    "snodes": lambda context, vm: [context.state.nodes[uuid].name for uuid in vm.secondary_nodes],
    "snodes.group": _secondary(_group_name),
    "snodes.group.uuid": _secondary(lambda _, node: node.group),
    "disk_template": lambda _, vm: vm.disk_template,
    "disk_usage": lambda _, vm: sum(disk.size for disk in vm.disks),
    "network_port": lambda _, vm: cells.or_none(vm.network_port or None),
    "hvparams": lambda context, vm: parameters.fill_hypervisor(context.state.the_cluster, vm),
    "beparams": lambda context, vm: parameters.fill_backend(context.state.the_cluster, vm),
    "osparams": lambda context, vm: confidential.filled_public(context.state.the_cluster, vm),
    "custom_hvparams": lambda _, vm: vm.hvparams,
    "custom_beparams": lambda _, vm: vm.beparams,
    "custom_osparams": lambda _, vm: confidential.own_public(vm),
    "custom_nicparams": lambda _, vm: [nic.nicparams for nic in vm.nics],
    "be/memory": _backend_parameter("maxmem"),
    "vcpus": _backend_parameter("vcpus"),
    "disk.count": lambda _, vm: len(vm.disks),
    "sda_size": _nth_disk(_DISK["size"][1], 0),
    "sdb_size": _nth_disk(_DISK["size"][1], 1),
    "nic.count": lambda _, vm: len(vm.nics),
    "ip": _nth_nic(_first_address, 0),
    "mac": _nth_nic(_NIC["mac"][1], 0),
    "bridge": _nth_nic(_bridge, 0),
    "nic_mode": _nth_nic(_NIC["mode"][1], 0),
    "nic_link": _nth_nic(_NIC["link"][1], 0),
    "nic_network": _nth_nic(_NIC["network"][1], 0),
    "status": status,
    "oper_state": _oper_state,
    "oper_ram": _oper_ram,
    "oper_vcpus": _oper_vcpus,
    "console": _console,
    **{f"be/{name}": _backend_parameter(name) for name in parameters.BACKEND},
    **{f"hv/{name}": _hypervisor_parameter(name) for name in _HV_NAMES},
    **_devices(),
}
