import json

import pytest
from tests.cli.conftest import Fault, Gnt, Job, Master

from gantry.cli import client, errors
from gantry.cli.framework import submit
from gantry.cli.output import terminal


@pytest.fixture
def luxi(master: Master) -> client.Client:
    master.jobs[1] = Job([{"OP_ID": "OP_TEST_DELAY"}], results=[None])
    return client.Client()


def waits(master: Master) -> list[list[object]]:
    return [arguments for method, arguments in master.requests if method == "WaitForJobChange"]


@pytest.mark.promise("cluster-155")
def test_a_client_that_waits_shows_the_log_as_it_comes(master: Master, gnt: Gnt) -> None:
    master.changes = [
        [["queued"], []],
        [["running"], [[1, [0, 0], "message", "creating disks"]]],
        [["running"], [[2, [0, 0], "message", "running the scripts"], [3, [0, 0], "message", "- INFO: done"]]],
        [["success"], []],
    ]
    ran = gnt("gnt-instance remove -f web1")
    assert ran.code == 0
    assert [line.split(" 1970 ")[1] for line in ran.out.splitlines()] == [
        "creating disks",
        "running the scripts",
        "- INFO: done",
    ]
    assert [arguments[2:4] for arguments in waits(master)] == [
        [None, None],
        [["queued"], None],
        [["running"], 1],
        [["running"], 3],
    ]


@pytest.mark.promise("cluster-20")
def test_nochange_makes_the_client_ask_again(master: Master, luxi: client.Client) -> None:
    master.changes = ["nochange", [["queued"], []], "nochange", "nochange", [["success"], None]]
    assert submit.follow(luxi, 1, log=None) == "success"
    assert len(waits(master)) == 5


