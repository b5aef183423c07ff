"""Which keys a master accepts from the nodes that it calls."""

import msgspec
from tests.state import build

from gantry.daemons import node_keys
from gantry.model import cluster
from gantry.runtime import simulated
from gantry.state import snapshot as states

KEPT, RENEWED, OTHER = "a" * 64, "b" * 64, "c" * 64


def with_keys(world: simulated.World, machine: simulated.SimulatedRuntime, *keys: str) -> node_keys.NodeKeys:
    """Return the keys for a state that records ``keys`` for node n1; ssconf has RENEWED for n1, OTHER for n2."""
    store = build.new_store(world, machine)
    node = store.snapshot.nodes["n1"]
    recorded = msgspec.structs.replace(node, primary_ip="10.0.0.1", certificate=cluster.Certificate(keys=keys))
    build.on(world, machine, store.commit([states.Put(recorded)], build.CAUSE))
    file = f"n1={RENEWED}\nn2={OTHER}\nnonsense\n"
    build.on(world, machine, machine.disk.make_directory(build.WHERE.ssconf))
    path = f"{build.WHERE.ssconf}/ssconf_master_candidates_certs"
    build.on(world, machine, machine.disk.write(path, file.encode()))
    known = node_keys.NodeKeys(machine.disk, build.WHERE)
    known.store = store
    return known


def test_until_the_epoch_begins_a_renewed_key_of_the_same_node_counts_too() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), KEPT)
        assert known.at("10.0.0.1") == (KEPT, RENEWED)
        known.begun = True
        assert known.at("10.0.0.1") == (KEPT,)


def test_a_node_without_a_recorded_key_may_have_any() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"))
        assert known.at("10.0.0.1") == ()


def test_keys_at_an_address_without_a_node_are_not_known() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), KEPT)
        assert known.at("10.0.0.99") == ()


def test_a_node_takes_its_keys_to_its_new_address() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        assert known.store is not None
        moved = msgspec.structs.replace(known.store.snapshot.nodes["n1"], primary_ip="10.0.0.2")
        build.on(world, machine, known.store.commit([states.Put(moved)], build.CAUSE))
        assert (known.at("10.0.0.1"), known.at("10.0.0.2")) == ((), (KEPT, RENEWED))


def test_nodes_that_share_an_address_may_have_the_keys_of_each() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        assert known.store is not None
        second = msgspec.structs.replace(
            known.store.snapshot.nodes["n1"],
            uuid="n9",
            name="node9.example.com",
            certificate=cluster.Certificate(keys=(OTHER,)),
        )
        build.on(world, machine, known.store.commit([states.Put(second)], build.CAUSE))
        known.begun = True
        assert set(known.at("10.0.0.1")) == {KEPT, OTHER}
