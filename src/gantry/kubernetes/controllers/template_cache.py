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

    def put(self, new: meta.Resource) -> set[meta.Ref]:
        """Store an object; return the affected templates, data claims and data objects."""
        if new.is_gone:
            return self.remove(new.ref)
        references = _references(new)
        if not references and not isinstance(new, data.Metal3DataTemplate):
            return self.remove(new.ref)
        old = self._objects.get(new.ref)
        affected = self.remove(new.ref)
        self._objects[new.ref] = new
        for ref in references:
            self._referrers.setdefault(ref, set()).add(new.ref)
        if isinstance(new, data.Metal3DataTemplate) and _affects_referrers(old, new):
            affected |= self._referrers.get(new.ref, set())
        return affected | _infrastructure_refs({new.ref, *references})

    def remove(self, ref: meta.Ref) -> set[meta.Ref]:
        """Remove an object; return the affected templates, data claims and data objects."""
        old = self._objects.pop(ref, None)
        references = _references(old) if old else ()
        for reference in references:
            self._referrers[reference].discard(ref)
            if not self._referrers[reference]:
                del self._referrers[reference]
        if isinstance(old, data.Metal3DataClaim):
            # Data objects that are being deleted wait for their data claim.
            references = (*references, *self._referrers.get(ref, ()))
        return _infrastructure_refs({ref, *references}) if old else set()

    def get(self, ref: meta.Ref, kind: type[Kind]) -> Kind | None:
        """Return an object, None if it is not cached or of another kind."""
        cached = self._objects.get(ref)
        return cached if isinstance(cached, kind) else None

    def referrers(self, ref: meta.Ref, kind: type[Kind]) -> list[Kind]:
        """Return the objects of a kind that refer to another object, sorted by name."""
        objects = (self._objects[referrer] for referrer in sorted(self._referrers.get(ref, ())))
        return [referrer for referrer in objects if isinstance(referrer, kind)]

    def claims_of(self, datum: data.Metal3Data) -> list[actions.Claim]:
        """Return the claims of a data object."""
        return [*self.referrers(datum.ref, ipam.IPClaim), *self.referrers(datum.ref, capi.IPAddressClaim)]


def _references(new: meta.Resource) -> tuple[meta.Ref, ...]:
    """Return what an object refers to: a data object to template and data claim, a claim to its data object."""
    namespace = new.metadata.namespace
    if isinstance(new, data.Metal3DataClaim | data.Metal3Data):
        template_ref = ref("Metal3DataTemplate", namespace, new.spec.template.name)
        if isinstance(new, data.Metal3Data):
            return template_ref, ref("Metal3DataClaim", namespace, new.spec.claim.name)
        return (template_ref,)
    name = new.metadata.labels.get(template.DATA_LABEL, "")
    is_claim = isinstance(new, ipam.IPClaim | capi.IPAddressClaim)
    return (ref("Metal3Data", namespace, name),) if is_claim and name else ()


def _affects_referrers(old: meta.Resource | None, new: data.Metal3DataTemplate) -> bool:
    """Return whether a change of a template affects the objects that refer to it."""
    if not isinstance(old, data.Metal3DataTemplate):
        return True
    return (old.spec, old.is_paused, old.is_deleting) != (new.spec, new.is_paused, new.is_deleting)


def _infrastructure_refs(refs: set[meta.Ref]) -> set[meta.Ref]:
    return {ref for ref in refs if ref.group == data.GROUP}


def ref(kind: str, namespace: str, name: str) -> meta.Ref:
    """Return the identity of an object of Metal3's infrastructure group."""
    return meta.Ref(data.GROUP, kind, namespace, name)
