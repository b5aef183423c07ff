"""The number of free addresses of networks: ``/v2.0/network-ip-availabilities`` (contracts/neutron-api.md#clients)."""

from collections.abc import Mapping, Sequence

import msgspec

from gantry.doors.neutron import attributes, faults, master
from gantry.doors.neutron import call as calls

_NAME = "network_ip_availabilit"


_FILTERS = {"network_id": "uuid", "network_name": "label", "project_id": "project", "tenant_id": "project"}
"""The filters for networks, and the master's fields for these; ``ip_version`` filters their subnets."""


class _Subnet(msgspec.Struct):
    """The master's fields of a subnet."""

    uuid: str
    network_uuid: str
    ip_version: int
    cidr: str
    free_count: int
    reserved_count: int
    label: str = ""


async def answer(behind: master.Master, call: calls.Call, key: Sequence[str]) -> dict[str, object]:
    """Return all networks, or the network whose UUID is in ``key``; none for users who are not administrators."""
    rows: list[attributes.Row] = []
    filters = {"network_id": key} if key else {name: call.query[name] for name in _FILTERS if name in call.query}
    if call.person.is_admin:
        rows = await behind.rows("network", ["uuid", "label", "project"], _any_of(filters))
    subnet_filter = _any_of({name: filters[name] for name in filters if name == "network_id"}, uuid="network_uuid")
    fields = _Subnet.__struct_fields__
    subnets = (
        [msgspec.convert(row, _Subnet) for row in await behind.rows("subnet", fields, subnet_filter)] if rows else []
    )
    versions = [] if key else call.query.get("ip_version", [])
    by_network: dict[str, list[_Subnet]] = {}
    for subnet in subnets:
        if not versions or str(subnet.ip_version) in versions:
            by_network.setdefault(subnet.network_uuid, []).append(subnet)
    networks = [_network(row, by_network.get(str(row["uuid"]), [])) for row in rows]
    if not key:
        return {f"{_NAME}ies": [each for each in networks if each["subnet_ip_availability"] or not versions]}
    if not networks:
        raise faults.FaultError(404, "NetworkNotFound", f"Network {key[0]} could not be found.")
    return {f"{_NAME}y": networks[0]}


def _any_of(filters: Mapping[str, Sequence[str]], *, uuid: str = "uuid") -> master.Filter | None:
    """Return the master's filter for networks with one of the values of each filter; ``uuid`` is the UUID's field."""
    names = _FILTERS | {"network_id": uuid}
    parts = [["|", *(["=", names[name], value] for value in texts)] for name, texts in filters.items()]
    return ["&", *parts] if parts else None


def _network(row: attributes.Row, subnets: Sequence[_Subnet]) -> dict[str, object]:
    return {
        "network_id": row["uuid"],
        "network_name": row.get("label", ""),
        "project_id": row.get("project", ""),
        "tenant_id": row.get("project", ""),
        "used_ips": sum(subnet.reserved_count for subnet in subnets),
        "total_ips": sum(subnet.free_count + subnet.reserved_count for subnet in subnets),
        "subnet_ip_availability": [
            {
                "subnet_id": subnet.uuid,
                "subnet_name": subnet.label,
                "ip_version": subnet.ip_version,
                "cidr": subnet.cidr,
                "used_ips": subnet.reserved_count,
                "total_ips": subnet.free_count + subnet.reserved_count,
            }
            for subnet in subnets
        ],
    }
