"""Records that other nodes hold and this machine lacks."""

import msgspec
from tests.state import build

from gantry.mastership import newer_records, poll, vote
from gantry.rpc import calls, client
from gantry.runtime import simulated


def test_nothing_is_fetched_from_a_node_that_fetched_records_have_removed() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        here = calls.CandidateState(
            serial=store.position.serial, digest=store.position.digest, epoch=store.position.epoch, job=0, master="n0"
        )
        nodes = poll.Poll(store, client.Client(machine.network, None), own_uuid="n0")
        newer = newer_records.NewerRecords(store, nodes, copy=lambda: here)
        removed = vote.Answer("removed", master="n0", copy=msgspec.structs.replace(here, serial=here.serial + 1))
        build.on(world, machine, newer.fetch([removed]))
        (answer,) = build.on(world, machine, newer.with_proof([removed]))
        assert not answer.proven
        assert store.position.serial == here.serial
