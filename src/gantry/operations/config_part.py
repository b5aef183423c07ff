"""The base of units that change one part of the configuration, such as the access rules, and nothing else.

A part has one lock: two changes of it never run at the same time, and they wait for no job about an object.
"""

from typing import ClassVar, Literal

from gantry.model import lock
from gantry.operations import base
from gantry.state.objects import snapshot as states


class Change(base.Planned[base.Op]):
    """A unit that changes one part of the configuration."""

    BRIEF = True
    PART: ClassVar[Literal["access", "cluster", "tokens", "webhooks"]]
    """The part, which is the name of its lock; ``cluster`` is the cluster's own entry."""

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the part exclusively."""
        return {(lock.Level.CONFIG, self.PART): lock.Mode.EXCLUSIVE}
