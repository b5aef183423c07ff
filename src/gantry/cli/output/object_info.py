"""The documents of ``info`` for instances, nodes, groups and jobs: values under the key words that scripts search for.

Each function turns an answer of the master (contracts/commands.md#fixed-outputs, contracts/commands.md#instance-data)
into a document for ``documents``. Missing values are omitted or null; they are not an error.
"""

from collections.abc import Sequence

from gantry.cli.output import answers, documents, tables


def instance(record: answers.Record) -> answers.Record:
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
            {"secondaries": answers.sequence(record.get("snodes"))},
        ],
        "Operating system": record.get("os"),
        "Operating system parameters": answers.filled(record.get("os_actual"), record.get("os_instance")),
        **answers.without_missing({"Allocated network port": record.get("network_port")}),
        "Hypervisor": record.get("hypervisor"),
        **answers.without_missing(
            {"accelerator": record.get("accelerator"), "console connection": record.get("console")}
        ),
        "Hypervisor parameters": answers.filled(record.get("hv_actual"), record.get("hv_instance")),
        "Back-end parameters": answers.filled(record.get("be_actual"), record.get("be_instance")),
        "NICs": [_nic(index, answers.sequence(nic)) for index, nic in enumerate(answers.sequence(record.get("nics")))],
        "Disk template": record.get("disk_template"),
        "Disks": [
            _disk(index, answers.record(disk)) for index, disk in enumerate(answers.sequence(record.get("disks")))
        ],
    }


def _actual_state(state: object) -> str:
    return f", actual state is {state}" if state else ""


def _group(record: answers.Record) -> str:
    return f"{record.get('pnode_group_name')} (UUID {record.get('pnode_group_uuid')})"


NIC_KEYS = ("name", "UUID", "IP", "MAC", "mode", "link", "vlan", "network")
"""The order of a NIC's values in the answer; the network's own values follow."""


def _nic(index: int, values: Sequence[object]) -> answers.Record:
    record = dict(zip(NIC_KEYS, values, strict=False))
    name = answers.record(values[8]).get("name") if len(values) > 8 else None
    record["network"] = name or record.get("network")
    # Clients read each of these lines, also of a value that the NIC does not have.
    listed = ("MAC", "IP", "mode", "link", "vlan", "network", "UUID", "name")
    values_by_key = {key: record.get(key) for key in listed}
    texts = {key: value if isinstance(value, list) else str(value) for key, value in values_by_key.items()}
    return {f"nic/{index}": "", **texts}


def _disk(index: int, record: answers.Record) -> answers.Record:
    size = tables.unit(answers.number(record.get("size")), "h")
    mirror = answers.record(record.get("drbd_info"))
    return {
        f"disk/{index}": f"{record.get('dev_type')}, size {size}",
        **answers.without_missing(
            {
                "access mode": record.get("mode"),
                **_mirror(mirror, plain=answers.sequence(record.get("logical_id"))),
                "on primary": _side(answers.sequence(record.get("pstatus"))),
                "on secondary": _side(answers.sequence(record.get("sstatus"))),
                "name": record.get("name"),
                "UUID": record.get("uuid"),
            }
        ),
        **(
            {"child devices": [_disk(i, answers.record(c)) for i, c in enumerate(answers.sequence(record["children"]))]}
            if record.get("children")
            else {}
        ),
    }


def _mirror(record: answers.Record, *, plain: Sequence[object]) -> answers.Record:
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
            f"synchronised to {answers.number(percent):.1f} %" + (f", {seconds} s left" if seconds is not None else "")
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


def node(record: answers.Record) -> answers.Record:
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


def group(record: answers.Record) -> answers.Record:
    """Describe a node group."""
    return {word: record[field] for field, word in GROUP_FIELDS.items() if field in record}


JOB_FIELDS = (
    *("id", "status", "received_ts", "start_ts", "end_ts"),
    *("ops", "opstatus", "opstart", "opexec", "opend", "opresult", "oplog"),
)


def job(values: Sequence[object]) -> answers.Record:
    """Describe a job; ``values`` are in the order of ``JOB_FIELDS``."""
    record = dict(zip(JOB_FIELDS, values, strict=True))
    columns = [answers.sequence(record[name]) for name in JOB_FIELDS[5:]]
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


def _opcode(*values: object) -> answers.Record:
    op, status, start, execute, end, result, log = values
    fields = answers.record(op)
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
            for _, time, _, message in (answers.sequence(entry) for entry in answers.sequence(log))
        ],
    }
