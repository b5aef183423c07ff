"""The audit through LUXI and the remote API of a simulated master: who is recorded, from where, by which right."""

import base64
import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import talk
from tests.doors.test_access import PASSWORDS, START, STOP, Lab

from gantry.doors import luxi
from gantry.runtime import http_interface
from gantry.sim import cluster
from gantry.state.store import audit

PEER = "198.51.100.7"


@pytest.fixture
def lab(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    here = Lab(lab, monkeypatch)
    yield here
    here.become("root")
    for who in {rule[0] for rule in here.rules}:
        here.done({"OP_ID": "OP_ACCESS_REMOVE", "who": who})


def entries(lab: Lab, **question: object) -> list[audit.Entry]:
    lab.become("root")
    is_done, answer = lab.luxi("QueryAudit", question)
    assert is_done, answer
    return list(msgspec.convert(answer, audit.Answer).entries)


def request(lab: Lab, user: str, method: str, path: str) -> http_interface.Response:
    login = base64.b64encode(f"{user}:{PASSWORDS[user]}".encode()).decode()
    raw = http_interface.Request(method, path, b"", {"authorization": f"Basic {login}"}, peer=PEER)
    return lab.simulated.run(lab.server.answer(raw))


def number_of(answer: http_interface.Response) -> int:
    assert answer.status == 200, answer.body
    number: int = json.loads(answer.body)
    return number


def test_a_user_of_the_remote_api_is_recorded_with_the_address_and_the_rule(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    number = number_of(request(lab, "bob", "PUT", "/2/instances/vm1/shutdown"))
    lab.job(number)
    entry = entries(lab, user="bob")[-1]
    assert (entry.job, entry.user, entry.door, entry.peer) == (number, "bob", "rapi", PEER)
    assert (entry.what, entry.right, entry.status) == (
        "INSTANCE_SHUTDOWN(vm1)",
        "operator on instance:vm1",
        "success",
    )


def test_how_far_the_receivers_of_webhooks_are_is_nobodys_change(lab: Lab) -> None:
    lab.done({"OP_ID": "OP_WEBHOOK_ADD", "name": "tickets", "url": "https://hooks.example/in"})
    before = entries(lab)[-1]
    daemon = lab.simulated.daemons[lab.simulated.leader]
    (uuid,) = [uuid for uuid, hook in daemon.store.snapshot.webhooks.items() if hook.name == "tickets"]
    assert lab.luxi("StoreWebhookPositions", [[uuid, 5, "", None]])[0]
    assert daemon.store.snapshot.webhookpositions[uuid].serial == 5
    assert entries(lab)[-1] == before
    lab.done({"OP_ID": "OP_WEBHOOK_REMOVE", "name": "tickets"})
    last = entries(lab)[-1]
    assert [(each.kind, each.name, each.what) for each in last.changes] == [("webhook", "tickets", "removed")]


def test_an_administrator_and_the_decisions_about_jobs_are_recorded(lab: Lab) -> None:
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 5000}
    lab.become("root")
    _, number = lab.luxi("SubmitJob", [delay, delay])
    assert lab.luxi("CancelJob", number, True)[0]
    assert lab.luxi("SetDrainFlag", False)[0]
    assert lab.luxi("SetWatcherPause", None)[0]
    last = [(each.user, each.what, each.right) for each in entries(lab, user="root")[-4:]]
    assert last == [
        ("root", "TEST_DELAY(5000.0), TEST_DELAY(5000.0)", "administrator"),
        ("root", f"job {number} canceled", "own job"),
        ("root", "job queue opened", "administrator"),
        ("root", "watcher resumed", "administrator"),
    ]


@pytest.mark.parametrize("action, what", [("install", "installation"), ("confirm", "confirmation")])
def test_packages_are_recorded_as_a_request_whatever_becomes_of_it(lab: Lab, action: str, what: str) -> None:
    lab.become("root")
    is_done, outcomes = lab.luxi("ChangePackages", action, ["node1"], "9.9", 60)
    assert is_done, outcomes
    assert entries(lab, object="node1")[-1].what == f"{what} of packages 9.9 requested on node1"


def test_the_owner_of_a_job_cancels_it_by_being_its_owner(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("root")
    _, blocking = lab.luxi("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 5000}])
    lab.become("bob", "gantry")
    _, number = lab.luxi("SubmitJob", [{**STOP, "depends": [[blocking, ["success"]]]}])
    assert lab.luxi("ChangeJobPriority", number, 3)[0]
    assert lab.luxi("CancelJob", number)[0]
    texts = [(each.what, each.right) for each in entries(lab, user="bob")]
    assert (f"priority of job {number} changed to 3", "own job") in texts
    assert (f"job {number} canceled", "own job") in texts
    lab.become("root")
    assert lab.luxi("CancelJob", blocking, True)[0]


def test_a_refused_request_is_in_the_log_and_no_entry(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    before = len(entries(lab, limit=1000))
    lab.become("eve\n", "gantry")
    with caplog.at_level("INFO", luxi.__name__):
        answers = talk.ask(lab.simulated, talk.request("SubmitJob", [START]) * 50)
    assert [answer["success"] for answer in answers[:50]] == [False] * 50
    assert len(entries(lab, limit=1000)) == before
    lines = [record.getMessage() for record in caplog.records if record.name == luxi.__name__]
    assert lines[0].startswith("a request of user 'eve\\n' is refused: method SubmitJob changes the cluster")
    assert len(lines) < 10


@pytest.mark.parametrize("groups", [("gantry",), ("ops",), ()])
def test_only_administrators_read_the_audit(lab: Lab, groups: tuple[str, ...]) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("bob", *groups)
    assert "user bob may not read the audit" in lab.refusal("QueryAudit", {})
    lab.become("root")
    for user in ("bob", "carol"):
        assert b"may not read the audit" in request(lab, user, "GET", "/2/audit").body
    lab.grant("user:bob", "admin", "cluster")
    assert request(lab, "bob", "GET", "/2/audit").status == 200
    lab.become("bob", *groups)
    assert lab.luxi("QueryAudit", {})[0]


def test_the_events_do_not_tell_where_users_come_from(lab: Lab) -> None:
    number = number_of(request(lab, "alice", "PUT", "/2/instances/vm1/tags?tag=seen"))
    lab.job(number)
    assert PEER in {each.peer for each in entries(lab, user="alice")}
    for method, arguments in (("WaitForEvents", (0, 1000, 0)), ("QueryHistory", (None, None, None, None, 1000))):
        _, answer = lab.luxi(method, *arguments)
        assert PEER not in json.dumps(answer)
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["seen"]})


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=10001", "limit=x", "since=yesterday", "until=nan", "who=%00&limit=1e300"]
)
def test_a_question_of_another_form_is_refused(lab: Lab, query: str) -> None:
    assert request(lab, "alice", "GET", f"/2/audit?{query}").status == 400


def test_the_remote_api_answers_as_luxi_does(lab: Lab) -> None:
    number = number_of(request(lab, "alice", "PUT", "/2/instances/vm1/tags?tag=seen"))
    lab.job(number)
    answer = request(lab, "alice", "GET", "/2/audit?who=alice&object=vm1&since=0&limit=1")
    (entry,) = json.loads(answer.body)["entries"]
    assert (entry["job"], entry["changes"][0]["fields"]) == (
        number,
        [{"path": "tags", "before": None, "after": ["seen"]}],
    )
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["seen"]})
