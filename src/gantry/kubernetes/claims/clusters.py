"""Observed Clusters and their members: pools and claims, which are paused with their Cluster.

``cache`` calls it. A member may refer to a Cluster that is observed later or never.
"""

from gantry.kubernetes.api import capi, meta


class Clusters:
    """The Clusters and their members."""

    __slots__ = ("_members", "_seen")

    def __init__(self) -> None:
        self._seen: dict[meta.Ref, capi.Cluster] = {}
        self._members: dict[meta.Ref, set[meta.Ref]] = {}

    def __contains__(self, ref: meta.Ref) -> bool:
        return ref in self._seen

    def get(self, namespace: str, name: str) -> capi.Cluster | None:
        """Return a Cluster, None if it has not been observed."""
        return self._seen.get(capi.cluster_ref(namespace, name))

    def is_paused(self, namespace: str, name: str) -> bool:
        """Return whether a Cluster is paused; a missing Cluster or an empty name is not."""
        cluster = self.get(namespace, name)
        return cluster is not None and cluster.is_cluster_paused

    def put(self, cluster: capi.Cluster) -> set[meta.Ref]:
        """Store a Cluster; return the affected members: all if it appears, is paused or is resumed."""
        old = self._seen.get(cluster.ref)
        self._seen[cluster.ref] = cluster
        return (
            set()
            if old and old.is_cluster_paused == cluster.is_cluster_paused
            else self._members.get(cluster.ref, set())
        )

    def remove(self, ref: meta.Ref) -> set[meta.Ref]:
        """Remove a Cluster; return its members."""
        del self._seen[ref]
        return self._members.get(ref, set())

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
