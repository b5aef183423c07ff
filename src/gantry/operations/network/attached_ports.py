"""Ports that NICs of instances are made of: while a NIC has a port, the NIC holds its MAC address and its addresses.

A port and a NIC made of it have one UUID, and only one of both is stored: the port leaves its collection when the
instance gets the NIC, and returns when the NIC or the instance is removed. So no address and no MAC address has two
owners, and clients see one port with one id all the time (``views.as_port``). ``Nic.port`` keeps what a NIC has no
field for. Units that create, change or remove NICs call ``changes`` for the other half of their transaction.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Iterable

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, network, opcodes
from gantry.state.objects import snapshot as states


def find(snapshot: states.Snapshot, name: str) -> network.Port:
    """Return the port for a new NIC, by UUID or unique name; NotFoundError, InvalidError, WrongStateError in use."""
    vm = snapshot.instances.get(snapshot.nics.get(name, ""))
    try:
        port = None if vm else snapshot.port(name)
    except errors.NotFoundError:
        port, vm = None, _owner_by_name(snapshot, name)
        if vm is None:
            raise
    if vm:
        raise errors.WrongStateError(
            f"port {name} is in use: it is a NIC of instance {vm.name}",
            hint="remove that NIC first, or use another port",
        )
    assert port
    if port.device_id or port.device_owner:
        device = " ".join(filter(None, (port.device_owner, port.device_id)))
        raise errors.WrongStateError(
            f"port {_title(port)} is in use by device {device}",
            hint="use another port, or clear its device_id and device_owner",
        )
    return port


def _owner_by_name(snapshot: states.Snapshot, name: str) -> instance.Instance | None:
    """Return an instance with a NIC that is made of the port with this name."""
    owners = (vm for vm in snapshot.instances.values() for nic in vm.nics if nic.port and nic.port.name == name)
    return next(owners, None) if name else None


def _title(port: network.Port) -> str:
    return f"{port.name} ({port.uuid})" if port.name else port.uuid


def network_of(snapshot: states.Snapshot, spec: opcodes.NicSpec | opcodes.NicMod) -> network.Network | None:
    """Return the network of a new NIC: that of its port, or the requested one."""
    if spec.port:
        return snapshot.networks[find(snapshot, spec.port).network]
    return snapshot.network(spec.network) if spec.network not in (None, "", "none") else None


def locks(snapshot: states.Snapshot, specs: Iterable[opcodes.NicSpec | opcodes.NicMod]) -> lock.LockSet:
    """Lock the ports of new NICs exclusively."""
    uuids = [find(snapshot, spec.port).uuid for spec in specs if spec.port]
    return {(lock.Level.NETWORK, uuid): lock.Mode.EXCLUSIVE for uuid in uuids}


def details(port: network.Port) -> instance.PortDetails:
    """Return what a NIC keeps of its port."""
    return instance.PortDetails(**{name: getattr(port, name) for name in instance.PortDetails.__struct_fields__})


def check(vm: instance.Instance) -> None:
    """Raise InvalidError if an instance has one port twice, or ports of several projects."""
    ports = [(index, nic.uuid, nic.port) for index, nic in enumerate(vm.nics) if nic.port]
    for position, (index, uuid, port) in enumerate(ports):
        for earlier_index, earlier_uuid, earlier in ports[:position]:
            if uuid == earlier_uuid:
                raise errors.InvalidError(f"NIC {index} and NIC {earlier_index} of {vm.name} are the same port {uuid}")
            if port.project != earlier.project:
                raise errors.InvalidError(
                    f"NIC {index} of {vm.name}: port {port.name or uuid} belongs to project {port.project}, but the "
                    f"port of NIC {earlier_index} to project {earlier.project}",
                    hint="use ports of one project",
                )


def changes(before: instance.Instance | None, after: instance.Instance | None, *, now: float) -> list[states.Change]:
    """Return the changes of ports that go with a change of an instance, None for no instance."""
    old, new = ({nic.uuid: nic for nic in vm.nics if nic.port} if vm else {} for vm in (before, after))
    return [
        *(states.Delete("ports", uuid) for uuid in new if uuid not in old),
        *(states.Put(_released(nic, now)) for uuid, nic in old.items() if uuid not in new),
    ]


def _released(nic: instance.Nic, now: float) -> network.Port:
    """Return the port that a removed NIC was made of, without a device."""
    assert nic.port
    kept = {**structs.asdict(nic.port), "serial_no": nic.port.serial_no + 1, "mtime": now}
    return network.Port(uuid=nic.uuid, network=nic.network, mac=nic.mac, ip=nic.ip, **kept)
