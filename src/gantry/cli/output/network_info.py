"""The document of ``gnt-network info``: a network with its subnets, pools, users and ports.

The values are an answer of the master (contracts/commands.md#fixed-outputs), with the fields of ``FIELDS``.
"""

from collections.abc import Sequence

from gantry.cli.output import answers, documents

MAP_WIDTH = 64
MAP_LIMIT = 4096
"""Maximum addresses of a pool's map; for a larger pool the document lists the reserved ranges."""

FIELDS = (
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


def network(record: answers.Record) -> answers.Record:
    """Describe a network."""
    addresses = [answers.sequence(row) for row in answers.sequence(record.get("address_list"))]
    users = _users(answers.sequence(record.get("inst_list")), addresses)
    free, reserved = answers.number(record.get("free_count")), answers.number(record.get("reserved_count"))
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
        **answers.without_missing({title: record.get(name) for title, name in SEGMENT.items()}),
        "Size": size,
        "Free": documents.Verbatim(f"{free} ({100 * free / size:.2f}%)" if size else "0"),
        **answers.without_missing({"Utilization": _percent(record.get("utilization"))}),
        "Usage map": _map(record.get("map")),
        "externally reserved IPs": _texts(record.get("external_reservations")),
        "Subnets": [_subnet(answers.record(subnet)) for subnet in answers.sequence(record.get("subnets"))],
        "connected to node groups": [
            _connection(answers.sequence(group)) for group in answers.sequence(record.get("group_list"))
        ],
        f"used by {len(users)} instances": users,
        "addresses in use": {str(address): f"{name}, {_owner(index)}" for address, name, index in addresses},
        **answers.without_missing({"in quarantine": _quarantine(answers.sequence(record.get("quarantine"))) or None}),
        **answers.without_missing({"ports": _ports(answers.sequence(record.get("port_list"))) or None}),
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


def _ports(ports: Sequence[object]) -> list[answers.Record]:
    """Describe the ports on a network, each by its name or else its UUID, its device owner and its addresses."""
    rows = [answers.sequence(row) for row in ports]
    return [
        {"port": name or uuid, **answers.without_missing({"device owner": owner}), "addresses": addresses}
        for uuid, name, owner, addresses in rows
    ]


def _quarantine(rows: Sequence[object]) -> dict[str, str]:
    """Describe the addresses in quarantine, each with the end of that time and the last owner."""
    return {
        str(address): f"until {documents.clock(answers.number(end))}, was {noun} {name}"
        for address, noun, name, end in map(answers.sequence, rows)
    }


def _order(index: object) -> tuple[bool, float]:
    return index is None, answers.number(index)


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


def _subnet(record: answers.Record) -> answers.Record:
    pools = [_pool(answers.record(pool)) for pool in answers.sequence(record.get("pools"))]
    plain = answers.without_missing({key: record.get(key) for key in ("cidr", "name", "gateway", "dhcp", "uuid")})
    return {**plain, "pools": pools, "externally reserved": answers.sequence(record.get("external"))}


def _pool(record: answers.Record) -> answers.Record:
    used = _percent(record.get("utilization"))
    plain = answers.without_missing({"name": record.get("name"), "free": record.get("free"), "utilization": used})
    reserved = (
        {"map": _map(record.get("map"))}
        if answers.number(record.get("size")) <= MAP_LIMIT
        else {"reserved": _runs(record)}
    )
    return {"range": f"{record.get('start')}-{record.get('end')}", **plain, **reserved}


def _runs(record: answers.Record) -> list[object]:
    """Return a large pool's reserved addresses as ranges."""
    return [*answers.sequence(record.get("runs")), *([] if record.get("runs_complete") else ["and more"])]


def _connection(values: Sequence[object]) -> answers.Record:
    return answers.without_missing(dict(zip(("group", "mode", "link", "vlan"), values, strict=False)))
