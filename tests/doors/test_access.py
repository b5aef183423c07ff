"""Access rules through LUXI and the remote API of a simulated master: who may do what, and every way around it."""

import base64
import json
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from tests.doors import talk

from gantry.daemons import remote
from gantry.doors import http, luxi
from gantry.doors.http import sessions
from gantry.doors.luxi import jobs
from gantry.doors.rapi import changes, reading, wire
from gantry.model import access
from gantry.rpc import luxi as luxi_client
from gantry.runtime import http_interface
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
TEXT = b"alice one write\nbob two read\ncarol three read\ndora four\nroot five read\n<b>&'\" six read\n"
PASSWORDS = {"alice": "one", "bob": "two", "carol": "three", "dora": "four", "root": "five", "<b>&'\"": "six"}
START = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm1"}
STOP = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm1"}
REMOVE = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1", "dry_run": True}


class Lab:
    """A simulated cluster, whose peers on LUXI can be other users than root, and its remote API."""

    def __init__(self, simulated: cluster.SimulatedCluster, patch: pytest.MonkeyPatch) -> None:
        self.simulated = simulated
        self._patch = patch
        simulated.run(simulated.master.disk.write(USERS, TEXT))
        self.server: http.Server = remote.server(simulated.master, cluster.FOLDERS)

    def become(self, user: str, *groups: str) -> None:
        """Make all further peers of LUXI processes of a user; "root" is root again."""
        network = self.simulated.master.network
        is_member = "gantry-admin" in groups
        self._patch.setattr(network, "is_privileged", lambda writer: user == "root")
        self._patch.setattr(network, "is_member", lambda writer, group: is_member)
        self._patch.setattr(network, "peer_user", lambda writer: user)
        self._patch.setattr(network, "peer_groups", lambda writer: groups)

    def luxi(self, method: str, *arguments: object, **more: object) -> tuple[bool, object]:
        """Call LUXI as the present user; return success and result."""
        message = json.dumps({"method": method, "args": arguments, **more}).encode() + talk.ETX
        (answer,) = talk.ask(self.simulated, message)
        return bool(answer["success"]), answer["result"]

    def refusal(self, method: str, *arguments: object, **more: object) -> str:
        is_done, result = self.luxi(method, *arguments, **more)
        assert not is_done
        name, details = msgspec.convert(result, tuple[str, list[object]])
        assert (name, details[1]) == ("OpPrereqError", "forbidden")
        return str(details[0])

    def http(self, user: str, method: str, path: str, body: object = None) -> http_interface.Response:
        login = base64.b64encode(f"{user}:{PASSWORDS[user]}".encode()).decode()
        headers = {"content-type": "application/json", "authorization": f"Basic {login}"}
        content = b"" if body is None else msgspec.json.encode(body)
        return self.simulated.run(self.server.answer(http_interface.Request(method, path, content, headers)))

    def done(self, op: Mapping[str, object]) -> object:
        self.become("root")
        return self.simulated.run(self.simulated.done(dict(op)))

    def grant(self, who: str, role: str, on: str) -> None:
        self.done({"OP_ID": "OP_ACCESS_ADD", "who": who, "role": role, "on": on})

    def job(self, number: object) -> dict[str, object]:
        """Wait for the end of a job; return its status, its submitter and its first result."""
        self.become("root")
        assert isinstance(number, int)
        for _ in range(100):
            job = self.simulated.daemons[self.simulated.leader].queue.jobs()[number]
            if job.status in ("success", "error", "canceled"):
                break
            self.simulated.run(self.simulated.master.clock.sleep(60.0))
        return {"status": job.status.value, "submitter": job.submitter, "result": job.ops[0].result}

    @property
    def rules(self) -> set[tuple[str, str, str]]:
        rules = self.simulated.daemons[self.simulated.leader].store.snapshot.accessrules.values()
        return {(rule.who, rule.role.value, rule.key) for rule in rules}


