"""Template controller: creates a data object with a unique index for each data claim.

``controllers`` runs it if enabled; where Metal3's own provider runs, that does this work. ::

    Metal3DataClaim --> Metal3Data <template>-<index> --> render_data: claims, Secrets
    deleted             deleted, with its claims      --> finalizer of the data claim

A data claim gets the lowest free index. Two that choose the same index collide in the name of the data object, and the
second one chooses again.

See contracts/ippool-claims.md#templates.
"""

import datetime
from collections.abc import Callable, Mapping

from gantry.kubernetes.api import data, meta, schema
from gantry.kubernetes.claims import actions, template
from gantry.kubernetes.controllers import apply, render_data, template_cache, workqueue
from gantry.runtime import interface

CLAIM_FINALIZER = render_data.DATA_CLAIM_FINALIZER
WORKERS = 8
STATUS_DELAY_SECONDS = 1.0
"""Seconds from a change to the status update of its template."""
PAUSED_RECHECK_SECONDS = 30.0
"""Seconds until a paused object is checked again."""


class TemplateController:
    """Controls data claims and templates here, and data objects by ``render_data``."""

    def __init__(
        self,
        runtime: interface.Runtime,
        applier: apply.Applier,
        *,
        is_cluster_paused: Callable[[str, str], bool],
        named_by_host: bool,
    ) -> None:
        """``is_cluster_paused`` returns whether a Cluster, by namespace and name, is paused."""
        self._runtime = runtime
        self._applier = applier
        self._is_cluster_paused = is_cluster_paused
        self._cache = template_cache.TemplateCache()
        self._queue: workqueue.WorkQueue[meta.Ref] = workqueue.WorkQueue(runtime)
        self._renderer = render_data.Renderer(applier, self._cache, named_by_host=named_by_host)

    def on_update(self, current: meta.Resource) -> None:
        """Handle the current state of an object."""
        self._add(self._cache.put(current))

    def on_delete(self, ref: meta.Ref) -> None:
        """Handle the deletion of an object."""
        self._add(self._cache.remove(ref))

    def _add(self, refs: set[meta.Ref]) -> None:
        for ref in refs:
            # The only work on a template is its status: one update for many changes.
            self._queue.add(ref, after=STATUS_DELAY_SECONDS if ref.kind == "Metal3DataTemplate" else 0.0)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._queue.run(self._reconcile, workers=WORKERS)

    async def _reconcile(self, ref: meta.Ref) -> None:
        """Reconcile an object; the work queue retries after errors."""
        parent = self._template(ref)
        if parent and (parent.is_paused or self._is_cluster_paused(ref.namespace, parent.spec.cluster_name)):
            self._queue.add(ref, after=PAUSED_RECHECK_SECONDS)
        elif ref.kind == "Metal3Data":
            await self._renderer.render(ref)
        elif ref.kind == "Metal3DataClaim":
            claim = self._cache.get(ref, data.Metal3DataClaim)
            if claim and not claim.is_paused:
                await self._reconcile_claim(claim, parent)
        elif parent and not parent.is_deleting:
            await self._applier.apply(_status(parent, self._cache.referrers(ref, data.Metal3Data), self._now))

    def _template(self, ref: meta.Ref) -> data.Metal3DataTemplate | None:
        """Return the template that an object is or refers to, None if it is not cached."""
        dependent = self._cache.get(ref, data.Metal3Data) or self._cache.get(ref, data.Metal3DataClaim)
        template_ref = (
            template_cache.ref("Metal3DataTemplate", ref.namespace, dependent.spec.template.name) if dependent else ref
        )
        return self._cache.get(template_ref, data.Metal3DataTemplate)

    async def _reconcile_claim(self, claim: data.Metal3DataClaim, parent: data.Metal3DataTemplate | None) -> None:
        """Do the next step for a data claim; the answer requeues it."""
        datum = next(iter(self._cache.referrers(claim.ref, data.Metal3Data)), None)
        if claim.is_deleting:
            await self._applier.apply(_delete_steps(claim, datum))
        elif CLAIM_FINALIZER not in claim.metadata.finalizers:
            await self._applier.apply((actions.with_finalizer(claim, CLAIM_FINALIZER),))
        elif datum is None and parent and not parent.is_deleting:
            siblings = self._cache.referrers(parent.ref, data.Metal3Data)
            await self._applier.create(
                _data_object(parent, claim, template.next_index(sibling.spec.index for sibling in siblings))
            )
        elif datum and claim.status.rendered_data.name != datum.metadata.name:
            where: schema.Json = {"name": datum.metadata.name, "namespace": datum.metadata.namespace}
            await self._applier.apply((actions.patch_status(claim, {"renderedData": where, "errorMessage": None}),))

    @property
    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)


