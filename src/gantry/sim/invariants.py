"""What must hold at every moment, whatever has happened: looked at from outside, in memory and on disks.

``glance`` is cheap and comes before any time passes, ``check`` looks at everything and comes after each step.

``acknowledged`` has what concerns acknowledgements, ``outcome`` what must hold in the end, when all is healed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec

from gantry.address import ranges
from gantry.daemons import master
from gantry.model import instance, job
from gantry.node.hypervisors import fake
from gantry.sim import cluster, copies
from gantry.sim.story import Story, Violation
from gantry.state import snapshot as states

UNIQUE = "no address, segment, minor, port, MAC address or name is given twice"
GUESTS = "no two guests run with one name, address or MAC address"
LOCKS = "locks are held by living jobs only"
HELD = "a job that is at work holds its locks"
ONE_EPOCH = "at most one master writes: an epoch belongs to one machine"
WHOLE = "a job is stored before what it changes, or with it"
WITHIN = "an address lies in a subnet of its network"
SOUND = "no daemon fails in a way that its authors excluded"
LEDGER = "the ledger of addresses knows what the state holds"

Guest = fake.Guest
Thing = tuple[str, ...]

_GUEST = msgspec.json.Decoder(fake.Guest)


def glance(lab: cluster.SimulatedCluster) -> None:
    """Check that jobs at work, and those whose steps are undone, hold their locks: none may be without for a moment."""
    for name in lab.masters():
        daemon = lab.daemons[name]
        if working := daemon.queue.executing():
            holders = {owner for usage in daemon.locks.owners_and_waiters() for owner in usage.owners}
            for number in working:
                if number not in holders:
                    raise Violation(HELD, f"locks held by job {number}, which is at work", "it holds none")


def check(lab: cluster.SimulatedCluster, found: copies.Copies, told: Story) -> None:
    """Check what must hold at every moment; raises Violation."""
    if told.faults:
        raise Violation(SOUND, "no traceback", told.faults[0])
    for name in lab.masters():
        daemon = lab.daemons[name]
        _check_state(daemon.store.snapshot)
        _check_locks(daemon)
    _check_epochs(lab, found)
    _check_guests(lab, found)
    if found.unheard:
        raise Violation(WHOLE, f"job {found.unheard[0]} in the copy that has its changes", "it is not there")


def _check_once(promise: str, what: str, values: Iterable[object]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise Violation(promise, f"every {what} once", f"{twice[0]} twice")


def _check_state(state: states.Snapshot) -> None:
    vms, nodes = list(state.instances.values()), list(state.nodes.values())
    nics = [nic for vm in vms for nic in vm.nics]
    for kind in ("instances", "nodes", "networks", "nodegroups"):
        names = [getattr(one, "name", "") for one in state.collection(kind).values()]
        _check_once(UNIQUE, f"name in {kind}", names)
    _check_once(UNIQUE, "MAC address", [*(nic.mac for nic in nics), *(port.mac for port in state.ports.values())])
    places = [place for one in holders(state) for place in one.allocations() if place.network]
    _check_once(UNIQUE, "address", (place[:2] for place in places))
    _check_once(UNIQUE, "segment", (net.segment.key for net in state.networks.values() if net.segment))
    _check_once(UNIQUE, "port of a console", (vm.network_port for vm in vms if vm.network_port))
    _check_once(UNIQUE, "place of a node daemon", ((node.primary_ip, node.port) for node in nodes))
    _check_once(UNIQUE, "file of a disk", (disk.logical_id for disk in _disks(state)))
    # What lingers may be of a network that is gone.
    for place in (one for one in places if one.network in state.networks):
        address = ranges.parse_address(place.ip)
        cidrs = [ranges.parse_cidr(subnet.cidr) for subnet in state.networks[place.network].subnets]
        if not any(cidr.family is address.family and address.value in cidr.range for cidr in cidrs):
            raise Violation(
                WITHIN, f"{place.ip} in one of {', '.join(map(str, cidrs)) or 'no subnets'}", "it is in none"
            )


def holders(state: states.Snapshot) -> list[states.Holder]:
    """Return who may have addresses: instances and ports."""
    return [*state.instances.values(), *state.ports.values()]


def _disks(state: states.Snapshot) -> Iterator[instance.Disk]:
    for vm in state.instances.values():
        yield from vm.disks
    yield from (one.disk for one in state.disks.values())


def _check_locks(daemon: master.Master) -> None:
    living = {number for number, one in daemon.queue.jobs().items() if one.status not in job.FINAL}
    for usage in daemon.locks.owners_and_waiters():
        waiting = [owner for _, owners in usage.pending for owner in owners]
        for owner in (*usage.owners, *waiting):
            if owner not in living:
                raise Violation(LOCKS, f"lock {usage.name} with living jobs", f"job {owner}, which has ended")


def _check_epochs(lab: cluster.SimulatedCluster, found: copies.Copies) -> None:
    """Check that no two living masters have one epoch, and that no two machines ever began one, by any disk."""
    for epoch, names in found.begun.items():
        if len(names) > 1:
            raise Violation(ONE_EPOCH, f"one machine that begins epoch {epoch}", " and ".join(sorted(names)))
    epochs: dict[int, str] = {}
    for name in lab.masters():
        other = epochs.setdefault(lab.daemons[name].store.epoch, name)
        if other != name:
            epoch = lab.daemons[name].store.epoch
            raise Violation(ONE_EPOCH, f"one master of epoch {epoch}", f"{other} and {name}")


def guests(lab: cluster.SimulatedCluster, name: str) -> Iterator[fake.Guest]:
    """Yield the guests that run on a machine."""
    disk, folder = lab.world.machine(name).disk, f"{cluster.FOLDERS.instances}/{fake.NAME}"
    for one in disk.names(folder) if lab.has_power(name) and disk.exists(folder) else ():
        yield _GUEST.decode(disk.read(f"{folder}/{one}"))


def _check_guests(lab: cluster.SimulatedCluster, found: copies.Copies) -> None:
    running = [guest for name in lab.names for guest in guests(lab, name)]
    try:
        _check_apart(running)
    except Violation:
        _check_apart(running, but=left_behind(lab, found).things)


def _check_apart(running: Sequence[Guest], *, but: Set[Thing] = frozenset()) -> None:
    nics = [(guest.running.uuid, nic) for guest in running for nic in guest.nics]
    places = [(uuid, nic.network.uuid, address.ip) for uuid, nic in nics if nic.network for address in nic.addresses]
    _check_once(GUESTS, "guest", (guest.running.uuid for guest in running))
    _check_once(GUESTS, "MAC address", (nic.mac for uuid, nic in nics if (uuid, nic.mac) not in but))
    _check_once(GUESTS, "address", (place[1:] for place in places if place not in but))


@dataclass(frozen=True)
class LeftBehind:
    """What only histories know of that were left behind: instances, names by UUID, and what they gave to any instance.

    A master alone did that and lost its role: what it acknowledged is forgiven (``acknowledged``), and so is what it
    did on nodes, which its successor cannot know of (guests are shown by ``gnt-cluster verify``). Forgiven is no more
    than the very disk, MAC address or address that was given after such a history had parted from the one that counts.
    """

    strays: Mapping[str, str]
    things: Set[Thing]


def things(vm: instance.Instance) -> Iterator[Thing]:
    """Yield what an instance has to itself: files of disks, MAC addresses and addresses, the last two with its UUID."""
    for disk in vm.disks:
        yield (disk.logical_id[-1],)
    for nic in vm.nics:
        yield vm.uuid, nic.mac
    for place in vm.allocations():
        yield vm.uuid, place.network, place.ip


def left_behind(lab: cluster.SimulatedCluster, found: copies.Copies) -> LeftBehind:
    """Return what is left of the histories that do not lead to the newest epoch."""
    ends = [found.frames[end] for end in map(found.end, lab.names) if end in found.frames]
    newest = max((end.epoch for end in ends), default=0)
    kept = {one.digest: one for end in ends if end.epoch == newest for one in found.chain(end.digest)}
    versions: dict[str, list[tuple[int, instance.Instance]]] = defaultdict(list)
    for one in sorted(kept.values(), key=lambda one: one.serial):
        for vm in one.instances:
            versions[vm.uuid].append((one.serial, vm))
    strays, given = dict[str, str](), set[Thing]()
    for one in [one for one in found.frames.values() if one.digest not in kept]:
        parted = next((before.serial for before in found.chain(one.digest) if before.digest in kept), 0)
        for vm in one.instances:
            known = [version for serial, version in versions[vm.uuid] if serial <= parted]
            given |= set(things(vm)) - set(things(known[-1]) if known else ())
            if not versions[vm.uuid]:
                strays[vm.uuid] = vm.name
    return LeftBehind(strays, given)
