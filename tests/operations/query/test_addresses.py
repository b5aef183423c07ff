"""Who has an address, by whatever it is asked for."""

import dataclasses
from typing import NoReturn

import pytest
from msgspec import structs
from tests import effort
from tests.operations import build

from gantry import errors
from gantry.address import ranges
from gantry.model import instance, network
from gantry.operations.query import addresses
from gantry.state.objects import snapshot as states

PORT = network.Port(
    uuid="p1", name="vip", network="net", mac="aa:00:00:00:00:55", ip=("192.0.2.55", "2001:db8::55"), device_id="d1"
)
CLAIM = network.Port(
    uuid="p2", name="IPClaim/ns/host", network="net", mac="aa:00:00:00:00:56", ip=("192.0.2.56",),
    device_owner="kubernetes:IPClaim",
)  # fmt: skip
BARE = structs.replace(
    build.VM,
    uuid="i2",
    name="bare.example",
    nics=(
        instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", ip=("198.51.100.7",)),
        instance.Nic(uuid="x3", mac="aa:00:00:00:00:03", network="net"),
    ),
    lingering=(instance.Lingering(network="net", ip="192.0.2.77", nic="x3"),),
)
QUARANTINED = network.Quarantine(network="net", ip="192.0.2.12", until=5000.0, instance="i9", name="old.example")
Short = tuple[str, str, str, str, str]


class Unwalked(dict[str, network.Port]):
    """A collection for look-ups only."""

    def values(self) -> NoReturn:
        pytest.fail("a collection was walked")


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(PORT, CLAIM, BARE, QUARANTINED)
    return lab


def rows_of(lab: build.MemoryCluster, text: str) -> list[addresses.Row]:
    return [fact.row for fact in addresses.Finder(lab.state, lab.ledger).find(addresses.parse(text))]


def short(lab: build.MemoryCluster, text: str) -> list[Short]:
    return [(row.address, row.network, row.state, row.kind, row.owner) for row in rows_of(lab, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.10", [("192.0.2.10", "net1", "in use", "instance", "vm1")]),
        ("192.0.2.55", [("192.0.2.55", "net1", "in use", "port", "vip")]),
        ("2001:DB8:0::55", [("2001:db8::55", "net1", "in use", "port", "vip")]),
        ("192.0.2.56", [("192.0.2.56", "net1", "in use", "claim", "IPClaim/ns/host")]),
        ("192.0.2.77", [("192.0.2.77", "net1", "in use", "running guest", "bare.example")]),
        ("192.0.2.12", [("192.0.2.12", "net1", "quarantined", "instance", "old.example")]),
        ("192.0.2.1", [("192.0.2.1", "net1", "gateway", "", "")]),
        ("192.0.2.50", [("192.0.2.50", "net1", "external", "", "")]),
        ("192.0.2.255", [("192.0.2.255", "net1", "end of the subnet", "", "")]),
        ("192.0.2.13", [("192.0.2.13", "net1", "free", "", "")]),
        ("198.51.100.7", [("198.51.100.7", "", "in use", "instance", "bare.example")]),
        ("203.0.113.2", [("203.0.113.2", "", "node", "node", "node2")]),
        ("198.51.100.8", []),
        ("AA:00:00:00:00:01", [("192.0.2.10", "net1", "in use", "instance", "vm1")]),
        ("aa:00:00:00:00:03", [("", "net1", "in use", "instance", "bare.example")]),
        ("aa:00:00:00:00:56", [("192.0.2.56", "net1", "in use", "claim", "IPClaim/ns/host")]),
        ("aa:00:00:00:00:99", []),
        ("vm1", [("192.0.2.10", "net1", "in use", "instance", "vm1")]),
        ("x1", [("192.0.2.10", "net1", "in use", "instance", "vm1")]),
        ("p2", [("192.0.2.56", "net1", "in use", "claim", "IPClaim/ns/host")]),
        (
            "bare",
            [
                ("198.51.100.7", "", "in use", "instance", "bare.example"),
                ("", "net1", "in use", "instance", "bare.example"),
                ("192.0.2.77", "net1", "in use", "running guest", "bare.example"),
            ],
        ),
        (
            "vip",
            [
                ("192.0.2.55", "net1", "in use", "port", "vip"),
                ("2001:db8::55", "net1", "in use", "port", "vip"),
            ],
        ),
        ("node3", [("203.0.113.3", "", "node", "node", "node3")]),
        ("nobody", []),
        (
            "192.0.2.0/28",
            [
                ("192.0.2.1", "net1", "gateway", "", ""),
                ("192.0.2.10", "net1", "in use", "instance", "vm1"),
                ("192.0.2.12", "net1", "quarantined", "instance", "old.example"),
            ],
        ),
        ("198.51.100.0/24", [("198.51.100.7", "", "in use", "instance", "bare.example")]),
        ("203.0.113.2/31", [(f"203.0.113.{n}", "", "node", "node", f"node{n}") for n in (2, 3)]),
        ("10.0.0.0/8", []),
    ],
)
def test_an_address_is_found_by_what_a_person_knows_of_it(
    lab: build.MemoryCluster, text: str, expected: list[Short]
) -> None:
    assert short(lab, text) == expected


