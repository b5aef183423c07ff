"""The calls from master to node: one typed declaration each, with arguments, result and time limit.

The name of a call on the wire is its class name in lower case with underscores (``NodeInfo``: ``node_info``). A
call travels as ``POST /<name>`` with its fields as a JSON object; the answer is ``[true, result]`` or
``[false, [error class, arguments]]``. What the master sends is filled in: a node knows no defaults (design section
8), so the structures here are the node's whole view of an instance. Sizes are MiB.
"""

import re
from typing import ClassVar, Generic, Literal, TypeVar, get_args

import msgspec

Value = str | int | float | bool
Result_co = TypeVar("Result_co", covariant=True)

URGENT, FAST, NORMAL, SLOW = 60.0, 300.0, 900.0, 3600.0
"""Time limits in seconds (contract: node RPC transport)."""


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A structure that travels."""


class Call(Message, Generic[Result_co], frozen=True, kw_only=True):
    """A call that is answered with ``Result_co``; ``LIMIT`` is its time limit in seconds."""

    LIMIT: ClassVar[float] = URGENT

    @classmethod
    def procedure(cls) -> str:
        """Return the name on the wire."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def result_type(call: type[Call[Result_co]]) -> type[Result_co]:
    """Return the type of a call's result."""
    base = next(base for base in call.__orig_bases__ if get_args(base))  # type: ignore[attr-defined]
    result: type[Result_co] = get_args(base)[0]
    return result


class Address(Message, frozen=True):
    """An address of a NIC with the subnet it comes from; ``gateway`` is empty where there is none."""

    ip: str
    subnet: str = ""
    gateway: str = ""
    dhcp: bool = False


class Subnet(Message, frozen=True):
    """A subnet of a NIC's network; ``gateway`` is empty where there is none."""

    cidr: str
    gateway: str = ""


class Network(Message, frozen=True):
    """The network that a NIC is plugged in; ``subnets`` are the first of each address family."""

    name: str
    uuid: str
    mac_prefix: str = ""
    tags: tuple[str, ...] = ()
    subnets: tuple[Subnet, ...] = ()


class Nic(Message, frozen=True):
    """A NIC, filled."""

    index: int
    uuid: str
    mac: str
    mode: str
    link: str
    vlan: str = ""
    name: str = ""
    addresses: tuple[Address, ...] = ()
    network: Network | None = None


class Disk(Message, frozen=True):
    """A disk, filled; ``logical_id`` is its driver's name for it."""

    index: int
    uuid: str
    dev_type: str
    size: int
    mode: str = "rw"
    name: str = ""
    logical_id: tuple[str, ...] = ()
    params: dict[str, Value] = {}


class Instance(Message, frozen=True):
    """An instance, filled; ``primary_node`` and ``secondary_nodes`` are names, for scripts."""

    name: str
    uuid: str
    hypervisor: str
    os: str = ""
    disk_template: str = "diskless"
    primary_node: str = ""
    secondary_nodes: tuple[str, ...] = ()
    ctime: float = 0.0
    mtime: float = 0.0
    tags: tuple[str, ...] = ()
    hvparams: dict[str, Value] = {}
    beparams: dict[str, Value] = {}
    osparams: dict[str, Value] = {}
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()


class VersionInfo(Message, frozen=True):
    """Who answers: the node's name and the cluster's, both empty before it joined."""

    software: str
    node: str = ""
    cluster: str = ""


class Version(Call[VersionInfo], frozen=True):
    """Ask who is there."""


class Join(Call[str], frozen=True):
    """First half of joining: the token's secret is shown, a certificate request in PEM comes back.

    Only a node without a cluster answers it, over the certificate that its join token holds.
    """

    secret: str
    cluster: str
    node: str
    uuid: str
    address: str


class Enrol(Call[None], frozen=True):
    """Second half of joining: the node stores its certificate and the cluster's authority, both in PEM.

    From its answer on it listens with them and to nobody else.
    """

    secret: str
    certificate: str
    authority: str


class NodeLeave(Call[None], frozen=True):
    """Forget the cluster: certificates, ssconf and candidate's files go; a new join token is made."""


