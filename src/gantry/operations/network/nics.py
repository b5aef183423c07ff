"""From what was asked for a NIC to the NIC that is stored: plug, MAC address, addresses.

Shared by the units that make or change NICs. Pure: the picks of one plan are in its ``allocations``, identifiers come
from its inputs. A NIC with a network takes mode, link and VLAN from the network's connection to the node group, like a
cable (contracts/networks.md#terms).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver
from gantry.model import base as entities
from gantry.model import cluster, instance, network, opcodes, parameters
from gantry.operations import base
from gantry.state import snapshot as states

MAC_TRIES = 1000
ADDRESSES = 64
"""How many addresses a NIC can have."""

AddressChange = str | tuple[str, ...] | dict[str, str] | None

_HEX = frozenset("0123456789abcdef")


def given(text: str | None) -> bool:
    """Tell whether a value was given; ``none`` counts as not given."""
    return text not in (None, "", "none")


def addresses(spec: opcodes.NicSpec) -> list[str]:
    """Return what is asked for as addresses, one by one."""
    listed = [spec.ip] if isinstance(spec.ip, str) else list(spec.ip or ())
    return [text for text in listed if given(text)]


def patched(held: Sequence[str], change: AddressChange, *, place: str) -> list[str]:
    """Return the addresses that are wanted after a change to those held (``opcodes.NicMod.ip``); InvalidError.

    Indices are those before the change; the ones behind the last add addresses, without a gap.
    """
    if change is None:
        return list(held)
    if isinstance(change, tuple):
        return [text for text in change if given(text)]
    slots = list(held)
    numbered = {"0": change} if isinstance(change, str) else change
    for index, text in sorted((_address_index(key, place), text) for key, text in numbered.items()):
        if index > len(slots) or (index == len(slots) > 0 and not given(text)):
            raise errors.InvalidError(
                f"{place} has {len(held)} addresses, there is no ip{index}",
                hint="they are numbered from 0; the first free number adds one",
            )
        slots[index : index + 1] = [text]
    wanted = [text for text in slots if given(text)]
    if len(wanted) > ADDRESSES:
        raise errors.InvalidError(f"{place} would have {len(wanted)} addresses, {ADDRESSES} is the most")
    return wanted


def _address_index(key: str, place: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) <= 4):
        raise errors.InvalidError(f"{place}: {key!r} is no number of an address", hint="ip0, ip1 ...")
    return int(key)


@dataclass(frozen=True)
class Edit:
    """A change of NICs in one form: the action, which NIC (empty for the last), and what of it."""

    action: str
    ident: str
    nic: opcodes.NicMod


def edit(change: opcodes.NicChange) -> Edit:
    """Return a change of either form in one form; InvalidError for an unknown action.

    See contracts/opcodes.md#device-modifications.
    """
    action, target = str(change.action), change.target
    if not isinstance(target, opcodes.NicMod):
        found = Edit(action, "" if str(target) == "-1" else str(target), change.nic)
    elif action in ("add", "remove"):
        found = Edit(action, "", target)
    else:
        found = Edit("modify", "" if action == "-1" else action, target)
    if found.action not in ("add", "modify", "remove"):
        raise errors.InvalidError(f"{found.action!r} is no change of a NIC", hint="there are add, modify and remove")
    return found


class Macs:
    """The MAC addresses that one plan gives: none that others have, or that are held for jobs (``held``)."""

    def __init__(self, snapshot: states.Snapshot, inputs: base.Inputs, *, held: Mapping[str, int]) -> None:
        self._snapshot = snapshot
        self._inputs = inputs
        self._held = held
        self._given: set[str] = set()

    def take(self, wanted: str, net: network.Network | None) -> str:
        """Return the address that is wanted, or one that nobody has for ``auto``; InvalidError, NoRoomError, BusyError.

        Whether somebody has the one that is wanted, the transaction finds.
        """
        if wanted not in ("auto", "generate"):
            mac = _checked_mac(wanted)
            if mac in self._held:
                raise errors.BusyError(
                    f"MAC address {mac} is held by job {self._held[mac]}, which is still running",
                    hint=f"wait for its end (gnt-job watch {self._held[mac]}), or choose another",
                )
            self._given.add(mac)
            return mac
        prefix = (net.mac_prefix if net else "") or self._snapshot.the_cluster.mac_prefix
        for _ in range(MAC_TRIES):
            tail = self._inputs.below(1 << 24)
            mac = f"{prefix}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
            if not any(mac in known for known in (self._snapshot.macs, self._held, self._given)):
                self._given.add(mac)
                return mac
        raise errors.NoRoomError(f"no free MAC address with prefix {prefix} was found")


class Maker:
    """Makes and changes the NICs of one plan; without ``allocations`` those with a network have no addresses."""

    def __init__(
        self,
        snapshot: states.Snapshot,
        group: cluster.NodeGroup,
        inputs: base.Inputs,
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
        net = self._snapshot.network(str(spec.network)) if given(spec.network) else None
        plug = _plug(spec, self._group, net=net, index=index)
        mac = self._macs.take(spec.mac, net)
        wanted = addresses(spec)
        return instance.Nic(
            uuid=self._inputs.uuid(),
            mac=mac,
            name=_name(spec.name, index),
            ip=tuple(self._from_network(net, wanted) if net else self._without_network(wanted, index)),
            network=net.uuid if net else "",
            nicparams=plug,
        )

    def change(self, index: int, nic: instance.Nic, mod: opcodes.NicMod) -> instance.Nic:
        """Return a NIC after a change; raises PrerequisiteError.

        An address that stays is not asked for again, so it needs no force. In another network all are asked for.
        """
        net = self._cable(nic, mod)
        moved = (net.uuid if net else "") != nic.network
        if moved:
            self.free(nic)
        held = () if moved else nic.ip
        wanted = patched(held, mod.ip, place=f"NIC {index}")
        found = self._from_network(net, wanted, held=held) if net else self._without_network(wanted, index, held=held)
        return instance.Nic(
            uuid=nic.uuid,
            mac=nic.mac if mod.mac in (None, nic.mac) else self._macs.take(str(mod.mac), net),
            name=nic.name if mod.name is None else _name(mod.name, index),
            ip=tuple(found),
            network=net.uuid if net else "",
            nicparams=_plug(mod, self._group, net=net, index=index, stored=None if moved else nic.nicparams),
        )

    def _cable(self, nic: instance.Nic, mod: opcodes.NicMod) -> network.Network | None:
        wanted = nic.network if mod.network is None else mod.network
        return self._snapshot.network(wanted) if given(wanted) else None

    def free(self, nic: instance.Nic) -> None:
        """Let the plan ask for a NIC's addresses again, which it no longer has."""
        if self._allocations is None or not nic.network:
            return
        for ip in nic.ip:
            self._allocations.release(self._snapshot.networks[nic.network], ip)

    def _from_network(self, net: network.Network, wanted: Sequence[str], *, held: Sequence[str] = ()) -> list[str]:
        allocations = self._allocations
        if allocations is None:
            return []
        requests = [driver.parse(text, force=self._force) for text in wanted]
        staying = {str(one.address) for one in requests if isinstance(one, driver.SpecificAddress)} & set(held)
        for ip in set(held) - staying:
            allocations.release(net, ip)
        found = dict.fromkeys(range(len(requests)), "")
        # Those that are named go first, so that a pool does not pick one of them.
        for place in sorted(found, key=lambda place: not isinstance(requests[place], driver.SpecificAddress)):
            request = requests[place]
            ip = str(request.address) if isinstance(request, driver.SpecificAddress) else ""
            if ip in staying:
                # Once only: what is asked for a second time is refused as in use.
                staying.remove(ip)
            else:
                ip = allocations.allocate(net, request)
            found[place] = ip
        return list(found.values())

    def _without_network(self, wanted: Sequence[str], index: int, *, held: Sequence[str] = ()) -> list[str]:
        """Return the addresses of a NIC without a network; those of a connected network are refused if new."""
        found = []
        for text in wanted:
            if text in driver.KEYWORDS:
                raise errors.InvalidError(f"NIC {index}: ip={text} needs a network", hint="add network=NAME")
            address = ranges.parse_address(text)
            owner = self._network_of(address) if self._conflicts_check and str(address) not in held else None
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


