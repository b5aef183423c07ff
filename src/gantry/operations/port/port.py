"""Ports: make, change and remove them; ``port_addresses`` says which addresses they get.

A port is stored with its addresses by one transaction, so that it has them or is not there. Others take addresses of
the network at the same time; what is picked here is held from the turn of the loop in which the plan is made.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.model import lock, network, opcodes
from gantry.operations import base
from gantry.operations.network import nics, views
from gantry.operations.port import port_addresses
from gantry.state import snapshot as states

Op = TypeVar("Op", opcodes.PortSetParams, opcodes.PortRemove)

_PLAIN = ("name", "device_id", "device_owner", "admin_state_up", "description", "tags")
"""What of a port is stored as it is given."""


def _shared(networks: Iterable[str]) -> dict[tuple[lock.Level, str], lock.Mode]:
    """Take networks so that their subnets stay what they are."""
    return {(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in networks}


def _port(snapshot: states.Snapshot, name: str) -> network.Port:
    vm = snapshot.instances.get(snapshot.nics.get(name, ""))
    if vm:
        raise errors.WrongStateError(
            f"port {name} is a NIC of instance {vm.name}", hint=f"gnt-instance modify --net {name}:modify,... {vm.name}"
        )
    return snapshot.port(name)


class PortAdd(base.Planned[opcodes.PortAdd]):
    """Makes ports with their addresses."""

    OPCODE = opcodes.PortAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share the networks."""
        return _shared(snapshot.network(spec.network).uuid for spec in self.op.ports)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the ports."""
        del facts
        inputs, ledger = self.environment.inputs, self.environment.ledger
        macs, allocations = nics.Macs(snapshot, inputs, held=ledger.macs), ledger.allocations(snapshot)
        made: dict[str, network.Port] = {}
        for spec in self.op.ports:
            net = snapshot.network(spec.network)
            mac = macs.take(spec.mac or "auto", net)
            port = network.Port(
                uuid=spec.uuid or inputs.uuid(),
                network=net.uuid,
                mac=mac,
                ip=port_addresses.Picker(net, allocations).pick(spec.fixed, mac=mac, owner=spec.device_owner),
                project=spec.project,
                ctime=inputs.now,
                mtime=inputs.now,
                **{name: getattr(spec, name) for name in _PLAIN},
            )
            if port.uuid in snapshot.ports or port.uuid in snapshot.nics or port.uuid in made:
                raise errors.ExistsError(f"port {port.uuid} exists already")
            made[port.uuid] = port
        ports = list(made.values())
        return base.Plan(
            lines=[f"create port {_told(snapshot, port)}" for port in ports],
            changes=[states.Put(port) for port in ports],
            result=lambda: [views.row(views.PORT, snapshot, port) for port in ports],
        )


def _told(snapshot: states.Snapshot, port: network.Port) -> str:
    addresses = ", ".join(port.ip) or "no address"
    return f"{port.name or port.uuid} in network {snapshot.networks[port.network].name}: {port.mac}, {addresses}"


class _OfPort(base.Planned[Op]):
    """What is done with one port."""

    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the port and share its network."""
        port = _port(snapshot, self.op.port)
        return _shared([port.network]) | {(lock.Level.NETWORK, port.uuid): lock.Mode.EXCLUSIVE}


class PortSetParams(_OfPort[opcodes.PortSetParams]):
    """Changes a port."""

    OPCODE = opcodes.PortSetParams

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the port as it shall be; nothing is stored if it is like that already."""
        del facts
        op, inputs, old = self.op, self.environment.inputs, _port(snapshot, self.op.port)
        given = {name: value for name in _PLAIN if (value := getattr(op, name)) is not None}
        net = snapshot.networks[old.network]
        macs = nics.Macs(snapshot, inputs, held=self.environment.ledger.macs)
        mac = old.mac if op.mac in (None, old.mac) else macs.take(str(op.mac), net)
        new = structs.replace(old, mac=mac, **given)
        picker = port_addresses.Picker(net, self.environment.ledger.allocations(snapshot, owner=old.uuid))
        asked = picker.again(old.ip) if op.fixed is None and mac != old.mac else op.fixed
        if asked is not None:
            new = structs.replace(new, ip=picker.pick(asked, mac=mac, owner=new.device_owner, held=old.ip))
        if new == old:
            return base.Plan(
                lines=[f"port {old.uuid} is like this already"], result=lambda: views.row(views.PORT, snapshot, old)
            )
        changed = base.changed(new, inputs.now)
        return base.Plan(
            lines=[f"change port {old.uuid}: {_told(snapshot, new)}"],
            changes=[states.Put(changed)],
            result=lambda: views.row(views.PORT, snapshot, changed),
        )


class PortRemove(_OfPort[opcodes.PortRemove]):
    """Removes a port."""

    OPCODE = opcodes.PortRemove

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the port."""
        del facts
        port = _port(snapshot, self.op.port)
        return base.Plan(lines=[f"remove port {_told(snapshot, port)}"], changes=[states.Delete("ports", port.uuid)])
