"""Units that add, change and remove segment ranges at run time (contracts/segment-ranges.md#purpose).

Ranges of the configuration file are read-only here; ``ranges_file`` adds them. While the feature is off
(``Cluster.segment_ranges``), no ranges can be added.

Conflicts between two requests for one scope (overlaps, removing a range that a network uses) are prevented by the lock
of the scope. Networks that are just being created take no lock here, so that a network with slow hooks delays no other
job; the ledger's held ids prevent conflicts with them.
"""

from collections.abc import Iterable
from typing import TypeVar

from gantry import errors
from gantry.address import ranges, segments
from gantry.ipam import segments as ledgers
from gantry.model import lock, network, opcodes
from gantry.operations import base, draws
from gantry.state.objects import snapshot as states

Op = TypeVar("Op", opcodes.SegmentRangeSetParams, opcodes.SegmentRangeRemove)

MAX_LISTED = 5
"""The maximum number of conflicting ranges in a message."""


def _locks(keys: Iterable[ledgers.Scope]) -> lock.LockSet:
    """Lock scopes (type and physical network) exclusively; their locks have names, because scopes have no UUID."""
    return {(lock.Level.NETWORK, "/".join(("segments", *filter(None, key)))): lock.Mode.EXCLUSIVE for key in keys}


def _check_enabled(snapshot: states.Snapshot) -> None:
    if not snapshot.the_cluster.segment_ranges:
        raise errors.WrongStateError(
            "segment ranges cannot be changed: only the ranges of segments.ini apply",
            hint="gnt-cluster modify --segment-ranges yes enables managed segment ranges",
        )


def _label(segment_range: network.SegmentRange) -> str:
    return f"{segment_range.name} ({segment_range.uuid})" if segment_range.name else segment_range.uuid


def _describe(segment_range: network.SegmentRange) -> str:
    """Return a range as text for a dry run."""
    physical = segment_range.physical_network
    where = f" of physical network {physical}" if physical else ""
    users = f"project {segment_range.project}" if segment_range.project else "all projects"
    return f"{segment_range.network_type} {segment_range.minimum} to {segment_range.maximum}{where}, for {users}"


def _row(segment_range: network.SegmentRange) -> dict[str, object]:
    """Return a range as the result of a job, by the names of the query fields."""
    return {name: getattr(segment_range, name) for name in segment_range.__struct_fields__}


def _check_apart(
    environment: base.Environment,
    snapshot: states.Snapshot,
    new: network.SegmentRange,
    *added: network.SegmentRange,
) -> None:
    """Refuse a range that shares an id with a range in the state or in ``added``; default ranges do not count."""
    run = ledgers.run_of(new)
    claims = environment.ledger.segments.ids_of(new).overlapping(run)
    overlaps = [snapshot.segmentranges[claim.key] for claim in claims if claim.key != new.uuid]
    overlaps += [
        other
        for other in added
        if ledgers.scope_of(other) == ledgers.scope_of(new) and ledgers.run_of(other).overlaps(run)
    ]
    if overlaps:
        more = f" and {len(overlaps) - MAX_LISTED} more" if len(overlaps) > MAX_LISTED else ""
        raise errors.NotUniqueError(
            f"{new.network_type} {new.minimum} to {new.maximum} overlaps segment range "
            + ", ".join(f"{_label(other)}: {other.minimum} to {other.maximum}" for other in overlaps[:MAX_LISTED])
            + more,
            hint="choose ids that are not in any range, or change that range",
        )


def _check_unused(
    environment: base.Environment,
    snapshot: states.Snapshot,
    segment_range: network.SegmentRange,
    removed: Iterable[ranges.Range],
) -> None:
    """Refuse to remove ids that a network has, or that a running job is about to allocate."""
    space = environment.ledger.segments.ids_of(segment_range)
    label = _label(segment_range)
    for run in removed:
        used = next(space.used.used_runs(run), None)
        if used is not None:
            owner = snapshot.segments[(*ledgers.scope_of(segment_range), used.first)]
            raise errors.WrongStateError(
                f"segment range {label} is in use: network {snapshot.networks[owner].name} has id {used.first}",
                hint=f"remove the network first, or keep {used.first} in the range",
            )
        held_id = next(filter(run.__contains__, space.held), None)
        if held_id is not None:
            job = space.held[held_id]
            raise errors.WrongStateError(
                f"segment range {label} is in use: running job {job} allocates id {held_id}",
                hint=f"gnt-job watch {job} shows how the job ends",
            )


