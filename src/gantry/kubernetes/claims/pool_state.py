"""Pool state: the claims, addresses and address space of one pool. ``cache`` calls it.

A claim with work is in ``queue`` (queued), in ``waiting`` (for any address) or in ``waiting_by_address`` (for a
particular one). ``pool`` is None until the pool is observed, ``space`` while its spec is invalid.
"""

from collections import OrderedDict
from collections.abc import Container, Iterator

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, pool_space, work_order


class PoolState:
    """State of one pool; see the module."""

    __slots__ = (
        "addresses",
        "assumed",
        "blocked",
        "claims",
        "pool",
        "prefix",
        "problem",
        "queue",
        "space",
        "waiting",
        "waiting_by_address",
        "waits_for",
    )

    def __init__(self) -> None:
        self.pool: ipam.IPPool | None = None
        self.space: pool_space.PoolSpace | None = None
        self.problem = self.prefix = ""
        self.claims: dict[meta.Ref, actions.Claim] = {}
        self.addresses: dict[meta.Ref, actions.Address] = {}
        self.assumed: dict[meta.Ref, ranges.Address] = {}
        self.blocked: dict[meta.Ref, ranges.Address] = {}
        self.queue = work_order.WorkOrder()
        self.waiting: OrderedDict[meta.Ref, None] = OrderedDict()
        self.waiting_by_address: dict[ranges.Address, dict[meta.Ref, None]] = {}
        self.waits_for: dict[meta.Ref, ranges.Address] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether the pool does not exist and nothing refers to it."""
        is_referenced = self.claims or self.addresses or self.assumed or self.blocked or any(True for _ in self.queue)
        return self.pool is None and not is_referenced

    def used_addresses(self) -> Iterator[tuple[ranges.Address, meta.Ref]]:
        """Yield each address of an address object, and each assumed address, with its owner."""
        for ref, resource in self.addresses.items():
            address = pool_space.parse(resource.spec.address)
            if address:
                yield address, ref
        yield from ((address, claim) for claim, address in self.assumed.items())

    def wait(self, claim: meta.Ref, address: ranges.Address | None) -> None:
        """Let a claim wait for an address, None for any."""
        if address is None:
            self.waiting[claim] = None
        else:
            self.waits_for[claim] = address
            self.waiting_by_address.setdefault(address, {})[claim] = None

    def longest_waiting(self, busy: Container[meta.Ref]) -> meta.Ref | None:
        """Return the claim that has waited longest for any address and is not ``busy``, None if no address is free."""
        if not (self.space and self.waiting and self.space.has_free):
            return None
        return next((claim for claim in self.waiting if claim not in busy), None)

    def enqueue_waiting(self, address: ranges.Address) -> None:
        """Queue the claims that wait for this address."""
        for claim in self.waiting_by_address.pop(address, {}):
            del self.waits_for[claim]
            self.queue.add(claim)

    def stop_waiting(self, claim: meta.Ref) -> None:
        """Stop the wait of a claim."""
        self.waiting.pop(claim, None)
        address = self.waits_for.pop(claim, None)
        if address is not None:
            self.waiting_by_address[address].pop(claim)
            if not self.waiting_by_address[address]:
                del self.waiting_by_address[address]

    def remove_owner(self, address: ranges.Address, owner: meta.Ref) -> bool:
        """Remove an owner of an address; return whether claims may proceed because of that."""
        if self.space is None or not self.space.remove_owner(address, owner):
            return False
        self.enqueue_waiting(address)
        return True


def claim_inputs(pool: ipam.IPPool) -> tuple[object, ...]:
    """Return the parts of a pool that its claims depend on."""
    is_kept = ipam.POOL_FINALIZER in pool.metadata.finalizers
    return pool.spec, pool.network, pool.is_deleting, pool.is_paused, is_kept, pool.metadata.uid


def is_stale(resource: meta.Resource, cached: meta.Resource) -> bool:
    """Return whether a version is not newer than the cached one, if versions are numbers."""
    new, old = resource.metadata, cached.metadata
    numbers = new.resource_version.isdecimal() and old.resource_version.isdecimal()
    return new.uid == old.uid and numbers and int(new.resource_version) <= int(old.resource_version)
