"""The calls about a node itself: who it is, how it joins and leaves a cluster, what it has, whether it is in order."""

from typing import Annotated, ClassVar

import msgspec

from gantry.rpc.calls.base import FAST, SLOW, Call, Count, Message
from gantry.rpc.calls.instance import Nic
from gantry.rpc.calls.texts import Content, Host, Line, Name, Path, Token


class VersionInfo(Message, frozen=True):
    """Who answers: the node's name and UUID and the cluster's name, all empty before it joined."""

    software: str
    node: str = ""
    uuid: str = ""
    cluster: str = ""


class Version(Call[VersionInfo], frozen=True):
    """Return software version and identity of a node."""

    FENCED: ClassVar[bool] = False  # the first call to a node, of any version, before there is an epoch
    READS: ClassVar[bool] = True
    ANY_PROTOCOL: ClassVar[bool] = True


class NodeClock(Call[float], frozen=True):
    """Return the time of day of a node without a cluster, in seconds since 1970."""

    FENCED: ClassVar[bool] = False  # a node without a cluster obeys no epoch
    READS: ClassVar[bool] = True


class Join(Call[str], frozen=True):
    """First half of joining: send the token's secret, return a certificate request in PEM.

    Only a node without a cluster answers it, over the certificate that its join token holds.
    """

    FENCED: ClassVar[bool] = False  # a node without a cluster obeys no epoch
    secret: Token
    cluster: Name
    node: Name
    uuid: Name
    address: Host


class Enrol(Call[None], frozen=True):
    """Second half of joining: the node stores its certificate and the cluster's authority, both in PEM.

    After its answer the node accepts only connections with certificates of that authority. ``masters`` are the keys of
    the master candidates, as the ssconf file ``master_candidates_certs`` will have them.
    """

    FENCED: ClassVar[bool] = False  # a node without a cluster obeys no epoch
    secret: Token
    certificate: Content
    authority: Content
    masters: tuple[Line, ...] = ()


Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$(?!\n)")]
Nonce = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Proven(Message, frozen=True):
    """The answer to a machine that has an invitation: the proof that it may trust this connection.

    A node that is not the master's has ``master``, the address and port of the node that is, instead.
    """

    proof: str = ""
    master: tuple[str, int] | None = None


class ProveInvitation(Call[Proven], frozen=True):
    """Ask a node of a cluster to prove that the cluster has made an invitation (``security.invitation``).

    A member answers it to clients without a certificate too. NotFoundError or WrongStateError if
    the invitation admits nobody.
    """

    FENCED: ClassVar[bool] = False  # a machine that joins is no master
    READS: ClassVar[bool] = True
    invitation: Id
    nonce: Nonce


class JoinProgress(Message, frozen=True):
    """The job that adds a machine: number, status, log messages (serial, seconds, text), the error that ended it."""

    job: int
    status: str
    log: tuple[tuple[int, int, str], ...] = ()
    error: tuple[str, list[object]] | None = None


class UseInvitation(Call[JoinProgress], frozen=True):
    """Ask to be added to the cluster: show the secret of an invitation, and the own join token.

    ``node`` is the machine's name, ``address`` its own, empty for the one that the connection comes from. The answer
    names a job; with its number in ``job``, the answer comes when the job has more log messages than ``serial``, has
    ended, or after some seconds. A member answers this to clients without a certificate too.
    """

    FENCED: ClassVar[bool] = False  # a machine that joins is no master
    secret: Token
    join_token: Annotated[str, msgspec.Meta(max_length=12288)]
    node: Name
    address: Host = ""
    job: Count = 0
    serial: Count = 0


class CertificateRequest(Call[str], frozen=True):
    """Return a certificate request in PEM, for the node's key or for a ``new_key``, which waits for its certificate."""

    new_key: bool = False


class CertificateStore(Call[None], frozen=True):
    """Replace the certificates of the authorities that the node trusts, and its own certificate unless it is empty.

    InvalidError if the certificate belongs to neither of the node's keys, or was issued by none of the authorities.
    """

    authority: Content
    certificate: Content = ""


