"""The invariant of placements, on states of a master that follow each other."""

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import structs
from tests.operations import build

from gantry.model import job, opcodes
from gantry.sim import cluster, placements
from gantry.sim.story import Violation

MOVE = job.Job(id=5, ops=(job.Step(input=opcodes.InstanceFailover(instance_name=build.VM.name)),))


class Watched:
    """A master whose state the invariant sees after each change."""

    def __init__(self) -> None:
        self.lab = build.MemoryCluster(*build.FIRST)
        self.jobs: dict[int, job.Job] = {}
        queue = SimpleNamespace(jobs=lambda: self.jobs, executing=lambda: list(self.jobs))
        daemon = SimpleNamespace(store=SimpleNamespace(snapshot=self.lab.state), queue=queue)
        self._daemon = daemon
        lab = SimpleNamespace(masters=lambda: ["n1"], daemons={"n1": daemon})
        self._placements = placements.Placements(cast("cluster.SimulatedCluster", lab))
        self.look()

    def look(self) -> None:
        self._daemon.store.snapshot = self.lab.state
        self._placements.glance()

    def move(self, node: str) -> None:
        self.lab.put(structs.replace(self.lab.state.instances[build.VM.uuid], primary_node=node))
        self.look()

    def drain(self, node: str) -> None:
        self.lab.put(structs.replace(self.lab.state.nodes[node], drained=True))
        self.look()


def test_an_instance_may_not_come_to_a_drained_node() -> None:
    watched = Watched()
    watched.drain("n2")
    with pytest.raises(Violation, match="drained"):
        watched.move("n2")


def test_a_job_that_fails_may_bring_an_instance_back_to_a_node_that_is_drained_now() -> None:
    watched = Watched()
    watched.jobs[MOVE.id] = MOVE
    watched.look()
    watched.move("n2")
    watched.drain("n1")
    watched.move("n1")


def test_an_adoption_records_where_a_guest_runs_on_a_drained_node_too() -> None:
    watched = Watched()
    adopt = opcodes.StrayGuestRepair(
        guest_name=build.VM.name, guest_uuid=build.VM.uuid, node_name="node2", rule="adopt"
    )
    watched.jobs[MOVE.id] = structs.replace(MOVE, ops=(job.Step(input=adopt),))
    watched.drain("n2")
    watched.move("n2")


def test_another_job_may_not_bring_it_back() -> None:
    watched = Watched()
    watched.move("n2")
    watched.drain("n1")
    watched.jobs[MOVE.id] = MOVE
    watched.look()
    with pytest.raises(Violation, match="drained"):
        watched.move("n1")