@pytest.fixture
def lab(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    here = Lab(lab, monkeypatch)
    yield here
    here.become("root")
    for who in {rule[0] for rule in here.rules}:
        here.done({"OP_ID": "OP_ACCESS_REMOVE", "who": who})
    lab.run(lab.master.disk.remove(USERS))


def test_a_system_user_may_do_just_what_the_rules_allow(lab: Lab) -> None:
    lab.become("bob", "gantry")
    assert "only root and the group gantry-admin" in lab.refusal("SubmitJob", [STOP])
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("bob", "gantry")
    is_done, number = lab.luxi("SubmitJob", [STOP])
    assert is_done
    assert "may not manage instance vm1" in lab.refusal("SubmitJob", [REMOVE])
    assert "may not submit OP_TEST_DELAY" in lab.refusal("RunJob", [talk.DELAY], 1)
    assert "may not manage instance vm1" in lab.refusal("RunJob", [STOP, REMOVE], 1)
    is_done, answers = lab.luxi("SubmitManyJobs", [[STOP], [REMOVE]])
    assert is_done
    assert isinstance(answers, list)
    assert [each[0] for each in answers] == [True, False]
    assert "may not manage instance vm1" in answers[1][1]
    for method in sorted(jobs.METHODS.keys() - jobs.BY_RULES - jobs.WAITING):
        assert "only root and the group gantry-admin" in lab.refusal(method, *talk.METHODS[method])
    assert lab.job(number)["status"] == "success"


def test_a_system_group_gives_its_members_rights_and_no_other_user(lab: Lab) -> None:
    lab.grant("group:ops", "operator", "instance:vm1")
    lab.become("bob", "gantry", "ops")
    is_done, number = lab.luxi("SubmitJob", [STOP])
    assert is_done
    lab.become("ops", "gantry")
    assert "only root and the group gantry-admin" in lab.refusal("SubmitJob", [STOP])
    submitter = lab.job(number)["submitter"]
    assert msgspec.to_builtins(submitter) == {"user": "bob", "groups": ("ops",)}


def test_only_a_peer_that_may_do_everything_names_another_user(lab: Lab) -> None:
    lab.grant("user:bob", "admin", "cluster")
    lab.grant("user:carol", "operator", "instance:vm1")
    for method, arguments in (("SubmitJob", [[STOP]]), ("QueryClusterInfo", [])):
        for groups in (("gantry",), ("ops",)):
            lab.become("carol", *groups)
            for user in ({"name": "bob"}, {"name": "carol", "write": True}, {"name": "root", "write": True}):
                text = lab.refusal(method, *arguments, user=user)
                assert f"user carol may not make a request for user {user['name']}" in text
    lab.become("gantry-rapi", "gantry-admin")
    assert lab.luxi("SubmitJob", [talk.DELAY], user={"name": "bob"})[0]
    assert lab.luxi("SubmitJob", [talk.DELAY], user={"name": "x", "write": True})[0]


def test_who_names_a_user_has_that_users_rights_and_is_never_root(lab: Lab) -> None:
    allow = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "allowed": [["add", "images", "/srv/cd"]]}
    for peer in (("root",), ("gantry-rapi", "gantry-admin")):
        lab.become(*peer)
        assert "may not operate instance vm1" in lab.refusal("SubmitJob", [STOP], user={"name": "bob"})
        assert "may not operate instance vm1" in lab.refusal("SubmitJob", [STOP], user={"name": "root"})
        assert "may not operate instance vm1" in lab.refusal("SubmitJob", [STOP], user={"name": ""})
        assert "only root may change" in lab.refusal("SubmitJob", [allow], user={"name": "root", "write": True})
        for method in sorted(jobs.METHODS.keys() - jobs.BY_RULES - jobs.WAITING):
            assert "changes the cluster" in lab.refusal(method, *talk.METHODS[method], user={"name": "bob"})


@pytest.mark.parametrize("user", ["bob", ["bob"], {"name": 7}, {}, {"name": "bob", "admin": True}, {"write": True}])
def test_a_user_of_another_form_is_no_request(lab: Lab, user: object) -> None:
    message = json.dumps({"method": "SubmitJob", "args": [[STOP]], "user": user}).encode() + talk.ETX
    answer, _ = talk.ask(lab.simulated, message)
    assert answer["success"] is False
    assert "Failed to parse request" in str(answer["result"])


def test_a_reader_of_the_remote_api_may_do_just_what_the_rules_allow(lab: Lab) -> None:
    before = lab.http("bob", "PUT", "/2/instances/vm1/shutdown")
    assert before.status == 403
    assert b"does not have the option write" in before.body
    lab.grant("user:bob", "operator", "instance:vm1")
    done = lab.http("bob", "PUT", "/2/instances/vm1/shutdown")
    assert done.status == 200
    job = lab.job(json.loads(done.body))
    assert job["status"] == "success"
    assert msgspec.to_builtins(job["submitter"]) == {"user": "bob", "door": "rapi"}
    refused = lab.http("bob", "DELETE", "/2/instances/vm1")
    assert refused.status == 403
    assert "may not manage instance vm1" in json.loads(refused.body)["explain"]
    assert lab.http("carol", "PUT", "/2/instances/vm1/shutdown").status == 403
    assert lab.http("bob", "GET", "/2/nodes/node1/storage?storage_type=lvm-pv&output_fields=name").status == 403
    assert lab.http("bob", "GET", f"/2/jobs/{json.loads(done.body)}/wait", {"fields": ["status"]}).status == 403


