"""The calls that bring the cluster's own files to its nodes: ssconf, papers, and the candidates' copies of the state.

``node.membership.ssconf`` and ``node.membership.replica`` keep them; ``state.candidates.replication`` describes the
duties of a candidate. ``StopMaster`` and ``MasterName`` are what a change of master needs beside them.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from gantry.rpc.calls import proofs
from gantry.rpc.calls.base import FAST, Call, Count, Epoch, Message
from gantry.rpc.calls.texts import Content, Line, Name, Path
from gantry.runtime import retention


class WriteSsconf(Call[None], frozen=True):
    """Replace the ssconf files: key to content."""

    values: dict[Name, Content]


def digest_of(value: str) -> str:
    """Return the digest of an ssconf value: the SHA-256 of its file, which ends with one newline."""
    return hashlib.sha256(f"{value.rstrip(chr(10))}\n".encode()).hexdigest()


@functools.lru_cache(maxsize=8)
def nodes_by_key(lines: str) -> Mapping[str, str]:
    """Return the UUIDs of nodes by their keys.

    Each line is UUID=key, as in the ssconf files about keys and in the calls' ``masters``; others do not count.
    """
    pairs = [line.partition("=") for line in lines.splitlines()]
    return {key: uuid for uuid, _, key in pairs if key}


class LineChange(Message, frozen=True):
    """Lines to remove from an ssconf file and lines to add; all lines are sorted."""

    removed: tuple[Content, ...] = ()
    added: tuple[Content, ...] = ()


class UpdateSsconf(Call[tuple[str, ...]], frozen=True):
    """Bring the ssconf files up to date; the result names those for which the changed ``lines`` are not enough.

    ``digests`` (``digest_of``) says what each file is to hold. Those named in the result are as they were: the caller
    sends them whole (WriteSsconf).
    """

    digests: dict[Name, Line]
    lines: dict[Name, LineChange] = {}


class UploadFile(Call[None], frozen=True):
    """Write one of the cluster's own files (``authority.key`` and the like), by its bare name."""

    name: Name
    content: Content


class CandidateState(Message, frozen=True):
    """How far a master candidate's copy of the state reaches: serial, chain hash of that record, epoch, last job.

    ``heard`` is the highest proven epoch of a master that called the node; it may be above the copy's. ``unproven`` is
    the epoch of the master that the node obeys without a proof, 0 if there is none. ``given_up`` are epoch and serial
    of the furthest copy that the node once had and then deleted or replaced at the request of a master.
    ``acknowledged`` are those of the furthest acknowledged record of which a master has told the node.
    """

    serial: Count
    digest: str
    epoch: Epoch
    job: Count
    master: str
    heard: Epoch = 0
    given_up: tuple[Epoch, Count] = (0, 0)
    acknowledged: tuple[Epoch, Count] = (0, 0)
    unproven: Epoch = 0


class CandidateStatus(Call[CandidateState], frozen=True):
    """Return the end of a candidate's copy, and the node that it regards as the master."""

    FENCED: ClassVar[bool] = False  # a vote asks before there is an epoch
    READS: ClassVar[bool] = True


class GrantedEpoch(Message, frozen=True):
    """What a node granted, as ``lib/promise`` keeps it: to obey no master of an earlier epoch than this node's.

    Grants of earlier versions are without the ``uuid`` of the node.
    """

    epoch: Epoch = 0
    node: str = ""
    uuid: str = ""


class GrantReply(Message, frozen=True):
    """The answer to GrantEpoch; ``epoch`` is the highest that the node has granted to any node.

    ``lease`` is the lease of another master that does not allow the grant yet. ``grant`` is the signed grant; nodes
    of earlier versions sign none.
    """

    granted: bool
    epoch: Epoch
    lease: "LeaseState | None" = None
    grant: proofs.Grant | None = None


class GrantEpoch(Call[GrantReply], frozen=True):
    """Ask a node to refuse records of epochs below ``epoch``, and to grant that epoch to no other node.

    ``newest`` is the end of the caller's copy, epoch and serial: a node with a longer copy refuses, and one that has
    heard that more was acknowledged. So does a node that
    has granted the lease to another master, as long as it lasts, unless no master daemon runs on that node: ``stopped``
    has the nodes of which that is known, with the epoch up to which it is.

    A node that has granted the epoch to the caller, or obeys the caller in it, signs the grant again.
    """

    FENCED: ClassVar[bool] = False  # it asks for an epoch to come
    WIRE_NAME: ClassVar[str] = "master_promise"

    epoch: Epoch
    node: Name
    newest: tuple[Epoch, Count]
    stopped: dict[Name, Epoch] = {}


LEASE_SECONDS = 10.0
"""For how long a master candidate that has granted the lease to a master helps no other node to become the master."""


class LeaseState(Message, frozen=True):
    """A lease that a node granted: the master, its epoch, and for how many seconds it may last.

    For ``loyal_seconds`` the node will not obey the caller without a proof.
    """

    node: str = ""
    epoch: Epoch = 0
    seconds: float = 0.0
    loyal_seconds: float = 0.0

    def seconds_to_wait(self, node: str, *, stopped: Mapping[str, int]) -> float:
        """Return for how long ``node`` may not have the role because of this lease; see ``GrantEpoch``."""
        is_free = self.node == node or stopped.get(self.node, -1) >= self.epoch
        return 0.0 if is_free else self.seconds


