"""Which addresses belong to one client of a server."""

import pytest

from gantry.runtime import limits


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2", "2001:db8::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
        ("fe80::1%br0", "fe80::/64"),
        ("", ""),
        ("@abstract", "@abstract"),
        ("node1:1811", "node1:1811"),
    ],
)
def test_an_address_of_ipv6_belongs_to_its_network_and_any_other_text_to_itself(address: str, peer: str) -> None:
    assert limits.peer_of(address) == peer


@pytest.mark.parametrize(
    ("descriptors", "connections", "strangers", "per_peer"),
    [
        (65536, 500, 200, 250),
        (1500, 500, 200, 250),
        (1499, 499, 200, 250),
        (797, 265, 198, 250),
        (600, 200, 150, 200),
        (3, 1, 1, 1),
        (0, 1, 1, 1),
    ],
)
def test_a_server_has_a_third_of_the_descriptors_of_its_process_and_three_quarters_of_these_for_strangers(
    descriptors: int, connections: int, strangers: int, per_peer: int
) -> None:
    allowed = limits.HttpLimits(connections=500, strangers=200, per_peer=250, requests=7)
    expected = limits.HttpLimits(connections=connections, strangers=strangers, per_peer=per_peer, requests=7)
    assert allowed.within(descriptors) == expected


@pytest.mark.parametrize(
    ("descriptors", "connections", "refused", "arrivals"),
    [
        (65536, 4000, 500, 4096),
        (8000, 4000, 500, 1000),
        (7998, 3999, 500, 999),
        (3999, 1999, 499, 499),
        (16, 8, 2, 2),
        (1, 1, 1, 1),
    ],
)
def test_a_unix_server_has_half_of_the_descriptors_and_an_eighth_for_refusals_and_for_arrivals(
    descriptors: int, connections: int, refused: int, arrivals: int
) -> None:
    allowed = limits.UnixLimits(connections=4000, refused=500, per_user=9)
    assert allowed.within(descriptors) == limits.UnixLimits(connections=connections, refused=refused, per_user=9)
    assert limits.arrivals_within(descriptors) == arrivals


@pytest.mark.parametrize("address", ["", "node1", "192.0.2", "%br0"])
def test_only_an_address_has_a_plain_form(address: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        limits.plain(address)
