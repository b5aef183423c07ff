"""Answers to opcodes that only read, without a job: nothing is stored, replicated or queued, and no lock is taken.

The unit describes one acknowledged state and what nodes report about it, so it goes through its phases ``inspect`` and
``plan`` alone (``operations.base``). Clients that ask the same question of the same state at the same time share the
answer, so that any number of them causes one set of calls to nodes. A client that stops waiting does not stop the rest.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from gantry import errors
from gantry.jobs import environment, execution, processor, records
from gantry.model import opcodes
from gantry.state.objects import snapshot as states

LIMIT = 100
"""The maximum number of different questions that wait for nodes at the same time."""


class Reading(NamedTuple):
    """An answer: the opcode's result, and the warnings of its log, such as about nodes that do not answer."""

    result: object
    warnings: tuple[str, ...]


@dataclass
class _Question:
    """A question whose answer is under way, and the number of clients that wait for it."""

    task: asyncio.Task[Reading]
    clients: int = 0


class Reads:
    """Answers opcodes whose units are ``READS``."""

    def __init__(self, store: records.Store, *, units: processor.Registry, services: environment.Services) -> None:
        self._store = store
        self._units = units
        self._services = services
        self._questions: dict[Hashable, _Question] = {}

    async def read(self, op: opcodes.AnyOpcode, *, part: states.Snapshot | None = None) -> Reading:
        """Answer an opcode; raises its error, InvalidError if it does more than read, BusyError above ``LIMIT``.

        The answer is about ``part``, the part of the acknowledged state that a client sees, or about all of the state.
        """
        unit = self._units.get(type(op))
        if unit is None or not unit.READS:
            raise errors.InvalidError(f"{op.op_id} does not only read", hint="submit it as a job")
        plain_op = msgspec.structs.replace(op, reason=(), comment=None, debug_level=None, priority=0, depends=None)
        before = part or self._store.durable
        # Two parts of one state differ. The question keeps its part alive, so its identity belongs to no other.
        key = (before.serial, id(part) if part else 0, msgspec.json.encode(plain_op))
        question = self._questions.get(key)
        if question is None:
            if len(self._questions) >= LIMIT:
                raise errors.BusyError(
                    f"{LIMIT} questions already wait for answers of nodes", hint="repeat the request in a few seconds"
                )
            question = self._questions[key] = _Question(asyncio.create_task(self._answer(unit, plain_op, before)))
        question.clients += 1
        try:
            await asyncio.wait([question.task])
        finally:
            question.clients -= 1
            if not question.clients:
                question.task.cancel()
                del self._questions[key]
        return question.task.result()

    async def _answer(self, kind: type[execution.AnyUnit], op: opcodes.AnyOpcode, before: states.Snapshot) -> Reading:
        log = environment.ReadLog()
        unit = kind(op, environment.Environment(self._services, self._store, log))
        unit.locks(before)  # refuses unknown names
        plan = unit.plan(before, await unit.inspect(before))
        if plan.changes or plan.steps or plan.after or plan.finish or plan.jobs is not None or plan.hooks:
            raise errors.InternalError(f"the plan of {op.op_id}, which only reads, has more than a result")
        if op.dry_run:
            return Reading(list(plan.lines), tuple(log.warnings))
        return Reading(msgspec.to_builtins(plan.result()), tuple(log.warnings))

    async def close(self) -> None:
        """Cancel the questions that are under way."""
        tasks = [question.task for question in self._questions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
