"""Ports: attachments to networks, with addresses; lists include the NICs of instances.

A NIC has the device owner ``compute:gantry`` and its instance as the device; it is changed with the instance, not here.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.doors.neutron import attributes, master, resource, values
from gantry.doors.neutron.resources import standard


class _Fixed(msgspec.Struct):
    """An address of a port, with the master's field names."""

    subnet: str | None = None
    ip: str | None = None


def _fixed_ips(row: attributes.Row) -> list[dict[str, str | None]]:
    fixed = msgspec.convert(row.get("fixed", ()), list[_Fixed])
    return [{"subnet_id": each.subnet, "ip_address": each.ip} for each in fixed]


_FIXED_IP = values.record({}, subnet_id=values.uuid, ip_address=values.address)

TABLE = attributes.table(
    standard.ID,
    standard.text("name", "Its name, which need not be unique", sort=True),
    attributes.Attribute(
        "network_id", "Its network", ("network_uuid",), standard.plain("network_uuid"), post=True,
        default=attributes.REQUIRED, validate=values.uuid, filter=True, sort=True, field="network_uuid",
    ),
    standard.PROJECT,
    attributes.Attribute(
        "mac_address", "Its MAC address", ("mac",), standard.plain("mac"), post=True, put=True, convert=values.mac_form,
        validate=values.mac, filter=True, sort=True, field="mac",
    ),
    standard.flag("admin_state_up", "Whether it is in operation", default=True),
    standard.read_only(
        "status", "ACTIVE for a NIC of an instance, else DOWN", "instance", filtered=True, sort=True,
        show=lambda row: "ACTIVE" if row.get("instance") else "DOWN",
    ),
    standard.text("device_id", "The device that uses it", sort=True),
    standard.text("device_owner", "The kind of that device", sort=True),
    attributes.Attribute(
        "fixed_ips", "Its addresses, each with its subnet; by default one address of each family", ("fixed",),
        _fixed_ips, post=True, put=True, convert=values.list_for_none,
        validate=values.list_of(_FIXED_IP, maximum=64, unique=False), filter=True,
        parts=(("ip_address", "=[]", "ip"), ("ip_address_substr", "=~", "ip"), ("subnet_id", "=[]", "fixed")),
    ),
    standard.TENANT,
    standard.constant("security_groups", [], "Always empty", filtered=True),
    standard.constant("binding:vnic_type", "normal", "Always normal"),
    standard.constant("binding:profile", {}, "Always empty"),
    standard.constant("binding:host_id", "", "Always empty", filtered=True),
    standard.read_only("binding:vif_type", "Always unbound", show=lambda row: "unbound"),
    standard.read_only("binding:vif_details", "Always empty", show=lambda row: {}),
    standard.constant("allowed_address_pairs", [], "Always empty"),
    standard.constant("extra_dhcp_opts", [], "Always empty"),
    standard.DESCRIPTION,
    *standard.STANDARD,
)  # fmt: skip

_FIELDS = {
    "name": "name",
    "mac_address": "mac",
    "device_id": "device_id",
    "device_owner": "device_owner",
    "admin_state_up": "admin_state_up",
    "description": "description",
    "tags": "tags",
}


def _common(requested: attributes.Values) -> master.Op:
    op: master.Op = {field: requested[name] for name, field in _FIELDS.items() if name in requested}
    if "fixed_ips" in requested:
        addresses = msgspec.convert(requested["fixed_ips"], list[dict[str, str]])
        names = {"subnet_id": "subnet", "ip_address": "ip"}
        op["fixed"] = [{names[key]: value for key, value in address.items()} for address in addresses]
    return op


_MAC_IN_USE = "Unable to complete operation for network {network_id}. The mac address {mac} is in use."


def create_ops(requested: Sequence[attributes.Values]) -> list[master.Op]:
    """Return the opcode for all new ports."""
    ports = [
        {"uuid": new["id"], "network": new["network_id"], "project": new["project_id"], **_common(new)}
        for new in requested
    ]
    return [{"OP_ID": "OP_PORT_ADD", "ports": ports}]


def change_op(row: attributes.Row, changes: attributes.Values) -> master.Op:
    """Return the opcode for changes of a port."""
    return {"OP_ID": "OP_PORT_SET_PARAMS", "port": row["uuid"], **_common(changes)}


def remove_op(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a port."""
    return {"OP_ID": "OP_PORT_REMOVE", "port": row["uuid"]}


RESOURCE = resource.Resource(
    name="port",
    collection="ports",
    title="Port",
    kind="port",
    table=TABLE,
    create_ops=create_ops,
    results=standard.results_of,
    change_op=change_op,
    remove_op=remove_op,
    inside="seen",
    refusals=(
        resource.Refusal(
            errors.NoRoomError, 409, "IpAddressGenerationFailure",
            "No more IP addresses available on network {network_id}.",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "MacAddressInUse",
            _MAC_IN_USE, r"^MAC address (?P<mac>\S+)",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "IpAddressAlreadyAllocated",
            "IP address {ip} already allocated in network {network_id}", r"^address (?P<ip>\S+)",
        ),
        resource.Refusal(errors.BusyError, 409, "MacAddressInUse", _MAC_IN_USE, r"^MAC address (?P<mac>\S+)"),
        resource.Refusal(errors.BusyError, 409, "IpAddressAlreadyAllocated", pattern="^address"),
        resource.Refusal(errors.WrongStateError, 409, "IpAddressAlreadyAllocated", pattern="^address"),
        resource.Refusal(errors.WrongStateError, 409, "PortInUse"),
        resource.Refusal(
            errors.NotFoundError, 404, "SubnetNotFound", "Subnet {subnet} could not be found.",
            r"has no subnet (?P<subnet>[^\s;]+)",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "AllocationOnAutoAddressSubnet",
            "IPv6 address {ip} cannot be directly assigned to a port on subnet {subnet} as the subnet is configured "
            "for automatic addresses", r"address (?P<ip>\S+) cannot be requested: guests of subnet (?P<subnet>\S+)",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidIpForNetwork",
            "IP address {ip} is not a valid IP for any of the subnets on the specified network.",
            r"address (?P<ip>\S+) is outside every subnet",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidIpForSubnet",
            "IP address {ip} is not a valid IP for the specified subnet.",
            r"(?P<ip>[0-9a-f.:]+) is (?:the (?:first|last) address|outside|not)",
        ),
    ),
)  # fmt: skip
