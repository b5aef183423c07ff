"""Getters of the job fields (contracts/query.md#fields)."""

from collections.abc import Callable

from gantry.model import confidential, job, opcodes
from gantry.operations.query import cells


def _each(read: Callable[[job.Step], cells.Cell]) -> cells.Getter[job.Job]:
    return lambda _, entry: [read(step) for step in entry.ops]


def _summary(entry: job.Job) -> str:
    if len(entry.ops) == 1:
        return entry.ops[0].input.summary
    return ",".join([step.input.summary for step in entry.ops])


GETTERS: dict[str, cells.Getter[job.Job]] = {
    "id": lambda _, entry: entry.id,
    "status": lambda _, entry: entry.status,
    "priority": lambda _, entry: entry.priority,
    "archived": lambda context, entry: str(entry.id) not in context.state.jobs,
    "ops": _each(lambda step: opcodes.encode(confidential.public(step.input))),
    "opresult": _each(lambda step: step.result),
    "opstatus": _each(lambda step: step.status.value),
    "oplog": _each(lambda step: list(step.log)),
    "opstart": _each(lambda step: step.start_timestamp),
    "opexec": _each(lambda step: step.exec_timestamp),
    "opend": _each(lambda step: step.end_timestamp),
    "oppriority": _each(lambda step: step.priority),
    "summary": lambda _, entry: _summary(entry),
    "received_ts": lambda _, entry: entry.received_timestamp,
    "start_ts": lambda _, entry: entry.start_timestamp,
    "end_ts": lambda _, entry: entry.end_timestamp,
}
