"""The opcodes: one struct each, the single declaration that every door, command and page is made from.

The name on the wire is ``OP_`` and the class name in capitals (``InstanceCreate``: ``OP_INSTANCE_CREATE``), in the
key ``OP_ID``. Fields have the names, types and defaults that existing clients send (contract: opcodes); a field
that no opcode knows is refused with its path. Texts in ``Meta`` are shown to users by the doors and the reference.
"""

import re
from typing import Annotated, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta

from gantry import errors
from gantry.model import base

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+:@-]*$")]
Size = Annotated[int | str, Meta(description="MiB, or a number with the unit m, g or t")]
Tags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=1024)]


def _tag(class_name: str) -> str:
    return "OP_" + re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).upper()


class Dependency(msgspec.Struct, frozen=True, array_like=True):
    """A job that must have ended before; a negative id counts back in the same submission (contract: dependencies)."""

    job: int
    statuses: tuple[Literal["canceled", "success", "error"], ...] = ()


class Opcode(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="OP_ID",
    tag=_tag,
):
    """What every opcode takes; ``DESCRIBES`` names the field that its summary shows."""

    DESCRIBES: ClassVar[str] = ""

    dry_run: Annotated[bool, Meta(description="Show what would be done, change nothing")] = False
    debug_level: Annotated[int, Meta(ge=0, le=9)] | None = None
    priority: Annotated[int, Meta(ge=-20, le=19, description="Smaller goes first")] = 0
    depends: tuple[Dependency, ...] | None = None
    comment: Annotated[str, Meta(max_length=4096)] | None = None
    reason: tuple[tuple[str, str, int], ...] = ()

    @property
    def op_id(self) -> str:
        """Return the name on the wire."""
        return _tag(type(self).__name__)

    @property
    def summary(self) -> str:
        """Return the short form that job lists show, ``INSTANCE_CREATE(inst1)``."""
        short = self.op_id.removeprefix("OP_")
        return f"{short}({getattr(self, self.DESCRIBES)})" if self.DESCRIBES else short


class ClusterDestroy(Opcode, frozen=True):
    """Take the cluster apart: the nodes forget it, the master daemon ends."""


class ClusterVerify(Opcode, frozen=True):
    """Check configuration, nodes and instances, and log what is wrong."""

    error_codes: bool = False
    verbose: bool = False


class NodeAdd(Opcode, frozen=True):
    """Take a machine into the cluster: give it a certificate, a group and its files."""

    DESCRIBES = "node_name"

    node_name: Name
    primary_ip: Annotated[str, Meta(max_length=64, description="Address of the node daemon")] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 1811
    join_token: Annotated[str, Meta(max_length=16384, description="What the node's join-token file holds")] = ""
    group: Annotated[str, Meta(max_length=255)] = ""
    master_capable: bool = True
    vm_capable: bool = True


class NodeRemove(Opcode, frozen=True):
    """Send a node without instances out of the cluster."""

    DESCRIBES = "node_name"

    node_name: Name


class SubnetSpec(base.Part, frozen=True):
    """A subnet to add; ``pool`` makes a pool of all of it (networks seed "Multiple Subnets per Network")."""

    cidr: Annotated[str, Meta(max_length=64)]
    name: Annotated[str, Meta(max_length=255)] = ""
    gateway: Annotated[str, Meta(max_length=64)] = ""
    dhcp: bool = False
    pool: bool = False


class PoolSpec(base.Part, frozen=True):
    """A pool to add: a range ``first-last``, one address or a CIDR, in whatever subnet contains it."""

    range: Annotated[str, Meta(max_length=128)]
    name: Annotated[str, Meta(max_length=255)] = ""


class NetworkAdd(Opcode, frozen=True):
    """Create a network; without a subnet it is layer 2 only.

    ``network``, ``gateway``, ``network6`` and ``gateway6`` are the older form: a subnet each, with one pool over all
    of it (networks seed "Backwards Compatibility").
    """

    DESCRIBES = "network_name"

    network_name: Name
    subnets: Annotated[tuple[SubnetSpec, ...], Meta(max_length=256)] = ()
    pools: Annotated[tuple[PoolSpec, ...], Meta(max_length=256)] = ()
    network: str | None = None
    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: Annotated[str, Meta(max_length=17)] | None = None
    add_reserved_ips: Annotated[tuple[str, ...], Meta(max_length=4096)] | None = None
    conflicts_check: bool = True
    tags: Tags = ()


class NetworkRemove(Opcode, frozen=True):
    """Remove a network that no instance uses."""

    DESCRIBES = "network_name"

    network_name: Name
    force: bool = False


class NetworkConnect(Opcode, frozen=True):
    """Plug a network in at a node group."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name
    network_mode: Literal["bridged", "routed"]
    network_link: Annotated[str, Meta(min_length=1, max_length=64)]
    network_vlan: Annotated[str, Meta(max_length=64)] = ""
    conflicts_check: bool = True


class NetworkDisconnect(Opcode, frozen=True):
    """Unplug a network from a node group whose instances do not use it."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name


