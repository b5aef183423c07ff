"""Prebuilt clusters: each kind is built once, and its disks are copied for every seed.

A process builds a kind when it needs it first; after ``prepare`` the processes that are forked have it already.
Building a cluster takes longer than most scenarios. The copied disks have the content that survives a power cut, so a
copy starts like a cluster after a power cut: all daemons start, and the master must win a vote.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gantry.sim import cluster, story
from gantry.sim.hardware import volumes

SEED = 0
SETTLE_SECONDS = 60.0
"""After the build, until no message or job of it is pending."""


@dataclass(frozen=True)
class Kind:
    """The number of machines, the size of the candidate pool, the replication policy, and the retention of the past."""

    nodes: int
    pool: int
    replication: str = "default"
    retention: str = "default"

    @property
    def firm(self) -> bool:
        """Return whether no change that was acknowledged may ever be lost, whatever the number of candidates."""
        return self.replication in ("majority", "all")


KINDS = (
    Kind(3, 10),
    Kind(4, 3, "majority", "60s"),
    Kind(5, 3),
    Kind(3, 10, "seed"),
    Kind(4, 3, "seed", "60s"),
    Kind(3, 10, "majority"),
    Kind(5, 10, "majority", "60s"),
    Kind(3, 2, "seed"),
    Kind(3, 10, "all"),
)
"""All machines are candidates, or one or two are not, under each policy. With a retention of a minute, journal and
archive are pruned several times in a run.

The default is not firm: jobs change the number of candidates, and with one or two it is the policy of the seed.
"""


@dataclass(frozen=True)
class _Image:
    time: float
    disks: Mapping[str, Mapping[str, tuple[int, bytes | None]]]


@functools.cache
def _image(kind: Kind) -> _Image:
    with cluster.SimulatedCluster(SEED, nodes=kind.nodes) as lab, story.listening(story.Story(lab.world.clock)):
        lab.run(
            lab.build(
                candidate_pool_size=kind.pool,
                replication=kind.replication,
                journal_retention=kind.retention,
                archive_retention=kind.retention,
                vg_name=volumes.GROUP,
                enabled_disk_templates=["file", "plain", "drbd", "diskless"],
            )
        )
        lab.run(lab.world.clock.sleep(SETTLE_SECONDS))
        for name in lab.names:
            lab.crash(name)
        disks = {name: lab.world.machine(name).disk.image() for name in lab.names}
        return _Image(lab.world.clock.monotonic(), disks)


def kind_of(seed: int) -> Kind:
    """Return the kind of cluster that a seed plays on."""
    return KINDS[seed % len(KINDS)]


def prepare(seeds: Iterable[int]) -> None:
    """Build the clusters of some seeds."""
    for kind in dict.fromkeys(map(kind_of, seeds)):
        _image(kind)


def lab(seed: int, kind: Kind) -> cluster.SimulatedCluster:
    """Return a cluster of a kind in the world of a seed; no daemon runs yet, as after a power cut."""
    image = _image(kind)
    copy = cluster.SimulatedCluster(seed, nodes=kind.nodes)
    copy.world.loop.advance_to(image.time)
    for name, disk in image.disks.items():
        copy.world.machine(name).disk.restore(disk)
    return copy
