"""The fields of jobs that say who submitted a job, and why it failed."""

import msgspec
import pytest
from tests.operations.query.test_engine import Queries
from tests.state import build

from gantry.model import job

WRITTEN, CLIENT, REMOTE = ("gnt:user", "because", 1), ("gnt:client:gnt-node", "add", 1), ("gnt:rapi:ann", "POST /2", 1)


async def _cell(entry: job.Job, field: str) -> tuple[int, object]:
    queries = Queries()
    queries.jobs[entry.id] = entry
    ((cell,),) = await queries.rows("job", field)
    return cell


@pytest.mark.parametrize(
    ("trail", "expected"),
    [
        ((CLIENT,), (0, "gnt-node")),
        ((WRITTEN, REMOTE), (0, "ann")),
        ((("gantry:watcher", "restart", 1),), (0, "watcher")),
        ((WRITTEN,), (3, None)),
        ((), (3, None)),
    ],
)
async def test_a_job_has_the_user_who_submitted_it(
    trail: tuple[tuple[str, str, int], ...], expected: tuple[int, object]
) -> None:
    entry = build.queued(1)
    step = entry.ops[0]
    ops = (msgspec.structs.replace(step, input=msgspec.structs.replace(step.input, reason=trail)),)
    assert await _cell(msgspec.structs.replace(entry, ops=ops), "user") == expected


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
