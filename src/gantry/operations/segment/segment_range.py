"""Segment ranges: make, change and remove them while all runs (contracts/segment-ranges.md#purpose).

Those of the configuration file are read-only here; ``daemons.segments`` brings them. While the feature is off
(``Cluster.segment_ranges``) nobody makes any.

What two requests might both do to one place, overlap or pull a range away from under a network, is decided under the
place's lock, and by the ledger's held ids against networks that are just being created: they take no lock here, so
that one with slow hooks holds up nobody.
"""

from collections.abc import Iterable
from typing import TypeVar

from gantry import errors
from gantry.address import ranges, segments
from gantry.ipam import segments as ledgers
from gantry.model import lock, network, opcodes
from gantry.operations import base
from gantry.state import snapshot as states

Op = TypeVar("Op", opcodes.SegmentRangeSetParams, opcodes.SegmentRangeRemove)

SHOWN = 5
"""How many ranges a message names that stand against a request."""


def _locks(keys: Iterable[ledgers.Scope]) -> lock.LockSet:
    """Take places; their locks have names, as places have no UUID."""
    return {(lock.Level.NETWORK, "/".join(("segments", *filter(None, key)))): lock.Mode.EXCLUSIVE for key in keys}


def _check_enabled(snapshot: states.Snapshot) -> None:
    if not snapshot.the_cluster.segment_ranges:
        raise errors.WrongStateError(
            "segment ranges cannot be changed here: only those of segments.ini apply",
            hint="gnt-cluster modify --segment-ranges yes turns the feature on",
        )


def _called(one: network.SegmentRange) -> str:
    return f"{one.name} ({one.uuid})" if one.name else one.uuid


def _told(one: network.SegmentRange) -> str:
    """Return a range in the words of a dry run."""
    where = f" of physical network {one.physical_network}" if one.physical_network else ""
    whose = f"project {one.project}" if one.project else "everybody"
    return f"{one.network_type} {one.minimum} to {one.maximum}{where}, for {whose}"


def _row(one: network.SegmentRange) -> dict[str, object]:
    """Return a range as the result of a job, by the names of the query fields."""
    return {name: getattr(one, name) for name in one.__struct_fields__}


def _check_apart(
    environment: base.Environment, snapshot: states.Snapshot, one: network.SegmentRange, *others: network.SegmentRange
) -> None:
    """Refuse a range that shares an id with another one, of the state or of ``others``; default ones do not count."""
    run = ledgers.run_of(one)
    claims = environment.ledger.segments.ids_of(one).overlapping(run)
    found = [snapshot.segmentranges[claim.key] for claim in claims if claim.key != one.uuid]
    found += [it for it in others if ledgers.scope_of(it) == ledgers.scope_of(one) and ledgers.run_of(it).overlaps(run)]
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise errors.NotUniqueError(
            f"{one.network_type} {one.minimum} to {one.maximum} overlaps segment range "
            + ", ".join(f"{_called(it)}: {it.minimum} to {it.maximum}" for it in found[:SHOWN])
            + more,
            hint="choose ids that are in none, or change that range",
        )


def _check_unused(
    environment: base.Environment, snapshot: states.Snapshot, one: network.SegmentRange, gone: Iterable[ranges.Range]
) -> None:
    """Refuse that a range loses ids which a network has, or a running job is about to give to one."""
    place = environment.ledger.segments.ids_of(one)
    for run in gone:
        used = next(place.used.used_runs(run), None)
        if used is not None:
            holder = snapshot.segments[(*ledgers.scope_of(one), used.first)]
            raise errors.WrongStateError(
                f"segment range {_called(one)} is in use: network {snapshot.networks[holder].name} has id {used.first}",
                hint=f"remove the network first, or keep {used.first} in the range",
            )
        held = next(filter(run.__contains__, place.held), None)
        if held is not None:
            raise errors.WrongStateError(
                f"segment range {_called(one)} is in use: job {place.held[held]}, still running, takes id {held}",
                hint=f"gnt-job watch {place.held[held]} shows how it ends",
            )


class SegmentRangeAdd(base.Planned[opcodes.SegmentRangeAdd]):
    """Makes segment ranges."""

    OPCODE = opcodes.SegmentRangeAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the places."""
        return _locks((spec.network_type, spec.physical_network) for spec in self.op.ranges)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the ranges; their ids may be in use, whoever's networks have them."""
        del facts
        _check_enabled(snapshot)
        made: list[network.SegmentRange] = []
        for spec in self.op.ranges:
            one = _made(spec, self.environment.inputs)
            if one.uuid in snapshot.segmentranges or any(one.uuid == other.uuid for other in made):
                raise errors.ExistsError(f"segment range {one.uuid} exists already")
            _check_apart(self.environment, snapshot, one, *made)
            made.append(one)
        return base.Plan(
            lines=[f"create segment range {one.name or one.uuid}: {_told(one)}" for one in made],
            changes=[states.Put(one) for one in made],
            result=lambda: [*map(_row, made)],
        )


def _made(spec: opcodes.SegmentRangeSpec, inputs: base.Inputs) -> network.SegmentRange:
    """Return a new range; InvalidError if there can be none such."""
    segments.check_place(spec.network_type, spec.physical_network)
    segments.checked_run(spec.network_type, spec.minimum, maximum=spec.maximum)
    if not (spec.shared or spec.project):
        raise errors.InvalidError("a segment range that is not shared needs a project", hint="name it with --project")
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
    """What is done with one segment range, which is none of the configuration file."""

    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the place."""
        return _locks([ledgers.scope_of(snapshot.segment_range(self.op.range))])

    def _own(self, snapshot: states.Snapshot) -> network.SegmentRange:
        """Return the range; WrongStateError while the feature is off, InvalidError for one of the file."""
        _check_enabled(snapshot)
        one = snapshot.segment_range(self.op.range)
        if one.default:
            raise errors.InvalidError(
                f"segment range {_called(one)} is a default one, which is read-only",
                hint="change segments.ini on the master and restart gantry-masterd",
            )
        return one


class SegmentRangeSetParams(_OfRange[opcodes.SegmentRangeSetParams]):
    """Changes a segment range."""

    OPCODE = opcodes.SegmentRangeSetParams

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the range as it becomes; a request that changes nothing counts as a change, as clients know it."""
        del facts
        one = self._own(snapshot)
        fields = ("name", "minimum", "maximum", "description", "tags")
        given = {name: value for name in fields if (value := getattr(self.op, name)) is not None}
        new = base.changed(one, self.environment.inputs.now, **given)
        run = segments.checked_run(new.network_type, new.minimum, maximum=new.maximum)
        _check_apart(self.environment, snapshot, new)
        _check_unused(self.environment, snapshot, one, ledgers.run_of(one).minus(run))
        line = f"change segment range {_called(one)}: {_told(new)}"
        return base.Plan(lines=[line], changes=[states.Put(new)], result=lambda: _row(new))


class SegmentRangeRemove(_OfRange[opcodes.SegmentRangeRemove]):
    """Removes a segment range of which no id is in use."""

    OPCODE = opcodes.SegmentRangeRemove

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the range."""
        del facts
        one = self._own(snapshot)
        _check_unused(self.environment, snapshot, one, [ledgers.run_of(one)])
        line = f"remove segment range {_called(one)}"
        return base.Plan(lines=[line], changes=[states.Delete("segmentranges", one.uuid)])
