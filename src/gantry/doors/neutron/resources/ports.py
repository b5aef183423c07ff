"""Ports: places in networks with addresses; the NICs of instances are shown among them.

A NIC has ``compute:gantry`` as its owner and its instance as its device; it is changed with the instance, not here.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.doors.neutron import attributes, master, resource, values
from gantry.doors.neutron.resources import standard


class _Fixed(msgspec.Struct):
    """An address of a port, in the words of the master."""

    subnet: str | None = None
    ip: str | None = None


def _fixed_ips(row: attributes.Row) -> list[dict[str, str | None]]:
    found = msgspec.convert(row.get("fixed", ()), list[_Fixed])
    return [{"subnet_id": one.subnet, "ip_address": one.ip} for one in found]


_WISH = values.record({}, subnet_id=values.uuid, ip_address=values.address)

TABLE = attributes.table(
    standard.ID,
    standard.text("name", "Its name, which others may have too", sort=True),
    attributes.Attribute(
        "network_id", "Its network", ("network_uuid",), standard.plain("network_uuid"), post=True,
        default=attributes.REQUIRED, validate=values.uuid, filter=True, sort=True, field="network_uuid",
    ),
    standard.PROJECT,
    attributes.Attribute(
        "mac_address", "Its MAC address", ("mac",), standard.plain("mac"), post=True, put=True, convert=values.lower,
        validate=values.mac, filter=True, sort=True, field="mac",
    ),
    standard.flag("admin_state_up", "Whether it is in operation", default=True),
    standard.shown(
        "status", "ACTIVE for a NIC of an instance, else DOWN", "instance", filtered=True,
        show=lambda row: "ACTIVE" if row.get("instance") else "DOWN",
    ),
    standard.text("device_id", "Who uses it"),
    standard.text("device_owner", "What kind of user that is"),
    attributes.Attribute(
        "fixed_ips", "Its addresses, each with its subnet; one of each family when it is left out", ("fixed",),
        _fixed_ips, post=True, put=True, convert=values.list_for_none,
        validate=values.listed(_WISH, most=64, unique=False), filter=True,
    ),
    standard.TENANT,
    standard.constant("security_groups", [], "Always empty"),
    standard.constant("binding:vnic_type", "normal", "Always normal"),
    standard.constant("binding:profile", {}, "Always empty"),
    standard.constant("binding:host_id", "", "Always empty"),
    standard.shown("binding:vif_type", "Always unbound", show=lambda row: "unbound"),
    standard.shown("binding:vif_details", "Always empty", show=lambda row: {}),
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


def _common(given: attributes.Values) -> master.Op:
    op: master.Op = {field: given[name] for name, field in _FIELDS.items() if name in given}
    if "fixed_ips" in given:
        wishes = msgspec.convert(given["fixed_ips"], list[dict[str, str]])
        names = {"subnet_id": "subnet", "ip_address": "ip"}
        op["fixed"] = [{names[key]: value for key, value in wish.items()} for wish in wishes]
    return op


def make(made: Sequence[attributes.Values]) -> list[master.Op]:
    """Return the one opcode for ports to be."""
    ports = [
        {"uuid": one["id"], "network": one["network_id"], "project": one["project_id"], **_common(one)} for one in made
    ]
    return [{"OP_ID": "OP_PORT_ADD", "ports": ports}]


def change(row: attributes.Row, changed: attributes.Values) -> master.Op:
    """Return the opcode for a change."""
    return {"OP_ID": "OP_PORT_SET_PARAMS", "port": row["uuid"], **_common(changed)}


def remove(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a port."""
    return {"OP_ID": "OP_PORT_REMOVE", "port": row["uuid"]}


RESOURCE = resource.Resource(
    name="port",
    collection="ports",
    title="Port",
    kind="port",
    table=TABLE,
    make=make,
    made=standard.made,
    change=change,
    remove=remove,
    inside="seen",
    refusals=(
        resource.Refusal(
            errors.NoRoomError, 409, "IpAddressGenerationFailure",
            "No more IP addresses available on network {network_id}.",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "MacAddressInUse",
            "Unable to complete operation for network {network_id}. The mac address {mac_address} is in use.", "^MAC",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "IpAddressAlreadyAllocated",
            "IP address {ip} already allocated in network {network_id}", r"^address (?P<ip>\S+)",
        ),
        resource.Refusal(errors.BusyError, 409, "MacAddressInUse", pattern="^MAC"),
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
            "for automatic addresses", r"address (?P<ip>\S+) cannot be asked for: guests of subnet (?P<subnet>\S+)",
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