class NicSpec(base.Part, frozen=True):
    """A NIC to make; an ``ip`` is an address, ``pool`` or a pool's name (networks seed "Multiple IPs per NIC")."""

    mac: Annotated[str, Meta(max_length=17)] = "auto"
    ip: str | Annotated[tuple[str, ...], Meta(max_length=64)] | None = None
    network: Annotated[str, Meta(max_length=255)] | None = None
    mode: Annotated[str, Meta(max_length=32)] | None = None
    link: Annotated[str, Meta(max_length=64)] | None = None
    vlan: Annotated[str, Meta(max_length=64)] | None = None
    bridge: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None


class DiskSpec(base.Part, frozen=True):
    """A disk to make."""

    size: Size
    mode: Literal["rw", "ro", "w", "r"] = "rw"
    name: Annotated[str, Meta(max_length=255)] | None = None


class InstanceCreate(Opcode, frozen=True):
    """Create an instance: record it, make its disks, install its operating system, start it."""

    DESCRIBES = "instance_name"

    instance_name: Name
    mode: Literal["create"] = "create"
    disks: Annotated[tuple[DiskSpec, ...], Meta(max_length=16)] = ()
    nics: Annotated[tuple[NicSpec, ...], Meta(max_length=8)] = ()
    disk_template: Annotated[str, Meta(max_length=32)] | None = None
    os_type: Annotated[str, Meta(max_length=255)] | None = None
    pnode: Annotated[str, Meta(max_length=255)] | None = None
    group_name: Annotated[str, Meta(max_length=255)] | None = None
    hypervisor: Annotated[str, Meta(max_length=32)] | None = None
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    osparams: base.Parameters = {}
    start: bool = True
    no_install: bool | None = None
    force: Annotated[bool, Meta(description="Allow addresses that are reserved externally")] = False
    conflicts_check: bool = True
    force_variant: bool = False
    tags: Tags = ()


class InstanceRemove(Opcode, frozen=True):
    """Shut an instance down, remove its disks and free its addresses."""

    DESCRIBES = "instance_name"

    instance_name: Name
    ignore_failures: bool = False
    shutdown_timeout: Annotated[int, Meta(ge=0, le=86400)] = 120


class InstanceStartup(Opcode, frozen=True):
    """Start an instance; parameters given here hold for this start only."""

    DESCRIBES = "instance_name"

    instance_name: Name
    force: bool = False
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    no_remember: bool = False
    startup_paused: bool = False


class InstanceShutdown(Opcode, frozen=True):
    """Ask an instance to power off; after ``timeout`` seconds its power is cut."""

    DESCRIBES = "instance_name"

    instance_name: Name
    force: bool = False
    timeout: Annotated[int, Meta(ge=0, le=86400)] = 120
    no_remember: bool = False


class InstanceReboot(Opcode, frozen=True):
    """Restart an instance: soft in the guest, hard by the hypervisor, full with its disks and configuration."""

    DESCRIBES = "instance_name"

    instance_name: Name
    reboot_type: Literal["soft", "hard", "full"] = "hard"
    shutdown_timeout: Annotated[int, Meta(ge=0, le=86400)] = 120


class InstanceConsole(Opcode, frozen=True):
    """Say how to reach an instance's console."""

    DESCRIBES = "instance_name"

    instance_name: Name


class InstanceQueryData(Opcode, frozen=True):
    """Describe instances in full, with what their nodes say unless ``static``."""

    instances: Annotated[tuple[Name, ...], Meta(max_length=10000)] = ()
    static: bool = False
    use_locking: bool = False


class OsDiagnose(Opcode, frozen=True):
    """List operating systems and what each node has of them."""

    output_fields: tuple[str, ...]
    names: tuple[str, ...] = ()


class TestDelay(Opcode, frozen=True):
    """Sleep on the master, on nodes or both, holding the locks of those nodes unless ``no_locks``."""

    DESCRIBES = "duration"

    duration: Annotated[float, Meta(ge=0, le=86400)]
    on_master: bool = True
    on_nodes: tuple[str, ...] = ()
    repeat: Annotated[int, Meta(ge=0, le=1000)] = 0
    no_locks: bool = False


AnyOpcode = (
    ClusterDestroy
    | ClusterVerify
    | NodeAdd
    | NodeRemove
    | NetworkAdd
    | NetworkRemove
    | NetworkConnect
    | NetworkDisconnect
    | InstanceCreate
    | InstanceRemove
    | InstanceStartup
    | InstanceShutdown
    | InstanceReboot
    | InstanceConsole
    | InstanceQueryData
    | OsDiagnose
    | TestDelay
)

ALL: tuple[type[Opcode], ...] = get_args(AnyOpcode)


def decode(raw: object) -> AnyOpcode:
    """Parse one opcode from decoded JSON; numbers and truth values may be text (contract: value coercion).

    Raises InvalidError that names the field by its path.
    """
    try:
        op: AnyOpcode = msgspec.convert(raw, AnyOpcode, strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(
            f"opcode not valid: {error}", hint="see the reference of opcodes for its fields"
        ) from None
    return op


def encode(op: Opcode) -> dict[str, object]:
    """Return the opcode as JSON data, with ``OP_ID`` and every parameter that differs from its default."""
    data: dict[str, object] = msgspec.to_builtins(op)
    return data
