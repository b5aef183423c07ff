"""The invariants that must hold at every moment under all faults, checked from outside, in memory and on disks.

``glance`` is cheap and runs before time passes; ``check`` checks everything after each step. ``acknowledged`` has the
checks of acknowledgements, ``outcome`` those of the final state, after all faults have ended.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec

from gantry.address import ranges
from gantry.daemons import master
from gantry.ipam.sql import sharing
from gantry.model import instance, job, network
from gantry.node.hypervisors import fake
from gantry.sim import cluster, copies
from gantry.sim.hardware import databases
from gantry.sim.story import Story, Violation
from gantry.state.objects import snapshot as states

UNIQUE = "no address, segment, minor, port, MAC address or name is given twice"
GUESTS = "no two guests run with one name, address or MAC address"
ONE_LEASE = "at most one master may command nodes"
MARKED = "a master without a majority says so"
LOCKS = "locks are held by living jobs only"
LOCKS_HELD = "a job that is at work holds its locks"
ONE_EPOCH = "at most one master writes: an epoch belongs to one machine"
WHOLE = "a job is stored before what it changes, or with it"
WITHIN = "an address lies in a subnet of its network"
SOUND = "no daemon fails in a way that its authors excluded"
CUT = "subnets of a subnet pool do not overlap, and are in its prefixes"
RANGES = "segment ranges do not overlap, and keep the ids that are in use"
REFERENCES = "what an object refers to exists"
SHARED = "an address of a shared database has one owner"
STORED = "an address is in a shared database as long as the state has it"
QUARANTINED = "an address in quarantine goes to no other owner"
FOREIGN = "a master leaves the addresses of other owners of a shared database to them"

MARK_SECONDS = 20.0
"""After the end of its lease, until a master has noticed it, even by a clock of half the speed."""

RUNNING, SENT = "running", "migrated"
"""The states of a guest that runs, and of one whose memory another node has."""

Guest = fake.Guest
Thing = tuple[str, ...]

_GUEST = msgspec.json.Decoder(fake.Guest)


def glance(lab: cluster.SimulatedCluster) -> None:
    """Check that working jobs, also while they are undone, hold their locks, and that one master has the lease."""
    if len(lab.daemons) > 1:
        leaseholders = [name for name, daemon in lab.daemons.items() if is_firm(daemon) and daemon.lease.is_held()]
        if len(leaseholders) > 1:
            raise Violation(ONE_LEASE, "one master with the lease", " and ".join(leaseholders))
    for name in lab.masters():
        daemon = lab.daemons[name]
        for number in daemon.queue.executing():
            if not daemon.locks.is_holder(number):
                raise Violation(LOCKS_HELD, f"locks held by job {number}, which is at work", "it holds none")


def is_firm(daemon: master.Master) -> bool:
    """Return whether a master is bound to a majority by all its rules."""
    rules = daemon.candidates.rules
    return bool(rules) and not any(rule.policy.continues_alone for rule in rules)


class Marks:
    """Checks that a master whose lease has ended some time ago marks its answers."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._since: dict[str, tuple[master.Master, float]] = {}

    def glance(self) -> None:
        """Forget masters that have the lease, also those that have it only for a moment between two checks."""
        for name in [name for name in self._since if name in self._lab.daemons]:
            if not self._is_due(name, self._lab.daemons[name]):
                del self._since[name]

    def _is_due(self, name: str, daemon: master.Master) -> bool:
        return is_firm(daemon) and not daemon.lease.is_held() and not self._lab.is_stopped(name, cluster.MASTER)

    def check(self) -> None:
        """Check all masters; raises Violation."""
        self.glance()
        now = self._lab.world.clock.monotonic()
        for name, daemon in self._lab.daemons.items():
            if not self._is_due(name, daemon):
                continue
            known, since = self._since.setdefault(name, (daemon, now))
            if known is not daemon:
                self._since[name] = daemon, now
            elif now - since > MARK_SECONDS and not daemon.candidates.notice() and daemon.candidates.refusal is None:
                raise Violation(
                    MARKED, f"answers of {name} with a notice", f"none, {now - since:.0f} s without the lease"
                )


