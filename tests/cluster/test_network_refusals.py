"""Changes of networks that are refused: each says what holds the thing in question, and nothing changes."""

from collections.abc import Iterator

import pytest
from tests.cluster import lab, test_refused_requests, wires


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--subnet add:cidr=192.0.2.128/25", "subnets 192.0.2.0/24 and 192.0.2.128/25 overlap"),
        ("--subnet add:cidr=198.51.100.9/24", "its network is '198.51.100.0/24'"),
        ("--subnet add:cidr=::ffff:10.0.0.0/104", "in IPv6 spelling"),
        ("--subnet add:cidr=::/80", "subnet ::/80 contains ::ffff:0:0/96, the IPv4-mapped IPv6 addresses"),
        ("--subnet add:cidr=fe80::%eth0/64", "has a scope id"),
        ("--subnet add:cidr=198.51.100.0/24,gateway=2001:db8::1", "has another IP version than its subnet"),
        ("--subnet add:cidr=198.51.100.0/24,gateway=198.51.100.0", "is the first address of the subnet"),
        ("--subnet add:cidr=198.51.100.0/24,name=lan", "two subnets are named lan"),
        ("--subnet add:cidr=0.0.0.0/0", "subnet 0.0.0.0/0 contains all addresses"),
        ("--subnet lan:modify,gateway=192.0.2.33", "192.0.2.33 is the gateway of the subnet 192.0.2.0/24, and"),
        ("--subnet lan:modify,cidr=192.0.2.0/27", "in use by instance user"),
        ("--subnet lan:modify,cidr=192.0.2.9/22", "its network is '192.0.0.0/22'"),
        ("--subnet lan:remove", "(192.0.2.33)"),
        ("--subnet wan:modify,name=x", "has no subnet wan"),
        ("--pool add:198.51.100.1-198.51.100.9", "10.0.0.0/8); add its subnet first: --subnet add:cidr=CIDR"),
        ("--pool add:192.0.2.250-192.0.3.9", "extends beyond 192.0.2.0/24"),
        ("--pool add:192.0.2.19-192.0.2.25", "192.0.2.19-192.0.2.25 overlaps pool 192.0.2.10-192.0.2.19 (web); choose"),
        ("--pool add:192.0.2.30-192.0.2.20", "is backwards; write '192.0.2.20-192.0.2.30'"),
        ("--pool add:192.0.2.30,name=web", "pool name web is already the name of pool 192.0.2.10-192.0.2.19"),
        ("--pool add:192.0.2.30,name=pool6", "pool name pool6 is a reserved word"),
        ("--pool add:192.0.2.30,name=192.0.2.30", "looks like an address"),
        ("--pool add:192.0.2.99999", "192.0.2.99999"),
        ("--pool add:start=192.0.2.250,size=9", "pool of 9 addresses from 192.0.2.250 on extends beyond 192.0.2.0/24"),
        ("--pool add:start=192.0.2.250,size=0", "a range of 0 addresses is empty"),
        ("--subnet nowhere:remove", "has no subnet nowhere; its subnets: 192.0.2.0/24 (lan), 10.0.0.0/8"),
        ("--subnet add:cidr=198.51.100.0/24,dhcp=yes", "it; --subnet 192.0.2.0/24:modify,dhcp=no removes it"),
        ("--pool remove:192.0.2.30-192.0.2.40", "no pool of network"),
        ("--pool web:modify", "no value to modify"),
        ("--add-reserved-ips 192.0.2.45-192.0.2.60", "overlaps external reservation 192.0.2.50-192.0.2.59"),
        ("--add-reserved-ips 192.0.2.9-192.0.2.5", "is backwards"),
        ("--add-reserved-ips 192.0.2.5,bogus", "'bogus' is not an address range"),
        ("--remove-reserved-ips 192.0.2.5", "no address of 192.0.2.5 is reserved externally"),
        ("--add-reserved-ips 10.0.0.0-10.15.66.63", "has 1,000,000 addresses, more than 65,536; if this is intended"),
        ("--pool add:10.0.0.0-10.15.66.63", "has 1,000,000 addresses"),
        ("--subnet lan:modify,name=x --subnet lan:modify,name=y", "has no subnet lan"),
        ("--subnet lan:modify,name=x --add-reserved-ips 203.0.113.1", "outside every subnet"),
        ("-m 01:00:00", "multicast"),
        ("--gateway6 2001:db8::1", "has no IPv6 subnet"),
        ("", "no change of network"),
    ],
)  # fmt: skip
def test_changes_that_are_refused_change_nothing(crowded: wires.Wire, options: str, message: str) -> None:
    assert message in crowded.refused(options)


