"""Bonds: the networks of a cluster that pools are bound to, and what is reserved there for claims.

Who calls it: ``index`` tells it of pools, the controllers of what they read from the cluster and of each answer to a
reservation (``learn``, ``reserved``, ``released``, ``refused``); ``allocate``, ``reconcile_claim`` and ``pools`` ask
it. ::

    pool appears --> pending --> learn: the pool's room has what is taken and closed in the network
                        |           |
                        +-----------+--> lost: nothing is handed out until ``learn``; what claims have they keep

Nothing is handed out of a bound pool before its network has been read, nor without a cluster to ask.

Invariant: the room of a bound pool holds each number for whoever has it in the network, claims of ours among them.
"""

from collections.abc import Iterable

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, cluster_reservations, pool_space, pool_state

Pools = set[meta.Ref]
"""Pools that have work now."""

ALONE = "it is bound to a network of a cluster, and the controllers were started without --cluster"


class Bonds:
    """What is known of networks and reservations; with ``expect`` a cluster will tell."""

    def __init__(self) -> None:
        self.away = ALONE
        self._is_pending = False
        self._networks: dict[str, cluster_reservations.Network] = {}
        self._names: dict[meta.Ref, str] = {}
        self._pools: dict[str, dict[meta.Ref, pool_state.Standing]] = {}
        self._outside: dict[meta.Ref, str] = {}
        self._taken: dict[str, dict[ranges.Address, meta.Ref]] = {}
        self._of_claim: dict[meta.Ref, set[cluster_reservations.Reservation]] = {}
        self._of_pool: dict[meta.Ref, set[cluster_reservations.Reservation]] = {}
        self._asked: frozenset[str] = frozenset()

    def expect(self) -> None:
        """Note that there is a cluster, which has not answered yet."""
        self.away, self._is_pending = "", True

    def join(self, pool: ipam.IPPool, state: pool_state.Standing) -> ipam.PoolSpec:
        """Note a pool; return its spec with what its network keeps back."""
        self.leave(pool.ref)
        if not pool.network:
            return pool.spec
        self._names[pool.ref] = pool.network
        self._pools.setdefault(pool.network, {})[pool.ref] = state
        found = self._networks.get(pool.network)
        closed = (*pool.spec.excluded_addresses, *found.closed) if found else pool.spec.excluded_addresses
        return msgspec.structs.replace(pool.spec, excluded_addresses=closed)

    def leave(self, pool: meta.Ref) -> None:
        """Note that a pool has gone or is not bound any more."""
        name = self._names.pop(pool, "")
        self._outside.pop(pool, None)
        if name:
            del self._pools[name][pool]
            if not self._pools[name]:
                del self._pools[name]

    def furnish(self, pool: meta.Ref, numbers: pool_space.Room) -> None:
        """Let the new room of a pool hold what is taken in its network."""
        found = self._network(pool)
        if found:
            self._outside[pool] = _outside(numbers, found)
            for address, holder in self._taken[found.uuid].items():
                numbers.hold(address, holder)

    def _network(self, pool: meta.Ref) -> cluster_reservations.Network | None:
        return self._networks.get(self._names.get(pool, ""))

    @property
    def names(self) -> frozenset[str]:
        """The names of the networks that pools are bound to."""
        return frozenset(self._pools)

    @property
    def is_unread(self) -> bool:
        """Tell whether a pool is bound to a network that was not asked for yet."""
        return not self.names <= self._asked

    def is_bound(self, pool: meta.Ref) -> bool:
        """Tell whether a pool's addresses are of a cluster's network."""
        return pool in self._names

    def is_pending(self, pool: meta.Ref) -> bool:
        """Tell whether nothing can be said of a bound pool yet, but will be soon."""
        name = self._names.get(pool, "")
        return bool(name) and not self.away and (self._is_pending or name not in self._asked)

    def obstacle(self, pool: meta.Ref) -> str:
        """Return why a pool cannot be used with its network; empty if it can, or is not bound."""
        if not self.is_bound(pool) or self.is_pending(pool):
            return ""
        if self.away:
            return self.away
        found = self._network(pool)
        return self._outside.get(pool, "") if found else f"the cluster has no network {self._names[pool]}"

    def reserve(self, claim: meta.Ref, pool: meta.Ref, *, address: ranges.Address) -> tuple[actions.Reserve, ...]:
        """Return what keeps a number for a claim; nothing if the pool is not bound."""
        found = self._network(pool)
        return (actions.Reserve(cluster_reservations.Reservation(found.uuid, address, claim, pool)),) if found else ()

    def wanted(self, address: actions.Address) -> actions.Reserve | str | None:
        """Return what reserves the number of an address object, or why that cannot be; None if it need not be."""
        number, found = pool_space.parse(address.spec.address), self._network(address.pool)
        made = self.reserve(address.claim, address.pool, address=number) if number else ()
        if found and any(
            (one.network, one.address) == (found.uuid, number) for one in self._of_claim.get(address.claim, set())
        ):
            return None
        obstacle = self.obstacle(address.pool)
        if obstacle or not made or found is None or number is None:
            return obstacle or None
        who = self._taken[found.uuid].get(number)
        is_other = who is not None and who != cluster_reservations.holder(address.claim)
        return f"{number} is held by {who} in network {found.name}" if is_other else made[0]

    def kept(self, claim: actions.Claim) -> list[ranges.Address]:
        """Return the numbers that are reserved for a claim in the network of its pool, sorted."""
        found = self._network(claim.pool)
        listed = self._of_claim.get(claim.ref, set())
        return sorted(one.address for one in listed if found and one.network == found.uuid)

    def strays(self, claim: actions.Claim, held: Iterable[actions.Address]) -> tuple[actions.Release, ...]:
        """Return what gives back the numbers of a claim that no address object of it says."""
        found = () if self.away else self._of_claim.get(claim.ref, ())
        if not found:
            return ()
        numbers = {pool_space.parse(one.spec.address) for one in held}
        listed = sorted(found)
        current = actions.version(claim)
        return tuple(actions.Release(one.claim, one, current=current) for one in listed if one.address not in numbers)

    def keeps(self, pool: meta.Ref) -> bool:
        """Tell whether a pool has reservations, or may have some that were not read yet."""
        return (self._is_pending and self.is_bound(pool)) or bool(self._of_pool.get(pool))

    @property
    def reservations(self) -> list[cluster_reservations.Reservation]:
        """All that is known to be reserved for claims."""
        return [one for listed in self._of_claim.values() for one in listed]

    def lost(self, why: str) -> Pools:
        """Note that the cluster does not answer; return the pools with work."""
        if self.away == why:
            return set()
        self.away = why
        return self._all_due()

    def learn(
        self,
        asked: frozenset[str],
        networks: Iterable[cluster_reservations.Network],
        reservations: Iterable[cluster_reservations.Reservation],
    ) -> Pools:
        """Note what was read of the networks that were ``asked`` for, and all that is reserved for our claims.

        Returns the pools with work. Those of ``outdated``, asked before this, need new rooms after it.
        """
        was_blind = bool(self.away) or self._is_pending or asked != self._asked
        self.away, self._is_pending, self._asked = "", False, asked
        self._networks = {one.name: one for one in networks}
        before = {one for listed in self._of_claim.values() for one in listed}
        after = set(reservations)
        for one in before - after:
            self._forget(one)
        for one in after - before:
            self._keep(one)
        touched = self._settle(before ^ after)
        for found in self._networks.values():
            ours = {one.address: one.holder for one in after if one.network == found.uuid}
            new, old = found.taken | ours, self._taken.get(found.uuid, {})
            for address in {one for one in old.keys() | new.keys() if old.get(one) != new.get(one)}:
                touched |= self._take(found, address, new.get(address))
            self._taken.setdefault(found.uuid, {})
        return touched | self._all_due() if was_blind else touched

    def outdated(self, networks: Iterable[cluster_reservations.Network]) -> Pools:
        """Return the pools whose networks are not what they were, but for what is taken there."""
        new = {one.name: (one.uuid, one.subnets, one.closed) for one in networks}
        old = {one.name: (one.uuid, one.subnets, one.closed) for one in self._networks.values()}
        return {ref for name, pools in self._pools.items() if new.get(name) != old.get(name) for ref in pools}

    def reserved(self, one: cluster_reservations.Reservation) -> Pools:
        """Note that an address has been reserved; return the pools with work."""
        self._keep(one)
        return self._settle([one]) | self._held(one, one.holder)

    def released(self, one: cluster_reservations.Reservation) -> Pools:
        """Note that a reservation is no more; return the pools with work."""
        self._forget(one)
        is_own = self._taken.get(one.network, {}).get(one.address) == one.holder
        return self._settle([one]) | (self._held(one, None) if is_own else set())

    def refused(self, one: cluster_reservations.Reservation, who: meta.Ref) -> Pools:
        """Note that the cluster did not reserve an address, and who has it; return the pools with work."""
        self._forget(one)
        return self._settle([one]) | self._held(one, who)

    def _held(self, one: cluster_reservations.Reservation, holder: meta.Ref | None) -> Pools:
        found = next((net for net in self._networks.values() if net.uuid == one.network), None)
        return self._take(found, one.address, holder) if found else set()

    def _keep(self, one: cluster_reservations.Reservation) -> None:
        for old in self._of_claim.get(one.claim, set()) - {one}:
            # the claim has another pool now
            if (old.network, old.address) == (one.network, one.address):
                self._forget(old)
        self._of_claim.setdefault(one.claim, set()).add(one)
        self._of_pool.setdefault(one.pool, set()).add(one)

    def _forget(self, one: cluster_reservations.Reservation) -> None:
        for key, listed in ((one.claim, self._of_claim), (one.pool, self._of_pool)):
            listed.get(key, set()).discard(one)
            if not listed.get(key):
                listed.pop(key, None)

    def _settle(self, changed: Iterable[cluster_reservations.Reservation]) -> Pools:
        """Make the claims due whose reservations have changed."""
        touched: Pools = set()
        for one in changed:
            touched.add(one.pool)
            state = self._pools.get(self._names.get(one.pool, ""), {}).get(one.pool)
            if state:
                _due(state, [one.claim])
        return touched

    def _take(self, network: cluster_reservations.Network, address: ranges.Address, holder: meta.Ref | None) -> Pools:
        """Note who has an address of a network, None for nobody; return the pools with work."""
        taken = self._taken.setdefault(network.uuid, {})
        old = taken.pop(address, None)
        if holder:
            taken[address] = holder
        pools = self._pools.get(network.name, {}) if old != holder else {}
        for state in pools.values():
            if state.room and holder:
                state.room.hold(address, holder)
            if state.room and old and not state.give(address, old):
                left = (state.addresses.get(one) for one in state.room.holders.get(address, ()))
                _due(state, (one.claim for one in left if one))
        return set(pools)

    def _all_due(self) -> Pools:
        for pools in self._pools.values():
            for state in pools.values():
                _due(state, state.claims)
        return set(self._names)


def _due(state: pool_state.Standing, claims: Iterable[meta.Ref]) -> None:
    state.due.update(dict.fromkeys(claims))


def _outside(numbers: pool_space.Room, found: cluster_reservations.Network) -> str:
    """Return what of a pool is outside of its network, in words; empty if nothing is."""
    cidrs = [ranges.known_cidr(text) for text in found.subnets]
    for part in numbers.parts:
        inside = [cidr.range for cidr in cidrs if cidr.family is part.family]
        outside = ranges.difference([part.run], inside)
        if outside:
            text, known = ranges.format_range(part.family, outside[0]), ", ".join(found.subnets) or "none"
            return f"{text} is outside every subnet of network {found.name} ({known})"
    return ""
