"""Errors for an address, number or segment that has an owner already; each names the owner.

``kinds`` raises them when an object enters a unique index, and IPAM drivers before they allocate.
"""

from collections.abc import Mapping

from gantry import errors
from gantry.model import cluster as clusters
from gantry.model import instance, network

Owner = instance.Instance | network.Port
"""An object that owns addresses and MAC addresses."""


def owner_title(owner: Owner) -> str:
    """Return the text that names an instance or a port in a message."""
    if isinstance(owner, instance.Instance):
        return f"instance {owner.name}"
    return f"port {owner.name} ({owner.uuid})" if owner.name else f"port {owner.uuid}"


def number_in_use(number: instance.Number, nodes: Mapping[str, clusters.Node], *, owner: str) -> errors.NotUniqueError:
    """Return the error for a minor or port that a disk has; ``owner`` names that disk."""
    where = f"minor {number.number} of node {nodes[number.space].name}" if number.space else f"port {number.number}"
    return errors.NotUniqueError(f"{where} is in use by {owner}")


def segment_in_use(segment: network.Segment, *, owner: network.Network) -> errors.NotUniqueError:
    """Return the error for a segment that a network has."""
    where = f" of physical network {segment.physical_network}" if segment.physical_network else ""
    return errors.NotUniqueError(
        f"{segment.network_type} segment {segment.segmentation_id}{where} is in use by network {owner.name}",
        hint="choose another, or none, so that a free one is picked",
    )


def physical_network_in_use(physical: str, *, owner: network.Network) -> errors.NotUniqueError:
    """Return the error for a physical network whose untagged frames a flat network has."""
    return errors.NotUniqueError(
        f"physical network {physical} already has the flat network {owner.name}",
        hint="use that network, another physical network, or a VLAN",
    )


def mac_in_use(mac: str, *, owner: Owner) -> errors.NotUniqueError:
    """Return the error for a MAC address that an instance or port has."""
    return errors.NotUniqueError(f"MAC address {mac} is in use by {owner_title(owner)}")


def address_in_use(net: network.Network | None, ip: str, *, owner: Owner) -> errors.NotUniqueError:
    """Return the error for an address that an instance or port uses."""
    where = f" in network {net.name}" if net else ""
    lingering = owner.lingering if isinstance(owner, instance.Instance) else ()
    if any(address.ip == ip and address.network == (net.uuid if net else "") for address in lingering):
        return errors.NotUniqueError(
            f"address {ip}{where} was taken from instance {owner.name}, whose guest still uses it",
            hint=f"stop that instance, or gnt-instance reboot {owner.name}; or choose another address",
        )
    return errors.NotUniqueError(
        f"address {ip}{where} is in use by {owner_title(owner)}", hint="choose another, or a pool"
    )
