"""Networks of an old configuration: one CIDR of each family and two bit strings become subnets; pure.

The IPv4 CIDR becomes a subnet with one pool over the whole of it, the IPv6 CIDR one without a pool, because it had none
(contracts/networks.md#backwards-compatibility). The external reservations become ranges, less the network's own
address, broadcast address and gateway, which no pool hands out anyway. The other bit string is what instances use, and
their NICs say that. Where it says more, the address becomes an external reservation, because something
outside the cluster may use it; where it says less, the NIC is right. The log reports both.
"""

from collections.abc import Collection

import msgspec

from gantry import errors
from gantry.address import pools, ranges
from gantry.model import network
from gantry.state.upgrade import clusters, document, findings


def network_of(
    old: document.Network, uuid: str, used: Collection[str], report: findings.Findings, *, name: str
) -> network.Network:
    """Return a network; ``used`` are the addresses that NICs have in it."""
    subnets = []
    try:
        if old.network:
            subnets.append(_with_pool(old, uuid, used, report, name=name))
        if old.network6:
            subnets.append(_subnet(uuid, old.network6, old.gateway6, family=ranges.Family.IPV6))
    except errors.InvalidError as error:
        report.refuse(error.message, f"network {name}")
    own = clusters.header(old, uuid, name=name) | {"mac_prefix": old.mac_prefix or "", "subnets": tuple(subnets)}
    return msgspec.convert(own, network.Network)


def _subnet(uuid: str, cidr: str, gateway: str | None, *, family: ranges.Family) -> network.Subnet:
    parsed = ranges.parse_cidr(cidr)
    if parsed.family is not family:
        raise errors.InvalidError(f"{cidr} is not an IPv{family.value} subnet")
    address = ranges.parse_address(gateway) if gateway else None
    if address and (address.family is not family or address.value not in parsed.range):
        raise errors.InvalidError(f"gateway {gateway} is outside its subnet {cidr}")
    return network.Subnet(
        uuid=findings.identifier("subnet", uuid, str(parsed)), cidr=str(parsed), gateway=str(address) if address else ""
    )


def _with_pool(
    old: document.Network, uuid: str, used: Collection[str], report: findings.Findings, *, name: str
) -> network.Subnet:
    subnet = _subnet(uuid, old.network or "", old.gateway, family=ranges.Family.IPV4)
    cidr = ranges.parse_cidr(subnet.cidr)
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    external = _runs(old.ext_reservations, cidr, what="ext_reservations")
    never = pools.never_handed_out(cidr, gateway=gateway)
    stray = ranges.difference(_stray(old, cidr, used, report, name=name), [*external, *never])
    if stray:
        report.note(f"network {name}: reserved, but no NIC has it, so now external: {_text(stray)}")
    kept = ranges.union([*ranges.difference(external, never), *stray])
    return msgspec.structs.replace(
        subnet,
        pools=(network.Pool(range=ranges.format_range(cidr.family, cidr.range)),),
        external=tuple(ranges.format_range(cidr.family, run) for run in kept),
    )


def _stray(
    old: document.Network, cidr: ranges.Cidr, used: Collection[str], report: findings.Findings, *, name: str
) -> list[ranges.Range]:
    """Return what is reserved and not in use; note what is in use and not reserved."""
    reserved = _runs(old.reservations, cidr, what="reservations")
    numbers = [ranges.parse_address(text).value for text in used]
    taken = [ranges.Range(number, number) for number in numbers if number in cidr.range]
    missing = ranges.difference(taken, reserved) if old.reservations is not None else []
    if missing:
        report.note(f"network {name}: in use by a NIC, but not reserved, now it is: {_text(missing)}")
    return ranges.difference(reserved, taken)


def _runs(bits: str | None, cidr: ranges.Cidr, *, what: str) -> list[ranges.Range]:
    """Return the runs of ones in a bit string, as addresses of the subnet; InvalidError if it does not fit."""
    if not bits:
        return []
    if len(bits) != cidr.range.size or bits.strip("01"):
        raise errors.InvalidError(
            f"{what} has not one bit, 0 or 1, for each of the {cidr.range.size} addresses of {cidr}"
        )
    first = cidr.range.first
    return list(ranges.joined((first + offset, first + offset) for offset, bit in enumerate(bits) if bit == "1"))


def _text(runs: list[ranges.Range]) -> str:
    return ", ".join(ranges.format_range(ranges.Family.IPV4, run) for run in runs)
