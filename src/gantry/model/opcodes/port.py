"""The opcodes of ports: places in a network for who is no instance (contracts/neutron-api.md#ports)."""

from typing import Annotated

from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Opcode, Uuid
from gantry.model.opcodes.segment import RangeTags, Text

Address = Annotated[str, Meta(max_length=64)]
MacAddress = Annotated[str, Meta(max_length=17)]


class FixedSpec(base.Part, frozen=True):
    """An address that a port shall have: any of a subnet (a UUID), this one, or this one of that subnet."""

    subnet: Annotated[str, Meta(max_length=36)] = ""
    ip: Address = ""


Fixed = Annotated[tuple[FixedSpec, ...], Meta(max_length=64)]


class PortSpec(base.Part, frozen=True):
    """A port to make in a network, which is named by name or UUID.

    Without ``fixed`` it gets one address of each IP version that the network has subnets of, and one of each subnet
    whose guests make their own; with an empty list none. What the guests of a subnet make up is made of ``mac``.
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
    """Make ports, all of them or none; the result is a list of what was made."""

    ports: Annotated[tuple[PortSpec, ...], Meta(min_length=1, max_length=4096)]


class PortSetParams(Opcode, frozen=True):
    """Change a port, by its UUID or a name that no other has; the result is what it became.

    Of ``fixed`` an address that the port has stays, as does one where any of a subnet is asked for.
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
    """Remove a port, by its UUID or a name that no other has; its addresses are free again."""

    DESCRIBES = "port"

    port: Text
