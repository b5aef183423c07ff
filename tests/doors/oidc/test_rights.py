"""What users of an OpenID provider may do: by rules for their names and groups, and by the group of administrators."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import talk
from tests.doors.oidc import fake_provider
from tests.doors.oidc.fake_provider import Browser, SignOnCluster

from gantry.doors.rapi.oidc import claims
from gantry.rpc import luxi
from gantry.sim import cluster
from gantry.state.store import audit

USERS = f"{cluster.FOLDERS.lib}/users"
STOP = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm1"}


@pytest.fixture
def sign_on(lab: cluster.SimulatedCluster) -> Iterator[SignOnCluster]:
    built, port = fake_provider.build(lab, mapped=claims.Mapped(admin_group="admins", login_group="staff"))
    yield built
    lab.run(port.close())
    rules = lab.daemons[lab.leader].store.snapshot.accessrules.values()
    for who in {rule.who for rule in rules}:
        lab.run(lab.done({"OP_ID": "OP_ACCESS_REMOVE", "who": who}))


def grant(sign_on: SignOnCluster, who: str, role: str, on: str) -> None:
    sign_on.lab.run(sign_on.lab.done({"OP_ID": "OP_ACCESS_ADD", "who": who, "role": role, "on": on}))


def logged_in(sign_on: SignOnCluster, name: str, *groups: str) -> Browser:
    sign_on.provider.token_claims = {"preferred_username": name, "groups": list(groups)}
    browser = sign_on.browser()
    assert browser.log_in(sign_on.provider) == ""
    return browser


def submitter(sign_on: SignOnCluster, number: bytes) -> object:
    job = sign_on.lab.daemons[sign_on.lab.leader].queue.jobs()[json.loads(number)]
    return msgspec.to_builtins(job.submitter)


def test_a_user_may_do_just_what_the_rules_of_the_name_allow(sign_on: SignOnCluster) -> None:
    browser = logged_in(sign_on, "anna", "staff")
    refused = browser.ask("PUT", "/2/instances/vm1/shutdown")
    assert refused.status == 403
    grant(sign_on, "user:oidc:anna", "operator", "instance:vm1")
    done = browser.ask("PUT", "/2/instances/vm1/shutdown")
    assert done.status == 200
    assert submitter(sign_on, done.body) == {"user": "oidc:anna", "door": "rapi", "peer": "192.0.2.7"}
    assert "may not manage instance vm1" in str(browser.ask("DELETE", "/2/instances/vm1").body)
    assert logged_in(sign_on, "bert", "staff").ask("PUT", "/2/instances/vm1/shutdown").status == 403


def test_a_group_of_the_provider_gives_its_members_rights(sign_on: SignOnCluster) -> None:
    grant(sign_on, "group:oidc:/ops", "operator", "instance:vm1")
    browser = logged_in(sign_on, "anna", "staff", "/ops", "more")
    assert [
        (rule["role"], rule["on"])
        for rule in msgspec.convert(browser.read("/2/session")["rules"], list[dict[str, str]])
    ] == [("operator", "instance:vm1")]
    done = browser.ask("PUT", "/2/instances/vm1/shutdown")
    assert done.status == 200
    assert submitter(sign_on, done.body) == {
        "user": "oidc:anna", "door": "rapi", "groups": ("oidc:/ops",), "peer": "192.0.2.7",
    }  # fmt: skip
    for groups in (("staff",), ("staff", "ops"), ("staff", "oidc:/ops")):
        assert logged_in(sign_on, "anna", *groups).ask("PUT", "/2/instances/vm1/shutdown").status == 403


def test_users_of_a_provider_have_no_api_tokens(sign_on: SignOnCluster) -> None:
    for groups in (("staff",), ("staff", "admins")):
        answer = logged_in(sign_on, "anna", *groups).ask("POST", "/2/tokens", {"name": "ci"})
        assert answer.status == 403
        assert "user oidc:anna is one of the OpenID provider" in json.loads(answer.body)["explain"]


def test_names_of_the_provider_are_never_those_of_the_users_file_or_of_the_system(sign_on: SignOnCluster) -> None:
    sign_on.lab.run(sign_on.lab.master.disk.write(USERS, b"anna one read\n"))
    for who in ("user:anna", "user:root", "group:ops", "group:gantry-admin", "user:staff"):
        grant(sign_on, who, "admin", "cluster")
    for name in ("anna", "root", "gantry-admin"):
        browser = logged_in(sign_on, name, "staff", "ops", "gantry-admin", "group:ops", "user:root")
        assert browser.user() == f"oidc:{name}"
        assert browser.read("/2/session")["rules"] == []
        assert browser.ask("PUT", "/2/instances/vm1/shutdown").status == 403
    sign_on.lab.run(sign_on.lab.master.disk.remove(USERS))


def test_the_group_of_administrators_may_do_everything_but_is_not_root(sign_on: SignOnCluster) -> None:
    browser = logged_in(sign_on, "anna", "admins", "other")
    assert browser.read("/2/session")["may"] == "write"
    number = browser.ask("PUT", "/2/instances/vm1/tags?tag=own").body
    assert submitter(sign_on, number) == {
        "user": "oidc:anna", "door": "rapi", "is_admin": True, "peer": "192.0.2.7",
    }  # fmt: skip
    allow = {"allowed": [["add", "images", "/srv/cd"]]}
    refused = browser.ask("PUT", "/2/modify", allow)
    assert "only root may change" in str(refused.body)
    sign_on.lab.run(sign_on.lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["own"]}))


def test_the_audit_of_a_user_does_not_have_what_the_same_name_of_the_provider_did(sign_on: SignOnCluster) -> None:
    number = json.loads(logged_in(sign_on, "anna", "admins").ask("PUT", "/2/instances/vm1/tags?tag=seen").body)
    jobs: dict[str, list[int]] = {}
    for user in ("anna", "oidc:anna"):
        message = json.dumps({"method": "QueryAudit", "args": [{"user": user}]}).encode() + talk.ETX
        (answer,) = talk.ask(sign_on.lab, message)
        jobs[user] = [entry.job for entry in msgspec.convert(answer["result"], audit.Answer).entries]
    assert number in jobs["oidc:anna"]
    assert number not in jobs["anna"]
    sign_on.lab.run(sign_on.lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["seen"]}))


def test_only_the_group_that_may_log_in_does(sign_on: SignOnCluster) -> None:
    sign_on.provider.token_claims = {"preferred_username": "anna", "groups": ["Staff", "admin"]}
    browser = sign_on.browser()
    assert browser.log_in(sign_on.provider) == "user anna is not in the group staff, which may log in"
    assert browser.user() is None
    sign_on.provider.token_claims = {"preferred_username": "anna", "groups": None}
    assert "is not in the group staff" in browser.log_in(sign_on.provider)


def test_groups_are_for_peers_that_may_name_a_user(sign_on: SignOnCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    grant(sign_on, "group:oidc:ops", "operator", "instance:vm1")
    named = {"method": "RunJob", "args": [[STOP | {"dry_run": True}], 1], "user": {"name": "x", "groups": ["oidc:ops"]}}
    (answer,) = talk.ask(sign_on.lab, json.dumps(named).encode() + talk.ETX)
    assert answer["success"]
    network = sign_on.lab.master.network
    monkeypatch.setattr(network, "is_privileged", lambda writer: False)
    monkeypatch.setattr(network, "is_member", lambda writer, group: False)
    monkeypatch.setattr(network, "peer_user", lambda writer: "carol")
    monkeypatch.setattr(network, "peer_groups", lambda writer: ("gantry",))
    (answer,) = talk.ask(sign_on.lab, json.dumps(named).encode() + talk.ETX)
    assert "user carol may not make a request for user x" in str(answer["result"])


def test_a_user_without_groups_is_named_as_older_masters_know_it() -> None:
    assert msgspec.json.encode(luxi.NamedUser("bob", True)) == b'{"name":"bob","write":true}'
    assert msgspec.json.encode(luxi.NamedUser("", False)) == b'{"name":""}'
    assert msgspec.json.encode(luxi.NamedUser("x", groups=("oidc:a",))) == b'{"name":"x","groups":["oidc:a"]}'