class StorageInfo(Message, frozen=True):
    """Room in a storage place, in MiB."""

    kind: str
    path: str
    free: int
    total: int


class NodeStatus(Message, frozen=True):
    """A node's resources: memory in MiB, processors, room per storage, boot id, what accelerates its guests."""

    bootid: str
    memory_total: int
    memory_free: int
    memory_node: int
    cpu_total: int
    cpu_node: int = 1
    cpu_sockets: int = 1
    storage: tuple[StorageInfo, ...] = ()
    accelerator: str = ""
    accelerator_reason: str = ""


class NodeInfo(Call[NodeStatus], frozen=True):
    """Ask for a node's resources; ``probe`` runs the accelerator's probe again."""

    probe: bool = False


class NodeVerify(Call[dict[str, list[str]]], frozen=True):
    """Check a node for what the cluster expects; the result maps a check to its complaints (contract: verify).

    Checks: ``hypervisor``, ``bridges`` (the names in ``bridges``), ``filelist``, ``time`` (``now``), ``storage``.
    """

    LIMIT: ClassVar[float] = FAST
    hypervisors: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    ssconf: dict[str, str] = {}
    now: float = 0.0


class WriteSsconf(Call[None], frozen=True):
    """Replace the ssconf files: key to content.

    Refused (WrongStateError) when ``epoch`` is lower than the node has seen: a master that was replaced must not tell
    anybody that it is the master. 0 is any.
    """

    values: dict[str, str]
    epoch: int = 0


class UploadFile(Call[None], frozen=True):
    """Write one of the cluster's own files (``authority.key`` and the like), by its bare name."""

    name: str
    content: str


class CandidateState(Message, frozen=True):
    """How far a master candidate's copy of the state reaches: serial, chain hash of that record, epoch, last job.

    ``heard`` is the epoch of the last master that wrote the node's ssconf files; it may be above the copy's.
    """

    serial: int
    digest: str
    epoch: int
    job: int
    master: str
    heard: int = 0


class CandidateStatus(Call[CandidateState], frozen=True):
    """Ask how far a candidate's copy reaches, and whom it takes for the master."""


class JournalAppend(Call[CandidateState], frozen=True):
    """Append one frame of the journal, verbatim, to a candidate's copy.

    Refused (WrongStateError) when ``epoch`` is lower than the candidate has seen; when ``previous`` is not the hash
    the copy ends with nothing is written, and the result shows where it ends.
    """

    epoch: int
    previous: str
    frame: str


class CheckpointStore(Call[CandidateState], frozen=True):
    """Replace a candidate's copy as a whole: configuration, job files by name, the serial's and epoch's state."""

    LIMIT: ClassVar[float] = FAST
    epoch: int
    config: str
    jobs: dict[str, str]


class JournalFetch(Call[tuple[str, ...]], frozen=True):
    """Ask for the frames that follow the one with chain hash ``after`` in a node's journal, in order.

    None when the journal does not have that frame, or ends with it. What comes may be cut short; the caller asks again.
    """

    after: str


class NodeDemote(Call[None], frozen=True):
    """Give up what a master candidate keeps: its copy of the state, the authority's key, the list of users."""


class StopMaster(Call[bool], frozen=True):
    """End the master daemon of a node, by force after ``patience`` seconds; False when none runs there."""

    patience: float = 10.0


class MasterName(Call[str], frozen=True):
    """Ask a node whom it takes for the master (contract: master confirmation)."""


class OsScript(Message, frozen=True):
    """An operating system definition as one node has it; ``problem`` says why it is not valid."""

    name: str
    path: str
    problem: str = ""
    variants: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    api_versions: tuple[int, ...] = ()
    hypervisors: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


class OsDiagnose(Call[tuple[OsScript, ...]], frozen=True):
    """List the OS definitions of a node."""


class OsValidate(Call[OsScript], frozen=True):
    """Look one OS definition up, by name without variant; raises NotFoundError."""

    name: str