def test_without_the_option_read_rules_allow_nothing(lab: Lab) -> None:
    lab.grant("user:dora", "admin", "cluster")
    answer = lab.http("dora", "PUT", "/2/instances/vm1/shutdown")
    assert answer.status == 403
    assert b"does not have the option write" in answer.body


def test_the_option_write_is_everything_as_before(lab: Lab) -> None:
    number = lab.http("alice", "PUT", "/2/instances/vm1/tags?tag=own")
    assert lab.job(json.loads(number.body))["status"] == "success"
    submitter = lab.job(json.loads(number.body))["submitter"]
    assert msgspec.to_builtins(submitter) == {"user": "alice", "door": "rapi", "is_admin": True}
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["own"]})


def test_readers_read_as_before(lab: Lab) -> None:
    for path in ("/2/instances/vm1", "/2/query/instance?fields=name", "/2/instances/vm1/info"):
        assert lab.http("bob", "GET", path).status == 200


def test_a_master_that_knows_no_rules_is_never_asked_for_a_change_of_a_reader(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    monkeypatch.delitem(luxi.METHODS, "QueryOwnAccess")
    before = lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job
    assert lab.http("bob", "PUT", "/2/instances/vm1/shutdown").status >= 400
    assert lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job == before


def test_a_connection_that_names_no_user_has_no_rights(lab: Lab) -> None:
    client = luxi_client.Pool(lab.simulated.master.network, cluster.FOLDERS.luxi_socket, remote=True, naming=True)
    with pytest.raises(Exception, match="may not operate instance vm1"):
        lab.simulated.run(client.call(int, "SubmitJob", [STOP]))


def test_a_job_belongs_to_its_submitter(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.grant("user:carol", "operator", "instance:vm1")
    lab.become("bob", "gantry")
    _, number = lab.luxi("SubmitJob", [STOP])
    lab.job(number)
    for method, arguments in (("CancelJob", ()), ("ChangeJobPriority", (3,)), ("ArchiveJob", ())):
        lab.become("carol", "gantry")
        assert f"job {number} is not a job of user carol" in lab.refusal(method, number, *arguments)
    assert lab.http("bob", "DELETE", f"/2/jobs/{number}").status == 403
    lab.become("bob", "gantry")
    for method, arguments in (("CancelJob", ()), ("ChangeJobPriority", (3,)), ("ArchiveJob", ())):
        assert lab.luxi(method, number, *arguments)[0]


def test_a_reason_names_no_other_user(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("bob", "gantry")
    _, number = lab.luxi("SubmitJob", [{**STOP, "reason": [["gnt:rapi:alice", "because", 1]]}])
    lab.job(number)
    assert lab.luxi("QueryJobs", [number], ["user"])[1] == [["bob"]]
    _, history = lab.luxi("QueryHistory", "job", str(number), None, None, 10)
    assert isinstance(history, dict)
    assert {event["cause"]["user"] for event in history["events"]} == {"gnt:luxi:bob"}


def test_a_name_alone_is_not_root_and_owns_no_job(lab: Lab) -> None:
    lab.become("root")
    _, number = lab.luxi("SubmitJob", [talk.DELAY])
    lab.job(number)
    assert lab.http("root", "DELETE", f"/2/jobs/{number}").status == 403
    lab.grant("user:root", "operator", "instance:vm1")
    refused = lab.http("root", "DELETE", f"/2/jobs/{number}")
    assert (refused.status, b"is not a job of user root" in refused.body) == (403, True)
    assert lab.http("root", "PUT", "/2/modify", {"max_running_jobs": 7}).status == 403


def test_an_admin_of_the_cluster_by_a_rule_may_do_what_gantry_admin_may(lab: Lab) -> None:
    lab.become("root")
    _, number = lab.luxi("SubmitJob", [talk.DELAY])
    lab.job(number)
    lab.grant("user:bob", "admin", "cluster")
    lab.become("bob", "gantry")
    assert lab.luxi("SetDrainFlag", False)[0]
    assert lab.luxi("SubmitJob", [talk.DELAY])[0]
    assert lab.luxi("ArchiveJob", number)[0]
    assert lab.luxi("RunJob", [{"OP_ID": "OP_ACCESS_ADD", "who": "user:x", "role": "admin", "on": "cluster"}], 9)[0]
    assert "only root may change" in lab.refusal(
        "SubmitJob", [{"OP_ID": "OP_NODE_INVITE", "node_name": "node9", "secret_hash": "0" * 64}]
    )


def test_a_right_that_is_taken_away_while_a_job_waits_does_not_count(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("root")
    _, blocking = lab.luxi("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 2000}])
    lab.become("bob", "gantry")
    depends = {"depends": [[blocking, ["success"]]]}
    _, waiting = lab.luxi("SubmitJob", [{**STOP, **depends}])
    _, other = lab.luxi("SubmitJob", [STOP, {**STOP, **depends}])
    lab.done({"OP_ID": "OP_ACCESS_REMOVE", "who": "user:bob"})
    for number in (waiting, other):
        job = lab.job(number)
        assert job["status"] == "error"
    assert "may not operate instance vm1" in str(lab.job(waiting)["result"])


def test_rules_end_with_their_object_in_the_state(lab: Lab) -> None:
    add = {"OP_ID": "OP_NETWORK_ADD", "network_name": "short", "uuid": "11111111-2222-4333-8444-555555555555"}
    lab.done(add)
    lab.grant("user:bob", "network-admin", "network:short")
    lab.done({"OP_ID": "OP_NETWORK_RENAME", "network_name": "short", "new_name": "long"})
    lab.become("bob", "gantry")
    change = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "long", "description": "bob's"}
    assert lab.luxi("SubmitJob", [change])[0]
    lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "long"})
    assert lab.rules == set()
    lab.done(add)
    lab.become("bob", "gantry")
    assert "only root" in lab.refusal("SubmitJob", [{**change, "network_name": "short"}])
    lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "short"})


