"""How far the journal has grown since the last checkpoint, and when the next one is due. ``store.checkpointer`` counts.

A checkpoint bounds the time of a start, and begins a section: only whole sections are removed (``store.pruning``). So
one is also due when the records since the last make up an eighth of what the retention keeps, by age or by size.
"""

from dataclasses import dataclass

from gantry.model import retention

SHARE = 8
"""Sections in which at least the journal is kept, so that it exceeds its limits by an eighth at most."""


@dataclass(frozen=True)
class Limits:
    """How far the journal may run ahead of the checkpoint, in records and bytes: recovery reads 50,000 a second."""

    records: int = 20_000
    size: int = 64 << 20


def limits_for(objects: int) -> Limits:
    """Return the limits for a state of that many objects.

    A checkpoint writes all of them, so it is due after that many records at the earliest: its share in the cost of a
    record stays the same however large the cluster is. A start reads an object and a record about equally fast.
    """
    usual = Limits()
    return Limits(records=max(usual.records, objects), size=max(usual.size, objects << 10))


@dataclass
class Growth:
    """Records and bytes since the checkpoint, and the time of the first record, None without one.

    ``members_changed``: nodes joined, left or changed their role. ``section_lost``: somebody has removed the journal's
    newest section, so only a checkpoint has what was in it.
    """

    records: int = 0
    size: int = 0
    began: float | None = None
    members_changed: bool = False
    section_lost: bool = False

    def add(self, records: int, size: int, *, now: float) -> None:
        """Count a frame."""
        self.records += records
        self.size += size
        self.began = now if self.began is None else self.began

    def is_due(self, limits: Limits, keep: retention.Retention, *, now: float) -> bool:
        """Return whether a checkpoint is due."""
        if self.members_changed or self.section_lost:
            return True
        if not self.records:
            return False
        size = limits.size if keep.size is None else min(limits.size, keep.size // SHARE)
        age = now - (now if self.began is None else self.began)
        is_old = keep.seconds is not None and age >= keep.seconds / SHARE
        return self.records >= limits.records or self.size >= size or is_old
