"""Built-in admission (contracts/ippool-claims.md#admission): applies the admission rules to the objects of the store.

``validation`` calls it before an object is stored; ``garbage_collector`` passes stored changes to it. Addresses are
indexed by pool, so that the check of a pool does not scan all of them.
"""

import logging
from collections.abc import Callable, Iterable

from gantry import errors
from gantry.kubernetes.api import capi, definitions, ipam, meta, schema
from gantry.kubernetes.apiserver import resources, watch_cache
from gantry.kubernetes.claims import actions, admission

log = logging.getLogger(__name__)

_ADDRESSES = {
    f"ipaddresses.{group}": kind for group, kind in ((ipam.GROUP, ipam.IPAddress), (capi.GROUP, capi.IPAddress))
}
_CLAIMS = f"ipaddressclaims.{capi.GROUP}"
POOLS = f"ippools.{ipam.GROUP}"


class Admission:
    """Applies the admission rules; ``find`` returns a stored object."""

    def __init__(self, find: Callable[[watch_cache.Key], watch_cache.Item | None]) -> None:
        self._find = find
        self._addresses: dict[meta.Ref, dict[watch_cache.Key, actions.Address]] = {}
        self._pool_by_key: dict[watch_cache.Key, meta.Ref] = {}

    def update(self, item: watch_cache.Item, *, gone: bool) -> None:
        """Update the index of addresses after a stored change."""
        kind = _ADDRESSES.get(item.key.title)
        if kind is None:
            return
        pool = self._pool_by_key.get(item.key)
        if gone and pool:
            addresses = self._addresses[pool]
            del self._pool_by_key[item.key], addresses[item.key]
            if not addresses:
                del self._addresses[pool]
        elif not gone and not pool:
            # The fields that are used here are immutable.
            try:
                address = meta.decode(item.body, kind)
            except errors.InvalidError as error:
                key = item.key
                log.warning("ignoring unreadable address %s %s/%s: %s", key.title, key.namespace, key.name, error)
                return
            assert isinstance(address, ipam.IPAddress | capi.IPAddress)
            self._pool_by_key[item.key] = address.pool
            self._addresses.setdefault(address.pool, {})[item.key] = address

    def _addresses_in(self, pool: meta.Ref) -> Iterable[actions.Address]:
        return self._addresses.get(pool, {}).values()

    def _claim_of(self, claim: meta.Ref) -> meta.Resource | None:
        item = self._find(watch_cache.Key(_CLAIMS, claim.namespace, claim.name))
        return meta.decode(item.body, capi.IPAddressClaim) if item else None

    def review(
        self, definition: definitions.Definition, new: schema.Json, old: schema.Json | None
    ) -> list[schema.Cause]:
        """Return why an object that fits its schema is rejected; InvalidError if it cannot be read."""
        before = meta.read(old, definition.resource) if old else None
        after = meta.read(new, definition.resource)
        return admission.review(after, before, in_use=self._addresses_in, claim_of=self._claim_of)


def warnings(new: schema.Json, existing_pools: Iterable[watch_cache.Item]) -> list[str]:
    """Return warnings about possible mistakes in a pool."""
    pools = []
    for item in existing_pools:
        try:
            pools.append(meta.read(_value(item), ipam.IPPool))
        except errors.InvalidError:
            continue
    return admission.warnings(meta.read(new, ipam.IPPool), pools)


def _value(item: watch_cache.Item) -> schema.Json:
    return resources.value(item.body)
