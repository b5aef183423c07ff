"""Stray guests: guests that run although the state does not have them running on their node.

A master that was cut off under the policy ``seed`` may have left them, or a node that was declared dead and returns.
``find`` compares what nodes report with the state, ``decide`` applies the operator's rule to one guest, and
``adopted`` returns what an adoption records. A guest in the middle of a migration is no stray guest: its state is
neither ``running`` nor ``paused``, and ``gnt-instance migrate --cleanup`` decides about it. All is pure, except for
``reported`` and ``examine``, which ask nodes.

See explanation/replication.md#after-the-heal.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, cluster_settings, instance, network, parameters, templates
from gantry.operations import base, guest_lists
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

STATES = ("running", "paused")
"""The states of a guest that is not in the middle of a migration."""


class Kind(StrEnum):
    """Why a guest is stray: its UUID is unknown, it belongs on another node, or it should not run."""

    UNKNOWN = "unknown"
    ELSEWHERE = "elsewhere"
    UNWANTED = "unwanted"


class Action(StrEnum):
    """What to do with a stray guest."""

    LEAVE = "leave"
    STOP = "stop"
    ADOPT = "adopt"


@dataclass(frozen=True)
class Stray:
    """A stray guest; ``machine`` are its devices, None if they are unknown or were not asked for.

    ``at_home`` is whether the guest also runs on the primary node in the state, None if that node did not answer.
    """

    target: targets.Target
    guest: calls.RunningInstance
    kind: Kind
    machine: calls.Instance | None = None
    at_home: bool | None = False

    @property
    def name(self) -> str:
        """Return the guest with its node, for messages."""
        return f"guest {self.guest.name} on {self.target.name}"


@dataclass(frozen=True)
class Decision:
    """What to do with a stray guest, and why if it is left."""

    action: Action
    reason: str = ""


def kind_of(snapshot: states.Snapshot, node: str, guest: calls.RunningInstance) -> Kind | None:
    """Return why a guest on the node with this UUID is stray, None if it is not."""
    if guest.state not in STATES:
        return None
    vm = snapshot.instances.get(guest.uuid)
    if vm is None:
        return Kind.UNKNOWN
    if vm.primary_node != node:
        return Kind.ELSEWHERE
    return None if vm.admin_state is instance.AdminState.UP else Kind.UNWANTED


def find(
    snapshot: states.Snapshot, answers: Iterable[targets.Answer[tuple[calls.RunningInstance, ...]]]
) -> list[Stray]:
    """Return the stray guests among the guests that nodes reported, by node and name."""
    running = {answer.target.uuid: answer.value for answer in answers}
    strays = []
    for answer in answers:
        for guest in answer.value or ():
            kind = kind_of(snapshot, answer.target.uuid, guest)
            if kind is not None:
                strays.append(Stray(answer.target, guest, kind, at_home=_at_home(snapshot, guest, running)))
    return sorted(strays, key=lambda stray: (stray.target.name, stray.guest.name))


async def reported(nodes: base.Nodes, snapshot: states.Snapshot, where: Iterable[cluster.Node]) -> list[Stray]:
    """Return the stray guests on those of the nodes that run instances, are online, and answer."""
    asked_nodes = [snapshot.target(node) for node in where if node.vm_capable and not node.offline]
    return find(snapshot, await liveness.attend(nodes, asked_nodes, guest_lists.ask(snapshot)))


def check_none(strays: Iterable[Stray]) -> None:
    """Raise WrongStateError if nodes that leave the cluster run stray guests: no command would know them any more."""
    names = [stray.name for stray in strays]
    if names:
        raise errors.WrongStateError(
            f"no node can leave the cluster with a stray guest: {', '.join(names[:5])}",
            hint="gnt-cluster verify says why; gnt-cluster repair-stray-guests stops or adopts them",
        )


def _at_home(
    snapshot: states.Snapshot,
    guest: calls.RunningInstance,
    running: Mapping[str, tuple[calls.RunningInstance, ...] | None],
) -> bool | None:
    vm = snapshot.instances.get(guest.uuid)
    if vm is None:
        return False
    there = running.get(vm.primary_node)
    return None if there is None else any(other.uuid == guest.uuid for other in there)


def description(snapshot: states.Snapshot, stray: Stray) -> str:
    """Return why a guest is stray, as text about it."""
    vm = snapshot.instances.get(stray.guest.uuid)
    if vm is None:
        return f"instance {stray.guest.name} should not exist"
    home = snapshot.nodes[vm.primary_node].name
    if stray.kind is Kind.ELSEWHERE and stray.at_home:
        return f"instance {vm.name} runs on {stray.target.name} and on its primary node {home} at once"
    if stray.kind is Kind.ELSEWHERE:
        return f"instance {vm.name} runs on {stray.target.name}, but its primary node is {home}"
    return f"instance {vm.name} runs, but its admin state is {vm.admin_state.value}"


def conflicts(snapshot: states.Snapshot, stray: Stray, other_strays: Sequence[Stray] = ()) -> list[str]:
    """Return each address and MAC address of a guest that has another owner: in the state, or another stray guest."""
    return [
        f"{what} has two owners: {stray.name} and {owner}"
        for what, owner in (*_owned(snapshot, stray), *_shared(stray, other_strays))
    ]


def _owned(snapshot: states.Snapshot, stray: Stray) -> Iterator[tuple[str, str]]:
    for nic in stray.machine.nics if stray.machine else ():
        owner = snapshot.macs.get(nic.mac)
        if owner and owner != stray.guest.uuid:
            yield f"MAC address {nic.mac}", _owner_name(snapshot, owner)
        for uuid, ip in _addresses(nic):
            reference = snapshot.addresses.get((_known(snapshot, nic, uuid), ip))
            if reference and (reference.port or reference.instance) != stray.guest.uuid:
                yield _address_name(nic, ip), _owner_name(snapshot, reference.port or reference.instance)


def _shared(stray: Stray, other_strays: Sequence[Stray]) -> Iterator[tuple[str, str]]:
    for other in other_strays:
        if other is stray or other.guest.uuid == stray.guest.uuid or not (stray.machine and other.machine):
            continue
        theirs = {key for nic in other.machine.nics for key in ((nic.mac, ""), *_addresses(nic))}
        for nic in stray.machine.nics:
            if (nic.mac, "") in theirs:
                yield f"MAC address {nic.mac}", other.name
            for uuid, ip in _addresses(nic):
                if (uuid, ip) in theirs:
                    yield _address_name(nic, ip), other.name


def _addresses(nic: calls.Nic) -> list[tuple[str, str]]:
    return [(nic.network.uuid if nic.network else "", address.ip) for address in nic.addresses]


def _known(snapshot: states.Snapshot, nic: calls.Nic, uuid: str) -> str:
    """Return the network of the state: both masters may have created a network of that name."""
    if uuid in snapshot.networks or nic.network is None:
        return uuid
    return snapshot.names.get(("networks", nic.network.name), uuid)


def _address_name(nic: calls.Nic, ip: str) -> str:
    return f"address {ip} of network {nic.network.name}" if nic.network else f"address {ip}"


def _owner_name(snapshot: states.Snapshot, uuid: str) -> str:
    vm = snapshot.instances.get(uuid)
    if vm is not None:
        return f"instance {vm.name} on {snapshot.nodes[vm.primary_node].name}"
    port: network.Port | None = snapshot.ports.get(uuid)
    return f"port {port.name or uuid}" if port else f"an object with UUID {uuid}"


def decide(snapshot: states.Snapshot, stray: Stray, rule: str) -> Decision:
    """Apply a rule to a stray guest.

    The copy of an instance that also runs on its primary node is stopped, whether the rule is to stop or to adopt.
    """
    if rule == cluster_settings.StrayGuests.REPORT:
        return Decision(Action.LEAVE, "the rule is to report only")
    if rule == cluster_settings.StrayGuests.STOP or (stray.kind is Kind.ELSEWHERE and stray.at_home):
        return Decision(Action.STOP)
    obstacles = [*_obstacles(snapshot, stray), *conflicts(snapshot, stray)]
    return Decision(Action.LEAVE, "; ".join(obstacles)) if obstacles else Decision(Action.ADOPT)


def _obstacles(snapshot: states.Snapshot, stray: Stray) -> Iterator[str]:
    vm = snapshot.instances.get(stray.guest.uuid)
    if stray.machine is None:
        yield "its node has no record of its devices"
    elif vm is None:
        yield from _unknown_obstacles(snapshot, stray.target.uuid, stray.machine)
    else:
        if stray.kind is Kind.ELSEWHERE:
            yield from _obstacles_elsewhere(snapshot, stray, vm)
        if _nics_of(stray.machine) != {(nic.mac, frozenset(nic.ip)) for nic in vm.nics}:
            yield "its NICs are not those that the state has"


def _obstacles_elsewhere(snapshot: states.Snapshot, stray: Stray, vm: instance.Instance) -> Iterator[str]:
    home = snapshot.nodes[vm.primary_node].name
    if stray.at_home is None:
        yield f"its primary node {home} does not answer and may run it too"
    is_reachable = not vm.disks or vm.disk_template in templates.SHARED or stray.target.uuid in vm.nodes
    if not is_reachable:
        yield f"its disks are recorded on {home}"


def _nics_of(machine: calls.Instance) -> set[tuple[str, frozenset[str]]]:
    return {(nic.mac, frozenset(address.ip for address in nic.addresses)) for nic in machine.nics}


def _unknown_obstacles(snapshot: states.Snapshot, node: str, machine: calls.Instance) -> Iterator[str]:
    namesake = snapshot.names.get(("instances", machine.name))
    if namesake:
        yield f"the name {machine.name} belongs to {_owner_name(snapshot, namesake)}, another instance"
    for nic in machine.nics:
        if nic.network and nic.network.uuid not in snapshot.networks:
            yield f"the state does not have its network {nic.network.name} ({nic.network.uuid})"
    known = {disk.uuid: vm for vm in snapshot.instances.values() for disk in vm.disks}
    locations = {
        (disk.dev_type, disk.logical_id): vm
        for vm in snapshot.instances.values()
        for disk in vm.disks
        if disk.logical_id and (vm.primary_node == node or vm.disk_template in templates.SHARED)
    }
    for disk in machine.disks:
        owner = known.get(disk.uuid) or locations.get((disk.dev_type, disk.logical_id))
        if owner is not None:
            yield f"its disk {disk.index} belongs to {_owner_name(snapshot, owner.uuid)}"
        elif disk.uuid in snapshot.disks:
            yield f"its disk {disk.index} is a detached disk, formerly of {snapshot.disks[disk.uuid].instance}"
        if disk.mirror:
            yield f"its disk {disk.index} is mirrored, and its node does not know the minor on the other node"


def adopted(snapshot: states.Snapshot, stray: Stray, now: float) -> instance.Instance:
    """Return the instance that records a guest which ``decide`` allows to adopt."""
    vm = snapshot.instances.get(stray.guest.uuid)
    if vm is not None:
        return base.changed(vm, now, primary_node=stray.target.uuid, admin_state=instance.AdminState.UP)
    machine = stray.machine
    assert machine is not None
    the_cluster = snapshot.the_cluster
    hypervisor = parameters.fill_system(the_cluster, machine.hypervisor, machine.os)
    backend = parameters.fill(parameters.BACKEND, the_cluster.beparams.get(parameters.RESET, {}))
    return instance.Instance(
        uuid=machine.uuid,
        name=machine.name,
        ctime=machine.ctime,
        mtime=now,
        tags=machine.tags,
        primary_node=stray.target.uuid,
        hypervisor=machine.hypervisor,
        os=machine.os,
        disk_template=machine.disk_template,
        admin_state=instance.AdminState.UP,
        disks=tuple(_disk(snapshot, stray.target.uuid, disk) for disk in machine.disks),
        nics=tuple(_nic(snapshot, nic) for nic in machine.nics),
        hvparams=_different(machine.hvparams, hypervisor),
        beparams=_different(machine.beparams, backend),
        network_port=machine.network_port,
    )


def _different(values: Mapping[str, calls.Value], defaults: entities.Parameters) -> entities.Parameters:
    """Return the values that differ from the cluster's; a name that this version does not know is dropped."""
    return {name: value for name, value in values.items() if name in defaults and value != defaults[name]}


