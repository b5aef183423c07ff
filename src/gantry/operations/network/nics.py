"""Turn a requested NIC into the NIC that is stored: connection, MAC address, IP addresses.

Shared by the units that create or change NICs. Pure: the allocations of a plan are in its ``allocations``, identifiers
come from its inputs. A NIC with a network takes mode, link and VLAN from the network's connection to the node group
(contracts/networks.md#terms).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver
from gantry.model import base as entities
from gantry.model import cluster, instance, network, opcodes, parameters
from gantry.operations import draws
from gantry.operations.network import attached_ports
from gantry.state.objects import snapshot as states

MAC_ATTEMPTS = 1000
ADDRESSES = 64
"""The maximum number of addresses of a NIC."""

AddressChange = str | tuple[str, ...] | dict[str, str] | None

_HEX = frozenset("0123456789abcdef")


def is_set(text: str | None) -> bool:
    """Return whether a value is set; ``none`` counts as not set."""
    return text not in (None, "", "none")


def addresses(spec: opcodes.NicSpec) -> list[str]:
    """Return the requested addresses as a list."""
    texts = [spec.ip] if isinstance(spec.ip, str) else list(spec.ip or ())
    return [text for text in texts if is_set(text)]


def patched(current: Sequence[str], change: AddressChange, *, where: str) -> list[str]:
    """Return the requested addresses after a change of the current ones (``opcodes.NicMod.ip``); InvalidError.

    Indexes are those before the change; indexes after the last address add addresses, without a gap.
    """
    if change is None:
        return list(current)
    if isinstance(change, tuple):
        return [text for text in change if is_set(text)]
    slots = list(current)
    numbered = {"0": change} if isinstance(change, str) else change
    for index, text in sorted((_address_index(key, where), text) for key, text in numbered.items()):
        if index > len(slots) or (index == len(slots) > 0 and not is_set(text)):
            raise errors.InvalidError(
                f"{where} has {len(current)} addresses, there is no ip{index}",
                hint="addresses are numbered from 0; the first free number adds an address",
            )
        slots[index : index + 1] = [text]
    addresses_after = [text for text in slots if is_set(text)]
    if len(addresses_after) > ADDRESSES:
        raise errors.InvalidError(f"{where} would have {len(addresses_after)} addresses, the maximum is {ADDRESSES}")
    return addresses_after


def _address_index(key: str, where: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) <= 4):
        raise errors.InvalidError(f"{where}: {key!r} is not an address number", hint="as in ip0, ip1")
    return int(key)


@dataclass(frozen=True)
class Edit:
    """A normalized change of a NIC: the action, the NIC (empty for the last one), and the parameters."""

    action: str
    ident: str
    nic: opcodes.NicMod


def edit(change: opcodes.NicChange) -> Edit:
    """Return a change in normalized form; raises InvalidError for an unknown action.

    See contracts/opcodes.md#device-modifications.
    """
    action, target = str(change.action), change.target
    if not isinstance(target, opcodes.NicMod):
        normalized = Edit(action, "" if str(target) == "-1" else str(target), change.nic)
    elif action in ("add", "remove"):
        normalized = Edit(action, "", target)
    else:
        normalized = Edit("modify", "" if action == "-1" else action, target)
    if normalized.action not in ("add", "modify", "remove"):
        raise errors.InvalidError(
            f"{normalized.action!r} is not a NIC action", hint="actions are add, modify and remove"
        )
    return normalized


class Macs:
    """The MAC addresses of one plan: unused ones, and not held for jobs (``held_macs``, with the job's number)."""

    def __init__(self, snapshot: states.Snapshot, inputs: draws.Inputs, *, held_macs: Mapping[str, int]) -> None:
        self._snapshot = snapshot
        self._inputs = inputs
        self._held = held_macs
        self._taken: set[str] = set()

    def take(self, requested: str, net: network.Network | None) -> str:
        """Return the requested address, or an unused one for ``auto``; InvalidError, NoRoomError, BusyError.

        The transaction checks whether the requested address is in use.
        """
        if requested not in ("auto", "generate"):
            mac = _checked_mac(requested)
            if mac in self._held:
                raise errors.BusyError(
                    f"MAC address {mac} is held by running job {self._held[mac]}",
                    hint=f"wait for the job (gnt-job watch {self._held[mac]}), or choose another address",
                )
            self._taken.add(mac)
            return mac
        prefix = (net.mac_prefix if net else "") or self._snapshot.the_cluster.mac_prefix
        for _ in range(MAC_ATTEMPTS):
            tail = self._inputs.below(1 << 24)
            mac = f"{prefix}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
            if not any(mac in known for known in (self._snapshot.macs, self._held, self._taken)):
                self._taken.add(mac)
                return mac
        raise errors.NoRoomError(f"no free MAC address with prefix {prefix} was found")


class Maker:
    """Creates and changes the NICs of one plan; without ``allocations``, NICs with a network get no addresses."""

    def __init__(
        self,
        snapshot: states.Snapshot,
        group: cluster.NodeGroup,
        inputs: draws.Inputs,
        *,
        macs: Macs,
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
        self._macs = macs

    def make(self, index: int, spec: opcodes.NicSpec) -> instance.Nic:
        """Return NIC ``index``; raises PrerequisiteError."""
        if spec.port:
            return self._of_port(index, spec, attached_ports.find(self._snapshot, spec.port))
        net = self._snapshot.network(str(spec.network)) if is_set(spec.network) else None
        plug = _plug(spec, self._group, net=net, index=index)
        mac = self._macs.take(spec.mac, net)
        requested = addresses(spec)
        return instance.Nic(
            uuid=self._inputs.uuid(),
            mac=mac,
            name=_name(spec.name, index),
            ip=tuple(self._from_network(net, requested) if net else self._without_network(requested, index)),
            network=net.uuid if net else "",
            nicparams=plug,
        )

    def _of_port(self, index: int, spec: opcodes.NicSpec, port: network.Port) -> instance.Nic:
        """Return the NIC that a port becomes."""
        own = {"mac": spec.mac != "auto", "ip": bool(addresses(spec)), "network": is_set(spec.network)}
        if requested := [name for name, is_requested in own.items() if is_requested]:
            raise errors.InvalidError(
                f"NIC {index}: {', '.join(requested)} cannot be set with port {spec.port}",
                hint="a NIC takes network, MAC address and addresses from its port",
            )
        return instance.Nic(
            uuid=port.uuid,
            mac=port.mac,
            name=_name(spec.name, index),
            ip=port.ip,
            network=port.network,
            nicparams=_plug(spec, self._group, net=self._snapshot.networks[port.network], index=index),
            port=attached_ports.details(port),
        )

    def change(self, index: int, nic: instance.Nic, mod: opcodes.NicMod) -> instance.Nic:
        """Return a NIC after a change; raises PrerequisiteError.

        An address that stays is not requested again, so it needs no force. In another network all are requested.
        """
        if mod.port:
            raise errors.InvalidError(
                f"NIC {index}: a NIC cannot become a port later", hint="remove the NIC, and add one with the port"
            )
        net = self._cable(nic, mod)
        if nic.port and (net.uuid if net else "") != nic.network:
            raise errors.WrongStateError(
                f"NIC {index} is port {nic.port.name or nic.uuid}, which stays in its network",
                hint="remove the NIC, which releases the port, and add another one",
            )
        moved = (net.uuid if net else "") != nic.network
        if moved:
            self.free(nic)
        kept = () if moved else nic.ip
        requested = patched(kept, mod.ip, where=f"NIC {index}")
        new_addresses = (
            self._from_network(net, requested, current=kept)
            if net
            else self._without_network(requested, index, current=kept)
        )
        return instance.Nic(
            uuid=nic.uuid,
            mac=nic.mac if mod.mac in (None, nic.mac) else self._macs.take(str(mod.mac), net),
            name=nic.name if mod.name is None else _name(mod.name, index),
            ip=tuple(new_addresses),
            network=net.uuid if net else "",
            nicparams=_plug(mod, self._group, net=net, index=index, stored=None if moved else nic.nicparams),
            port=nic.port,
        )

    def _cable(self, nic: instance.Nic, mod: opcodes.NicMod) -> network.Network | None:
        name = nic.network if mod.network is None else mod.network
        return self._snapshot.network(name) if is_set(name) else None

    def free(self, nic: instance.Nic) -> None:
        """Let the plan allocate a removed NIC's addresses again; those of a port stay the port's."""
        if self._allocations is None or not nic.network or nic.port:
            return
        for ip in nic.ip:
            self._allocations.release(self._snapshot.networks[nic.network], ip)

    def _from_network(
        self, net: network.Network, requested: Sequence[str], *, current: Sequence[str] = ()
    ) -> list[str]:
        allocations = self._allocations
        if allocations is None:
            return []
        requests = [driver.parse(text, force=self._force) for text in requested]
        specific = {str(request.address) for request in requests if isinstance(request, driver.SpecificAddress)}
        staying = specific & set(current)
        for ip in set(current) - staying:
            allocations.release(net, ip)
        chosen = dict.fromkeys(range(len(requests)), "")
        # Specific addresses go first, so that a pool does not allocate one of them.
        for index in sorted(chosen, key=lambda index: not isinstance(requests[index], driver.SpecificAddress)):
            request = requests[index]
            ip = str(request.address) if isinstance(request, driver.SpecificAddress) else ""
            if ip in staying:
                # Only once: a second request for the same address is refused as in use.
                staying.remove(ip)
            else:
                ip = allocations.allocate(net, request)
            chosen[index] = ip
        return list(chosen.values())

    def _without_network(self, requested: Sequence[str], index: int, *, current: Sequence[str] = ()) -> list[str]:
        """Return the addresses of a NIC without a network; refuse new addresses of a connected network."""
        checked = []
        for text in requested:
            if text in driver.KEYWORDS:
                raise errors.InvalidError(f"NIC {index}: ip={text} needs a network", hint="add network=NAME")
            address = ranges.parse_address(text)
            owner = self._network_of(address) if self._conflicts_check and str(address) not in current else None
            if owner:
                raise errors.InvalidError(
                    f"NIC {index}: address {text} belongs to network {owner}", hint=f"add network={owner}"
                )
            if self._conflicts_check and str(address) not in current:
                self._check_nodes(address, index)
            checked.append(str(address))
        return checked

    def _check_nodes(self, address: ranges.Address, index: int) -> None:
        """Refuse an address of a node."""
        for node in self._snapshot.nodes.values():
            if str(address) in (node.primary_ip, node.secondary_ip):
                raise errors.NotUniqueError(
                    f"NIC {index}: address {address} is in use by node {node.name}", hint="choose another address"
                )

    def _network_of(self, address: ranges.Address) -> str | None:
        for uuid in self._group.networks:
            for subnet in self._snapshot.networks[uuid].subnets:
                cidr = ranges.parse_cidr(subnet.cidr)
                if cidr.family == address.family and address.value in cidr.range:
                    return self._snapshot.networks[uuid].name
        return None


def _name(text: str | None, index: int) -> str:
    """Return a NIC's name; a number would be read as an index."""
    if text and text.removeprefix("-").isdecimal():
        raise errors.InvalidError(f"NIC {index}: {text} is a number, not a name", hint="begin it with a letter")
    return text if text and is_set(text) else ""


def _checked_mac(text: str) -> str:
    text = text.replace("-", ":")
    parts = text.lower().split(":")
    if len(parts) != 6 or any(len(part) != 2 or not set(part) <= _HEX for part in parts):
        raise errors.InvalidError(f"MAC address {text} is not valid", hint="specify six bytes, or auto")
    _check_unicast(text, parts[0])
    if not any(int(part, 16) for part in parts):
        raise errors.InvalidError(
            f"MAC address {text} cannot be the address of a NIC", hint="specify another address, or auto"
        )
    return text.lower()


def checked_prefix(text: str) -> str:
    """Return a MAC prefix in lower case; raises InvalidError unless it is three bytes of unicast addresses."""
    parts = text.lower().split(":")
    if len(parts) != 3 or any(len(part) != 2 or not set(part) <= _HEX for part in parts):
        raise errors.InvalidError(f"MAC prefix {text} is not valid", hint="specify three bytes, such as aa:00:01")
    _check_unicast(text, parts[0])
    return text.lower()


def _check_unicast(text: str, first_byte: str) -> None:
    if int(first_byte, 16) & 1:
        raise errors.InvalidError(f"{text} is multicast, so no NIC can have it", hint="make the first byte even")


def _plug(
    spec: opcodes.NicSpec | opcodes.NicMod,
    group: cluster.NodeGroup,
    *,
    net: network.Network | None,
    index: int,
    stored: entities.Parameters | None = None,
) -> entities.Parameters:
    """Return the stored mode, link and VLAN of a NIC: its network's connection, or the requested ones.

    ``stored`` are the present values of a NIC that stays in its network.
    """
    requested = {"mode": spec.mode, "link": spec.link or spec.bridge, "vlan": spec.vlan}
    requested = {name: value for name, value in requested.items() if value not in (None, "auto")}
    if net is None:
        return parameters.merge(stored or {}, parameters.nic(requested))
    if requested:
        raise errors.InvalidError(
            f"NIC {index}: {', '.join(requested)} cannot be set with network {net.name}",
            hint="a NIC takes these values from the network's connection",
        )
    return _connection(group, net) if stored is None else stored


def _connection(group: cluster.NodeGroup, net: network.Network) -> entities.Parameters:
    plug = group.networks.get(net.uuid)
    if plug is None:
        raise errors.WrongStateError(
            f"network {net.name} is not connected to node group {group.name}",
            hint=f"gnt-network connect {net.name} {group.name}",
        )
    stored: entities.Parameters = {"mode": plug.mode, "link": plug.link}
    return stored | ({"vlan": plug.vlan} if plug.vlan else {})
