"""A draft of the next snapshot: ``Snapshot.apply`` makes a draft, changes it, and makes the next snapshot from it.

The maps of a draft can be replaced, so one transaction makes one Snapshot, however many changes it has. An object
that is removed takes its entries out of the indexes of its kind, an object that is added enters its own. A key with two
owners is refused here; ``integrity`` checks references.
"""

from gantry import errors
from gantry.model import job
from gantry.state.objects import content, indexes, kinds


class Draft(indexes.Maps):
    """All attributes of a Snapshot, under the same names."""

    serial: int
    last_job: int

    def __init__(self, before: content.Content) -> None:
        vars(self).update(vars(before))

    def begin(self, change: kinds.Change) -> bool:
        """Carry out a change, except for index entries that are new; return whether ``enter`` has to follow.

        The object that the change replaces or deletes leaves collection and indexes. Most changes touch no index, and
        are complete then: those of kinds without indexes, as jobs, and those that ``Kind.indexed`` does not see.
        """
        kind = kinds.KINDS[change.kind]
        new = None if isinstance(change, kinds.Delete) else change.value
        if new is not None and not kind.indexes:
            self._insert(kind, new)
            return False
        old = self._get(kind, change.key)
        if old is None:
            if new is None:
                raise errors.NotFoundError(f"no such object in {change.kind}: {change.key}")
            return True
        if new is not None and kind.indexed is not None and kind.indexed(old) == kind.indexed(new):
            self._insert(kind, new)
            return False
        self._remove(kind, change.key)
        for index in kind.indexes:
            index.remove(self, old)
        return new is not None

    def enter(self, new: kinds.Stored) -> None:
        """Add an object to its collection and the indexes; raises NotUniqueError or ExistsError for an owned key."""
        kind = kinds.kind_of(new)
        self._insert(kind, new)
        for index in kind.indexes:
            index.add(self, new)

    def _get(self, kind: kinds.Kind[kinds.Stored], key: str) -> kinds.Stored | None:
        old: kinds.Stored | None
        if kind.single:
            old = getattr(self, kind.collection)
            return old if old is not None and kind.key(old) == key else None
        old = getattr(self, kind.collection).get(key)
        return old

    def _remove(self, kind: kinds.Kind[kinds.Stored], key: str) -> None:
        setattr(self, kind.collection, None if kind.single else getattr(self, kind.collection).delete(key))

    def _insert(self, kind: kinds.Kind[kinds.Stored], new: kinds.Stored) -> None:
        if kind.single:
            setattr(self, kind.collection, new)
        else:
            setattr(self, kind.collection, getattr(self, kind.collection).set(kind.key(new), new))
        # This is not an index: the highest number stays when its job is deleted.
        if isinstance(new, job.Job):
            self.last_job = max(self.last_job, new.id)
