"""The fields of jobs that say who submitted a job, and why it failed."""

import msgspec
import pytest
from tests.operations.query.test_engine import Queries
from tests.state import build

from gantry.model import access, job

WRITTEN, CLIENT, REMOTE = ("gnt:user", "because", 1), ("gnt:client:gnt-node", "add", 1), ("gnt:rapi:ann", "POST /2", 1)
ROOT = access.Subject(user="root", is_admin=True)


async def _cell(entry: job.Job, field: str) -> tuple[int, object]:
    queries = Queries()
    queries.jobs[entry.id] = entry
    ((cell,),) = await queries.rows("job", field)
    return cell


@pytest.mark.parametrize(
    ("trail", "submitter", "expected"),
    [
        ((CLIENT,), None, (0, "gnt-node")),
        ((CLIENT,), ROOT, (0, "root")),
        ((WRITTEN, CLIENT), access.Subject(user="anna", is_admin=True), (0, "anna")),
        ((CLIENT,), access.Subject(user="bob"), (0, "bob")),
        ((), ROOT, (0, "root")),
        ((WRITTEN, REMOTE), ROOT, (0, "ann")),
        ((REMOTE,), access.Subject(user="bob", door="rapi"), (0, "bob")),
        ((("gnt:neutron:olga", "POST /v2.0/ports", 1),), ROOT, (0, "olga")),
        ((("gantry:watcher", "restart", 1),), ROOT, (0, "watcher")),
        ((WRITTEN,), None, (3, None)),
        ((), None, (3, None)),
    ],
)
async def test_a_job_has_the_user_who_submitted_it(
    trail: tuple[tuple[str, str, int], ...], submitter: access.Subject | None, expected: tuple[int, object]
) -> None:
    entry = build.queued(1)
    step = entry.ops[0]
    ops = (msgspec.structs.replace(step, input=msgspec.structs.replace(step.input, reason=trail)),)
    assert await _cell(msgspec.structs.replace(entry, ops=ops, submitter=submitter), "user") == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (["OpExecError", ["no space\nat all"]], (0, "no space")),
        (["OpPrereqError", ["no such node: n9", "unknown_entity"]], (0, "no such node: n9")),
        (["HooksAbort", [[["node1", "10-owner", "refused\nby it"]]]], (0, "hooks failed: 10-owner on node1: refused")),
        ("a text", (0, "a text")),
        (["JobLost", []], (0, "JobLost")),
        (None, (3, None)),
    ],
)
async def test_a_failed_job_has_the_first_line_of_its_error(result: object, expected: tuple[int, object]) -> None:
    done, entry = build.ended(build.queued(1)).ops[0], build.queued(1)
    failed = msgspec.structs.replace(done, status=job.Status.ERROR, result=result)
    assert await _cell(msgspec.structs.replace(entry, ops=(done, failed)), "error") == expected
    assert await _cell(msgspec.structs.replace(entry, ops=(done,)), "error") == (3, None)
