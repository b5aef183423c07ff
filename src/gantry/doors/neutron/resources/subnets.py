"""Subnets of networks (contracts/neutron-api.md#subnets), whose allocation pools are the pools of the network.

The defaults are those of Neutron: the first address is the gateway, and one pool has all other addresses.
"""

import ipaddress
from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.doors.neutron import attributes, faults, master, resource, values
from gantry.doors.neutron.resources import standard

_MODES = values.or_none(values.one_of("slaac", "dhcpv6-stateful", "dhcpv6-stateless"))


_NO_HOSTS = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "ff00::/8")))


class _Pool(msgspec.Struct):
    start: str
    end: str


def _pools(row: attributes.Row) -> list[dict[str, str]]:
    return [{"start": pool.start, "end": pool.end} for pool in msgspec.convert(row.get("pools", ()), list[_Pool])]


def _mode(name: str, about: str) -> attributes.Attribute:
    return attributes.Attribute(
        name, about, (name,), lambda row: row.get(name) or None, post=True, validate=_MODES, filter=True, sort=True,
        field=name,
    )  # fmt: skip


TABLE = attributes.table(
    standard.ID,
    standard.text("name", "Its name, which need not be unique", field="label", sort=True),
    standard.PROJECT,
    attributes.Attribute(
        "network_id", "Its network", ("network_uuid",), standard.plain("network_uuid"), post=True,
        default=attributes.REQUIRED, validate=values.uuid, filter=True, sort=True, field="network_uuid",
    ),
    attributes.Attribute(
        "ip_version", "4 or 6", ("ip_version",), standard.plain("ip_version"), post=True, default=attributes.REQUIRED,
        convert=values.integer, validate=values.one_of(4, 6), filter=True, sort=True, field="ip_version",
    ),
    attributes.Attribute(
        "subnetpool_id", "The subnet pool that its CIDR is allocated from", ("subnetpool",),
        lambda row: row.get("subnetpool") or None, post=True, validate=values.or_none(values.uuid), filter=True,
        sort=True, field="subnetpool",
    ),
    attributes.Attribute(
        "use_default_subnetpool", "Whether its CIDR comes from the default subnet pool of its IP version", post=True,
        default=False, convert=values.boolean, listed=False,
    ),
    attributes.Attribute(
        "prefixlen", "The prefix length of a CIDR from a subnet pool", post=True, convert=values.integer,
        validate=values.between(0, 128), listed=False,
    ),
    attributes.Attribute(
        "enable_dhcp", "Whether guests get addresses by DHCP", ("dhcp",), standard.plain("dhcp", False), post=True,
        put=True, convert=values.boolean, filter=True, sort=True,
    ),
    _mode("ipv6_ra_mode", "How routers advertise it"),
    _mode("ipv6_address_mode", "How guests configure their address"),
    attributes.Attribute(
        "gateway_ip", "Its gateway, by default the first address", ("gateway",),
        lambda row: row.get("gateway") or None, post=True, put=True, validate=values.or_none(values.address),
        filter=True, sort=True, field="gateway",
    ),
    attributes.Attribute(
        "cidr", "Its addresses", ("cidr",), standard.plain("cidr"), post=True, validate=values.or_none(values.cidr),
        filter=True, sort=True, field="cidr",
    ),
    attributes.Attribute(
        "allocation_pools", "The ranges that ports get addresses from", ("pools",), _pools, post=True, put=True,
        convert=values.list_for_none,
        validate=values.list_of(values.record({"start": values.address, "end": values.address}), unique=False),
    ),
    attributes.Attribute(
        "host_routes", "Routes for guests", ("host_routes",), standard.plain("host_routes", []), post=True,
        put=True, convert=values.list_for_none,
        validate=values.list_of(values.record({"destination": values.cidr, "nexthop": values.address})),
    ),
    attributes.Attribute(
        "dns_nameservers", "Name servers for guests", ("dns_nameservers",),
        standard.plain("dns_nameservers", []), post=True, put=True, convert=values.list_for_none,
        validate=values.list_of(values.address),
    ),
    standard.DESCRIPTION,
    standard.constant("router:external", False, "Always false"),
    standard.constant("service_types", [], "Always empty", filtered=True),
    standard.TENANT,
    *standard.STANDARD,
)  # fmt: skip

_FIELDS = {
    "name": "label",
    "description": "description",
    "dns_nameservers": "dns_nameservers",
    "host_routes": "host_routes",
    "enable_dhcp": "dhcp",
    "tags": "tags",
}


def _common(requested: attributes.Values) -> master.Op:
    """Return the fields that both creation and changes of a subnet may set."""
    op: master.Op = {"usual": True} | {field: requested[name] for name, field in _FIELDS.items() if name in requested}
    if "gateway_ip" in requested:
        op["gateway"] = requested["gateway_ip"] or ""
    if "allocation_pools" in requested:
        pools = msgspec.convert(requested["allocation_pools"], list[_Pool])
        op["pools"] = [f"{pool.start}-{pool.end}" for pool in pools]
    return op


