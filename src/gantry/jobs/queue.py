"""The job queue, for the front ends and the master daemon.

A job is queued until the jobs that it depends on have ended and fewer jobs than the cluster's ``max_running_jobs`` are
started, including those that wait for locks; smaller priority numbers go first, then smaller job numbers.
``jobs.processor`` runs a started job as one task. An ended job stays until it is archived.

Life cycle: ``start`` once, when the state is loaded; then any of the others; ``close`` when the daemon ends, which
leaves started jobs as they are in the journal: the next ``start`` marks them failed
(contracts/cluster-design.md#job-status).
"""

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gantry import errors
from gantry.jobs import archiving, arrivals, brief, dependencies, processor, records, uninterrupted
from gantry.model import access, confidential, opcodes
from gantry.model import job as model
from gantry.operations import base
from gantry.operations.access import check as access_check
from gantry.runtime import interface, request_ids
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

LIMIT = 20_000
"""The maximum number of jobs in the queue; Ganeti's 5,000 were for a queue with a higher cost for each job.

See contracts/jobs.md#files and explanation/decisions/0010-limits-of-the-queue.md.
"""

OPCODE_LIMIT = 500
"""The maximum number of opcodes of a job: each change stores the whole job, so its cost grows with their square."""

RESTARTED = "the master daemon was restarted while the job ran"

Ops = Sequence[opcodes.AnyOpcode]
Submitter = access.Subject | None
Archived = Callable[[int], model.Job | None]
"""Reads a job from the archive; the queue only does so for a dependency on it."""


