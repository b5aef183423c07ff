"""The opcodes of instances."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Allocator, Name, Opcode, Size, Tags
from gantry.model.opcodes.disk import DiskChange, DiskSpec


class NicSpec(base.Part, frozen=True):
    """A NIC to create; an ``ip`` is an address, ``pool`` or a pool's name.

    A ``port``, by UUID or unique name, becomes the NIC, with its network, MAC address and addresses.
    See contracts/networks.md#several-addresses-of-a-nic.
    """

    mac: Annotated[str, Meta(max_length=17)] = "auto"
    ip: str | Annotated[tuple[str, ...], Meta(max_length=64)] | None = None
    network: Annotated[str, Meta(max_length=255)] | None = None
    mode: Annotated[str, Meta(max_length=32)] | None = None
    link: Annotated[str, Meta(max_length=64)] | None = None
    vlan: Annotated[str, Meta(max_length=64)] | None = None
    bridge: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    port: Annotated[str, Meta(max_length=255)] | None = None


class InstanceCreate(Opcode, frozen=True):
    """Create an instance: record it, create its disks, install its operating system, start it."""

    DESCRIBES = "instance_name"

    instance_name: Name
    mode: Annotated[Literal["create", "import"], Meta(description="Create a new instance, or import an export")] = (
        "create"
    )
    disks: Annotated[tuple[DiskSpec, ...], Meta(max_length=16)] = ()
    nics: Annotated[tuple[NicSpec, ...], Meta(max_length=8)] = ()
    disk_template: Annotated[str, Meta(max_length=32)] | None = None
    os_type: Annotated[str, Meta(max_length=255)] | None = None
    pnode: Annotated[str, Meta(max_length=255)] | None = None
    snode: Annotated[str, Meta(max_length=255, description="Secondary node of mirrored disks")] | None = None
    group_name: Annotated[str, Meta(max_length=255)] | None = None
    iallocator: Allocator | None = None
    hypervisor: Annotated[str, Meta(max_length=32)] | None = None
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    osparams: base.Parameters = {}
    osparams_private: base.Parameters = {}
    osparams_secret: base.Parameters = {}
    start: bool = True
    wait_for_sync: Annotated[bool, Meta(description="Wait until mirrored disks are in sync")] = True
    no_install: bool | None = None
    force: Annotated[bool, Meta(description="Allow externally reserved addresses")] = False
    conflicts_check: bool = True
    ignore_ipolicy: bool = False
    force_variant: bool = False
    tags: Tags = ()
    src_node: (
        Annotated[
            str, Meta(max_length=255, description="Set the node that has the export; by default all nodes are searched")
        ]
        | None
    ) = None
    src_path: (
        Annotated[str, Meta(max_length=4096, description="Set the name of the export; by default the instance's name")]
        | None
    ) = None


class InstanceRemove(Opcode, frozen=True):
    """Shut an instance down, remove its disks and release its addresses."""

    DESCRIBES = "instance_name"

    instance_name: Name
    ignore_failures: bool = False
    shutdown_timeout: Annotated[int, Meta(ge=0, le=86400)] = 120


class InstanceStartup(Opcode, frozen=True):
    """Start an instance; the parameters apply to this start only."""

    DESCRIBES = "instance_name"

    instance_name: Name
    force: bool = False
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    no_remember: bool = False
    startup_paused: bool = False


class InstanceShutdown(Opcode, frozen=True):
    """Shut an instance down; a guest that still runs after ``timeout`` seconds is killed."""

    DESCRIBES = "instance_name"

    instance_name: Name
    force: bool = False
    timeout: Annotated[int, Meta(ge=0, le=86400)] = 120
    no_remember: bool = False


class InstanceReboot(Opcode, frozen=True):
    """Restart an instance: soft asks the guest, hard stops and starts it, full also activates its disks again."""

    DESCRIBES = "instance_name"

    instance_name: Name
    reboot_type: Literal["soft", "hard", "full"] = "hard"
    ignore_secondaries: bool = False
    shutdown_timeout: Annotated[int, Meta(ge=0, le=86400)] = 120


class InstanceReinstall(Opcode, frozen=True):
    """Reinstall the operating system of a stopped instance, or install another one; the data on its disks is lost.

    The parameters change those of the instance; the value ``default`` resets a parameter.
    """

    DESCRIBES = "instance_name"

    instance_name: Name
    os_type: Annotated[str, Meta(max_length=255)] | None = None
    osparams: base.Parameters = {}
    osparams_private: base.Parameters = {}
    osparams_secret: base.Parameters = {}
    force_variant: bool = False


class InstanceRename(Opcode, frozen=True):
    """Rename a stopped instance; the rename script of its operating system changes the name on its disks."""

    DESCRIBES = "instance_name"

    instance_name: Name
    new_name: Name


class InstanceConsole(Opcode, frozen=True):
    """Return how to connect to an instance's console."""

    DESCRIBES = "instance_name"

    instance_name: Name


