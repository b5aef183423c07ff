"""Which keys a master accepts from the nodes that it calls."""

import msgspec
from tests.state import build

from gantry.mastership import node_keys
from gantry.model import cluster
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

KEPT, RENEWED, OTHER = "a" * 64, "b" * 64, "c" * 64


class Known(node_keys.NodeKeys):
    """The keys, with the store that they follow."""

    store: transaction.Store


def with_keys(world: simulated.World, machine: simulated.SimulatedRuntime, *keys: str, joining: bool = False) -> Known:
    """Return the keys for a state that records ``keys`` for node n1; ssconf has RENEWED for n1, OTHER for n2."""
    store = build.new_store(world, machine)
    node = store.snapshot.nodes["n1"]
    certificate = cluster.Certificate(keys=keys)
    recorded = msgspec.structs.replace(node, primary_ip="10.0.0.1", certificate=certificate, joining=joining)
    build.on(world, machine, store.commit([states.Put(recorded)], build.CAUSE))
    file = f"n1={RENEWED}\nn2={OTHER}\nnonsense\n"
    build.on(world, machine, machine.disk.make_directory(build.WHERE.ssconf))
    path = f"{build.WHERE.ssconf}/ssconf_master_candidates_certs"
    build.on(world, machine, machine.disk.write(path, file.encode()))
    known = Known(machine.disk, build.WHERE)
    known.store = store
    known.follow(store)
    return known


def put_beside(world: simulated.World, machine: simulated.SimulatedRuntime, known: Known, **fields: object) -> None:
    """Put a node into the state at the address of another one."""
    beside = msgspec.structs.replace(known.store.snapshot.nodes["n1"], uuid="n9", name="node9.example.com", **fields)
    build.on(world, machine, known.store.commit([states.Put(beside)], build.CAUSE))


def test_until_the_epoch_begins_a_renewed_key_of_the_same_node_counts_too() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), KEPT)
        assert known.at("10.0.0.1") == (KEPT, RENEWED)
        known.begun = True
        assert known.at("10.0.0.1") == (KEPT,)


def test_a_node_of_an_earlier_version_without_a_recorded_key_may_have_any() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"))
        assert known.at("10.0.0.1") is None


def test_a_joining_node_may_have_only_the_recorded_key() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), KEPT, joining=True)
        known.begun = True
        assert known.at("10.0.0.1") == (KEPT,)


def test_a_joining_node_without_a_recorded_key_may_have_none() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), joining=True)
        known.begun = True
        assert known.at("10.0.0.1") == ()


def test_a_joining_node_without_a_key_does_not_loosen_the_keys_of_another_at_its_address() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        put_beside(world, machine, known, port=1812, joining=True, certificate=cluster.NO_CERTIFICATE)
        known.begun = True
        assert known.at("10.0.0.1") == (KEPT,)


def test_keys_at_an_address_without_a_node_are_not_known() -> None:
    with simulated.World(seed=1) as world:
        known = with_keys(world, world.machine("one"), KEPT)
        assert known.at("10.0.0.99") is None


def test_an_address_keeps_the_keys_of_a_node_that_was_removed_until_another_one_has_it() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        known.begun = True
        put_beside(world, machine, known, primary_ip="10.0.0.9", certificate=cluster.Certificate(keys=(OTHER,)))
        build.on(world, machine, known.store.commit([states.Delete("nodes", "n9")], build.CAUSE))
        assert known.at("10.0.0.9") == (OTHER,)
        put_beside(world, machine, known, primary_ip="10.0.0.9", joining=True, certificate=cluster.NO_CERTIFICATE)
        assert known.at("10.0.0.9") == ()


def test_a_node_takes_its_keys_to_its_new_address() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        moved = msgspec.structs.replace(known.store.snapshot.nodes["n1"], primary_ip="10.0.0.2")
        build.on(world, machine, known.store.commit([states.Put(moved)], build.CAUSE))
        assert (known.at("10.0.0.1"), known.at("10.0.0.2")) == ((KEPT,), (KEPT, RENEWED))


def test_nodes_that_share_an_address_may_have_the_keys_of_each() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        known = with_keys(world, machine, KEPT)
        put_beside(world, machine, known, certificate=cluster.Certificate(keys=(OTHER,)))
        known.begun = True
        assert set(known.at("10.0.0.1") or ()) == {KEPT, OTHER}
