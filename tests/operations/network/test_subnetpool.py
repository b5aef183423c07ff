"""Subnet pools, and the subnets that are cut from them."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import lock, network, opcodes

Mod, Spec = opcodes.SubnetMod, opcodes.SubnetSpec
UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def pool(lab: build.MemoryCluster, *prefixes: str, **fields: object) -> network.SubnetPool:
    op = opcodes.SubnetPoolAdd(prefixes=prefixes or ("10.0.0.0/16",), **fields)  # type: ignore[arg-type]
    row = await lab.run(op)
    assert isinstance(row, dict)
    return lab.state.subnetpools[row["uuid"]]


def request(pool: network.SubnetPool, length: int | None = None, *, cidr: str | None = None) -> opcodes.SubnetMod:
    return Mod(action="add", subnetpool=pool.uuid, prefixlen=length, cidr=cidr)


async def cut(lab: build.MemoryCluster, *mods: opcodes.SubnetMod, cable: str = "spare") -> list[str]:
    before = len(lab.state.network(cable).subnets)
    await lab.run(opcodes.NetworkSetParams(network_name=cable, subnets=mods))
    return [subnet.cidr for subnet in lab.state.network(cable).subnets[before:]]


async def refused(lab: build.MemoryCluster, *mods: opcodes.SubnetMod) -> errors.GantryError:
    return await lab.refused(opcodes.NetworkSetParams(network_name="spare", subnets=mods))


async def test_a_pool_has_the_lengths_of_its_ip_version_where_none_are_said(lab: build.MemoryCluster) -> None:
    four, six = await pool(lab), await pool(lab, "2001:db8::/32")
    assert (four.min_prefixlen, four.default_prefixlen, four.max_prefixlen) == (8, 8, 32)
    assert (six.min_prefixlen, six.default_prefixlen, six.max_prefixlen) == (64, 64, 128)


async def test_a_subnet_comes_from_the_default_pool_of_its_ip_version(lab: build.MemoryCluster) -> None:
    four = await pool(lab, "10.0.0.0/16", is_default=True)
    await pool(lab, "2001:db8::/48", is_default=True)
    await pool(lab, "10.8.0.0/16")
    spec = Mod(action="add", default_subnetpool=4, prefixlen=24)
    op = opcodes.NetworkSetParams(network_name="spare", subnets=(spec,))
    locks = lab.unit(op).locks(lab.state)
    assert {name for _, name in locks} >= {four.uuid, "subnetpools/default"}
    assert await cut(lab, spec, Mod(action="add", default_subnetpool=6)) == ["10.0.0.0/24", "2001:db8::/64"]


async def test_a_default_pool_that_does_not_exist_is_named_by_its_ip_version(lab: build.MemoryCluster) -> None:
    await pool(lab, "10.0.0.0/16")
    message = await refused(lab, Mod(action="add", default_subnetpool=4, prefixlen=24))
    assert (message.code, message.message) == ("unknown_entity", "IPv4 has no default subnet pool")


async def test_prefixes_that_touch_become_one(lab: build.MemoryCluster) -> None:
    created = await pool(lab, "10.0.1.0/24", "10.0.0.0/24", "10.9.0.0/24")
    assert created.prefixes == ("10.0.0.0/23", "10.9.0.0/24")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prefixes": ("10.0.0.0/8", "2001:db8::/32")}, "the prefixes of a subnet pool must be of one IP version"),
        ({"prefixes": ("10.0.0.1/8",)}, "is an address inside a network"),
        ({"prefixes": ("10.0.0.0/8",), "min_prefixlen": 24, "max_prefixlen": 20}, "(maximum) are not in order"),
        ({"prefixes": ("10.0.0.0/8",), "default_prefixlen": 7}, "(maximum) are not in order"),
        ({"prefixes": ("10.0.0.0/8",), "max_prefixlen": 33}, "(maximum) are not in order"),
    ],
)
async def test_a_pool_that_makes_no_sense_is_refused(
    lab: build.MemoryCluster, fields: dict[str, object], message: str
) -> None:
    error = await lab.refused(opcodes.SubnetPoolAdd(**fields))  # type: ignore[arg-type]
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)


async def test_one_pool_of_each_ip_version_is_the_default_one(lab: build.MemoryCluster) -> None:
    await pool(lab, is_default=True)
    await pool(lab, "2001:db8::/32", is_default=True)
    error = await lab.refused(opcodes.SubnetPoolAdd(prefixes=("10.1.0.0/16",), is_default=True))
    assert isinstance(error, errors.ExistsError)


async def test_subnets_are_cut_side_by_side_in_all_networks(lab: build.MemoryCluster) -> None:
    created = await pool(lab, default_prefixlen=24)
    assert await cut(lab, request(created), request(created, 25)) == ["10.0.0.0/24", "10.0.1.0/25"]
    assert await cut(lab, request(created), cable="net1") == ["10.0.2.0/24"]


async def test_the_smallest_block_that_fits_is_cut(lab: build.MemoryCluster) -> None:
    created = await pool(lab, default_prefixlen=24)
    await cut(lab, request(created, cidr="10.0.0.0/26"))
    assert await cut(lab, request(created, 26)) == ["10.0.0.64/26"]
    assert await cut(lab, request(created, 24)) == ["10.0.1.0/24"]


async def test_what_a_removed_subnet_had_is_cut_again(lab: build.MemoryCluster) -> None:
    created = await pool(lab, default_prefixlen=24)
    (cidr,) = await cut(lab, request(created))
    await lab.run(opcodes.NetworkSetParams(network_name="spare", subnets=(Mod(action="remove", ident=cidr),)))
    assert await cut(lab, request(created)) == [cidr]


@pytest.mark.parametrize(
    ("length", "cidr", "kind", "message"),
    [
        (7, None, errors.InvalidError, "subnet pool cut allows subnets from /8 to /32, not a /7"),
        (15, None, errors.NoRoomError, "has no /15 left"),
        (None, "10.0.0.0/24", errors.NotUniqueError, "10.0.0.0/24 of subnet pool cut is taken"),
        (None, "192.168.0.0/24", errors.InvalidError, "192.168.0.0/24 is not of subnet pool cut"),
    ],
)
async def test_what_a_pool_cannot_give_is_refused(
    lab: build.MemoryCluster, length: int | None, cidr: str | None, kind: type[errors.GantryError], message: str
) -> None:
    created = await pool(lab, name="cut", default_prefixlen=24)
    await cut(lab, request(created))
    error = await refused(lab, request(created, length, cidr=cidr))
    assert isinstance(error, kind)
    assert message in error.message


async def test_a_project_gets_no_more_than_its_quota(lab: build.MemoryCluster) -> None:
    created = await pool(lab, default_quota=256)
    await cut(lab, request(created, 25))
    error = await refused(lab, request(created, 24))
    assert isinstance(error, errors.NoRoomError)
    assert "has used up its quota of subnet pool u1, 256" in error.message
    await cut(lab, request(created, 25))
    await lab.run(
        opcodes.NetworkAdd(network_name="n", project="p", subnets=(Spec(subnetpool=created.uuid, prefixlen=24),))
    )


async def test_a_network_may_begin_with_a_subnet_of_a_pool(lab: build.MemoryCluster) -> None:
    created = await pool(lab, "2001:db8::/48")
    spec = Spec(subnetpool=created.uuid, pool=True, uuid=UUID)
    row = await lab.run(opcodes.NetworkAdd(network_name="n", subnets=(spec,)))
    assert isinstance(row, dict)
    (subnet,) = row["subnet_rows"]
    assert (subnet["uuid"], subnet["cidr"], subnet["subnetpool"]) == (UUID, "2001:db8::/64", created.uuid)


async def test_pools_of_a_request_are_taken_so_that_none_is_cut_twice(lab: build.MemoryCluster) -> None:
    created = await pool(lab)
    ops = opcodes.NetworkAdd(network_name="n", subnets=(Spec(subnetpool=created.uuid),)), request(created)
    for op in (ops[0], opcodes.NetworkSetParams(network_name="spare", subnets=(ops[1],))):
        assert lab.unit(op).locks(lab.state)[lock.Level.NETWORK, created.uuid] is lock.Mode.EXCLUSIVE


async def test_a_pool_grows_and_does_not_shrink(lab: build.MemoryCluster) -> None:
    created = await pool(lab)
    grown = opcodes.SubnetPoolSetParams(subnet_pool=created.uuid, prefixes=("10.0.0.0/15",), name="wide")
    await lab.run(grown)
    assert (lab.state.subnet_pool("wide").prefixes, lab.state.subnet_pool("wide").serial_no) == (
        ("10.0.0.0/15",),
        2,
    )
    for prefixes in (("10.0.0.0/16",), ("2001:db8::/32",)):
        error = await lab.refused(opcodes.SubnetPoolSetParams(subnet_pool="wide", prefixes=prefixes))
        assert isinstance(error, errors.InvalidError)


async def test_a_pool_with_subnets_stays(lab: build.MemoryCluster) -> None:
    created = await pool(lab, default_prefixlen=24)
    (cidr,) = await cut(lab, request(created))
    error = await lab.refused(opcodes.SubnetPoolRemove(subnet_pool=created.uuid))
    assert isinstance(error, errors.WrongStateError)
    await lab.run(opcodes.NetworkSetParams(network_name="spare", subnets=(Mod(action="remove", ident=cidr),)))
    await lab.run(opcodes.SubnetPoolRemove(subnet_pool=created.uuid))
    assert not lab.state.subnetpools