class SegmentRangeAdd(base.Planned[opcodes.SegmentRangeAdd]):
    """Adds segment ranges."""

    OPCODE = opcodes.SegmentRangeAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the scopes exclusively."""
        return _locks((spec.network_type, spec.physical_network) for spec in self.op.ranges)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the ranges; networks of any project may already use their ids."""
        del facts
        _check_enabled(snapshot)
        added: list[network.SegmentRange] = []
        for spec in self.op.ranges:
            new = _new_range(spec, self.environment.inputs)
            if new.uuid in snapshot.segmentranges or any(new.uuid == other.uuid for other in added):
                raise errors.ExistsError(f"segment range {new.uuid} exists already")
            _check_apart(self.environment, snapshot, new, *added)
            added.append(new)
        return base.Plan(
            lines=[f"create segment range {new.name or new.uuid}: {_describe(new)}" for new in added],
            changes=[states.Put(new) for new in added],
            result=lambda: [*map(_row, added)],
        )


def _new_range(spec: opcodes.SegmentRangeSpec, inputs: draws.Inputs) -> network.SegmentRange:
    """Return a new range; raises InvalidError for invalid fields."""
    segments.check_scope(spec.network_type, spec.physical_network)
    segments.checked_run(spec.network_type, spec.minimum, maximum=spec.maximum)
    if not (spec.shared or spec.project):
        raise errors.InvalidError("a segment range that is not shared needs a project", hint="add --project")
    return network.SegmentRange(
        uuid=spec.uuid or inputs.uuid(),
        name=spec.name,
        ctime=inputs.now,
        mtime=inputs.now,
        tags=spec.tags,
        network_type=spec.network_type,
        physical_network=spec.physical_network,
        minimum=spec.minimum,
        maximum=spec.maximum,
        shared=spec.shared,
        project="" if spec.shared else spec.project,
        description=spec.description,
    )


class _OfRange(base.Planned[Op]):
    """Base of the units that change or remove one segment range that is not from the configuration file."""

    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the scope exclusively."""
        return _locks([ledgers.scope_of(snapshot.segment_range(self.op.range))])

    def _own(self, snapshot: states.Snapshot) -> network.SegmentRange:
        """Return the range; raises WrongStateError while the feature is off, InvalidError for a default range."""
        _check_enabled(snapshot)
        segment_range = snapshot.segment_range(self.op.range)
        if segment_range.default:
            raise errors.InvalidError(
                f"segment range {_label(segment_range)} is a default range, which is read-only",
                hint="change it with gantry segment set, or in segments.ini and with gantry segment apply",
            )
        return segment_range


class SegmentRangeSetParams(_OfRange[opcodes.SegmentRangeSetParams]):
    """Changes a segment range."""

    OPCODE = opcodes.SegmentRangeSetParams

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the changed range; for clients, a request without a difference also counts as a change."""
        del facts
        old = self._own(snapshot)
        fields = ("name", "minimum", "maximum", "description", "tags")
        fields_set = {name: value for name in fields if (value := getattr(self.op, name)) is not None}
        new = base.changed(old, self.environment.inputs.now, **fields_set)
        run = segments.checked_run(new.network_type, new.minimum, maximum=new.maximum)
        _check_apart(self.environment, snapshot, new)
        _check_unused(self.environment, snapshot, old, ledgers.run_of(old).minus(run))
        line = f"change segment range {_label(old)}: {_describe(new)}"
        return base.Plan(lines=[line], changes=[states.Put(new)], result=lambda: _row(new))


class SegmentRangeRemove(_OfRange[opcodes.SegmentRangeRemove]):
    """Removes a segment range of which no id is in use."""

    OPCODE = opcodes.SegmentRangeRemove

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the range."""
        del facts
        segment_range = self._own(snapshot)
        _check_unused(self.environment, snapshot, segment_range, [ledgers.run_of(segment_range)])
        line = f"remove segment range {_label(segment_range)}"
        return base.Plan(lines=[line], changes=[states.Delete("segmentranges", segment_range.uuid)])
