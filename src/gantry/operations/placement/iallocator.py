"""What is said to an allocator program and what it answers (contracts/iallocator.md#request). Pure.

A request is one JSON document: the cluster, its groups, nodes and instances, and what is asked for. The answer is one
too: ``success``, ``info`` and ``result``. ``node_choice`` asks the nodes for what only they know and runs the program.
Sizes are MiB. An answer that is not of this form, or names what is not there, is refused with what is wrong about it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.model import cluster, instance, opcodes, parameters, policy, templates
from gantry.operations import fill
from gantry.rpc import calls
from gantry.state import snapshot as states

VERSION = 2

Json = dict[str, object]


def document(state: states.Snapshot, live: Mapping[str, calls.NodeStatus | None], asked: Json) -> bytes:
    """Return a whole request; ``live`` is what the nodes say, by UUID, ``asked`` is from one of the functions below."""
    owner = state.the_cluster
    return msgspec.json.encode(
        {
            "version": VERSION,
            "cluster_name": owner.name,
            "cluster_tags": list(owner.tags),
            "enabled_hypervisors": list(owner.enabled_hypervisors),
            "ipolicy": _policy(policy.filled(owner.ipolicy)),
            "nodegroups": {uuid: _group(state, group) for uuid, group in state.nodegroups.items()},
            "nodes": {node.name: _node(state, node, live.get(uuid)) for uuid, node in state.nodes.items()},
            "instances": {vm.name: _instance(state, vm) for vm in state.instances.values()},
            "request": asked,
        }
    )


def _policy(holds: cluster.Policy) -> Json:
    return {
        "minmax": [{"min": bounds.min, "max": bounds.max} for bounds in holds.minmax],
        "std": holds.std,
        "disk-templates": list(holds.disk_templates),
        "vcpu-ratio": holds.vcpu_ratio,
        "spindle-ratio": holds.spindle_ratio,
    }


def _group(state: states.Snapshot, group: cluster.NodeGroup) -> Json:
    return {
        "name": group.name,
        "alloc_policy": group.alloc_policy.value,
        "networks": list(group.networks),
        "ipolicy": _policy(policy.filled(state.the_cluster.ipolicy, group.ipolicy)),
        "tags": list(group.tags),
    }


def _node(state: states.Snapshot, node: cluster.Node, status: calls.NodeStatus | None) -> Json:
    ndparams = parameters.fill_node(state.the_cluster, state.nodegroups.get(node.group), node)
    static: Json = {
        "tags": list(node.tags),
        "primary_ip": node.primary_ip,
        "secondary_ip": node.secondary_ip or node.primary_ip,
        # One that is asked in vain has no room that anybody could tell of.
        "offline": node.offline or (node.vm_capable and status is None),
        "drained": node.drained,
        "master_candidate": node.master_candidate,
        "group": node.group,
        "master_capable": node.master_capable,
        "vm_capable": node.vm_capable,
        "ndparams": ndparams,
        "hv_state": {},
    }
    if node.offline or not node.vm_capable or status is None:
        return static
    backends = [
        (vm, parameters.fill_backend(state.the_cluster, vm))
        for vm in (state.instances[uuid] for uuid in state.on_node.get(node.uuid) or ())
    ]
    up = [backend for vm, backend in backends if vm.admin_state is instance.AdminState.UP]
    storage = max(status.storage, key=lambda one: one.free, default=None)
    return static | {
        "total_memory": status.memory_total,
        "reserved_memory": status.memory_node,
        "free_memory": status.memory_free,
        "total_disk": storage.total if storage else 0,
        "free_disk": storage.free if storage else 0,
        "total_spindles": ndparams["spindle_count"],
        "free_spindles": ndparams["spindle_count"],
        "total_cpus": status.cpu_total,
        "reserved_cpus": status.cpu_node,
        "i_pri_memory": sum(int(backend["maxmem"]) for _, backend in backends),
        "i_pri_up_memory": sum(int(backend["maxmem"]) for backend in up),
    }


def _space(template: str, sizes: Sequence[int]) -> int:
    """Return what the disks of an instance take on a node."""
    return sum(sizes) + (templates.META_SIZE * len(sizes) if template == "drbd" else 0)


def shape(state: states.Snapshot, vm: instance.Instance) -> Json:
    """Return what is told of an instance, and asked for a new one."""
    backend = parameters.fill_backend(state.the_cluster, vm)
    plugs = [fill.fill_nic(state.the_cluster, index, nic, net=None) for index, nic in enumerate(vm.nics)]
    return {
        "tags": list(vm.tags),
        "vcpus": backend["vcpus"],
        "memory": backend["maxmem"],
        "spindle_use": backend["spindle_use"],
        "os": vm.os,
        "nics": [
            {
                "mac": nic.mac,
                "ip": nic.ip[0] if nic.ip else None,
                "mode": plug.mode,
                "link": plug.link,
                "bridge": plug.link if plug.mode == "bridged" else None,
                "network": nic.network or None,
            }
            for nic, plug in zip(vm.nics, plugs, strict=True)
        ],
        "disks": [
            {"dev_type": disk.dev_type, "size": disk.size, "mode": disk.mode, "spindles": None} for disk in vm.disks
        ],
        "disk_template": vm.disk_template,
        "hypervisor": vm.hypervisor,
        "disk_space_total": _space(vm.disk_template, [disk.size for disk in vm.disks]),
    }


def _instance(state: states.Snapshot, vm: instance.Instance) -> Json:
    names = [state.nodes[uuid].name for uuid in vm.nodes]
    active = vm.admin_state is instance.AdminState.UP
    return shape(state, vm) | {"admin_state": vm.admin_state.value, "nodes": names, "disks_active": active}


def allocate(
    state: states.Snapshot, vm: instance.Instance, *, mirrored: bool = False, group: str | None = None
) -> Json:
    """Ask for the nodes of an instance to be: one, or two where its disks are ``mirrored``."""
    more: Json = {"group_name": group} if group else {"group_name": None}
    return shape(state, vm) | more | {"type": "allocate", "name": vm.name, "required_nodes": 2 if mirrored else 1}


def allocate_many(state: states.Snapshot, vms: Sequence[instance.Instance], *, mirrored: bool = False) -> Json:
    """Ask for the nodes of several instances to be."""
    return {"type": "multi-allocate", "instances": [allocate(state, vm, mirrored=mirrored) for vm in vms]}


def relocate(vm: instance.Instance, *, leaves: Sequence[str]) -> Json:
    """Ask for a node in the place of those, by name, that an instance ``leaves``."""
    space = _space(vm.disk_template, [disk.size for disk in vm.disks])
    return {
        "type": "relocate",
        "name": vm.name,
        "disk_space_total": space,
        "required_nodes": 1,
        "relocate_from": list(leaves),
    }


def evacuate(names: Sequence[str], *, mode: str) -> Json:
    """Ask how instances leave their node; ``mode`` is that of the opcode."""
    return {"type": "node-evacuate", "instances": list(names), "evac_mode": mode}


def change_group(names: Sequence[str], *, groups: Sequence[str]) -> Json:
    """Ask how instances come to one of several node groups (UUIDs)."""
    return {"type": "change-group", "instances": list(names), "target_groups": list(groups)}


class _Answer(msgspec.Struct):
    success: bool
    info: str = ""
    result: msgspec.Raw = msgspec.Raw()
    nodes: msgspec.Raw = msgspec.Raw()


class _Move(msgspec.Struct, array_like=True):
    instance: str
    group: str
    nodes: tuple[str, ...] = ()


class _Stay(msgspec.Struct, array_like=True):
    instance: str
    why: str


class _Moves(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    moved: list[_Move]
    failed: list[_Stay]
    jobs: list[list[Json]]


@dataclass(frozen=True)
class Moves:
    """What brings instances elsewhere: jobs of opcodes, why some stay, and what is said of the others."""

    jobs: Sequence[Sequence[opcodes.AnyOpcode]]
    stay: Mapping[str, str]
    lines: Sequence[str]


def _result(raw: bytes, *, program: str) -> tuple[bytes, str]:
    """Return the result of an answer and what is said with it; raises NoRoomError for a refusal."""
    try:
        answer = msgspec.json.decode(raw, type=_Answer)
    except msgspec.MsgspecError as error:
        raise _bad(program, str(error), raw) from None
    if not answer.success:
        raise errors.NoRoomError(f"allocator {program} finds no place: {answer.info or 'it does not say why'}")
    found = bytes(answer.result) or bytes(answer.nodes)
    if not found:
        raise _bad(program, "it has no result", raw)
    return found, answer.info


def _bad(program: str, why: str, raw: bytes) -> errors.EnvironmentFaultError:
    shown = " ".join(raw[:200].decode(errors="replace").split())
    return errors.EnvironmentFaultError(
        f"what allocator {program} answers cannot be used: {why}", hint=f"it begins with: {shown or 'nothing'}"
    )


def nodes(
    raw: bytes, state: states.Snapshot, *, program: str, count: int, but: Collection[str] = ()
) -> tuple[list[cluster.Node], str]:
    """Return the nodes that an answer names, and what is said with it; ``but`` are UUIDs that it may not name."""
    result, info = _result(raw, program=program)
    try:
        names = msgspec.json.decode(result, type=list[str])
        found = [state.node(name) for name in names]
    except msgspec.MsgspecError as error:
        raise _bad(program, str(error), raw) from None
    except errors.NotFoundError as error:
        raise _bad(program, error.message, raw) from None
    if len(found) != count or len({node.uuid for node in found}) != count:
        raise _bad(program, f"{count} nodes were asked for, it names {len(found)}", raw)
    if wrong := [node.name for node in found if node.uuid in but]:
        raise _bad(program, f"{wrong[0]} is a node that the instance has already", raw)
    return found, info


def moves(raw: bytes, *, program: str) -> Moves:
    """Return the jobs of an answer to ``evacuate`` or ``change_group``."""
    result, info = _result(raw, program=program)
    try:
        found = msgspec.json.decode(result, type=_Moves)
        jobs = [[opcodes.decode(op) for op in job] for job in found.jobs]
    except msgspec.MsgspecError as error:
        raise _bad(program, str(error), raw) from None
    except errors.InvalidError as error:
        raise _bad(program, error.message, raw) from None
    lines = [f"{one.instance} goes to {', '.join(one.nodes)}" for one in found.moved]
    return Moves(jobs, {one.instance: one.why for one in found.failed}, [f"allocator {program}: {info}", *lines])