def test_a_network_shows_all_its_addresses(lab: build.MemoryCluster) -> None:
    assert {row.address for row in rows_of(lab, "net1")} == {
        *("192.0.2.1", "192.0.2.10", "192.0.2.12", "192.0.2.50", "192.0.2.55", "192.0.2.56", "192.0.2.77"),
        "2001:db8::55",
    }


def test_an_address_has_a_row_for_each_fact_in_each_network(lab: build.MemoryCluster) -> None:
    lan = network.Subnet(uuid="t", cidr="192.0.2.0/24", external=("192.0.2.10-192.0.2.19",))
    lab.put(network.Network(uuid="twin", name="twin", subnets=(lan,)))
    lab.put(structs.replace(PORT, uuid="p3", network="twin", mac="aa:00:00:00:00:57", ip=("192.0.2.10",)))
    assert short(lab, "192.0.2.10") == [
        ("192.0.2.10", "net1", "in use", "instance", "vm1"),
        ("192.0.2.10", "twin", "in use", "port", "vip"),
        ("192.0.2.10", "twin", "external", "", ""),
    ]
    assert short(lab, "192.0.2.18/31")[-1] == ("192.0.2.18-192.0.2.19", "twin", "external", "", "")


def test_a_row_has_the_place_of_the_address_and_of_its_owner(lab: build.MemoryCluster) -> None:
    (row,) = rows_of(lab, "192.0.2.10")
    assert (row.subnet, row.pool, row.nic, row.mac, row.owner_uuid, row.network_uuid) == (
        *("192.0.2.0/24", "lan", 0, "aa:00:00:00:00:01"),
        *("i1", "net"),
    )
    (row,) = rows_of(lab, "192.0.2.12")
    assert (row.pool, row.owner_uuid, row.to) == ("lan", "i9", 5000.0)
    assert rows_of(lab, "2001:db8::15")[0].pool == "2001:db8::10-2001:db8::1f"


def test_an_address_that_a_job_holds_and_one_of_another_user_of_the_database_are_not_free(
    lab: build.MemoryCluster,
) -> None:
    lab.ledger.hold(7, lab.state, changes=[states.Put(structs.replace(PORT, uuid="p9", ip=("192.0.2.14",)))])
    lab.ledger.learn(("net", "192.0.2.15"), "cluster two")
    assert short(lab, "192.0.2.14") == [("192.0.2.14", "net1", "held by a job", "job", "7")]
    assert short(lab, "192.0.2.15") == [("192.0.2.15", "net1", "in use elsewhere", "", "cluster two")]


@pytest.mark.parametrize("text", ["192.0.2.256", "192.0.2.0/33", "2001:db8::g", "192.0.2.1/24", ""])
def test_what_looks_like_an_address_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidError):
        addresses.parse(text)


