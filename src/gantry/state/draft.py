"""A snapshot in the making: ``Snapshot.apply`` takes one, changes it, and makes the next snapshot of it.

Its maps can be assigned, so one transaction makes one Snapshot, however large. Each object that leaves takes its
entries out of the indexes, each that comes puts its own in; what is not unique is refused here, references are
``integrity``'s.
"""

# The persistent maps take no type parameters when the program runs.
from __future__ import annotations

from rpds import HashTrieMap, HashTrieSet

from gantry import errors
from gantry.model import cluster as clusters
from gantry.model import instance, job, network
from gantry.state import content, integrity, kinds


class Draft:
    """All that a Snapshot has but its serial, under the same names."""

    def __init__(self, base: content.Content) -> None:
        self.last_job = base.last_job
        self.cluster = base.cluster
        self.nodegroups = base.nodegroups
        self.nodes = base.nodes
        self.networks = base.networks
        self.resting = base.resting
        self.segmentranges = base.segmentranges
        self.ports = base.ports
        self.subnetpools = base.subnetpools
        self.instances = base.instances
        self.disks = base.disks
        self.jobs = base.jobs
        self.names = base.names
        self.addresses = base.addresses
        self.macs = base.macs
        self.nics = base.nics
        self.on_node = base.on_node
        self.copies_on = base.copies_on
        self.in_network = base.in_network
        self.ports_in = base.ports_in
        self.ports_of = base.ports_of
        self.subnet_network = base.subnet_network
        self.subnets_from = base.subnets_from
        self.segments = base.segments
        self.numbers = base.numbers
        self.nodes_in = base.nodes_in
        self.disks_on = base.disks_on

    def replace(self, change: kinds.Change) -> bool:
        """Put what leaves the indexes as they are: a job, a rest, most changes of an instance; False for any other."""
        if isinstance(change, kinds.Delete):
            return False
        match change.value:
            case job.Job() as new:
                self.jobs = self.jobs.insert(change.key, new)
                self.last_job = max(self.last_job, new.id)
            case network.Quarantine() as rest:
                self.resting = self.resting.insert(rest.uuid, rest)
            case instance.Instance() as vm:
                old = self.instances.get(vm.uuid)
                if not old or _indexed(old) != _indexed(vm):
                    return False
                self.instances = self.instances.insert(vm.uuid, vm)
            case _:
                return False
        return True

    def forget(self, change: kinds.Change) -> None:
        """Take the object that a change replaces or removes out of collection and indexes."""
        kind, key = change.kind, change.key
        if kind == "cluster":
            old: kinds.Stored | None = self.cluster if self.cluster and self.cluster.uuid == key else None
        else:
            old = getattr(self, kind).get(key)
        if old is None:
            if isinstance(change, kinds.Delete):
                raise errors.NotFoundError(f"no such object in {kind}: {key}")
            return
        match old:
            case clusters.Cluster():
                self.cluster = None
                return
            case job.Job() | network.Quarantine() | network.SegmentRange() | network.SubnetPool():
                setattr(self, kind, getattr(self, kind).remove(key))
                return
            case network.Port():
                self._forget_port(old)
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
                self._forget_network(old)
            case instance.Instance():
                self._forget_instance(old)
        self.names = self.names.discard((kind, old.name))

    def _forget_network(self, old: network.Network) -> None:
        self.networks = self.networks.remove(old.uuid)
        if old.segment:
            self.segments = self.segments.discard(old.segment.key)
        for subnet in old.subnets:
            self.subnet_network = self.subnet_network.discard(subnet.uuid)
            if subnet.subnetpool:
                self.subnets_from = _drop(self.subnets_from, subnet.subnetpool, subnet.uuid)

    def _forget_port(self, old: network.Port) -> None:
        self.ports = self.ports.remove(old.uuid)
        self.ports_in = _drop(self.ports_in, old.network, old.uuid)
        if old.device_id:
            self.ports_of = _drop(self.ports_of, old.device_id, old.uuid)
        self.macs = self.macs.discard(old.mac)
        for ip in old.ip:
            self.addresses = self.addresses.discard((old.network, ip))

    def _forget_instance(self, old: instance.Instance) -> None:
        self.instances = self.instances.remove(old.uuid)
        self.on_node = _drop(self.on_node, old.primary_node, old.uuid)
        for node in old.secondary_nodes:
            self.copies_on = _drop(self.copies_on, node, old.uuid)
        for number in old.numbers():
            self.numbers = self.numbers.discard(number)
        for nic in old.nics:
            self.macs = self.macs.discard(nic.mac)
            self.nics = self.nics.discard(nic.uuid)
        for cable in _cables(old):
            self.in_network = _drop(self.in_network, cable, old.uuid)
        for place in old.allocations():
            self.addresses = self.addresses.discard((place.network, place.ip))

    def _forget_disk(self, old: instance.DetachedDisk) -> None:
        self.disks = self.disks.remove(old.uuid)
        for node in old.nodes:
            self.disks_on = _drop(self.disks_on, node, old.uuid)
        for number in old.numbers():
            self.numbers = self.numbers.discard(number)

    def remember(self, new: kinds.Stored) -> None:
        """Put an object into its collection and the indexes; raises what is not unique."""
        match new:
            case clusters.Cluster():
                self.cluster = new
                return
            case job.Job() | network.Quarantine():
                raise errors.InternalError("neither jobs nor rests are in an index")
            case network.SegmentRange():
                self.segmentranges = self.segmentranges.insert(new.uuid, new)
                return
            case network.SubnetPool():
                self.subnetpools = self.subnetpools.insert(new.uuid, new)
                return
            case network.Port():
                self._remember_port(new)
                return
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
                self._remember_network(new)
            case instance.Instance():
                self._remember_instance(new)
        kind = kinds.KIND_OF[type(new)]
        if (kind, new.name) in self.names:
            raise errors.ExistsError(f"{kinds.KINDS[kind].noun} {new.name} exists already", hint="choose another name")
        self.names = self.names.insert((kind, new.name), new.uuid)

    def _remember_network(self, new: network.Network) -> None:
        self.networks = self.networks.insert(new.uuid, new)
        if new.segment:
            holder = self.segments.get(new.segment.key)
            if holder is not None:
                raise integrity.segment_in_use(new.segment, holder=self.networks[holder])
            self.segments = self.segments.insert(new.segment.key, new.uuid)
        for subnet in new.subnets:
            if subnet.uuid in self.subnet_network:
                raise errors.ExistsError(f"subnet {subnet.uuid} exists already")
            self.subnet_network = self.subnet_network.insert(subnet.uuid, new.uuid)
            if subnet.subnetpool:
                self.subnets_from = _add(self.subnets_from, subnet.subnetpool, subnet.uuid)

    def _remember_port(self, new: network.Port) -> None:
        self.ports = self.ports.insert(new.uuid, new)
        self.ports_in = _add(self.ports_in, new.network, new.uuid)
        if new.device_id:
            self.ports_of = _add(self.ports_of, new.device_id, new.uuid)
        self._take_mac(new.mac, new)
        for ip in new.ip:
            self._take_address(new.network, ip, kinds.AddressOwner(port=new.uuid))

    def _remember_instance(self, new: instance.Instance) -> None:
        self.instances = self.instances.insert(new.uuid, new)
        self.on_node = _add(self.on_node, new.primary_node, new.uuid)
        for node in new.secondary_nodes:
            self.copies_on = _add(self.copies_on, node, new.uuid)
        self._take_numbers(new)
        for nic in new.nics:
            self._take_mac(nic.mac, new)
            self.nics = self.nics.insert(nic.uuid, new.uuid)
        for cable in _cables(new):
            self.in_network = _add(self.in_network, cable, new.uuid)
        for place in new.allocations():
            self._take_address(place.network, place.ip, kinds.AddressOwner(new.uuid, place.nic))

    def _take_mac(self, mac: str, new: kinds.Holder) -> None:
        if mac in self.macs:
            uuid = self.macs[mac]
            raise integrity.mac_in_use(mac, holder=self.instances.get(uuid) or self.ports[uuid])
        self.macs = self.macs.insert(mac, new.uuid)

    def _take_address(self, cable: str, ip: str, owner: kinds.AddressOwner) -> None:
        known = self.addresses.get((cable, ip))
        if known is not None:
            holder = self.ports[known.port] if known.port else self.instances[known.instance]
            raise integrity.address_in_use(self.networks.get(cable), ip, holder=holder)
        self.addresses = self.addresses.insert((cable, ip), owner)

    def _take_numbers(self, new: kinds.Keeper) -> None:
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
