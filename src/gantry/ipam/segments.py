"""The ledger of segmentation ids: which projects may allocate them, which are used, and which jobs hold.

As with addresses the state is the record: a network has a segment, a range is an object. Beside the state this ledger
keeps the ids of each network type and physical network. It follows every change, so the cost of finding the next free
id does not depend on the number of ids, ranges and networks. Between a plan and its transaction the job holds the ids
that the plan allocates or releases; held ids count as used, for allocations and for changes of their range.

Which ranges an id comes from (contracts/segment-ranges.md#allocation): with the feature on, from the project's own
ranges, over all network types and physical networks. If the project has no matching range, the id comes from the shared
ranges, without the ids of other projects' ranges; so it does when the project's own ranges are used up, unless
``Cluster.segment_fallback`` is off. With the feature off, ids come only from the ranges of the configuration file.

``embedded.Ledger`` owns the ``Segments`` and passes on changes and holds; units call ``pick`` and ``check_free``, and
the query of ranges reads the ids of each scope.
"""

import bisect
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges, segments
from gantry.model import cluster as clusters
from gantry.model import network
from gantry.state.objects import conflicts
from gantry.state.objects import snapshot as states

Scope = tuple[str, str]
"""The scope of a range: network type and physical network."""

ORDER = {name: index for index, name in enumerate(segments.LIMITS)}


@dataclass(frozen=True)
class Request:
    """The requested segment of a network; the ranges determine what is empty or None."""

    network_type: str = ""
    physical_network: str = ""
    segmentation_id: int | None = None

    def fits(self, scope: Scope) -> bool:
        """Return whether a scope matches the request."""
        return self.network_type in ("", scope[0]) and self.physical_network in ("", scope[1])

    def __str__(self) -> str:
        kind = f"{self.network_type} " if self.network_type else ""
        return f"{kind}segment" + (f" of physical network {self.physical_network}" if self.physical_network else "")


