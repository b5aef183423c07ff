"""The ``info`` commands: what the master says of an object, under the key words that scripts look for.

Each function turns one answer (contracts/commands.md#fixed-outputs, contracts/commands.md#instance-data) into a
document for ``output``. What an answer does not have is left out or shown as null; nothing here fails on it.
"""

from collections.abc import Mapping, Sequence

from gantry.cli.output import documents, tables

Record = Mapping[str, object]
MAP_WIDTH = 64
MAP_LIMIT = 4096
"""Addresses; of a larger pool the runs of reserved ones are shown, and no map."""


def _record(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else []


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _given(document: Record) -> dict[str, object]:
    """Leave out what the answer did not have."""
    return {key: value for key, value in document.items() if value is not None and value != ""}


def _filled(actual: object, own: object) -> dict[str, object]:
    """Show parameters by name, each that was not set here as its default."""
    values, set_here = _record(actual), _record(own)
    return {
        name: value if name in set_here else documents.Verbatim(f"default ({value})")
        for name, value in sorted(values.items())
    }


def instance(found: Record) -> Record:
    """Describe an instance."""
    return {
        "Instance name": found.get("name"),
        "UUID": found.get("uuid"),
        "Serial number": found.get("serial_no"),
        "Creation time": documents.moment(found.get("ctime")),
        "Modification time": documents.moment(found.get("mtime")),
        "State": f"configured to be {found.get('config_state')}" + _actual_state(found.get("run_state")),
        "Nodes": [
            {"primary": found.get("pnode"), "group": _group(found)},
            {"secondaries": _list(found.get("snodes"))},
        ],
        "Operating system": found.get("os"),
        "Operating system parameters": _filled(found.get("os_actual"), found.get("os_instance")),
        **_given({"Allocated network port": found.get("network_port")}),
        "Hypervisor": found.get("hypervisor"),
        **_given({"accelerator": found.get("accelerator"), "console connection": found.get("console")}),
        "Hypervisor parameters": _filled(found.get("hv_actual"), found.get("hv_instance")),
        "Back-end parameters": _filled(found.get("be_actual"), found.get("be_instance")),
        "NICs": [_nic(index, _list(one)) for index, one in enumerate(_list(found.get("nics")))],
        "Disk template": found.get("disk_template"),
        "Disks": [_disk(index, _record(one)) for index, one in enumerate(_list(found.get("disks")))],
    }


def _actual_state(state: object) -> str:
    return f", actual state is {state}" if state else ""


def _group(found: Record) -> str:
    return f"{found.get('pnode_group_name')} (UUID {found.get('pnode_group_uuid')})"


NIC_KEYS = ("name", "UUID", "IP", "MAC", "mode", "link", "vlan", "network")
"""The order of a NIC's values in the answer; behind them comes what the network is."""


def _nic(index: int, values: Sequence[object]) -> Record:
    found = dict(zip(NIC_KEYS, values, strict=False))
    name = _record(values[8]).get("name") if len(values) > 8 else None
    found["network"] = name or found.get("network")
    return {f"nic/{index}": found.pop("name", None) or "", **_given(found)}


def _disk(index: int, found: Record) -> Record:
    size = tables.unit(_number(found.get("size")), "h")
    mirror = _record(found.get("drbd_info"))
    return {
        f"disk/{index}": f"{found.get('dev_type')}, size {size}",
        **_given(
            {
                "access mode": found.get("mode"),
                **_mirror(mirror, plain=_list(found.get("logical_id"))),
                "on primary": _side(_list(found.get("pstatus"))),
                "on secondary": _side(_list(found.get("sstatus"))),
                "name": found.get("name"),
                "UUID": found.get("uuid"),
            }
        ),
        **(
            {"child devices": [_disk(i, _record(c)) for i, c in enumerate(_list(found["children"]))]}
            if found.get("children")
            else {}
        ),
    }


def _mirror(found: Record, *, plain: Sequence[object]) -> Record:
    """Return where a disk is: its id, or both ends of a mirrored one."""
    if not found:
        return {"logical_id": plain}
    ends = {
        side: f"{found.get(f'{side}_node')}, minor={found.get(f'{side}_minor')}" for side in ("primary", "secondary")
    }
    return {"node A": ends["primary"], "node B": ends["secondary"], "port": found.get("port")}


def _side(status: Sequence[object]) -> str | None:
    """Return what a node says of a disk."""
    if len(status) < 7:
        return None
    path, _, _, percent, seconds, degraded, local = status
    parts = [str(path), str(local)] + (["degraded"] if degraded else [])
    if percent is not None:
        parts.append(
            f"synchronised to {_number(percent):.1f} %" + (f", {seconds} s left" if seconds is not None else "")
        )
    return ", ".join(parts)


NODE_FIELDS = {
    "name": "Node name",
    "pip": "primary ip",
    "sip": "secondary ip",
    "role": "role",
    "master_candidate": "master candidate",
    "drained": "drained",
    "offline": "offline",
    "master_capable": "master_capable",
    "vm_capable": "vm_capable",
    "group": "node group",
    "pinst_list": "primary for instances",
    "sinst_list": "secondary for instances",
    "detached_disks": "disks without an instance",
    "ndparams": "node parameters",
    "custom_ndparams": "own node parameters",
    "accelerator": "accelerator",
    "accelerator_reason": "accelerator reason",
    "uuid": "UUID",
}
"""Field to the key word of ``gnt-node info``."""


def node(found: Record) -> Record:
    """Describe a node."""
    return {word: found[field] for field, word in NODE_FIELDS.items() if field in found}


GROUP_FIELDS = {
    "name": "Group name",
    "uuid": "UUID",
    "serial_no": "Serial number",
    "alloc_policy": "allocation policy",
    "node_list": "nodes",
    "pinst_list": "instances",
    "ndparams": "node parameters",
    "custom_ndparams": "own node parameters",
    "diskparams": "disk parameters",
    "custom_diskparams": "own disk parameters",
    "ipolicy": "instance policy",
    "custom_ipolicy": "own instance policy",
    "tags": "Tags",
}
"""Field to the key word of ``gnt-group info``."""


def group(found: Record) -> Record:
    """Describe a node group."""
    return {word: found[field] for field, word in GROUP_FIELDS.items() if field in found}


NETWORK_FIELDS = (
    *("name", "uuid", "serial_no", "network", "gateway", "network6", "gateway6", "mac_prefix", "free_count"),
    *("reserved_count", "utilization", "map", "external_reservations", "group_list", "inst_list", "address_list"),
    *("port_list", "subnets", "tags", "network_type", "physical_network", "segment", "project"),
)


SEGMENT = {
    "Network type": "network_type",
    "Physical network": "physical_network",
    "Segment": "segment",
    "Project": "project",
}


def network(found: Record) -> Record:
    """Describe a network."""
    held = [_list(row) for row in _list(found.get("address_list"))]
    users = _users(_list(found.get("inst_list")), held)
    free, reserved = _number(found.get("free_count")), _number(found.get("reserved_count"))
    size = free + reserved
    return {
        "Network name": found.get("name"),
        "UUID": found.get("uuid"),
        "Serial number": found.get("serial_no"),
        "Subnet": found.get("network"),
        "Gateway": found.get("gateway"),
        "IPv6 Subnet": found.get("network6"),
        "IPv6 Gateway": found.get("gateway6"),
        "Mac Prefix": found.get("mac_prefix"),
        **_given({title: found.get(name) for title, name in SEGMENT.items()}),
        "Size": size,
        "Free": documents.Verbatim(f"{free} ({100 * free / size:.2f}%)" if size else "0"),
        **_given({"Utilization": _percent(found.get("utilization"))}),
        "Usage map": _map(found.get("map")),
        "externally reserved IPs": _texts(found.get("external_reservations")),
        "Subnets": [_subnet(_record(one)) for one in _list(found.get("subnets"))],
        "connected to node groups": [_connection(_list(one)) for one in _list(found.get("group_list"))],
        f"used by {len(users)} instances": users,
        "addresses in use": {str(address): f"{name}, {_end(index)}" for address, name, index in held},
        **_given({"ports": _ports(_list(found.get("port_list"))) or None}),
        "Tags": found.get("tags"),
    }


def _users(names: Sequence[object], held: Sequence[Sequence[object]]) -> dict[str, list[str]]:
    """Return the instances, each with the addresses of its NICs as ``index of the NIC:address,address``.

    Behind ``guest:`` stand those that only the running guest still has.
    """
    nics: dict[str, dict[object, list[str]]] = {str(name): {} for name in names}
    for address, name, index in held:
        nics.setdefault(str(name), {}).setdefault(index, []).append(str(address))
    return {
        name: [f"{'guest' if index is None else index}:{','.join(of[index])}" for index in sorted(of, key=_order)]
        for name, of in nics.items()
    }


def _ports(listed: Sequence[object]) -> list[Record]:
    """Describe the ports in a network, each by the name or UUID that it has, its device owner and its addresses."""
    rows = [_list(row) for row in listed]
    return [
        {"port": name or uuid, **_given({"device owner": owner}), "addresses": addresses}
        for uuid, name, owner, addresses in rows
    ]


def _order(index: object) -> tuple[bool, float]:
    return index is None, _number(index)


def _end(index: object) -> str:
    return "its guest until that has stopped" if index is None else f"NIC {index}"


def _percent(value: object) -> documents.Verbatim | None:
    return documents.Verbatim(f"{value:g} %") if isinstance(value, int | float) else None


def _texts(value: object) -> list[str]:
    return [text.strip() for text in value.split(",") if text.strip()] if isinstance(value, str) else []


def _map(value: object) -> dict[int, str]:
    """Cut a map into rows under the index of their first address."""
    text = value if isinstance(value, str) and len(value) <= MAP_LIMIT else ""
    return {start: text[start : start + MAP_WIDTH] for start in range(0, len(text), MAP_WIDTH)}


def _subnet(found: Record) -> Record:
    pools = [_pool(_record(one)) for one in _list(found.get("pools"))]
    plain = _given({key: found.get(key) for key in ("cidr", "name", "gateway", "dhcp", "uuid")})
    return {**plain, "pools": pools, "externally reserved": _list(found.get("external"))}


def _pool(found: Record) -> Record:
    used = _percent(found.get("utilization"))
    plain = _given({"name": found.get("name"), "free": found.get("free"), "utilization": used})
    reserved = (
        {"map": _map(found.get("map"))} if _number(found.get("size")) <= MAP_LIMIT else {"reserved": _runs(found)}
    )
    return {"range": f"{found.get('start')}-{found.get('end')}", **plain, **reserved}


def _runs(found: Record) -> list[object]:
    """Return a large pool's reserved addresses as ranges."""
    return [*_list(found.get("runs")), *([] if found.get("runs_complete") else ["and more"])]


def _connection(values: Sequence[object]) -> Record:
    return _given(dict(zip(("group", "mode", "link", "vlan"), values, strict=False)))


CLUSTER_PARAMETERS = {
    "candidate_pool_size": "candidate pool size",
    "max_running_jobs": "maximal number of jobs running simultaneously",
    "max_tracked_jobs": "maximal number of jobs simultaneously tracked by the scheduler",
    "mac_prefix": "mac prefix",
    "master_netdev": "master netdev",
    "master_netmask": "master netmask",
    "volume_group_name": "lvm volume group",
    "file_storage_dir": "file storage path",
    "shared_file_storage_dir": "shared file storage path",
    "default_iallocator": "default instance allocator",
    "primary_ip_version": "primary ip version",
    "enabled_disk_templates": "enabled disk templates",
    "default_disk_size": "default disk size",
    "prealloc_wipe_disks": "preallocation wipe disks",
    "ipam_hold_time": "hold time of addresses",
    "network_thresholds": "network thresholds",
    "ipam_driver": "IPAM driver",
    "ipam_database": "database of addresses",
    "segment_ranges": "segment ranges besides those of segments.ini",
    "segment_fallback": "shared segment ranges when a project's own are used up",
    "tenant_network_types": "network types of segments, in order",
}


def cluster(found: Record) -> Record:
    """Describe the cluster."""
    default = found.get("default_hypervisor")
    architecture = " ".join(str(part) for part in reversed(_list(found.get("architecture"))))
    return {
        "Cluster name": found.get("name"),
        "Cluster UUID": found.get("uuid"),
        "Creation time": documents.moment(found.get("ctime")),
        "Modification time": documents.moment(found.get("mtime")),
        "Master node": found.get("master"),
        "Architecture (this node)": architecture,
        "Tags": ", ".join(str(tag) for tag in _list(found.get("tags"))) or documents.Verbatim("(none)"),
        "Default hypervisor": default,
        "Enabled hypervisors": ", ".join(str(name) for name in _list(found.get("enabled_hypervisors"))),
        "Hypervisor parameters": found.get("hvparams"),
        "OS-specific hypervisor parameters": found.get("os_hvp") or {},
        "OS parameters": found.get("osparams") or {},
        "Hidden OSes": _list(found.get("hidden_os")),
        "Blacklisted OSes": _list(found.get("blacklisted_os")),
        "Cluster parameters": {
            word: found[key] for key, word in CLUSTER_PARAMETERS.items() if found.get(key) not in (None, "")
        },
        "Default node parameters": found.get("ndparams"),
        "Default instance parameters": found.get("beparams"),
        "Default nic parameters": found.get("nicparams"),
        "Default disk parameters": found.get("diskparams") or {},
        "Instance policy - limits for instances": found.get("ipolicy") or {},
    }


JOB_FIELDS = (
    *("id", "status", "received_ts", "start_ts", "end_ts"),
    *("ops", "opstatus", "opstart", "opexec", "opend", "opresult", "oplog"),
)


def job(values: Sequence[object]) -> Record:
    """Describe a job from its fields in the order of ``JOB_FIELDS``."""
    found = dict(zip(JOB_FIELDS, values, strict=True))
    columns = [_list(found[name]) for name in JOB_FIELDS[5:]]
    return {
        "Job ID": found["id"],
        "Status": found["status"],
        "Received": documents.moment(found["received_ts"]),
        "Processing start": documents.moment(found["start_ts"]),
        "Processing end": documents.moment(found["end_ts"]),
        "Total processing time": _duration(found["received_ts"], found["end_ts"]),
        "Opcodes": [_opcode(*row) for row in zip(*columns, strict=False)],
    }


def _duration(begin: object, end: object) -> str:
    match begin, end:
        case [int(first), int(first_micro)], [int(last), int(last_micro)]:
            return f"{last - first + (last_micro - first_micro) / 1e6:.3f} seconds"
    return "N/A"


def _opcode(*values: object) -> Record:
    op, status, start, execute, end, result, log = values
    fields = _record(op)
    return {
        "Opcode": fields.get("OP_ID"),
        "Status": status,
        "Processing start": documents.moment(start),
        "Execution start": documents.moment(execute),
        "Processing end": documents.moment(end),
        "Input fields": {name: value for name, value in fields.items() if name != "OP_ID"},
        "Result": result,
        "Execution log": [
            {"Time": documents.moment(when), "Content": message}
            for _, when, _, message in (_list(entry) for entry in _list(log))
        ],
    }