def check(
    lab: cluster.SimulatedCluster, copies_on_disk: copies.Copies, run_story: Story, *, firm: bool = False
) -> None:
    """Check all invariants; raises Violation. ``firm``: no policy of this run lets a change be lost."""
    if run_story.faults:
        raise Violation(SOUND, "no traceback", run_story.faults[0])
    for name in lab.masters():
        daemon = lab.daemons[name]
        _check_state(daemon.store.snapshot)
        _check_shared(lab, daemon.store.durable)
        check_stored(lab, daemon)
        _check_locks(daemon)
    _check_epochs(lab, copies_on_disk)
    _check_guests(lab, copies_on_disk, firm=firm)
    if robbed := lab.database.robbed():
        raise Violation(FOREIGN, f"{robbed} for {databases.OTHER}, which has it", "the database does not say so")
    if unstored := copies_on_disk.unstored():
        raise Violation(WHOLE, f"job {unstored[0]} in the copy that has its changes", "it is not there")


def _check_once(promise: str, what: str, values: Iterable[object]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise Violation(promise, f"every {what} once", f"{twice[0]} twice")


def _check_state(state: states.Snapshot) -> None:
    vms, nodes = list(state.instances.values()), list(state.nodes.values())
    nics = [nic for vm in vms for nic in vm.nics]
    for kind in ("instances", "nodes", "networks", "nodegroups"):
        names = [getattr(item, "name", "") for item in state.collection(kind).values()]
        _check_once(UNIQUE, f"name in {kind}", names)
    _check_once(UNIQUE, "MAC address", [*(nic.mac for nic in nics), *(port.mac for port in state.ports.values())])
    allocations = [item for owner in owners(state) for item in owner.allocations() if item.network]
    _check_once(UNIQUE, "address", (item[:2] for item in allocations))
    _check_once(UNIQUE, "segment", (net.segment.key for net in state.networks.values() if net.segment))
    _check_once(UNIQUE, "port of a console", (vm.network_port for vm in vms if vm.network_port))
    _check_once(UNIQUE, "place of a node daemon", ((node.primary_ip, node.port) for node in nodes))
    disks = list(_disks(state))
    _check_once(UNIQUE, "file or volume of a disk", (part for disk in disks for part in parts(disk)))
    mirrored = [disk.mirror for disk in disks if disk.mirror]
    _check_once(UNIQUE, "minor", ((node, number) for mirror in mirrored for node, number in mirror.minors.items()))
    _check_references(state)
    _check_ranges(state)
    _check_cut(state)
    # A lingering address may belong to a removed network.
    for allocation in (item for item in allocations if item.network in state.networks):
        address = ranges.parse_address(allocation.ip)
        cidrs = [ranges.parse_cidr(subnet.cidr) for subnet in state.networks[allocation.network].subnets]
        if not any(cidr.family is address.family and address.value in cidr.range for cidr in cidrs):
            raise Violation(
                WITHIN, f"{allocation.ip} in one of {', '.join(map(str, cidrs)) or 'no subnets'}", "it is in none"
            )


def owners(state: states.Snapshot) -> list[states.Owner]:
    """Return the possible owners of addresses: instances and ports."""
    return [*state.instances.values(), *state.ports.values()]


def _check_shared(lab: cluster.SimulatedCluster, state: states.Snapshot) -> None:
    """Check that no other owner has an address of the state in the shared database, if the database decides."""
    if state.the_cluster.ipam_driver != "sql":
        return
    stored = lab.database.allocations()
    foreign = {(subnet, address) for subnet, address, owner in stored if owner == databases.OTHER}
    for owner in owners(state) if foreign else ():
        for allocation in owner.allocations():
            net = state.networks.get(allocation.network)
            for subnet in net.subnets if net else ():
                if (subnet.uuid, allocation.ip) in foreign:
                    raise Violation(SHARED, f"{allocation.ip} of {owner.name} for it alone", "another owner has it")


def check_stored(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    """Check that a shared database has the addresses of the state, if no other history can have released them."""
    state = daemon.store.durable
    if state.the_cluster.ipam_driver != "sql" or not is_firm(daemon) or not daemon.lease.is_held():
        return
    mark = f"{sharing.CLUSTERS}{state.the_cluster.uuid}/"
    stored = {address for _, address, owner in lab.database.allocations() if owner.startswith(mark)}
    for owner in owners(state):
        for allocation in owner.allocations():
            if allocation.network and allocation.ip not in stored:
                raise Violation(STORED, f"{allocation.ip} of {owner.name} in the database", "it is not there")


def _check_references(state: states.Snapshot) -> None:
    for node in state.nodes.values():
        if node.group not in state.nodegroups:
            raise Violation(REFERENCES, f"the node group of {node.name}", "it was removed")
    for vm in state.instances.values():
        if not all(uuid in state.nodes for uuid in vm.nodes):
            raise Violation(REFERENCES, f"the nodes of {vm.name}", "one was removed")


def _check_ranges(state: states.Snapshot) -> None:
    managed = [each for each in state.segmentranges.values() if not each.default]
    for first, second in itertools.combinations(managed, 2):
        same = (first.network_type, first.physical_network) == (second.network_type, second.physical_network)
        if same and first.minimum <= second.maximum and second.minimum <= first.maximum:
            raise Violation(RANGES, f"segment ranges {first.name} and {second.name} apart", "they share an id")


def _check_cut(state: states.Snapshot) -> None:
    """Check the subnets whose CIDRs were allocated from subnet pools."""
    cut = [
        (state.subnetpools[subnet.subnetpool], ranges.parse_cidr(subnet.cidr))
        for net in state.networks.values()
        for subnet in net.subnets
        if subnet.subnetpool in state.subnetpools
    ]
    for pool, cidr in cut:
        prefixes = map(ranges.parse_cidr, pool.prefixes)
        if not any(prefix.family is cidr.family and prefix.range.covers(cidr.range) for prefix in prefixes):
            raise Violation(CUT, f"{cidr} in {', '.join(pool.prefixes)}", "it is in none")
    for (pool, first), (other_pool, second) in itertools.combinations(cut, 2):
        if pool.uuid == other_pool.uuid and first.family is second.family and first.range.overlaps(second.range):
            raise Violation(CUT, f"{first} and {second} of subnet pool {pool.name} apart", "they overlap")


class UsedIds:
    """Checks that no segment range loses an id while a network has it."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._lab = lab
        self._before: dict[str, tuple[master.Master, states.Snapshot]] = {}

    def check(self) -> None:
        """Compare the state of each master with its state at the last call; raises Violation."""
        for name in self._lab.masters():
            daemon = self._lab.daemons[name]
            known, before = self._before.get(name, (daemon, daemon.store.snapshot))
            self._before[name] = daemon, daemon.store.snapshot
            if known is daemon:
                _check_kept(before, daemon.store.snapshot)


def _check_kept(before: states.Snapshot, after: states.Snapshot) -> None:
    for uuid, net in before.networks.items():
        if net.segment is None or after.networks.get(uuid) != net:
            continue
        for run in before.segmentranges.values():
            if not run.default and _contains(run, net.segment):
                new = after.segmentranges.get(run.uuid)
                if new is None or not _contains(new, net.segment):
                    raise Violation(
                        RANGES, f"{net.segment.segmentation_id} of {net.name} in range {run.name}", "it left the range"
                    )


def _contains(run: network.SegmentRange, segment: network.Segment) -> bool:
    same = (run.network_type, run.physical_network) == (segment.network_type, segment.physical_network)
    return same and run.minimum <= segment.segmentation_id <= run.maximum


def parts(disk: instance.Disk) -> list[str]:
    """Return the names of the files or volumes of a disk on a node."""
    return [part.logical_id[-1] for part in (disk.children or (disk,)) if part.logical_id]


def _disks(state: states.Snapshot) -> Iterator[instance.Disk]:
    for vm in state.instances.values():
        yield from vm.disks
    yield from (detached.disk for detached in state.disks.values())


def _check_locks(daemon: master.Master) -> None:
    living = {number for number, each in daemon.queue.jobs().items() if each.status not in job.FINAL}
    living.update(daemon.queue.arriving())
    for usage in daemon.locks.owners_and_waiters():
        waiting = [owner for _, owners in usage.pending for owner in owners]
        for owner in (*usage.owners, *waiting):
            if owner not in living:
                raise Violation(LOCKS, f"lock {usage.name} with living jobs", f"job {owner}, which has ended")


def _check_epochs(lab: cluster.SimulatedCluster, copies_on_disk: copies.Copies) -> None:
    """Check that no two running masters have the same epoch, and that no two machines ever began the same epoch."""
    for epoch, names in copies_on_disk.begun.items():
        if len(names) > 1:
            raise Violation(ONE_EPOCH, f"one machine that begins epoch {epoch}", " and ".join(sorted(names)))
    epochs: dict[int, str] = {}
    for name in lab.masters():
        other = epochs.setdefault(lab.daemons[name].store.epoch, name)
        if other != name:
            epoch = lab.daemons[name].store.epoch
            raise Violation(ONE_EPOCH, f"one master of epoch {epoch}", f"{other} and {name}")


def guests(lab: cluster.SimulatedCluster, name: str) -> Iterator[fake.Guest]:
    """Yield the guests that run on a machine, or may continue to run there: not what a migration has left behind."""
    yield from (guest for guest in _all_guests(lab, name) if guest.running.state not in (*fake.INCOMING_STATES, SENT))


def halves(lab: cluster.SimulatedCluster, name: str) -> list[str]:
    """Return the names of the guests on a machine that an unfinished migration has left there."""
    return [guest.running.name for guest in _all_guests(lab, name) if guest.running.state != RUNNING]


def _all_guests(lab: cluster.SimulatedCluster, name: str) -> Iterator[fake.Guest]:
    disk, folder = lab.world.machine(name).disk, f"{cluster.FOLDERS.instances}/{fake.NAME}"
    for file in disk.names(folder) if lab.has_power(name) and disk.exists(folder) else ():
        yield _GUEST.decode(disk.read(f"{folder}/{file}"))


def _check_guests(lab: cluster.SimulatedCluster, copies_on_disk: copies.Copies, *, firm: bool) -> None:
    running = [guest for name in lab.names for guest in guests(lab, name)]
    try:
        _check_apart(running)
    except Violation:
        if firm:
            raise
        _check_apart(running, but=left_behind(lab, copies_on_disk).things)


def _check_apart(running: Sequence[Guest], *, but: Set[Thing] = frozenset()) -> None:
    nics = [(guest.running.uuid, nic) for guest in running for nic in guest.nics]
    addresses = [(uuid, nic.network.uuid, address.ip) for uuid, nic in nics if nic.network for address in nic.addresses]
    _check_once(GUESTS, "guest", (guest.running.uuid for guest in running))
    _check_once(GUESTS, "MAC address", (nic.mac for uuid, nic in nics if (uuid, nic.mac) not in but))
    _check_once(GUESTS, "address", (item[1:] for item in addresses if item not in but))


@dataclass(frozen=True)
class LeftBehind:
    """Objects that exist only in abandoned histories: instances (names by UUID), and resources of any instance.

    They come from a master that had no majority and lost its role. Its acknowledgements may be lost (``acknowledged``),
    and its actions on nodes are unknown to its successor (``gnt-cluster verify`` shows the guests). The exemption
    covers only disks, nodes for disks, MAC addresses, addresses, and nodes for guests, that were chosen after the two
    histories had parted.
    """

    strays: Mapping[str, str]
    things: Set[Thing]


def home(key: str, node_uuid: str) -> Thing:
    """Return the node on which an instance has its guest, or the part of a disk is, as a resource."""
    return key, "on", node_uuid


def things(vm: instance.Instance) -> Iterator[Thing]:
    """Yield an instance's exclusive resources: parts of its disks on nodes, and with the UUID its node and addresses.

    A copy of a disk has the same parts on another node: replacing it chooses a node, and no new names.
    """
    yield home(vm.uuid, vm.primary_node)
    for disk in vm.disks:
        for part in parts(disk):
            yield from (home(part, node_uuid) for node_uuid in vm.nodes)
    for nic in vm.nics:
        yield vm.uuid, nic.mac
    for allocation in vm.allocations():
        yield vm.uuid, allocation.network, allocation.ip


def left_behind(lab: cluster.SimulatedCluster, copies_on_disk: copies.Copies) -> LeftBehind:
    """Return the objects that exist only in histories that do not lead to the newest epoch."""
    ends = [copies_on_disk.frames[end] for end in map(copies_on_disk.end, lab.names) if end in copies_on_disk.frames]
    newest = max((end.epoch for end in ends), default=0)
    valid = {frame.digest: frame for end in ends if end.epoch == newest for frame in copies_on_disk.chain(end.digest)}
    versions: dict[str, list[tuple[int, instance.Instance]]] = defaultdict(list)
    for frame in sorted(valid.values(), key=lambda frame: frame.serial):
        for vm in frame.instances:
            versions[vm.uuid].append((frame.serial, vm))
    strays, allocated = dict[str, str](), set[Thing]()
    for frame in [frame for frame in copies_on_disk.frames.values() if frame.digest not in valid]:
        common_serial = next(
            (before.serial for before in copies_on_disk.chain(frame.digest) if before.digest in valid), 0
        )
        for vm in frame.instances:
            known = [version for serial, version in versions[vm.uuid] if serial <= common_serial]
            allocated |= set(things(vm)) - set(things(known[-1]) if known else ())
            if not versions[vm.uuid]:
                strays[vm.uuid] = vm.name
    return LeftBehind(strays, allocated)