class Segments:
    """The segmentation ids of a state, and those that jobs hold."""

    def __init__(self) -> None:
        self._ids: dict[Scope, segments.ScopeIds] = {}
        self._physical: dict[str, list[str]] = {}
        self._of_project: dict[str, set[Scope]] = {}
        self._holds: dict[int, list[network.Segment]] = {}

    def rebuild(self, state: states.Snapshot) -> None:
        """Rebuild the ledger from a state; jobs keep the ids that they hold."""
        self._ids, self._physical, self._of_project = {}, {}, {}
        for segment_range in state.segmentranges.values():
            self._share(segment_range)
        for net in state.networks.values():
            self._mark(net, used=True)
        for job, held_segments in self._holds.items():
            for segment in held_segments:
                self._at(segment).hold(segment.segmentation_id, job)

    def follow(self, before: states.Snapshot, after: states.Snapshot, changed: Mapping[str, Set[str]]) -> None:
        """Update the ledger from one snapshot to the next; ``changed`` has the keys of changed objects by kind."""
        if ids := changed.get("segmentranges"):
            moved = [
                (old, new)
                for key in ids
                if _extent(old := before.segmentranges.get(key)) != _extent(new := after.segmentranges.get(key))
            ]
            for old, _ in moved:
                self._unshare(old)
            for _, new in moved:
                self._share(new)
        if nets := changed.get("networks"):
            for state, used in ((before, False), (after, True)):
                for key in nets:
                    self._mark(state.networks.get(key), used=used)

    def _share(self, segment_range: network.SegmentRange | None) -> None:
        if segment_range is not None:
            self._ids_at(scope_of(segment_range)).add(_claim(segment_range))
            if segment_range.project:
                self._of_project.setdefault(segment_range.project, set()).add(scope_of(segment_range))

    def _unshare(self, segment_range: network.SegmentRange | None) -> None:
        if segment_range is not None:
            ids = self._ids_at(scope_of(segment_range))
            ids.remove(_claim(segment_range))
            if segment_range.project and not ids.has(segment_range.project):
                self._of_project[segment_range.project].discard(scope_of(segment_range))

    def _mark(self, net: network.Network | None, *, used: bool) -> None:
        if net is None or net.segment is None:
            return
        ids = self._at(net.segment)
        if used:
            ids.allocate(net.segment.segmentation_id)
        else:
            ids.release(net.segment.segmentation_id)

    def hold(self, job: int, before: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Hold the segments before and after the changes of a job: until ``release``, no other plan allocates them."""
        for change in changes:
            if change.kind == "networks":
                new = change.value if isinstance(change, states.Put) else None
                for net in (before.networks.get(change.key), new):
                    if isinstance(net, network.Network) and net.segment:
                        self._at(net.segment).hold(net.segment.segmentation_id, job)
                        self._holds.setdefault(job, []).append(net.segment)

    def release(self, job: int) -> None:
        """End the holds of a job."""
        for segment in self._holds.pop(job, ()):
            self._at(segment).end_hold(segment.segmentation_id)

    def _at(self, segment: network.Segment) -> segments.ScopeIds:
        return self._ids_at((segment.network_type, segment.physical_network))

    def _ids_at(self, scope: Scope) -> segments.ScopeIds:
        ids = self._ids.get(scope)
        if ids is None:
            ids = self._ids[scope] = segments.ScopeIds(scope[0])
            bisect.insort(self._physical.setdefault(scope[0], []), scope[1])
        return ids

    def ids_of(self, segment_range: network.SegmentRange) -> segments.ScopeIds:
        """Return the ids of a range's network type and physical network."""
        return self._ids_at(scope_of(segment_range))

    def is_known(self, scope: Scope) -> bool:
        """Return whether a range has this scope."""
        ids = self._ids.get(scope)
        return ids is not None and not ids.is_unclaimed()

    def pick(self, cluster: clusters.Cluster, request: Request, *, project: str) -> network.Segment:
        """Return the next free segment for a network of a project, or of no project (""); NoRoomError."""
        for scope, number in self._free(cluster, request, project):
            if number is not None:
                return network.Segment(network_type=scope[0], physical_network=scope[1], segmentation_id=number)
        raise self._exhausted(cluster, request, project)

    def _free(self, cluster: clusters.Cluster, request: Request, project: str) -> Iterator[tuple[Scope, int | None]]:
        """Yield the scopes that the network may use, in order, with the next free id of each, None if none is free."""
        everywhere = self._everywhere(cluster, request)
        if not cluster.segment_ranges:
            for scope in everywhere:
                yield scope, self._ids[scope].next_configured()
            return
        own_scopes = self._own(cluster, request, project)
        for scope in own_scopes:
            yield scope, self._ids[scope].next_free(project)
        if not own_scopes or cluster.segment_fallback:
            for scope in everywhere:
                yield scope, self._ids[scope].next_free(segments.SHARED)

    def _own(self, cluster: clusters.Cluster, request: Request, project: str) -> list[Scope]:
        """Return the scopes of a project's matching ranges; their type need not be a tenant network type."""
        matching = filter(request.fits, self._of_project.get(project, ()) if project else ())
        return sorted(matching, key=lambda scope: (_rank(cluster, scope[0]), ORDER[scope[0]], scope[1]))

    def _everywhere(self, cluster: clusters.Cluster, request: Request) -> Iterator[Scope]:
        """Yield the matching scopes of the requested type, or else of the tenant network types in their order."""
        types = (request.network_type,) if request.network_type else cluster.tenant_network_types or tuple(ORDER)
        for kind in types:
            names = self._physical.get(kind, ())
            yield from ((kind, name) for name in names if request.physical_network in ("", name))

    def _exhausted(self, cluster: clusters.Cluster, request: Request, project: str) -> errors.NoRoomError:
        if not any(self._physical.values()):
            return errors.NoRoomError(
                "the cluster has no segment ranges yet", hint="an administrator sets them: gantry segment set --help"
            )
        own_scopes = cluster.segment_ranges and self._own(cluster, request, project)
        is_isolated = own_scopes and not cluster.segment_fallback
        whose = f"the ranges of project {project}" if is_isolated else "the ranges that the network may use"
        hint = "gantry segment range list shows the ranges; "
        if is_isolated:
            hint += (
                "enlarge a range, or let projects use the shared ranges too: gnt-cluster modify --segment-fallback yes"
            )
        elif cluster.segment_ranges:
            hint += "create a range, or enlarge a range"
        else:
            hint += (
                "only the ranges of segments.ini apply, unless gnt-cluster modify --segment-ranges yes; "
                "gantry segment set creates default ranges without that file"
            )
        return errors.NoRoomError(f"there is no free {request} in {whose}", hint=hint)

    def check_free(self, state: states.Snapshot, segment: network.Segment) -> None:
        """Refuse a segment that a network has (NotUniqueError) or that a job holds (BusyError)."""
        owner = state.segments.get(segment.key)
        if owner is not None:
            raise conflicts.segment_in_use(segment, owner=state.networks[owner])
        job = self._at(segment).held.get(segment.segmentation_id)
        if job is not None:
            raise errors.BusyError(
                f"{segment.network_type} segment {segment.segmentation_id} is held by job {job}, "
                "which is still running",
                hint=f"wait for the job (gnt-job watch {job}), or choose another segmentation id",
            )


def scope_of(segment_range: network.SegmentRange) -> Scope:
    """Return the scope of a range."""
    return segment_range.network_type, segment_range.physical_network


def run_of(segment_range: network.SegmentRange) -> ranges.Range:
    """Return the ids of a range."""
    return ranges.Range(segment_range.minimum, segment_range.maximum)


def _claim(segment_range: network.SegmentRange) -> segments.Claim:
    return segments.Claim(
        run_of(segment_range), owner=segment_range.project, default=segment_range.default, key=segment_range.uuid
    )


def _extent(segment_range: network.SegmentRange | None) -> tuple[Scope, segments.Claim] | None:
    return (scope_of(segment_range), _claim(segment_range)) if segment_range else None


def _rank(cluster: clusters.Cluster, network_type: str) -> int:
    """Return the index of a type among the tenant network types; their number if it is not a tenant network type."""
    types = cluster.tenant_network_types
    return types.index(network_type) if network_type in types else len(types)
