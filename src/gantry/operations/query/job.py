"""Getters of the job fields (contracts/query.md#fields)."""

from collections.abc import Callable

from gantry.model import confidential, job, opcodes
from gantry.operations.query import cells


def _each(read: Callable[[job.Step], cells.Cell]) -> cells.Getter[job.Job]:
    return lambda _, one: [read(step) for step in one.ops]


def _summary(one: job.Job) -> str:
    if len(one.ops) == 1:
        return one.ops[0].input.summary
    return ",".join([step.input.summary for step in one.ops])


GETTERS: dict[str, cells.Getter[job.Job]] = {
    "id": lambda _, one: one.id,
    "status": lambda _, one: one.status,
    "priority": lambda _, one: one.priority,
    "archived": lambda context, one: str(one.id) not in context.state.jobs,
    "ops": _each(lambda step: opcodes.encode(confidential.shown(step.input))),
    "opresult": _each(lambda step: step.result),
    "opstatus": _each(lambda step: step.status.value),
    "oplog": _each(lambda step: list(step.log)),
    "opstart": _each(lambda step: step.start_timestamp),
    "opexec": _each(lambda step: step.exec_timestamp),
    "opend": _each(lambda step: step.end_timestamp),
    "oppriority": _each(lambda step: step.priority),
    "summary": lambda _, one: _summary(one),
    "received_ts": lambda _, one: one.received_timestamp,
    "start_ts": lambda _, one: one.start_timestamp,
    "end_ts": lambda _, one: one.end_timestamp,
}
