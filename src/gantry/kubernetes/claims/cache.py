"""Cache of observed pools, claims, addresses and Clusters, and the queue of claims to reconcile.

The controllers put and remove objects, from watches and from answers to their own requests, and get back which pools
have work; ``reconcile_claim`` and ``reconcile_pool`` query it, not before all kinds have been listed once. The cost of
a change does not depend on the number of objects, except for a change of a pool's spec, which is linear in the claims
and addresses of that pool.

Life cycle of a claim: ``put`` queues it; ``next_claim`` returns it and marks it busy until ``finish``. A waiting claim
is returned again when its pool has a free address, when its requested address becomes free, or when the claim, its
pool or a Cluster changes. ``assume`` keeps an address for a claim from the allocation until its object is observed.

Pools of one namespace with the same ``namePrefix`` share their addresses: the names of their objects would collide, and
a prefix stands for a subnet. Invariant: for each address, the space of a pool has as owners the address
objects of those pools with that address, the claims it is assumed for, and objects that have its name
(``handle_collision``).
"""

from collections.abc import Iterable, Iterator

from gantry import errors
from gantry.address import ranges
from gantry.kubernetes.api import capi, data, ipam, meta
from gantry.kubernetes.claims import (
    actions,
    bound_networks,
    cluster_reservations,
    clusters,
    orphan_addresses,
    pool_space,
    pool_state,
    work_order,
)

Pools = set[meta.Ref]
"""Pools that have work."""


