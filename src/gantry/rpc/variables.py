"""The environment variables of scripts for a NIC's link, network and addresses; all scripts use these names. Pure.

    MAC MODE LINK BRIDGE IP                                     how it is plugged in, its first address
    NETWORK_NAME NETWORK_UUID NETWORK_MAC_PREFIX NETWORK_TAGS
    NETWORK_TYPE NETWORK_SEGMENT NETWORK_PHYSICAL               its segment: vlan, vxlan ..., id, physical network
    MTU                                                         longest packet of the guest, in a tunnelled segment
    NETWORK_SUBNET NETWORK_GATEWAY NETWORK_SUBNET6 NETWORK_GATEWAY6
                                                                for each family the subnet of the NIC's first address
                                                                of it, or else the network's first subnet of it
    IP_COUNT IP:i NETWORK_SUBNET:i NETWORK_GATEWAY:i NETWORK_DHCP:i
                                                                address i, from 0, and its subnet
    IP_i NETWORK_SUBNET_i NETWORK_GATEWAY_i NETWORK_DHCP_i      the same, for shells: they cannot read a colon

Interface scripts get these names as they are, OS scripts with ``NIC_n_`` and hooks with ``INSTANCE_NICn_`` in front
(contracts/networks.md#variables). The last two rows are only for a NIC that Ganeti does not have: with several
addresses, or with an address of a DHCP subnet. Any other has exactly the variables of Ganeti
(contracts/networks.md#backwards-compatibility). An unknown value is omitted; booleans are ``True`` and
``False``, lists are separated by blanks.

Used by the environments of the node's scripts and by those of hooks, which the master makes.
"""

from collections.abc import Iterable, Mapping, Sequence

from gantry.rpc import calls

Environment = dict[str, str]


def known(**values: str) -> Environment:
    """Return the variables that have a value."""
    return {name: value for name, value in values.items() if value}


def numbered(rows: Iterable[Mapping[str, str]]) -> Environment:
    """Return the variables of each row with its number behind, as ``NAME:i`` and as ``NAME_i``."""
    values = [(name, str(index), value) for index, row in enumerate(rows) for name, value in row.items() if value]
    return {f"{name}{mark}{index}": value for mark in ":_" for name, index, value in values}


def _first_subnets(subnets: Iterable[calls.Subnet]) -> Environment:
    """Return the first subnet of each family under Ganeti's names, where a network has at most one of each."""
    variables: Environment = {}
    for subnet in subnets:
        family = "6" if ":" in subnet.cidr else ""
        if f"NETWORK_SUBNET{family}" not in variables:
            variables |= known(**{f"NETWORK_SUBNET{family}": subnet.cidr, f"NETWORK_GATEWAY{family}": subnet.gateway})
    return variables


def nic(plugged: calls.Nic) -> Environment:
    """Return all that the docstring of the module lists, without a prefix."""
    ip = plugged.addresses[0].ip if plugged.addresses else ""
    segment = plugged.network.segment if plugged.network else None
    # A script that put a guest on the link of a tunnel would put it beside the nodes.
    tunnelled = segment is not None and segment.network_type != "vlan"
    bridge = plugged.link if plugged.mode == "bridged" and not tunnelled else ""
    link = {"MAC": plugged.mac, "MODE": plugged.mode} | known(IP=ip, LINK=plugged.link, BRIDGE=bridge)
    link |= known(MTU=str(plugged.mtu or ""))
    own = [
        calls.Subnet(cidr=address.subnet, gateway=address.gateway) for address in plugged.addresses if address.subnet
    ]
    return link | (network(plugged.network, own) if plugged.network else {}) | _addresses(plugged.addresses)


def network(net: calls.Network, own: Sequence[calls.Subnet] = ()) -> Environment:
    """Return the variables of a network; the subnets ``own`` go before the network's first ones."""
    identity = {"NETWORK_NAME": net.name, "NETWORK_UUID": net.uuid, "NETWORK_TAGS": " ".join(net.tags)}
    identity |= known(NETWORK_MAC_PREFIX=net.mac_prefix) | _segment(net.segment)
    return identity | _first_subnets([*own, *net.subnets])


def _segment(segment: calls.Segment | None) -> Environment:
    if segment is None:
        return {}
    return known(
        NETWORK_TYPE=segment.network_type,
        NETWORK_SEGMENT=str(segment.segmentation_id),
        NETWORK_PHYSICAL=segment.physical_network,
    )


def subnet(*, cidr: str, gateway: str, dhcp: bool) -> Environment:
    """Return the variables of a subnet with a numbered name; without ``cidr`` there is none."""
    return {"NETWORK_SUBNET": cidr, "NETWORK_GATEWAY": gateway, "NETWORK_DHCP": str(dhcp) if cidr else ""}


def _addresses(addresses: Sequence[calls.Address]) -> Environment:
    """Return each address with its subnet; empty for a NIC that Ganeti could have."""
    if len(addresses) < 2 and not any(address.dhcp for address in addresses):
        return {}
    rows = [
        {"IP": address.ip} | subnet(cidr=address.subnet, gateway=address.gateway, dhcp=address.dhcp)
        for address in addresses
    ]
    return {"IP_COUNT": str(len(addresses))} | numbered(rows)
