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
