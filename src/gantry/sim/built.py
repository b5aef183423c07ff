"""Clusters that stand already: each kind is built once a process, and its disks are copied for every seed.

Building costs more than most scenarios. What is copied is what a power cut would have left, so a copy begins as a
cluster does after one: all daemons are started, and the master's vote is held.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from gantry.sim import cluster, story

SEED = 0
QUIET = 60.0
"""Seconds after which nothing of the building is on its way any more."""


@dataclass(frozen=True)
class Kind:
    """How many machines, and how many of them shall be master candidates."""

    nodes: int
    pool: int


KINDS = (Kind(3, 10), Kind(4, 3), Kind(5, 3))
"""All are candidates; one is spare; two are."""


@dataclass(frozen=True)
class _Image:
    time: float
    disks: Mapping[str, Mapping[str, tuple[int, bytes | None]]]


@functools.cache
def _image(kind: Kind) -> _Image:
    with cluster.SimulatedCluster(SEED, nodes=kind.nodes) as lab, story.listening(story.Story(lab.world.clock)):
        lab.run(lab.build(candidate_pool_size=kind.pool))
        lab.run(lab.world.clock.sleep(QUIET))
        for name in lab.names:
            lab.crash(name)
        disks = {name: lab.world.machine(name).disk.image() for name in lab.names}
        return _Image(lab.world.clock.monotonic(), disks)


def lab(seed: int, kind: Kind) -> cluster.SimulatedCluster:
    """Return a cluster of a kind in the world of a seed; nothing runs in it yet, as after a power cut."""
    image = _image(kind)
    made = cluster.SimulatedCluster(seed, nodes=kind.nodes)
    made.world.loop.advance_to(image.time)
    for name, disk in image.disks.items():
        made.world.machine(name).disk.restore(disk)
    return made
