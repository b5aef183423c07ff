"""Clients: they submit jobs through LUXI, wait for their ends even if the master changes, and rely on the answers.

Some use ``RunJob`` and wait for its answer only, as front ends with waiting clients do. The first opcode's ``comment``
has a mark that identifies a job: a later master may allocate a number again that a master without majority allocated.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.daemons import master as daemons
from gantry.sim import acknowledged, cluster, copies, deputy, doors, facts, job_answers, job_checks, story
from gantry.sim.steps import wish as wishes

ANSWER_TIMEOUT_SECONDS = 90.0
CHANGE_TIMEOUT_SECONDS = 20.0
"""For a change of a job, or its end with ``RunJob``."""
MASTER_RETRY_SECONDS = 1.0
"""Back-off before a client looks for a master again."""
SEARCH_INTERVAL_SECONDS = 10.0
"""Between two searches for a job whose submission was not answered."""

RUN_JOB_SHARE = 0.4
"""The share of jobs with one opcode for which clients use ``RunJob``."""
GIVING_UP = ("OP_NODE_SET_PARAMS", "OP_CLUSTER_SET_PARAMS")
"""A job that gives a candidate up is stored with its end only (``jobs.brief``), so clients look at its status."""
FOLLOWED = (
    "OP_INSTANCE_FAILOVER",
    "OP_INSTANCE_MIGRATE",
    "OP_INSTANCE_MOVE",
    "OP_INSTANCE_REPLACE_DISKS",
    "OP_INSTANCE_SET_PARAMS",
)
"""Opcodes for which clients need the job's log, which ``RunJob`` does not return: it says which disks are left over."""

READABLE = "the state can be read at any time"

FINAL = ("success", "error", "canceled")
UNCHANGED = "nothing was changed"
"""What a NotMasterError says if the request had no effect."""

JobState = tuple[str, list[dict[str, object]], list[object], list[list[object]]]
_Submitted = tuple[
    int | None, str | None, list[list[object]] | None, list[dict[str, object]] | None, list[object] | None
]
"""Number, status, log, opcodes and their results of a job that a job submitted; None if it is gone."""


