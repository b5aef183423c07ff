"""The admission rules, built in (contract: kubernetes 1.3, S16), and what they have to know of other objects.

Who calls it: ``write``, before an object of the definitions is stored; ``store`` tells it what has been. It keeps the
addresses by their pool, so that a pool can be checked against them without looking at all.
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


class Guard:
    """Says why an object may not become so; ``find`` returns an object that is stored."""

    def __init__(self, find: Callable[[watch_cache.Key], watch_cache.Item | None]) -> None:
        self._find = find
        self._held: dict[meta.Ref, dict[watch_cache.Key, actions.Address]] = {}
        self._pools: dict[watch_cache.Key, meta.Ref] = {}

    def see(self, item: watch_cache.Item, *, gone: bool) -> None:
        """Take notice of an object that has been stored."""
        kind = _ADDRESSES.get(item.key.title)
        if kind is None:
            return
        known = self._pools.get(item.key)
        if gone and known:
            held = self._held[known]
            del self._pools[item.key], held[item.key]
            if not held:
                del self._held[known]
        elif not gone and not known:
            # What concerns us of an address stays as it is.
            try:
                address = meta.decode(item.body, kind)
            except errors.InvalidError as error:
                log.warning("%s %s/%s is in no pool: %s", item.key.title, item.key.namespace, item.key.name, error)
                return
            assert isinstance(address, ipam.IPAddress | capi.IPAddress)
            self._pools[item.key] = address.pool
            self._held.setdefault(address.pool, {})[item.key] = address

    def _in_use(self, pool: meta.Ref) -> Iterable[actions.Address]:
        return self._held.get(pool, {}).values()

    def _claim_of(self, claim: meta.Ref) -> meta.Resource | None:
        item = self._find(watch_cache.Key(_CLAIMS, claim.namespace, claim.name))
        return meta.decode(item.body, capi.IPAddressClaim) if item else None

    def review(
        self, definition: definitions.Definition, new: schema.Json, old: schema.Json | None
    ) -> list[schema.Cause]:
        """Return why an object, which fits its schema, may not become so; InvalidError if it cannot be read."""
        before = meta.read(old, definition.resource) if old else None
        after = meta.read(new, definition.resource)
        return admission.review(after, before, in_use=self._in_use, claim_of=self._claim_of)


def warnings(new: schema.Json, others: Iterable[watch_cache.Item]) -> list[str]:
    """Return what is allowed of a pool and may be a mistake."""
    pools = []
    for one in others:
        try:
            pools.append(meta.read(_value(one), ipam.IPPool))
        except errors.InvalidError:
            continue
    return admission.warnings(meta.read(new, ipam.IPPool), pools)


def _value(item: watch_cache.Item) -> schema.Json:
    return resources.value(item.body)
