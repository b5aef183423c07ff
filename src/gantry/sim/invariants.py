"""What must hold after each step, whatever has happened: looked at from outside, in memory and on disks.

``acknowledged`` has what concerns acknowledgements, ``outcome`` what must hold in the end, when all is healed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gantry.address import ranges
from gantry.daemons import master
from gantry.model import job
from gantry.node import fake
from gantry.sim import cluster, copies
from gantry.sim.story import Story, Violation
from gantry.state import snapshot as states

UNIQUE = "no address, minor, port, MAC address or name is given twice"
GUESTS = "no two guests run with one name, address or MAC address"
LOCKS = "locks are held by living jobs only"
HELD = "a job that is at work holds its locks"
ONE_EPOCH = "at most one master writes: an epoch belongs to one machine"
WITHIN = "an address lies in a subnet of its network"
SOUND = "no daemon fails in a way that its authors excluded"
LEDGER = "the ledger of addresses knows what the state holds"

Guest = fake.Guest

_GUEST = msgspec.json.Decoder(fake.Guest)


def check(lab: cluster.SimulatedCluster, found: copies.Copies, told: Story) -> None:
    """Check what must hold at every moment; raises Violation."""
    if told.faults:
        raise Violation(SOUND, "no traceback", told.faults[0])
    for name in lab.masters():
        daemon = lab.daemons[name]
        _check_state(daemon.store.snapshot)
        _check_locks(daemon)
    _check_epochs(lab)
    _check_guests(lab, found)


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
    _check_once(UNIQUE, "MAC address", (nic.mac for nic in nics))
    _check_once(UNIQUE, "address", (place[:2] for vm in vms for place in vm.places() if place.network))
    _check_once(UNIQUE, "port of a console", (vm.network_port for vm in vms if vm.network_port))
    _check_once(UNIQUE, "place of a node daemon", ((node.primary_ip, node.port) for node in nodes))
    _check_once(UNIQUE, "file of a disk", (disk.logical_id for vm in vms for disk in vm.disks))
    for nic in nics:
        for ip in nic.ip if nic.network else ():
            address = ranges.parse_address(ip)
            cidrs = [ranges.parse_cidr(subnet.cidr) for subnet in state.networks[nic.network].subnets]
            if not any(cidr.family is address.family and address.value in cidr.range for cidr in cidrs):
                raise Violation(WITHIN, f"{ip} in one of {', '.join(map(str, cidrs)) or 'no subnets'}", "it is in none")


def _check_locks(daemon: master.Master) -> None:
    living = {number for number, one in daemon.queue.jobs().items() if one.status not in job.FINAL}
    for usage in daemon.locks.owners_and_waiters():
        waiting = [owner for _, owners in usage.pending for owner in owners]
        for owner in (*usage.owners, *waiting):
            if owner not in living:
                raise Violation(LOCKS, f"lock {usage.name} with living jobs", f"job {owner}, which has ended")
    holders = {owner for usage in daemon.locks.owners_and_waiters() for owner in usage.owners}
    for number in daemon.queue.executing():
        if number not in holders:
            raise Violation(HELD, f"locks held by job {number}, which is at work", "it holds none")


def _check_epochs(lab: cluster.SimulatedCluster) -> None:
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
        strays = left_behind(lab, found)
        _check_apart([guest for guest in running if guest.running.uuid not in strays])


def _check_apart(running: Sequence[Guest]) -> None:
    nics = [nic for guest in running for nic in guest.nics]
    _check_once(GUESTS, "guest", (guest.running.uuid for guest in running))
    _check_once(GUESTS, "MAC address", (nic.mac for nic in nics))
    places = [(nic.network.uuid, address.ip) for nic in nics if nic.network for address in nic.addresses]
    _check_once(GUESTS, "address", places)


def left_behind(lab: cluster.SimulatedCluster, found: copies.Copies, *, unknown: bool = False) -> dict[str, str]:
    """Return the instances that a history made or changed which was left behind: names by UUID.

    A master alone did that and lost its role. Its acknowledgements are forgiven (``acknowledged``), and so is what it
    did to guests, which nobody else can know of. With ``unknown`` only those that the history which counts never knew.
    """
    ends = [found.frames[end] for end in map(found.end, lab.names) if end in found.frames]
    newest = max((end.epoch for end in ends), default=0)
    kept = {one.digest: one for end in ends if end.epoch == newest for one in found.chain(end.digest)}
    known = {uuid for one in kept.values() for uuid in one.instances} if unknown else set()
    others = [one.instances for digest, one in found.frames.items() if digest not in kept]
    return {uuid: name for instances in others for uuid, name in instances.items() if uuid not in known}
