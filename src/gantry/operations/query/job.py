"""Getters of the job fields (contracts/query.md#fields)."""

from collections.abc import Callable

import msgspec

from gantry import errors
from gantry.model import confidential, job, opcodes
from gantry.operations.query import cells


def _each(read: Callable[[job.Step], cells.Cell]) -> cells.Getter[job.Job]:
    return lambda _, entry: [read(step) for step in entry.ops]


def _each_veiled(read: Callable[[job.Step], cells.Cell]) -> cells.Getter[job.Job]:
    return lambda context, entry: [read(step) for step in context.veil(entry).ops]


def _summary(entry: job.Job) -> str:
    if len(entry.ops) == 1:
        return entry.ops[0].input.summary
    return ",".join([step.input.summary for step in entry.ops])


_REASON = "gnt:user"
_COMMAND = "gnt:client:"
"""The source of an entry of the reason trail that only has the reason that a user wrote."""


def _user(entry: job.Job) -> cells.Cell:
    """Return who submitted a job; an administrator may do so for a user of another front end, whom the trail names."""
    sources = [source for source, _, _ in entry.ops[0].input.reason if source != _REASON]
    if entry.submitter and (not entry.submitter.is_admin or all(each.startswith(_COMMAND) for each in sources[:1])):
        return entry.submitter.title
    return cells.or_none(sources[0].rpartition(":")[2] if sources else None)


def _error(entry: job.Job) -> cells.Cell:
    """Return the first line of the error of the opcode that failed."""
    text: object = next((step.result for step in entry.ops if step.status is job.Status.ERROR), None)
    match text:
        case [errors.HooksError.luxi, [failures]]:
            text = str(errors.HooksError(msgspec.convert(failures, list[tuple[str, str, str]])))
        case [_, [first, *_]] | [first, []]:
            text = first
    return cells.or_none(str(text or "").partition("\n")[0])


GETTERS: dict[str, cells.Getter[job.Job]] = {
    "id": lambda _, entry: entry.id,
    "status": lambda _, entry: entry.status,
    "priority": lambda _, entry: entry.priority,
    "archived": lambda context, entry: str(entry.id) not in context.state.jobs,
    "ops": _each(lambda step: opcodes.encode(confidential.public(step.input))),
    "opresult": _each_veiled(lambda step: step.result),
    "opstatus": _each(lambda step: step.status.value),
    "oplog": _each_veiled(lambda step: list(step.log)),
    "opstart": _each(lambda step: step.start_timestamp),
    "opexec": _each(lambda step: step.exec_timestamp),
    "opend": _each(lambda step: step.end_timestamp),
    "oppriority": _each(lambda step: step.priority),
    "summary": lambda _, entry: _summary(entry),
    "dry_run": lambda _, entry: all(step.input.dry_run for step in entry.ops),
    "user": lambda _, entry: _user(entry),
    "request": lambda _, entry: entry.request,
    "error": lambda context, entry: _error(context.veil(entry)),
    "received_ts": lambda _, entry: entry.received_timestamp,
    "start_ts": lambda _, entry: entry.start_timestamp,
    "end_ts": lambda _, entry: entry.end_timestamp,
}
