"""Every copy of the state, as it would survive: the frames that are on stable storage, machine by machine.

The simulation looks at the disks from outside and believes no daemon: what a client was told must be found here. A
frame is known by its chain hash, which tells all before it too, so a copy is a chain that ends somewhere. Files are
read as far as they have grown since the last look.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gantry.model import instance
from gantry.sim import cluster
from gantry.state import frame, journal


class _Input(msgspec.Struct):
    comment: str | None = None


class _Step(msgspec.Struct):
    input: _Input
    status: str = "queued"


class _Job(msgspec.Struct):
    id: int
    ops: list[_Step]

    @property
    def status(self) -> str:
        """Return the end of the job, or ``queued`` while it has none (contracts/jobs.md#status)."""
        ends = [step.status for step in self.ops]
        failed = [end for end in ends if end in ("error", "canceled")]
        return "success" if set(ends) == {"success"} else failed[0] if failed else "queued"


class _Cause(msgspec.Struct):
    job: int = 0
    reason: str = ""


class _Record(msgspec.Struct):
    serial: int
    time: float
    epoch: int
    cause: _Cause
    changes: list[tuple[str, str, msgspec.Raw]]


class _Position(msgspec.Struct):
    serial: int
    digest: str
    epoch: int


class _Checkpoint(msgspec.Struct):
    journal: _Position


_RECORD = msgspec.json.Decoder(_Record)
_JOB = msgspec.json.Decoder(_Job)
_INSTANCE = msgspec.json.Decoder(instance.Instance)
_KEY = msgspec.json.Decoder(str)
_CHECKPOINT = msgspec.json.Decoder(_Checkpoint)
_BEGUN = re.compile(r"node (\S+) confirmed as master")
"""The reason that the first record of an epoch gives."""

ACCEPTED = "queued"
"""What the first record of a job says of it, unless it has its end already."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: the one before it, serial and epoch of its last record, ends of jobs by number and tag, instances.

    ``instances`` are those that were put, ``archived`` the jobs that left the queue, ``master`` the machine that began
    the epoch with this frame, empty for the frames that follow; ``last_job`` is the highest number of a job so far.
    """

    digest: str
    previous: str
    serial: int
    epoch: int
    time: float
    jobs: tuple[tuple[int, str, str], ...]
    instances: tuple[instance.Instance, ...]
    archived: frozenset[int]
    master: str
    last_job: int


@dataclass
class _Segment:
    """What was read of a segment: its bytes, which frame its first one follows, and the last."""

    data: bytes = b""
    after: str = ""
    end: str = ""


@dataclass
class _Copy:
    config: bytes = b""
    base: str = ""
    serial: int = 0
    segments: dict[str, _Segment] = field(default_factory=dict)


class Copies:
    """The copies on all machines of a cluster."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._copies: dict[str, _Copy] = defaultdict(_Copy)
        self._index: dict[tuple[int, str, str], list[str]] = defaultdict(list)
        self.frames: dict[str, Frame] = {}
        # who began an epoch, ever, by its number
        self.begun: dict[int, set[str]] = defaultdict(set)
        # jobs that have changed something before they were stored
        self.unheard: list[int] = []

    def end(self, name: str) -> str:
        """Return the chain hash where a machine's copy ends; empty where there is none."""
        disk, copy = self._lab.world.machine(name).disk, self._copies[name]
        config = disk.stable(cluster.FOLDERS.config)
        if config is None:
            return ""
        if config != copy.config:
            position = _CHECKPOINT.decode(config).journal
            copy.config, copy.base, copy.serial = config, position.digest, position.serial
        end = copy.base
        for first in sorted(int(one[:16]) for one in disk.stable_names(cluster.FOLDERS.journal)):
            path = journal.segment_path(cluster.FOLDERS.journal, first)
            found = self._read(copy, path, disk.stable(path) or b"")
            if first > copy.serial and found.end:
                if found.after != end:
                    break
                end = found.end
        return end

    def _read(self, copy: _Copy, path: str, data: bytes) -> _Segment:
        """Read what is new in a segment, as far as each frame follows the one before it: no daemon would read more."""
        known = copy.segments.setdefault(path, _Segment())
        if not data.startswith(known.data):
            known.data, known.after, known.end = b"", "", ""
        for line in _whole_lines(data[len(known.data) :]):
            digest = self._learn(line)
            previous = self.frames[digest].previous
            if known.end and previous != known.end:
                break
            known.after, known.end = known.after or previous, digest
            known.data += line
        return known

    def _learn(self, line: bytes) -> str:
        """Take in a frame; return its chain hash."""
        digest = frame.digest(line)
        if digest not in self.frames:
            (one,) = frame.scan(line)
            records = [_RECORD.decode(raw) for raw in one.records]
            last = records[-1]
            changes = [change for record in records for change in record.changes]
            jobs = [_JOB.decode(value) for verb, kind, value in changes if (verb, kind) == ("put", "jobs")]
            vms = [_INSTANCE.decode(value) for verb, kind, value in changes if (verb, kind) == ("put", "instances")]
            gone = [_KEY.decode(value) for verb, kind, value in changes if (verb, kind) == ("delete", "jobs")]
            told = tuple((job.id, job.ops[0].input.comment or "", job.status) for job in jobs)
            begun = [found[1] for record in records if (found := _BEGUN.fullmatch(record.cause.reason))]
            at_work = max(record.cause.job for record in records)
            before = self.frames.get(one.previous)
            last_job = max([before.last_job if before else at_work, *(job.id for job in jobs)])
            if at_work > last_job:
                self.unheard.append(at_work)
            self.frames[digest] = Frame(
                digest,
                one.previous,
                last.serial,
                last.epoch,
                last.time,
                told,
                tuple(vms),
                frozenset(map(int, gone)),
                begun[0] if begun else "",
                last_job,
            )
            self.begun[last.epoch].update(begun)
            for key in told:
                self._index[key].append(digest)
        return digest

    def follows(self, end: str, digest: str) -> bool:
        """Tell whether the chain that ends with ``end`` has ``digest`` in it."""
        wanted = self.frames[digest].serial
        while end in self.frames and self.frames[end].serial > wanted:
            end = self.frames[end].previous
        return end == digest

    def find(self, name: str, number: int, tag: str, *, status: str) -> Frame | None:
        """Return the first frame of a machine's copy in which a job has a status."""
        end = self.end(name)
        found = [one for one in self._index[number, tag, status] if self.follows(end, one)]
        return self.frames[min(found, key=lambda one: self.frames[one].serial)] if found else None

    def archiving(self, end: str, number: int) -> Frame | None:
        """Return the frame with which a job left the queue, in the chain that ends with ``end``."""
        return next((one for one in self.chain(end) if number in one.archived), None)

    def successor(self, end: str, digest: str) -> str:
        """Return who began the first later epoch of the chain that ends with ``end``, where it has left a frame's own.

        Empty where no later epoch has begun there.
        """
        ours = {one.digest for one in self.chain(digest)}
        apart = itertools.takewhile(lambda one: one.digest not in ours, self.chain(end))
        later = [one for one in apart if one.epoch > self.frames[digest].epoch]
        return later[-1].master if later else ""

    def chain(self, end: str) -> Iterator[Frame]:
        """Yield the frames of a chain, the newest first."""
        while end in self.frames:
            yield self.frames[end]
            end = self.frames[end].previous


def _whole_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines that are whole: what is torn behind them may go on later, or be cut off."""
    for line in data.splitlines(keepends=True):
        try:
            list(frame.scan(line))
        except frame.DamageError:
            return
        yield line