def test_a_project_has_its_networks_and_the_instances_with_its_ports(lab: Lab) -> None:
    def of_nic(action: str, nic: Mapping[str, object]) -> Mapping[str, object]:
        change = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [[action, -1, nic]]}
        return {**change, "hotplug": False}

    lab.grant("user:bob", "operator", "project:shop")
    assert lab.http("bob", "PUT", "/2/instances/vm1/shutdown").status == 403
    net = {"network_name": "shopnet", "network": "198.51.100.0/24", "project": "shop"}
    lab.done({"OP_ID": "OP_NETWORK_ADD", **net})
    plug = {"network_name": "shopnet", "group_name": "default"}
    lab.done({"OP_ID": "OP_NETWORK_CONNECT", **plug, "network_mode": "routed", "network_link": "main"})
    lab.done({"OP_ID": "OP_PORT_ADD", "ports": [{"network": "shopnet", "name": "web", "project": "shop"}]})
    lab.done(of_nic("add", {"port": "web"}))
    fields = "/2/query/instance?fields=name,project"
    assert json.loads(lab.http("bob", "GET", fields).body)["data"] == [[[0, "vm1"], [0, "shop"]]]
    explained = lab.luxi("ExplainAccess", ["user:bob"], "instance:vm1")[1]
    assert isinstance(explained, list)
    assert [row["rule"] and row["rule"]["on"] for row in explained] == ["project:shop", None]
    assert lab.http("bob", "PUT", "/2/instances/vm1/shutdown").status == 200
    assert lab.http("bob", "DELETE", "/2/instances/vm1").status == 403
    lab.done(of_nic("remove", {}))
    assert lab.http("bob", "PUT", "/2/instances/vm1/shutdown").status == 403
    lab.done({"OP_ID": "OP_PORT_REMOVE", "port": "web"})
    lab.done({"OP_ID": "OP_NETWORK_DISCONNECT", **plug})
    lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "shopnet"})


def test_jobs_that_a_job_submits_are_its_submitters(lab: Lab) -> None:
    lab.grant("user:bob", "admin", "cluster")
    lab.become("bob", "gantry")
    _, number = lab.luxi("SubmitJob", [{"OP_ID": "OP_CLUSTER_VERIFY_DISKS"}])
    job = lab.job(number)
    (entry,) = msgspec.convert(job["result"], dict[str, list[tuple[bool, int]]])["jobs"]
    child = lab.job(entry[1])
    assert (job["status"], child["submitter"]) == ("success", access.Subject(user="bob"))


def test_two_administrators_at_once_add_a_rule_once(lab: Lab) -> None:
    add = {"OP_ID": "OP_ACCESS_ADD", "who": "user:bob", "role": "operator", "on": "instance:vm1"}
    lab.become("root")
    is_done, answers = lab.luxi("SubmitManyJobs", [[add]] * 5)
    assert is_done
    assert isinstance(answers, list)
    assert {lab.job(number)["status"] for _, number in answers} == {"success"}
    assert len(lab.simulated.daemons[lab.simulated.leader].store.snapshot.accessrules) == 1


