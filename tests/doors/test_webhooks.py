"""Webhooks at the remote API of a simulated master: who may see and change them, and who gets their secrets."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import test_access

from gantry.model import webhook
from gantry.runtime import http_interface
from gantry.sim import cluster
from gantry.state.journal import history
from gantry.state.store import audit

URL = "https://tickets.example/T0/sesame"
NEW = {"name": "tickets", "url": URL}
PATH = "/2/webhooks/hook"
CHANGES = (
    ("POST", "/2/webhooks", NEW),
    ("POST", f"{PATH}/secret", None),
    ("PUT", f"{PATH}/modify", {"enabled": False}),
    ("POST", f"{PATH}/test", None),
    ("DELETE", PATH, None),
)


class Lab(test_access.Lab):
    """A simulated cluster with the webhook ``hook``, and its remote API."""

    @property
    def webhooks(self) -> dict[str, webhook.Webhook]:
        webhooks = self.simulated.daemons[self.simulated.leader].store.snapshot.webhooks.values()
        return {hook.name: hook for hook in webhooks}

    def bearer(self, text: str, method: str, path: str, body: object) -> http_interface.Response:
        headers = {"content-type": "application/json", "authorization": f"Bearer {text}"}
        content = b"" if body is None else msgspec.json.encode(body)
        return self.simulated.run(self.server.answer(http_interface.Request(method, path, content, headers)))

    def list(self) -> list[dict[str, object]]:
        answer = self.http("alice", "GET", "/2/webhooks")
        assert answer.status == 200, answer.body
        return msgspec.json.decode(answer.body, type=list[dict[str, object]])

    def change(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Make a change that is a job, and return the job when it has ended."""
        answer = self.http("alice", method, path, body)
        assert answer.status == 200, answer.body
        return self.job(json.loads(answer.body))


