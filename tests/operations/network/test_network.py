"""Plans of the network units over small states."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, network, opcodes

Add = opcodes.NetworkAdd
S, P = opcodes.SubnetSpec, opcodes.PoolSpec


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def create(lab: build.MemoryCluster, op: Add) -> network.Network:
    await lab.run(op)
    return lab.state.network(op.network_name)


async def test_a_network_without_subnets_is_a_cable(lab: build.MemoryCluster) -> None:
    assert await create(lab, Add(network_name="l2")) == network.Network(
        uuid=lab.state.network("l2").uuid, name="l2", ctime=1000.0, mtime=1000.0
    )


async def test_the_wire_of_a_network_changes_between_segment_flat_local_and_none(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(lab.state.the_cluster, physical_networks=("physnet1",)))
    net = await create(lab, Add(network_name="l2", network_type="flat", physical_network="physnet1"))
    assert net.unsegmented == network.Unsegmented(network_type="flat", physical_network="physnet1")

    async def changed(**values: object) -> network.Segment | network.Unsegmented | None:
        await lab.run(msgspec.convert({"network_name": "l2", **values}, opcodes.NetworkSetParams))
        return lab.state.network("l2").wire

    assert await changed(network_type="flat", physical_network="physnet1") == net.unsegmented
    assert await changed(network_type="local") == network.Unsegmented(network_type="local")
    vlan = network.Segment(network_type="vlan", physical_network="physnet1", segmentation_id=7)
    assert await changed(network_type="vlan", physical_network="physnet1", segment=7) == vlan
    assert await changed(network_type="flat", physical_network="physnet1") == net.unsegmented
    assert await changed(segmented=False) is None


async def test_two_flat_networks_of_a_physical_network_are_refused(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(lab.state.the_cluster, physical_networks=("physnet1",)))
    op = Add(network_name="one", network_type="flat", physical_network="physnet1")
    await create(lab, op)
    error = await lab.refused(msgspec.structs.replace(op, network_name="two"))
    assert isinstance(error, errors.NotUniqueError)
    assert "physical network physnet1 already has the flat network one" in str(error)


async def test_pools_and_reservations_go_to_the_subnet_that_contains_them(lab: build.MemoryCluster) -> None:
    net = await create(
        lab,
        Add(
            network_name="two",
            subnets=(
                S(cidr="10.0.0.0/24", gateway="10.0.0.1", dhcp=True, name="a"),
                S(cidr="2001:DB8:1::/64", pool=True),
            ),
            pools=(
                P(range="10.0.0.0/27", name="lan"),
                P(range="10.0.0.100"),
                P(range="10.0.0.40-10.0.0.49", name="wan"),
            ),
            add_reserved_ips=("10.0.0.5-10.0.0.9", "2001:db8:1::7"),
            mac_prefix="AA:00:0F",
            tags=("blue",),
        ),
    )
    v4, v6 = net.subnets
    assert (v4.cidr, v4.gateway, v4.dhcp, v4.name) == ("10.0.0.0/24", "10.0.0.1", True, "a")
    assert [(pool.name, pool.range) for pool in v4.pools] == [
        ("lan", "10.0.0.0-10.0.0.31"),
        ("", "10.0.0.100"),
        ("wan", "10.0.0.40-10.0.0.49"),
    ]
    assert v4.external == ("10.0.0.5-10.0.0.9",)
    assert v6.cidr == "2001:db8:1::/64"
    assert v6.pools == (network.Pool(range="2001:db8:1::-2001:db8:1:0:ffff:ffff:ffff:ffff"),)
    assert v6.external == ("2001:db8:1::7",)
    assert (net.mac_prefix, net.tags) == ("aa:00:0f", ("blue",))
    assert len({net.uuid, v4.uuid, v6.uuid}) == 3


@pytest.mark.promise("networks-78")
async def test_the_older_form_makes_a_subnet_with_a_pool_over_all_of_it(lab: build.MemoryCluster) -> None:
    older = {"network": "10.0.0.0/24", "gateway": "10.0.0.1", "network6": "2001:db8:9::/64"}
    op = opcodes.decode({"OP_ID": "OP_NETWORK_ADD", "network_name": "old", **older, "add_reserved_ips": ["10.0.0.2"]})
    assert isinstance(op, Add)
    net = await create(lab, op)
    assert [(s.cidr, s.gateway, len(s.pools)) for s in net.subnets] == [
        ("10.0.0.0/24", "10.0.0.1", 1),
        ("2001:db8:9::/64", "", 1),
    ]
    assert net.subnets[0].pools[0].range == "10.0.0.0-10.0.0.255"
    await lab.run(
        opcodes.NetworkConnect(network_name="old", group_name="default", network_mode="bridged", network_link="br0")
    )
    await lab.run(
        opcodes.InstanceCreate(
            instance_name="v", disk_template="diskless", nics=(opcodes.NicSpec(ip="pool", network="old"),)
        )
    )
    assert lab.state.instance("v").nics[0].ip == ("10.0.0.3",)


async def test_the_nodes_own_addresses_are_reserved_each_once(lab: build.MemoryCluster) -> None:
    twin = cluster.Node(
        uuid="n9", name="node9", primary_ip="203.0.113.1", port=1812, secondary_ip="10.1.0.9", group="g"
    )
    lab.put(twin)
    subnets = (S(cidr="203.0.113.0/24"), S(cidr="10.1.0.0/16"))
    net = await create(lab, Add(network_name="near", subnets=subnets, add_reserved_ips=("203.0.113.2-203.0.113.9",)))
    reserved = [sorted(subnet.external) for subnet in net.subnets]
    assert reserved == [["203.0.113.1", "203.0.113.2-203.0.113.9"], ["10.1.0.9"]]
    net = await create(lab, Add(network_name="far", subnets=subnets, conflicts_check=False))
    assert [subnet.external for subnet in net.subnets] == [(), ()]


FOUR = S(cidr="10.0.0.0/24")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subnets": (S(cidr="10.0.0.1/24"),)}, "its network is '10.0.0.0/24'"),
        ({"subnets": (S(cidr="10.0.0.0"),)}, "is not a CIDR"),
        ({"subnets": (S(cidr="10.0.0.0/33"),)}, "is not a prefix length"),
        ({"subnets": (S(cidr="ten"),)}, "is not a CIDR"),
        ({"subnets": (FOUR, S(cidr="10.0.0.128/25"))}, "subnets 10.0.0.0/24 and 10.0.0.128/25 overlap"),
        ({"subnets": (FOUR,), "network": "10.0.0.0/8"}, "overlap"),
        ({"subnets": (S(cidr="0.0.0.0/0"),)}, "subnet 0.0.0.0/0 contains all addresses"),
        ({"subnets": (S(cidr="0.0.0.0/8", dhcp=True),)}, "has addresses of this network (0.0.0.0/8)"),
        ({"subnets": (S(cidr="127.0.0.0/24", dhcp=True),)}, "has loopback addresses"),
        ({"subnets": (S(cidr="10.0.0.0/24", gateway="2001:db8::1"),)}, "has another IP version than its subnet"),
        ({"subnets": (S(cidr="10.0.0.0/24", gateway="10.0.0.255"),)}, "is the last address of the subnet"),
        ({"subnets": (S(cidr="10.0.0.0/24", gateway="gate"),)}, "'gate' is not an IP address"),
        ({"subnets": (S(cidr="10.0.0.0/24", dhcp=True), S(cidr="10.0.1.0/24", dhcp=True))}, "both have dhcp"),
        ({"subnets": (S(cidr="10.0.0.0/24", name="a"), S(cidr="10.0.1.0/24", name="a"))}, "two subnets are named a"),
        ({"network": "2001:db8::/64"}, "2001:db8::/64 is not an IPv4 subnet"),
        ({"network6": "10.0.0.0/24"}, "10.0.0.0/24 is not an IPv6 subnet"),
        ({"gateway": "10.0.0.1"}, "needs an IPv4 subnet"),
        ({"gateway6": "2001:db8::1"}, "needs an IPv6 subnet"),
        (
            {"subnets": (FOUR,), "pools": (P(range="10.0.1.1-10.0.1.2"),)},
            "pool 10.0.1.1-10.0.1.2 is outside every subnet",
        ),
        ({"pools": (P(range="10.0.1.1"),)}, "outside every subnet of the network (none)"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.250-10.0.1.2"),)}, "10.0.0.250-10.0.1.2"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.9-10.0.0.1"),)}, "is backwards; write '10.0.0.1-10.0.0.9'"),
        ({"subnets": (FOUR,), "pools": (P(range="a-b"),)}, "'a-b' is not an address range"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.1-10.0.0.9"), P(range="10.0.0.9"))}, "overlaps pool"),
        ({"subnets": (S(cidr="10.0.0.0/24", pool=True),), "pools": (P(range="10.0.0.9"),)}, "overlaps pool"),
        (
            {"subnets": (FOUR,), "pools": (P(range="10.0.0.1", name="a"), P(range="10.0.0.2", name="a"))},
            "pool name a is already",
        ),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.1", name="pool"),)}, "pool name pool is a reserved word"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.1", name="10.0.0.1"),)}, "or looks like an address"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.1", name="7"),)}, "or looks like an address"),
        ({"subnets": (FOUR,), "pools": (P(range="10.0.0.1", name="a:b"),)}, "or looks like an address"),
        ({"subnets": (FOUR,), "add_reserved_ips": ("10.0.1.1",)}, "reserved range 10.0.1.1 is outside every subnet"),
        ({"subnets": (FOUR,), "add_reserved_ips": ("10.0.0.1", "10.0.0.1")}, "overlaps external reservation"),
        ({"mac_prefix": "aa:00"}, "MAC prefix aa:00 is not valid"),
        ({"mac_prefix": "aa:0:01"}, "MAC prefix aa:0:01 is not valid"),
        ({"mac_prefix": "01:00:00"}, "multicast"),
    ],
)
async def test_networks_that_are_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    op = msgspec.structs.replace(Add(network_name="bad"), **fields)
    error = await lab.refused(op)
    assert isinstance(error, errors.InvalidError)
    assert message.lower() in str(error).lower()


async def test_a_name_is_given_once_and_a_dry_run_knows_it(lab: build.MemoryCluster) -> None:
    assert "network net1 exists already" in str(await lab.refused(Add(network_name="net1", dry_run=True)))


def connect(name: str = "spare", **fields: object) -> opcodes.NetworkConnect:
    op = opcodes.NetworkConnect(network_name=name, group_name="default", network_mode="bridged", network_link="br5")
    return msgspec.structs.replace(op, **fields)


async def test_connecting_gives_the_group_the_cable_and_disconnecting_takes_it(lab: build.MemoryCluster) -> None:
    await lab.run(connect(network_vlan=".7"))
    group = lab.state.group("default")
    assert group.networks["spare"] == cluster.Connection(mode="bridged", link="br5", vlan="7")
    assert group.serial_no == 2
    assert "network spare is already connected to node group default" in str(await lab.refused(connect()))
    await lab.run(opcodes.NetworkDisconnect(network_name="spare", group_name="default"))
    assert set(lab.state.group("default").networks) == {"net"}
    gone = await lab.refused(opcodes.NetworkDisconnect(network_name="spare", group_name="default"))
    assert "network spare is not connected to node group default" in str(gone)


@pytest.mark.parametrize("vlan", ["0", "4095", "x", "5:", "-1", "5:5000", ".", "\u00b2"])
async def test_a_vlan_that_is_none_is_refused(lab: build.MemoryCluster, vlan: str) -> None:
    message = str(await lab.refused(connect(network_vlan=vlan)))
    assert f"VLAN {vlan} is not valid; write a number from 1 to 4094" in message


@pytest.mark.parametrize("op", [connect("nowhere"), connect(group_name="nobody")])
async def test_unknown_names_are_refused(lab: build.MemoryCluster, op: opcodes.NetworkConnect) -> None:
    assert isinstance(await lab.refused(op), errors.NotFoundError)


async def test_an_address_outside_of_the_network_stands_in_its_way(lab: build.MemoryCluster) -> None:
    await lab.run(Add(network_name="ten", subnets=(S(cidr="10.0.0.0/24"),)))
    loose = instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", ip=("10.0.0.5",))
    lab.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", nics=(loose,)))
    assert "address 10.0.0.5 of network ten is in use by instance vm2" in str(await lab.refused(connect("ten")))
    await lab.run(connect("ten", conflicts_check=False))


async def test_a_network_in_use_stays(lab: build.MemoryCluster) -> None:
    used = await lab.refused(opcodes.NetworkDisconnect(network_name="net1", group_name="default"))
    assert "is in use in node group default by instance vm1" in str(used)
    assert "is connected to node group default" in str(await lab.refused(opcodes.NetworkRemove(network_name="net1")))


async def test_a_network_that_nothing_holds_goes(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.NetworkRemove(network_name="spare"))
    assert ("networks", "spare") not in lab.state.names
