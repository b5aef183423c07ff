"""The methods of LUXI that work on jobs: submit, cancel, archive, wait (contracts/luxi.md#methods).

The queue decides by the access rules whether the subject may run a job. A job that exists belongs to the subject that
submitted it: others need the right to administer the cluster to cancel or archive it, or to change its priority.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from gantry import errors
from gantry.doors.luxi import consoles, invitations, packages, reading, webhooks
from gantry.doors.luxi.services import BY_ROOT, LATEST, SUBJECT, WAIT_LIMIT, Methods, Seconds, Services, cause
from gantry.model import allowed, job, opcodes
from gantry.operations.access import check
from gantry.operations.query import engine
from gantry.rpc import calls

Ops = Sequence[dict[str, object]]

WAITING = {"WaitForJobChange"}
"""The methods that change nothing."""
PROGRESS = "progress"
"""What a client may wait for besides fields: how far the present work of the job is."""

BY_RULES = {"SubmitJob", "SubmitManyJobs", "RunJob", "CancelJob", "ArchiveJob", "ChangeJobPriority", "OpenConsole"}
"""The methods that users with access rules may call; each decides about its job or instance."""

REFUSED = "refused"
"""The status in the answer of ``RunJob`` when a condition of the job is not met."""


def _decoded(op: dict[str, object]) -> opcodes.AnyOpcode:
    """Decode an opcode; ForbiddenError if only root may submit it."""
    decoded = opcodes.decode(op)
    if (what := allowed.needs_root(decoded)) and not BY_ROOT.get():
        raise errors.ForbiddenError(
            f"only root may change {what}, with a command on the master",
            hint=f"run {allowed.root_command(decoded)} there as root",
        )
    return decoded


async def _submit(services: Services, ops: Ops) -> int:
    return await services.queue.submit([_decoded(op) for op in ops], submitter=SUBJECT.get())


async def _submit_drained(services: Services, ops: Ops) -> int:
    return await services.queue.submit([_decoded(op) for op in ops], submitter=SUBJECT.get(), ignore_drain=True)


async def _submit_many(services: Services, many: Sequence[Ops]) -> list[tuple[bool, int | str]]:
    decoded: list[list[opcodes.AnyOpcode]] = []
    faults: dict[int, errors.PrerequisiteError] = {}
    for index, ops in enumerate(many):
        try:
            decoded.append([_decoded(op) for op in ops])
        except (errors.InvalidError, errors.ForbiddenError) as error:
            # The refused job keeps its position, as relative dependencies count positions.
            decoded.append([])
            faults[index] = error
    results = await services.queue.submit_many(decoded, submitter=SUBJECT.get())
    answers = [faults.get(index, answer) for index, answer in enumerate(results)]
    return [(True, answer) if isinstance(answer, int) else (False, str(answer)) for answer in answers]


async def give_up(services: Services, method: str, many: Sequence[Any]) -> object:
    """Return the answer to the submission of a job that ends the wait for candidates; None if it is another request."""
    if method == "SubmitManyJobs":
        number = await _give_up(services, many[0])
        return number and [(True, number)]
    return await _give_up(services, many) if method == "SubmitJob" else None


async def _give_up(services: Services, jobs: Sequence[Ops]) -> int | None:
    is_single = len(jobs) == 1 and len(jobs[0]) == 1
    return await services.queue.give_up(_decoded(jobs[0][0]), submitter=SUBJECT.get()) if is_single else None


class _Condition(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A condition for the submission of a job: at least one object of a kind matches a filter."""

    kind: str
    filter: object


