"""From what was asked for a NIC to the NIC that is stored: plug, MAC address, addresses.

Shared by the units that make or change NICs. Pure: the picks of one plan are in its ``allocations``, identifiers come
from its inputs. A NIC with a network takes mode, link and VLAN from the network's connection to the node group, like a
cable (networks seed "Semantics", L2).
"""

from collections.abc import Sequence

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver
from gantry.model import base as entities
from gantry.model import cluster, instance, network, opcodes, parameters
from gantry.operations import base
from gantry.state import snapshot as states

MAC_TRIES = 1000
_HEX = frozenset("0123456789abcdef")


def given(text: str | None) -> bool:
    """Tell whether a value was given; ``none`` counts as not given."""
    return text not in (None, "", "none")


def addresses(spec: opcodes.NicSpec) -> list[str]:
    """Return what is asked for as addresses, one by one."""
    listed = [spec.ip] if isinstance(spec.ip, str) else list(spec.ip or ())
    return [text for text in listed if given(text)]


class Maker:
    """Makes the NICs of one plan; without ``allocations`` those with a network have no addresses."""

    def __init__(
        self,
        snapshot: states.Snapshot,
        group: cluster.NodeGroup,
        inputs: base.Inputs,
        *,
        allocations: driver.Allocations | None,
        force: bool,
        conflicts_check: bool,
    ) -> None:
        self._snapshot = snapshot
        self._group = group
        self._inputs = inputs
        self._allocations = allocations
        self._force = force
        self._conflicts_check = conflicts_check
        self._macs: set[str] = set()

    def make(self, index: int, spec: opcodes.NicSpec) -> instance.Nic:
        """Return NIC ``index``; raises PrerequisiteError."""
        net = self._snapshot.network(str(spec.network)) if given(spec.network) else None
        plug = _plug(spec, self._group, net=net, index=index)
        mac = self._mac(spec.mac, net)
        self._macs.add(mac)
        wanted = addresses(spec)
        return instance.Nic(
            uuid=self._inputs.uuid(),
            mac=mac,
            name=spec.name or "",
            ip=tuple(self._from_network(net, wanted) if net else self._without_network(wanted, index)),
            network=net.uuid if net else "",
            nicparams=plug,
        )

    def _from_network(self, net: network.Network, wanted: Sequence[str]) -> list[str]:
        if self._allocations is None:
            return []
        return [self._allocations.allocate(net, driver.parse(text, force=self._force)) for text in wanted]

    def _without_network(self, wanted: Sequence[str], index: int) -> list[str]:
        """Return the addresses of a NIC without a network; those of a connected network are refused."""
        found = []
        for text in wanted:
            if text == "pool":
                raise errors.InvalidError(f"NIC {index}: ip=pool needs a network", hint="add network=NAME")
            address = ranges.parse_address(text)
            owner = self._network_of(address) if self._conflicts_check else None
            if owner:
                raise errors.InvalidError(
                    f"NIC {index}: address {text} belongs to network {owner}", hint=f"add network={owner}"
                )
            found.append(str(address))
        return found

    def _network_of(self, address: ranges.Address) -> str | None:
        for uuid in self._group.networks:
            for subnet in self._snapshot.networks[uuid].subnets:
                cidr = ranges.parse_cidr(subnet.cidr)
                if cidr.family == address.family and address.value in cidr.range:
                    return self._snapshot.networks[uuid].name
        return None

    def _mac(self, wanted: str, net: network.Network | None) -> str:
        if wanted not in ("auto", "generate"):
            return _checked_mac(wanted)
        prefix = (net.mac_prefix if net else "") or self._snapshot.the_cluster.mac_prefix
        for _ in range(MAC_TRIES):
            tail = self._inputs.below(1 << 24)
            mac = f"{prefix}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
            if mac not in self._snapshot.macs and mac not in self._macs:
                return mac
        raise errors.NoRoomError(f"no free MAC address with prefix {prefix} was found")


def _checked_mac(text: str) -> str:
    parts = text.lower().split(":")
    if len(parts) != 6 or any(len(part) != 2 or not set(part) <= _HEX for part in parts):
        raise errors.InvalidError(f"MAC address {text} is not valid", hint="write six bytes, or auto")
    return text.lower()


def _plug(
    spec: opcodes.NicSpec, group: cluster.NodeGroup, *, net: network.Network | None, index: int
) -> entities.Parameters:
    """Return what a NIC stores of mode, link and VLAN: its network's connection, or what was given."""
    wanted = {"mode": spec.mode, "link": spec.link or spec.bridge, "vlan": spec.vlan}
    wanted = {name: value for name, value in wanted.items() if value not in (None, "auto")}
    if net is None:
        return parameters.merge({}, parameters.check(wanted, parameters.NIC, what="NIC"))
    if wanted:
        raise errors.InvalidError(
            f"NIC {index}: {', '.join(wanted)} cannot be given with network {net.name}",
            hint="a NIC takes them from the network's connection",
        )
    plug = group.networks.get(net.uuid)
    if plug is None:
        raise errors.WrongStateError(
            f"network {net.name} is not connected to node group {group.name}",
            hint=f"gnt-network connect {net.name} {group.name}",
        )
    stored: entities.Parameters = {"mode": plug.mode, "link": plug.link}
    return stored | ({"vlan": plug.vlan} if plug.vlan else {})