class Cache:
    """The observed objects; see the module. With ``random_order``, claims get random addresses of all pools."""

    def __init__(self, *, random_order: bool = False) -> None:
        self.random_order = random_order
        self._pools: dict[meta.Ref, pool_state.PoolState] = {}
        self._claims: dict[meta.Ref, actions.Claim] = {}
        self._addresses: dict[meta.Ref, actions.Address] = {}
        self.clusters = clusters.Clusters()
        self.networks = bound_networks.BoundNetworks()
        self.orphan_addresses = orphan_addresses.OrphanAddresses()
        self._claimed: dict[meta.Ref, dict[meta.Ref, actions.Address]] = {}
        self._by_prefix: dict[tuple[str, str], Pools] = {}
        self._blockers: dict[meta.Ref, Pools] = {}
        self._busy: dict[meta.Ref, Pools] = {}

    def __len__(self) -> int:
        """Return the number of pools, including those that claims and addresses only refer to."""
        return len(self._pools)

    def put(self, resource: meta.Resource) -> Pools:
        """Store an observed object and return the pools with work; a version that is not newer changes nothing.

        An object that is deleted and has no finalizers is removed.
        """
        if isinstance(resource, capi.Cluster | data.Metal3Cluster) and not resource.is_gone:
            return self._enqueue_members(self.clusters.put(resource))
        is_relevant = not isinstance(resource, capi.IPAddressClaim | capi.IPAddress) or resource.spec.pool_ref.is_ours
        if resource.is_gone or not is_relevant or (isinstance(resource, ipam.IPClaim) and not resource.is_ours):
            return self.remove(resource.ref)
        if isinstance(resource, ipam.IPPool):
            return self._put_pool(resource)
        if isinstance(resource, ipam.IPClaim | capi.IPAddressClaim):
            return self._put_claim(resource)
        if isinstance(resource, ipam.IPAddress | capi.IPAddress):
            return self._put_address(resource)
        return set()

    def remove(self, ref: meta.Ref) -> Pools:
        """Remove an object; return the pools with work."""
        pools = self._unblock_address(ref)
        if ref in self.clusters:
            return pools | self._enqueue_members(self.clusters.remove(ref))
        if ref in self._claims:
            return pools | self._remove_claim(ref)
        if ref in self._addresses:
            return pools | self._remove_address(ref)
        state = self._pools.get(ref)
        if state and state.pool:
            self.clusters.leave(ref.namespace, state.pool.spec.cluster_name, member=ref)
            self.networks.unbind(ref)
            state.pool, state.space, state.problem = None, None, ""
            state.queue.update(dict.fromkeys(state.claims))
            return pools | {ref}
        return pools

    def knows(self, ref: meta.Ref, version: str) -> bool:
        """Return whether an object is cached in this resource version or a newer one, if versions are numbers."""
        cached = self._claims.get(ref) or self._addresses.get(ref)
        cached_version = cached.metadata.resource_version if cached else ""
        return cached_version.isdecimal() and version.isdecimal() and int(version) <= int(cached_version)

    def pool(self, ref: meta.Ref) -> ipam.IPPool | None:
        """Return a pool, None if it is not cached."""
        return self._peek_state(ref).pool

    def space_of(self, ref: meta.Ref) -> pool_space.PoolSpace | None:
        """Return the address space of a pool, None without a pool or if its spec is invalid (``problem``)."""
        return self._peek_state(ref).space

    def problem(self, ref: meta.Ref) -> str:
        """Return why the spec of a pool is invalid; empty if it is valid."""
        return self._peek_state(ref).problem

    def claim(self, ref: meta.Ref) -> actions.Claim | None:
        """Return a claim, None if it is not cached."""
        return self._claims.get(ref)

    def addresses_of(self, claim: meta.Ref) -> list[actions.Address]:
        """Return the address objects that refer to a claim, in no order."""
        return list(self._claimed.get(claim, {}).values())

    def addresses_in(self, pool: meta.Ref) -> Iterable[actions.Address]:
        """Return the address objects that refer to a pool, in no order."""
        state = self._pools.get(pool)
        return state.addresses.values() if state else ()

    def pools_in(self, namespace: str) -> Iterator[ipam.IPPool]:
        """Yield the pools of a namespace; scans all pools."""
        for state in self._pools.values():
            if state.pool and state.pool.metadata.namespace == namespace:
                yield state.pool

    def waiting(self, pool: meta.Ref) -> int:
        """Return the number of claims on a pool without an address object."""
        state = self._peek_state(pool)
        return sum(not self._claimed.get(ref) for ref in state.claims)

    def assumed_address(self, claim: actions.Claim) -> ranges.Address | None:
        """Return the address allocated to a claim whose address object has not been observed yet."""
        return self._peek_state(claim.pool).assumed.get(claim.ref)

    def assumed_addresses(self, pool: meta.Ref) -> dict[meta.Ref, ranges.Address]:
        """Return the addresses of a pool whose objects have not been observed yet, by claim."""
        return dict(self._peek_state(pool).assumed)

    def is_busy(self, claim: meta.Ref) -> bool:
        """Return whether the actions of a claim are being applied (``next_claim``)."""
        return claim in self._busy

    def is_pool_paused(self, pool: ipam.IPPool) -> bool:
        """Return whether a pool is paused, by its annotation or by its Cluster."""
        return pool.is_paused or self.clusters.is_paused(pool.metadata.namespace, pool.spec.cluster_name)

    def is_paused(self, claim: actions.Claim) -> bool:
        """Return whether a claim is paused: by its annotation or its pool's, or by the Cluster of either."""
        pool = self.pool(claim.pool)
        return (
            claim.is_paused
            or self.clusters.is_paused(claim.metadata.namespace, claim.cluster)
            or (pool is not None and self.is_pool_paused(pool))
        )

    def next_claim(self, pool: meta.Ref) -> meta.Ref | None:
        """Return the next claim to reconcile, None if there is none: queued, or waiting while an address is free.

        The claim is busy until ``finish``; it may have been deleted meanwhile.
        """
        state = self._peek_state(pool)
        while True:
            ref = state.queue.pop_first() or state.longest_waiting(self._busy) or state.queue.pop()
            if ref is None or ref not in self._busy:
                break
            self._busy[ref].add(pool)
        if ref is None:
            self._drop_if_empty(pool)
        else:
            state.stop_waiting(ref)
            self._busy[ref] = set()
        return ref

    def finish(self, claim: meta.Ref, *, again: bool = False) -> Pools:
        """End the work on a claim, done or failed, and return the pools with work; ``again`` requeues the claim."""
        changed = self._busy.pop(claim, set())
        self.orphan_addresses.claim_finished(claim)
        cached = self._claims.get(claim)
        pools = {cached.pool} if cached else {address.pool for address in self.addresses_of(claim)}
        for pool in pools | changed if again else changed:
            self._enqueue(pool, claim)
        return pools | changed

    def assume(self, claim: actions.Claim, address: ranges.Address) -> None:
        """Keep an address of the pool for a claim until its address object is observed or the claim is removed."""
        self._drop_assumed(claim.pool, claim.ref)
        state = self._state_of(claim.pool)
        state.assumed[claim.ref] = address
        for shared in self._shared_spaces(claim.pool):
            shared.add_owner(address, claim.ref)

    def wait(self, claim: actions.Claim, address: ranges.Address | None) -> None:
        """Let a claim wait for an address to become free, None for any.

        An address assumed for it has another owner, or it would not wait; the assumption is dropped, or the claim
        would wait for itself once the other owner is gone.
        """
        self._drop_assumed(claim.pool, claim.ref)
        self._state_of(claim.pool).wait(claim.ref, address)

    def handle_collision(self, create: actions.Create, existing: actions.Address | None) -> Pools:
        """Handle that an address object of the same name exists; ``existing`` is that object if it is still there."""
        pool = create.address.pool
        pools = self.put(existing) if existing else set()
        pools |= self._drop_assumed(pool, create.claim)
        if existing and (existing.claim, existing.pool) != (create.claim, pool):
            self._block_address(create.address, existing.ref)
        self._enqueue(pool, create.claim)
        return pools | {pool}

    def handle_unreadable(self, create: actions.Create) -> Pools:
        """Handle that the name of a new address object belongs to an unreadable object: skip that address."""
        self._block_address(create.address, create.address.ref)
        return self.handle_collision(create, None)

    def is_blocking(self, action: actions.Patch | actions.Delete | actions.Release, resource: meta.Resource) -> bool:
        """Return whether an object that should be ``absent`` blocks an action (``handle_existing``).

        The address of another claim does not, even if an edited status refers to it.
        """
        claim = self._claims.get(action.ref)
        if claim and resource.ref.group == claim.ref.group and isinstance(resource, ipam.IPAddress | capi.IPAddress):
            return (resource.claim, resource.pool) == (claim.ref, claim.pool)
        return True

    def handle_existing(
        self, action: actions.Patch | actions.Delete | actions.Release, resource: meta.Resource
    ) -> Pools:
        """Handle that an object exists that should have been ``absent``; the claim is then reconciled again."""
        pools = self.put(resource)
        is_address = isinstance(resource, ipam.IPAddress | capi.IPAddress)
        for address in self.addresses_of(action.ref):
            if is_address and address.metadata.name == resource.metadata.name:
                self._block_address(address, resource.ref)
        return pools

    def update_networks(
        self,
        read_names: frozenset[str],
        networks: list[cluster_reservations.Network],
        reserved: list[cluster_reservations.Reservation],
    ) -> Pools:
        """Store what was read from a cluster (``BoundNetworks.refresh``); return the pools with work."""
        outdated = self.networks.outdated(networks)
        pools = self.networks.refresh(read_names, networks, reserved)
        for state in map(self._state_of, outdated):
            if state.pool:
                self._rebuild_space(state, state.pool)
                state.queue.update(dict.fromkeys(state.claims))
        return pools | outdated

    def _block_address(self, address: actions.Address, blocker: meta.Ref) -> None:
        """Keep an address from all claims while an object with a different address has its name."""
        number, state = pool_space.parse(address.spec.address), self._state_of(address.pool)
        if number and state.space:
            state.space.add_owner(number, blocker)
            state.blocked[blocker] = number
            self._blockers.setdefault(blocker, set()).add(address.pool)

    def _peek_state(self, ref: meta.Ref) -> pool_state.PoolState:
        return self._pools.get(ref) or pool_state.PoolState()

    def _drop_if_empty(self, ref: meta.Ref) -> None:
        state = self._pools.get(ref)
        if state and state.is_empty:
            del self._pools[ref]
            shared = self._by_prefix.get((ref.namespace, state.prefix), set())
            shared.discard(ref)
            if not shared:
                self._by_prefix.pop((ref.namespace, state.prefix), None)

    def _state_of(self, ref: meta.Ref) -> pool_state.PoolState:
        return self._pools.get(ref) or self._pools.setdefault(ref, pool_state.PoolState())

    def _enqueue(self, pool: meta.Ref, ref: meta.Ref) -> None:
        addresses = self._claimed.get(ref, {}).values()
        self._state_of(pool).queue.add(ref, work_order.priority_of(self._claims.get(ref), addresses))

    def _enqueue_members(self, members: Iterable[meta.Ref]) -> Pools:
        """Requeue every claim and pool of a Cluster; for a pool, all of its claims."""
        pools: Pools = set()
        for member in members:
            claim = self._claims.get(member)
            pool = claim.pool if claim else member
            state = self._state_of(pool)
            state.queue.update(dict.fromkeys([member] if claim else state.claims))
            pools.add(pool)
        return pools

    def _put_pool(self, pool: ipam.IPPool) -> Pools:
        state = self._state_of(pool.ref)
        old = state.pool
        if old and pool_state.is_stale(pool, old):
            return set()
        state.pool = pool
        if old is None or (old.spec, old.network) != (pool.spec, pool.network):
            if old:
                self.clusters.leave(pool.ref.namespace, old.spec.cluster_name, member=pool.ref)
            self.clusters.join(pool.ref.namespace, pool.spec.cluster_name, member=pool.ref)
            self._rebuild_space(state, pool)
        if old is None or pool_state.claim_inputs(old) != pool_state.claim_inputs(pool):
            state.queue.update(dict.fromkeys(state.claims))
        return {pool.ref}

    def _rebuild_space(self, state: pool_state.PoolState, pool: ipam.IPPool) -> None:
        """Rebuild the space of a pool, and add its addresses to the spaces of pools with the same prefix."""
        same_prefix = self._by_prefix.setdefault((pool.metadata.namespace, pool.spec.name_prefix), set())
        same_prefix.add(pool.ref)
        state.prefix = pool.spec.name_prefix
        for claim in state.claims:
            state.stop_waiting(claim)
        try:
            state.space, state.problem = pool_space.PoolSpace(self.networks.bind(pool, state)), ""
        except errors.InvalidError as error:
            state.space, state.problem = None, str(error)
        for ref in same_prefix:
            for address, owner in self._state_of(ref).used_addresses():
                if state.space:
                    state.space.add_owner(address, owner)
        for address, owner in state.used_addresses():
            for shared in self._shared_spaces(pool.ref):
                shared.add_owner(address, owner)
        if state.space:
            for owner, address in state.blocked.items():
                state.space.add_owner(address, owner)
            self.networks.fill_space(pool.ref, state.space)

    def _pools_with_prefix(self, ref: meta.Ref) -> Pools:
        """Return the pools with the same prefix as a pool, itself included."""
        return self._by_prefix.get((ref.namespace, self._peek_state(ref).prefix), {ref})

    def _shared_spaces(self, ref: meta.Ref) -> list[pool_space.PoolSpace]:
        return [space for space in (self._state_of(sharer).space for sharer in self._pools_with_prefix(ref)) if space]

    def _put_claim(self, claim: actions.Claim) -> Pools:
        ref, pool = claim.ref, claim.pool
        old = self._claims.get(ref)
        if old and pool_state.is_stale(claim, old):
            return set()
        moved = old is not None and (old.pool, old.cluster) != (pool, claim.cluster)
        pools = self._remove_claim(ref) if moved else set()
        state = self._state_of(pool)
        self._claims[ref] = state.claims[ref] = claim
        self.clusters.join(ref.namespace, claim.cluster, member=ref)
        state.stop_waiting(ref)
        self._enqueue(pool, ref)
        return pools | {pool}

    def _remove_claim(self, ref: meta.Ref) -> Pools:
        old = self._claims.pop(ref)
        state = self._state_of(old.pool)
        del state.claims[ref]
        state.stop_waiting(ref)
        state.queue.discard(ref)
        self.clusters.leave(ref.namespace, old.cluster, member=ref)
        pools = self._drop_assumed(old.pool, ref) | {old.pool}
        addresses = self.addresses_of(ref)
        self.orphan_addresses.claim_removed(ref, (address.ref for address in addresses), is_busy=ref in self._busy)
        for address in addresses:
            self._enqueue(address.pool, ref)
        return pools | {address.pool for address in addresses}

    def _drop_assumed(self, pool: meta.Ref, claim: meta.Ref) -> Pools:
        address = self._state_of(pool).assumed.pop(claim, None)
        return self._remove_owner(pool, address, claim) if address else set()

    def _remove_owner(self, pool: meta.Ref, address: ranges.Address, owner: meta.Ref) -> Pools:
        """Remove an owner of an address from all spaces that share it; return the pools whose claims may proceed."""
        return {ref for ref in self._pools_with_prefix(pool) if self._state_of(ref).remove_owner(address, owner)}

    def _put_address(self, address: actions.Address) -> Pools:
        ref, pool, claim_ref = address.ref, address.pool, address.claim
        old = self._addresses.get(ref)
        if old and pool_state.is_stale(address, old):
            return set()
        is_unchanged = old is not None and (old.spec, old.pool, old.claim) == (address.spec, pool, claim_ref)
        pools = self._remove_address(ref) if old and not is_unchanged else set()
        state = self._state_of(pool)
        self._addresses[ref] = state.addresses[ref] = address
        self._claimed.setdefault(claim_ref, {})[ref] = address
        self.orphan_addresses.address_added(ref, claim_ref)
        if not is_unchanged and (number := pool_space.parse(address.spec.address)):
            for shared in self._shared_spaces(pool):
                shared.add_owner(number, ref)
        claim = self._claims.get(claim_ref)
        claim_pool = claim.pool if claim else pool
        pools |= self._drop_assumed(claim_pool, claim_ref)
        self._enqueue(claim_pool, claim_ref)
        return pools | self._pools_with_prefix(pool) | {pool, claim_pool}

    def _remove_address(self, ref: meta.Ref) -> Pools:
        old = self._addresses.pop(ref)
        pool, claim_ref = old.pool, old.claim
        self.orphan_addresses.remove(ref)
        del self._state_of(pool).addresses[ref]
        remaining = self._claimed[claim_ref]
        del remaining[ref]
        if not remaining:
            del self._claimed[claim_ref]
        number = pool_space.parse(old.spec.address)
        pools = self._remove_owner(pool, number, ref) if number else set()
        claim = self._claims.get(claim_ref)
        if claim:
            self._enqueue(claim.pool, claim_ref)
            pools.add(claim.pool)
        return pools | self._pools_with_prefix(pool) | {pool}

    def _unblock_address(self, ref: meta.Ref) -> Pools:
        pools: Pools = set()
        for pool in self._blockers.pop(ref, set()):
            state = self._state_of(pool)
            address = state.blocked.pop(ref, None)
            if address and state.remove_owner(address, ref):
                pools.add(pool)
        return pools
