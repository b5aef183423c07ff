"""The cluster at one moment: immutable collections, their indexes, and the checks that hold over all of them.

Every reader takes a Snapshot and keeps it as long as it likes; a change makes a new one that shares all but a few
nodes of persistent maps with the old, so its cost does not grow with the cluster. ``apply`` refuses changes that
break an invariant: names and MAC addresses are unique, references lead somewhere, an address lies in a subnet of its
network and belongs to one NIC (networks seed, ``_AllIPs``). The refused snapshot is unchanged.
"""

# The persistent maps take no type parameters when the program runs.
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rpds import HashTrieMap, HashTrieSet

from gantry import errors
from gantry.model import base, instance, job, network
from gantry.model import cluster as clusters
from gantry.rpc import targets
from gantry.state import integrity

Keeper = instance.Instance | instance.DetachedDisk
"""Who has minors and ports."""

Stored = clusters.Cluster | clusters.NodeGroup | clusters.Node | network.Network | network.Rest | Keeper | job.Job

KINDS: dict[str, type[Stored]] = {
    "cluster": clusters.Cluster,
    "nodegroups": clusters.NodeGroup,
    "nodes": clusters.Node,
    "networks": network.Network,
    "resting": network.Rest,
    "instances": instance.Instance,
    "disks": instance.DetachedDisk,
    "jobs": job.Job,
}
"""The collections of the configuration (contract: configuration data) and the queue."""

NOUNS = integrity.NOUNS


