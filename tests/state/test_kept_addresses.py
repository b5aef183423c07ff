"""Addresses that may not be allocated for a while are in the state: in the journal, the checkpoint and the index."""

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import instance, network
from gantry.runtime import simulated
from gantry.state.objects import snapshot

QUARANTINE = network.Quarantine(network="net", ip="10.0.0.9", until=77.5, instance="i4", name="inst4")
LINGERING = instance.Lingering(network="net", ip="10.0.0.8", nic="x1")
SUBNET = network.Subnet(uuid="so", cidr="10.0.0.0/24")
VM = msgspec.structs.replace(build.vm(1, ip="10.0.0.1"), lingering=(LINGERING,))


@pytest.mark.parametrize("closed", [True, False], ids=["checkpoint", "journal"])
def test_quarantined_and_lingering_addresses_survive_a_restart(closed: bool) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(VM, QUARANTINE), build.CAUSE))
        before = build.content(store.snapshot)
        if closed:
            build.on(world, machine, store.close())
        else:
            world.crash("one")
            machine = world.machine("one")
        after = build.content(build.opened(world, machine).snapshot)
        assert after["resting"] == {"net/10.0.0.9": QUARANTINE}
        assert {name: after[name] for name in ("instances", "addresses", "in_network")} == {
            name: before[name] for name in ("instances", "addresses", "in_network")
        }


def state(*values: snapshot.Stored) -> snapshot.Snapshot:
    return snapshot.Snapshot().apply(
        build.put(*(change.value for change in build.FIRST if isinstance(change, snapshot.Put)), *values), serial=1
    )


def test_a_lingering_address_is_not_allocated_to_another_owner() -> None:
    before = state(VM)
    with pytest.raises(
        errors.NotUniqueError, match=r"10\.0\.0\.8 in network net1 was taken from instance inst1, whose"
    ):
        before.apply(build.put(build.vm(2, ip="10.0.0.8")), serial=2)
    after = before.apply(build.put(msgspec.structs.replace(VM, lingering=())), serial=2)
    after.apply(build.put(build.vm(2, ip="10.0.0.8")), serial=3)


def test_an_address_is_called_taken_only_from_the_instance_and_network_where_it_lingers() -> None:
    other = network.Network(uuid="o", name="other", subnets=(SUBNET,))
    nic = instance.Nic(uuid="x9", mac="aa:00:00:00:00:99", network="o", ip=("10.0.0.8",))
    owner = msgspec.structs.replace(VM, nics=(*VM.nics, nic))
    before = state(other, owner)
    moved = msgspec.structs.replace(nic, uuid="x8", mac="aa:00:00:00:00:88")
    for vm, where in (
        (build.vm(2, ip="10.0.0.1"), r"10\.0\.0\.1 in network net1"),
        (msgspec.structs.replace(build.vm(3), nics=(moved,)), r"10\.0\.0\.8 in network other"),
    ):
        with pytest.raises(errors.NotUniqueError, match=f"address {where} is in use by instance inst1"):
            before.apply(build.put(vm), serial=2)


def test_a_network_is_not_deleted_while_one_of_its_addresses_lingers() -> None:
    before = state(msgspec.structs.replace(VM, nics=()))
    with pytest.raises(errors.WrongStateError, match="network net1 is in use by instance inst1"):
        before.apply([snapshot.Delete("networks", "net")], serial=2)
    shrunk = msgspec.structs.replace(build.NET, subnets=(network.Subnet(uuid="s", cidr="10.0.0.0/29"),))
    with pytest.raises(errors.InvalidError, match=r"10\.0\.0\.8 is outside every subnet"):
        before.apply(build.put(shrunk), serial=2)


def test_a_quarantine_is_replaced_and_removed() -> None:
    later = msgspec.structs.replace(QUARANTINE, until=99.0)
    quarantined = state(QUARANTINE).apply(build.put(later), serial=2)
    assert dict(quarantined.resting.items()) == {"net/10.0.0.9": later}
    assert not dict(quarantined.apply([snapshot.Delete("resting", "net/10.0.0.9")], serial=3).resting.items())
