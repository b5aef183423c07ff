"""All controllers over one cache: of claims, of pools, and optionally of templates and of a bound cluster.

``daemons.kube`` calls ``run`` for the life of the process, so that the cache is warm before it leads, and ``lead``
while it leads. ::

    reflectors, answers --> cache --> pools with work --> claims: several decisions at a time --> apply
                                                     \\--> pools: one status for many claims -----^

Invariant: no decision is made before all kinds have been listed.
"""

import asyncio
import functools

from gantry.kubernetes.api import capi, data, definitions, ipam, meta
from gantry.kubernetes.apiserver import webhook
from gantry.kubernetes.claims import cache
from gantry.kubernetes.controllers import (
    apply,
    claims,
    client,
    cluster_ports,
    cluster_sync,
    events,
    metrics,
    pools,
    reflector,
    templates,
)
from gantry.runtime import interface

CONCURRENCY = 16
"""Decisions that are applied at a time."""

_FOREIGN = (
    (capi.GROUP, "IPAddressClaim"),
    (capi.GROUP, "IPAddress"),
    (capi.CLUSTER_GROUP, "Cluster"),
    (data.GROUP, "Metal3Cluster"),
)
_OWN = ((ipam.GROUP, "IPPool"), (ipam.GROUP, "IPAddress"), (ipam.GROUP, "IPClaim"))
_TEMPLATES = ((data.GROUP, "Metal3DataTemplate"), (data.GROUP, "Metal3DataClaim"), (data.GROUP, "Metal3Data"))


class Controllers:
    """The controllers over one cache; implements ``reflector.Listener``.

    The template controller is optional; with ``named_by_host`` it names IP claims after hosts.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        server: client.Client,
        *,
        scope: reflector.Scope,
        counts: metrics.Metrics,
        concurrency: int = CONCURRENCY,
        with_templates: bool = False,
        named_by_host: bool = False,
        random_order: bool = False,
        cluster: cluster_ports.ClusterPorts | None = None,
    ) -> None:
        self._cache = cache.Cache(random_order=random_order)
        self._recorder = events.Recorder(runtime, server, counts=counts)
        self._foreign_keys = (*_FOREIGN, *_TEMPLATES) if with_templates else _FOREIGN
        served = {key: definition for key in (*_OWN, *self._foreign_keys) if (definition := definitions.by_kind(*key))}
        self._reflectors = {
            key: reflector.Reflector(runtime, server, definition, scope=scope, listener=self, counts=counts)
            for key, definition in served.items()
        }
        self._cluster_sync: cluster_sync.ClusterSync | None = None
        if cluster:
            identify = functools.partial(cluster_sync.identify, server)
            self._cluster_sync = cluster_sync.ClusterSync(
                runtime, self._cache, cluster, identify=identify, listener=self, recorder=self._recorder
            )
        self._applier = applier = apply.Applier(
            server,
            self._cache,
            scope=scope,
            listener=self,
            recorder=self._recorder,
            version_of=self._version_of,
            cluster=self._cluster_sync,
        )
        self._claims = claims.ClaimController(
            runtime, self._cache, applier, listener=self, concurrency=concurrency, counts=counts
        )
        self._pools = pools.PoolController(runtime, self._cache, applier)
        self._templates: templates.TemplateController | None = None
        if with_templates:
            self._templates = templates.TemplateController(
                runtime, applier, is_cluster_paused=self._cache.clusters.is_paused, named_by_host=named_by_host
            )

    @property
    def admission(self) -> webhook.Application:
        """The admission webhook, over the same cache."""
        return webhook.Application(self._cache, is_ready=lambda: self.is_ready)

    @property
    def is_ready(self) -> bool:
        """Whether all kinds have been listed."""
        return all(kind_reflector.synced.is_set() for kind_reflector in self._reflectors.values())

    def on_update(self, current: meta.Resource) -> None:
        """Handle the current state of an object."""
        self.requeue(self._cache.put(current))
        if self._templates:
            self._templates.on_update(current)

    def on_delete(self, ref: meta.Ref) -> None:
        """Handle the deletion of an object."""
        self.requeue(self._cache.remove(ref))
        if self._templates:
            self._templates.on_delete(ref)

    def knows(self, ref: meta.Ref, version: str) -> bool:
        """Return whether an object is known in this version or a newer one."""
        return self._cache.knows(ref, version)

    def requeue(self, with_work: cache.Pools) -> None:
        """Queue pools that have work."""
        for pool in with_work:
            self._claims.add(pool)
            self._pools.add(pool)

    async def run(self) -> None:
        """List and watch until cancelled.

        Foreign kinds come after our own: once the server serves ours it has loaded its definitions, so a foreign kind
        that is missing then is not installed.
        """
        async with asyncio.TaskGroup() as group:
            first = [kind_reflector for key, kind_reflector in self._reflectors.items() if key in _OWN]
            for kind_reflector in first:
                group.create_task(kind_reflector.run())
            for kind_reflector in first:
                await kind_reflector.synced.wait()
            for key in self._foreign_keys:
                group.create_task(self._reflectors[key].run())

    async def lead(self) -> None:
        """Reconcile until cancelled."""
        for kind_reflector in self._reflectors.values():
            await kind_reflector.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._claims.run())
            group.create_task(self._pools.run())
            if self._cluster_sync:
                group.create_task(self._cluster_sync.run(self._applier))
            if self._templates:
                group.create_task(self._templates.run())

    def _version_of(self, group: str) -> str:
        """Return the API version in which a group is read."""
        return next(
            kind_reflector.version for (its_group, _), kind_reflector in self._reflectors.items() if its_group == group
        )