class LeaseRenew(Call[None], frozen=True):
    """Grant the lease to the master for ``LEASE_SECONDS`` from the arrival of the call; refused as JournalAppend is.

    ``masters`` are the keys of the master candidates: those who may decide about the next master know each other.
    """

    FENCED: ClassVar[bool] = False  # the replica compares the epoch in the call
    node: Name
    epoch: Epoch
    masters: tuple[Line, ...] = ()


class LeaseStatus(Call[LeaseState], frozen=True):
    """Return the lease that a node granted last."""

    FENCED: ClassVar[bool] = False  # a vote asks before there is an epoch
    READS: ClassVar[bool] = True


class JournalAppend(Call[CandidateState], frozen=True):
    """Append frames of the journal, verbatim, to a candidate's copy: ``frame`` is one line or more.

    ``begins_section`` says that the master's journal has a section that begins with the first of them, so that the
    candidate's sections begin with the same records. Refused when ``epoch`` is lower than the candidate has seen
    (FencedError) or granted, or belongs to another node (NotGrantedError); when ``previous`` is not the hash the copy
    ends with nothing is written, and the result shows where it ends.

    ``replaces`` is the hash that the copy ends with if the master's journal has the frame ``previous``, but not those
    after it: the candidate cuts these off first. It does not, and nothing is written, if its checkpoint includes them,
    if one of them has the epoch of the call or a later one, if the first of them is also the first of ``frame``, or if
    a job's file cannot return to what it was. Older nodes do not know the field, and write nothing.
    """

    FENCED: ClassVar[bool] = False  # the replica compares the epoch in the call
    epoch: Epoch
    previous: Line
    frame: Content
    begins_section: bool = msgspec.field(default=False, name="begins_segment")
    replaces: Line = ""


class CheckpointStore(Call[CandidateState], frozen=True):
    """Send a checkpoint to a candidate, in parts: pieces of ``config.data``, files of the queue by name.

    Archived jobs among them (``archive/0/job-7``) are added to those that the candidate has. ``digest`` is the SHA-256
    of the whole ``config.data``. The candidate keeps its copy until the ``last`` part has arrived. With ``replace`` the
    checkpoint then takes the place of the copy and of its journal. Without, only the copy's own checkpoint is replaced
    and the journal stays, frames that were appended meanwhile included; a checkpoint that is not the end of one of the
    copy's sections is ignored. ProtocolError for a part that does not follow the one before it: then the whole has to
    be sent again.
    """

    FENCED: ClassVar[bool] = False  # the replica compares the epoch in the call
    LIMIT: ClassVar[float] = FAST
    epoch: Epoch
    digest: Line
    replace: bool = True
    part: int = 0
    last: bool = True
    config: Content = ""
    jobs: dict[Path, Content] = {}


class JournalFetch(Call[tuple[str, ...]], frozen=True):
    """Ask for the frames that follow the one with chain hash ``after`` in a node's journal, in order.

    ``serial`` is that frame's last record: older sections are not searched. Empty when the journal does not have that
    frame, or ends with it. The result may be incomplete; the caller asks again.
    """

    FENCED: ClassVar[bool] = False  # a vote and a recovery read copies before there is an epoch
    READS: ClassVar[bool] = True
    after: Line
    serial: Count = 0


class ReplicaPrune(Call[int], frozen=True):
    """Remove the oldest sections and archived jobs of a candidate's copy that are beyond the limits.

    Records from serial ``before`` on stay, and so do those after the copy's own checkpoint. At most ``most`` archived
    jobs are removed; the result is their number, and the caller asks again if there may be more.
    """

    LIMIT: ClassVar[float] = FAST
    journal: retention.Retention
    archive: retention.Retention
    before: int
    most: int


class CopyPiece(Message, frozen=True):
    """A piece of a file of a copy; ``name`` is the path below the folder of the copy, such as ``queue/job-7``."""

    name: str
    offset: int
    content: bytes


class CopyPart(Message, frozen=True):
    """A part of a candidate's copy; ``following`` is where the next part begins, None after the last."""

    pieces: tuple[CopyPiece, ...]
    following: tuple[str, int] | None = None


class CopyFetch(Call[CopyPart], frozen=True):
    """Ask for the files of a node's copy of the state, in parts of about 1 MiB: checkpoint, journal and queue.

    The part begins at byte ``offset`` of the file ``name``; without a name, with the first file. WrongStateError if the
    node has no copy, or a master daemon runs there.
    """

    FENCED: ClassVar[bool] = False  # a recovery reads copies while there is no master
    READS: ClassVar[bool] = True
    name: Path = ""
    offset: int = 0


class NodeDemote(Call[None], frozen=True):
    """Delete the files of a master candidate: its copy of the state, the authority's key, the list of users."""


class StopMaster(Call[bool], frozen=True):
    """End the master daemon of a node, by force after ``patience`` seconds; False when none runs there."""

    FENCED: ClassVar[bool] = False  # a node whose master daemon runs grants no epoch, so the daemon ends before
    patience: float = 10.0

    @classmethod
    def needs_permit(cls) -> bool:
        """Return True: a request to stop that arrives late would stop a later master."""
        return True


class MasterName(Call[str], frozen=True):
    """Ask a node which node it regards as the master (contracts/node-rpc.md#master-confirmation)."""

    FENCED: ClassVar[bool] = False  # a vote asks before there is an epoch
    READS: ClassVar[bool] = True
