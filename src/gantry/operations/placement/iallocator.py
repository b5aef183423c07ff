"""Requests to allocator programs, and their answers (contracts/iallocator.md#request). Pure.

A request is one JSON document: the cluster, its groups, nodes and instances, and the request proper. The answer is also
one document: ``success``, ``info``, ``result``. ``node_choice`` asks the nodes for their status and runs the program.
Sizes are MiB. An answer that is not of this form, or names unknown objects, is refused with the reason.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.model import cluster, instance, opcodes, parameters, policy, templates
from gantry.operations import fill
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

VERSION = 2

Json = dict[str, object]


def document(state: states.Snapshot, live: Mapping[str, calls.NodeStatus | None], request: Json) -> bytes:
    """Return a whole document; ``live`` is the nodes' status by UUID, ``request`` is from a function below."""
    the_cluster = state.the_cluster
    return msgspec.json.encode(
        {
            "version": VERSION,
            "cluster_name": the_cluster.name,
            "cluster_tags": list(the_cluster.tags),
            "enabled_hypervisors": list(the_cluster.enabled_hypervisors),
            "ipolicy": _policy(policy.filled(the_cluster.ipolicy)),
            "nodegroups": {uuid: _group(state, group) for uuid, group in state.nodegroups.items()},
            "nodes": {node.name: _node(state, node, live.get(uuid)) for uuid, node in state.nodes.items()},
            "instances": {vm.name: _instance(state, vm) for vm in state.instances.values()},
            "request": request,
        }
    )


def _policy(filled: cluster.Policy) -> Json:
    return {
        "minmax": [{"min": bounds.min, "max": bounds.max} for bounds in filled.minmax],
        "std": filled.std,
        "disk-templates": list(filled.disk_templates),
        "vcpu-ratio": filled.vcpu_ratio,
        "spindle-ratio": filled.spindle_ratio,
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
        # A node that does not answer has no known free space.
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
    storage = max(status.storage, key=lambda unit: unit.free, default=None)
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
    """Return the disk space that the disks of an instance take on a node, in MiB."""
    return sum(sizes) + (templates.META_SIZE * len(sizes) if template == "drbd" else 0)


def shape(state: states.Snapshot, vm: instance.Instance) -> Json:
    """Return the description of an instance, existing or requested."""
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
    """Request the nodes for a new instance: one, or two if its disks are ``mirrored``."""
    more: Json = {"group_name": group} if group else {"group_name": None}
    return shape(state, vm) | more | {"type": "allocate", "name": vm.name, "required_nodes": 2 if mirrored else 1}


def allocate_many(state: states.Snapshot, vms: Sequence[instance.Instance], *, mirrored: bool = False) -> Json:
    """Request the nodes for several new instances."""
    return {"type": "multi-allocate", "instances": [allocate(state, vm, mirrored=mirrored) for vm in vms]}


def relocate(vm: instance.Instance, *, leaves: Sequence[str]) -> Json:
    """Request a node that replaces those, by name, that an instance ``leaves``."""
    space = _space(vm.disk_template, [disk.size for disk in vm.disks])
    return {
        "type": "relocate",
        "name": vm.name,
        "disk_space_total": space,
        "required_nodes": 1,
        "relocate_from": list(leaves),
    }


def evacuate(names: Sequence[str], *, mode: str) -> Json:
    """Request the moves of instances away from their node; ``mode`` is that of the opcode."""
    return {"type": "node-evacuate", "instances": list(names), "evac_mode": mode}


def change_group(names: Sequence[str], *, groups: Sequence[str]) -> Json:
    """Request the moves of instances to one of several node groups (UUIDs)."""
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
    """Moves of instances: jobs of opcodes, the instances that stay with the reason, and lines for the log."""

    jobs: Sequence[Sequence[opcodes.AnyOpcode]]
    stay: Mapping[str, str]
    lines: Sequence[str]


def _result(raw: bytes, *, program: str) -> tuple[bytes, str]:
    """Return the result of an answer and its ``info``; raises NoRoomError for a refusal."""
    try:
        answer = msgspec.json.decode(raw, type=_Answer)
    except msgspec.MsgspecError as error:
        raise _bad(program, errors.readable(str(error)), raw) from None
    if not answer.success:
        raise errors.NoRoomError(f"allocator {program} found no node: {answer.info or 'without a reason'}")
    result = bytes(answer.result) or bytes(answer.nodes)
    if not result:
        raise _bad(program, "it has no result", raw)
    return result, answer.info


def _bad(program: str, reason: str, raw: bytes) -> errors.EnvironmentFaultError:
    beginning = " ".join(raw[:200].decode(errors="replace").split())
    return errors.EnvironmentFaultError(
        f"the answer of allocator {program} is invalid: {reason}", hint=f"it begins with: {beginning or 'nothing'}"
    )


def nodes(
    raw: bytes, state: states.Snapshot, *, program: str, count: int, excluded: Collection[str] = ()
) -> tuple[list[cluster.Node], str]:
    """Return the nodes in an answer, and its ``info``; ``excluded`` are UUIDs that it may not contain."""
    result, info = _result(raw, program=program)
    try:
        names = msgspec.json.decode(result, type=list[str])
        chosen = [state.node(name) for name in names]
    except msgspec.MsgspecError as error:
        raise _bad(program, errors.readable(str(error)), raw) from None
    except errors.NotFoundError as error:
        raise _bad(program, error.message, raw) from None
    if len(chosen) != count or len({node.uuid for node in chosen}) != count:
        raise _bad(program, f"{count} nodes were requested, it names {len(chosen)}", raw)
    if refused := [node.name for node in chosen if node.uuid in excluded]:
        raise _bad(program, f"the instance already has node {refused[0]}", raw)
    return chosen, info


def moves(raw: bytes, *, program: str) -> Moves:
    """Return the jobs of an answer to ``evacuate`` or ``change_group``."""
    result, info = _result(raw, program=program)
    try:
        answer = msgspec.json.decode(result, type=_Moves)
        jobs = [[opcodes.decode(op) for op in job] for job in answer.jobs]
    except msgspec.MsgspecError as error:
        raise _bad(program, errors.readable(str(error)), raw) from None
    except errors.InvalidError as error:
        raise _bad(program, error.message, raw) from None
    lines = [f"{move.instance} goes to {', '.join(move.nodes)}" for move in answer.moved]
    return Moves(jobs, {stay.instance: stay.why for stay in answer.failed}, [f"allocator {program}: {info}", *lines])
