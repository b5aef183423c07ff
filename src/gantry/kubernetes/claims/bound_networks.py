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
        network = self._networks.get(pool.network)
        excluded = (*pool.spec.excluded_addresses, *network.excluded) if network else pool.spec.excluded_addresses
        return msgspec.structs.replace(pool.spec, excluded_addresses=excluded)

    def unbind(self, pool: meta.Ref) -> None:
        """Remove a pool that is gone or no longer bound."""
        name = self._network_names.pop(pool, "")
        self._range_problems.pop(pool, None)
        if name:
            del self._pools[name][pool]
            if not self._pools[name]:
                del self._pools[name]

    def fill_space(self, pool: meta.Ref, space: pool_space.PoolSpace) -> None:
        """Add the used addresses of a pool's network to its new space."""
        network = self._network(pool)
        if network:
            self._range_problems[pool] = _range_outside(space, network)
            for address, owner in self._owners[network.uuid].items():
                space.add_owner(address, owner)

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
        network = self._network(pool)
        return (
            self._range_problems.get(pool, "") if network else f"the cluster has no network {self._network_names[pool]}"
        )

    def reservation(self, claim: meta.Ref, pool: meta.Ref, *, address: ranges.Address) -> tuple[actions.Reserve, ...]:
        """Return the action that reserves an address for a claim; nothing if the pool is not bound."""
        network = self._network(pool)
        return (
            (actions.Reserve(cluster_reservations.Reservation(network.uuid, address, claim, pool)),) if network else ()
        )

    def needed_reservation(self, address: actions.Address) -> actions.Reserve | str | None:
        """Return the action that reserves the address of an object, or why that is impossible; None if not needed."""
        number, network = pool_space.parse(address.spec.address), self._network(address.pool)
        reserve_actions = self.reservation(address.claim, address.pool, address=number) if number else ()
        if network and any(
            (reservation.network, reservation.address) == (network.uuid, number)
            for reservation in self._by_claim.get(address.claim, set())
        ):
            return None
        obstacle = self.unusable_reason(address.pool)
        if obstacle or not reserve_actions or network is None or number is None:
            return obstacle or None
        owner = self._owners[network.uuid].get(number)
        has_other_owner = owner is not None and owner != cluster_reservations.claim_owner(address.claim)
        return f"{number} is in use by {owner} in network {network.name}" if has_other_owner else reserve_actions[0]

    def reserved_addresses(self, claim: actions.Claim) -> list[ranges.Address]:
        """Return the addresses reserved for a claim in the network of its pool, sorted."""
        network = self._network(claim.pool)
        claim_reservations = self._by_claim.get(claim.ref, set())
        return sorted(
            reservation.address for reservation in claim_reservations if network and reservation.network == network.uuid
        )

    def stale_reservations(
        self, claim: actions.Claim, addresses: Iterable[actions.Address]
    ) -> tuple[actions.Release, ...]:
        """Return the releases of a claim's reservations for which it has no address object."""
        claim_reservations = () if self.unreachable else self._by_claim.get(claim.ref, ())
        if not claim_reservations:
            return ()
        numbers = {pool_space.parse(address.spec.address) for address in addresses}
        ordered = sorted(claim_reservations)
        current = actions.version(claim)
        return tuple(
            actions.Release(reservation.claim, reservation, current=current)
            for reservation in ordered
            if reservation.address not in numbers
        )

    def has_reservations(self, pool: meta.Ref) -> bool:
        """Return whether a pool has reservations, or may have some that have not been read yet."""
        return (self._is_pending and self.is_bound(pool)) or bool(self._by_pool.get(pool))

    @property
    def reservations(self) -> list[cluster_reservations.Reservation]:
        """All known reservations for claims."""
        return [reservation for claim_reservations in self._by_claim.values() for reservation in claim_reservations]

    def disconnect(self, why: str) -> Pools:
        """Record why the cluster cannot be reached; return the pools with work."""
        if self.unreachable == why:
            return set()
        self.unreachable = why
        return self._enqueue_all()

    def refresh(
        self,
        read_names: frozenset[str],
        networks: Iterable[cluster_reservations.Network],
        claim_reservations: Iterable[cluster_reservations.Reservation],
    ) -> Pools:
        """Replace the networks, of which those in ``read_names`` were read, and all reservations for our claims.

        Return the pools with work. Call ``outdated`` before: the spaces of those pools must be rebuilt afterwards.
        """
        was_unavailable = bool(self.unreachable) or self._is_pending or read_names != self._read_names
        self.unreachable, self._is_pending, self._read_names = "", False, read_names
        self._networks = {network.name: network for network in networks}
        before = {reservation for of_claim in self._by_claim.values() for reservation in of_claim}
        after = set(claim_reservations)
        for reservation in before - after:
            self._remove(reservation)
        for reservation in after - before:
            self._add(reservation)
        pools = self._enqueue_claims(before ^ after)
        for network in self._networks.values():
            claim_owners = {
                reservation.address: reservation.owner for reservation in after if reservation.network == network.uuid
            }
            new, old = network.used | claim_owners, self._owners.get(network.uuid, {})
            for address in {address for address in old.keys() | new.keys() if old.get(address) != new.get(address)}:
                pools |= self._set_owner(network, address, new.get(address))
            self._owners.setdefault(network.uuid, {})
        return pools | self._enqueue_all() if was_unavailable else pools

    def outdated(self, networks: Iterable[cluster_reservations.Network]) -> Pools:
        """Return the pools whose networks changed in more than their used addresses."""
        new = {network.name: (network.uuid, network.subnets, network.excluded) for network in networks}
        old = {network.name: (network.uuid, network.subnets, network.excluded) for network in self._networks.values()}
        return {ref for name, pools in self._pools.items() if new.get(name) != old.get(name) for ref in pools}

    def add_reservation(self, reservation: cluster_reservations.Reservation) -> Pools:
        """Add a reservation; return the pools with work."""
        self._add(reservation)
        return self._enqueue_claims([reservation]) | self._set_reservation_owner(reservation, reservation.owner)

    def remove_reservation(self, reservation: cluster_reservations.Reservation) -> Pools:
        """Remove a reservation; return the pools with work."""
        self._remove(reservation)
        is_own = self._owners.get(reservation.network, {}).get(reservation.address) == reservation.owner
        return self._enqueue_claims([reservation]) | (
            self._set_reservation_owner(reservation, None) if is_own else set()
        )

    def refuse_reservation(self, reservation: cluster_reservations.Reservation, owner: meta.Ref) -> Pools:
        """Record that the cluster refused a reservation, and who owns the address; return the pools with work."""
        self._remove(reservation)
        return self._enqueue_claims([reservation]) | self._set_reservation_owner(reservation, owner)

    def _set_reservation_owner(self, reservation: cluster_reservations.Reservation, owner: meta.Ref | None) -> Pools:
        network = next((net for net in self._networks.values() if net.uuid == reservation.network), None)
        return self._set_owner(network, reservation.address, owner) if network else set()

    def _add(self, reservation: cluster_reservations.Reservation) -> None:
        for old in self._by_claim.get(reservation.claim, set()) - {reservation}:
            # the claim has moved to another pool
            if (old.network, old.address) == (reservation.network, reservation.address):
                self._remove(old)
        self._by_claim.setdefault(reservation.claim, set()).add(reservation)
        self._by_pool.setdefault(reservation.pool, set()).add(reservation)

    def _remove(self, reservation: cluster_reservations.Reservation) -> None:
        for key, claim_reservations in ((reservation.claim, self._by_claim), (reservation.pool, self._by_pool)):
            claim_reservations.get(key, set()).discard(reservation)
            if not claim_reservations.get(key):
                claim_reservations.pop(key, None)

    def _enqueue_claims(self, changed: Iterable[cluster_reservations.Reservation]) -> Pools:
        """Queue the claims whose reservations have changed."""
        pools: Pools = set()
        for reservation in changed:
            pools.add(reservation.pool)
            state = self._pools.get(self._network_names.get(reservation.pool, ""), {}).get(reservation.pool)
            if state:
                _enqueue(state, [reservation.claim])
        return pools

    def _set_owner(
        self, network: cluster_reservations.Network, address: ranges.Address, owner: meta.Ref | None
    ) -> Pools:
        """Record the owner of an address of a network, None for none; return the pools with work."""
        owners = self._owners.setdefault(network.uuid, {})
        old = owners.pop(address, None)
        if owner:
            owners[address] = owner
        pools = self._pools.get(network.name, {}) if old != owner else {}
        for state in pools.values():
            if state.space and owner:
                state.space.add_owner(address, owner)
            if state.space and old and not state.remove_owner(address, old):
                remaining = (state.addresses.get(ref) for ref in state.space.owners.get(address, ()))
                _enqueue(state, (address.claim for address in remaining if address))
        return set(pools)

    def _enqueue_all(self) -> Pools:
        for pools in self._pools.values():
            for state in pools.values():
                _enqueue(state, state.claims)
        return set(self._network_names)


def _enqueue(state: pool_state.PoolState, claims: Iterable[meta.Ref]) -> None:
    state.queue.update(dict.fromkeys(claims))


def _range_outside(space: pool_space.PoolSpace, network: cluster_reservations.Network) -> str:
    """Return an error text if a range of a pool is outside its network, otherwise an empty text."""
    cidrs = [ranges.known_cidr(text) for text in network.subnets]
    for part in space.parts:
        subnets = [cidr.range for cidr in cidrs if cidr.family is part.family]
        outside = ranges.difference([part.bounds], subnets)
        if outside:
            text, subnet_list = ranges.format_range(part.family, outside[0]), ", ".join(network.subnets) or "none"
            return f"{text} is outside every subnet of network {network.name} ({subnet_list})"
    return ""
