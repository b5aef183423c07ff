"""Automatic addresses, which a host forms from its subnet's prefix and its MAC (EUI-64, RFC 4291 appendix A).

IPAM drivers call it, for subnets whose hosts configure themselves from router advertisements.
"""

import re

from gantry import errors
from gantry.address import ranges

_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_INTERFACE_BITS = 64
_UNIVERSAL_BIT = 1 << 57
_MIDDLE = 0xFFFE << 24


def interface_id(mac: str) -> int:
    """Return the interface id of a MAC, 64 bits; InvalidError if the text is not a MAC."""
    if not _MAC.fullmatch(mac):
        raise errors.InvalidError(f"'{mac}' is not a MAC", hint="write six pairs like aa:00:00:1f:c9:3b")
    digits = int(mac.replace(":", ""), 16)
    return ((digits >> 24 << 40) | _MIDDLE | (digits & 0xFFFFFF)) ^ _UNIVERSAL_BIT


def address(cidr: ranges.Cidr, mac: str) -> ranges.Address:
    """Return the host's address; InvalidError if the subnet has fewer than 64 host bits.

    >>> str(address(ranges.parse_cidr("2001:db8::/64"), "00:16:3e:33:44:55"))
    '2001:db8::216:3eff:fe33:4455'
    """
    if cidr.family.bits - cidr.prefix < _INTERFACE_BITS:
        raise errors.InvalidError(
            f"hosts cannot configure their own addresses in subnet {cidr}",
            hint="use an IPv6 subnet with a prefix length of at most 64",
        )
    return ranges.Address(cidr.family, cidr.first | interface_id(mac))
