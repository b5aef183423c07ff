"""Plans that change networks that are there."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, lock, network, opcodes

Change = opcodes.NetworkSetParams
Mod, PoolMod = opcodes.SubnetMod, opcodes.PoolMod


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def net(lab: build.MemoryCluster, name: str = "net1") -> network.Network:
    return lab.state.network(name)


async def test_all_changes_of_an_opcode_are_one_change(lab: build.MemoryCluster) -> None:
    op = Change(
        network_name="net1",
        mac_prefix="AA:BB:CC",
        remove_reserved_ips=("192.0.2.50",),
        subnets=(
            Mod(action="add", cidr="10.0.0.0/24", name="new", dhcp=True),
            Mod(action="modify", ident="new", gateway="10.0.0.1"),
        ),
        pools=(
            PoolMod(action="add", subnet="new", name="all"),
            PoolMod(action="remove", range="10.0.0.100-10.0.0.255"),
        ),
        add_reserved_ips=("10.0.0.2-10.0.0.9",),
    )
    before = net(lab)
    assert (await lab.plan(op)).lines == [
        "change network net1",
        "MAC prefix becomes aa:bb:cc",
        "release 192.0.2.50",
        "add subnet 10.0.0.0/24 (new) with gateway 10.0.0.1",
        "subnet 10.0.0.0/24: dhcp on",
        "add pool 10.0.0.0-10.0.0.99 all",
        "reserve 10.0.0.2-10.0.0.9 externally",
    ]
    await lab.run(op)
    after = net(lab)
    assert (after.serial_no, after.mtime) == (before.serial_no + 1, 1000.0)
    assert after.subnets[2].pools == (network.Pool(range="10.0.0.0-10.0.0.99", name="all"),)


async def test_one_fault_refuses_all_of_it(lab: build.MemoryCluster) -> None:
    op = Change(network_name="net1", mac_prefix="aa:00:0f", add_reserved_ips=("192.0.2.60", "192.0.2.60"))
    assert "overlaps" in str(await lab.refused(op))
    pair = (Mod(action="add", cidr="10.0.0.0/24"), Mod(action="remove", ident="192.0.2.0/24"))
    assert "in use by instance vm1 (192.0.2.10)" in str(await lab.refused(Change(network_name="net1", subnets=pair)))


async def test_what_is_like_that_already_changes_nothing(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(Change(network_name="net1", gateway="192.0.2.1"))
    assert (list(plan.lines), list(plan.changes)) == (["nothing changes: network net1 already has these settings"], [])
    nothing = await lab.refused(Change(network_name="net1", force=True, priority=5, comment="x"))
    assert "no change of network net1 was requested" in str(nothing)


@pytest.mark.parametrize(
    ("fields", "subnets"),
    [
        ({"gateway": "192.0.2.2"}, [("192.0.2.0/24", "192.0.2.2", 1), ("2001:db8::/64", "", 1)]),
        ({"gateway": "none"}, [("192.0.2.0/24", "", 1), ("2001:db8::/64", "", 1)]),
        ({"gateway6": "2001:db8::1"}, [("192.0.2.0/24", "192.0.2.1", 1), ("2001:db8::/64", "2001:db8::1", 1)]),
        (
            {"network6": "2001:db8::/60", "gateway6": "2001:db8::1"},
            [("192.0.2.0/24", "192.0.2.1", 1), ("2001:db8::/60", "2001:db8::1", 1)],
        ),
        ({"network6": "none"}, [("192.0.2.0/24", "192.0.2.1", 1)]),
    ],
)
async def test_the_older_form_means_the_first_subnet_of_its_family(
    lab: build.MemoryCluster, fields: dict[str, str], subnets: list[tuple[str, str, int]]
) -> None:
    await lab.run(msgspec.structs.replace(Change(network_name="net1"), **fields))
    assert [(subnet.cidr, subnet.gateway, len(subnet.pools)) for subnet in net(lab).subnets] == subnets


async def test_the_older_form_adds_an_ipv6_subnet_where_there_is_none(lab: build.MemoryCluster) -> None:
    await lab.run(Change(network_name="spare", network6="2001:db8:5::/64", gateway6="2001:db8:5::1"))
    (subnet,) = net(lab, "spare").subnets
    assert (subnet.cidr, subnet.gateway, len(subnet.pools)) == ("2001:db8:5::/64", "2001:db8:5::1", 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gateway": "10.0.0.1"}, "network spare has no IPv4 subnet"),
        ({"network6": "none"}, "network spare has no IPv6 subnet"),
        ({"network6": "10.0.0.0/24"}, "10.0.0.0/24 is not an IPv6 subnet"),
        ({"mac_prefix": "01:00:00"}, "multicast"),
        ({"remove_reserved_ips": ("10.0.0.1",)}, "no address of 10.0.0.1 is reserved externally in network spare"),
        ({"network_name": "nowhere", "gateway": "10.0.0.1"}, "no such network: nowhere"),
    ],
)
async def test_changes_that_are_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    assert message in str(await lab.refused(msgspec.structs.replace(Change(network_name="spare"), **fields)))


async def test_what_subnets_gain_is_kept_from_the_nodes_that_sit_there(lab: build.MemoryCluster) -> None:
    near = Mod(action="add", cidr="203.0.113.0/29")
    await lab.run(Change(network_name="spare", subnets=(near,), add_reserved_ips=("203.0.113.2",)))
    assert net(lab, "spare").subnets[0].external == ("203.0.113.1", "203.0.113.2", "203.0.113.3")
    lab.put(cluster.Node(uuid="n9", name="node9", primary_ip="203.0.113.9", group="g"))
    await lab.run(Change(network_name="spare", remove_reserved_ips=("203.0.113.0/29",)))
    assert net(lab, "spare").subnets[0].external == ()
    grow = Mod(action="modify", ident="203.0.113.0/29", cidr="203.0.113.0/28")
    await lab.run(Change(network_name="spare", subnets=(grow,)))
    assert net(lab, "spare").subnets[0].external == ("203.0.113.9",)


async def test_an_address_outside_of_a_connected_network_stands_in_the_way_of_a_subnet(
    lab: build.MemoryCluster,
) -> None:
    loose = instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", ip=("10.0.0.5",))
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", nics=(loose,)))
    op = Change(network_name="net1", subnets=(Mod(action="add", cidr="10.0.0.0/24"),))
    assert "address 10.0.0.5 of network net1 is in use by instance vm2" in str(await lab.refused(op))
    await lab.run(msgspec.structs.replace(op, network_name="spare"))
    await lab.run(msgspec.structs.replace(op, conflicts_check=False))


async def test_a_pool_has_the_addresses_that_instances_have_already(lab: build.MemoryCluster) -> None:
    vm = build.VM
    nic = msgspec.structs.replace(vm.nics[0], ip=("192.0.2.10", "192.0.2.100"))
    lab.put(msgspec.structs.replace(vm, nics=(nic,)))
    pool = PoolMod(action="add", range="192.0.2.100-192.0.2.101", name="two")
    await lab.run(Change(network_name="net1", pools=(pool,)))
    create = opcodes.InstanceCreate(
        instance_name="v", disk_template="diskless", nics=(opcodes.NicSpec(ip="two", network="net1"),)
    )
    await lab.run(create)
    assert lab.state.instance("v").nics[0].ip == ("192.0.2.101",)
    full = await lab.refused(msgspec.structs.replace(create, instance_name="w"))
    assert "pool two of network net1 is full" in str(full)


async def test_a_network_gets_another_name(lab: build.MemoryCluster) -> None:
    rename = opcodes.NetworkRename(network_name="net1", new_name="lan")
    assert await lab.run(rename) == "lan"
    assert (net(lab, "lan").uuid, net(lab, "lan").serial_no) == ("net", 2)
    assert "no such network: net1" in str(await lab.refused(rename))
    taken = await lab.refused(opcodes.NetworkRename(network_name="lan", new_name="spare"))
    assert isinstance(taken, errors.ExistsError)
    same = await lab.refused(opcodes.NetworkRename(network_name="lan", new_name="lan"))
    assert "network lan already has that name" in str(same)


async def test_a_change_has_the_network_for_itself(lab: build.MemoryCluster) -> None:
    for op in (Change(network_name="net1"), opcodes.NetworkRemove(network_name="net1")):
        assert lab.unit(op).locks(lab.state) == {(lock.Level.NETWORK, "net"): lock.Mode.EXCLUSIVE}
    rename = lab.unit(opcodes.NetworkRename(network_name="net1", new_name="lan")).locks(lab.state)
    assert set(rename) == {(lock.Level.NETWORK, "net"), (lock.Level.NETWORK, "lan")}
