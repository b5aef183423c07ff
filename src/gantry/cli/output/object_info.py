"""The documents of the ``info`` commands: an object's values under the key words that scripts search for.

Each function turns an answer of the master (contracts/commands.md#fixed-outputs, contracts/commands.md#instance-data)
into a document for ``documents``. Missing values are omitted or null; they are not an error.
"""

from collections.abc import Mapping, Sequence

from gantry.cli.output import documents, tables

Record = Mapping[str, object]
MAP_WIDTH = 64
MAP_LIMIT = 4096
"""Maximum addresses of a pool's map; for a larger pool the document lists the reserved ranges."""


def _record(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else []


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _without_missing(document: Record) -> dict[str, object]:
    """Return the document without missing and empty values."""
    return {key: value for key, value in document.items() if value is not None and value != ""}


def _filled(actual: object, own: object) -> dict[str, object]:
    """Return the actual parameters by name; those that the object does not set itself are shown as defaults."""
    values, own_values = _record(actual), _record(own)
    return {
        name: value if name in own_values else documents.Verbatim(f"default ({value})")
        for name, value in sorted(values.items())
    }


def instance(record: Record) -> Record:
    """Describe an instance."""
    return {
        "Instance name": record.get("name"),
        "UUID": record.get("uuid"),
        "Serial number": record.get("serial_no"),
        "Creation time": documents.moment(record.get("ctime")),
        "Modification time": documents.moment(record.get("mtime")),
        "State": f"configured to be {record.get('config_state')}" + _actual_state(record.get("run_state")),
        "Nodes": [
            {"primary": record.get("pnode"), "group": _group(record)},
            {"secondaries": _list(record.get("snodes"))},
        ],
        "Operating system": record.get("os"),
        "Operating system parameters": _filled(record.get("os_actual"), record.get("os_instance")),
        **_without_missing({"Allocated network port": record.get("network_port")}),
        "Hypervisor": record.get("hypervisor"),
        **_without_missing({"accelerator": record.get("accelerator"), "console connection": record.get("console")}),
        "Hypervisor parameters": _filled(record.get("hv_actual"), record.get("hv_instance")),
        "Back-end parameters": _filled(record.get("be_actual"), record.get("be_instance")),
        "NICs": [_nic(index, _list(nic)) for index, nic in enumerate(_list(record.get("nics")))],
        "Disk template": record.get("disk_template"),
        "Disks": [_disk(index, _record(disk)) for index, disk in enumerate(_list(record.get("disks")))],
    }


def _actual_state(state: object) -> str:
    return f", actual state is {state}" if state else ""


def _group(record: Record) -> str:
    return f"{record.get('pnode_group_name')} (UUID {record.get('pnode_group_uuid')})"


NIC_KEYS = ("name", "UUID", "IP", "MAC", "mode", "link", "vlan", "network")
"""The order of a NIC's values in the answer; the network's own values follow."""


def _nic(index: int, values: Sequence[object]) -> Record:
    record = dict(zip(NIC_KEYS, values, strict=False))
    name = _record(values[8]).get("name") if len(values) > 8 else None
    record["network"] = name or record.get("network")
    # Clients read each of these lines, also of a value that the NIC does not have.
    listed = ("MAC", "IP", "mode", "link", "vlan", "network", "UUID", "name")
    values_by_key = {key: record.get(key) for key in listed}
    texts = {key: value if isinstance(value, list) else str(value) for key, value in values_by_key.items()}
    return {f"nic/{index}": "", **texts}


def _disk(index: int, record: Record) -> Record:
    size = tables.unit(_number(record.get("size")), "h")
    mirror = _record(record.get("drbd_info"))
    return {
        f"disk/{index}": f"{record.get('dev_type')}, size {size}",
        **_without_missing(
            {
                "access mode": record.get("mode"),
                **_mirror(mirror, plain=_list(record.get("logical_id"))),
                "on primary": _side(_list(record.get("pstatus"))),
                "on secondary": _side(_list(record.get("sstatus"))),
                "name": record.get("name"),
                "UUID": record.get("uuid"),
            }
        ),
        **(
            {"child devices": [_disk(i, _record(c)) for i, c in enumerate(_list(record["children"]))]}
            if record.get("children")
            else {}
        ),
    }


def _mirror(record: Record, *, plain: Sequence[object]) -> Record:
    """Return the location of a disk: its id, or both ends of a mirrored disk."""
    if not record:
        return {"logical_id": plain}
    ends = {
        side: f"{record.get(f'{side}_node')}, minor={record.get(f'{side}_minor')}" for side in ("primary", "secondary")
    }
    return {"node A": ends["primary"], "node B": ends["secondary"], "port": record.get("port")}


def _side(status: Sequence[object]) -> str | None:
    """Return a node's status of a disk as text."""
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
"""Maps a field to the key word of ``gnt-node info``."""


def node(record: Record) -> Record:
    """Describe a node."""
    return {word: record[field] for field, word in NODE_FIELDS.items() if field in record}


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
"""Maps a field to the key word of ``gnt-group info``."""


def group(record: Record) -> Record:
    """Describe a node group."""
    return {word: record[field] for field, word in GROUP_FIELDS.items() if field in record}


NETWORK_FIELDS = (
    *("name", "uuid", "serial_no", "network", "gateway", "network6", "gateway6", "mac_prefix", "free_count"),
    *("reserved_count", "utilization", "map", "external_reservations", "group_list", "inst_list", "address_list"),
    *("port_list", "subnets", "tags", "network_type", "physical_network", "segment", "project", "quarantine"),
)


SEGMENT = {
    "Network type": "network_type",
    "Physical network": "physical_network",
    "Segment": "segment",
    "Project": "project",
}


def network(record: Record) -> Record:
    """Describe a network."""
    addresses = [_list(row) for row in _list(record.get("address_list"))]
    users = _users(_list(record.get("inst_list")), addresses)
    free, reserved = _number(record.get("free_count")), _number(record.get("reserved_count"))
    size = free + reserved
    return {
        "Network name": record.get("name"),
        "UUID": record.get("uuid"),
        "Serial number": record.get("serial_no"),
        "Subnet": record.get("network"),
        "Gateway": record.get("gateway"),
        "IPv6 Subnet": record.get("network6"),
        "IPv6 Gateway": record.get("gateway6"),
        "Mac Prefix": record.get("mac_prefix"),
        **_without_missing({title: record.get(name) for title, name in SEGMENT.items()}),
        "Size": size,
        "Free": documents.Verbatim(f"{free} ({100 * free / size:.2f}%)" if size else "0"),
        **_without_missing({"Utilization": _percent(record.get("utilization"))}),
        "Usage map": _map(record.get("map")),
        "externally reserved IPs": _texts(record.get("external_reservations")),
        "Subnets": [_subnet(_record(subnet)) for subnet in _list(record.get("subnets"))],
        "connected to node groups": [_connection(_list(group)) for group in _list(record.get("group_list"))],
        f"used by {len(users)} instances": users,
        "addresses in use": {str(address): f"{name}, {_owner(index)}" for address, name, index in addresses},
        **_without_missing({"in quarantine": _quarantine(_list(record.get("quarantine"))) or None}),
        **_without_missing({"ports": _ports(_list(record.get("port_list"))) or None}),
        "Tags": record.get("tags"),
    }


def _users(names: Sequence[object], addresses: Sequence[Sequence[object]]) -> dict[str, list[str]]:
    """Return the instances, each with the addresses of its NICs as ``index of the NIC:address,address``.

    ``guest:`` precedes the addresses that only the running guest still has.
    """
    nics: dict[str, dict[object, list[str]]] = {str(name): {} for name in names}
    for address, name, index in addresses:
        nics.setdefault(str(name), {}).setdefault(index, []).append(str(address))
    return {
        name: [
            f"{'guest' if index is None else index}:{','.join(by_index[index])}"
            for index in sorted(by_index, key=_order)
        ]
        for name, by_index in nics.items()
    }


def _ports(ports: Sequence[object]) -> list[Record]:
    """Describe the ports on a network, each by its name or else its UUID, its device owner and its addresses."""
    rows = [_list(row) for row in ports]
    return [
        {"port": name or uuid, **_without_missing({"device owner": owner}), "addresses": addresses}
        for uuid, name, owner, addresses in rows
    ]


def _quarantine(rows: Sequence[object]) -> dict[str, str]:
    """Describe the addresses in quarantine, each with the end of that time and the last owner."""
    return {
        str(address): f"until {documents.clock(_number(end))}, was {noun} {name}"
        for address, noun, name, end in map(_list, rows)
    }


def _order(index: object) -> tuple[bool, float]:
    return index is None, _number(index)


def _owner(index: object) -> str:
    return "its running guest, until that stops" if index is None else f"NIC {index}"


def _percent(value: object) -> documents.Verbatim | None:
    return documents.Verbatim(f"{value:g} %") if isinstance(value, int | float) else None


def _texts(value: object) -> list[str]:
    return [text.strip() for text in value.split(",") if text.strip()] if isinstance(value, str) else []


def _map(value: object) -> dict[int, str]:
    """Split a map into rows, by the index of their first address."""
    text = value if isinstance(value, str) and len(value) <= MAP_LIMIT else ""
    return {start: text[start : start + MAP_WIDTH] for start in range(0, len(text), MAP_WIDTH)}


def _subnet(record: Record) -> Record:
    pools = [_pool(_record(pool)) for pool in _list(record.get("pools"))]
    plain = _without_missing({key: record.get(key) for key in ("cidr", "name", "gateway", "dhcp", "uuid")})
    return {**plain, "pools": pools, "externally reserved": _list(record.get("external"))}


def _pool(record: Record) -> Record:
    used = _percent(record.get("utilization"))
    plain = _without_missing({"name": record.get("name"), "free": record.get("free"), "utilization": used})
    reserved = (
        {"map": _map(record.get("map"))} if _number(record.get("size")) <= MAP_LIMIT else {"reserved": _runs(record)}
    )
    return {"range": f"{record.get('start')}-{record.get('end')}", **plain, **reserved}


def _runs(record: Record) -> list[object]:
    """Return a large pool's reserved addresses as ranges."""
    return [*_list(record.get("runs")), *([] if record.get("runs_complete") else ["and more"])]


def _connection(values: Sequence[object]) -> Record:
    return _without_missing(dict(zip(("group", "mode", "link", "vlan"), values, strict=False)))


_REPLICATION = {
    "seed": "the master goes on alone when the others are silent",
    "majority": "a change needs more than half of the master candidates",
    "all": "a change needs all master candidates",
}
_STRAY_GUESTS = {"report": "gnt-cluster verify lists them", "stop": "they are stopped", "adopt": "they are recorded"}

CLUSTER_PARAMETERS = {
    "candidate_pool_size": "candidate pool size",
    "replication": "replication of changes",
    "journal_retention": "retention of the journal",
    "archive_retention": "retention of archived jobs",
    "stray_guests": "stray guests",
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
    "segment_ranges": "segment ranges of projects",
    "segment_fallback": "shared segment ranges after those of a project",
    "tenant_network_types": "order of network types",
}


def cluster(record: Record) -> Record:
    """Describe the cluster."""
    default, own = record.get("default_hypervisor"), _record(record.get("own_parameters"))
    architecture = " ".join(str(part) for part in reversed(_list(record.get("architecture"))))
    return {
        "Cluster name": record.get("name"),
        "Cluster UUID": record.get("uuid"),
        "Creation time": documents.moment(record.get("ctime")),
        "Modification time": documents.moment(record.get("mtime")),
        "Master node": record.get("master"),
        "Architecture (this node)": architecture,
        "Tags": ", ".join(str(tag) for tag in _list(record.get("tags"))) or documents.Verbatim("(none)"),
        "Default hypervisor": default,
        "Enabled hypervisors": ", ".join(str(name) for name in _list(record.get("enabled_hypervisors"))),
        "Hypervisor parameters": {
            str(name): _set_first(values, _record(own.get("hvparams")).get(name))
            for name, values in _record(record.get("hvparams")).items()
        },
        "OS-specific hypervisor parameters": record.get("os_hvp") or {},
        "OS parameters": record.get("osparams") or {},
        "Hidden OSes": _list(record.get("hidden_os")),
        "Blacklisted OSes": _list(record.get("blacklisted_os")),
        "Allow-lists": record.get("allowed") or {},
        "Cluster parameters": {
            word: _cluster_parameter(key, record[key])
            for key, word in CLUSTER_PARAMETERS.items()
            if record.get(key) not in (None, "")
        },
        "Default node parameters": _set_first(record.get("ndparams"), own.get("ndparams")),
        **{
            title: {
                str(name): _set_first(values, _record(own.get(key)).get(name))
                for name, values in _record(record.get(key)).items()
            }
            for title, key in (
                ("Default instance parameters", "beparams"),
                ("Default nic parameters", "nicparams"),
                ("Default disk parameters", "diskparams"),
            )
        },
        "Instance policy - limits for instances": record.get("ipolicy") or {},
    }


def _set_first(actual: object, own: object) -> dict[str, object]:
    """Return parameters as ``_filled`` does, those that the cluster sets before the defaults."""
    own_values = _record(own)
    return dict(sorted(_filled(actual, own).items(), key=lambda pair: pair[0] not in own_values))


def _cluster_parameter(key: str, value: object) -> object:
    """Return a setting of the cluster in words."""
    match key, value:
        case "replication", str():
            return f"{value} ({_REPLICATION.get(value, value)})"
        case "stray_guests", str():
            return f"{value} ({_STRAY_GUESTS.get(value, value)})"
        case "ipam_hold_time", int():
            return f"{value} s" if value else documents.Verbatim("none")
        case "network_thresholds", [warning, error]:
            return f"warning at {warning} %, error at {error} %"
        case "default_disk_size", int():
            return f"{value} MiB" if value else documents.Verbatim("none")
        case "tenant_network_types", list():
            return ", ".join(map(str, value)) or documents.Verbatim("all types")
        case "enabled_disk_templates", list():
            return ", ".join(map(str, value))
        case _, bool():
            return documents.Verbatim("yes" if value else "no")
    return value


JOB_FIELDS = (
    *("id", "status", "received_ts", "start_ts", "end_ts"),
    *("ops", "opstatus", "opstart", "opexec", "opend", "opresult", "oplog"),
)


def job(values: Sequence[object]) -> Record:
    """Describe a job; ``values`` are in the order of ``JOB_FIELDS``."""
    record = dict(zip(JOB_FIELDS, values, strict=True))
    columns = [_list(record[name]) for name in JOB_FIELDS[5:]]
    return {
        "Job ID": record["id"],
        "Status": record["status"],
        "Received": documents.moment(record["received_ts"]),
        "Processing start": documents.moment(record["start_ts"]),
        "Processing end": documents.moment(record["end_ts"]),
        "Total processing time": _duration(record["received_ts"], record["end_ts"]),
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
            {"Time": documents.moment(time), "Content": message}
            for _, time, _, message in (_list(entry) for entry in _list(log))
        ],
    }
