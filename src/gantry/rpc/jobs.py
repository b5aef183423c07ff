"""Synchronous jobs and queries, by LUXI, for front ends that return results.

A change is one request: ``RunJob`` checks the conditions of a job, runs it, and answers with its results and the rows
of a query when the job has ended. The callers are front ends that run as separate processes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from gantry import errors
from gantry.rpc import luxi

Op = dict[str, object]
Filter = list[object]
Row = Mapping[str, object]

NORMAL = 0

Cells = list[list[tuple[int, object]]]
"""A status and a value for each field of each row."""


class Condition(NamedTuple):
    """Objects of which at least one must exist for a job to be submitted."""

    kind: str
    filter: Filter


class Query(NamedTuple):
    """Fields of the objects that pass a filter; all objects without one."""

    kind: str
    fields: Sequence[str]
    filter: Filter | None


class _Result(msgspec.Struct):
    """The answer to a query."""

    data: Cells


class _Ended(msgspec.Struct, array_like=True):
    """The answer when a job has ended."""

    number: int
    status: str
    results: list[object]
    rows: Cells = []


class Done(NamedTuple):
    """The outcome of a successful job: the results of its opcodes, and the rows of the query after it."""

    results: list[object]
    rows: list[Row]


class ConditionError(errors.PrerequisiteError):
    """A job was not submitted, as no object meets a condition; ``index`` is the condition's position."""

    def __init__(self, index: int) -> None:
        super().__init__(f"condition {index} of the job is not met")
        self.index = index


class PartlyDoneError(errors.ExecutionError):
    """A job failed after some of its opcodes had run: ``cause`` is the error, ``done`` are their results."""

    def __init__(self, cause: errors.GantryError, done: list[object]) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.done = done


async def run(
    caller: luxi.Caller,
    ops: Sequence[Op],
    *,
    timeout_seconds: float,
    conditions: Sequence[Condition] = (),
    query: Query | None = None,
) -> Done:
    """Run a job and return the results of its opcodes, with the rows of a query after it.

    Raises ConditionError if a condition is not met, and nothing is changed; the error of the first opcode that failed,
    with the results of the opcodes before it in ``done``; BusyError when the job has not ended after ``patience``
    seconds.
    """
    more = (conditions, query) if conditions or query else ()
    ended = await caller.call(_Ended, "RunJob", ops, timeout_seconds, *more)
    if ended.status == "success":
        return Done(ended.results, _rows(query.fields, ended.rows) if query else [])
    if ended.status == "refused":
        raise ConditionError(msgspec.convert(ended.results[0], int))
    if ended.status not in ("error", "canceled"):
        raise errors.BusyError(f"job {ended.number} has not ended yet", hint=f"gnt-job watch {ended.number}")
    raise _failure(ended.results)


async def rows(caller: luxi.Caller, kind: str, fields: Sequence[str], row_filter: Filter | None) -> list[Row]:
    """Return the requested fields of the objects that pass a filter; fields without a value are omitted."""
    result = await caller.call(_Result, "Query", kind, fields, row_filter)
    return _rows(fields, result.data)


def _rows(fields: Sequence[str], data: Cells) -> list[Row]:
    return [
        {name: value for name, (status, value) in zip(fields, row, strict=True) if status == NORMAL} for row in data
    ]


def _failure(results: list[object]) -> errors.GantryError:
    """Return the error of the first opcode that failed."""
    done: list[object] = []
    for result in results:
        if _is_failure(result):
            name, details = msgspec.convert(result, tuple[str, list[object]])
            error = errors.from_luxi(name, details)
            return PartlyDoneError(error, done) if done else error
        done.append(result)
    return errors.ExecutionError(f"the job failed: {results}")


def _is_failure(result: object) -> bool:
    return isinstance(result, list) and len(result) == 2 and isinstance(result[0], str) and isinstance(result[1], list)