@pytest.mark.parametrize("text", ["192.0.2.10", "aa:00:00:00:00:01", "vm1", "p1", "192.0.2.13", "203.0.113.1"])
def test_no_question_for_one_walks_ports_or_a_space(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    expected = short(lab, text)
    monkeypatch.setattr("gantry.address.space.Space.used_runs", lambda *_: pytest.fail("a space was walked"))
    unwalked = dataclasses.replace(lab.state)
    object.__setattr__(unwalked, "ports", Unwalked(lab.state.ports))
    facts = addresses.Finder(unwalked, lab.ledger).find(addresses.parse(text))
    rows = [fact.row for fact in facts]
    assert [(row.address, row.network, row.state, row.kind, row.owner) for row in rows] == expected


def test_each_fact_of_an_object_has_a_test_that_the_object_passes(lab: build.MemoryCluster) -> None:
    for text in ("192.0.2.10", "192.0.2.55", "192.0.2.12", "192.0.2.1", "192.0.2.50", "203.0.113.2", "198.51.100.7"):
        (fact,) = addresses.Finder(lab.state, lab.ledger).find(addresses.parse(text))
        assert fact.value is not None
        assert fact.has is not None
        assert fact.has(fact.value)
        assert not fact.has(structs.replace(BARE, nics=(), lingering=()))
        assert not fact.has(structs.replace(build.NET, subnets=()))


def test_the_past_is_asked_with_the_same_words() -> None:
    (use,) = build.VM.allocations()
    for text in ("192.0.2.10", "192.0.2.10/32", "192.0.2.0/24", "AA:00:00:00:00:01", "vm1", "i1"):
        assert addresses.matches(addresses.parse(text))(build.VM, use), text
    for text in ("192.0.2.1", "192.0.3.0/24", "2001:db8::/64", "aa:00:00:00:00:02", "vm"):
        assert not addresses.matches(addresses.parse(text))(build.VM, use), text
    named = addresses.matches(addresses.parse("vm1"))
    assert named(build.VM, use)
    assert named(structs.replace(build.VM, name="renamed"), use)
    family = ranges.Family.IPV4
    assert addresses.parse("192.0.2.0/24").family is family


def _with_reservations(count: int) -> tuple[build.MemoryCluster, tuple[str, ...]]:
    """Return a cluster with a network of single external reservations and one of a range, and the texts of these."""
    numbers = range(0x0A000100, 0x0A000100 + 4 * count, 4)
    texts = tuple(ranges.format_range(ranges.Family.IPV4, ranges.Range(n, n + n // 4 % 2)) for n in numbers)
    lab = build.MemoryCluster()
    subnet = network.Subnet(uuid="many", cidr="10.0.0.0/8", external=texts)
    lab.put(network.Network(uuid="many", name="many", subnets=(subnet,)))
    return lab, texts


@pytest.mark.parametrize(
    ("address", "state"), [("10.0.1.4", "external"), ("10.0.1.5", "external"), ("10.0.1.2", "free")]
)
def test_the_cost_of_an_address_does_not_grow_with_the_external_reservations(address: str, state: str) -> None:
    few, many = _with_reservations(20)[0], _with_reservations(20_000)[0]

    def find(lab: build.MemoryCluster) -> int:
        def ask() -> None:
            (fact,) = addresses.Finder(lab.state, lab.ledger).find(addresses.parse(address))
            assert fact.row.state == state
            assert fact.has is None or fact.has(lab.state.networks["many"])

        ask()
        return effort.lines(ask)

    # Each step of a bisection parses one reservation.
    assert find(many) < find(few) + 1000


def test_the_external_reservations_of_a_cidr_are_those_in_it() -> None:
    lab, texts = _with_reservations(300)
    for cidr in ("10.0.1.0/29", "10.0.2.5/32", "10.0.2.0/30", "10.0.5.240/28", "10.200.0.0/24", "10.0.0.0/8"):
        run = ranges.parse_cidr(cidr).range
        parts = (ranges.parse_range(text)[1].intersection(run) for text in texts)
        expected = [ranges.format_range(ranges.Family.IPV4, part) for part in parts if part]
        listed = [row.address for row in rows_of(lab, cidr) if row.state == "external"]
        assert listed == expected, cidr
