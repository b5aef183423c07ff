"""Clients: they submit jobs through LUXI, wait for the ends, over the loss of masters, and believe what they are told.

Some have a job run and wait for nothing but the answer, as doors do whose clients wait (``RunJob``).
A job carries a mark (its first opcode's ``comment``), by which it is recognised: a number that one master gave out
alone may be given to another job by the next.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterable

import msgspec

from gantry import errors
from gantry.daemons import master as daemons
from gantry.sim import acknowledged, cluster, copies, facts, story
from gantry.sim.steps import wish as wishes

PATIENCE = 90.0
LOOK = 20.0
PAUSE = 1.0
SEARCH = 10.0
"""Seconds that a client waits for an answer, for a job's change, before it looks for a master again, and for a job."""

RUN_AT_ONCE = 0.4
"""Which part of the jobs of one opcode is not submitted, but run."""

FINAL = ("success", "error", "canceled")
NO_EFFECT = "OpPrereqError"
"""The class of errors that say that nothing was changed, unless the job's log has a step that was begun."""

Seen = tuple[str, list[dict[str, object]], list[object], list[list[object]]]


class Clients:
    """All clients of a run; what they know is in ``facts``."""

    def __init__(
        self,
        lab: cluster.SimulatedCluster,
        known: facts.Facts,
        told: acknowledged.Acknowledgements,
        *,
        story: story.Story,
    ) -> None:
        self.facts = known
        self.jobs: dict[int, str] = {}
        self.ended: dict[int, str] = {}
        self._lab = lab
        self._told = told
        self._story = story
        self._chance: random.Random = lab.world.source("clients")
        self._marks = itertools.count(1)
        self._doubts: dict[str, tuple[wishes.Wish, daemons.Master | None]] = {}

    def master(self) -> str:
        """Return where a client finds a master, an old one perhaps; empty when there is none."""
        found = self._lab.masters()
        return self._chance.choice(found) if found else ""

    async def ask(self, method: str, *arguments: object, on: str) -> object:
        """Call a method of a master; raises its error, OSError or TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            return await self._lab.luxi(method, *arguments, on=on)

    async def carry_out(self, wish: wishes.Wish) -> None:
        """Submit a job and wait for its end; the things of the wish must have been claimed."""
        mark = f"c{next(self._marks)}"
        number = await self._submit(wish, mark)
        if mark in self._doubts:
            number = await self._search(wish, mark)
        if number:
            await self._follow(wish, mark, number)

    async def _submit(self, wish: wishes.Wish, mark: str) -> int:
        """Return the number of a job to follow; 0 when none was heard of, or its success was."""
        master = self.master()
        ops = [{**op, "comment": mark} for op in wish.ops]
        self._story.tell(mark, f"to {master or 'nobody: no master'}: {wish.text}")
        if not master:
            self.facts.release(wish.keys)
            return 0
        try:
            number, status, results = await self._begin(ops, on=master)
        except (errors.PrerequisiteError, errors.QueueDrainedError) as error:
            self._story.tell(mark, f"refused: {error.message}")
            self.facts.release(wish.keys)
            return 0
        except (OSError, errors.GantryError) as error:
            self._story.tell(mark, f"no answer: {error}")
            self._doubts[mark] = wish, self._lab.daemons.get(master)
            return 0
        self.jobs[number] = mark
        self._story.tell(mark, f"job {number}")
        if status == "success":
            self._end(wish, mark, number, master=master, seen=(status, [], results, []))
            return 0
        # Of one that has failed only its log tells whether it had begun.
        self._told.hear(master, number, mark, status=_heard(status))
        return number

    async def _begin(self, ops: list[dict[str, object]], *, on: str) -> tuple[int, str, list[object]]:
        """Submit a job or have it run; return its number, its status and its results."""
        if len(ops) == 1 and self._chance.random() < RUN_AT_ONCE:
            return msgspec.convert(await self.ask("RunJob", ops, LOOK, on=on), tuple[int, str, list[object]])
        return msgspec.convert(await self.ask("SubmitJob", ops, on=on), int), copies.ACCEPTED, []

    async def _follow(self, wish: wishes.Wish, mark: str, number: int) -> None:
        status = copies.ACCEPTED
        while True:
            master = self.master()
            try:
                seen = await self._look(number, status, on=master) if master else None
            except (OSError, errors.GantryError):
                seen = None
            if seen and seen[1][0].get("comment") == mark:
                status = seen[0]
                if status in FINAL:
                    self._end(wish, mark, number, master=master, seen=seen)
                    return
                continue
            if self._is_gone(number, mark):
                break
            await self._lab.world.clock.sleep(PAUSE)
        self._story.tell(mark, f"job {number} is not known any more")
        self.jobs.pop(number, None)
        self.facts.doubt(wish.keys)
        self.facts.release(wish.keys)

    async def _look(self, number: int, status: str, *, on: str) -> Seen | None:
        """Wait for a change of a job's status and return what it is then; None when there is no such job."""
        # One that is archived changes no more; it can be asked for all the same.
        with contextlib.suppress(errors.JobLostError):
            await self.ask("WaitForJobChange", number, ["status"], [status], cluster.NO_LOG, LOOK, on=on)
        answer = await self.ask("QueryJobs", [number], ["status", "ops", "opresult", "oplog"], on=on)
        (row,) = msgspec.convert(answer, list[list[object]])
        return None if row[0] is None else msgspec.convert(row, Seen)

    def _is_gone(self, number: int, mark: str) -> bool:
        """Tell whether all that was heard of a job is lost; whoever follows one has heard something of it."""
        heard = [index for index, one in enumerate(self._told.all) if (one.number, one.tag) == (number, mark)]
        return all(map(self._told.is_lost, heard))

    def _end(self, wish: wishes.Wish, mark: str, number: int, *, master: str, seen: Seen) -> None:
        status, _, results, log = seen
        source = self._told.hear(master, number, mark, status=status)
        self.ended[number] = status
        failure = next((one for one in results if status == "error" and one), None)
        self._story.tell(mark, f"job {number} has ended: {status}{f' {_short(failure)}' if failure else ''}")
        if status == "success":
            self.facts.learn(wish.effects, source)
        elif status == "error" and (any(log) or _class(failure) != NO_EFFECT):
            self.facts.doubt(wish.keys)
        else:
            self.facts.rely(wish.keys, source)
        self.facts.release(wish.keys)

    async def _search(self, wish: wishes.Wish, mark: str) -> int:
        """Return the number of a job whose submission was not answered; 0 when it will never be there."""
        _, asked = self._doubts[mark]
        while mark in self._doubts:
            await self._lab.world.clock.sleep(SEARCH)
            masters = self._lab.masters()
            if len(masters) != 1:
                continue
            try:
                found, status = await self._found(mark, on=masters[0])
            except (OSError, errors.GantryError):
                continue
            if mark in self._doubts and (found or self._lab.daemons.get(masters[0]) is not asked):
                del self._doubts[mark]
                self._story.tell(mark, f"was job {found}" if found else "was not accepted")
                if found:
                    self._told.hear(masters[0], found, mark, status=_heard(status))
                else:
                    self.facts.doubt(wish.keys)
                    self.facts.release(wish.keys)
                return found
        return 0

    async def _found(self, mark: str, *, on: str) -> tuple[int, str]:
        """Return the number and the status of the job with a mark; 0 when there is none."""
        rows = await self.ask("QueryJobs", None, ["id", "status", "ops"], on=on)
        jobs = msgspec.convert(rows, list[tuple[int, str, list[dict[str, object]]]])
        return next(((number, status) for number, status, ops in jobs if ops[0].get("comment") == mark), (0, ""))

    async def knock(self) -> None:
        """Have every master commit something, which shows one that was replaced that it is."""
        for name in self._lab.masters():
            with contextlib.suppress(OSError, errors.GantryError):
                await self.ask("SubmitJobToDrainedQueue", [{"OP_ID": "OP_TEST_DELAY", "duration": 0}], on=name)

    async def unfinished(self) -> list[int]:
        """Return the jobs that have not ended, those of which no client has heard too; 0 when nobody can be asked."""
        try:
            rows = await self.ask("QueryJobs", None, ["id", "status"], on=self.master())
        except (OSError, errors.GantryError):
            return [0]
        return [number for number, status in msgspec.convert(rows, list[tuple[int, str]]) if status not in FINAL]

    def give_up(self) -> None:
        """Stop looking for the jobs whose submission was not answered: nothing is known of what they are about."""
        for wish, _ in self._doubts.values():
            self.facts.doubt(wish.keys)
            self.facts.release(wish.keys)
        self._doubts.clear()

    async def meddle(self) -> None:
        """Cancel, archive or reorder a job, or close the queue for a moment."""
        master, jobs = self.master(), sorted(self.jobs)
        if not master or not jobs:
            return
        number, mark = self._chance.choice(jobs[-8:]), "meddler"
        kinds: list[tuple[str, list[object]]] = [
            ("CancelJob", [number]),
            ("CancelJob", [number]),
            ("ArchiveJob", [number]),
            ("ChangeJobPriority", [number, self._chance.randint(-20, 19)]),
            ("SetDrainFlag", [True]),
        ]
        method, arguments = self._chance.choice(kinds)
        self._story.tell(mark, f"to {master}: {method} {arguments[0]}")
        try:
            answer = await self.ask(method, *arguments, on=master)
        except (OSError, errors.GantryError) as error:
            self._story.tell(mark, f"{method}: {error}")
            answer = None
        else:
            self._story.tell(mark, f"{method}: {answer}")
            if method == "ArchiveJob" and answer is True:
                self._told.hear_of_archive(master, number, self.jobs.get(number, ""))
        if method == "SetDrainFlag":
            await self._lab.world.clock.sleep(LOOK)
            await self.undrain()

    async def undrain(self) -> None:
        """Open the queue wherever there is a master."""
        for name in self._lab.masters():
            with contextlib.suppress(OSError, errors.GantryError):
                await self.ask("SetDrainFlag", False, on=name)

    def own(self, *, ended: bool) -> list[int]:
        """Return the numbers of the jobs that clients know, those that have ended or the others."""
        return sorted(number for number in self.jobs if (number in self.ended) is ended)


def _heard(status: str) -> str:
    """Return what an acknowledgement says of a job: its end, or that it was taken in."""
    return status if status in FINAL else copies.ACCEPTED


def _class(failure: object) -> object:
    return failure[0] if isinstance(failure, list) and failure else None


def _short(failure: object) -> str:
    parts: Iterable[object] = failure[1] if isinstance(failure, list) and len(failure) == 2 else [failure]
    return f"{_class(failure)}: {next(iter(parts), '')}"