def _mod(new: attributes.Values) -> master.Op:
    names = {"ipv6_ra_mode": "ipv6_ra_mode", "ipv6_address_mode": "ipv6_address_mode", "prefixlen": "prefixlen",
             "subnetpool_id": "subnetpool", "default_subnetpool": "default_subnetpool"}  # fmt: skip
    more = {field: new[name] for name, field in names.items() if new.get(name) is not None}
    op: master.Op = {"action": "add", "uuid": new["id"], "ip_version": new["ip_version"], **_common(new), **more}
    if new.get("cidr") and "prefixlen" in op:
        message = "Bad subnets request: cidr and prefixlen must not be supplied together."
        raise faults.FaultError(400, "BadRequest", message)
    if new.get("cidr"):
        op |= _cidr(str(new["cidr"]), new)
    elif not {"subnetpool", "default_subnetpool"} & op.keys():
        raise faults.FaultError(
            400, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr."
        )
    return op


def _cidr(text: str, new: attributes.Values) -> master.Op:
    """Check the CIDR of a subnet and return its field, without host bits (recorded)."""
    net = ipaddress.ip_interface(text).network
    if net.prefixlen == 0:
        raise faults.invalid_input("0 is not allowed as CIDR prefix length.")
    if net.version != new["ip_version"]:
        raise faults.invalid_input(f"cidr '{text}' does not match the ip_version '{new['ip_version']}'.")
    if new.get("enable_dhcp", True) and net.version == 4 and net.prefixlen > 30:
        raise faults.invalid_input("Subnet has a prefix length that is incompatible with DHCP service enabled.")
    if new.get("enable_dhcp", True) and any(net.version == part.version and net.overlaps(part) for part in _NO_HOSTS):
        raise faults.invalid_input(f"The subnet {net} has addresses that no host can have, so it cannot have DHCP.")
    return {"cidr": str(net)}


def create_ops(requested: Sequence[attributes.Values]) -> list[master.Op]:
    """Return an opcode for each new subnet."""
    return [
        {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": new["network_id"], "subnets": [_mod(new)]}
        for new in requested
    ]


def results_of(requested: Sequence[attributes.Values], results: list[object]) -> list[attributes.Row]:
    """Return the new subnets from the results of a job, which are their networks."""
    subnets: list[attributes.Row] = []
    for new, network in zip(requested, standard.rows_of(results), strict=True):
        all_subnets = standard.rows_of(network.get("subnet_rows", ()))
        subnets += [row for row in all_subnets if row["uuid"] == new["id"]]
    return subnets


def _network_op(row: attributes.Row, mod: master.Op) -> master.Op:
    named = {"ident": row["uuid"], **mod}
    return {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": row["network_uuid"], "subnets": [named]}


def change_op(row: attributes.Row, changes: attributes.Values) -> master.Op:
    """Return the opcode for changes of a subnet."""
    return _network_op(row, {"action": "modify", **_common(changes)})


def remove_op(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a subnet."""
    return _network_op(row, {"action": "remove"})


RESOURCE = resource.Resource(
    name="subnet",
    collection="subnets",
    title="Subnet",
    kind="subnet",
    table=TABLE,
    create_ops=create_ops,
    results=results_of,
    change_op=change_op,
    remove_op=remove_op,
    needs=("network_uuid", "cidr", "shared"),
    inside="owned",
    refusals=(
        resource.Refusal(
            errors.WrongStateError, 409, "GatewayIpInUse",
            "Current gateway ip {gateway} already in use by port {port}. Unable to update.",
            r"^gateway (?P<gateway>\S+) .* router port (?P<port>\S+)",
        ),
        resource.Refusal(
            errors.WrongStateError, 409, "SubnetInUse",
            "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet.",
        ),
        resource.Refusal(
            errors.NoRoomError, 409, "SubnetAllocationError",
            "Failed to allocate subnet: Insufficient prefix space to allocate subnet size {size}.",
            r"has no (?P<size>/\d+) left",
        ),
        resource.Refusal(errors.NoRoomError, 409, "SubnetPoolQuotaExceeded"),
        resource.Refusal(
            errors.PrerequisiteError, 400, "SubnetAllocationError",
            "Failed to allocate subnet: Cannot allocate requested subnet from the available set of prefixes.",
            "subnet pool.* is taken|is not of subnet pool",
        ),
        resource.Refusal(errors.InvalidError, 400, "SubnetAllocationError", "Failed to allocate subnet: {text}",
                         "subnet pool"),
        resource.Refusal(
            errors.InvalidError, 409, "OverlappingAllocationPools",
            "Found overlapping allocation pools: {one} {two} for subnet {cidr}.",
            r"pool (?P<one>\S+) overlaps pool (?P<two>\S+)",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "OutOfBoundsAllocationPool",
            "The allocation pool {pool} spans beyond the subnet cidr {whole}.",
            r"pool (?P<pool>\S+) (?:is outside|reaches an end of) its subnet (?P<whole>[0-9a-f.:/]+)",
        ),
        resource.Refusal(
            errors.InvalidError, 409, "GatewayConflictWithAllocationPools",
            "Gateway ip {router} conflicts with allocation pool {pool}.",
            r"pool (?P<pool>\S+) has the gateway (?P<router>[0-9a-f.:]+)",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput",
            "Invalid input for operation: Requested subnet with cidr: {cidr} for network: {network_id} overlaps with "
            "another subnet.", "subnets .* overlap",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput", "Invalid input for operation: Gateway is not valid on subnet.",
            "gateway|is the (?:first|last) address",
        ),
        resource.Refusal(errors.InvalidError, 400, "InvalidInput", "Invalid input for operation: {text}"),
    ),
)  # fmt: skip
