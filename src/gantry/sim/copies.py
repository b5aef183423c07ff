"""The copies of the state on stable storage, as frames, for each machine.

The simulation reads the disks from outside and does not rely on any daemon: acknowledged changes must be found here.
A frame is identified by its chain hash, which covers all frames before it, so a copy is identified by the hash of its
last frame. Of each file, only the data that is new since the last call is read.
"""

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gantry.lib_files import frame, journal_names
from gantry.model import instance
from gantry.sim import cluster


class _Input(msgspec.Struct):
    comment: str | None = None
    reason: list[tuple[str, str, int]] = []


DOORS = ("gnt:rapi:", "gnt:neutron:")
"""The beginnings of the sources in the reasons of jobs that came through a front end; its user follows."""


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
"""The reason in the first record of an epoch."""


def mark_of(raw: object) -> str:
    """Return the mark of the client that submitted an opcode: the user of a front end, or its comment.

    Jobs that a job submits inherit its user, and have a comment of their own.
    """
    return _mark(msgspec.convert(raw, _Input))


def _mark(op: _Input) -> str:
    users = [source.removeprefix(door) for source, _, _ in op.reason for door in DOORS if source.startswith(door)]
    return users[0] if users else op.comment or ""


ACCEPTED = "queued"
"""The status in the first record of a job, unless the job has already ended."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: the digest of the previous frame, serial and epoch of its last record, and the changes that matter here.

    ``jobs`` has the jobs that were put, as number, tag and status; ``instances`` the instances that were put;
    ``archived`` the jobs that left the queue. ``master`` is the machine that began the epoch with this frame, empty for
    all other frames; ``cause`` is the highest number of a job that made these changes.
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
    cause: int


@dataclass
class _Section:
    """The part of a section that was read: its bytes, the frame before its first frame, and its last frame."""

    data: bytes = b""
    after: str = ""
    end: str = ""


@dataclass
class _Copy:
    config: bytes = b""
    base: str = ""
    serial: int = 0
    sections: dict[str, _Section] = field(default_factory=dict)


class Copies:
    """The copies on all machines of a cluster."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._copies: dict[str, _Copy] = defaultdict(_Copy)
        self._index: dict[tuple[int, str, str], list[str]] = defaultdict(list)
        self.frames: dict[str, Frame] = {}
        # The machines that have ever begun an epoch, by its number.
        self.begun: dict[int, set[str]] = defaultdict(set)
        # The highest job number that was stored up to each frame, and the frames for which it is not known yet.
        self._last_jobs: dict[str, int] = {}
        self._unchecked: list[str] = []
        # The machines whose journals were pruned.
        self.pruned: set[str] = set()
        for name in lab.names:
            lab.world.machine(name).disk.on_remove = functools.partial(self._read_before_removal, name)

    def _read_before_removal(self, name: str, path: str) -> None:
        """Read a copy before one of its sections is removed, which may have frames that are new here."""
        if path.startswith(f"{cluster.FOLDERS.journal}/"):
            self.end(name)
            self.pruned.add(name)

    def end(self, name: str) -> str:
        """Return the chain hash at which a machine's copy ends; empty if the machine has no copy."""
        disk, copy = self._lab.world.machine(name).disk, self._copies[name]
        config = disk.stable(cluster.FOLDERS.config)
        if config is None:
            return ""
        if config != copy.config:
            position = _CHECKPOINT.decode(config).journal
            copy.config, copy.base, copy.serial = config, position.digest, position.serial
        end = copy.base
        for first in sorted(int(file[:16]) for file in disk.stable_names(cluster.FOLDERS.journal)):
            path = journal_names.path(cluster.FOLDERS.journal, first)
            section = self._read(copy, path, disk.stable(path) or b"")
            if first > copy.serial and section.end:
                if section.after != end:
                    break
                end = section.end
        return end

    def last_section(self, name: str) -> str:
        """Return the path of the section in which a machine's copy ends; empty if it ends with its checkpoint."""
        self.end(name)
        copy, folder = self._copies[name], cluster.FOLDERS.journal
        files = self._lab.world.machine(name).disk.stable_names(folder)
        paths = [f"{folder}/{file}" for file in files if int(file[:16]) > copy.serial]
        return max((path for path in paths if path in copy.sections and copy.sections[path].end), default="")

    def _read(self, copy: _Copy, path: str, data: bytes) -> _Section:
        """Read the new part of a section up to the first frame that does not follow its predecessor, as daemons do."""
        known = copy.sections.setdefault(path, _Section())
        if data == known.data:
            return known
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
        """Add a frame; return its chain hash."""
        digest = frame.digest(line)
        if digest not in self.frames:
            (scanned,) = frame.scan(line)
            records = [_RECORD.decode(raw) for raw in scanned.records]
            last = records[-1]
            changes = [change for record in records for change in record.changes]
            jobs = [_JOB.decode(value) for verb, kind, value in changes if (verb, kind) == ("put", "jobs")]
            vms = [_INSTANCE.decode(value) for verb, kind, value in changes if (verb, kind) == ("put", "instances")]
            gone = [_KEY.decode(value) for verb, kind, value in changes if (verb, kind) == ("delete", "jobs")]
            job_keys = tuple((job.id, _mark(job.ops[0].input), job.status) for job in jobs)
            begun = [match[1] for record in records if (match := _BEGUN.fullmatch(record.cause.reason))]
            self.frames[digest] = Frame(
                digest,
                scanned.previous,
                last.serial,
                last.epoch,
                last.time,
                job_keys,
                tuple(vms),
                frozenset(map(int, gone)),
                begun[0] if begun else "",
                max(record.cause.job for record in records),
            )
            self._unchecked.append(digest)
            self.begun[last.epoch].update(begun)
            for key in job_keys:
                self._index[key].append(digest)
        return digest

    def unstored(self) -> list[int]:
        """Return the jobs that have changes before they are stored, in frames that are new since the last call.

        All copies are read first: a candidate that received the whole state has no frames from before that, and those
        frames may be new in the copy of a machine that is read later.
        """
        for name in self._lab.names:
            self.end(name)
        new, self._unchecked = self._unchecked, []
        return [number for digest in new for number in self._check(digest)]

    def _check(self, digest: str) -> Iterator[int]:
        """Yield the jobs that have changes in the chain to a frame before the chain stores the job."""
        unknown = itertools.takewhile(lambda frame: frame.digest not in self._last_jobs, self.chain(digest))
        for each in reversed(list(unknown)):
            # The frames before the first were removed before the run began: what they stored is not known.
            before = self._last_jobs.get(each.previous, each.cause)
            last_job = self._last_jobs[each.digest] = max([before, *(number for number, _, _ in each.jobs)])
            if each.cause > last_job:
                yield each.cause

    def follows(self, end: str, digest: str) -> bool:
        """Return whether the chain that ends with ``end`` contains ``digest``."""
        serial = self.frames[digest].serial
        while end in self.frames and self.frames[end].serial > serial:
            end = self.frames[end].previous
        return end == digest

    def find(self, name: str, number: int, tag: str, *, status: str) -> Frame | None:
        """Return the first frame of a machine's copy in which a job has a status."""
        end = self.end(name)
        frames = [self.frames[digest] for digest in self._index[number, tag, status] if self.follows(end, digest)]
        return min(frames, key=lambda frame: frame.serial, default=None)

    def has(self, name: str, number: int, tag: str) -> bool:
        """Return whether a machine's copy has a job with this number and tag, in whatever status."""
        end = self.end(name)
        matching = (digests for key, digests in self._index.items() if key[:2] == (number, tag))
        return any(self.follows(end, digest) for digests in matching for digest in digests)

    def has_job(self, tag: str) -> bool:
        """Return whether any frame that any copy ever had stores a job with a tag."""
        return any(key[1] == tag for key in self._index)

    def archiving(self, end: str, number: int) -> Frame | None:
        """Return the frame in which a job left the queue, in the chain that ends with ``end``."""
        return next((frame for frame in self.chain(end) if number in frame.archived), None)

    def successor(self, end: str, digest: str) -> str:
        """Return the machine that began the first later epoch after the chain to ``end`` left the chain to ``digest``.

        Empty if no later epoch has begun there.
        """
        common = {frame.digest for frame in self.chain(digest)}
        apart = itertools.takewhile(lambda frame: frame.digest not in common, self.chain(end))
        later = [frame for frame in apart if frame.epoch > self.frames[digest].epoch]
        return later[-1].master if later else ""

    def chain(self, end: str) -> Iterator[Frame]:
        """Yield the frames of a chain, from the newest to the oldest."""
        while end in self.frames:
            yield self.frames[end]
            end = self.frames[end].previous


def _whole_lines(data: bytes) -> Iterator[bytes]:
    """Yield the complete lines; a torn line after them may be completed or cut off later."""
    for line in data.splitlines(keepends=True):
        try:
            list(frame.scan(line))
        except frame.DamageError:
            return
        yield line
