"""Instances as a node sees them, filled, and the calls that run them.

``Instance`` with its disks and NICs is all that a node knows of an instance; sizes are MiB. The devices' own calls are
in ``device``.
"""

from typing import ClassVar

from gantry.rpc.calls.base import FAST, SLOW, Call, Message, Value
from gantry.rpc.calls.texts import Host, Line, Name, Path, Token


class Address(Message, frozen=True):
    """An address of a NIC with the subnet it comes from; ``gateway`` is empty where there is none."""

    ip: Host
    subnet: Line = ""
    gateway: Host = ""
    dhcp: bool = False


class Subnet(Message, frozen=True):
    """A subnet of a NIC's network; ``gateway`` is empty where there is none."""

    cidr: Line
    gateway: Host = ""


class Segment(Message, frozen=True):
    """The segment of a network on the wire; ``physical_network`` is empty for tunnels."""

    network_type: Name
    segmentation_id: int
    physical_network: Line = ""


class Network(Message, frozen=True):
    """The network that a NIC is plugged in; ``subnets`` are the first of each address family."""

    name: Line
    uuid: Name
    mac_prefix: Line = ""
    tags: tuple[Line, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    segment: Segment | None = None


class Nic(Message, frozen=True):
    """A NIC, filled: one of a VLAN segment has that as its ``vlan``.

    ``mtu`` is the longest packet of the guest, in bytes; 0 for the default.
    """

    index: int
    uuid: Name
    mac: Line
    mode: Name
    link: Name
    vlan: Line = ""
    name: Line = ""
    addresses: tuple[Address, ...] = ()
    network: Network | None = None
    mtu: int = 0


class Mirror(Message, frozen=True):
    """One node's end of a mirrored disk: its minor, both addresses, their port, and the secret that both know.

    Without ``remote`` it has no peer.
    """

    minor: int
    local: Host = ""
    remote: Host = ""
    port: int = 0
    secret: Token = ""


class Disk(Message, frozen=True):
    """A disk, filled; ``logical_id`` is its driver's name for it.

    A mirrored disk has ``children``, which hold its data and its metadata on the node, and ``mirror`` as that node
    has it.
    """

    index: int
    uuid: Name
    dev_type: Name
    size: int
    mode: Name = "rw"
    name: Line = ""
    logical_id: tuple[Path, ...] = ()
    params: dict[Line, Value] = {}
    children: tuple["Disk", ...] = ()
    mirror: Mirror | None = None


class Allowed(Message, frozen=True):
    """The allow-list of a parameter: its name, its entries and their form (``security.permits``)."""

    list: Line
    entries: tuple[Line, ...]
    form: Line


class Instance(Message, frozen=True):
    """An instance, filled; ``primary_node`` and ``secondary_nodes`` are names, for scripts.

    ``allowed`` has the allow-lists of the parameters that have one and do not have their built-in default.
    ``network_port`` is that of its VNC or SPICE server; 0 leaves it to the node.
    """

    name: Name
    uuid: Name
    hypervisor: Name
    os: Name = ""
    disk_template: Name = "diskless"
    primary_node: Name = ""
    secondary_nodes: tuple[Name, ...] = ()
    ctime: float = 0.0
    mtime: float = 0.0
    tags: tuple[Line, ...] = ()
    network_port: int = 0
    hvparams: dict[Line, Value] = {}
    allowed: dict[Line, Allowed] = {}
    beparams: dict[Line, Value] = {}
    osparams: dict[Line, Value] = {}
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()


class HypervisorValidate(Call[None], frozen=True):
    """Check filled hypervisor parameters on the node; raises InvalidError.

    See contracts/cluster-design.md#parameter-checks.
    """

    READS: ClassVar[bool] = True
    hypervisor: Name
    hvparams: dict[Line, Value]


class RunningInstance(Message, frozen=True):
    """An instance as its hypervisor sees it: memory in MiB as it is now, virtual processors, state.

    ``state`` is ``running`` or ``paused``, or where a migration is under way or was interrupted: at the source
    ``migrating`` (it runs) or ``migrated`` (it has left), at the target ``incoming`` or ``arrived`` (it is complete and
    waits for ``InstanceFinalizeMigrationDst``). With ``hotplug`` NICs and disks can be plugged in and taken out while
    it runs. ``devices`` are the MAC addresses of its NICs and the UUIDs of its disks, sorted; None if the hypervisor
    does not know them.
    """

    name: str
    uuid: str
    hypervisor: str
    memory: int
    vcpus: int
    state: str
    accelerator: str = ""
    hotplug: bool = False
    devices: tuple[str, ...] | None = None


class InstanceList(Call[tuple[RunningInstance, ...]], frozen=True):
    """List the instances that run on a node; an instance whose migration to the node is not finished does not.

    With ``names``, only those of them are examined; a node of an older version lists all.
    """

    READS: ClassVar[bool] = True
    hypervisors: tuple[Name, ...]
    names: tuple[Name, ...] | None = None


class InstanceInfo(Call[RunningInstance | None], frozen=True):
    """Describe a running or incoming instance; None when the node has neither."""

    READS: ClassVar[bool] = True
    hypervisor: Name
    name: Name


class InstanceMachine(Call[Instance | None], frozen=True):
    """Return a running instance as its node recorded it, with its present NICs and disks, without OS parameters.

    None when it does not run, or when an older node daemon started it and did not record its devices.
    """

    READS: ClassVar[bool] = True
    hypervisor: Name
    name: Name


class Ending(Message, frozen=True):
    """How an instance ended without a request; ``time`` is when the node noticed, in seconds since 1970.

    ``how`` is ``shutdown`` (its user switched it off from inside), ``crashed`` (its hypervisor died, or was killed) or
    ``unknown``; ``said`` is what the hypervisor wrote last.
    """

    name: str
    uuid: str
    hypervisor: str
    how: str
    time: float
    said: str = ""


class InstanceEndings(Call[tuple[Ending, ...]], frozen=True):
    """List the endings of instances that do not run; an ending is kept until the instance is started or stopped."""

    READS: ClassVar[bool] = True
    hypervisors: tuple[Name, ...]


class InstanceStart(Call[None], frozen=True):
    """Start an instance; an instance that runs already is not an error."""

    LIMIT: ClassVar[float] = FAST
    instance: Instance
    paused: bool = False


class InstanceShutdown(Call[None], frozen=True):
    """Ask an instance to power off, cut its power after ``timeout`` seconds; a stopped instance is not an error."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    timeout: float


class InstanceReboot(Call[None], frozen=True):
    """Restart an instance softly (``soft``) or by its hypervisor (``hard``)."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    kind: Name
    timeout: float


class InstanceBalloonMemory(Call[int], frozen=True):
    """Set the memory of a running instance to ``memory`` MiB and return its new size.

    Raises InvalidError outside of what it was started with and its ``minmem``, WrongStateError below what its guest
    uses, HypervisorError when the guest does not release memory in time.
    """

    instance: Instance
    memory: int

    def __post_init__(self) -> None:
        """Refuse an instance without its minimum."""
        if not isinstance(self.instance.beparams.get("minmem"), int):
            raise ValueError("the beparams of the instance have no number minmem")


class DiskPlug(Call[None], frozen=True):
    """Plug an active disk into a running instance; a disk that is plugged in already is not an error.

    Raises HypervisorError; then the disk is not plugged in.
    """

    instance: Instance
    disk: Disk


class DiskUnplug(Call[None], frozen=True):
    """Unplug a disk from a running instance; a missing disk is not an error.

    Raises HypervisorError when the guest does not release it.
    """

    instance: Instance
    disk: Disk


class DiskResize(Call[bool], frozen=True):
    """Notify a running instance that a disk has grown to ``disk.size`` MiB; False when it runs without that disk."""

    instance: Instance
    disk: Disk


class Console(Message, frozen=True):
    """How to reach a console on the node ``host``, by ``kind``.

    ``socat``, ``xl``, ``chroot``: ``command`` connects a terminal. ``vnc``, ``spice``: a server at ``port``; VNC counts
    by ``display``. ``message``: there is none, and why.
    """

    instance: str
    kind: str
    host: str = ""
    command: tuple[str, ...] = ()
    message: str = ""
    port: int = 0
    display: int = 0


class InstanceConsole(Call[Console], frozen=True):
    """Ask for an instance's console."""

    READS: ClassVar[bool] = True
    instance: Instance
