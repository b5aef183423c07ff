"""The edits of subnets, pools and external reservations, without any cluster."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes
from gantry.operations.network import pools, subnet_differences, subnets

Mod, PoolMod, Spec, PoolSpec = opcodes.SubnetMod, opcodes.PoolMod, opcodes.SubnetSpec, opcodes.PoolSpec
Range = opcodes.RangeSpec

NET = network.Network(
    uuid="n",
    name="net1",
    subnets=(
        network.Subnet(
            uuid="11111111-aaaa",
            cidr="192.0.2.0/24",
            name="lan",
            gateway="192.0.2.1",
            dhcp=True,
            pools=(network.Pool(range="192.0.2.10-192.0.2.100", name="web"), network.Pool(range="192.0.2.120")),
            external=("192.0.2.50", "192.0.2.200-192.0.2.210"),
        ),
        network.Subnet(uuid="22222222-bbbb", cidr="2001:db8::/64", gateway="2001:db8::1"),
    ),
)
OWNERS = [
    subnets.Owner(ranges.parse_address("192.0.2.33"), "instance vm1"),
    subnets.Owner(ranges.parse_address("2001:db8::33"), "instance vm2"),
]


def changed(
    mod: opcodes.SubnetMod, net: network.Network = NET, known_owners: list[subnets.Owner] = OWNERS
) -> network.Network:
    numbers = itertools.count()

    def owners(address_ranges: Iterable[subnets.AddressRange]) -> Iterator[subnets.Owner]:
        searched = list(address_ranges)
        return (owner for owner in known_owners if subnets.covers(searched, owner.address))

    return subnets.change(net, mod, uuid=lambda: f"u{next(numbers)}", owners=owners)


def pooled(mod: opcodes.PoolMod, net: network.Network = NET) -> network.Network:
    return pools.change(net, mod, force=False)


modify = partial(Mod, action="modify")


def refused(
    message: str, kind: type[errors.PrerequisiteError] = errors.PrerequisiteError
) -> pytest.RaisesExc[BaseException]:
    return pytest.RaisesExc(kind, check=lambda error: message in str(error))


@pytest.mark.parametrize("ident", ["192.0.2.0/24", "lan", "11111111-aaaa"])
def test_a_subnet_is_found_by_cidr_name_and_uuid(ident: str) -> None:
    assert subnets.find(NET, ident) is NET.subnets[0]


@pytest.mark.parametrize("ident", ["2001:db8::/64", "2001:DB8:0:0::/64", "2001:0db8:0000:0000:0000::/64"])
def test_a_cidr_may_be_spelled_in_any_way(ident: str) -> None:
    assert subnets.find(NET, ident) is NET.subnets[1]


@pytest.mark.parametrize(
    ("ident", "message"),
    [
        ("wan", "network net1 has no subnet wan; its subnets: 192.0.2.0/24 (lan), 2001:db8::/64"),
        ("", "no name given"),
        ("192.0.2.0/25", "has no subnet 192.0.2.0/25"),
        ("192.0.2.7/24", "its network is '192.0.2.0/24'"),
    ],
)
def test_an_identifier_that_leads_nowhere_is_refused(ident: str, message: str) -> None:
    with refused(message):
        subnets.find(NET, ident)


def test_an_identifier_that_fits_two_subnets_is_refused() -> None:
    twin = network.Subnet(uuid="lan", cidr="10.0.0.0/24")
    net = network.Network(uuid="n", name="net1", subnets=(*NET.subnets, twin))
    with refused("subnet lan of network net1 is ambiguous: 192.0.2.0/24, 10.0.0.0/24; use its CIDR"):
        subnets.find(net, "lan")


@pytest.mark.parametrize("cidr", ["192.0.2.0/22", "192.0.0.0/22"])
def test_a_subnet_grows_from_its_own_first_address_or_to_what_encloses_it(cidr: str) -> None:
    subnet = changed(modify(ident="lan", cidr=cidr)).subnets[0]
    assert (subnet.cidr, subnet.gateway) == ("192.0.0.0/22", "192.0.2.1")
    assert (subnet.pools, subnet.external) == (NET.subnets[0].pools, NET.subnets[0].external)


def test_growing_over_another_subnet_is_refused() -> None:
    net = subnets.add(NET, Spec(cidr="192.0.3.0/24"), uuid="u")
    with refused("subnets 192.0.3.0/24 and 192.0.2.0/23 overlap"):
        changed(modify(ident="lan", cidr="192.0.2.0/23"), net)


def test_shrinking_trims_pools_without_owners() -> None:
    net = pools.release(NET, ["192.0.2.200-192.0.2.210"])
    subnet = changed(modify(ident="lan", cidr="192.0.2.0/26"), net).subnets[0]
    assert [(pool.range, pool.name) for pool in subnet.pools] == [("192.0.2.10-192.0.2.63", "web")]
    assert subnet.external == ("192.0.2.50",)


@pytest.mark.parametrize(
    ("mod", "message"),
    [
        (modify(ident="lan", cidr="192.0.2.0/25"), "192.0.2.200-192.0.2.210 is reserved externally; remove it first"),
        (modify(ident="lan", cidr="192.0.2.0/27"), "cannot become 192.0.2.0/27: in use by instance vm1 (192.0.2.33)"),
        (modify(ident="lan", cidr="10.0.0.0/24", gateway="none"), "in use by instance vm1 (192.0.2.33)"),
        (modify(ident="2001:db8::/64", cidr="2001:db8::/123"), "in use by instance vm2 (2001:db8::33)"),
        (modify(ident="lan", cidr="2001:db8:1::/64"), "the IP version cannot change"),
        (modify(ident="lan", cidr="192.0.2.7/22"), "its network is '192.0.0.0/22'"),
        (modify(ident="lan", cidr="192.0.2.0"), "is not a CIDR"),
        (modify(ident="lan", gateway="192.0.2.255"), "192.0.2.255 is the last address of the subnet"),
        (modify(ident="lan", gateway="192.0.2.33"), "192.0.2.33 is the gateway of the subnet 192.0.2.0/24, and"),
        (modify(ident="lan", pool=True), "use --pool add:subnet=lan"),
        (modify(ident="lan", name="add"), "subnet name add is a reserved word"),
        (modify(ident="lan", name="a b"), "subnet name 'a b' is not valid"),
        (modify(ident="lan", name="10.0.0.1"), "looks like an address"),
        (Mod(action="remove", ident="lan"), "cannot be removed: in use by instance vm1 (192.0.2.33)"),
        (Mod(action="remove", ident="wan"), "has no subnet wan"),
        (Mod(action="add", cidr="192.0.2.128/25"), "subnets 192.0.2.0/24 and 192.0.2.128/25 overlap"),
        (Mod(action="add", cidr="10.0.0.0/24", dhcp=True), "both have dhcp"),
        (Mod(action="add", cidr="10.0.0.0/24", name="lan"), "two subnets are named lan"),
        (Mod(action="add", ident="lan", cidr="10.0.0.0/24"), "needs its cidr and no identifier"),
        (Mod(action="add"), "needs its cidr"),
    ],
)  # fmt: skip
def test_changes_of_subnets_that_are_refused(mod: opcodes.SubnetMod, message: str) -> None:
    with refused(message):
        changed(mod)


def test_a_shrunk_subnet_needs_a_gateway_inside() -> None:
    with refused("gateway 192.0.2.1 is outside its subnet 192.0.2.32/27; specify the gateway too, or gateway=none"):
        changed(modify(ident="lan", cidr="192.0.2.32/27"), pools.release(NET, ["192.0.2.50-192.0.2.210"]))
    net = changed(modify(ident="lan", cidr="192.0.2.32/27", gateway="192.0.2.40"), pools.release(NET, ["192.0.2.0/24"]))
    assert (net.subnets[0].cidr, net.subnets[0].gateway) == ("192.0.2.32/27", "192.0.2.40")


def test_an_address_in_use_may_not_become_the_first_of_its_subnet() -> None:
    known_owners = [subnets.Owner(ranges.parse_address("192.0.2.32"), "instance vm1")]
    with refused("192.0.2.32 is the first address of the subnet 192.0.2.32/27", errors.WrongStateError):
        changed(
            modify(ident="lan", cidr="192.0.2.32/27", gateway="none"),
            pools.release(NET, ["192.0.2.0/24"]),
            known_owners,
        )


def test_name_gateway_and_dhcp_are_changed_and_taken_away() -> None:
    subnet = changed(modify(ident="lan", dhcp=False, name="foo")).subnets[0]
    assert (subnet.name, subnet.dhcp, subnet.gateway) == ("foo", False, "192.0.2.1")
    bare = changed(modify(ident="lan", name="none", gateway="none")).subnets[0]
    assert (bare.name, bare.gateway, bare.dhcp) == ("", "", True)


def test_dhcp_goes_from_one_subnet_to_another_in_order() -> None:
    net = subnets.add(NET, Spec(cidr="10.0.0.0/24", name="wan"), uuid="u")
    moved = changed(modify(ident="wan", dhcp=True), changed(modify(ident="lan", dhcp=False), net))
    assert [subnet.dhcp for subnet in moved.subnets] == [False, False, True]
    with refused("both have dhcp"):
        changed(modify(ident="wan", dhcp=True), net)


def test_dhcp_is_one_of_each_family() -> None:
    assert changed(modify(ident="2001:db8::/64", dhcp=True)).subnets[1].dhcp


def test_an_unused_subnet_is_removed_with_its_ranges() -> None:
    assert changed(Mod(action="remove", ident="lan"), known_owners=[]).subnets == NET.subnets[1:]


@pytest.mark.parametrize(
    ("requested", "stored"),
    [
        ("192.0.2.150-192.0.2.160", "192.0.2.150-192.0.2.160"),
        ("192.0.2.150", "192.0.2.150"),
        ("192.0.2.128/27", "192.0.2.128-192.0.2.159"),
        (Range(start="192.0.2.150", size=10), "192.0.2.150-192.0.2.159"),
        (Range(start="192.0.2.150", end="192.0.2.159"), "192.0.2.150-192.0.2.159"),
        (Range(start="192.0.2.150", size=10, end="192.0.2.159"), "192.0.2.150-192.0.2.159"),
        (Range(start="192.0.2.150"), "192.0.2.150"),
        ("2001:DB8:0::10-2001:db8::1f", "2001:db8::10-2001:db8::1f"),
    ],
)
def test_a_pool_goes_to_the_subnet_that_contains_it(requested: str | opcodes.RangeSpec, stored: str) -> None:
    net = pooled(PoolMod(action="add", range=requested, name="new"))
    (pool,) = pools.find(net, "new")
    assert pool.range == stored
    home = net.subnets[1 if ":" in stored else 0]
    assert pool in home.pools


def test_all_of_a_subnet_becomes_a_pool() -> None:
    net = pooled(PoolMod(action="add", subnet="2001:db8::/64", name="six"))
    assert net.subnets[1].pools == (network.Pool(range="2001:db8::-2001:db8::ffff:ffff:ffff:ffff", name="six"),)


@pytest.mark.parametrize(
    ("mod", "message"),
    [
        (PoolMod(action="add", range="10.0.0.1-10.0.0.9"), "pool 10.0.0.1-10.0.0.9 is outside every subnet"),
        (PoolMod(action="add", range="192.0.2.250-192.0.3.5"), "beyond 192.0.2.0/24; the range must lie in one"),
        (PoolMod(action="add", range="192.0.2.90-192.0.2.110"), "192.0.2.90-192.0.2.110 overlaps pool 192.0.2.10-"),
        (PoolMod(action="add", subnet="lan"), "overlaps pool"),
        (PoolMod(action="add", subnet="wan"), "has no subnet wan"),
        (PoolMod(action="add", range="192.0.2.150", name="web"), "is already the name of pool 192.0.2.10-192.0.2.100"),
        (PoolMod(action="add", range="192.0.2.150", name="pool4"), "pool name pool4 is a reserved word"),
        (PoolMod(action="add", range="192.0.2.150", name="192.0.2.9"), "looks like an address"),
        (PoolMod(action="add", range="192.0.2.150-192.0.2.140"), "is backwards; write '192.0.2.140-192.0.2.150'"),
        (PoolMod(action="add", range="::ffff:192.0.2.150"), "in IPv6 spelling; write '192.0.2.150'"),
        (PoolMod(action="add", range="fe80::1%eth0"), "has a scope id"),
        (PoolMod(action="add", range="192.0.2.150/24"), "its network is '192.0.2.0/24'"),
        (PoolMod(action="add"), "needs either a range or a subnet"),
        (PoolMod(action="add", range="192.0.2.150", subnet="lan"), "needs either a range or a subnet"),
        (PoolMod(action="add", range=Range(start="192.0.2.150", size=0)), "is empty"),
        (PoolMod(action="add", range=Range(start="192.0.2.150", size=3, end="192.0.2.151")), "has 2 addresses"),
        (PoolMod(action="add", range=Range(start="192.0.2.150", size=1 << 40)), "extends beyond 192.0.2.0/24"),
        (PoolMod(action="add", range="2001:db8::-2001:db8::1:0"), "has 65,537 addresses, more than 65,536; if this"),
        (PoolMod(action="remove", range="192.0.2.150-192.0.2.160"), "no pool of network net1 has any of 192.0.2.150-"),
        (PoolMod(action="remove", range="2001:db8::/64"), "pools: 192.0.2.10-192.0.2.100 web, 192.0.2.120"),
        (PoolMod(action="remove", ident="dmz"), "network net1 has no pool dmz"),
        (PoolMod(action="modify", ident="dmz", name="x"), "network net1 has no pool dmz"),
        (PoolMod(action="modify", ident="192.0.2.10-192.0.2.99", name="x"), "network net1 has no pool 192.0.2.10-"),
        (PoolMod(action="modify", ident="192.0.2.120", name="web"), "web is already the name of pool"),
        (PoolMod(action="modify", ident="web"), "no change of pool web was requested"),
        (PoolMod(action="modify", ident="", name="x"), "is not an address range"),
    ],
)  # fmt: skip
def test_changes_of_pools_that_are_refused(mod: opcodes.PoolMod, message: str) -> None:
    with refused(message):
        pooled(mod)


def test_a_range_across_two_subnets_that_touch_is_refused() -> None:
    net = subnets.add(NET, Spec(cidr="192.0.3.0/24"), uuid="u")
    with refused("extends beyond 192.0.2.0/24 and 192.0.3.0/24"):
        pooled(PoolMod(action="add", range="192.0.2.250-192.0.3.5"), net)


@pytest.mark.promise("networks-48")
def test_removing_the_middle_of_a_pool_splits_it_under_its_name() -> None:
    net = pooled(PoolMod(action="remove", range="192.0.2.20-192.0.2.50"))
    assert [(pool.range, pool.name) for pool in net.subnets[0].pools] == [
        ("192.0.2.10-192.0.2.19", "web"),
        ("192.0.2.51-192.0.2.100", "web"),
        ("192.0.2.120", ""),
    ]


def test_the_parts_of_a_split_pool_are_one_pool() -> None:
    net = pooled(PoolMod(action="remove", range="192.0.2.20-192.0.2.50"))
    renamed = pooled(PoolMod(action="modify", ident="web", name="dmz"), net)
    assert [pool.name for pool in renamed.subnets[0].pools] == ["dmz", "dmz", ""]
    apart = pooled(PoolMod(action="modify", ident="192.0.2.10-192.0.2.19", name="dmz"), net)
    assert [pool.name for pool in apart.subnets[0].pools] == ["dmz", "web", ""]
    gone = pooled(PoolMod(action="remove", ident="web"), net)
    assert [pool.range for pool in gone.subnets[0].pools] == ["192.0.2.120"]
    with refused("web is already the name of pool"):
        pooled(PoolMod(action="add", range="192.0.2.30", name="web"), net)


@pytest.mark.parametrize("ident", ["192.0.2.120", "192.0.2.120/32", "192.0.2.120-192.0.2.120"])
def test_a_pool_without_a_name_is_named_by_its_range(ident: str) -> None:
    net = pooled(PoolMod(action="modify", ident=ident, name="one"))
    assert [pool.name for pool in net.subnets[0].pools] == ["web", "one"]
    assert [pool.name for pool in pooled(PoolMod(action="modify", ident="one", name="none"), net).subnets[0].pools] == [
        "web",
        "",
    ]


def test_a_range_is_removed_from_all_pools_that_have_some_of_it() -> None:
    net = pooled(PoolMod(action="remove", range="192.0.2.90-192.0.2.255"))
    assert [pool.range for pool in net.subnets[0].pools] == ["192.0.2.10-192.0.2.89"]


@pytest.mark.promise("networks-51")
def test_external_ranges_lie_over_pools_but_apart_from_each_other() -> None:
    net = pools.reserve(NET, ["192.0.2.60-192.0.2.70"], force=False)
    assert net.subnets[0].external == ("192.0.2.50", "192.0.2.60-192.0.2.70", "192.0.2.200-192.0.2.210")
    assert net.subnets[0].pools == NET.subnets[0].pools
    with refused("external reservation 192.0.2.55-192.0.2.60 overlaps external reservation 192.0.2.60-192.0.2.70"):
        pools.reserve(net, ["192.0.2.55-192.0.2.60"], force=False)


def test_releasing_splits_external_ranges() -> None:
    net = pools.release(NET, ["192.0.2.203-192.0.2.204"])
    assert net.subnets[0].external == ("192.0.2.50", "192.0.2.200-192.0.2.202", "192.0.2.205-192.0.2.210")
    with refused(
        "no address of 192.0.2.203 is reserved externally in network net1; external reservations: 192.0.2.50, "
    ):
        pools.release(net, ["192.0.2.203"])


def test_a_large_range_is_taken_only_when_it_is_meant() -> None:
    net = network.Network(uuid="n", name="big", subnets=(network.Subnet(uuid="s", cidr="10.0.0.0/8"),))
    slip = "10.0.0.0-10.15.66.63"
    with refused("has 1,000,000 addresses, more than 65,536; if this is intended, add --force"):
        pools.reserve(net, [slip], force=False)
    with refused("has 1,000,000 addresses"):
        pools.add(net, PoolSpec(range=slip), force=False)
    assert pools.reserve(net, [slip], force=True).subnets[0].external == (slip,)
    assert pools.add(net, PoolSpec(range=slip), force=True).subnets[0].pools[0].range == slip
    assert pools.add(net, PoolSpec(range="10.16.0.0/12"), force=False).subnets[0].pools[0].range.startswith("10.16.")
    assert pools.reserve(net, ["10.0.0.0-10.0.255.255"], force=False).subnets[0].external


def test_differences_are_reported() -> None:
    after = pools.release(pooled(PoolMod(action="remove", range="192.0.2.20-192.0.2.100")), ["192.0.2.50"])
    after = changed(modify(ident="lan", dhcp=False, gateway="none", name="x"), after)
    after = changed(Mod(action="remove", ident="2001:db8::/64"), after, known_owners=[])
    after = changed(Mod(action="add", cidr="10.0.0.0/24", gateway="10.0.0.1", pool=True), after)
    assert subnet_differences.describe(NET, after) == [
        "remove subnet 2001:db8::/64",
        "subnet 192.0.2.0/24: name lan becomes x",
        "subnet 192.0.2.0/24: gateway 192.0.2.1 becomes none",
        "subnet 192.0.2.0/24: dhcp off",
        "remove pool 192.0.2.10-192.0.2.100 web",
        "add pool 192.0.2.10-192.0.2.19 web",
        "release 192.0.2.50",
        "add subnet 10.0.0.0/24 with gateway 10.0.0.1",
        "add pool 10.0.0.0-10.0.0.255",
    ]
    assert subnet_differences.describe(NET, NET) == []


def test_what_a_network_gains_is_what_its_subnets_did_not_have() -> None:
    grown = changed(modify(ident="lan", cidr="192.0.2.0/23"))
    added = changed(Mod(action="add", cidr="2001:db8:1::/127"), grown)
    assert [ranges.format_range(*gained) for gained in subnets.gained(NET, added)] == [
        "192.0.3.0-192.0.3.255",
        "2001:db8:1::-2001:db8:1::1",
    ]
    assert subnets.gained(added, NET) == []


BASE = ranges.parse_address("10.0.0.0").value
SMALL = network.Network(uuid="n", name="small", subnets=(network.Subnet(uuid="s", cidr="10.0.0.0/26"),))


def text(run: ranges.Range) -> str:
    return ranges.format_range(ranges.Family.IPV4, ranges.Range(BASE + run.first, BASE + run.last))


RUNS = st.tuples(st.integers(0, 63), st.integers(0, 63)).map(lambda ends: ranges.Range(min(ends), max(ends)))
NAMES = st.sampled_from(["", "a", "b", "c"])
CIDRS = st.tuples(st.integers(26, 30), st.integers(0, 63)).map(
    lambda pair: str(ranges.Cidr(ranges.Family.IPV4, BASE + (pair[1] >> 32 - pair[0] << 32 - pair[0]), pair[0]))
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), RUNS, NAMES),
        st.tuples(st.just("remove"), RUNS, st.just("")),
        st.tuples(st.just("reserve"), RUNS, st.just("")),
        st.tuples(st.just("release"), RUNS, st.just("")),
        st.tuples(st.just("resize"), CIDRS, st.just("")),
    ),
    max_size=25,
)


def edited(net: network.Network, edit: tuple[str, ranges.Range | str, str]) -> network.Network:
    match edit:
        case ("resize", str() as cidr, _):
            return changed(modify(ident="s", cidr=cidr), net, known_owners=[])
        case ("add", ranges.Range() as run, name):
            return pools.add(net, PoolSpec(range=text(run), name=name), force=False)
        case ("remove", ranges.Range() as run, _):
            return pooled(PoolMod(action="remove", range=text(run)), net)
        case ("reserve", ranges.Range() as run, _):
            return pools.reserve(net, [text(run)], force=False)
        case (_, ranges.Range() as run, _):
            return pools.release(net, [text(run)])
    raise AssertionError(edit)


def numbers(texts: Iterator[str]) -> list[int]:
    return [number for text in texts for number in range_of(ranges.parse_range(text)[1])]


def range_of(run: ranges.Range) -> range:
    return range(run.first, run.last + 1)


@given(EDITS)
def test_whatever_is_edited_no_address_is_lost_or_doubled(edits: list[tuple[str, ranges.Range | str, str]]) -> None:
    """Compare with a dictionary from address to pool name, and a set of reserved addresses."""
    net, pooled_under, external = SMALL, dict[int, str](), set[int]()
    inside = set(range_of(subnets.address_range(net.subnets[0])[1]))
    for edit in edits:
        with contextlib.suppress(errors.PrerequisiteError):
            net = edited(net, edit)
            kind, what, name = edit
            if isinstance(what, str):
                inside = set(range_of(ranges.parse_cidr(what).range))
                assert external <= inside, "a reservation was trimmed"
                pooled_under = {number: own for number, own in pooled_under.items() if number in inside}
            else:
                run = {BASE + number for number in range_of(what)}
                assert kind not in ("add", "reserve") or run <= inside
                if kind == "add":
                    assert not run & pooled_under.keys()
                    assert not name or name not in pooled_under.values()
                    pooled_under |= dict.fromkeys(run, name)
                elif kind == "remove":
                    assert run & pooled_under.keys()
                    pooled_under = {number: own for number, own in pooled_under.items() if number not in run}
                elif kind == "reserve":
                    assert not run & external
                    external |= run
                else:
                    assert run & external
                    external -= run
        subnet = net.subnets[0]
        assert set(range_of(subnets.address_range(subnet)[1])) == inside
        numbered = [(number, pool.name) for pool in subnet.pools for number in numbers(iter([pool.range]))]
        assert sorted(numbered) == sorted(pooled_under.items())
        assert sorted(numbers(iter(subnet.external))) == sorted(external)


@pytest.mark.parametrize(("ident", "gateway"), [("lan", "192.0.3.1"), ("2001:db8::/64", "fe80::1")])
def test_a_requested_gateway_may_be_outside_of_its_subnet(ident: str, gateway: str) -> None:
    net = changed(modify(ident=ident, gateway=gateway))
    assert gateway in {subnet.gateway for subnet in net.subnets}
    again = changed(modify(ident=ident, label="x"), net)
    assert gateway in {subnet.gateway for subnet in again.subnets}
