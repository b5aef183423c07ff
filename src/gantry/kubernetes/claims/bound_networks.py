"""Bound networks: the cluster networks that pools are bound to, and the reservations for claims in them.

``cache`` adds and removes pools; the controllers add what they read from the cluster and the result of each reservation
(``refresh``, ``add_reservation``, ``remove_reservation``, ``refuse_reservation``); ``allocate``, ``reconcile_claim``
and ``reconcile_pool`` query it. ::

    pool appears --> pending --> refresh: the pool's space has the used and excluded addresses of the network
                        |           |
                        +-----------+--> disconnect: no allocations until ``refresh``; claims keep their addresses

A bound pool allocates nothing before its network has been read, and nothing without a cluster.

Invariant: the space of a bound pool has the owners of each address in the network, our claims included.
"""

from collections.abc import Iterable

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, cluster_reservations, pool_space, pool_state

Pools = set[meta.Ref]
"""Pools that have work."""

ALONE = "it is bound to a network of a Gantry cluster, but the controllers were started without --cluster"


class Bonds:
    """The networks and reservations as last read; ``expect`` announces a cluster."""

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
        """Record that there is a cluster, which has not answered yet."""
        self.away, self._is_pending = "", True

    def join(self, pool: ipam.IPPool, state: pool_state.Standing) -> ipam.PoolSpec:
        """Bind a pool to its annotated network; return its spec, extended by the network's excluded addresses."""
        self.leave(pool.ref)
        if not pool.network:
            return pool.spec
        self._names[pool.ref] = pool.network
        self._pools.setdefault(pool.network, {})[pool.ref] = state
        found = self._networks.get(pool.network)
        closed = (*pool.spec.excluded_addresses, *found.closed) if found else pool.spec.excluded_addresses
        return msgspec.structs.replace(pool.spec, excluded_addresses=closed)

    def leave(self, pool: meta.Ref) -> None:
        """Remove a pool that is gone or no longer bound."""
        name = self._names.pop(pool, "")
        self._outside.pop(pool, None)
        if name:
            del self._pools[name][pool]
            if not self._pools[name]:
                del self._pools[name]

    def furnish(self, pool: meta.Ref, numbers: pool_space.Room) -> None:
        """Add the used addresses of a pool's network to its new space."""
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
        """Return whether a pool is bound to a network that has not been read yet."""
        return not self.names <= self._asked

    def is_bound(self, pool: meta.Ref) -> bool:
        """Return whether a pool is bound to a network."""
        return pool in self._names

    def is_pending(self, pool: meta.Ref) -> bool:
        """Return whether a pool is bound to a network that is about to be read."""
        name = self._names.get(pool, "")
        return bool(name) and not self.away and (self._is_pending or name not in self._asked)

    def obstacle(self, pool: meta.Ref) -> str:
        """Return why a bound pool cannot be used; empty if it can, or is not bound."""
        if not self.is_bound(pool) or self.is_pending(pool):
            return ""
        if self.away:
            return self.away
        found = self._network(pool)
        return self._outside.get(pool, "") if found else f"the cluster has no network {self._names[pool]}"

    def reserve(self, claim: meta.Ref, pool: meta.Ref, *, address: ranges.Address) -> tuple[actions.Reserve, ...]:
        """Return the action that reserves an address for a claim; nothing if the pool is not bound."""
        found = self._network(pool)
        return (actions.Reserve(cluster_reservations.Reservation(found.uuid, address, claim, pool)),) if found else ()

    def wanted(self, address: actions.Address) -> actions.Reserve | str | None:
        """Return the action that reserves the address of an object, or why that is impossible; None if not needed."""
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
        return f"{number} is in use by {who} in network {found.name}" if is_other else made[0]

    def kept(self, claim: actions.Claim) -> list[ranges.Address]:
        """Return the addresses reserved for a claim in the network of its pool, sorted."""
        found = self._network(claim.pool)
        listed = self._of_claim.get(claim.ref, set())
        return sorted(one.address for one in listed if found and one.network == found.uuid)

    def strays(self, claim: actions.Claim, held: Iterable[actions.Address]) -> tuple[actions.Release, ...]:
        """Return the releases of a claim's reservations for which it has no address object."""
        found = () if self.away else self._of_claim.get(claim.ref, ())
        if not found:
            return ()
        numbers = {pool_space.parse(one.spec.address) for one in held}
        listed = sorted(found)
        current = actions.version(claim)
        return tuple(actions.Release(one.claim, one, current=current) for one in listed if one.address not in numbers)

    def keeps(self, pool: meta.Ref) -> bool:
        """Return whether a pool has reservations, or may have some that have not been read yet."""
        return (self._is_pending and self.is_bound(pool)) or bool(self._of_pool.get(pool))

    @property
    def reservations(self) -> list[cluster_reservations.Reservation]:
        """All known reservations for claims."""
        return [one for listed in self._of_claim.values() for one in listed]

    def lost(self, why: str) -> Pools:
        """Record why the cluster cannot be reached; return the pools with work."""
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
        """Replace the networks, of which those in ``asked`` were read, and all reservations for our claims.

        Return the pools with work. Call ``outdated`` before: the spaces of those pools must be rebuilt afterwards.
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
        """Return the pools whose networks changed in more than their used addresses."""
        new = {one.name: (one.uuid, one.subnets, one.closed) for one in networks}
        old = {one.name: (one.uuid, one.subnets, one.closed) for one in self._networks.values()}
        return {ref for name, pools in self._pools.items() if new.get(name) != old.get(name) for ref in pools}

    def reserved(self, one: cluster_reservations.Reservation) -> Pools:
        """Add a reservation; return the pools with work."""
        self._keep(one)
        return self._settle([one]) | self._held(one, one.holder)

    def released(self, one: cluster_reservations.Reservation) -> Pools:
        """Remove a reservation; return the pools with work."""
        self._forget(one)
        is_own = self._taken.get(one.network, {}).get(one.address) == one.holder
        return self._settle([one]) | (self._held(one, None) if is_own else set())

    def refused(self, one: cluster_reservations.Reservation, who: meta.Ref) -> Pools:
        """Record that the cluster refused a reservation, and who owns the address; return the pools with work."""
        self._forget(one)
        return self._settle([one]) | self._held(one, who)

    def _held(self, one: cluster_reservations.Reservation, holder: meta.Ref | None) -> Pools:
        found = next((net for net in self._networks.values() if net.uuid == one.network), None)
        return self._take(found, one.address, holder) if found else set()

    def _keep(self, one: cluster_reservations.Reservation) -> None:
        for old in self._of_claim.get(one.claim, set()) - {one}:
            # the claim has moved to another pool
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
        """Queue the claims whose reservations have changed."""
        touched: Pools = set()
        for one in changed:
            touched.add(one.pool)
            state = self._pools.get(self._names.get(one.pool, ""), {}).get(one.pool)
            if state:
                _due(state, [one.claim])
        return touched

    def _take(self, network: cluster_reservations.Network, address: ranges.Address, holder: meta.Ref | None) -> Pools:
        """Record the owner of an address of a network, None for none; return the pools with work."""
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
    """Return an error text if a range of a pool is outside its network, otherwise an empty text."""
    cidrs = [ranges.known_cidr(text) for text in found.subnets]
    for part in numbers.parts:
        inside = [cidr.range for cidr in cidrs if cidr.family is part.family]
        outside = ranges.difference([part.run], inside)
        if outside:
            text, known = ranges.format_range(part.family, outside[0]), ", ".join(found.subnets) or "none"
            return f"{text} is outside every subnet of network {found.name} ({known})"
    return ""