class NicMod(base.Part, frozen=True):
    """The changes of a NIC, or the values of a new NIC for ``add``. Fields that are None stay unchanged.

    ``ip`` as text changes the first address, as a list all addresses, and as a dictionary the addresses with these
    indices; ``none`` removes an address (contracts/networks.md#several-addresses-of-a-nic). A NIC that gets another
    ``network`` (``none`` for no network) loses its addresses. A ``port`` is for new NICs only.
    """

    mac: Annotated[str, Meta(max_length=17)] | None = None
    ip: (
        str | Annotated[tuple[str, ...], Meta(max_length=64)] | Annotated[dict[str, str], Meta(max_length=64)] | None
    ) = None
    network: Annotated[str, Meta(max_length=255)] | None = None
    mode: Annotated[str, Meta(max_length=32)] | None = None
    link: Annotated[str, Meta(max_length=64)] | None = None
    vlan: Annotated[str, Meta(max_length=64)] | None = None
    bridge: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    port: Annotated[str, Meta(max_length=255)] | None = None


class NicChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """``[action, id, {...}]``, or the older ``[action, {...}]`` (contracts/opcodes.md#device-modifications).

    The action is ``add``, ``modify`` or ``remove``; in the older form it may be an index, which means ``modify``. The
    id is an index, -1 for the last NIC (for ``add``, after the last), a name or a UUID; the older form means the last.
    """

    action: Annotated[str | int, Meta(description="The action")]
    target: Annotated[str | int | NicMod, Meta(description="The NIC; in the older form its values")]
    nic: Annotated[NicMod, Meta(description="Values of the NIC")] = NicMod()


class InstanceSetParams(Opcode, frozen=True):
    """Change the NICs, disks and parameters of an instance. The value ``default`` resets a parameter."""

    DESCRIBES = "instance_name"

    instance_name: Name
    nics: Annotated[tuple[NicChange, ...], Meta(max_length=64, description="Changes of NICs, applied in order")] = ()
    disks: Annotated[tuple[DiskChange, ...], Meta(max_length=64, description="Changes of disks, applied in order")] = ()
    disk_template: (
        Annotated[str, Meta(max_length=32, description="Disk template to convert the disks of a stopped instance to")]
        | None
    ) = None
    remote_node: Annotated[str, Meta(max_length=255, description="Secondary node of converted disks")] | None = None
    iallocator: (
        Annotated[str, Meta(max_length=255, description="Let an allocator choose the secondary node")] | None
    ) = None
    ext_params: Annotated[
        base.Parameters, Meta(description="Storage provider of the converted disks, and its parameters")
    ] = {}
    wait_for_sync: Annotated[bool, Meta(description="Wait until new disks are in sync")] = True
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    osparams: base.Parameters = {}
    osparams_private: base.Parameters = {}
    force: Annotated[
        bool,
        Meta(description="Allow externally reserved addresses, and keep a disk copy that may be incomplete"),
    ] = False
    hotplug: Annotated[bool, Meta(description="Change the NICs of a running instance at once, if possible")] = True
    hotplug_if_possible: Annotated[bool, Meta(description="Older form of hotplug")] = False
    conflicts_check: bool = True
    ignore_ipolicy: bool = False
    runtime_mem: Annotated[Size | None, Meta(description="New memory of the running guest, in MiB")] = None
    offline: Annotated[bool | None, Meta(description="Mark a stopped instance offline: nothing will start it")] = None


class InstanceQueryData(Opcode, frozen=True):
    """Describe instances in full, with the state that their nodes report unless ``static`` is set."""

    instances: Annotated[tuple[Name, ...], Meta(max_length=10000)] = ()
    static: bool = False
    use_locking: bool = False
