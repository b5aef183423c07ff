"""Units that add, change and remove ports; ``port_addresses`` determines their addresses.

One transaction stores a port with its addresses, so both exist or neither. Other opcodes allocate addresses of the
network at the same time; addresses chosen here are held from the event loop turn that makes the plan.

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
from gantry.state.objects import snapshot as states

Op = TypeVar("Op", opcodes.PortSetParams, opcodes.PortRemove)

_PLAIN = ("name", "device_id", "device_owner", "admin_state_up", "description", "tags")
"""The fields of a port that are stored unchanged."""


def _shared(networks: Iterable[str]) -> dict[tuple[lock.Level, str], lock.Mode]:
    """Lock networks shared, so that their subnets do not change."""
    return {(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in networks}


def _port(snapshot: states.Snapshot, name: str) -> network.Port:
    vm = snapshot.instances.get(snapshot.nics.get(name, ""))
    if vm:
        raise errors.WrongStateError(
            f"port {name} is a NIC of instance {vm.name}",
            hint=f"gnt-instance modify --net {name}:modify,... {vm.name} changes it, --net {name}:remove removes it",
        )
    return snapshot.port(name)


class PortAdd(base.Planned[opcodes.PortAdd]):
    """Adds ports with their addresses."""

    OPCODE = opcodes.PortAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the networks shared."""
        return _shared(snapshot.network(spec.network).uuid for spec in self.op.ports)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the ports."""
        del facts
        inputs, ledger = self.environment.inputs, self.environment.ledger
        macs, allocations = nics.Macs(snapshot, inputs, held_macs=ledger.macs), ledger.allocations(snapshot)
        ports_by_uuid: dict[str, network.Port] = {}
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
            if port.uuid in snapshot.ports or port.uuid in snapshot.nics or port.uuid in ports_by_uuid:
                raise errors.ExistsError(f"port {port.uuid} exists already")
            ports_by_uuid[port.uuid] = port
        ports = list(ports_by_uuid.values())
        return base.Plan(
            lines=[f"create port {_describe(snapshot, port)}" for port in ports],
            changes=[states.Put(port) for port in ports],
            result=lambda: [views.row(views.PORT, snapshot, port) for port in ports],
        )


def _describe(snapshot: states.Snapshot, port: network.Port) -> str:
    addresses = ", ".join(port.ip) or "no address"
    return f"{port.name or port.uuid} in network {snapshot.networks[port.network].name}: {port.mac}, {addresses}"


class _OfPort(base.Planned[Op]):
    """Base of the units that change or remove one port."""

    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the port exclusively, its network shared."""
        port = _port(snapshot, self.op.port)
        return _shared([port.network]) | {(lock.Level.NETWORK, port.uuid): lock.Mode.EXCLUSIVE}


class PortSetParams(_OfPort[opcodes.PortSetParams]):
    """Changes a port."""

    OPCODE = opcodes.PortSetParams

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the changed port; nothing is stored if nothing changes."""
        del facts
        op, inputs, old = self.op, self.environment.inputs, _port(snapshot, self.op.port)
        fields = {name: value for name in _PLAIN if (value := getattr(op, name)) is not None}
        net = snapshot.networks[old.network]
        macs = nics.Macs(snapshot, inputs, held_macs=self.environment.ledger.macs)
        mac = old.mac if op.mac in (None, old.mac) else macs.take(str(op.mac), net)
        new = structs.replace(old, mac=mac, **fields)
        picker = port_addresses.Picker(net, self.environment.ledger.allocations(snapshot, owner=old.uuid))
        requested = picker.specs_of(old.ip) if op.fixed is None and mac != old.mac else op.fixed
        if requested is not None:
            new = structs.replace(new, ip=picker.pick(requested, mac=mac, owner=new.device_owner, current=old.ip))
        if new == old:
            return base.Plan(
                lines=[f"nothing changes: port {old.uuid} already has these settings"],
                result=lambda: views.row(views.PORT, snapshot, old),
            )
        changed = base.changed(new, inputs.now)
        return base.Plan(
            lines=[f"change port {old.uuid}: {_describe(snapshot, new)}"],
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
        return base.Plan(
            lines=[f"remove port {_describe(snapshot, port)}"], changes=[states.Delete("ports", port.uuid)]
        )
