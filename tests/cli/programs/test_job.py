import pytest
import yaml
from tests.cli.conftest import Fault, Gnt, Job, Master, table


def calls(master: Master) -> list[tuple[str, list[object]]]:
    return [request for request in master.requests if request[0] != "Query"]


def test_watch_shows_the_log_from_the_beginning(gnt: Gnt, master: Master) -> None:
    master.jobs[7] = Job([{}], "success", [None], ["hello"])
    ran = gnt("gnt-job watch 7")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "Output from job 7 follows"
    assert ran.out.splitlines()[2].endswith("hello")


def test_wait_is_silent_and_ends_as_the_job_did(gnt: Gnt, master: Master) -> None:
    master.jobs[7] = Job([{}], "error", [Fault("OpExecError", "no room").encoded], ["hello"])
    assert gnt("gnt-job wait 7") == (1, "", "Failure: command execution error:\nno room\n")


def test_cancel_tells_what_came_of_each(gnt: Gnt, master: Master) -> None:
    master.answers["CancelJob"] = lambda job: [job == 1, f"about {job}"]
    assert gnt("gnt-job cancel 1 2") == (1, "about 1\nabout 2\n", "")
    assert gnt("gnt-job cancel 1").code == 0


def test_killing_has_to_be_meant(gnt: Gnt, master: Master) -> None:
    master.answers["CancelJob"] = lambda *_: [True, "killed"]
    assert gnt("gnt-job cancel --kill 1").code == 1
    assert not master.requests
    assert gnt("gnt-job cancel --kill --yes-do-it 1").code == 0
    assert calls(master) == [("CancelJob", [1, True])]


def test_many_jobs_are_asked_about_and_a_no_ends_with_13(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry.cli.output.terminal.TTY", "/nonexistent")
    master.answers["Query"] = table("id:ID:number", "summary:Summary:text", rows=[[4, "TEST_DELAY(1)"]])
    master.answers["ChangeJobPriority"] = [True, "changed"]
    ran = gnt("gnt-job change-priority --priority low --pending")
    assert ran.code == 13
    assert "4 TEST_DELAY(1)" in ran.err
    assert gnt("gnt-job change-priority --priority low --pending --force").code == 0
    assert calls(master) == [("ChangeJobPriority", [4, 10])]


@pytest.mark.parametrize(
    "line", ["cancel", "cancel --pending 5", "change-priority 5", "cancel x", "info x", "autoarchive soon", "watch -1"]
)
def test_what_is_not_understood_is_refused(gnt: Gnt, master: Master, line: str) -> None:
    assert gnt(f"gnt-job {line}").code in (1, 2)
    assert not master.requests


def test_archive_says_which_job_stays(gnt: Gnt, master: Master) -> None:
    master.answers["ArchiveJob"] = lambda job: job == 1
    ran = gnt("gnt-job archive 1 2")
    assert ran.code == 1
    assert ran.err == "Job 2 was not archived: it does not exist, or has not ended\n"


@pytest.mark.parametrize(("age", "seconds"), [("all", -1), ("2d", 172800), ("30", 30)])
def test_autoarchive_takes_an_age(gnt: Gnt, master: Master, age: str, seconds: int) -> None:
    master.answers["AutoArchiveJobs"] = [3, 0]
    assert gnt(f"gnt-job autoarchive {age}") == (0, "Archived 3 jobs, 0 unchecked left\n", "")
    assert master.requests[0][1][0] == seconds


def test_info_is_yaml_and_tells_of_jobs_that_are_not_there(gnt: Gnt, master: Master) -> None:
    log = [[1, [1700000001, 0], "message", "hello"]]
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 1.5}
    times = [[1700000000, 0], [1700000000, 500000], [1700000002, 250000]]
    row = [7, "success", *times, [op], ["success"], [times[1]], [times[1]], [times[2]], [None], [log]]
    master.answers["QueryJobs"] = [row, [8, *[None] * 11]]
    ran = gnt("gnt-job info 7 8")
    assert (ran.code, ran.err.splitlines()[-1]) == (1, "there is no job 8")
    (info,) = yaml.safe_load(ran.out)
    assert info["Total processing time"] == "2.250 seconds"
    assert info["Opcodes"][0]["Input fields"] == {"duration": 1.5}
    assert info["Opcodes"][0]["Execution log"][0]["Content"] == "hello"
