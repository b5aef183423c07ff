"""The master behind the Neutron door: objects by query, changes by jobs that are waited for.

A change is one trip: ``RunJob`` checks what the client may use, and answers when the job has ended, with the object as
it is then. A read is one query. Who asked for a job, and by which request, is in its reason, as with the remote API.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.doors.neutron import attributes
from gantry.rpc import jobs, luxi
from gantry.runtime import interface

Op = jobs.Op
Filter = jobs.Filter
Condition = jobs.Condition
Query = jobs.Query

PATIENCE = 60.0
"""Seconds that a request waits for its job."""


@dataclass(frozen=True)
class Asked:
    """On whose behalf, and by which request, something is changed; it becomes the reason of the job."""

    user: str
    request: str


class Master:
    """The master, by LUXI."""

    def __init__(self, caller: luxi.Caller, runtime: interface.Runtime) -> None:
        self._caller = caller
        self._clock = runtime.clock
        self._random = runtime.random

    def uuid(self) -> str:
        """Return the UUID of an object to be."""
        return self._random.uuid()

    async def run(
        self, ops: Sequence[Op], asked: Asked, *, conditions: Sequence[Condition] = (), query: Query | None = None
    ) -> jobs.Done:
        """Run a job and return the results of its opcodes, with the rows of a query after it.

        Raises what ``jobs.run`` does.
        """
        stamp = int(self._clock.now() * 1e9)
        source = f"gnt:neutron:{asked.user}" if asked.user else "gnt:neutron"
        trail = [[source, asked.request, stamp]]
        given = [{**op, "reason": trail} for op in ops]
        return await jobs.run(self._caller, given, patience=PATIENCE, conditions=conditions, query=query)

    async def has_ranges(self) -> bool:
        """Tell whether segment ranges are managed here, which is a setting of the cluster."""
        return bool((await self._caller.call(dict[str, object], "QueryClusterInfo")).get("segment_ranges"))

    async def rows(self, kind: str, fields: Sequence[str], wanted: Filter | None) -> list[attributes.Row]:
        """Return the objects that a filter lets pass, with these fields; those without a value are left out."""
        try:
            return await jobs.rows(self._caller, kind, fields, wanted)
        except errors.NotFoundError:
            return []
