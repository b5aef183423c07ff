"""The ledger of segmentation ids: who may take which, which are used, which are held for a running job.

As with addresses the state is the record: a network has its segment, a range is an object. Beside it this keeps a
``Place`` for each network type and physical network, and follows every change, so that the next free id is found at
the same cost however many ids, ranges and networks there are. Between a plan and its transaction an id that the plan
takes or gives up is held for its job; held ids count as used, for picks and for what becomes of their range.

Which ranges an id comes from (contracts/segment-ranges.md#allocation): with the feature on from the project's own,
over all network types and physical networks; if it has none of what is asked for, from the shared ones, without what
is another's own; ``Cluster.segment_fallback`` lets it go on to those when its own are used up. With the feature off
from those of the configuration file alone.

``embedded.Ledger`` owns the ``Segments`` and passes on what changes and what is held; units call ``pick`` and
``check_free``, the query of ranges reads its places.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges, segments
from gantry.model import cluster as clusters
from gantry.model import network
from gantry.state import integrity
from gantry.state import snapshot as states

Key = tuple[str, str]
"""A place: network type and physical network."""

ORDER = {name: index for index, name in enumerate(segments.LIMITS)}


@dataclass(frozen=True)
class Wish:
    """What a network's segment has to be; what is empty or None is left to the ranges."""

    network_type: str = ""
    physical_network: str = ""
    segmentation_id: int | None = None

    def fits(self, key: Key) -> bool:
        """Tell whether a place is one of those that are asked for."""
        return self.network_type in ("", key[0]) and self.physical_network in ("", key[1])

    def __str__(self) -> str:
        kind = f"{self.network_type} " if self.network_type else ""
        return f"{kind}segment" + (f" of physical network {self.physical_network}" if self.physical_network else "")