def test_the_remote_api_adds_lists_and_removes_rules(lab: Lab) -> None:
    added = lab.http("alice", "POST", "/2/access", {"who": "user:<b>&'\"", "role": "operator", "on": "instance:vm1"})
    assert lab.job(json.loads(added.body))["status"] == "success"
    assert lab.http("<b>&'\"", "PUT", "/2/instances/vm1/shutdown").status == 200
    listed = json.loads(lab.http("carol", "GET", "/2/query/access?fields=who,role,on").body)
    assert [[value for _, value in row] for row in listed["data"]] == [["user:<b>&'\"", "operator", "instance:vm1"]]
    assert lab.http("carol", "POST", "/2/access", {"who": "user:carol", "role": "admin", "on": "cluster"}).status == 403
    # The body of a DELETE has no meaning (RFC 9110, section 9.3.5).
    removed = lab.http(
        "alice", "DELETE", "/2/access?who=user:%3Cb%3E%26%27%22&role=operator&on=instance:vm1", {"note": "left"}
    )
    assert lab.job(json.loads(removed.body))["status"] == "success"
    assert lab.rules == set()


def test_rules_are_listed_by_user_with_the_present_names_of_their_objects(lab: Lab) -> None:
    for on in ("cluster", "group:default", "tag:blue", "instance:vm1", "network:net1"):
        lab.grant("user:bob", "operator", on)
    lab.grant("user:carol", "operator", "cluster")
    is_done, listed = lab.luxi("Query", "access", ["on"], ["|", ["=", "who", "user:bob"]])
    assert is_done
    assert isinstance(listed, dict)
    names = {row[0][1] for row in listed["data"]}
    assert names == {"cluster", "group:default", "tag:blue", "instance:vm1", "network:net1"}
    assert lab.luxi("Query", "access", ["on"], ["|", ["=", "who", "user:dora"]])[1] == {**listed, "data": []}


def test_a_session_has_the_rules_of_its_user(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    uuid = next(iter(lab.simulated.daemons[lab.simulated.leader].store.snapshot.instances))
    headers = {"content-type": "application/json"}

    def log_in(user: str) -> dict[str, object]:
        body = msgspec.json.encode({"user": user, "password": PASSWORDS[user]})
        answer = lab.simulated.run(lab.server.answer(http_interface.Request("POST", "/2/session", body, headers)))
        about: dict[str, object] = json.loads(answer.body)
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        again = lab.simulated.run(
            lab.server.answer(http_interface.Request("GET", "/2/session", b"", headers | {"cookie": cookie}))
        )
        assert json.loads(again.body) == about
        change = http_interface.Request(
            "PUT",
            "/2/instances/vm1/shutdown",
            b"",
            headers | {"cookie": cookie, sessions.HEADER: str(about["csrf"])},
        )
        about["status"] = lab.simulated.run(lab.server.answer(change)).status
        return about

    rule = {"role": "operator", "scope": "instance", "object": uuid, "on": "instance:vm1"}
    answers = {user: log_in(user) for user in ("alice", "bob", "carol")}
    assert {user: (each["may"], each["rules"], each["status"]) for user, each in answers.items()} == {
        "alice": ("write", [], 200),
        "bob": ("read", [rule], 200),
        "carol": ("read", [], 403),
    }


def test_an_explanation_is_what_the_user_meets(lab: Lab) -> None:
    lab.grant("group:ops", "operator", "cluster")
    lab.become("carol", "gantry")
    is_done, rows = lab.luxi("ExplainAccess", ["user:bob", "group:ops"], "instance:vm1")
    assert is_done
    assert isinstance(rows, list)
    assert {row["right"]: row["allowed"] for row in rows} == {"operate": True, "manage": False}
    assert rows[0]["rule"]["on"] == "cluster"
    lab.become("bob", "gantry", "ops")
    assert lab.luxi("SubmitJob", [STOP])[0]
    assert "may not manage" in lab.refusal("SubmitJob", [REMOVE])
    for names, on in (([], "cluster"), (["bob"], "cluster"), (["user:bob"], "nothing"), (["user:bob"], "instance:x")):
        assert not lab.luxi("ExplainAccess", names, on)[0]


def test_every_change_of_the_remote_api_goes_to_the_master_as_a_job_or_its_end() -> None:
    for route in (*changes.ROUTES, *reading.ROUTES):
        if route.access is wire.Access.WRITE and route.method != "GET":
            assert route.text.startswith("job: ") or route.path == "/2/jobs/{job}"
