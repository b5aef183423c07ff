"""Template cache: observed templates, data claims, data objects, and the IP claims of these.

``templates`` updates it; ``templates`` and ``render_data`` query it. Objects are indexed by the objects they refer to,
so the cost of a change does not depend on the number of objects, except for a template, which affects all of its own.
"""

from typing import TypeVar

from gantry.kubernetes.api import capi, data, ipam, meta
from gantry.kubernetes.claims import actions, template

Kind = TypeVar("Kind", bound=meta.Resource)


class TemplateCache:
    """The objects by identity, and by the objects they refer to."""

    def __init__(self) -> None:
        self._objects: dict[meta.Ref, meta.Resource] = {}
        self._referrers: dict[meta.Ref, set[meta.Ref]] = {}

    def put(self, seen: meta.Resource) -> set[meta.Ref]:
        """Store an object; return the affected templates, data claims and data objects."""
        if seen.is_gone:
            return self.remove(seen.ref)
        named = _references(seen)
        if not named and not isinstance(seen, data.Metal3DataTemplate):
            return self.remove(seen.ref)
        old = self._objects.get(seen.ref)
        touched = self.remove(seen.ref)
        self._objects[seen.ref] = seen
        for one in named:
            self._referrers.setdefault(one, set()).add(seen.ref)
        if isinstance(seen, data.Metal3DataTemplate) and _affects_referrers(old, seen):
            touched |= self._referrers.get(seen.ref, set())
        return touched | _infrastructure_refs({seen.ref, *named})

    def remove(self, ref: meta.Ref) -> set[meta.Ref]:
        """Remove an object; return the affected templates, data claims and data objects."""
        old = self._objects.pop(ref, None)
        named = _references(old) if old else ()
        for one in named:
            self._referrers[one].discard(ref)
            if not self._referrers[one]:
                del self._referrers[one]
        return _infrastructure_refs({ref, *named}) if old else set()

    def get(self, ref: meta.Ref, kind: type[Kind]) -> Kind | None:
        """Return an object, None if it is not cached or of another kind."""
        found = self._objects.get(ref)
        return found if isinstance(found, kind) else None

    def referrers(self, ref: meta.Ref, kind: type[Kind]) -> list[Kind]:
        """Return the objects of a kind that refer to another object, sorted by name."""
        found = (self._objects[one] for one in sorted(self._referrers.get(ref, ())))
        return [one for one in found if isinstance(one, kind)]

    def claims_of(self, datum: data.Metal3Data) -> list[actions.Claim]:
        """Return the claims of a data object."""
        return [*self.referrers(datum.ref, ipam.IPClaim), *self.referrers(datum.ref, capi.IPAddressClaim)]


def _references(seen: meta.Resource) -> tuple[meta.Ref, ...]:
    """Return what an object refers to: a data object to template and data claim, a claim to its data object."""
    namespace = seen.metadata.namespace
    if isinstance(seen, data.Metal3DataClaim | data.Metal3Data):
        named = ref("Metal3DataTemplate", namespace, seen.spec.template.name)
        if isinstance(seen, data.Metal3Data):
            return named, ref("Metal3DataClaim", namespace, seen.spec.claim.name)
        return (named,)
    name = seen.metadata.labels.get(template.DATA_LABEL, "")
    is_claim = isinstance(seen, ipam.IPClaim | capi.IPAddressClaim)
    return (ref("Metal3Data", namespace, name),) if is_claim and name else ()


def _affects_referrers(old: meta.Resource | None, new: data.Metal3DataTemplate) -> bool:
    """Return whether a change of a template affects the objects that refer to it."""
    if not isinstance(old, data.Metal3DataTemplate):
        return True
    return (old.spec, old.is_paused, old.is_deleting) != (new.spec, new.is_paused, new.is_deleting)


def _infrastructure_refs(refs: set[meta.Ref]) -> set[meta.Ref]:
    return {one for one in refs if one.group == data.GROUP}


def ref(kind: str, namespace: str, name: str) -> meta.Ref:
    """Return the identity of an object of Metal3's infrastructure group."""
    return meta.Ref(data.GROUP, kind, namespace, name)
