"""How many addresses of networks are free: ``/v2.0/network-ip-availabilities`` (contracts/neutron-api.md#clients)."""

from collections.abc import Mapping, Sequence

import msgspec

from gantry.doors.neutron import attributes, faults, master
from gantry.doors.neutron import call as calls

_NAME = "network_ip_availabilit"


_FILTERS = {"network_id": "uuid", "network_name": "label", "project_id": "project", "tenant_id": "project"}
"""What networks are found by, and the master's fields for it; ``ip_version`` chooses among their subnets."""


class _Subnet(msgspec.Struct):
    """What the master says of a subnet, in its words."""

    uuid: str
    network_uuid: str
    ip_version: int
    cidr: str
    free_count: int
    reserved_count: int
    label: str = ""


async def answer(behind: master.Master, call: calls.Call, key: Sequence[str]) -> dict[str, object]:
    """Return all networks, or the one whose UUID is in ``key``; for administrators, others see none."""
    rows: list[attributes.Row] = []
    filters = {"network_id": key} if key else {name: call.query[name] for name in _FILTERS if name in call.query}
    if call.person.is_admin:
        rows = await behind.rows("network", ["uuid", "label", "project"], _any_of(filters))
    where = _any_of({name: filters[name] for name in filters if name == "network_id"}, uuid="network_uuid")
    fields = _Subnet.__struct_fields__
    subnets = [msgspec.convert(row, _Subnet) for row in await behind.rows("subnet", fields, where)] if rows else []
    versions = [] if key else call.query.get("ip_version", [])
    inside: dict[str, list[_Subnet]] = {}
    for one in subnets:
        if not versions or str(one.ip_version) in versions:
            inside.setdefault(one.network_uuid, []).append(one)
    told = [_network(row, inside.get(str(row["uuid"]), [])) for row in rows]
    if not key:
        return {f"{_NAME}ies": [one for one in told if one["subnet_ip_availability"] or not versions]}
    if not told:
        raise faults.FaultError(404, "NetworkNotFound", f"Network {key[0]} could not be found.")
    return {f"{_NAME}y": told[0]}


def _any_of(filters: Mapping[str, Sequence[str]], *, uuid: str = "uuid") -> master.Filter | None:
    """Return the master's filter for networks that have one of the values of each attribute; ``uuid`` is its field."""
    names = _FILTERS | {"network_id": uuid}
    parts = [["|", *(["=", names[name], one] for one in given)] for name, given in filters.items()]
    return ["&", *parts] if parts else None


def _network(row: attributes.Row, subnets: Sequence[_Subnet]) -> dict[str, object]:
    return {
        "network_id": row["uuid"],
        "network_name": row.get("label", ""),
        "project_id": row.get("project", ""),
        "tenant_id": row.get("project", ""),
        "used_ips": sum(one.reserved_count for one in subnets),
        "total_ips": sum(one.free_count + one.reserved_count for one in subnets),
        "subnet_ip_availability": [
            {
                "subnet_id": one.uuid,
                "subnet_name": one.label,
                "ip_version": one.ip_version,
                "cidr": one.cidr,
                "used_ips": one.reserved_count,
                "total_ips": one.free_count + one.reserved_count,
            }
            for one in subnets
        ],
    }