def _disk(snapshot: states.Snapshot, node: str, disk: calls.Disk) -> instance.Disk:
    group = snapshot.nodegroups.get(snapshot.nodes[node].group)
    filled = parameters.fill_disk(snapshot.the_cluster, group, disk.dev_type)
    return instance.Disk(
        uuid=disk.uuid,
        dev_type=disk.dev_type,
        size=disk.size,
        name=disk.name,
        mode=disk.mode,
        logical_id=disk.logical_id,
        # Beside those of the template, only the parameters for a storage provider belong to a disk.
        params={name: value for name, value in disk.params.items() if name not in filled},
    )


def _nic(snapshot: states.Snapshot, nic: calls.Nic) -> instance.Nic:
    net = snapshot.networks.get(nic.network.uuid) if nic.network else None
    has_vlan = net is not None and net.segment is not None and net.segment.network_type == "vlan"
    plug: entities.Parameters = {"mode": nic.mode, "link": nic.link, "vlan": "" if has_vlan else nic.vlan}
    defaults = parameters.fill(parameters.NIC, snapshot.the_cluster.nicparams.get(parameters.RESET, {}))
    return instance.Nic(
        uuid=nic.uuid,
        mac=nic.mac,
        name=nic.name,
        ip=tuple(address.ip for address in nic.addresses),
        network=net.uuid if net else "",
        nicparams=plug if net else _different(plug, defaults),
    )


async def examine(nodes: base.Nodes, stray: Stray) -> Stray:
    """Return a stray guest with its devices; they stay unknown if its node does not answer."""
    try:
        machine = await nodes.call(
            stray.target, calls.InstanceMachine(hypervisor=stray.guest.hypervisor, name=stray.guest.name)
        )
    except errors.RemoteError:
        return stray
    return replace(stray, machine=machine)


def disks_text(machine: calls.Instance | None) -> str:
    """Return the disks of a guest, which stay when it is stopped, as text."""
    if machine is None:
        return "its disks are not known"
    names = [f"{disk.dev_type} {disk.logical_id[-1] if disk.logical_id else disk.uuid}" for disk in machine.disks]
    return f"its disks stay: {', '.join(names)}" if names else "it has no disks"