@pytest.fixture(scope="module")
def crowded(shared: lab.Lab) -> Iterator[wires.Wire]:
    """A network that has something of everything."""
    wire = wires.create_wire(
        shared, "--subnet cidr=192.0.2.0/24,gateway=192.0.2.1,name=lan,dhcp=yes --subnet cidr=10.0.0.0/8"
    )
    wire.modify("--pool add:192.0.2.10-192.0.2.19,name=web --add-reserved-ips 192.0.2.50-192.0.2.59")
    wire.use("ip=192.0.2.33")
    yield wire
    wire.remove()


@pytest.mark.parametrize(
    ("ips", "message"),
    [
        ("ip=192.0.2.0", "192.0.2.0 is the first address of the subnet"),
        ("ip=192.0.2.255", "192.0.2.255 is the last address of the subnet"),
        ("ip=192.0.2.1", "192.0.2.1 is the gateway of the subnet"),
        ("ip=::ffff:192.0.2.9", "in IPv6 spelling"),
        ("ip=2001:db8::1%eth0", "has a scope id"),
        ("ip=pool6", "has no IPv6 pool"),
        ("ip0=web,ip1=192.0.2.11-192.0.2.19", "has no pool 192.0.2.11-192.0.2.19; its named pools are: web"),
    ],
)
def test_addresses_that_cannot_be_allocated(crowded: wires.Wire, ips: str, message: str) -> None:
    assert message in crowded.not_given(ips)


def test_a_malformed_option_is_shown_with_a_mark_and_its_grammar(crowded: wires.Wire) -> None:
    output = crowded.refused("--subnet 2001:db8::/64:modfy,dhcp=false")
    displayed, mark = output.splitlines()[3:5]
    assert displayed.strip() == "2001:db8::/64:modfy,dhcp=false"
    assert mark.index("^") == displayed.index("modfy")
    assert "IDENT:modify[,cidr=CIDR]" in output
    assert "add:RANGE[,name=NAME]" in crowded.refused("--pool 192.0.2.1")


def test_a_large_range_that_is_meant_is_taken(crowded: wires.Wire) -> None:
    crowded.modify("--force --add-reserved-ips 10.0.0.0-10.15.66.63 --pool add:10.0.0.0/12,name=big")
    assert crowded.use("ip=big") == ["10.15.66.64"]
    crowded.free(crowded.instances[-1])
    crowded.modify("--remove-reserved-ips 10.0.0.0-10.15.66.63 --pool big:remove")


def test_a_dry_run_says_what_would_be_different(crowded: wires.Wire) -> None:
    options = "--dry-run --subnet lan:modify,cidr=192.0.2.0/26,dhcp=no --pool remove:192.0.2.15"
    with test_refused_requests.unchanged(crowded.cluster):
        output = crowded.cluster.run("gnt-network", "modify", *options.split(), crowded.name).stdout.splitlines()
        assert output == [
            f"change network {crowded.name}",
            "subnet 192.0.2.0/24: cidr 192.0.2.0/24 becomes 192.0.2.0/26",
            "subnet 192.0.2.0/24: dhcp off",
            "remove pool 192.0.2.10-192.0.2.19 web",
            "add pool 192.0.2.10-192.0.2.14 web",
            "add pool 192.0.2.16-192.0.2.19 web",
        ]
    assert "in use by instance" in crowded.refused("--dry-run --subnet lan:remove")
