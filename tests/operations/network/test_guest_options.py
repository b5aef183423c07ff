"""What subnets tell their guests, and the pools and times that come with a subnet."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import network, opcodes

Mod, Spec = opcodes.SubnetMod, opcodes.SubnetSpec
ROUTE = network.HostRoute(destination="10.9.0.0/16", nexthop="10.0.0.9")
FULL = Spec(
    cidr="10.0.0.0/24",
    description="for guests",
    dns_nameservers=("10.0.0.2", "2001:DB8::53"),
    host_routes=(ROUTE,),
    pools=("10.0.0.10-10.0.0.19", "10.0.0.40-10.0.0.49"),
    tags=("a=b",),
)


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def changed(lab: build.MemoryCluster, *mods: opcodes.SubnetMod) -> tuple[network.Subnet, ...]:
    await lab.run(opcodes.NetworkSetParams(network_name="spare", subnets=mods))
    return lab.state.network("spare").subnets


async def refused(lab: build.MemoryCluster, *mods: opcodes.SubnetMod) -> errors.GantryError:
    return await lab.refused(opcodes.NetworkSetParams(network_name="spare", subnets=mods))


def adding(spec: opcodes.SubnetSpec) -> opcodes.SubnetMod:
    return Mod(action="add", **{name: getattr(spec, name) for name in spec.__struct_fields__})


async def test_a_subnet_keeps_what_it_tells(lab: build.MemoryCluster) -> None:
    (subnet,) = await changed(lab, adding(FULL))
    assert (subnet.description, subnet.tags, subnet.host_routes) == ("for guests", ("a=b",), (ROUTE,))
    assert subnet.dns_nameservers == ("10.0.0.2", "2001:db8::53")
    assert [pool.range for pool in subnet.pools] == ["10.0.0.10-10.0.0.19", "10.0.0.40-10.0.0.49"]
    assert (subnet.ctime, subnet.mtime, subnet.serial_no) == (1000.0, 1000.0, 1)


async def test_what_is_not_named_stays_and_a_change_counts(lab: build.MemoryCluster) -> None:
    await changed(lab, adding(FULL))
    (subnet,) = await changed(lab, Mod(action="modify", ident="10.0.0.0/24", dns_nameservers=(), host_routes=()))
    assert (subnet.description, subnet.dns_nameservers, subnet.host_routes, subnet.serial_no) == (
        "for guests",
        (),
        (),
        2,
    )


async def test_other_pools_take_the_place_of_all_and_one_that_stays_keeps_its_name(lab: build.MemoryCluster) -> None:
    await changed(lab, adding(FULL))
    named = opcodes.PoolMod(action="modify", ident="10.0.0.10-10.0.0.19", name="web")
    await lab.run(opcodes.NetworkSetParams(network_name="spare", pools=(named,)))
    mod = Mod(action="modify", ident="10.0.0.0/24", pools=("10.0.0.20-10.0.0.29", "10.0.0.10-10.0.0.19"))
    (subnet,) = await changed(lab, mod)
    assert [(pool.range, pool.name) for pool in subnet.pools] == [
        ("10.0.0.20-10.0.0.29", ""),
        ("10.0.0.10-10.0.0.19", "web"),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dns_nameservers": ("x",)}, "'x' is not an IP address"),
        ({"host_routes": (network.HostRoute(destination="x", nexthop="10.0.0.1"),)}, "'x' is not a valid destination"),
        ({"host_routes": (network.HostRoute(destination="2001:db8::/32", nexthop="10.0.0.1"),)}, "another IP version"),
        ({"ipv6_ra_mode": "slaac"}, "subnet 10.0.0.0/24 is IPv4, so it cannot have IPv6 modes"),
        ({"pools": ("10.0.1.0/28",)}, "pool 10.0.1.0/28 is outside its subnet 10.0.0.0/24"),
        ({"pools": ("10.0.0.1-10.0.0.9", "10.0.0.9-10.0.0.12")}, "overlaps pool"),
    ],
)
async def test_options_that_a_subnet_cannot_announce_are_refused(
    lab: build.MemoryCluster, fields: dict[str, object], message: str
) -> None:
    error = await refused(lab, Mod(action="add", cidr="10.0.0.0/24", **fields))  # type: ignore[arg-type]
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)


@pytest.mark.parametrize(
    ("cidr", "address_mode", "ra_mode", "message"),
    [
        ("2001:db8::/64", "slaac", "dhcpv6-stateful", "conflict; specify one of them"),
        ("2001:db8::/60", "slaac", "slaac", "slaac requires a /64"),
    ],
)
async def test_ipv6_modes_that_do_not_fit_are_refused(
    lab: build.MemoryCluster, cidr: str, address_mode: str, ra_mode: str, message: str
) -> None:
    raw = {"action": "add", "cidr": cidr, "ipv6_address_mode": address_mode, "ipv6_ra_mode": ra_mode}
    op = opcodes.decode({"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "spare", "subnets": [raw]})
    assert message in str(await lab.refused(op))


async def test_ipv6_modes_are_for_ever(lab: build.MemoryCluster) -> None:
    await changed(lab, Mod(action="add", cidr="2001:db8:7::/64", ipv6_ra_mode="slaac"))
    error = await refused(lab, Mod(action="modify", ident="2001:db8:7::/64", ipv6_ra_mode=""))
    assert "ipv6_ra_mode is valid for a new subnet only and cannot be changed" in str(error)


async def test_a_subnet_is_made_once_under_its_uuid(lab: build.MemoryCluster) -> None:
    uuid = "11111111-2222-4333-8444-555555555555"
    await changed(lab, Mod(action="add", cidr="10.0.0.0/24", uuid=uuid))
    op = opcodes.NetworkAdd(network_name="n", subnets=(Spec(cidr="10.1.0.0/24", uuid=uuid),))
    assert isinstance(await lab.refused(op), errors.ExistsError)


async def test_a_dry_run_says_what_a_subnet_tells(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(opcodes.NetworkSetParams(network_name="spare", subnets=(adding(FULL),)))
    assert "subnet 10.0.0.0/24: host_routes none becomes 10.9.0.0/16 via 10.0.0.9" in plan.lines
