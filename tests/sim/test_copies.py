"""The copies on simulated disks: what is known of frames, in whatever order the machines are read."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest
from tests.state import build

from gantry.lib_files import frame, journal_names
from gantry.sim import cluster, copies, invariants, story
from gantry.state.journal import record
from gantry.state.objects import snapshot

CANDIDATE, MASTER = "node1", "node2"
"""The copies are read in the order of the names, so the master's is the last."""

JOBS: list[snapshot.Change] = build.put(build.queued(1), build.queued(2))
CHANGES: list[snapshot.Change] = build.put(build.vm(1))


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=0, nodes=2) as simulated:
        yield simulated


def chain(*frames: tuple[int, Sequence[snapshot.Change]]) -> list[bytes]:
    """Return the lines of frames that follow each other: of each the job at work, and what it changed."""
    lines, digest = list[bytes](), frame.GENESIS
    for serial, (job, changes) in enumerate(frames, start=1):
        cause = record.Cause(job=job)
        new = record.Record(serial=serial, time=0.0, epoch=1, cause=cause, changes=tuple(changes))
        lines.append(frame.pack(digest, [record.encode(new)]))
        digest = frame.digest(lines[-1])
    return lines


def store(lab: cluster.SimulatedCluster, name: str, lines: Sequence[bytes], *, first: int, start: int) -> None:
    """Give a machine a copy: a checkpoint of record ``start``, and a section with the frames from ``first`` on."""
    digest = frame.digest(lines[start - 1]) if start else frame.GENESIS
    config = msgspec.json.encode({"journal": {"serial": start, "digest": digest, "epoch": 1}})
    section = journal_names.path(cluster.FOLDERS.journal, first)
    files: Mapping[str, bytes] = {cluster.FOLDERS.config: config, section: b"".join(lines[first - 1 :])}
    disk = lab.world.machine(name).disk
    image: dict[str, tuple[int, bytes | None]] = {path: (0o640, content) for path, content in files.items()}
    disk.restore(image | dict.fromkeys(("/", cluster.FOLDERS.lib, cluster.FOLDERS.journal), (0o750, None)))


def check(lab: cluster.SimulatedCluster) -> None:
    copies_on_disk = copies.Copies(lab)
    for name in lab.names:
        copies_on_disk.end(name)
    invariants.check(lab, copies_on_disk, story.Story(lab.world.clock))


@pytest.mark.parametrize("start", [2, 4])
def test_a_job_may_be_stored_in_frames_that_only_another_copy_has(lab: cluster.SimulatedCluster, start: int) -> None:
    lines = chain((0, []), (2, JOBS), (1, CHANGES), (2, CHANGES))
    store(lab, CANDIDATE, lines, first=3, start=start)
    store(lab, MASTER, lines, first=1, start=0)

    check(lab)


@pytest.mark.parametrize("start", [2, 4])
def test_a_job_that_is_not_stored_before_its_changes_is_found(lab: cluster.SimulatedCluster, start: int) -> None:
    lines = chain((0, []), (1, JOBS[:1]), (1, CHANGES), (2, CHANGES), (2, JOBS[1:]))
    store(lab, CANDIDATE, lines, first=3, start=start)
    store(lab, MASTER, lines, first=1, start=0)

    with pytest.raises(story.Violation, match=invariants.WHOLE):
        check(lab)


def test_of_frames_that_were_removed_before_the_run_nothing_is_expected(lab: cluster.SimulatedCluster) -> None:
    lines = chain((0, []), (2, JOBS), (2, CHANGES), (1, CHANGES))
    for name in lab.names:
        store(lab, name, lines, first=3, start=4)

    check(lab)
