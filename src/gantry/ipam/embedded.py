"""The default IPAM driver: the cluster's own state is the record of who has which address.

An address is allocated when a NIC of an instance or a port has it, so an allocation is durable by the same transaction
that writes the instance or port, and freed by the one that removes it. The ledger keeps, beside the state, a space of
used numbers for each network and address family; it follows every change of the state (``follow``), so a free address
is found at the same cost however full a pool is.

Between a plan and its transaction hooks may run, and after it steps that may have to be undone. So what a running
job takes or gives up is held for it (``hold``, ``release``): no other plan picks it, and a failed job has it back.

The minors and ports of mirrored disks are given out in the same way (``mirrors``), and the segments of networks
(``segments``).

Where a database has the last word because others use it too (``shared``), what these hold is ``foreign``.

With a hold time (``Cluster.ipam_hold_time``) an address that is given back rests (``resting``).

Use: the master registers ``follow`` as an observer of the store; units ask for ``allocations(snapshot)``, one set for
each plan; the processor holds and releases, and adds ``resting.changes`` to what it commits; doors ask for ``view``.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import pools, ranges, space
from gantry.ipam import driver, foreign, mirrors, places, resting, segments
from gantry.model import instance, network
from gantry.state import integrity
from gantry.state import snapshot as states

MAP_LIMIT = pools.MAP_LIMIT

TRIED = 5
"""How many pools a message names that says that they are full."""


class Ledger:
    """The used addresses of all networks; ``now`` tells the time, for those that rest.

    ``macs`` are the MAC addresses that are held, with the jobs that they are held for.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.resting = resting.Resting(now)
        self.mirrors = mirrors.Mirrors()
        self.foreign = foreign.Foreign()
        self.segments = segments.Segments()
        self._spaces: dict[tuple[str, ranges.Family], space.Space] = {}
        self._held: dict[tuple[str, ranges.Family], dict[int, int]] = {}
        self._holds: dict[int, list[tuple[str, ranges.Address]]] = {}
        self.macs: dict[str, int] = {}
        self._mac_holds: dict[int, list[str]] = {}

    def follow(self, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Bring the spaces from one snapshot to the next; without changes, build them anew (after a rollback)."""
        if not changes:
            self._spaces, self.resting = {}, resting.Resting(self.resting.now)
            self.mirrors.clear()
            self.segments.rebuild(after)
            for vm in after.instances.values():
                self._mark(vm, used=True)
            for port in after.ports.values():
                self._mark(port, used=True)
            for disk in after.disks.values():
                self.mirrors.mark(disk, used=True)
            for rest in after.resting.values():
                self._lay(rest)
            for cable, address in self.foreign.numbers():
                self.space(cable, address.family).take(address.value)
            return
        self.segments.follow(before, after, changes)
        touched = {(change.kind, change.key) for change in changes if change.kind in _HOLDERS}
        rests = {change.key for change in changes if change.kind == "resting"}
        for rest in filter(None, map(self.resting.drop, rests)):
            self._number(rest, used=False)
        disks = {change.key for change in changes if change.kind == "disks"}
        for state, used in ((before, False), (after, True)):
            for kind, key in touched:
                self._mark(_holder(state, kind, key), used=used)
            for key in disks:
                self.mirrors.mark(state.disks.get(key), used=used)
        for rest in filter(None, map(after.resting.get, rests)):
            self._lay(rest)

    def _mark(self, holder: states.Holder | None, *, used: bool) -> None:
        if isinstance(holder, instance.Instance):
            self.mirrors.mark(holder, used=used)
        for cable, address in _addresses(holder):
            numbers = self.space(cable, address.family)
            if used:
                numbers.take(address.value)
            else:
                numbers.give(address.value)

    def _lay(self, rest: network.Rest) -> None:
        self._number(rest, used=True)
        self.resting.lay(rest)

    def _number(self, rest: network.Rest, *, used: bool) -> None:
        address = ranges.parse_address(rest.ip)
        numbers = self._spaces.setdefault((rest.network, address.family), space.Space())
        if used:
            numbers.take(address.value)
        else:
            numbers.give(address.value)

    def hold(self, job: int, before: states.Snapshot, *, changes: Sequence[states.Change]) -> None:
        """Keep what there is before or after the changes of a job from other plans, until ``release``."""
        self.segments.hold(job, before, changes)
        for holder in _touched(changes, before):
            if isinstance(holder, instance.Instance):
                self.mirrors.hold(job, holder)
            for cable, address in _addresses(holder):
                self._held.setdefault((cable, address.family), {})[address.value] = job
                self._holds.setdefault(job, []).append((cable, address))
            for mac in _macs(holder):
                self.macs[mac] = job
                self._mac_holds.setdefault(job, []).append(mac)

    def release(self, job: int) -> None:
        """Let go of what is held for a job."""
        self.mirrors.release(job)
        self.segments.release(job)
        for cable, address in self._holds.pop(job, ()):
            self.held(cable, address.family).pop(address.value, None)
        for mac in self._mac_holds.pop(job, ()):
            self.macs.pop(mac, None)

    def held(self, network_uuid: str, family: ranges.Family) -> dict[int, int]:
        """Return the addresses of a network that are held, with the jobs that they are held for."""
        return self._held.setdefault((network_uuid, family), {})

    def space(self, network_uuid: str, family: ranges.Family) -> space.Space:
        """Return the used numbers of a network's addresses of one family, those that rest among them."""
        for rest in self.resting.due():
            self._number(rest, used=False)
        return self._spaces.setdefault((network_uuid, family), space.Space())

    def holdings(self) -> list[places.Place]:
        """Return all that is held for running jobs."""
        return [(cable, str(address)) for held in self._holds.values() for cable, address in held]

    def learn(self, place: places.Place, holder: str) -> None:
        """Keep pools from an address that somebody outside of the cluster holds."""
        address = ranges.parse_address(place[1])
        self.foreign.learn(place, holder)
        self.space(place[0], address.family).take(address.value)

    def forget(self, place: places.Place) -> None:
        """Let pools hand out an address again that nobody outside holds any more, and nobody here has."""
        if self.foreign.forget(place):
            address = ranges.parse_address(place[1])
            self.space(place[0], address.family).give(address.value)

    def allocations(self, snapshot: states.Snapshot, *, owner: str = "") -> "Allocations":
        """Return a set of picks for one plan; nothing is taken until the plan's transaction is applied.

        ``owner`` is the UUID of the instance that asks: what it has given back itself does not rest for it.
        """
        return Allocations(self, snapshot, owner)

    def view(self, net: network.Network, subnet: network.Subnet, pool: network.Pool) -> driver.PoolView:
        """Return what a pool holds; the map is empty above ``MAP_LIMIT`` addresses."""
        family, run = ranges.parse_range(pool.range)
        numbers, excluded = self.space(net.uuid, family), excluded_ranges(subnet)
        return driver.PoolView(
            free=pools.free_count(numbers, run, excluded=excluded),
            map=pools.map_text(numbers, run, excluded=excluded) if run.size <= MAP_LIMIT else "",
        )


_HOLDERS = ("instances", "ports")


def _holder(state: states.Snapshot, kind: str, key: str) -> states.Holder | None:
    return state.ports.get(key) if kind == "ports" else state.instances.get(key)


def _touched(changes: Iterable[states.Change], before: states.Snapshot) -> Iterator[states.Holder]:
    """Yield the instances and ports that changes are about, as they were and as they shall be."""
    for change in changes:
        if change.kind in _HOLDERS:
            if old := _holder(before, change.kind, change.key):
                yield old
            if isinstance(change, states.Put) and isinstance(change.value, instance.Instance | network.Port):
                yield change.value


def _addresses(holder: states.Holder | None) -> Iterator[tuple[str, ranges.Address]]:
    """Return the addresses of an instance or port that networks give out, with the networks' UUIDs."""
    for place in holder.places() if holder else ():
        if place.network:
            yield place.network, ranges.known_address(place.ip)


def _macs(holder: states.Holder) -> list[str]:
    return [nic.mac for nic in holder.nics] if isinstance(holder, instance.Instance) else [holder.mac]


def excluded_ranges(subnet: network.Subnet) -> Sequence[ranges.Range]:
    """Return what no pool of a subnet hands out: external reservations, gateway, and its ends."""
    return _excluded(subnet.cidr, subnet.gateway, subnet.external)


# Asked about with each address that the subnet hands out: reading it anew would be most of the cost.
@functools.lru_cache(maxsize=4096)
def _excluded(cidr: str, gateway: str, external: tuple[str, ...]) -> Sequence[ranges.Range]:
    never = pools.never_handed_out(
        ranges.known_cidr(cidr), gateway=ranges.parse_address(gateway).value if gateway else None
    )
    return ranges.union([*never, *(ranges.parse_range(text)[1] for text in external)])


@dataclass
class Allocations:
    """The picks of one plan (``driver.Allocations``)."""

    ledger: Ledger
    snapshot: states.Snapshot
    owner: str
    _picked: dict[tuple[str, ranges.Family], set[int]] = field(default_factory=dict)
    _released: set[tuple[str, str]] = field(default_factory=set)

    def allocate(self, net: network.Network, request: driver.Request) -> str:
        """Return an address for the request (contracts/networks.md#finding-an-address)."""
        match request:
            case driver.SpecificAddress():
                return self._specific(net, request)
            case driver.PoolAddress():
                found = [(s, p) for s in net.subnets for p in s.pools if p.name == request.pool]
                if not found:
                    known = ", ".join(p.name for s in net.subnets for p in s.pools if p.name) or "none"
                    raise errors.NotFoundError(
                        f"network {net.name} has no pool {request.pool}", hint=f"its named pools are: {known}"
                    )
                return self._first(net, found, what=f"pool {request.pool} of network {net.name}")
            case driver.SubnetAddress():
                its = [(s, p) for s in net.subnets if s.uuid == request.subnet for p in s.pools]
                if not its:
                    raise errors.NoRoomError(f"subnet {request.subnet} of network {net.name} has no pool")
                return self._first(net, its, what=f"every pool of subnet {its[0][0].cidr} of network {net.name}")
            case driver.AnyAddress():
                every = [(s, p) for s in net.subnets for p in s.pools if _has_family(s, request.family)]
                kind = f" IPv{request.family.value}" if request.family else ""
                if not every:
                    hint = "name an address, or add a pool"
                    raise errors.NoRoomError(f"network {net.name} has no{kind} pool", hint=hint)
                return self._first(net, every, what=f"every{kind} pool of network {net.name}")

    def _first(self, net: network.Network, places: Sequence[tuple[network.Subnet, network.Pool]], *, what: str) -> str:
        for subnet, pool in places:
            family, run = ranges.known_range(pool.range)
            numbers = self.ledger.space(net.uuid, family)
            picked, held = self._picked.get((net.uuid, family)), self.ledger.held(net.uuid, family)
            taken = picked | held.keys() if picked else held
            number = pools.first_free(numbers, run, excluded=excluded_ranges(subnet), taken=taken)
            if number is not None:
                return self._pick(net, ranges.Address(family, number))
        tried = [f"{pool.range} ({pool.name})" if pool.name else pool.range for _, pool in places]
        more = f" and {len(tried) - TRIED} more" if len(tried) > TRIED else ""
        raise errors.NoRoomError(
            f"{what} is full; tried {', '.join(tried[:TRIED])}{more}",
            hint=f"gnt-network info {net.name} shows who has what; add a pool, or free addresses",
        )

    def _specific(self, net: network.Network, request: driver.SpecificAddress) -> str:
        address = request.address
        subnet = _containing(net, address)
        gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway and not request.gateway else None
        pools.check_usable(ranges.known_cidr(subnet.cidr), address.value, gateway=gateway)
        owner = self.snapshot.addresses.get((net.uuid, str(address)))
        if owner is not None and (net.uuid, str(address)) not in self._released:
            raise integrity.address_in_use(net, str(address), holder=self.snapshot.holder(owner))
        job = self.ledger.held(net.uuid, address.family).get(address.value)
        if job is not None:
            raise errors.BusyError(
                f"address {address} of network {net.name} is held by job {job}, which is still running",
                hint=f"wait for its end (gnt-job watch {job}), or choose another",
            )
        if address.value in self._picked.get((net.uuid, address.family), set()):
            raise errors.NotUniqueError(f"address {address} is asked for twice")
        self._check_rested(net, address, force=request.force)
        reserved = ranges.union(ranges.parse_range(text)[1] for text in subnet.external)
        if ranges.locate(reserved, address.value) is not None and not request.force:
            raise errors.WrongStateError(
                f"address {address} of network {net.name} is reserved externally", hint="--force takes it all the same"
            )
        return self._pick(net, address)

    def _check_rested(self, net: network.Network, address: ranges.Address, *, force: bool) -> None:
        resting = self.ledger.resting
        rest = resting.of(net.uuid, str(address))
        left = rest.until - resting.now() if rest and rest.instance != self.owner and not force else 0
        if rest and left > 0:
            raise errors.BusyError(
                f"address {address} of network {net.name} was given back by {rest.noun} {rest.name} and rests for "
                f"another {math.ceil(left)} s, as the cluster's hold time has it",
                hint="try again later, choose another, or take it all the same with --force",
            )

    def release(self, net: network.Network, ip: str) -> None:
        """Take an address as free, for a request that names it; one of this plan's own picks for any."""
        address = ranges.parse_address(ip)
        self._picked.get((net.uuid, address.family), set()).discard(address.value)
        self._released.add((net.uuid, ip))

    def _pick(self, net: network.Network, address: ranges.Address) -> str:
        self._picked.setdefault((net.uuid, address.family), set()).add(address.value)
        return str(address)


def _has_family(subnet: network.Subnet, family: ranges.Family | None) -> bool:
    return family is None or ranges.known_cidr(subnet.cidr).family is family


def _containing(net: network.Network, address: ranges.Address) -> network.Subnet:
    for subnet in net.subnets:
        cidr = ranges.known_cidr(subnet.cidr)
        if cidr.family == address.family and address.value in cidr.range:
            return subnet
    known = ", ".join(subnet.cidr for subnet in net.subnets) or "none"
    raise errors.InvalidError(
        f"address {address} is outside every subnet of network {net.name} ({known})",
        hint=f"choose one inside, or add its subnet: gnt-network modify --subnet add:cidr=CIDR {net.name}",
    )
