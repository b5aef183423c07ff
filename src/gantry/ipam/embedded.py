"""The default IPAM driver: the cluster's own state records the owner of each address.

An address is allocated while a NIC of an instance, or a port, has it. So the transaction that writes the instance or
port makes the allocation durable, and the transaction that removes it releases the address. Beside the state the ledger
keeps a space of used numbers for each network and address family. The spaces follow every change of the state
(``follow``), so the cost of finding a free address does not depend on how full a pool is.

Hooks may run between a plan and its transaction, and steps that may be undone run after the transaction. So a running
job holds the addresses that it allocates or releases (``hold``, ``release``): no other plan allocates them, and a job
that fails gets them back.

``Ledger`` keeps the spaces and the holds. ``Allocations`` chooses the addresses of one plan.

The minors and ports of mirrored disks are allocated in the same way (``mirrors``), and so are the segments of networks
(``segments``).

If a database decides about allocations because others use the same database (``shared``), ``foreign`` has the
addresses that those others have.

With a hold time (``Cluster.ipam_hold_time``) a released address is in quarantine (``quarantine``).

Use: the master registers ``follow`` as an observer of the store; a unit calls ``allocations(snapshot)`` once for each
plan; the processor holds and releases, and adds ``quarantine.changes`` to each commit; queries call ``view``.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import pools, ranges, space
from gantry.ipam import driver, foreign, mirrors, network_addresses, quarantine, segments
from gantry.model import instance, network
from gantry.state.objects import conflicts
from gantry.state.objects import snapshot as states

MAP_LIMIT = pools.MAP_LIMIT

MAX_POOLS_NAMED = 5
"""How many of the full pools an error message names."""


class Ledger:
    """The used addresses of all networks; ``now`` returns the time in seconds since the epoch, for the quarantine.

    ``macs`` has the held MAC addresses, with the job that holds each.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.quarantine = quarantine.Quarantine(now)
        self.mirrors = mirrors.Mirrors()
        self.foreign = foreign.Foreign()
        self.segments = segments.Segments()
        self._spaces: defaultdict[tuple[str, ranges.Family], space.Space] = defaultdict(space.Space)
        self._held: dict[tuple[str, ranges.Family], dict[int, int]] = {}
        self._holds: dict[int, list[tuple[str, ranges.Address]]] = {}
        self.macs: dict[str, int] = {}
        self._mac_holds: dict[int, list[str]] = {}

    def follow(self, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Update the spaces from one snapshot to the next; without changes, rebuild them (after a rollback)."""
        if not changes:
            self._spaces.clear()
            self.quarantine = quarantine.Quarantine(self.quarantine.now)
            self.mirrors.clear()
            self.segments.rebuild(after)
            for vm in after.instances.values():
                self._mark(vm, used=True)
            for port in after.ports.values():
                self._mark(port, used=True)
            for disk in after.disks.values():
                self.mirrors.mark(disk, used=True)
            for record in after.resting.values():
                self._quarantine(record)
            for network_uuid, address in self.foreign.numbers():
                self.space(network_uuid, address.family).allocate(address.value)
            return
        self._expire()
        changed: defaultdict[str, set[str]] = defaultdict(set)
        for change in changes:
            changed[change.kind].add(change.key)
        self.segments.follow(before, after, changed)
        for key in changed.get("resting", ()):
            if removed := self.quarantine.remove(key):
                self._mark_number(removed, used=False)
        moved = [*_moved(before, after, changed)]
        for old, _ in moved:
            if old:
                self._mark(old, used=False)
        for _, new in moved:
            if new:
                self._mark(new, used=True)
        if disks := changed.get("disks"):
            for state, used in ((before, False), (after, True)):
                for key in disks:
                    self.mirrors.mark(state.disks.get(key), used=used)
        for key in changed.get("resting", ()):
            if added := after.resting.get(key):
                self._quarantine(added)

    def _mark(self, owner: states.Owner, *, used: bool) -> None:
        if isinstance(owner, instance.Instance):
            self.mirrors.mark(owner, used=used)
        for network_uuid, address in _addresses(owner):
            numbers = self._spaces[network_uuid, address.family]
            if used:
                numbers.allocate(address.value)
            else:
                numbers.release(address.value)

    def _quarantine(self, record: network.Quarantine) -> None:
        self._mark_number(record, used=True)
        self.quarantine.add(record)

    def _mark_number(self, record: network.Quarantine, *, used: bool) -> None:
        address = ranges.parse_address(record.ip)
        numbers = self._spaces[record.network, address.family]
        if used:
            numbers.allocate(address.value)
        else:
            numbers.release(address.value)

    def hold(self, job: int, before: states.Snapshot, *, changes: Sequence[states.Change]) -> None:
        """Hold all addresses before and after the changes of a job: until ``release``, no other plan allocates them."""
        self.segments.hold(job, before, changes)
        for owner in _touched(changes, before):
            if isinstance(owner, instance.Instance):
                self.mirrors.hold(job, owner)
            for network_uuid, address in _addresses(owner):
                self._held.setdefault((network_uuid, address.family), {})[address.value] = job
                self._holds.setdefault(job, []).append((network_uuid, address))
            for mac in _macs(owner):
                self.macs[mac] = job
                self._mac_holds.setdefault(job, []).append(mac)

    def release(self, job: int) -> None:
        """End the holds of a job."""
        self.mirrors.release(job)
        self.segments.release(job)
        for network_uuid, address in self._holds.pop(job, ()):
            self.held_numbers(network_uuid, address.family).pop(address.value, None)
        for mac in self._mac_holds.pop(job, ()):
            self.macs.pop(mac, None)

    def held_numbers(self, network_uuid: str, family: ranges.Family) -> dict[int, int]:
        """Return the held numbers of a network's addresses of one family, with the job that holds each."""
        return self._held.setdefault((network_uuid, family), {})

    def space(self, network_uuid: str, family: ranges.Family) -> space.Space:
        """Return the used numbers of a network's addresses of one family, including those in quarantine."""
        self._expire()
        return self._spaces[network_uuid, family]

    def quarantined(self, network_uuid: str) -> Collection[network.Quarantine]:
        """Return the records of a network's addresses in quarantine, in no order."""
        self._expire()
        return self.quarantine.records(network_uuid)

    def _expire(self) -> None:
        for record in self.quarantine.expire():
            self._mark_number(record, used=False)

    def held_addresses(self) -> list[network_addresses.NetworkAddress]:
        """Return all addresses that running jobs hold."""
        return [
            (network_uuid, str(address)) for addresses in self._holds.values() for network_uuid, address in addresses
        ]

    def learn(self, address_key: network_addresses.NetworkAddress, owner: str) -> None:
        """Mark an address as used by an owner outside of the cluster, so that no pool allocates it."""
        address = ranges.parse_address(address_key[1])
        self.foreign.learn(address_key, owner)
        self.space(address_key[0], address.family).allocate(address.value)

    def forget(self, address_key: network_addresses.NetworkAddress) -> None:
        """Mark an address as free that has no owner outside of the cluster any more, and no owner inside."""
        if self.foreign.forget(address_key):
            address = ranges.parse_address(address_key[1])
            self.space(address_key[0], address.family).release(address.value)

    def allocations(self, snapshot: states.Snapshot, *, owner: str = "") -> "Allocations":
        """Return the allocations of a new plan; an address is in use only after the plan's transaction is applied.

        ``owner`` is the UUID of the requesting instance: it may have an address that it released itself, despite the
        quarantine.
        """
        return Allocations(self, snapshot, owner)

    def view(self, net: network.Network, subnet: network.Subnet, pool: network.Pool) -> driver.PoolView:
        """Return the use of a pool; the map is empty above ``MAP_LIMIT`` addresses."""
        family, run = ranges.parse_range(pool.range)
        numbers, excluded = self.space(net.uuid, family), excluded_ranges(subnet)
        return driver.PoolView(
            free=pools.free_count(numbers, run, excluded=excluded),
            map=pools.map_text(numbers, run, excluded=excluded) if run.size <= MAP_LIMIT else "",
        )


_OWNER_KINDS = ("instances", "ports")


def _owner(state: states.Snapshot, kind: str, key: str) -> states.Owner | None:
    return state.ports.get(key) if kind == "ports" else state.instances.get(key)


def _moved(
    before: states.Snapshot, after: states.Snapshot, changed: Mapping[str, Set[str]]
) -> Iterator[tuple[states.Owner | None, states.Owner | None]]:
    """Yield instances and ports before and after a change, without those whose addresses and numbers stay the same."""
    for kind in _OWNER_KINDS:
        if kind not in changed:
            continue
        indexed = states.KINDS[kind].indexed
        for key in changed[kind]:
            old, new = _owner(before, kind, key), _owner(after, kind, key)
            if not (old and new and indexed and indexed(old) == indexed(new)):
                yield old, new


def _touched(changes: Iterable[states.Change], before: states.Snapshot) -> Iterator[states.Owner]:
    """Yield the changed instances and ports, as they are in ``before`` and as they are after the changes."""
    for change in changes:
        if change.kind in _OWNER_KINDS:
            if old := _owner(before, change.kind, change.key):
                yield old
            if isinstance(change, states.Put) and isinstance(change.value, instance.Instance | network.Port):
                yield change.value


def _addresses(owner: states.Owner) -> list[tuple[str, ranges.Address]]:
    """Return the addresses of an instance or port that belong to networks, with the networks' UUIDs."""
    return [(use.network, ranges.canonical_address(use.ip)) for use in owner.allocations() if use.network]


def _macs(owner: states.Owner) -> list[str]:
    return [nic.mac for nic in owner.nics] if isinstance(owner, instance.Instance) else [owner.mac]


def excluded_ranges(subnet: network.Subnet) -> Sequence[ranges.Range]:
    """Return the addresses that no pool of a subnet allocates: external reservations, gateway, and its ends."""
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    never = pools.never_handed_out(ranges.known_cidr(subnet.cidr), gateway=gateway)
    return ranges.union([*never, *(ranges.parse_range(text)[1] for text in subnet.external)])


# Needed for each allocation: without the cache, parsing these texts would be most of its cost.
@functools.lru_cache(maxsize=4096)
def _allocatable(subnet: network.Subnet, pool: str) -> tuple[ranges.Family, Sequence[ranges.Range]]:
    """Return the family of a pool, and its range without what no pool of its subnet allocates."""
    family, run = ranges.parse_range(pool)
    return family, ranges.difference([run], excluded_ranges(subnet))


@dataclass
class Allocations:
    """The allocations of one plan (``driver.Allocations``).

    ``_starts`` has where the next search begins in a pool: the plan has picked the free numbers below, so that a plan
    for many addresses does not pass them again for each one.
    """

    ledger: Ledger
    snapshot: states.Snapshot
    owner: str
    _picked: dict[tuple[str, ranges.Family], set[int]] = field(default_factory=dict)
    _released: set[tuple[str, str]] = field(default_factory=set)
    _starts: dict[tuple[str, str], int] = field(default_factory=dict)

    def allocate(self, net: network.Network, request: driver.Request) -> str:
        """Return an address for the request (contracts/networks.md#finding-an-address)."""
        match request:
            case driver.SpecificAddress():
                return self._specific(net, request)
            case driver.PoolAddress():
                named_pools = [(s, p) for s in net.subnets for p in s.pools if p.name == request.pool]
                if not named_pools:
                    known = ", ".join(p.name for s in net.subnets for p in s.pools if p.name) or "none"
                    raise errors.NotFoundError(
                        f"network {net.name} has no pool {request.pool}", hint=f"its named pools are: {known}"
                    )
                return self._first(net, named_pools, what=f"pool {request.pool} of network {net.name}")
            case driver.SubnetAddress():
                subnet_pools = [(s, p) for s in net.subnets if s.uuid == request.subnet for p in s.pools]
                if not subnet_pools:
                    raise errors.NoRoomError(f"subnet {request.subnet} of network {net.name} has no pool")
                return self._first(
                    net, subnet_pools, what=f"every pool of subnet {subnet_pools[0][0].cidr} of network {net.name}"
                )
            case driver.AnyAddress():
                pools_of_family = [(s, p) for s in net.subnets for p in s.pools if _has_family(s, request.family)]
                kind = f" IPv{request.family.value}" if request.family else ""
                if not pools_of_family:
                    hint = "choose an address, or add a pool"
                    raise errors.NoRoomError(f"network {net.name} has no{kind} pool", hint=hint)
                return self._first(net, pools_of_family, what=f"every{kind} pool of network {net.name}")

    def _first(
        self, net: network.Network, candidates: Sequence[tuple[network.Subnet, network.Pool]], *, what: str
    ) -> str:
        for subnet, pool in candidates:
            family, parts = _allocatable(subnet, pool.range)
            number = pools.first_free(
                self.ledger.space(net.uuid, family),
                parts,
                taken=self.ledger.held_numbers(net.uuid, family),
                picked=self._picked.get((net.uuid, family), ()),
                start=self._starts.get((net.uuid, pool.range), 0),
            )
            if number is not None:
                self._starts[net.uuid, pool.range] = number + 1
                return self._pick(net, family, number)
        full_pools = [f"{pool.range} ({pool.name})" if pool.name else pool.range for _, pool in candidates]
        more = f" and {len(full_pools) - MAX_POOLS_NAMED} more" if len(full_pools) > MAX_POOLS_NAMED else ""
        raise errors.NoRoomError(
            f"{what} is full: {', '.join(full_pools[:MAX_POOLS_NAMED])}{more}",
            hint=f"add a pool, or release addresses; gnt-network info {net.name} shows the owner of each address",
        )

    def _specific(self, net: network.Network, request: driver.SpecificAddress) -> str:
        address = request.address
        subnet = _containing(net, address)
        gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway and not request.gateway else None
        pools.check_usable(ranges.known_cidr(subnet.cidr), address.value, gateway=gateway)
        owner = self.snapshot.addresses.get((net.uuid, str(address)))
        if owner is not None and (net.uuid, str(address)) not in self._released:
            raise conflicts.address_in_use(net, str(address), owner=self.snapshot.owner(owner))
        job = self.ledger.held_numbers(net.uuid, address.family).get(address.value)
        if job is not None:
            raise errors.BusyError(
                f"address {address} of network {net.name} is held by job {job}, which is still running",
                hint=f"wait for the job (gnt-job watch {job}), or choose another address",
            )
        if address.value in self._picked.get((net.uuid, address.family), set()):
            raise errors.NotUniqueError(f"address {address} of network {net.name} is requested twice")
        self._check_quarantine(net, address, force=request.force)
        external = ranges.overlapping(subnet.external, ranges.sized(address.value, 1))
        if next(external, None) is not None and not request.force:
            raise errors.WrongStateError(
                f"address {address} of network {net.name} is reserved externally", hint="allocate it with --force"
            )
        return self._pick(net, address.family, address.value)

    def _check_quarantine(self, net: network.Network, address: ranges.Address, *, force: bool) -> None:
        quarantined = self.ledger.quarantine
        record = quarantined.record(net.uuid, str(address))
        remaining = record.until - quarantined.now() if record and record.instance != self.owner and not force else 0
        if record and remaining > 0:
            raise errors.BusyError(
                f"address {address} of network {net.name} was released by {record.noun} {record.name} and is in "
                f"quarantine for another {math.ceil(remaining)} s, by the cluster's hold time",
                hint="try again later, choose another address, or allocate it with --force",
            )

    def release(self, net: network.Network, ip: str) -> None:
        """Make an address available to a request that names it; an allocation of this plan, to any request."""
        address = ranges.parse_address(ip)
        picked = self._picked.get((net.uuid, address.family), set())
        if address.value in picked:
            picked.remove(address.value)
            self._starts.clear()
        self._released.add((net.uuid, ip))

    def _pick(self, net: network.Network, family: ranges.Family, number: int) -> str:
        self._picked.setdefault((net.uuid, family), set()).add(number)
        return ranges.format_address(family, number)


def _has_family(subnet: network.Subnet, family: ranges.Family | None) -> bool:
    return family is None or ranges.known_cidr(subnet.cidr).family is family


def _containing(net: network.Network, address: ranges.Address) -> network.Subnet:
    for subnet in net.subnets:
        cidr = ranges.known_cidr(subnet.cidr)
        if address in cidr:
            return subnet
    known = ", ".join(subnet.cidr for subnet in net.subnets) or "none"
    raise errors.InvalidError(
        f"address {address} is outside every subnet of network {net.name} ({known})",
        hint=f"choose one inside, or add its subnet: gnt-network modify --subnet add:cidr=CIDR {net.name}",
    )