def test_each_state_in_which_a_job_waits_is_reported_once(
    master: Master, luxi: client.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    queued, waits_for_locks = [["queued"], []], [["waiting"], []]
    master.changes = [queued, "nochange", queued, waits_for_locks, "nochange", "nochange", [["success"], []]]
    submit.follow(luxi, 1, log=None)
    assert capsys.readouterr().err.splitlines() == [
        "Job 1 is waiting in queue",
        "Job 1 is trying to acquire all necessary locks",
    ]


def test_on_a_terminal_one_line_shows_what_goes_on(
    master: Master, luxi: client.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    master.changes = [[["waiting"], []], "nochange", [["success"], [[1, [0, 0], "message", "hello"]]]]
    import sys

    submit.follow(luxi, 1, log=sys.stdout)
    ran = capsys.readouterr()
    assert "Job 1 is trying to acquire all necessary locks, 0 s" in ran.err
    assert ran.err.endswith(terminal.ERASE)
    assert ran.out.endswith("hello\n")
    assert [arguments[4] for arguments in waits(master)] == [
        submit.FIRST_WAIT_SECONDS,
        submit.PROGRESS_SECONDS,
        submit.PROGRESS_SECONDS,
    ]


def test_on_a_terminal_the_line_shows_how_far_the_work_is(
    master: Master, luxi: client.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    copying = "disk 0: 512 of 4096 MiB (12 %), 210 MiB/s, 17 s to go"
    master.changes = [[["running", ""], []], [["running", copying], []], [["running", ""], []], [["success", ""], []]]
    submit.follow(luxi, 1, log=None)
    lines = capsys.readouterr().err.split(terminal.ERASE)
    assert lines == ["", "Job 1 is running, 0 s", copying, "Job 1 is running, 0 s", ""]
    assert [arguments[1:3] for arguments in waits(master)] == [
        [["status", "progress"], before] for before in (None, ["running", ""], ["running", copying], ["running", ""])
    ]


def test_a_dumb_terminal_gets_notices_without_control_characters(
    master: Master, luxi: client.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    master.changes = [[["waiting"], []], "nochange", [["success"], []]]
    submit.follow(luxi, 1, log=None)
    assert capsys.readouterr().err == "Job 1 is trying to acquire all necessary locks\n"


def test_the_seconds_count_from_the_start_of_the_job(
    master: Master, luxi: client.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("gantry.cli.framework.submit.time.time", lambda: 1000.0)
    times = {"received_ts": [900, 0], "start_ts": [990, 0]}
    master.answers["QueryJobs"] = lambda ids, fields: [[times[field] for field in fields] for _ in ids]
    master.changes = [[["queued"], []], [["running"], []], "nochange", [["success"], []]]
    submit.follow(luxi, 1, log=None)
    progress_text = capsys.readouterr().err
    assert "Job 1 is waiting in queue, 100 s" in progress_text
    assert progress_text.count("Job 1 is running, 10 s") == 2
    assert [arguments[1] for method, arguments in master.requests if method == "QueryJobs"] == [
        ["received_ts"],
        ["start_ts"],
    ]


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(
    master: Master, gnt: Gnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client.Client, "wait_for_change", interrupted)
    ran = gnt("gnt-instance remove -f web1")
    assert ran.code == 130
    assert ran.err == "Interrupted; job 1 continues; to watch it again: gnt-job watch 1\n"
    assert not [method for method, _ in master.requests if method == "CancelJob"]


def test_a_lost_connection_says_that_the_job_may_go_on(master: Master, gnt: Gnt) -> None:
    def hang_up() -> None:
        raise ConnectionError

    master.changes = [hang_up]
    ran = gnt("gnt-instance remove -f web1")
    assert ran.code == 1
    assert "job 1 may still run; to watch it: gnt-job watch 1" in ran.err


def test_a_job_that_fails_raises_its_error(master: Master, gnt: Gnt) -> None:
    master.results["OP_INSTANCE_REMOVE"] = Fault(
        "OpPrereqError", "there is no instance web1; see list", "unknown_entity"
    )
    ran = gnt("gnt-instance remove -f web1")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "Failure: prerequisites not met for this operation:",
        "error type: unknown_entity, error details:",
        "there is no instance web1; see list",
    ]


def test_a_job_that_fails_in_the_middle_is_a_partial_failure(luxi: client.Client, master: Master) -> None:
    broken = Fault("OpExecError", "no room").encoded
    master.jobs[1] = Job([{}, {}], "error", [None, broken])
    master.answers["QueryJobs"] = [["error", ["success", "error"], [None, broken]]]
    with pytest.raises(errors.ServerError) as caught:
        submit.results(luxi, 1, log=None)
    assert caught.value.text() == "partial failure (opcode 1): Failure: command execution error:\nno room"


def test_a_canceled_job_and_a_lost_one_are_failures(luxi: client.Client, master: Master) -> None:
    master.jobs[1] = Job([{}], "canceled", [None])
    with pytest.raises(errors.ServerError, match="job 1 was canceled"):
        submit.results(luxi, 1, log=None)
    master.answers["WaitForJobChange"] = None
    with pytest.raises(errors.ServerError, match="job 9 does not exist"):
        submit.results(luxi, 9, log=None)


def test_jobs_that_an_opcode_submitted_are_waited_for(luxi: client.Client, master: Master) -> None:
    master.jobs |= {
        1: Job([{}], "success", [{"jobs": [[True, 2], [True, 3]]}]),
        2: Job([{}], "success", [True]),
        3: Job([{}], "success", [False]),
    }
    assert submit.results(luxi, 1, log=None) == [True, False]


@pytest.mark.promise("cluster-152")
def test_submit_does_not_wait(master: Master, gnt: Gnt) -> None:
    ran = gnt("gnt-instance remove -f --submit --print-jobid web1")
    assert ran == (0, "1\n", "JobID: 1\n")
    assert not waits(master)


def test_a_dry_run_prints_the_plan(master: Master, gnt: Gnt) -> None:
    master.results["OP_INSTANCE_REMOVE"] = ["free 192.0.2.7", "remove disk 0"]
    ran = gnt("gnt-instance remove --dry-run web1")
    assert ran.out == "free 192.0.2.7\nremove disk 0\n"
    assert master.ops[0]["dry_run"] is True


def test_the_reason_goes_with_the_opcode(master: Master, gnt: Gnt) -> None:
    gnt("gnt-instance remove -f -d --priority high --reason 'too old' web1")
    (op,) = master.ops
    assert [entry[:2] for entry in op["reason"]] == [["gnt:user", "too old"], ["gnt:client:gnt-instance", "remove"]]
    assert (op["priority"], op["debug_level"]) == (-10, 1)


def test_messages_of_other_types_are_readable() -> None:
    assert submit.message_text("message-list", ["a", "b"]) == "a\n  b"
    assert json.loads(submit.message_text("delay-test", {"x": 1})) == {"x": 1}


def test_many_jobs_are_submitted_at_once_and_each_is_reported(master: Master, gnt: Gnt) -> None:
    ran = gnt("gnt-instance start --force-multiple web1 web2")
    assert ran.code == 0
    assert next(method for method, _ in master.requests) == "SubmitManyJobs"
    assert ran.out.splitlines() == [
        "Submitted jobs 1, 2",
        "Waiting for job 1 for web1 ...",
        "Waiting for job 2 for web2 ...",
    ]


def test_one_of_many_jobs_that_fails_makes_the_exit_code_1(master: Master, gnt: Gnt) -> None:
    master.answers["SubmitManyJobs"] = lambda jobs: [(True, master._SubmitJob(jobs[0])), (False, "the queue is full")]
    master.results["OP_INSTANCE_STARTUP"] = Fault("OpExecError", "no memory")
    ran = gnt("gnt-instance start --force-multiple web1 web2")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "Failed to submit job for web2: the queue is full",
        "Job 1 for web1 has failed: Failure: command execution error:",
        "no memory",
    ]


def test_many_jobs_may_be_left_alone(master: Master, gnt: Gnt) -> None:
    assert gnt("gnt-instance stop --submit --force-multiple web1 web2") == (0, "1: web1\n2: web2\n", "")
