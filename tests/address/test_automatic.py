"""Addresses that hosts give themselves."""

import pytest

from gantry import errors
from gantry.address import automatic, ranges


@pytest.mark.parametrize(
    ("mac", "address"),
    [
        ("00:16:3e:33:44:55", "2001:db8::216:3eff:fe33:4455"),
        ("02:00:00:00:00:01", "2001:db8::ff:fe00:1"),
        ("FF:ff:ff:FF:ff:ff", "2001:db8::fdff:ffff:feff:ffff"),
    ],
)
def test_an_automatic_address_is_the_prefix_and_the_mac_with_its_universal_bit_turned(mac: str, address: str) -> None:
    assert str(automatic.address(ranges.parse_cidr("2001:db8::/64"), mac)) == address


def test_a_shorter_prefix_leaves_zeros_between() -> None:
    assert str(automatic.address(ranges.parse_cidr("2001:db8::/48"), "00:16:3e:33:44:55")).startswith("2001:db8::216:")


@pytest.mark.parametrize("cidr", ["2001:db8::/65", "10.0.0.0/8"])
def test_a_subnet_with_fewer_than_64_host_bits_is_refused(cidr: str) -> None:
    with pytest.raises(
        errors.InvalidError, match=r"cannot configure their own addresses in subnet .*; use an IPv6 subnet"
    ):
        automatic.address(ranges.parse_cidr(cidr), "00:16:3e:33:44:55")


@pytest.mark.parametrize(
    "mac", ["", "00:16:3e:33:44", "00:16:3e:33:44:5g", "00-16-3e-33-44-55", "00:16:3e:33:44:55:66"]
)
def test_what_is_no_mac_is_refused(mac: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not a MAC"):
        automatic.address(ranges.parse_cidr("2001:db8::/64"), mac)
