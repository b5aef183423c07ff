"""The opcodes of instances."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import (
    Allocator,
    AnyGroup,
    ConflictsCheck,
    DeviceName,
    IgnorePolicy,
    InstanceName,
    MacAddress,
    Name,
    NewName,
    Opcode,
    ShutdownTimeout,
    Size,
    Tags,
    Vlan,
    WaitForSync,
)
from gantry.model.opcodes.disk import DiskChange, DiskSpec

IpAddresses = Annotated[
    tuple[str, ...], Meta(max_length=64, description="IP addresses: each an address, pool, or the name of a pool")
]
NicNetwork = Annotated[str, Meta(max_length=255, description="Network of the NIC")]
NicMode = Annotated[
    str, Meta(max_length=32, description="NIC mode, bridged or routed; a NIC in a network has the network's mode")
]
NicLink = Annotated[
    str, Meta(max_length=64, description="Bridge or routing table; a NIC in a network has the network's link")
]
NicBridge = Annotated[str, Meta(max_length=64, description="Older name of the link of a bridged NIC")]
OsType = Annotated[str, Meta(max_length=255, description="Operating system, with its variant as in debian+minimal")]
OsParameters = Annotated[base.Parameters, Meta(description="Parameters of the operating system")]
PrivateOsParameters = Annotated[base.Parameters, Meta(description="OS parameters that are stored but never shown")]
SecretOsParameters = Annotated[
    base.Parameters, Meta(description="OS parameters for this job only; they are not stored")
]
ForceVariant = Annotated[bool, Meta(description="Accept an OS variant that the OS definition does not list")]
HypervisorParameters = Annotated[
    base.Parameters, Meta(description="Hypervisor parameters that differ from the cluster's")
]
BackendParameters = Annotated[base.Parameters, Meta(description="Backend parameters that differ from the cluster's")]
NoRemember = Annotated[bool, Meta(description="Do not change the recorded admin state")]


class NicSpec(base.Part, frozen=True):
    """A NIC to create; an ``ip`` is an address, ``pool`` or a pool's name.

    A ``port``, by UUID or unique name, becomes the NIC, with its network, MAC address and addresses.
    See contracts/networks.md#several-addresses-of-a-nic.
    """

    mac: MacAddress = "auto"
    ip: str | IpAddresses | None = None
    network: NicNetwork | None = None
    mode: NicMode | None = None
    link: NicLink | None = None
    vlan: Vlan | None = None
    bridge: NicBridge | None = None
    name: DeviceName | None = None
    port: (
        Annotated[
            str,
            Meta(max_length=255, description="Port that becomes the NIC, with its network, MAC address and addresses"),
        ]
        | None
    ) = None


class InstanceCreate(Opcode, frozen=True):
    """Create an instance: record it, create its disks, install its operating system, start it."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    mode: Annotated[
        Literal["create", "import"],
        Meta(description="Create a new instance, or import an export"),
    ] = "create"
    disks: Annotated[tuple[DiskSpec, ...], Meta(max_length=16, description="Disks")] = ()
    nics: Annotated[tuple[NicSpec, ...], Meta(max_length=8, description="NICs")] = ()
    disk_template: (
        Annotated[str, Meta(max_length=32, description="Disk template; by default the cluster's first")] | None
    ) = None
    os_type: OsType | None = None
    pnode: (
        Annotated[str, Meta(max_length=255, description="Primary node; by default the allocator chooses one")] | None
    ) = None
    snode: Annotated[str, Meta(max_length=255, description="Secondary node of mirrored disks")] | None = None
    group_name: AnyGroup | None = None
    iallocator: Allocator | None = None
    hypervisor: Annotated[str, Meta(max_length=32, description="Hypervisor; by default the cluster's first")] | None = (
        None
    )
    hvparams: HypervisorParameters = {}
    beparams: BackendParameters = {}
    osparams: OsParameters = {}
    osparams_private: PrivateOsParameters = {}
    osparams_secret: SecretOsParameters = {}
    start: Annotated[bool, Meta(description="Start the instance")] = True
    wait_for_sync: WaitForSync = True
    no_install: Annotated[bool | None, Meta(description="Do not run the operating system's scripts")] = None
    force: Annotated[bool, Meta(description="Allow externally reserved addresses")] = False
    conflicts_check: ConflictsCheck = True
    ignore_ipolicy: IgnorePolicy = False
    force_variant: ForceVariant = False
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

    instance_name: InstanceName
    ignore_failures: Annotated[
        bool, Meta(description="Continue although the node cannot stop the instance or remove its disks")
    ] = False
    shutdown_timeout: ShutdownTimeout = 120