class Voucher(Message, frozen=True):
    """The word of a master candidate: its certificate in PEM, and its signature, in hex, of what it vouches for.

    ``epoch`` is the proven epoch of the master that it vouches for.
    """

    epoch: int
    certificate: Content
    signature: Line


EARLIER_KEYS = 8
"""How many earlier keys a node keeps. Nodes that were away since then know it by them (``Vouch``)."""


class Vouch(Call[Voucher], frozen=True):
    """Ask a master candidate to sign the keys of the master candidates, ``masters``, for the node with UUID ``uuid``.

    The node that gets the signature (``MastersStore``) need not know the caller, but must know the candidate, by its
    key or by the one that it had ``earlier``, before that many renewals. WrongStateError without such a key, for a
    list that is not the candidate's own, and for a master whose epoch is not proven to it.
    """

    READS: ClassVar[bool] = True
    uuid: Name
    masters: tuple[Line, ...]
    earlier: Annotated[int, msgspec.Meta(ge=0, le=EARLIER_KEYS)] = 0


class MastersStore(Call[None], frozen=True):
    """Bring the keys of the master candidates to a node that was away while they changed.

    The node answers this call to every client with a certificate of the cluster's authority. It believes it only if the
    ``vouchers`` are from a majority of the candidates in its own list, and of a later epoch than it knows, or if the
    caller is the master that it obeys. Nodes of earlier versions look at ``voucher`` alone, and believe one candidate.
    """

    FENCED: ClassVar[bool] = False  # the node does not know the caller yet; the signatures decide
    masters: tuple[Line, ...]
    voucher: Voucher
    vouchers: tuple[Voucher, ...] = ()


class NodeLeave(Call[None], frozen=True):
    """Forget the cluster: remove certificates, ssconf and candidate's files, and create a new join token."""


class StorageUnit(Message, frozen=True):
    """A storage unit: a disk type, and the name of its source of space.

    The name is a volume group for ``plain`` and ``drbd``, a provider for ``ext``, and empty where a node has only one.
    """

    kind: Name
    name: Path = ""


class StorageInfo(Message, frozen=True):
    """Free and total space of a storage unit, in MiB; both are unknown with a ``problem``."""

    kind: str
    path: str
    free: int
    total: int
    problem: str = ""


FILES = (StorageUnit(kind="file"),)


class NodeStatus(Message, frozen=True):
    """A node's resources: memory in MiB, processors, free space of each storage unit, boot id.

    ``accelerator`` and its reason are set only if the call requested a probe.
    """

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
    """Ask for a node's resources; ``storage`` are the storage units to examine.

    ``probe`` also tests the accelerator, which takes a node some seconds where KVM does not work.
    """

    READS: ClassVar[bool] = True
    probe: bool = False
    storage: tuple[StorageUnit, ...] = FILES


ENDS_SOON = "ends in"
"""In the complaint about a certificate that is still valid."""


class NodeVerify(Call[dict[str, list[str]]], frozen=True):
    """Check a node for what the cluster expects; the result maps a check to its complaints.

    Checks: ``hypervisor``, ``bridges`` (the names in ``bridges``, and the networks of ``nics``, which represent all
    that are like them), ``filelist`` (``ssconf``: ``cluster.digest_of`` by key), ``time`` (``now``), ``storage`` (the
    units in ``storage``), ``certificates`` (those of the node, and with ``authority`` the cluster's, last for
    ``certificate_seconds``), ``copies`` (of the state, which the node has kept aside).

    See contracts/node-rpc.md#checks.
    """

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = FAST
    hypervisors: tuple[Name, ...] = ()
    bridges: tuple[Name, ...] = ()
    nics: tuple[Nic, ...] = ()
    ssconf: dict[Name, Line] = {}
    now: float = 0.0
    storage: tuple[StorageUnit, ...] = FILES
    certificate_seconds: float = 0.0
    authority: bool = False


class TestDelay(Call[None], frozen=True):
    """Sleep."""

    LIMIT: ClassVar[float] = SLOW
    duration: float