class Clients:
    """All clients of a run; ``facts`` has their knowledge, and ``deputy`` submits some of their jobs."""

    def __init__(
        self,
        lab: cluster.SimulatedCluster,
        known: facts.Facts,
        acknowledgements: acknowledged.Acknowledgements,
        *,
        story: story.Story,
    ) -> None:
        self.facts = known
        self.jobs: dict[int, str] = {}
        self.ended: dict[int, str] = {}
        # The marks of jobs that a master without a majority refused.
        self.refused: list[str] = []
        self.deputy = deputy.Deputy(lab)
        self._lab = lab
        self._acknowledged = acknowledgements
        self._story = story
        self._chance: random.Random = lab.world.source("clients")
        self._marks = itertools.count(1)
        self._doubts: dict[str, tuple[wishes.Wish, daemons.Master | None]] = {}

    def master(self) -> str:
        """Return the machine of a master, perhaps of a former one; empty if there is none."""
        masters = self._lab.masters()
        return self._chance.choice(masters) if masters else ""

    async def ask(self, method: str, *arguments: object, on: str, user: Mapping[str, object] | None = None) -> object:
        """Call a method of a master; raises its error, OSError or TimeoutError."""
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            return await self._lab.luxi(method, *arguments, on=on, user=user)

    async def carry_out(self, wish: wishes.Wish) -> None:
        """Submit a job and wait for its end; the objects of the wish must be claimed."""
        mark = f"c{next(self._marks)}"
        beginning = job_checks.Beginning(self._lab)
        number = await self._submit(wish, mark)
        if mark in self._doubts:
            number = await self._search(wish, mark)
        if number:
            await self._follow(wish, mark, number, beginning=beginning)

    def _release(self, wish: wishes.Wish, *, settled: bool) -> None:
        """Release the objects of a wish; ``settled`` is whether no job of it can still run."""
        if wish.moves and settled:
            self.facts.end_moving()
        self.facts.release(wish.keys)

    async def _submit(self, wish: wishes.Wish, mark: str) -> int:
        """Return the number of a job to follow; 0 if there was no answer, or if the job has already succeeded."""
        master = self.master()
        ops = [{**op, "comment": mark} for op in wish.ops]
        self._story.tell(mark, f"to {master or 'no master'}: {wish.text}")
        if wish.moves:
            self.facts.begin_moving()
        if not master:
            self._release(wish, settled=True)
            return 0
        try:
            number, status, results = await self._begin(wish, ops, mark, on=master)
        except (errors.PrerequisiteError, errors.QueueDrainedError) as error:
            self._story.tell(mark, f"refused: {error.message}")
            self._release(wish, settled=True)
            return 0
        except (OSError, errors.GantryError) as error:
            if isinstance(error, errors.NotMasterError) and UNCHANGED in str(error):
                self._story.tell(mark, f"refused: {error.message}")
                self.refused.append(mark)
                self._release(wish, settled=True)
                return 0
            self._story.tell(mark, f"no answer: {error}")
            self._doubts[mark] = wish, self._lab.daemons.get(master)
            return 0
        self.jobs[number] = mark
        self._story.tell(mark, f"job {number}")
        if status == "success":
            await self._end(wish, mark, number, master=master, state=(status, [], results, []))
            return 0
        # Whether a failed job has changed anything is only in its log.
        self._acknowledged.record(master, number, mark, status=_acknowledged_status(status))
        return number

    async def _begin(
        self, wish: wishes.Wish, ops: list[dict[str, object]], mark: str, *, on: str
    ) -> tuple[int, str, list[object]]:
        """Submit a job, by a front end or not, or run it with ``RunJob``; return its number, status and results."""
        if len(ops) == 1 and not wish.user and (request := self._lab.doors.pick(wish.ops[0])):
            return await self._begin_by_door(request, mark, on=on)
        user = wish.user or self.deputy.pick()
        try:
            if len(ops) == 1 and ops[0]["OP_ID"] not in FOLLOWED and self._chance.random() < RUN_JOB_SHARE:
                return msgspec.convert(
                    await self.ask("RunJob", ops, CHANGE_TIMEOUT_SECONDS, on=on, user=user),
                    tuple[int, str, list[object]],
                )
            number = msgspec.convert(await self.ask("SubmitJob", ops, on=on, user=user), int)
        except errors.ForbiddenError as error:
            self.deputy.check(user, error, on=on)
            raise
        if any(op["OP_ID"] in GIVING_UP for op in ops):
            _, job_status = await self._find_job(mark, on=on)
            return number, job_status or copies.ACCEPTED, []
        return number, copies.ACCEPTED, []

    async def _begin_by_door(self, request: doors.Request, mark: str, *, on: str) -> tuple[int, str, list[object]]:
        """Send a request to a front end of the master; one of the Neutron API is answered when its job has ended."""
        daemon = self._lab.daemons.get(on)
        known = {*daemon.queue.jobs()} if daemon else set[int]()
        status, body = await self._lab.doors.send(on, request, user=mark)
        self._story.tell(mark, f"{request.method} {request.path} on port {request.port}: {status}")
        if daemon and self._lab.daemons.get(on) is daemon:
            job_checks.check_users(job for number, job in daemon.queue.jobs().items() if number not in known)
        if number := doors.job_number(request, status, body):
            return number, copies.ACCEPTED, []
        number, job_status = await self._find_job(mark, on=on)
        if not number and status < 400:
            raise story.Violation(acknowledged.KEPT, f"the job of {mark}, answered with {status}", "there is none")
        if not number:
            raise errors.PrerequisiteError(f"{request.path} was refused with {status}: {body[:200]!r}")
        if status < 400 and job_status != "success":
            raise story.Violation(doors.DONE, f"success of job {number} before its answer", f"it is {job_status}")
        # A job that ends at once is stored with its end only.
        return number, job_status, []

    async def _follow(self, wish: wishes.Wish, mark: str, number: int, *, beginning: job_checks.Beginning) -> None:
        status = copies.ACCEPTED
        while True:
            master = self.master()
            try:
                state = await self._wait_for_change(number, status, on=master) if master else None
            except (OSError, errors.GantryError):
                state = None
            if state and copies.mark_of(state[1][0]) == mark:
                status = state[0]
                if status in FINAL:
                    if status == "success":
                        beginning.check(wish, master, results=state[2], log=str(state[3]))
                    await self._end(wish, mark, number, master=master, state=state)
                    return
                continue
            if self._is_gone(number, mark):
                break
            await self._lab.world.clock.sleep(MASTER_RETRY_SECONDS)
        self._story.tell(mark, f"job {number} is not known any more")
        self.jobs.pop(number, None)
        self.facts.doubt(wish.keys)
        self.facts.tidy_no_more(wish.keys, files=True)
        self._release(wish, settled=False)

    async def _wait_for_change(self, number: int, status: str, *, on: str) -> JobState | None:
        """Wait for a change of a job's status and return the job's new state; None if the job does not exist."""
        # An archived job does not change any more, but it can be queried.
        with contextlib.suppress(errors.JobLostError):
            await self.ask(
                "WaitForJobChange", number, ["status"], [status], cluster.NO_LOG, CHANGE_TIMEOUT_SECONDS, on=on
            )
        answer = await self.ask("QueryJobs", [number], ["status", "ops", "opresult", "oplog"], on=on)
        (row,) = msgspec.convert(answer, list[list[object]])
        return None if row[0] is None else msgspec.convert(row, JobState)

    def _is_gone(self, number: int, mark: str) -> bool:
        """Return whether all acknowledgements of a job are lost; a job that is followed has at least one."""
        indexes = [index for index, ack in enumerate(self._acknowledged.all) if (ack.number, ack.tag) == (number, mark)]
        return all(map(self._acknowledged.is_number_lost, indexes))

    async def _end(self, wish: wishes.Wish, mark: str, number: int, *, master: str, state: JobState) -> None:
        status, _, results, log = state
        source = self._acknowledged.record(master, number, mark, status=status)
        self.ended[number] = status
        failure = next((result for result in results if status == "error" and result), None)
        self._story.tell(
            mark, f"job {number} has ended: {status}{f' {job_answers.described(failure)}' if failure else ''}"
        )
        if job_answers.may_leave_disks(log, results):
            self.facts.tidy_no_more(wish.keys, files=True)
        settled = not wish.moves or status != "success"
        if not settled and await self._wait_for_all(job_answers.submitted(results), mark, wish):
            settled = True
            effects = wish.judge(results[0]) if wish.judge else {}
            self._release(wish, settled=True)
            self.facts.learn(effects, source)
            return
        if not settled:
            self.facts.doubt(wish.keys)
        elif status == "success":
            self.facts.learn(wish.effects, source)
        elif status == "error" and not job_answers.has_no_effect(failure, log):
            self.facts.doubt(wish.keys)
        else:
            self.facts.rely(wish.keys, source)
        self._release(wish, settled=settled)

    async def _wait_for_all(self, numbers: list[int], mark: str, wish: wishes.Wish) -> bool:
        """Wait for the jobs that a job has submitted; return whether all of them are known to have succeeded."""
        while numbers:
            await self._lab.world.clock.sleep(SEARCH_INTERVAL_SECONDS)
            masters = self._lab.masters()
            if len(masters) != 1:
                continue
            try:
                answer = await self.ask(
                    "QueryJobs", numbers, ["id", "status", "oplog", "ops", "opresult"], on=masters[0]
                )
            except (OSError, errors.GantryError):
                continue
            rows = msgspec.convert(answer, list[_Submitted])
            ends = {number: status for number, status, *_ in rows}
            if set(ends.values()) <= {*FINAL, None}:
                self._story.tell(mark, f"its jobs have ended: {ends}")
                whole = True
                for _, status, log, ops, results in rows:
                    concerned = job_answers.instances(ops or [])
                    has_files = job_answers.may_leave_disks(log or [], results or [])
                    if has_files or status != "success":
                        self.facts.tidy_no_more(concerned, files=has_files)
                        whole = False
                    failure = next((result for result in results or [] if status == "error" and result), None)
                    if status != "success" and not job_answers.has_no_effect(failure, log or []):
                        self.facts.doubt(concerned)
                if not whole:
                    return False
                for number, _, _, ops, _ in rows:
                    # They inherit the front end's user.
                    mark = copies.mark_of((ops or [{}])[0])
                    source = self._acknowledged.record(masters[0], number or 0, mark, status="success")
                    self.facts.rely(wish.keys, source)
                return True
        return True

    async def _search(self, wish: wishes.Wish, mark: str) -> int:
        """Return the number of a job whose submission was not answered; 0 if it was not and will not be accepted."""
        _, first_master = self._doubts[mark]
        while mark in self._doubts:
            await self._lab.world.clock.sleep(SEARCH_INTERVAL_SECONDS)
            masters = self._lab.masters()
            if len(masters) != 1:
                continue
            try:
                number, status = await self._find_job(mark, on=masters[0])
            except (OSError, errors.GantryError):
                continue
            if mark in self._doubts and (number or self._lab.daemons.get(masters[0]) is not first_master):
                del self._doubts[mark]
                self._story.tell(mark, f"was job {number}" if number else "was not accepted")
                if number:
                    self._acknowledged.record(masters[0], number, mark, status=_acknowledged_status(status))
                else:
                    self.facts.doubt(wish.keys)
                    self._release(wish, settled=False)
                return number
        return 0

    async def _find_job(self, mark: str, *, on: str) -> tuple[int, str]:
        """Return the number and the status of the job with a mark; number 0 if there is none."""
        rows = await self.ask("QueryJobs", None, ["id", "status", "ops"], on=on)
        jobs = msgspec.convert(rows, list[tuple[int, str, list[dict[str, object]]]])
        return next(((number, status) for number, status, ops in jobs if copies.mark_of(ops[0]) == mark), (0, ""))

    async def knock(self) -> None:
        """Make every master commit a job, so that a replaced master learns that it is replaced."""
        for name in self._lab.masters():
            with contextlib.suppress(OSError, errors.GantryError):
                await self.ask(
                    "SubmitJobToDrainedQueue", [{"OP_ID": "OP_TEST_DELAY", "duration": 0, "comment": "knock"}], on=name
                )

    async def unfinished(self) -> list[int]:
        """Return all jobs that have not ended, including those unknown to clients; [0] if no master answers."""
        try:
            rows = await self.ask("QueryJobs", None, ["id", "status"], on=self.master())
        except (OSError, errors.GantryError):
            return [0]
        return [number for number, status in msgspec.convert(rows, list[tuple[int, str]]) if status not in FINAL]

    def give_up(self) -> None:
        """Stop the search for jobs whose submission was not answered; the state of their objects is unknown."""
        for wish, _ in self._doubts.values():
            self.facts.doubt(wish.keys)
            self._release(wish, settled=False)
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
                self._acknowledged.record_archiving(master, number, self.jobs.get(number, ""))
        if method == "SetDrainFlag":
            await self._lab.world.clock.sleep(CHANGE_TIMEOUT_SECONDS)
            await self.undrain()

    async def read(self, method: str, arguments: list[object]) -> None:
        """Read something of a master; it must be readable, unless the question is wrong."""
        master = self.master()
        if not master:
            return
        try:
            if self._lab.doors.enabled:
                self._story.tell("reader", await self._lab.doors.read(master))
            await self.ask(method, *arguments, on=master)
        except errors.InternalError as error:
            raise story.Violation(READABLE, f"an answer of {master} to {method} {arguments}", str(error)) from None
        except (OSError, errors.GantryError) as error:
            self._story.tell("reader", f"{method} {arguments[0]}: {error}")

    async def undrain(self) -> bool:
        """Open the queue wherever there is a master; return whether all of them did it."""
        masters = self._lab.masters()
        opened = 0
        for name in masters:
            with contextlib.suppress(OSError, errors.GantryError):
                await self.ask("SetDrainFlag", False, on=name)
                opened += 1
        return bool(masters) and opened == len(masters)

    def own(self, *, ended: bool) -> list[int]:
        """Return the numbers of the jobs that clients know: those that have ended, or those that have not."""
        return sorted(number for number in self.jobs if (number in self.ended) is ended)


def _acknowledged_status(status: str) -> str:
    """Return the status that an acknowledgement implies: the job's end, or that the job was accepted."""
    return status if status in FINAL else copies.ACCEPTED
