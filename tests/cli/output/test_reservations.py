import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli import networks

from gantry.cli import errors
from gantry.cli.output import network_view, reservations

LAN = networks.subnet(
    "10.0.0.0/24",
    networks.pool("10.0.0.8-10.0.0.15", "web"),
    networks.pool("10.0.0.16-10.0.0.31"),
    gateway="10.0.0.1",
    external=["10.0.0.9-10.0.0.10"],
)
SIX = networks.subnet("2001:db8::/64")
NET = networks.network(
    LAN, SIX, nics=[networks.nic("web1", "10.0.0.8", "2001:db8::8"), networks.nic("db1", "10.0.0.99")]
)


def compared(text: str, net: network_view.Network = NET) -> reservations.Changes:
    return reservations.compare(reservations.parse(text, net, path="file"), net)


def missing(text: str, net: network_view.Network = NET) -> list[str]:
    return [str(run) for run in compared(text, net).missing]


def test_the_export_has_a_line_for_each_reservation_in_order() -> None:
    assert reservations.export(NET).splitlines() == [
        "address,kind,instance,nic,pool",
        "10.0.0.1,gateway,,,",
        "10.0.0.8,instance,web1,0,web",
        "10.0.0.9-10.0.0.10,external,,,web",
        "10.0.0.99,instance,db1,0,",
        "2001:db8::8,instance,web1,0,",
    ]


def test_ports_hold_addresses_as_instances_do() -> None:
    ports = [
        network_view.Port("vip", (networks.Ip("10.0.0.12"),)),
        network_view.Port("uuid-1", (networks.Ip("2001:db8::9"),)),
    ]
    net = networks.network(LAN, SIX, ports=ports)
    assert [row for row in reservations.export(net).splitlines() if ",port," in row] == [
        "10.0.0.12,port,vip,,web",
        "2001:db8::9,port,uuid-1,,",
    ]
    assert missing("10.0.0.11-10.0.0.13", net) == ["10.0.0.11", "10.0.0.13"]
    assert missing(reservations.export(net), net) == []


def test_a_range_over_several_pools_names_them_all() -> None:
    net = networks.network(LAN._replace(external=(network_view.parse_range("10.0.0.15-10.0.0.16"),)))
    (row,) = [row for row in csv.DictReader(reservations.export(net).splitlines()) if row["kind"] == "external"]
    assert row["pool"] == "web 10.0.0.16-10.0.0.31"


def test_an_import_takes_addresses_ranges_and_cidrs_with_comments() -> None:
    heading, old = "\ufeffaddress,comment\n", '# old machines\n10.0.0.60-10.0.0.62,"a, b"\n10.0.0.64/30\n'
    assert missing(f"{heading}10.0.0.50,printer\n\n{old}2001:DB8::0:5\n") == [
        "10.0.0.50",
        "10.0.0.60-10.0.0.62",
        "10.0.0.64-10.0.0.67",
        "2001:db8::5",
    ]


def test_what_is_reserved_already_is_left_out_and_counted() -> None:
    changes = compared("10.0.0.0-10.0.0.12\n10.0.0.9\n10.0.0.99\n")
    assert list(map(str, changes.missing)) == ["10.0.0.0", "10.0.0.2-10.0.0.7", "10.0.0.11-10.0.0.12"]
    assert (changes.size, changes.external, changes.used, changes.gateways) == (9, 2, 2, 1)


def test_what_was_exported_changes_nothing_when_it_is_imported() -> None:
    assert compared(reservations.export(NET)).missing == []


def test_another_network_keeps_its_hands_off_what_was_exported() -> None:
    other = networks.network(networks.subnet("10.0.0.0/16"), SIX)
    assert missing(reservations.export(NET), other) == [
        "10.0.0.1",
        "10.0.0.8-10.0.0.10",
        "10.0.0.99",
        "2001:db8::8",
    ]


def test_ranges_end_where_their_subnet_does() -> None:
    net = networks.network(networks.subnet("10.0.0.128/25"), networks.subnet("10.0.0.0/25"))
    assert missing("10.0.0.128\n10.0.0.127\n10.0.0.129\n", net) == ["10.0.0.127", "10.0.0.128-10.0.0.129"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("10.0.0.256", "does not appear to be an IPv4 or IPv6 address"),
        ("10.0.1.0", r"not in a subnet of network net1 \(subnets: 10.0.0.0/24, 2001:db8::/64\)"),
        ("10.0.0.250-10.0.1.5", "not in a subnet of network"),
        ("10.0.0.9-10.0.0.2", "ends before it begins"),
        ("10.0.0.9-2001:db8::1", "mixes IPv4 and IPv6"),
        ("10.0.0.9/24", "has host bits set"),
        ("2001:db8::1%eth0", "zone id"),
        ("2001:db8::-2001:db8::ffff:ffff", "write such a large range as a CIDR"),
        ('"10.0.0.9', "unexpected end of data"),
        ("10.0.0.9;printer", "does not appear to be"),
    ],
)
def test_a_wrong_line_stops_all_with_its_number(line: str, complaint: str) -> None:
    with pytest.raises(errors.InvalidError, match=f"file, line 3: .*{complaint}"):
        reservations.parse(f"10.0.0.50,fine\n\n{line}\n", NET, path="file")


def test_a_cidr_may_be_as_large_as_its_subnet() -> None:
    assert missing("2001:db8::/64\n") == ["2001:db8::-2001:db8::7", "2001:db8::9-2001:db8::ffff:ffff:ffff:ffff"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=8), st.sets(st.integers(0, 47), max_size=12))
def test_missing_is_what_lines_name_without_what_is_reserved(lines: list[tuple[int, int]], used: set[int]) -> None:
    net = networks.network(
        networks.subnet("10.0.0.0/26", external=["10.0.0.20-10.0.0.22"]),
        nics=[networks.nic("i", *(f"10.0.0.{number}" for number in sorted(used)))],
    )
    text = "".join(f"10.0.0.{first}-10.0.0.{first + more}\n" for first, more in lines)
    named = {number for first, more in lines for number in range(first, first + more + 1)}
    base = int(networks.Ip("10.0.0.0"))
    changes = compared(text, net)
    missing_numbers = [number - base for run in changes.missing for number in range(run.first, run.last + 1)]
    assert missing_numbers == sorted(named - used - {20, 21, 22})
    assert changes.size + changes.external + changes.used == len(named)