@pytest.fixture
def lab(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    here = Lab(lab, monkeypatch)
    yield here
    here.become("root")
    for who in {rule[0] for rule in here.rules}:
        here.done({"OP_ID": "OP_ACCESS_REMOVE", "who": who})
    for name in here.webhooks:
        here.done({"OP_ID": "OP_WEBHOOK_REMOVE", "name": name})
    here.done({"OP_ID": "OP_WEBHOOK_ADD", "name": "hook", "url": "https://hooks.example/in"})
    lab.run(lab.master.disk.remove(test_access.USERS))


def explained(answer: http_interface.Response) -> str:
    return str(json.loads(answer.body)["explain"])


def entries(lab: Lab, user: str) -> list[str]:
    lab.become("root")
    is_done, answer = lab.luxi("QueryAudit", {"user": user})
    assert is_done
    return [entry.what for entry in msgspec.convert(answer, audit.Answer).entries]


def test_who_adds_a_webhook_gets_its_secret_and_the_audit_says_so(lab: Lab) -> None:
    answer = lab.http("alice", "POST", "/2/webhooks", {**NEW, "events": ["instance", "job.error"]})
    assert answer.status == 200, answer.body
    assert json.loads(answer.body) == {"name": "tickets", "secret": f"whsec_{lab.webhooks['tickets'].secret}"}
    assert answer.headers["Cache-Control"] == "no-store"
    assert lab.webhooks["tickets"].secret_url == URL
    assert lab.webhooks["tickets"].events == ("instance", "job.error")
    assert entries(lab, "alice")[-2:] == ["WEBHOOK_ADD(tickets)", "secret of webhook tickets read"]


def test_who_makes_a_new_secret_gets_it_and_the_previous_one_counts_too(lab: Lab) -> None:
    before = lab.webhooks["hook"].secret
    answer = lab.http("alice", "POST", f"{PATH}/secret")
    hook = lab.webhooks["hook"]
    assert json.loads(answer.body) == {"name": "hook", "secret": f"whsec_{hook.secret}"}
    assert hook.secret != before
    assert hook.previous_secret == before


def test_no_other_answer_has_the_secret_or_the_url(lab: Lab) -> None:
    assert lab.http("alice", "POST", "/2/webhooks", NEW).status == 200
    assert lab.change("PUT", "/2/webhooks/tickets/modify", {"url": URL})["status"] == "success"
    secret = lab.webhooks["tickets"].secret
    paths = ("webhooks", "query/webhook?fields=name,origin", "query/job?fields=ops,opresult,oplog,summary", "history")
    for path in (*paths, "audit?who=alice"):
        answer = lab.http("alice", "GET", f"/2/{path}")
        assert answer.status == 200, answer.body
        assert b"tickets" in answer.body
        assert secret.encode() not in answer.body, path
        assert b"sesame" not in answer.body, path


def test_the_list_has_where_each_receiver_is_and_how_far(lab: Lab) -> None:
    (row,) = lab.list()
    assert {name: row[name] for name in ("name", "origin", "events", "enabled", "status", "lag", "pruned")} == {
        "name": "hook", "origin": "https://hooks.example", "events": [], "enabled": True, "status": "ok", "lag": 0,
        "pruned": 0,
    }  # fmt: skip
    assert (row["waiting_since"], row["failure"]) == (None, None)
    position = row["position"]
    lab.become("root")
    lab.luxi("StoreWebhookPositions", [[row["uuid"], position, "status 500", 7.0]])
    (row,) = lab.list()
    assert (row["status"], row["waiting_since"], row["failure"]) == ("failing", 7.0, "status 500")
    assert isinstance(row["lag"], int)
    assert row["lag"] > 0


def test_the_list_says_how_many_changes_a_receiver_cannot_get_any_more(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.change("PUT", f"{PATH}/modify", {"enabled": False})["status"] == "success"
    (row,) = lab.list()
    assert row["pruned"] == 0
    position = row["position"]
    assert isinstance(position, int)

    async def start(self: history.History) -> history.Start:
        return history.Start(position + 3, 5.0)

    monkeypatch.setattr(history.History, "start", start)
    (row,) = lab.list()
    assert row["pruned"] == 2


def test_a_webhook_is_changed_tested_and_removed_by_jobs(lab: Lab) -> None:
    changed = lab.change("PUT", f"{PATH}/modify", {"events": ["network"], "url": URL})
    assert changed["status"] == "success"
    assert lab.webhooks["hook"].events == ("network",)
    assert lab.webhooks["hook"].secret_url == URL
    before = lab.simulated.daemons[lab.simulated.leader].store.snapshot.serial
    tested = lab.change("POST", f"{PATH}/test")
    assert lab.webhooks["hook"].tests == 1
    assert isinstance(tested["result"], int)
    assert tested["result"] >= before
    lab.change("PUT", f"{PATH}/modify", {"enabled": False})
    assert not lab.webhooks["hook"].enabled
    assert "is disabled" in str(lab.change("POST", f"{PATH}/test")["result"])
    # The body of a DELETE has no meaning (RFC 9110, section 9.3.5), and some clients send one.
    assert lab.change("DELETE", PATH, {"url": URL})["status"] == "success"
    assert not lab.webhooks


def test_a_new_secret_is_made_only_where_it_is_answered(lab: Lab) -> None:
    before = lab.webhooks["hook"].secret
    answer = lab.http("alice", "PUT", f"{PATH}/modify", {"new_secret": True})
    assert (answer.status, "new_secret" in explained(answer)) == (400, True)
    assert lab.webhooks["hook"].secret == before


def test_who_does_not_administer_the_cluster_neither_sees_nor_changes_webhooks(lab: Lab) -> None:
    lab.grant("user:carol", "operator", "instance:vm1")
    before = lab.webhooks
    for user in ("bob", "carol", "dora"):
        for path in ("/2/webhooks", "/2/query/webhook?fields=name"):
            answer = lab.http(user, "GET", path)
            assert (answer.status, b"hooks.example" in answer.body) == (403, False)
        for method, path, body in CHANGES:
            answer = lab.http(user, method, path, body)
            is_refused = answer.status == 403 or "forbidden" in str(lab.job(json.loads(answer.body))["result"])
            assert is_refused, (user, method, path)
    assert "user bob may not read the webhooks" in explained(lab.http("bob", "GET", "/2/webhooks"))
    assert lab.webhooks == before


def test_an_access_rule_can_make_somebody_an_administrator_of_webhooks(lab: Lab) -> None:
    lab.grant("user:carol", "admin", "cluster")
    assert [row["name"] for row in json.loads(lab.http("carol", "GET", "/2/webhooks").body)] == ["hook"]
    answer = lab.http("carol", "POST", "/2/webhooks", NEW)
    assert json.loads(answer.body)["secret"] == f"whsec_{lab.webhooks['tickets'].secret}"


def test_a_token_that_reads_is_for_no_webhook_and_one_of_an_administrator_for_all(lab: Lab) -> None:
    def token(**fields: object) -> str:
        return str(json.loads(lab.http("alice", "POST", "/2/tokens", fields).body)["token"])

    reads, all_of_it = token(name="reads", extent="read"), token(name="all", extent="everything")
    before = lab.webhooks
    for method, path, body in (("GET", "/2/webhooks", None), *CHANGES):
        assert lab.bearer(reads, method, path, body).status == 403
    assert lab.webhooks == before
    answer = lab.bearer(all_of_it, "POST", "/2/webhooks", NEW)
    assert json.loads(answer.body)["secret"] == f"whsec_{lab.webhooks['tickets'].secret}"
    lab.done({"OP_ID": "OP_TOKEN_REVOKE", "user": "alice"})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "tickets"}, "url"),
        ({"name": "a b", "url": URL}, "name"),
        ({"name": "tickets", "url": "http://192.0.2.1/sesame"}, "has no TLS"),
        ({"name": "tickets", "url": URL, "events": ["nothing"]}, "no events are about a nothing"),
        ({"name": "tickets", "url": URL, "authorities": "x"}, "are not certificates"),
        ({"name": "tickets", "url": URL, "secret": "known"}, "secret"),
        ({"name": "hook", "url": URL}, "hook"),
        ({"name": "tickets", "url": URL, "begin": 1 << 40}, "there is no event"),
    ],
)
def test_an_invalid_webhook_is_refused_and_its_url_is_not_repeated(
    lab: Lab, body: dict[str, object], text: str
) -> None:
    answer = lab.http("alice", "POST", "/2/webhooks", body)
    assert answer.status in (400, 409)
    assert text in explained(answer)
    assert "sesame" not in explained(answer)
    assert [*lab.webhooks] == ["hook"]
