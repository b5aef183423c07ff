"""Every copy of the state, as it would survive: the frames that are on stable storage, machine by machine.

The simulation looks at the disks from outside and believes no daemon: what a client was told must be found here. A
frame is known by its chain hash, which tells all before it too, so a copy is a chain that ends somewhere. Files are
read as far as they have grown since the last look.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

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
        """Return the end of the job, or ``queued`` while it has none (contract: job status from opcodes)."""
        ends = [step.status for step in self.ops]
        failed = [end for end in ends if end in ("error", "canceled")]
        return "success" if set(ends) == {"success"} else failed[0] if failed else "queued"


class _Record(msgspec.Struct):
    serial: int
    time: float
    epoch: int
    changes: list[tuple[str, str, msgspec.Raw]]


class _Position(msgspec.Struct):
    serial: int
    digest: str
    epoch: int


class _Checkpoint(msgspec.Struct):
    journal: _Position


class _Guest(msgspec.Struct, frozen=True):
    uuid: str
    name: str


_RECORD = msgspec.json.Decoder(_Record)
_JOB = msgspec.json.Decoder(_Job)
_GUEST = msgspec.json.Decoder(_Guest)
_CHECKPOINT = msgspec.json.Decoder(_Checkpoint)

ACCEPTED = "queued"
"""What the first record of a job says of it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: the one before it, serial and epoch of its last record, ends of jobs by number and tag, instances.

    ``instances`` are the names of those that were put, by UUID.
    """

    digest: str
    previous: str
    serial: int
    epoch: int
    time: float
    jobs: tuple[tuple[int, str, str], ...]
    instances: dict[str, str]


@dataclass
class _Segment:
    data: bytes = b""
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
            if first > copy.serial and found:
                end = found
        return end

    def _read(self, copy: _Copy, path: str, data: bytes) -> str:
        """Return where a segment ends, reading what is new in it."""
        known = copy.segments.setdefault(path, _Segment())
        if data != known.data:
            grown = data.startswith(known.data)
            start = len(known.data) if grown else 0
            end = known.end if grown else ""
            for line in _whole_lines(data[start:]):
                end = self._learn(line)
                start += len(line)
            known.data, known.end = data[:start], end
        return known.end

    def _learn(self, line: bytes) -> str:
        digest = frame.digest(line)
        if digest not in self.frames:
            (one,) = frame.scan(line)
            records = [_RECORD.decode(raw) for raw in one.records]
            last = records[-1]
            changes = [change for record in records for change in record.changes if change[0] == "put"]
            jobs = [_JOB.decode(value) for _, kind, value in changes if kind == "jobs"]
            vms = [_GUEST.decode(value) for _, kind, value in changes if kind == "instances"]
            told = tuple((job.id, job.ops[0].input.comment or "", job.status) for job in jobs)
            self.frames[digest] = Frame(
                digest, one.previous, last.serial, last.epoch, last.time, told, {vm.uuid: vm.name for vm in vms}
            )
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
