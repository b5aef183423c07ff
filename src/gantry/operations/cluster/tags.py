"""Units that add, remove and search tags of the cluster, node groups, nodes, instances and networks; kept sorted."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from gantry import errors
from gantry.model import cluster, instance, lock, network, opcodes, patterns
from gantry.operations import base
from gantry.state.objects import snapshot as states

MAX_TAGS = 4096
"""The maximum number of tags of an object."""

_LOCK_LEVELS = {
    "nodegroup": (lock.Level.GROUP, "nodegroups"),
    "node": (lock.Level.NODE, "nodes"),
    "instance": (lock.Level.INSTANCE, "instances"),
    "network": (lock.Level.NETWORK, "networks"),
}

Op = TypeVar("Op", opcodes.TagsSet, opcodes.TagsDel)
Tagged = cluster.Cluster | cluster.NodeGroup | cluster.Node | instance.Instance | network.Network


def _tagged(snapshot: states.Snapshot, op: opcodes.TagsSet | opcodes.TagsDel) -> Tagged:
    match op.kind:
        case "cluster":
            return snapshot.the_cluster
        case "nodegroup":
            return snapshot.group(op.name)
        case "node":
            return snapshot.node(op.name)
        case "instance":
            return snapshot.instance(op.name)
        case "network":
            return snapshot.network(op.name)


def _plan(tagged: Tagged, tags: Iterable[str], *, now: float, line: str) -> base.Plan:
    new = base.changed(tagged, now, tags=tuple(sorted(tags)))
    return base.Plan(lines=[line], changes=[] if new.tags == tagged.tags else [states.Put(new)])


class _OfTags(base.Planned[Op]):
    """Base of the units that change the tags of one object."""

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the object exclusively; of the cluster only its entry, which does not wait for other jobs."""
        if self.op.kind == "cluster":
            return {(lock.Level.CONFIG, "cluster"): lock.Mode.EXCLUSIVE}
        level, kind = _LOCK_LEVELS[self.op.kind]
        return {(level, snapshot.resolve(kind, self.op.name)): lock.Mode.EXCLUSIVE}


class TagsSet(_OfTags[opcodes.TagsSet]):
    """Adds tags to an object; tags that it already has are not an error."""

    OPCODE = opcodes.TagsSet

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the object with the tags."""
        del facts
        tagged = _tagged(snapshot, self.op)
        tags = {*tagged.tags, *self.op.tags}
        if len(tags) > MAX_TAGS:
            raise errors.NoRoomError(
                f"{self.op.kind} {tagged.name} would have {len(tags)} tags, the maximum is {MAX_TAGS}"
            )
        line = f"add tags {', '.join(self.op.tags)} to {self.op.kind} {tagged.name}"
        return _plan(tagged, tags, now=self.environment.inputs.now, line=line)


class TagsDel(_OfTags[opcodes.TagsDel]):
    """Removes tags of an object: all that are named, or none."""

    OPCODE = opcodes.TagsDel

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the object without the tags."""
        del facts
        tagged = _tagged(snapshot, self.op)
        missing = sorted(set(self.op.tags) - set(tagged.tags))
        if missing:
            raise errors.NotFoundError(
                f"{self.op.kind} {tagged.name} has no tag {', '.join(missing)}",
                hint=f"its tags are: {', '.join(tagged.tags) or 'none'}",
            )
        line = f"remove tags {', '.join(self.op.tags)} of {self.op.kind} {tagged.name}"
        return _plan(tagged, set(tagged.tags) - set(self.op.tags), now=self.environment.inputs.now, line=line)


class TagsSearch(base.Planned[opcodes.TagsSearch]):
    """Finds tags; the result is a list of ``[path of the object, tag]`` (contracts/opcodes.md#results)."""

    OPCODE = opcodes.TagsSearch
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing: it searches one snapshot."""
        return {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Change nothing."""
        del facts
        matches = patterns.searcher(self.op.pattern)
        matching_tags = [(path, tag) for path, tagged in _paths(snapshot) for tag in tagged.tags if matches(tag)]
        return base.Plan(
            lines=[f"find tags by {self.op.pattern!r}"], result=lambda: [list(pair) for pair in sorted(matching_tags)]
        )


def _paths(snapshot: states.Snapshot) -> Iterator[tuple[str, Tagged]]:
    yield "/cluster", snapshot.the_cluster
    yield from ((f"/instances/{vm.name}", vm) for vm in snapshot.instances.values())
    yield from ((f"/network/{net.name}", net) for net in snapshot.networks.values())
    yield from ((f"/nodegroup/{group.name}", group) for group in snapshot.nodegroups.values())
    yield from ((f"/nodes/{node.name}", node) for node in snapshot.nodes.values())