def _delete_steps(claim: data.Metal3DataClaim, datum: data.Metal3Data | None) -> tuple[actions.Action, ...]:
    """Return the next step of deleting a data claim: its data object first, then its finalizer.

    None while the claim has a foreign finalizer: its host may still use the addresses.
    """
    if render_data.has_foreign_finalizer(claim):
        return ()
    if datum is None:
        has_finalizer = CLAIM_FINALIZER in claim.metadata.finalizers
        return (actions.without_finalizer(claim, CLAIM_FINALIZER),) if has_finalizer else ()
    return () if datum.is_deleting else (actions.Delete(datum.ref, datum.api_version, datum.metadata.uid),)


def _data_object(parent: data.Metal3DataTemplate, claim: data.Metal3DataClaim, index: int) -> data.Metal3Data:
    name, namespace = parent.metadata.name, parent.metadata.namespace
    cluster = parent.spec.cluster_name or claim.metadata.labels.get(meta.CLUSTER_LABEL, "")
    owners = tuple(
        meta.OwnerReference(
            api_version=owner.api_version,
            kind=owner.kind,
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            controller=owner is claim,
        )
        for owner in (parent, claim)
    )
    return data.Metal3Data(
        api_version=claim.api_version,
        kind="Metal3Data",
        metadata=meta.ObjectMeta(
            name=f"{name}-{index}",
            namespace=namespace,
            labels={**claim.metadata.labels, **({meta.CLUSTER_LABEL: cluster} if cluster else {})},
            finalizers=(data.FINALIZER,),
            owner_references=owners,
        ),
        spec=data.DataSpec(
            index=index,
            claim=meta.ObjectReference(name=claim.metadata.name, namespace=namespace),
            template=meta.ObjectReference(name=name, namespace=namespace),
        ),
    )


def _status(
    parent: data.Metal3DataTemplate, siblings: list[data.Metal3Data], now: datetime.datetime
) -> tuple[actions.Action, ...]:
    """Return the status update of a template with the indexes in use, as its version has them; nothing if up to date.

    ``dataNames`` is Metal3's field; a server whose definition lacks it prunes it, and it is not written again.
    """
    ordered = sorted(siblings, key=lambda datum: datum.spec.index)
    used = {datum.spec.claim.name: datum.spec.index for datum in ordered}
    names = {datum.spec.claim.name: datum.metadata.name for datum in ordered}
    old, new = parent.status.indexes, _indexes(parent.api_version, used)
    written_names = parent.status.data_names
    if (old or type(new)()) == new and written_names in ({}, names):
        return ()
    status: schema.Json = {
        "indexes": new,
        "dataNames": _map_patch(written_names, names),
        "lastUpdated": meta.stamp(now),
    }
    if isinstance(new, dict):
        status["indexes"] = _map_patch(old, new)
    return (actions.patch_status(parent, status),)


def _indexes(api_version: str, used: Mapping[str, int]) -> schema.Json | list[schema.Json]:
    """Return the indexes by data claim name, in the form of an API version."""
    if api_version.endswith("v1beta2"):
        return [{"name": name, "index": index} for name, index in used.items()]
    return dict(used)


def _map_patch(old: object, new: Mapping[str, object]) -> schema.Json:
    """Return the merge patch that replaces a map, with a null for each removed key."""
    removed = {name: None for name in old if name not in new} if isinstance(old, dict) else {}
    return {**removed, **new}