class InstanceStartup(Opcode, frozen=True):
    """Start an instance; the parameters apply to this start only."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    force: Annotated[bool, Meta(description="Start the instance even if the node has too little free memory")] = False
    hvparams: Annotated[base.Parameters, Meta(description="Hypervisor parameters for this start only")] = {}
    beparams: Annotated[base.Parameters, Meta(description="Backend parameters for this start only")] = {}
    no_remember: NoRemember = False
    startup_paused: Annotated[bool, Meta(description="Start the guest paused")] = False


class InstanceShutdown(Opcode, frozen=True):
    """Shut an instance down; a guest that still runs after ``timeout`` seconds is killed."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    force: Annotated[bool, Meta(description="Power off at once, even if the node is marked offline")] = False
    timeout: ShutdownTimeout = 120
    no_remember: NoRemember = False


class InstanceReboot(Opcode, frozen=True):
    """Restart an instance: soft asks the guest, hard stops and starts it, full also activates its disks again."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    reboot_type: Annotated[
        Literal["soft", "hard", "full"],
        Meta(
            description="Reboot type: soft asks the guest, hard stops and starts it, full activates its disks again too"
        ),
    ] = "hard"
    ignore_secondaries: Annotated[
        bool, Meta(description="Restart the instance even if a secondary node does not answer")
    ] = False
    shutdown_timeout: ShutdownTimeout = 120


class InstanceReinstall(Opcode, frozen=True):
    """Reinstall the operating system of a stopped instance, or install another one; the data on its disks is lost.

    The parameters change those of the instance; the value ``default`` resets a parameter.
    """

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    os_type: OsType | None = None
    osparams: OsParameters = {}
    osparams_private: PrivateOsParameters = {}
    osparams_secret: SecretOsParameters = {}
    force_variant: ForceVariant = False


class InstanceRename(Opcode, frozen=True):
    """Rename a stopped instance; the rename script of its operating system changes the name on its disks."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    new_name: NewName


class InstanceConsole(Opcode, frozen=True):
    """Return how to connect to an instance's console."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName


class NicMod(base.Part, frozen=True):
    """The changes of a NIC, or the values of a new NIC for ``add``. Fields that are None stay unchanged.

    ``ip`` as text changes the first address, as a list all addresses, and as a dictionary the addresses with these
    indices; ``none`` removes an address (contracts/networks.md#several-addresses-of-a-nic). A NIC that gets another
    ``network`` (``none`` for no network) loses its addresses. A ``port`` is for new NICs only.
    """

    mac: MacAddress | None = None
    ip: str | IpAddresses | Annotated[dict[str, str], Meta(max_length=64)] | None = None
    network: NicNetwork | None = None
    mode: NicMode | None = None
    link: NicLink | None = None
    vlan: Vlan | None = None
    bridge: NicBridge | None = None
    name: Annotated[str, Meta(max_length=255, description="New name")] | None = None
    port: (
        Annotated[
            str,
            Meta(
                max_length=255, description="Port that becomes the new NIC, with its network, MAC address and addresses"
            ),
        ]
        | None
    ) = None


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

    instance_name: InstanceName
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
    hvparams: HypervisorParameters = {}
    beparams: BackendParameters = {}
    osparams: OsParameters = {}
    osparams_private: PrivateOsParameters = {}
    force: Annotated[
        bool,
        Meta(description="Allow externally reserved addresses, and keep a disk copy that may be incomplete"),
    ] = False
    hotplug: Annotated[bool, Meta(description="Change the NICs of a running instance at once, if possible")] = True
    hotplug_if_possible: Annotated[bool, Meta(description="Older form of hotplug")] = False
    conflicts_check: ConflictsCheck = True
    ignore_ipolicy: IgnorePolicy = False
    runtime_mem: Annotated[Size | None, Meta(description="New memory of the running guest, in MiB")] = None
    offline: Annotated[bool | None, Meta(description="Mark a stopped instance offline: nothing will start it")] = None


class InstanceQueryData(Opcode, frozen=True):
    """Describe instances in full, with the state that their nodes report unless ``static`` is set."""

    instances: Annotated[tuple[Name, ...], Meta(max_length=10000, description="Names; empty for all")] = ()
    static: Annotated[bool, Meta(description="Do not ask the nodes")] = False
    use_locking: Annotated[bool, Meta(description="Accepted for older clients; queries need no lock")] = False
