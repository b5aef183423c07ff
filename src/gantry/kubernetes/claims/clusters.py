"""Observed Clusters and their members: pools and claims, which are paused with their Cluster.

``cache`` calls it. A member may refer to a Cluster that is observed later or never.
"""

from gantry.kubernetes.api import capi, data, meta

METAL3_CLUSTER = "Metal3Cluster"


class Clusters:
    """The Clusters, their Metal3Clusters and their members."""

    __slots__ = ("_infrastructure", "_members", "_seen")

    def __init__(self) -> None:
        self._seen: dict[meta.Ref, capi.Cluster] = {}
        self._infrastructure: dict[meta.Ref, data.Metal3Cluster] = {}
        self._members: dict[meta.Ref, set[meta.Ref]] = {}

    def __contains__(self, ref: meta.Ref) -> bool:
        return ref in self._seen or ref in self._infrastructure

    def get(self, namespace: str, name: str) -> capi.Cluster | None:
        """Return a Cluster, None if it has not been observed."""
        return self._seen.get(capi.cluster_ref(namespace, name))

    def owners(self, namespace: str, name: str) -> list[meta.Resource]:
        """Return the owners of a Cluster's pools: the Cluster, and the Metal3Cluster that it is built by, if any."""
        cluster = self.get(namespace, name)
        infrastructure = self._infrastructure_of(cluster) if cluster else None
        return [owner for owner in (cluster, infrastructure) if owner]

    def _infrastructure_of(self, cluster: capi.Cluster) -> data.Metal3Cluster | None:
        ref = _infrastructure_ref(cluster)
        return self._infrastructure.get(ref) if ref else None

    def is_paused(self, namespace: str, name: str) -> bool:
        """Return whether a Cluster is paused; a missing Cluster or an empty name is not."""
        cluster = self.get(namespace, name)
        return cluster is not None and cluster.is_cluster_paused

    def put(self, resource: capi.Cluster | data.Metal3Cluster) -> set[meta.Ref]:
        """Store an object; return the affected members: all if it appears, is paused, is resumed or changes
        its infrastructure."""
        if isinstance(resource, data.Metal3Cluster):
            before = self._infrastructure.get(resource.ref)
            self._infrastructure[resource.ref] = resource
            return set() if before and before.metadata.uid == resource.metadata.uid else self._built_by(resource.ref)
        old = self._seen.get(resource.ref)
        self._seen[resource.ref] = resource
        return set() if old and _effects(old) == _effects(resource) else self._members.get(resource.ref, set())

    def remove(self, ref: meta.Ref) -> set[meta.Ref]:
        """Remove a Cluster or a Metal3Cluster; return the members that this affects."""
        if ref in self._infrastructure:
            del self._infrastructure[ref]
            return set()
        del self._seen[ref]
        return self._members.get(ref, set())

    def _built_by(self, infrastructure: meta.Ref) -> set[meta.Ref]:
        """Return the members of the Clusters that a Metal3Cluster builds."""
        clusters = (cluster for cluster in self._seen.values() if _infrastructure_ref(cluster) == infrastructure)
        return {member for cluster in clusters for member in self._members.get(cluster.ref, ())}

    def join(self, namespace: str, name: str, *, member: meta.Ref) -> None:
        """Add a member to a Cluster; no-op if the name is empty."""
        if name:
            self._members.setdefault(capi.cluster_ref(namespace, name), set()).add(member)

    def leave(self, namespace: str, name: str, *, member: meta.Ref) -> None:
        """Remove a member from a Cluster."""
        ref = capi.cluster_ref(namespace, name)
        members = self._members.get(ref, set())
        members.discard(member)
        if not members:
            self._members.pop(ref, None)


def _infrastructure_ref(cluster: capi.Cluster) -> meta.Ref | None:
    """Return the Metal3Cluster that builds a Cluster, None if another provider does."""
    reference = cluster.spec.infrastructure_ref
    if reference.kind != METAL3_CLUSTER:
        return None
    return data.metal3_cluster_ref(cluster.metadata.namespace, reference.name)


def _effects(cluster: capi.Cluster) -> tuple[bool, capi.InfrastructureRef]:
    """Return the parts of a Cluster that its members depend on."""
    return cluster.is_cluster_paused, cluster.spec.infrastructure_ref