@dataclass(frozen=True, slots=True)
class Put:
    """Store an object, new or in place of the one with its key."""

    value: Stored

    @property
    def kind(self) -> str:
        """Return the collection of the object."""
        return _KIND_OF[type(self.value)]

    @property
    def key(self) -> str:
        """Return the object's key in its collection: UUID, or a job's number."""
        return str(self.value.id) if isinstance(self.value, job.Job) else self.value.uuid


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the object with a key from a collection."""

    kind: str
    key: str


_KIND_OF: dict[type, str] = {cls: kind for kind, cls in KINDS.items()}
Change = Put | Delete


class AddressOwner(NamedTuple):
    """Who uses an address: UUIDs of instance and NIC."""

    instance: str
    nic: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that survives, at the moment of ``serial``; ``last_job`` is the highest job number ever given out.

    ``names`` finds a UUID by kind and name, ``addresses`` the owner of an address by network UUID and canonical
    text, ``macs`` the instance of a MAC address, ``on_node`` and ``in_network`` the instances of a node and of a
    network, ``copies_on`` those whose disks a node keeps as their secondary one, ``nodes_in`` the nodes of a group,
    ``disks_on`` the disks without an instance that a node keeps, ``numbers`` the instance, or the disk without one, of
    a minor or port.
    """

    serial: int = 0
    last_job: int = 0
    cluster: clusters.Cluster | None = None
    nodegroups: HashTrieMap[str, clusters.NodeGroup] = field(default_factory=HashTrieMap)
    nodes: HashTrieMap[str, clusters.Node] = field(default_factory=HashTrieMap)
    networks: HashTrieMap[str, network.Network] = field(default_factory=HashTrieMap)
    resting: HashTrieMap[str, network.Rest] = field(default_factory=HashTrieMap)
    instances: HashTrieMap[str, instance.Instance] = field(default_factory=HashTrieMap)
    disks: HashTrieMap[str, instance.DetachedDisk] = field(default_factory=HashTrieMap)
    jobs: HashTrieMap[str, job.Job] = field(default_factory=HashTrieMap)
    names: HashTrieMap[tuple[str, str], str] = field(default_factory=HashTrieMap)
    addresses: HashTrieMap[tuple[str, str], AddressOwner] = field(default_factory=HashTrieMap)
    macs: HashTrieMap[str, str] = field(default_factory=HashTrieMap)
    on_node: HashTrieMap[str, HashTrieSet[str]] = field(default_factory=HashTrieMap)
    copies_on: HashTrieMap[str, HashTrieSet[str]] = field(default_factory=HashTrieMap)
    in_network: HashTrieMap[str, HashTrieSet[str]] = field(default_factory=HashTrieMap)
    numbers: HashTrieMap[instance.Number, str] = field(default_factory=HashTrieMap)
    nodes_in: HashTrieMap[str, HashTrieSet[str]] = field(default_factory=HashTrieMap)
    disks_on: HashTrieMap[str, HashTrieSet[str]] = field(default_factory=HashTrieMap)

    @property
    def the_cluster(self) -> clusters.Cluster:
        """Return the cluster; InternalError before there is one."""
        if self.cluster is None:
            raise errors.InternalError("the state holds no cluster")
        return self.cluster

    def collection(self, kind: str) -> HashTrieMap[str, Stored]:
        """Return a collection by its name, the cluster excepted."""
        collection: HashTrieMap[str, Stored] = getattr(self, kind)
        return collection

    def get(self, kind: str, key: str) -> Stored | None:
        """Return a stored object or None."""
        if kind == "cluster":
            return self.cluster if self.cluster and self.cluster.uuid == key else None
        return self.collection(kind).get(key)

    def resolve(self, kind: str, name: str) -> str:
        """Return the UUID for a name, a UUID, or the unique beginning of a dotted name.

        Raises NotFoundError, or InvalidError when a short name fits several (contract: value coercion).
        """
        if name in self.collection(kind):
            return name
        found = self.names.get((kind, name))
        if found is not None:
            return found
        short = [full for (of, full) in self._names_of(kind) if full.startswith(f"{name}.") and of == kind]
        if len(short) == 1:
            return self.names[kind, short[0]]
        if short:
            raise errors.InvalidError(f"{NOUNS[kind]} name {name} is ambiguous: {', '.join(sorted(short)[:5])}")
        raise errors.NotFoundError(
            f"no such {NOUNS[kind]}: {name}", hint=f"{_LIST_COMMANDS[kind]} shows those there are"
        )

    def _names_of(self, kind: str) -> Iterable[tuple[str, str]]:
        return ((kind, entity.name) for entity in self.collection(kind).values() if isinstance(entity, base.Entity))

    def node(self, name: str) -> clusters.Node:
        """Return a node by name or UUID; NotFoundError."""
        return self.nodes[self.resolve("nodes", name)]

    def group(self, name: str) -> clusters.NodeGroup:
        """Return a node group by name or UUID; NotFoundError."""
        return self.nodegroups[self.resolve("nodegroups", name)]

    def network(self, name: str) -> network.Network:
        """Return a network by name or UUID; NotFoundError."""
        return self.networks[self.resolve("networks", name)]

    def detached_disk(self, name: str) -> instance.DetachedDisk:
        """Return a disk without an instance by its name or UUID; NotFoundError, or InvalidError where several fit."""
        found = [self.disks[name]] if name in self.disks else [one for one in self.disks.values() if one.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            uuids = ", ".join(sorted(one.uuid for one in found))
            raise errors.InvalidError(
                f"{len(found)} disks without an instance are named {name}", hint=f"UUIDs: {uuids}"
            )
        raise errors.NotFoundError(
            f"there is no disk {name} without an instance",
            hint="gnt-node list -o name,detached_disks shows those there are",
        )

    def instance(self, name: str) -> instance.Instance:
        """Return an instance by name or UUID; NotFoundError."""
        return self.instances[self.resolve("instances", name)]

    def target(self, node: clusters.Node) -> targets.Target:
        """Return where to call a node."""
        return targets.Target(
            uuid=node.uuid, name=node.name, address=node.primary_ip, port=node.port, offline=node.offline
        )

    def apply(self, changes: Iterable[Change], *, serial: int) -> Snapshot:
        """Return the snapshot after ``changes``; raises the PrerequisiteError of the first invariant they break.

        Loading a whole configuration is the same: everything put at once into an empty snapshot.
        """
        touched = tuple(changes)
        draft = _Draft(self)
        moved = [change for change in touched if not draft.replace(change)]
        for change in moved:
            draft.forget(change)
        for change in moved:
            if isinstance(change, Put):
                draft.remember(change.value)
        after = draft.freeze(serial)
        for change in touched:
            if isinstance(change, Put):
                integrity.check(self, after, change.value)
            else:
                integrity.check_unused(after, change.kind, key=change.key)
        return after


_LIST_COMMANDS = {
    "nodegroups": "gnt-group list",
    "nodes": "gnt-node list",
    "networks": "gnt-network list",
    "instances": "gnt-instance list",
}


class _Draft:
    """A snapshot in the making: its maps can be assigned, so one transaction makes one Snapshot, however large."""

    def __init__(self, base: Snapshot) -> None:
        self.last_job = base.last_job
        self.cluster = base.cluster
        self.nodegroups = base.nodegroups
        self.nodes = base.nodes
        self.networks = base.networks
        self.resting = base.resting
        self.instances = base.instances
        self.disks = base.disks
        self.jobs = base.jobs
        self.names = base.names
        self.addresses = base.addresses
        self.macs = base.macs
        self.on_node = base.on_node
        self.copies_on = base.copies_on
        self.in_network = base.in_network
        self.numbers = base.numbers
        self.nodes_in = base.nodes_in
        self.disks_on = base.disks_on

    def freeze(self, serial: int) -> Snapshot:
        """Return what was made."""
        return Snapshot(serial=serial, **vars(self))

    def replace(self, change: Change) -> bool:
        """Put what leaves the indexes as they are: a job, a rest, most changes of an instance; False for any other."""
        if isinstance(change, Delete):
            return False
        match change.value:
            case job.Job() as new:
                self.jobs = self.jobs.insert(change.key, new)
                self.last_job = max(self.last_job, new.id)
            case network.Rest() as rest:
                self.resting = self.resting.insert(rest.uuid, rest)
            case instance.Instance() as vm:
                old = self.instances.get(vm.uuid)
                if not old or _indexed(old) != _indexed(vm):
                    return False
                self.instances = self.instances.insert(vm.uuid, vm)
            case _:
                return False
        return True

    def forget(self, change: Change) -> None:
        """Take the object that a change replaces or removes out of collection and indexes."""
        kind, key = change.kind, change.key
        if kind == "cluster":
            old: Stored | None = self.cluster if self.cluster and self.cluster.uuid == key else None
        else:
            old = getattr(self, kind).get(key)
        if old is None:
            if isinstance(change, Delete):
                raise errors.NotFoundError(f"no such object in {kind}: {key}")
            return
        match old:
            case clusters.Cluster():
                self.cluster = None
                return
            case job.Job():
                self.jobs = self.jobs.remove(key)
                return
            case network.Rest():
                self.resting = self.resting.remove(key)
                return
            case instance.DetachedDisk():
                self._forget_disk(old)
                return
            case clusters.NodeGroup():
                self.nodegroups = self.nodegroups.remove(key)
            case clusters.Node():
                self.nodes = self.nodes.remove(key)
                self.nodes_in = _drop(self.nodes_in, old.group, old.uuid)
            case network.Network():
                self.networks = self.networks.remove(key)
            case instance.Instance():
                self._forget_instance(old)
        self.names = self.names.discard((kind, old.name))

    def _forget_instance(self, old: instance.Instance) -> None:
        self.instances = self.instances.remove(old.uuid)
        self.on_node = _drop(self.on_node, old.primary_node, old.uuid)
        for node in old.secondary_nodes:
            self.copies_on = _drop(self.copies_on, node, old.uuid)
        for number in old.numbers():
            self.numbers = self.numbers.discard(number)
        for nic in old.nics:
            self.macs = self.macs.discard(nic.mac)
        for cable in _cables(old):
            self.in_network = _drop(self.in_network, cable, old.uuid)
        for place in old.places():
            self.addresses = self.addresses.discard((place.network, place.ip))

    def _forget_disk(self, old: instance.DetachedDisk) -> None:
        self.disks = self.disks.remove(old.uuid)
        for node in old.nodes:
            self.disks_on = _drop(self.disks_on, node, old.uuid)
        for number in old.numbers():
            self.numbers = self.numbers.discard(number)

    def remember(self, new: Stored) -> None:
        """Put an object into its collection and the indexes; raises what is not unique."""
        match new:
            case clusters.Cluster():
                self.cluster = new
                return
            case job.Job() | network.Rest():
                raise errors.InternalError("neither jobs nor rests are in an index")
            case instance.DetachedDisk():
                self.disks = self.disks.insert(new.uuid, new)
                for node in new.nodes:
                    self.disks_on = _add(self.disks_on, node, new.uuid)
                self._take_numbers(new)
                return
            case clusters.NodeGroup():
                self.nodegroups = self.nodegroups.insert(new.uuid, new)
            case clusters.Node():
                self.nodes = self.nodes.insert(new.uuid, new)
                self.nodes_in = _add(self.nodes_in, new.group, new.uuid)
            case network.Network():
                self.networks = self.networks.insert(new.uuid, new)
            case instance.Instance():
                self._remember_instance(new)
        kind = _KIND_OF[type(new)]
        if (kind, new.name) in self.names:
            raise errors.ExistsError(f"{NOUNS[kind]} {new.name} exists already", hint="choose another name")
        self.names = self.names.insert((kind, new.name), new.uuid)

    def _remember_instance(self, new: instance.Instance) -> None:
        self.instances = self.instances.insert(new.uuid, new)
        self.on_node = _add(self.on_node, new.primary_node, new.uuid)
        for node in new.secondary_nodes:
            self.copies_on = _add(self.copies_on, node, new.uuid)
        self._take_numbers(new)
        for nic in new.nics:
            if nic.mac in self.macs:
                holder = self.instances[self.macs[nic.mac]].name
                raise errors.NotUniqueError(f"MAC address {nic.mac} is in use by instance {holder}")
            self.macs = self.macs.insert(nic.mac, new.uuid)
        for cable in _cables(new):
            self.in_network = _add(self.in_network, cable, new.uuid)
        for place in new.places():
            at = place.network, place.ip
            owner = self.addresses.get(at)
            if owner is not None:
                raise integrity.address_in_use(
                    self.networks.get(place.network), place.ip, holder=self.instances[owner.instance]
                )
            self.addresses = self.addresses.insert(at, AddressOwner(new.uuid, place.nic))

    def _take_numbers(self, new: Keeper) -> None:
        for number in new.numbers():
            if number in self.numbers:
                raise integrity.number_in_use(number, self.nodes, holder=self._holder(self.numbers[number]))
            self.numbers = self.numbers.insert(number, new.uuid)

    def _holder(self, uuid: str) -> str:
        vm = self.instances.get(uuid)
        return f"a disk of instance {vm.name}" if vm else f"disk {uuid}, which has no instance"


def _indexed(vm: instance.Instance) -> tuple[object, ...]:
    """Return what the indexes know of an instance."""
    return vm.name, vm.primary_node, vm.nics, vm.lingering, [disk.mirror for disk in vm.disks]


def _cables(vm: instance.Instance) -> set[str]:
    return {*(nic.network for nic in vm.nics), *(one.network for one in vm.lingering)} - {""}


def _add(index: HashTrieMap[str, HashTrieSet[str]], key: str, member: str) -> HashTrieMap[str, HashTrieSet[str]]:
    return index.insert(key, (index.get(key) or HashTrieSet()).insert(member))


def _drop(index: HashTrieMap[str, HashTrieSet[str]], key: str, member: str) -> HashTrieMap[str, HashTrieSet[str]]:
    members = (index.get(key) or HashTrieSet()).discard(member)
    return index.insert(key, members) if members else index.discard(key)