class Queue:
    """The jobs of a cluster that are not archived."""

    def __init__(
        self,
        book: records.Records,
        runner: processor.Processor,
        runtime: interface.Runtime,
        *,
        archived: Archived,
        limit: int = LIMIT,
        in_one_step: brief.Brief | None = None,
    ) -> None:
        self._book = book
        self._processor = runner
        self._runtime = runtime
        self._archived = archived
        self._limit = limit
        self._brief = in_one_step
        self._ready: list[tuple[int, int]] = []
        self._dependants: dict[int, list[int]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._arrivals = arrivals.Arrivals(runner)
        self._archiving = archiving.Archiving(book, runtime.clock)
        self._closed = False
        book.on_end = self._settle

    def jobs(self) -> Mapping[int, model.Job]:
        """Return a live view of the jobs by number."""
        return self._book.view

    def executing(self) -> list[int]:
        """Return the jobs with a running opcode, which holds its locks."""
        running_jobs = (self._book.find(number).current for number in self._tasks)
        return [job.id for job in running_jobs if model.Status.RUNNING in (step.status for step in job.ops)]

    def arriving(self) -> list[int]:
        """Return the jobs that have their locks, but are not durable and not visible yet."""
        return sorted(self._arrivals.begun)

    @property
    def drained(self) -> bool:
        """Return whether the queue is closed for new jobs."""
        owner = self._book.store.snapshot.cluster
        return owner is not None and owner.queue_drained

    async def set_drained(self, drained: bool, cause: transaction.Cause) -> None:
        """Close or open the queue for new jobs, also across restarts and changes of the master.

        See contracts/cluster-design.md#upgrades.
        """
        owner = base.changed(self._book.store.snapshot.the_cluster, self._runtime.clock.now(), queue_drained=drained)
        await self._book.store.submit([states.Put(owner)], cause)

    async def start(self) -> None:
        """Take over the jobs of the state: queued jobs run, started jobs are marked failed."""
        interrupted = errors.ExecutionError(RESTARTED, hint="check what it was to change, then submit it again")
        stored_jobs = sorted(self._book.store.snapshot.jobs.values(), key=lambda job: job.id)
        members = [self._book.add(job) for job in stored_jobs]
        for record in members:
            if all(step.status is model.Status.QUEUED for step in record.current.ops):
                continue
            if record.current.status not in model.FINAL:
                record.end(model.Status.ERROR, processor.encode_error(interrupted), self._book.now())
        await self._book.save_all([record for record in members if record.current is not record.durable])
        for record in members:
            if record.current.status is model.Status.QUEUED:
                self._enqueue(record)
        self._admit()

    async def close(self) -> None:
        """Stop: started jobs are aborted, nothing is stored any more."""
        self._closed = True
        tasks = [*self._tasks.values(), *self._archiving.tasks()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._book.close()

    async def submit(self, ops: Ops, *, submitter: Submitter = None, ignore_drain: bool = False) -> int:
        """Accept a job and return its number once it is durable; a number is never used again.

        Without a ``submitter``, the cluster itself submits it. Raises InvalidError, ForbiddenError, NotFoundError,
        QueueDrainedError (unless ``ignore_drain``), QueueFullError, StorageError.
        """
        (result,) = await self.submit_many([ops], submitter=submitter, ignore_drain=ignore_drain)
        if isinstance(result, errors.GantryError):
            raise result
        return result

    async def submit_many(
        self, many: Sequence[Ops], *, submitter: Submitter = None, ignore_drain: bool = False
    ) -> list[int | errors.GantryError]:
        """Accept jobs in one transaction; returns, in order, a number or an error for each."""
        if self.drained and not ignore_drain:
            raise errors.QueueDrainedError("the job queue is drained", hint="gnt-cluster queue undrain opens it")
        accepted: list[model.Job] = []
        results: list[int | errors.GantryError] = []
        for ops in many:
            try:
                access_check.check_job(self._book.store.snapshot, submitter, ops)
                job = self._make(ops, submitter, earlier=results, taken=len(accepted))
            except (errors.PrerequisiteError, errors.QueueFullError) as error:
                results.append(error)
            else:
                accepted.append(job)
                results.append(job.id)
        if accepted:
            # Submitted in this turn of the event loop, so that no other job gets the same numbers.
            arrival = self._arrivals.accept(accepted, capacity=self._capacity())
            try:
                durable = self._book.store.submit(arrival.changes(), records.cause(accepted[0]))
            except errors.GantryError:
                self._arrivals.abandon(arrival)
                raise
            await uninterrupted.finish(self._take_in(arrival, durable))
        return results

    def _capacity(self) -> int:
        """Return how many new jobs may be started, if no other job waits for its turn."""
        return 0 if self._closed or self._ready else self._most_started() - len(self._tasks)

    def _most_started(self) -> int:
        return self._book.store.snapshot.the_cluster.max_running_jobs

    async def run(self, ops: Ops, *, timeout: float, submitter: Submitter = None) -> model.Job:
        """Accept a job and return it when it has ended, or as it is after ``timeout`` seconds; raises as ``submit``.

        The last ``archiving.RECENT`` of these jobs stay in the queue after their end, older ones are archived: callers
        create a job for each request, and would fill the queue.
        """
        access_check.check_job(self._book.store.snapshot, submitter, ops)
        record = await self._in_one_step(ops, submitter)
        if record is None:
            record = self._book.find(await self.submit(ops, submitter=submitter))
        if record.durable.status not in model.FINAL:
            await self._wait_for_end(record, timeout)
        self._archiving.keep(record)
        return record.durable

    async def give_up(self, op: opcodes.AnyOpcode, *, submitter: Submitter = None) -> int | None:
        """Run an opcode as ``Brief.give_up`` does, and return the number of its job; None if it is another opcode."""
        if self._brief is None or self.drained:
            return None
        access_check.check(self._book.store.snapshot, submitter, op)
        job = await uninterrupted.finish(self._brief.give_up(op, submitter))
        return self._book.add(job).current.id if job else None

    async def _wait_for_end(self, record: records.Record, timeout: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while record.durable.status not in model.FINAL:
                    await self._book.wait(record)

    async def _in_one_step(self, ops: Ops, submitter: Submitter) -> records.Record | None:
        """Run a job as described in ``jobs.brief``; None if it must be submitted."""
        if self._brief is None or len(ops) != 1 or self.drained or self._is_full(0):
            return None
        return await uninterrupted.finish(self._taken_in_one_step(self._brief, ops[0], submitter))

    async def _taken_in_one_step(
        self, how: brief.Brief, op: opcodes.AnyOpcode, submitter: Submitter
    ) -> records.Record | None:
        job = await how.run(op, submitter)
        return self._book.add(job) if job else None

    def _is_full(self, taken: int) -> bool:
        return len(self._book.store.snapshot.jobs) + taken >= self._limit

    async def cancel(self, number: int, *, kill: bool = False) -> tuple[bool, str]:
        """Cancel a job that has not begun to run, or can be stopped; return whether, and what happened.

        ``kill`` also ends a job in the middle of its work: its steps are undone, or its log names those that stay.
        Raises StorageError if it is canceled, but not durably (contracts/jobs.md#end-of-a-job).
        """
        record = self._book.find(number)
        status = record.current.status
        if kill and status is model.Status.RUNNING and not record.stoppable:
            record.update(self._unfinished(record), status=model.Status.CANCELING)
            record.kill()
            await self._store(record, self._unfinished(record))
            return True, f"Job {number} will be killed"
        if status is model.Status.CANCELING:
            if kill:
                record.kill()
            return True, f"Job {number} is being canceled already"
        if status is model.Status.WAITING or record.stoppable:
            index = self._unfinished(record)
            record.update(index, status=model.Status.CANCELING)
            try:
                await self._store(record, index)
            finally:
                self._processor.cancel(record)
            return True, f"Job {number} will be canceled"
        if status is model.Status.QUEUED:
            record.end(model.Status.CANCELED, processor.CANCELED_RESULT, self._book.now())
            await self._store(record)
            return True, f"Dequeued job {number}"
        return False, f"Job {number} is no longer waiting in the queue ({record.current.status})"

    async def change_priority(self, number: int, priority: int) -> tuple[bool, str]:
        """Change the priority of opcodes that have not begun, -20 to 19; return whether there were any, and a text.

        Raises StorageError if they have it, but not durably.
        """
        if not -20 <= priority <= 19:
            raise errors.InvalidError(f"priority {priority} is not in the range -20 to 19")
        record = self._book.find(number)
        pending = [
            index
            for index, step in enumerate(record.current.ops)
            if step.status in (model.Status.QUEUED, model.Status.WAITING)
        ]
        if not pending:
            return False, f"Job {number} has no opcodes that wait ({record.current.status})"
        for index in pending:
            record.update(index, priority=priority)
        self._processor.change_priority(record, priority)
        if any(waiting == number for _, waiting in self._ready):
            heapq.heappush(self._ready, (record.current.priority, number))
        await self._store(record, pending[0])
        return True, f"Priorities of the waiting opcodes of job {number} have been changed to {priority}"

    async def archive(self, number: int) -> bool:
        """Move an ended job to the archive; False if it has not ended, or its end is not stored yet."""
        return await self._archiving.archive(self._book.find(number))

    async def autoarchive(self, age: float, timeout: float) -> tuple[int, int]:
        """Archive the jobs that ended more than ``age`` seconds ago (-1: all ended jobs), for ``timeout`` seconds.

        Returns the number of archived jobs, and the number of jobs that could not be archived in time.
        """
        return await self._archiving.archive_old(age, timeout)

    def progress(self, number: int) -> str:
        """Return how far the present work of a job is; empty if that is not measured."""
        record = self._book.get(number)
        return record.progress if record else ""

    async def wait_for_change(
        self,
        number: int,
        values: records.Values,
        *,
        previous: list[object] | None,
        serial: int | None,
        timeout: float,
    ) -> tuple[list[object], list[model.LogEntry]] | None:
        """Wait as ``records.wait_for_change`` does."""
        return await records.wait_for_change(
            self._book, number, values, previous=previous, serial=serial, timeout=timeout
        )

    def _make(
        self, ops: Ops, submitter: Submitter, *, earlier: Sequence[int | errors.GantryError], taken: int
    ) -> model.Job:
        if not ops:
            raise errors.InvalidError("A job needs at least one opcode")
        if len(ops) > OPCODE_LIMIT:
            raise errors.InvalidError(
                f"a job of {len(ops)} opcodes is too long, the maximum is {OPCODE_LIMIT}",
                hint="submit several jobs, which may depend on each other",
            )
        if self._is_full(taken):
            raise errors.QueueFullError(f"the job queue is full ({self._limit} jobs)", hint="archive ended jobs")
        number = self._book.store.snapshot.last_job + taken + 1
        resolved = dependencies.absolute(ops, number, earlier=earlier, status_of=self._status)
        parts = [confidential.split_secrets(op) for op in resolved]
        for index, (_, secrets) in enumerate(parts):
            # A number is used again if its job could not be stored.
            self._book.secrets.pop((number, index), None)
            if secrets:
                self._book.secrets[number, index] = secrets
        steps = tuple(model.Step(input=op, priority=op.priority) for op, _ in parts)
        now, request = self._book.now(), request_ids.CURRENT.get()
        return model.Job(id=number, ops=steps, received_timestamp=now, submitter=submitter, request=request)

    def _status(self, number: int) -> model.Status | None:
        job = self._book.view.get(number) or self._archived(number)
        return job.status if job else None

    def _unfinished(self, record: records.Record) -> int:
        return next(index for index, step in enumerate(record.current.ops) if step.status not in model.FINAL)

    async def _store(self, record: records.Record, index: int = 0) -> None:
        if not await uninterrupted.finish(self._book.save(record, index)):
            raise errors.StorageError(
                f"job {record.current.id} was changed, but the change is not stored yet and a restart would lose it",
                hint="see the master's log for the disk failure; storing is retried until it succeeds",
            )

    async def _take_in(self, arrival: arrivals.Arrival, durable: Awaitable[states.Snapshot]) -> None:
        try:
            await durable
        except BaseException:
            self._arrivals.abandon(arrival)
            self._admit()
            raise
        self._arrivals.end(arrival)
        for begun in arrival.begun.values():
            self._book.adopt(begun.record)
            if not self._closed:
                self._tasks[begun.record.current.id] = asyncio.create_task(self._run(begun.record, begun=begun))
        for record in [self._book.add(job) for job in arrival.jobs if job.id not in arrival.begun]:
            self._enqueue(record)
        self._admit()

    def _enqueue(self, record: records.Record) -> None:
        for number in {dependency.job for dependency in dependencies.of(record.current)}:
            if (other := self._book.view.get(number)) and other.status not in model.FINAL:
                self._dependants.setdefault(number, []).append(record.current.id)
        self._consider(record)

    def _consider(self, record: records.Record) -> None:
        """Make a queued job ready, or let it wait for its dependencies, or end it because of them."""
        job = record.current
        try:
            if not dependencies.pending(job, self._status):
                heapq.heappush(self._ready, (job.priority, job.id))
            return
        except errors.JobCanceledError as error:
            record.end(model.Status.CANCELED, error.message, self._book.now())
        except errors.ExecutionError as error:
            record.end(model.Status.ERROR, processor.encode_error(error), self._book.now())
        self._book.save_soon(record)

    def _admit(self) -> None:
        most = self._most_started() - len(self._arrivals.begun)
        while self._ready and len(self._tasks) < most and not self._closed:
            priority, number = heapq.heappop(self._ready)
            record = self._book.get(number)
            # Canceled, or in the heap a second time because its priority changed.
            if record is None or number in self._tasks or record.current.status is not model.Status.QUEUED:
                continue
            if record.current.priority == priority:
                self._tasks[number] = asyncio.create_task(self._run(record))

    async def _run(self, record: records.Record, *, begun: processor.Begun | None = None) -> None:
        try:
            await self._processor.run(record, begun=begun)
        finally:
            del self._tasks[record.current.id]
            self._admit()

    def _settle(self, record: records.Record) -> None:
        """Check the dependants of a job again, after its end is durable."""
        for number in self._dependants.pop(record.current.id, ()):
            dependant = self._book.get(number)
            if dependant is not None and dependant.current.status is model.Status.QUEUED:
                self._consider(dependant)
        self._admit()