class _Query(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The arguments of ``Query``."""

    kind: str
    fields: list[str]
    filter: object


class _Run(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[opcodes, seconds]``, optional conditions of the job, and an optional query to run after its success."""

    ops: list[dict[str, object]]
    seconds: Seconds
    conditions: list[_Condition] = []
    query: _Query | None = None

    def __iter__(self) -> Iterator[object]:
        return iter((self.ops, self.seconds, self.conditions, self.query))


async def _run(
    services: Services, ops: Ops, seconds: float, conditions: Sequence[_Condition], query: _Query | None
) -> list[object]:
    """Run a job; return its number, status and results when the job has ended or the timeout is over (not in Ganeti).

    After a success, the rows of ``query`` follow. If no object meets one of the conditions, the job is not submitted:
    the answer is 0, "refused" and the index of that condition.
    """
    for index, condition in enumerate(conditions):
        if not (await engine.query(services.source, condition.kind, ["uuid"], filter_=condition.filter)).rows:
            return [0, REFUSED, [index]]
    decoded = [_decoded(op) for op in ops]
    ended = await services.queue.run(decoded, timeout=min(seconds, WAIT_LIMIT), submitter=SUBJECT.get())
    ended = services.source.veil(ended)
    answer: list[object] = [ended.id, ended.status.value, [step.result for step in ended.ops]]
    if query and ended.status is job.Status.SUCCESS:
        rows = await engine.query(services.source, query.kind, query.fields, filter_=query.filter)
        return [*answer, rows.rows]
    return answer


async def _wait_for_change(
    services: Services,
    number: int,
    names: Sequence[str],
    previous: list[object] | None,
    serial: int | None,
    timeout: float,
) -> object:
    """Wait for a change of the requested fields, or a log message (contracts/jobs.md#waiting-for-a-change).

    Besides the fields of jobs there is ``progress``: how far the present work is (not in Ganeti).
    """
    reading.check_job(services, number)
    entry = services.queue.jobs().get(number)
    getters = engine.GETTERS["job"]
    unknown = [name for name in names if name not in getters and name != PROGRESS]
    if unknown:
        raise errors.InvalidError(f"unknown output fields of job: {', '.join(unknown)}")
    context = engine.context(services.source)

    def values(current: job.Job) -> list[object]:
        cells = [
            services.queue.progress(number) if name == PROGRESS else getters[name](context, current) for name in names
        ]
        decoded: list[object] = msgspec.json.decode(msgspec.json.encode(cells))
        return decoded

    limit = min(timeout, WAIT_LIMIT)
    change = await services.queue.wait_for_change(number, values, previous=previous, serial=serial, timeout=limit)
    if change is None:
        return "nochange"
    view = services.view()
    return (change[0], view.veiled_log(entry, change[1])) if view and entry else change


async def _drain(services: Services, drained: bool) -> bool:
    right = _administrator(services, "drain the job queue")
    await services.queue.set_drained(drained, cause("job queue drained" if drained else "job queue opened", right))
    return True


async def _set_watcher_pause(services: Services, until: float | None) -> float | None:
    right = _administrator(services, "pause the watcher")
    await services.pause_watcher(until, cause("watcher paused" if until else "watcher resumed", right))
    return until


def _administrator(services: Services, what: str) -> str:
    return check.check_administrator(services.snapshot(), SUBJECT.get(), what)


def _check_owner(services: Services, number: int) -> str:
    """Raise ForbiddenError unless the job is the subject's own, or the subject may administer the cluster.

    Returns by which right, for the audit.
    """
    reading.check_job(services, number)
    subject, entry = SUBJECT.get(), services.queue.jobs().get(number)
    if entry is None or (entry.submitter and subject.has_jobs_of(entry.submitter)):
        return "own job"
    if not check.may_administer(services.snapshot(), subject):
        raise errors.ForbiddenError(
            f"job {number} is not a job of user {subject.title}",
            hint="its submitter and administrators of the cluster may cancel it, archive it or change its priority",
        )
    return _administrator(services, f"change job {number}")


async def _cancel(services: Services, number: int, kill: bool) -> tuple[bool, str]:
    right = _check_owner(services, number)
    is_canceled, text = await services.queue.cancel(number, kill=kill)
    if is_canceled:
        await services.note(cause(f"job {number} canceled", right))
    return is_canceled, text


async def _archive(services: Services, number: int) -> bool:
    _check_owner(services, number)
    return await services.queue.archive(number)


async def _change_priority(services: Services, number: int, priority: int) -> tuple[bool, str]:
    right = _check_owner(services, number)
    is_changed, text = await services.queue.change_priority(number, priority)
    if is_changed:
        await services.note(cause(f"priority of job {number} changed to {priority}", right))
    return is_changed, text


class _Cancel(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[id]`` or ``[id, kill]``; ``kill`` also ends a running job."""

    number: int
    kill: bool = False

    def __iter__(self) -> Iterator[object]:
        return iter(msgspec.structs.astuple(self))


METHODS: Methods = {
    "SubmitJob": (tuple[list[dict[str, object]]], _submit),
    "SubmitManyJobs": (tuple[list[list[dict[str, object]]]], _submit_many),
    "SubmitJobToDrainedQueue": (tuple[list[dict[str, object]]], _submit_drained),
    "RunJob": (_Run, _run),
    "WaitForJobChange": (
        tuple[int, list[str], list[object] | None, int | None, Seconds],
        _wait_for_change,
    ),
    "CancelJob": (_Cancel, _cancel),
    "ArchiveJob": (tuple[int], _archive),
    "AutoArchiveJobs": (
        tuple[Annotated[float, msgspec.Meta(ge=-1, le=LATEST)], Seconds],
        lambda services, age, timeout: services.queue.autoarchive(age, timeout),
    ),
    "ChangeJobPriority": (tuple[int, int], _change_priority),
    "SetDrainFlag": (tuple[bool], _drain),
    "SetWatcherPause": (tuple[Seconds | None], _set_watcher_pause),
    "ChangePackages": (
        tuple[packages.Action, list[str], calls.PackageVersion, calls.ConfirmSeconds],
        packages.change,
    ),
    "OpenConsole": (consoles.Arguments, consoles.open_for),
    "UseInvitation": (invitations.Use, invitations.use),
    "ReadWebhooks": (tuple[()], webhooks.read),
    "ReadWebhookSecret": (tuple[str], webhooks.read_secret),
    "StoreWebhookPositions": (tuple[list[webhooks.Progress]], webhooks.store_positions),
}
