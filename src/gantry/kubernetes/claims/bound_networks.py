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

NO_CLUSTER = "it is bound to a network of a Gantry cluster, but the controllers were started without --cluster"


class BoundNetworks:
    """The networks and reservations as last read; ``expect`` announces a cluster."""

    def __init__(self) -> None:
        self.unreachable = NO_CLUSTER
        self._is_pending = False
        self._networks: dict[str, cluster_reservations.Network] = {}
        self._network_names: dict[meta.Ref, str] = {}
        self._pools: dict[str, dict[meta.Ref, pool_state.PoolState]] = {}
        self._range_problems: dict[meta.Ref, str] = {}
        self._owners: dict[str, dict[ranges.Address, meta.Ref]] = {}
        self._by_claim: dict[meta.Ref, set[cluster_reservations.Reservation]] = {}
        self._by_pool: dict[meta.Ref, set[cluster_reservations.Reservation]] = {}
        self._read_names: frozenset[str] = frozenset()

    def expect(self) -> None:
        """Record that there is a cluster, which has not answered yet."""
        self.unreachable, self._is_pending = "", True

    def bind(self, pool: ipam.IPPool, state: pool_state.PoolState) -> ipam.PoolSpec:
        """Bind a pool to its annotated network; return its spec, extended by the network's excluded addresses."""
        self.unbind(pool.ref)
        if not pool.network:
            return pool.spec
        self._network_names[pool.ref] = pool.network
        self._pools.setdefault(pool.network, {})[pool.ref] = state
        found = self._networks.get(pool.network)
        closed = (*pool.spec.excluded_addresses, *found.excluded) if found else pool.spec.excluded_addresses
        return msgspec.structs.replace(pool.spec, excluded_addresses=closed)

    def unbind(self, pool: meta.Ref) -> None:
        """Remove a pool that is gone or no longer bound."""
        name = self._network_names.pop(pool, "")
        self._range_problems.pop(pool, None)
        if name:
            del self._pools[name][pool]
            if not self._pools[name]:
                del self._pools[name]

    def fill_space(self, pool: meta.Ref, numbers: pool_space.PoolSpace) -> None:
        """Add the used addresses of a pool's network to its new space."""
        found = self._network(pool)
        if found:
            self._range_problems[pool] = _range_outside(numbers, found)
            for address, holder in self._owners[found.uuid].items():
                numbers.add_owner(address, holder)

    def _network(self, pool: meta.Ref) -> cluster_reservations.Network | None:
        return self._networks.get(self._network_names.get(pool, ""))

    @property
    def names(self) -> frozenset[str]:
        """The names of the networks that pools are bound to."""
        return frozenset(self._pools)

    @property
    def is_unread(self) -> bool:
        """Return whether a pool is bound to a network that has not been read yet."""
        return not self.names <= self._read_names

    def is_bound(self, pool: meta.Ref) -> bool:
        """Return whether a pool is bound to a network."""
        return pool in self._network_names

    def is_pending(self, pool: meta.Ref) -> bool:
        """Return whether a pool is bound to a network that is about to be read."""
        name = self._network_names.get(pool, "")
        return bool(name) and not self.unreachable and (self._is_pending or name not in self._read_names)

    def unusable_reason(self, pool: meta.Ref) -> str:
        """Return why a bound pool cannot be used; empty if it can, or is not bound."""
        if not self.is_bound(pool) or self.is_pending(pool):
            return ""
        if self.unreachable:
            return self.unreachable
        found = self._network(pool)
        return (
            self._range_problems.get(pool, "") if found else f"the cluster has no network {self._network_names[pool]}"
        )

    def reservation(self, claim: meta.Ref, pool: meta.Ref, *, address: ranges.Address) -> tuple[actions.Reserve, ...]:
        """Return the action that reserves an address for a claim; nothing if the pool is not bound."""
        found = self._network(pool)
        return (actions.Reserve(cluster_reservations.Reservation(found.uuid, address, claim, pool)),) if found else ()

    def needed_reservation(self, address: actions.Address) -> actions.Reserve | str | None:
        """Return the action that reserves the address of an object, or why that is impossible; None if not needed."""
        number, found = pool_space.parse(address.spec.address), self._network(address.pool)
        made = self.reservation(address.claim, address.pool, address=number) if number else ()
        if found and any(
            (one.network, one.address) == (found.uuid, number) for one in self._by_claim.get(address.claim, set())
        ):
            return None
        obstacle = self.unusable_reason(address.pool)
        if obstacle or not made or found is None or number is None:
            return obstacle or None
        who = self._owners[found.uuid].get(number)
        is_other = who is not None and who != cluster_reservations.claim_owner(address.claim)
        return f"{number} is in use by {who} in network {found.name}" if is_other else made[0]

    def reserved_addresses(self, claim: actions.Claim) -> list[ranges.Address]:
        """Return the addresses reserved for a claim in the network of its pool, sorted."""
        found = self._network(claim.pool)
        listed = self._by_claim.get(claim.ref, set())
        return sorted(one.address for one in listed if found and one.network == found.uuid)

    def stale_reservations(self, claim: actions.Claim, held: Iterable[actions.Address]) -> tuple[actions.Release, ...]:
        """Return the releases of a claim's reservations for which it has no address object."""
        found = () if self.unreachable else self._by_claim.get(claim.ref, ())
        if not found:
            return ()
        numbers = {pool_space.parse(one.spec.address) for one in held}
        listed = sorted(found)
        current = actions.version(claim)
        return tuple(actions.Release(one.claim, one, current=current) for one in listed if one.address not in numbers)

    def has_reservations(self, pool: meta.Ref) -> bool:
        """Return whether a pool has reservations, or may have some that have not been read yet."""
        return (self._is_pending and self.is_bound(pool)) or bool(self._by_pool.get(pool))

    @property
    def reservations(self) -> list[cluster_reservations.Reservation]:
        """All known reservations for claims."""
        return [one for listed in self._by_claim.values() for one in listed]

    def disconnect(self, why: str) -> Pools:
        """Record why the cluster cannot be reached; return the pools with work."""
        if self.unreachable == why:
            return set()
        self.unreachable = why
        return self._enqueue_all()

    def refresh(
        self,
        asked: frozenset[str],
        networks: Iterable[cluster_reservations.Network],
        reservations: Iterable[cluster_reservations.Reservation],
    ) -> Pools:
        """Replace the networks, of which those in ``asked`` were read, and all reservations for our claims.

        Return the pools with work. Call ``outdated`` before: the spaces of those pools must be rebuilt afterwards.
        """
        was_blind = bool(self.unreachable) or self._is_pending or asked != self._read_names
        self.unreachable, self._is_pending, self._read_names = "", False, asked
        self._networks = {one.name: one for one in networks}
        before = {one for listed in self._by_claim.values() for one in listed}
        after = set(reservations)
        for one in before - after:
            self._remove(one)
        for one in after - before:
            self._add(one)
        touched = self._enqueue_claims(before ^ after)
        for found in self._networks.values():
            ours = {one.address: one.owner for one in after if one.network == found.uuid}
            new, old = found.used | ours, self._owners.get(found.uuid, {})
            for address in {one for one in old.keys() | new.keys() if old.get(one) != new.get(one)}:
                touched |= self._set_owner(found, address, new.get(address))
            self._owners.setdefault(found.uuid, {})
        return touched | self._enqueue_all() if was_blind else touched

    def outdated(self, networks: Iterable[cluster_reservations.Network]) -> Pools:
        """Return the pools whose networks changed in more than their used addresses."""
        new = {one.name: (one.uuid, one.subnets, one.excluded) for one in networks}
        old = {one.name: (one.uuid, one.subnets, one.excluded) for one in self._networks.values()}
        return {ref for name, pools in self._pools.items() if new.get(name) != old.get(name) for ref in pools}

    def add_reservation(self, one: cluster_reservations.Reservation) -> Pools:
        """Add a reservation; return the pools with work."""
        self._add(one)
        return self._enqueue_claims([one]) | self._set_reservation_owner(one, one.owner)

    def remove_reservation(self, one: cluster_reservations.Reservation) -> Pools:
        """Remove a reservation; return the pools with work."""
        self._remove(one)
        is_own = self._owners.get(one.network, {}).get(one.address) == one.owner
        return self._enqueue_claims([one]) | (self._set_reservation_owner(one, None) if is_own else set())

    def refuse_reservation(self, one: cluster_reservations.Reservation, who: meta.Ref) -> Pools:
        """Record that the cluster refused a reservation, and who owns the address; return the pools with work."""
        self._remove(one)
        return self._enqueue_claims([one]) | self._set_reservation_owner(one, who)

    def _set_reservation_owner(self, one: cluster_reservations.Reservation, holder: meta.Ref | None) -> Pools:
        found = next((net for net in self._networks.values() if net.uuid == one.network), None)
        return self._set_owner(found, one.address, holder) if found else set()

    def _add(self, one: cluster_reservations.Reservation) -> None:
        for old in self._by_claim.get(one.claim, set()) - {one}:
            # the claim has moved to another pool
            if (old.network, old.address) == (one.network, one.address):
                self._remove(old)
        self._by_claim.setdefault(one.claim, set()).add(one)
        self._by_pool.setdefault(one.pool, set()).add(one)

    def _remove(self, one: cluster_reservations.Reservation) -> None:
        for key, listed in ((one.claim, self._by_claim), (one.pool, self._by_pool)):
            listed.get(key, set()).discard(one)
            if not listed.get(key):
                listed.pop(key, None)

    def _enqueue_claims(self, changed: Iterable[cluster_reservations.Reservation]) -> Pools:
        """Queue the claims whose reservations have changed."""
        touched: Pools = set()
        for one in changed:
            touched.add(one.pool)
            state = self._pools.get(self._network_names.get(one.pool, ""), {}).get(one.pool)
            if state:
                _enqueue(state, [one.claim])
        return touched

    def _set_owner(
        self, network: cluster_reservations.Network, address: ranges.Address, holder: meta.Ref | None
    ) -> Pools:
        """Record the owner of an address of a network, None for none; return the pools with work."""
        taken = self._owners.setdefault(network.uuid, {})
        old = taken.pop(address, None)
        if holder:
            taken[address] = holder
        pools = self._pools.get(network.name, {}) if old != holder else {}
        for state in pools.values():
            if state.space and holder:
                state.space.add_owner(address, holder)
            if state.space and old and not state.remove_owner(address, old):
                left = (state.addresses.get(one) for one in state.space.owners.get(address, ()))
                _enqueue(state, (one.claim for one in left if one))
        return set(pools)

    def _enqueue_all(self) -> Pools:
        for pools in self._pools.values():
            for state in pools.values():
                _enqueue(state, state.claims)
        return set(self._network_names)


def _enqueue(state: pool_state.PoolState, claims: Iterable[meta.Ref]) -> None:
    state.queue.update(dict.fromkeys(claims))


def _range_outside(numbers: pool_space.PoolSpace, found: cluster_reservations.Network) -> str:
    """Return an error text if a range of a pool is outside its network, otherwise an empty text."""
    cidrs = [ranges.known_cidr(text) for text in found.subnets]
    for part in numbers.parts:
        inside = [cidr.range for cidr in cidrs if cidr.family is part.family]
        outside = ranges.difference([part.bounds], inside)
        if outside:
            text, known = ranges.format_range(part.family, outside[0]), ", ".join(found.subnets) or "none"
            return f"{text} is outside every subnet of network {found.name} ({known})"
    return ""
