"""The cluster at one moment: immutable collections, their indexes, and the invariants over all of them.

A reader may keep a Snapshot for any time; a change creates a new Snapshot that shares all but a few nodes of persistent
maps with the old, so its cost does not grow with the cluster. ``apply`` refuses changes that break an invariant: names
and MAC addresses are unique, references lead to existing objects, an address lies in a subnet of its network and
belongs to one NIC or one port (contracts/networks.md#finding-an-address). The refused snapshot is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gantry.state.objects import content, draft, integrity, kinds

Keeper = kinds.Keeper
Owner = kinds.Owner
Stored = kinds.Stored
KINDS = kinds.KINDS
Put = kinds.Put
Delete = kinds.Delete
Change = kinds.Change
AddressOwner = kinds.AddressOwner


@dataclass(frozen=True)
class Snapshot(content.Content):
    """The state after the record ``serial``; ``apply`` returns the next state."""

    def apply(self, changes: Iterable[Change], *, serial: int) -> Snapshot:
        """Return the snapshot after ``changes``; raises the PrerequisiteError of the first invariant they break.

        To load a whole configuration, apply the puts of all objects to an empty snapshot.
        """
        touched = tuple(changes)
        after = self.part(touched, serial=serial)
        for change in touched:
            if isinstance(change, Put):
                integrity.check(self, after, change.value)
            else:
                integrity.check_unused(self, after, change)
        return after

    def part(self, changes: Iterable[Change], *, serial: int) -> Snapshot:
        """Return the snapshot after ``changes`` without the checks of references: for a part of a checked state."""
        touched = tuple(changes)
        new = draft.Draft(self)
        entering = [change for change in touched if new.begin(change)]
        for change in entering:
            if isinstance(change, Put):
                new.enter(change.value)
        new.serial = serial
        # Takes over all attributes at once: the constructor would cost more than most changes.
        after = object.__new__(Snapshot)
        object.__setattr__(after, "__dict__", vars(new))
        return after
