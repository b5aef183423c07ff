"""The opcodes of ports: attachments to a network for other things than instances (contracts/neutron-api.md#ports)."""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import (
    AdminState,
    Description,
    DisplayName,
    MacAddress,
    Opcode,
    Project,
    RangeTags,
    Text,
    Uuid,
)

PortName = Annotated[Text, Meta(description="Port, by its UUID or unique name")]
DeviceId = Annotated[Text, Meta(description="What uses the port")]
DeviceOwner = Annotated[Text, Meta(description="Kind of user of the port, as network:dhcp")]


class FixedSpec(base.Part, frozen=True):
    """A requested address of a port: any address of a subnet (a UUID), this address, or this address of that subnet."""

    subnet: Annotated[str, Meta(max_length=36, description="UUID of the subnet")] = ""
    ip: Annotated[str, Meta(max_length=64, description="The address; by default any free address of the subnet")] = ""


Fixed = Annotated[
    tuple[FixedSpec, ...],
    Meta(max_length=64, description="Addresses: a list, each item with a subnet, an address or both"),
]


class PortSpec(base.Part, frozen=True):
    """A port to create on a network, which is given by name or UUID.

    Without ``fixed``, the port gets one address for each IP version of the network's subnets, and one of each subnet
    whose guests generate their addresses (SLAAC); with an empty list it gets none. Generated addresses derive from
    ``mac``.
    """

    network: Annotated[str, Meta(min_length=1, max_length=255, description="Network, by name or UUID")]
    name: DisplayName = ""
    mac: MacAddress | None = None
    fixed: Fixed | None = None
    device_id: DeviceId = ""
    device_owner: DeviceOwner = ""
    project: Project = ""
    admin_state_up: AdminState = True
    description: Description = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


class PortAdd(Opcode, frozen=True):
    """Create ports, all of them or none; the result is the list of the new ports."""

    ports: Annotated[tuple[PortSpec, ...], Meta(min_length=1, max_length=4096, description="The ports to create")]


class PortSetParams(Opcode, frozen=True):
    """Change a port, by its UUID or unique name; the result is the changed port.

    The port keeps an address that ``fixed`` contains, or that is in a subnet of which ``fixed`` requests any address.
    """

    DESCRIBES = "port"

    port: PortName
    name: Annotated[Text | None, Meta(description="New name")] = None
    mac: MacAddress | None = None
    fixed: Fixed | None = None
    device_id: DeviceId | None = None
    device_owner: DeviceOwner | None = None
    admin_state_up: AdminState | None = None
    description: Description | None = None
    tags: RangeTags | None = None


class PortRemove(Opcode, frozen=True):
    """Remove a port, by its UUID or unique name, and release its addresses."""

    DESCRIBES = "port"

    port: PortName