class OsAdd(Call[str], frozen=True):
    """Run an OS definition's create script over an instance's disks; the result is the path of its log."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    reinstall: bool = False
    debug: int = 0


class HookResult(Message, frozen=True):
    """What became of a hook script: ``skipped``, ``failed`` or ``succeeded``, and the end of what it wrote."""

    script: str
    outcome: Literal["skipped", "failed", "succeeded"]
    output: str = ""


class HooksRun(Call[tuple[HookResult, ...]], frozen=True):
    """Run a node's hook scripts of a path, such as ``instance-add``, in the phase ``pre`` or ``post``."""

    LIMIT: ClassVar[float] = NORMAL
    path: str
    phase: Literal["pre", "post"]
    environment: dict[str, str]


class HypervisorValidate(Call[None], frozen=True):
    """Check filled hypervisor parameters on the node (the seed's ValidateParameters); raises InvalidError."""

    hypervisor: str
    hvparams: dict[str, Value]


class BlockdevPath(Call[tuple[str, ...]], frozen=True):
    """Return the logical ids that a template gives the disks of an instance on this node, without making them.

    ``uuids`` are those of the disks, in order.
    """

    dev_type: str
    instance: str
    uuids: tuple[str, ...]


class BlockdevCreate(Call[str], frozen=True):
    """Make a disk; the result is its path. Raises ExistsError, NoRoomError."""

    LIMIT: ClassVar[float] = SLOW
    disk: Disk
    owner: str


class BlockdevRemove(Call[None], frozen=True):
    """Remove a disk; one that is gone already is no error."""

    disk: Disk
    owner: str


class BlockdevFind(Call[bool], frozen=True):
    """Tell whether a disk is there."""

    disk: Disk


class NicValidate(Call[None], frozen=True):
    """Check that NICs can be plugged in; raises EnvironmentFaultError that names the bridge that is missing."""

    nics: tuple[Nic, ...]


class NicPlug(Call[None], frozen=True):
    """Plug a NIC into a running instance; one that is plugged in already is no error. Raises HypervisorError."""

    instance: Instance
    nic: Nic


class NicUnplug(Call[None], frozen=True):
    """Take a NIC out of a running instance; one that is not there is no error.

    Raises HypervisorError when the guest does not release it.
    """

    instance: Instance
    nic: Nic


class NicUpdate(Call[bool], frozen=True):
    """Connect the node's end of a NIC anew, for other addresses or another link; False when it is not plugged in."""

    instance: Instance
    nic: Nic


class RunningInstance(Message, frozen=True):
    """An instance as its hypervisor sees it: memory in MiB, virtual processors, state ``running`` or ``paused``.

    With ``hotplug`` NICs can be plugged into it and taken out while it runs.
    """

    name: str
    uuid: str
    hypervisor: str
    memory: int
    vcpus: int
    state: str
    accelerator: str = ""
    hotplug: bool = False


class InstanceList(Call[tuple[RunningInstance, ...]], frozen=True):
    """List what runs on a node."""

    hypervisors: tuple[str, ...]


class InstanceInfo(Call[RunningInstance | None], frozen=True):
    """Describe one running instance; None when it does not run."""

    hypervisor: str
    name: str


class InstanceStart(Call[None], frozen=True):
    """Start an instance; one that runs already is no error."""

    LIMIT: ClassVar[float] = FAST
    instance: Instance
    paused: bool = False


class InstanceShutdown(Call[None], frozen=True):
    """Ask an instance to power off, cut its power after ``timeout`` seconds; one that does not run is no error."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    timeout: float


class InstanceReboot(Call[None], frozen=True):
    """Restart an instance softly (``soft``) or by its hypervisor (``hard``)."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    kind: str
    timeout: float


class Console(Message, frozen=True):
    """How to reach a console: kind ``ssh``-less ``socat`` over a UNIX socket on the node, or a message why not."""

    instance: str
    kind: str
    host: str = ""
    command: tuple[str, ...] = ()
    message: str = ""


class InstanceConsole(Call[Console], frozen=True):
    """Ask for an instance's console."""

    instance: Instance


class TestDelay(Call[None], frozen=True):
    """Sleep."""

    LIMIT: ClassVar[float] = SLOW
    duration: float


ALL: tuple[type[Call[object]], ...] = tuple(Call.__subclasses__())