def _name(text: str | None, index: int) -> str:
    """Return a NIC's name; one that reads as a number could not be asked for."""
    if text and text.removeprefix("-").isdecimal():
        raise errors.InvalidError(f"NIC {index}: {text} is a number, not a name", hint="begin it with a letter")
    return text if text and given(text) else ""


def _checked_mac(text: str) -> str:
    parts = text.lower().split(":")
    if len(parts) != 6 or any(len(part) != 2 or not set(part) <= _HEX for part in parts):
        raise errors.InvalidError(f"MAC address {text} is not valid", hint="write six bytes, or auto")
    _check_unicast(text, parts[0])
    if not any(int(part, 16) for part in parts):
        raise errors.InvalidError(f"MAC address {text} is none that a NIC can have", hint="write another, or auto")
    return text.lower()


def checked_prefix(text: str) -> str:
    """Return a MAC prefix in lower case; InvalidError unless it is three bytes of addresses that a NIC can have."""
    parts = text.lower().split(":")
    if len(parts) != 3 or any(len(part) != 2 or not set(part) <= _HEX for part in parts):
        raise errors.InvalidError(f"MAC prefix {text} is not valid", hint="write three bytes, such as aa:00:01")
    _check_unicast(text, parts[0])
    return text.lower()


def _check_unicast(text: str, first_byte: str) -> None:
    if int(first_byte, 16) & 1:
        raise errors.InvalidError(f"{text} is for multicast, no NIC can have it", hint="make the first byte even")


def _plug(
    spec: opcodes.NicSpec | opcodes.NicMod,
    group: cluster.NodeGroup,
    *,
    net: network.Network | None,
    index: int,
    stored: entities.Parameters | None = None,
) -> entities.Parameters:
    """Return what a NIC stores of mode, link and VLAN: its network's connection, or what was given.

    ``stored`` is what a NIC has that stays where it is.
    """
    wanted = {"mode": spec.mode, "link": spec.link or spec.bridge, "vlan": spec.vlan}
    wanted = {name: value for name, value in wanted.items() if value not in (None, "auto")}
    if net is None:
        return parameters.merge(stored or {}, parameters.nic(wanted))
    if wanted:
        raise errors.InvalidError(
            f"NIC {index}: {', '.join(wanted)} cannot be given with network {net.name}",
            hint="a NIC takes them from the network's connection",
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