class Segments:
    """The ids of a state, and those held for jobs."""

    def __init__(self) -> None:
        self._places: dict[Key, segments.Place] = {}
        self._physical: dict[str, list[str]] = {}
        self._of_project: dict[str, set[Key]] = {}
        self._holds: dict[int, list[network.Segment]] = {}

    def rebuild(self, state: states.Snapshot) -> None:
        """Follow a state anew; what is held stays so."""
        self._places, self._physical, self._of_project = {}, {}, {}
        for one in state.segmentranges.values():
            self._share(one)
        for net in state.networks.values():
            self._mark(net, used=True)
        for job, held in self._holds.items():
            for segment in held:
                self._at(segment).hold(segment.segmentation_id, job)

    def follow(self, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Bring the places from one snapshot to the next, by the changes of networks and segment ranges."""
        nets = {change.key for change in changes if change.kind == "networks"}
        moved = [
            (old, new)
            for key in {change.key for change in changes if change.kind == "segmentranges"}
            if _extent(old := before.segmentranges.get(key)) != _extent(new := after.segmentranges.get(key))
        ]
        for old, _ in moved:
            self._unshare(old)
        for _, new in moved:
            self._share(new)
        for state, used in ((before, False), (after, True)):
            for key in nets:
                self._mark(state.networks.get(key), used=used)

    def _share(self, one: network.SegmentRange | None) -> None:
        if one is not None:
            self._place(key_of(one)).add(_claim(one))
            if one.project:
                self._of_project.setdefault(one.project, set()).add(key_of(one))

    def _unshare(self, one: network.SegmentRange | None) -> None:
        if one is not None:
            place = self._place(key_of(one))
            place.remove(_claim(one))
            if one.project and not place.has(one.project):
                self._of_project[one.project].discard(key_of(one))

    def _mark(self, net: network.Network | None, *, used: bool) -> None:
        if net is None or net.segment is None:
            return
        place = self._at(net.segment)
        if used:
            place.take(net.segment.segmentation_id)
        else:
            place.give(net.segment.segmentation_id)

    def hold(self, job: int, before: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Keep what networks have before or after the changes of a job from other plans, until ``release``."""
        for change in changes:
            if change.kind == "networks":
                new = change.value if isinstance(change, states.Put) else None
                for net in (before.networks.get(change.key), new):
                    if isinstance(net, network.Network) and net.segment:
                        self._at(net.segment).hold(net.segment.segmentation_id, job)
                        self._holds.setdefault(job, []).append(net.segment)

    def release(self, job: int) -> None:
        """Let go of what is held for a job."""
        for segment in self._holds.pop(job, ()):
            self._at(segment).release(segment.segmentation_id)

    def _at(self, segment: network.Segment) -> segments.Place:
        return self._place((segment.network_type, segment.physical_network))

    def _place(self, key: Key) -> segments.Place:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = segments.Place(key[0])
            bisect.insort(self._physical.setdefault(key[0], []), key[1])
        return place

    def place(self, one: network.SegmentRange) -> segments.Place:
        """Return the ids of a range's network type and physical network."""
        return self._place(key_of(one))

    def is_known(self, key: Key) -> bool:
        """Tell whether a range names the place."""
        place = self._places.get(key)
        return place is not None and not place.is_unclaimed()

    def pick(self, cluster: clusters.Cluster, wish: Wish, *, project: str) -> network.Segment:
        """Return the next free segment for a project's network, or for nobody's (""); NoRoomError."""
        for key, number in self._free(cluster, wish, project):
            if number is not None:
                return network.Segment(network_type=key[0], physical_network=key[1], segmentation_id=number)
        raise self._exhausted(cluster, wish, project)

    def _free(self, cluster: clusters.Cluster, wish: Wish, project: str) -> Iterator[tuple[Key, int | None]]:
        """Yield the next free id of each place that may be taken from, in order."""
        everywhere = self._everywhere(cluster, wish)
        if not cluster.segment_ranges:
            for key in everywhere:
                yield key, self._places[key].next_configured()
            return
        own = self._own(cluster, wish, project)
        for key in own:
            yield key, self._places[key].next_free(project)
        if not own or cluster.segment_fallback:
            for key in everywhere:
                yield key, self._places[key].next_free(segments.SHARED)

    def _own(self, cluster: clusters.Cluster, wish: Wish, project: str) -> list[Key]:
        """Return where a project has ranges of what is asked for; a type need not be among the tenants' ones."""
        found = filter(wish.fits, self._of_project.get(project, ()) if project else ())
        return sorted(found, key=lambda key: (_rank(cluster, key[0]), ORDER[key[0]], key[1]))

    def _everywhere(self, cluster: clusters.Cluster, wish: Wish) -> Iterator[Key]:
        """Yield the places that are asked for in the order of the tenants' network types, which a type overrules."""
        types = (wish.network_type,) if wish.network_type else cluster.tenant_network_types or tuple(ORDER)
        for kind in types:
            names = self._physical.get(kind, ())
            yield from ((kind, name) for name in names if wish.physical_network in ("", name))

    def _exhausted(self, cluster: clusters.Cluster, wish: Wish, project: str) -> errors.NoRoomError:
        own = cluster.segment_ranges and self._own(cluster, wish, project)
        whose = f"project {project}'s own ranges" if own else "the ranges that it may take from"
        hint = "gantry segment range list shows the ranges; "
        if own:
            hint += "enlarge one, or let projects go on to the shared ones: gnt-cluster modify --segment-fallback yes"
        elif cluster.segment_ranges:
            hint += "create one, or enlarge one"
        else:
            hint += "only those of segments.ini apply, unless gnt-cluster modify --segment-ranges yes"
        return errors.NoRoomError(f"there is no free {wish} in {whose}", hint=hint)

    def check_free(self, state: states.Snapshot, wanted: network.Segment) -> None:
        """Refuse a segment that a network has, or that is held; NotUniqueError, BusyError."""
        holder = state.segments.get(wanted.place)
        if holder is not None:
            raise integrity.segment_in_use(wanted, holder=state.networks[holder])
        job = self._at(wanted).held.get(wanted.segmentation_id)
        if job is not None:
            raise errors.BusyError(
                f"{wanted.network_type} segment {wanted.segmentation_id} is held by job {job}, which is still running",
                hint=f"wait for its end (gnt-job watch {job}), or choose another",
            )


def key_of(one: network.SegmentRange) -> Key:
    """Return the place of a range."""
    return one.network_type, one.physical_network


def run_of(one: network.SegmentRange) -> ranges.Range:
    """Return the ids of a range."""
    return ranges.Range(one.minimum, one.maximum)


def _claim(one: network.SegmentRange) -> segments.Claim:
    return segments.Claim(run_of(one), owner=one.project, default=one.default, key=one.uuid)


def _extent(one: network.SegmentRange | None) -> tuple[Key, segments.Claim] | None:
    return (key_of(one), _claim(one)) if one else None


def _rank(cluster: clusters.Cluster, network_type: str) -> int:
    """Return the place of a type among the tenants' ones, behind them if it is none."""
    types = cluster.tenant_network_types
    return types.index(network_type) if network_type in types else len(types)
