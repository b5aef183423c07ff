"""The opcodes of ports: attachments to a network for other things than instances (contracts/neutron-api.md#ports)."""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Opcode, Uuid
from gantry.model.opcodes.segment import RangeTags, Text

Address = Annotated[str, Meta(max_length=64)]
MacAddress = Annotated[str, Meta(max_length=17)]


class FixedSpec(base.Part, frozen=True):
    """A requested address of a port: any address of a subnet (a UUID), this address, or this address of that subnet."""

    subnet: Annotated[str, Meta(max_length=36)] = ""
    ip: Address = ""


Fixed = Annotated[tuple[FixedSpec, ...], Meta(max_length=64)]


class PortSpec(base.Part, frozen=True):
    """A port to create on a network, which is given by name or UUID.

    Without ``fixed``, the port gets one address for each IP version of the network's subnets, and one of each subnet
    whose guests generate their addresses (SLAAC); with an empty list it gets none. Generated addresses derive from
    ``mac``.
    """

    network: Annotated[str, Meta(min_length=1, max_length=255)]
    name: Text = ""
    mac: MacAddress | None = None
    fixed: Fixed | None = None
    device_id: Text = ""
    device_owner: Text = ""
    project: Text = ""
    admin_state_up: bool = True
    description: Text = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


class PortAdd(Opcode, frozen=True):
    """Create ports, all of them or none; the result is the list of the new ports."""

    ports: Annotated[tuple[PortSpec, ...], Meta(min_length=1, max_length=4096)]


class PortSetParams(Opcode, frozen=True):
    """Change a port, by its UUID or unique name; the result is the changed port.

    The port keeps an address that ``fixed`` contains, or that is in a subnet of which ``fixed`` requests any address.
    """

    DESCRIBES = "port"

    port: Text
    name: Text | None = None
    mac: MacAddress | None = None
    fixed: Fixed | None = None
    device_id: Text | None = None
    device_owner: Text | None = None
    admin_state_up: bool | None = None
    description: Text | None = None
    tags: RangeTags | None = None


class PortRemove(Opcode, frozen=True):
    """Remove a port, by its UUID or unique name, and release its addresses."""

    DESCRIBES = "port"

    port: Text
