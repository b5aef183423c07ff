"""Clusters that have been seen, and who belongs to them: pools and claims, which rest while their Cluster does.

Who calls it: ``index``. Members may name a Cluster before it is seen, or one that never is.
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
        """Return a Cluster, None if it has not been seen."""
        return self._seen.get(capi.cluster_ref(namespace, name))

    def rests(self, namespace: str, name: str) -> bool:
        """Tell whether a Cluster is paused; one that is not there, or without a name, is not."""
        seen = self.get(namespace, name)
        return seen is not None and seen.rests

    def put(self, seen: capi.Cluster) -> set[meta.Ref]:
        """Note a Cluster; return the members whom that concerns: all when it appears, pauses or resumes."""
        old = self._seen.get(seen.ref)
        self._seen[seen.ref] = seen
        return set() if old and old.rests == seen.rests else self._members.get(seen.ref, set())

    def remove(self, ref: meta.Ref) -> set[meta.Ref]:
        """Note that a Cluster has gone; return its members."""
        del self._seen[ref]
        return self._members.get(ref, set())

    def join(self, namespace: str, name: str, *, member: meta.Ref) -> None:
        """Note that an object belongs to a Cluster; nothing if the name is empty."""
        if name:
            self._members.setdefault(capi.cluster_ref(namespace, name), set()).add(member)

    def leave(self, namespace: str, name: str, *, member: meta.Ref) -> None:
        """Note that an object does not belong to a Cluster any more."""
        ref = capi.cluster_ref(namespace, name)
        members = self._members.get(ref, set())
        members.discard(member)
        if not members:
            self._members.pop(ref, None)
