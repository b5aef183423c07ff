"""Invalid jobs, and commands that do not fit a job's state: each error is one clear line."""

import json
import re
from pathlib import Path

import pytest
from tests.cluster import lab

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}


def _line(stderr: str) -> str:
    """Return the line on stderr that explains a refusal; a heading may precede it.

    See contracts/commands.md#failure-text.
    """
    lines = stderr.splitlines()
    head = "Failure: prerequisites not met for this operation:"
    return lines[-1] if lines[0] == head and len(lines) == 3 else stderr.removesuffix("\n")


def _refused(cluster: lab.Lab, folder: Path, ops: object) -> str:
    file = folder / "ops.json"
    file.write_text(json.dumps(ops))
    line = _line(cluster.refused("gnt-debug", "submit-job", file))
    assert "\n" not in line
    return line


def _number(cluster: lab.Lab, *words: object) -> str:
    return str(re.findall(r"\d+", cluster.run("gnt-debug", "delay", "--print-jobid", *words).stdout)[0])


@pytest.mark.parametrize(
    ("ops", "complaint"),
    [
        ([DELAY] * 10_000, "a job of 10000 opcodes is too long, the maximum is 500; submit several jobs"),
        ([], "A job needs at least one opcode"),
        ([{"OP_ID": "OP_NOTHING"}], "OP_ID: 'OP_NOTHING' is not a valid value"),
        ([{"OP_ID": "OP_TEST_DELAY"}], "missing required field `duration`"),
        ([{**DELAY, "colour": "red"}], "unknown field `colour`"),
        ([{**DELAY, "depends": [[987654, []]]}], "dependency on job 987654, which does not exist"),
        ([{**DELAY, "depends": [[-1, []]]}], "dependency -1 is before the first job of the submission"),
        ([{**DELAY, "interruptible": True}], "interruptible is not supported"),
    ],
)
def test_a_job_that_cannot_be_is_refused(shared: lab.Lab, tmp_path: Path, ops: object, complaint: str) -> None:
    before = shared.rows("gnt-job", "id")
    assert complaint in _refused(shared, tmp_path, ops)
    assert shared.rows("gnt-job", "id") == before


def test_a_dependency_on_the_job_itself_is_refused(own: lab.Lab, tmp_path: Path) -> None:
    last = int(_number(own, "0"))
    for number in (last + 1, last + 2):
        refusal = _refused(own, tmp_path, [{**DELAY, "depends": [[number, ["success"]]]}])
        assert f"dependency on job {number}, which does not exist" in refusal


def test_what_does_not_fit_a_jobs_state_is_said_in_a_line(shared: lab.Lab) -> None:
    ended = _number(shared, "0")
    running = _number(shared, "--submit", "60")
    lab.wait_until(lambda: shared.rows("gnt-job", "status", running) == [["running"]], "the job to run")
    done = shared.run("gnt-job", "cancel", ended, check=False)
    assert (done.returncode, done.stdout) == (1, f"Job {ended} is no longer waiting in the queue (success)\n")
    done = shared.run("gnt-job", "cancel", running, check=False)
    assert (done.returncode, done.stdout) == (1, f"Job {running} is no longer waiting in the queue (running)\n")
    assert f"Job {running} was not archived" in shared.refused("gnt-job", "archive", running)
    assert "no such job: 987654" in shared.refused("gnt-job", "archive", "987654")
    assert "no such job: 987654" in shared.refused("gnt-job", "cancel", "987654")


@pytest.mark.slow
def test_an_edited_job_file_is_named_in_the_log_and_rewritten(own: lab.Lab) -> None:
    number = _number(own, "0")
    file = own.master / f"lib/queue/job-{number}"
    lab.wait_until(lambda: file.exists() and b"success" in file.read_bytes(), "the job's file")
    own.stop_master(own.nodes[0])
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"success", b"error"))
    own.start_master()
    assert own.rows("gnt-job", "status", number) == [["success"]]
    log = (own.master / "log/master-daemon.log").read_text()
    assert f"{file}: the file does not match its digest in the checkpoint; rewritten" in log
    lab.wait_until(lambda: file.read_bytes() == whole, "the file as it was")
