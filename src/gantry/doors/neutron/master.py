"""Access to the master: objects by queries, and changes by jobs, with a wait for their end.

A change needs one request: ``RunJob`` checks the conditions of the job, and answers when the job has ended, with the
object after the job. A read needs one query. The reason of a job has the user and the request, as in the remote API.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry.doors.neutron import attributes
from gantry.rpc import jobs, luxi
from gantry.runtime import interface

Op = jobs.Op
Filter = jobs.Filter
Condition = jobs.Condition
Query = jobs.Query

JOB_TIMEOUT_SECONDS = 60.0
"""Seconds that a request waits for the end of its job."""


@dataclass(frozen=True)
class Origin:
    """The user and the request of a change, which become the reason of the job."""

    user: str
    request: str


class Master:
    """The master, accessed by LUXI."""

    def __init__(self, caller: luxi.Caller, runtime: interface.Runtime) -> None:
        self._caller = caller
        self._clock = runtime.clock
        self._random = runtime.random

    def uuid(self) -> str:
        """Return the UUID for a new object."""
        return self._random.uuid()

    async def run(
        self, ops: Sequence[Op], origin: Origin, *, conditions: Sequence[Condition] = (), query: Query | None = None
    ) -> jobs.Done:
        """Run a job and return the results of its opcodes, with the rows of a query after it.

        Raises what ``jobs.run`` does.
        """
        stamp = int(self._clock.now() * 1e9)
        source = f"gnt:neutron:{origin.user}" if origin.user else "gnt:neutron"
        trail = [[source, origin.request, stamp]]
        requested = [{**op, "reason": trail} for op in ops]
        return await jobs.run(
            self._caller, requested, timeout_seconds=JOB_TIMEOUT_SECONDS, conditions=conditions, query=query
        )

    async def has_ranges(self) -> bool:
        """Return whether the cluster manages segment ranges, which is a setting of the cluster."""
        return bool((await self._caller.call(dict[str, object], "QueryClusterInfo")).get("segment_ranges"))

    async def rows(self, kind: str, fields: Sequence[str], filter_: Filter | None) -> list[attributes.Row]:
        """Return the objects that match a filter, with these fields; fields without a value are left out."""
        return await jobs.rows(self._caller, kind, fields, filter_)
