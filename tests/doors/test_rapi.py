"""The remote API with a simulated master: HTTP status, users, conversion of bodies and queries to opcodes."""

import base64
import gzip
import hashlib
import json
import logging

import bcrypt
import msgspec
import pytest
import yaml

from gantry.daemons import remote
from gantry.doors import http, rapi
from gantry.doors.http import representation, users
from gantry.doors.rapi import changes, reading, routes, wire
from gantry.model import opcodes
from gantry.runtime import http_interface, limits
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
HA1 = hashlib.md5(b"dora:Ganeti Remote API:four").hexdigest()
TEXT = f"""# a comment
alice:{bcrypt.hashpw(b"one", bcrypt.gensalt(4)).decode()}
bob two write
carol {{cleartext}}three read
dora {{HA1}}{HA1.upper()}

erika:$apr1$abc$def
a line too many words
"""


@pytest.fixture(scope="module")
def server(lab: cluster.SimulatedCluster) -> http.Server:
    lab.run(lab.master.disk.write(USERS, TEXT.encode()))
    return remote.server(lab.master, cluster.FOLDERS)


class Talk:
    """Requests and their answers, without a network."""

    def __init__(self, lab: cluster.SimulatedCluster, server: http.Server) -> None:
        self._lab = lab
        self._server = server

    def raw(
        self, method: str, path: str, body: bytes = b"", *, login: str = "bob:two", **headers: str
    ) -> http_interface.Response:
        sent = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if login:
            sent["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        return self._lab.run(self._server.answer(http_interface.Request(method, path, body, sent)))

    def status(self, method: str, path: str, body: object = None, *, login: str = "bob:two", **headers: str) -> int:
        return self.raw(method, path, b"" if body is None else msgspec.json.encode(body), login=login, **headers).status

    def value(self, method: str, path: str, body: object = None) -> object:
        answer = self.raw(method, path, b"" if body is None else msgspec.json.encode(body))
        assert answer.status == 200, answer.body
        value: object = json.loads(answer.body)
        return value

    def op(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Return the first opcode of the job that a request submits."""
        ops = self.ops(method, path, body)
        return ops[0]

    def ops(self, method: str, path: str, body: object = None) -> list[dict[str, object]]:
        job = self.value("GET", f"/2/jobs/{self.value(method, path, body)}")
        assert isinstance(job, dict)
        return msgspec.convert(job["ops"], list[dict[str, object]])


@pytest.fixture
def talk(lab: cluster.SimulatedCluster, server: http.Server) -> Talk:
    return Talk(lab, server)


def _known(op: str) -> set[str]:
    (opcode,) = (each for each in opcodes.ALL if each.__struct_config__.tag == op)
    return {*opcode.__struct_fields__, *opcodes.FOREIGN.get(op, {}), "nostartup", "allocatable"}


@pytest.mark.parametrize("change", changes.CHANGES, ids=lambda row: f"{row.method} {row.path}")
def test_a_row_names_fields_of_its_opcode(change: changes.Change) -> None:
    parts = {part[1:-1] for part in change.route.parts if part.startswith("{")}
    if change.op in ("OP_INSTANCE_QUERY_DATA", "OP_NODE_QUERY_STORAGE"):
        parts.clear()
    aliases = {field for field in change.aliases.values() if change.aliases is not changes._CUSTOM}
    assert {*parts, *change.query.values(), *change.fixed} <= _known(change.op)
    assert aliases <= _known(change.op) | set(changes._CUSTOM.values())


def _routes() -> tuple[routes.Route, ...]:
    return (*reading.ROUTES, *changes.ROUTES)


def test_no_two_routes_answer_the_same_request() -> None:
    known = [(route.method, tuple("*" if part[0] == "{" else part for part in route.parts)) for route in _routes()]
    assert len(known) == len(set(known))


@pytest.mark.parametrize("route", rapi.ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_matches_its_path(route: routes.Route) -> None:
    path = tuple("x" if part.startswith("{") else part for part in route.parts)
    matching = routes.Table(rapi.ROUTES).matching(path)
    names = [names for each, names in matching if each is route]
    assert names == [{part[1:-1]: "x" for part in route.parts if part.startswith("{")}]
    assert not any(each is route for each, _ in routes.Table(rapi.ROUTES).matching((*path, "x")))


def test_an_address_is_answered_with_its_owner_of_now_or_of_a_time(talk: Talk, lab: cluster.SimulatedCluster) -> None:
    answer = talk.value("GET", "/2/addresses?of=192.0.2.7")
    assert isinstance(answer, dict)
    assert [(row["address"], row["state"], row["network"]) for row in answer["rows"]] == [("192.0.2.7", "free", "net1")]
    answer = talk.value("GET", f"/2/addresses?of=192.0.2.0%2F24&at={lab.world.clock.now()}&limit=5")
    assert isinstance(answer, dict)
    assert answer["rows"] == []
    answer = talk.value("GET", "/2/addresses?of=vm1&history=1")
    assert isinstance(answer, dict)
    assert answer["complete"]
    for query, status in (("of=10.9.9.9", 404), ("", 400), ("of=vm1&at=x", 400), ("of=vm1&limit=inf", 400)):
        assert talk.status("GET", f"/2/addresses?{query}") == status
    assert talk.status("GET", "/2/addresses?of=192.0.2.7", login="") == 401


@pytest.mark.parametrize("route", reading.ROUTES, ids=lambda row: f"{row.method} {row.path}")
def test_every_read_is_answered(talk: Talk, route: routes.Route) -> None:
    names = {"instances": "vm1", "nodes": "node1", "groups": "default", "networks": "net1"}
    kind = next((part for part in route.parts if part in names), "")
    path = route.path.format(name=names.get(kind, ""), job=1, what="node") + "?fields=name&of=192.0.2.7"
    if route.parts[-1:] == ("wait",):
        assert talk.status("GET", path, {"fields": ["status"]}) == 200
        return
    if route.parts[-1:] == ("console",):
        assert talk.status("GET", path) in (200, 409)  # the instance does not run
        return
    assert talk.status(route.method, path) == 200
    if "bulk" in route.query:
        assert talk.status(route.method, path + "&bulk=1") == 200


@pytest.mark.parametrize("route", _routes(), ids=lambda row: f"{row.method} {row.path}")
def test_every_request_needs_a_user_unless_reading_is_open_to_everybody(
    talk: Talk, lab: cluster.SimulatedCluster, route: routes.Route
) -> None:
    everybody = Talk(lab, remote.server(lab.master, cluster.FOLDERS, anonymous=True))
    path = route.path.replace("{", "").replace("}", "")
    assert talk.status(route.method, path, login="") == 401
    assert (everybody.status(route.method, path, login="") == 401) is (route.access is not wire.Access.OPEN)


@pytest.mark.parametrize("is_user", [True, False])
def test_only_users_may_send_a_long_body(lab: cluster.SimulatedCluster, server: http.Server, is_user: bool) -> None:
    open_server = remote.server(lab.master, cluster.FOLDERS, anonymous=True)
    login = {"authorization": f"Basic {base64.b64encode(b'bob:two').decode()}"}
    sent = http_interface.Request("GET", "/2/info", b"", login if is_user else {})
    admission = lab.run(open_server.admit(sent))
    longest = http.BODY_LIMIT if is_user else limits.STRANGER_BODY_BYTES
    assert admission == limits.Admission(longest, known=is_user)
    assert isinstance(lab.run(server.admit(sent)), limits.Admission) is is_user


def test_without_options_the_daemon_asks_for_a_user_and_listens_on_the_loopback() -> None:
    parse = remote.command_line().parse_args
    usual, ganeti, opened = parse([]), parse(["--require-authentication"]), parse(["--no-require-authentication"])
    assert (usual.bind, usual.require_authentication) == ("127.0.0.1", True)
    assert (ganeti.require_authentication, opened.require_authentication) == (True, False)
    assert parse(["-b", "192.0.2.1"]).bind == "192.0.2.1"


def test_a_closed_server_gives_no_answer_and_its_port_is_free(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    client = lab.master.network.http_client(tls=None)

    async def scenario() -> None:
        for _ in range(2):
            await server.open("", 5080, tls=None)
            answer = await client.request("GET", lab.address("node1"), 5080, "/version", timeout=5)
            assert answer.status == 401
            await server.close()
            with pytest.raises(ConnectionRefusedError):
                await client.request("GET", lab.address("node1"), 5080, "/version", timeout=5)

    lab.run(scenario())


def _finish_jobs(lab: cluster.SimulatedCluster) -> None:
    """Wait for the jobs that other tests have submitted."""
    rows = lab.run(lab.luxi("QueryJobs", None, ["id", "status"]))
    for number, status in msgspec.convert(rows, list[tuple[int, str]]):
        if status in routes.UNFINISHED:
            lab.run(lab.wait(number))


@pytest.mark.promise("cluster-127", "cluster-130")
@pytest.mark.parametrize("route", reading.ROUTES, ids=lambda row: f"{row.method} {row.path}")
def test_reading_makes_no_jobs(talk: Talk, lab: cluster.SimulatedCluster, route: routes.Route) -> None:
    _finish_jobs(lab)
    state = lab.daemons[lab.leader].store
    before = state.snapshot.serial
    names = {"instances": "vm1", "nodes": "node1", "groups": "default", "networks": "net1"}
    kind = next((part for part in route.parts if part in names), "")
    path = route.path.format(name=names.get(kind, ""), job=1, what="node") + "?fields=name&bulk=1"
    for _ in range(20):
        talk.status(route.method, path, {"fields": ["status"]} if route.parts[-1:] == ("wait",) else None)
    assert state.snapshot.serial == before


LONG = {"OP_ID": "OP_TEST_DELAY", "duration": 1000, "on_master": True, "on_nodes": []}
INFO = "/2/instances/vm1/info"


def test_reads_that_are_answered_with_a_job_share_it_until_it_has_ended(
    talk: Talk, lab: cluster.SimulatedCluster
) -> None:
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 1}))
    blocking = lab.run(lab.submit(LONG))
    numbers = {talk.value("GET", INFO) for _ in range(30)}
    assert len(numbers) == 1
    paths = [f"/2/nodes/node1/storage?storage_type=file&output_fields=name&reason={i}" for i in range(3)]
    assert len({talk.value("GET", path) for path in paths}) == 1
    fields = ("name", "type", "size", "used", "free", "allocatable", "node")
    several = [f"/2/nodes/node1/storage?output_fields={a},{b}" for a in fields for b in fields if a != b]
    statuses = [talk.status("GET", path) for path in several]
    assert statuses == [200] * (routes.READING_JOBS - 2) + [503] * (len(several) - routes.READING_JOBS + 2)
    lab.run(lab.wait(blocking))
    (number,) = numbers
    assert isinstance(number, int)
    lab.run(lab.wait(number))
    assert talk.value("GET", INFO) not in numbers
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": "default"}))


def test_segment_ranges_are_created_changed_and_removed(talk: Talk, lab: cluster.SimulatedCluster) -> None:
    def ranges() -> list[object]:
        answer = talk.value("PUT", "/2/query/segmentrange", {"fields": ["name", "maximum", "default"]})
        assert isinstance(answer, dict)
        return [[value for _, value in row] for row in answer["data"]]

    def change(method: str, path: str, body: object = None) -> None:
        number = talk.value(method, path, body)
        assert isinstance(number, int)
        lab.run(lab.wait(number))

    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": True}))
    before = ranges()
    spec = {"name": "lab", "network_type": "vxlan", "minimum": 9000, "maximum": 9099}
    change("POST", "/2/segment-ranges", {"ranges": [spec]})
    assert ["lab", 9099, False] in ranges()
    change("PUT", "/2/segment-ranges/lab/modify", {"maximum": 9199})
    assert ["lab", 9199, False] in ranges()
    change("DELETE", "/2/segment-ranges/lab")
    assert ranges() == before
    assert talk.status("POST", "/2/segment-ranges", {"ranges": [spec]}, login="carol:three") == 403


def test_what_needs_no_body_ignores_one(talk: Talk) -> None:
    for method, path in (("PUT", "/2/redistribute-config"), ("PUT", "/2/instances/vm1/startup?dry-run=1")):
        assert talk.status(method, path, {"note": "not a field"}) == 200


def test_the_full_description_of_an_instance_needs_the_right_to_read(talk: Talk) -> None:
    assert talk.status("GET", INFO, login="carol:three") == 200
    assert talk.status("GET", INFO, login="dora:four") == 403
    assert talk.status("GET", "/2/nodes/node1/storage?output_fields=name", login="carol:three") == 403


@pytest.mark.parametrize(
    "body",
    [
        {"allowed": [["add", "images", "/"]]},
        {"allowed": [["remove", "kvm_path", "/usr/bin/kvm"]]},
        {"enabled_hypervisors": ["fake", "chroot"]},
        {"ipam_driver": "sql", "ipam_database": "sqlite:////tmp/x"},
        {"hvparams": {"kvm": {"kvm_path": "/bin/sh"}}},
        {"hvparams": {"kvm": {"kvm_extra": "-drive file=/etc/shadow"}}},
        {"os_hvp": {"plain": {"kvm": {"initrd_path": "/etc/shadow"}}}},
    ],
)
def test_a_user_of_the_remote_api_cannot_become_root_by_settings_of_the_cluster(
    talk: Talk, lab: cluster.SimulatedCluster, body: dict[str, object]
) -> None:
    before = lab.daemons[lab.leader].store.snapshot.the_cluster
    answer = talk.raw("PUT", "/2/modify", msgspec.json.encode(body))
    if answer.status == 200:  # the job is refused
        status, results = lab.run(lab.wait(int(answer.body)))
        assert status == "error"
        assert "gnt-cluster modify --allow" in str(results)
    else:
        assert (answer.status, b"only root may change" in answer.body) == (403, True)
    assert lab.daemons[lab.leader].store.snapshot.the_cluster == before


def test_refused_requests_have_the_status_of_http(talk: Talk) -> None:
    assert talk.status("GET", "/2/nothing") == 404
    assert talk.status("PATCH", "/2/instances") == 501
    assert talk.status("GET", "/2/instances/nobody") == 404
    assert talk.status("POST", "/2/groups", {"name": "x"}, content_type="text/plain") == 415
    assert talk.raw("POST", "/2/groups", b"{").status == 400
    assert talk.raw("POST", "/2/groups", b"[" * 100_000).status == 400
    assert talk.status("POST", "/2/groups", ["x"]) == 400
    assert talk.status("GET", "/2/jobs/abc") == 400
    assert talk.status("GET", "/2/instances?bulk=maybe") == 400
    failure = json.loads(talk.raw("POST", "/2/groups", b'{"name": "x", "colour": "red"}').body)
    assert (failure["code"], failure["message"]) == (400, "Bad Request")
    assert "colour" in failure["explain"]


@pytest.mark.parametrize("digits", [19, 4400])
def test_a_number_in_a_path_or_a_query_has_few_digits(talk: Talk, digits: int) -> None:
    number = "1" * digits
    for method, path in (
        ("GET", f"/2/instances?bulk={number}"),
        ("PUT", f"/2/nodes/node1/role?force={number}"),
        ("PUT", f"/2/tags?tag=x&dry-run={number}"),
        ("GET", f"/2/jobs/{number}"),
        ("DELETE", f"/2/jobs/{number}"),
        ("GET", f"/2/jobs/{number}/wait"),
    ):
        assert talk.status(method, path, "drained" if "role" in path else {"fields": ["id"]}) == 400, path


@pytest.mark.parametrize("body", [b'{"name": %s}' % (b"1" * 4400), b'{"name": %s}' % (b"[" * 50_000 + b"]" * 50_000)])
def test_a_body_beyond_the_limits_of_json_is_refused(talk: Talk, body: bytes) -> None:
    answer = talk.raw("POST", "/2/groups", body)
    assert answer.status == 400
    assert b"the body is not valid JSON: " in answer.body


def test_the_description_is_for_users_and_read_only(talk: Talk) -> None:
    assert talk.raw("GET", "/openapi.json", login="").status == 401
    answer = talk.raw("GET", "/openapi.json")
    description = json.loads(answer.body)
    assert (answer.status, description["openapi"]) == (200, "3.1.0")
    body = description["paths"]["/2/groups"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"name", "alloc_policy", "custom_ndparams"} <= body["properties"].keys()
    assert (body["required"], body["additionalProperties"]) == (["name"], False)
    assert talk.status("POST", "/openapi.json") == 501


def test_the_description_has_the_type_of_the_arguments_of_a_query(talk: Talk) -> None:
    paths = json.loads(talk.raw("GET", "/openapi.json").body)["paths"]
    parameters = paths["/2/instances/{name}/replace-disks"]["post"]["parameters"]
    schemas = {each["name"]: each["schema"] for each in parameters if each["in"] == "query"}
    assert schemas["dry-run"] == {"type": "integer", "enum": [0, 1]}
    assert schemas["reason"] == {"type": "string"}
    assert schemas["disks"]["items"] == {"type": "integer", "minimum": 0}
    assert "replace_auto" in schemas["mode"]["enum"]
    read = {each["name"] for each in paths["/2/addresses"]["get"]["parameters"]}
    assert read >= {"of", "at", "history", "limit"}


def test_a_body_cannot_set_fields_of_the_path_or_of_the_server(talk: Talk) -> None:
    for body in ({"OP_ID": "OP_CLUSTER_DESTROY"}, {"instance_name": "vm2"}, {"reason": [["x", "y", 1]]}):
        assert talk.status("PUT", "/2/instances/vm1/shutdown", body) == 400
    assert talk.status("POST", "/2/instances", {"name": "a", "instance_name": "b", "__version__": 1}) == 400
    assert talk.status("POST", "/2/instances", {"name": "a", "disk_template": "diskless"}) == 400


def test_arguments_become_fields_of_the_opcode(talk: Talk) -> None:
    op = talk.op("PUT", "/2/instances/vm1/startup?force=1&dry-run=1&reason=noon")
    assert (op["OP_ID"], op["instance_name"], op["force"], op["dry_run"]) == (
        "OP_INSTANCE_STARTUP", "vm1", True, True,
    )  # fmt: skip
    trail = msgspec.convert(op["reason"], list[tuple[str, str, int]])
    assert [entry[:2] for entry in trail] == [("gnt:user", "noon"), ("gnt:rapi:bob", "PUT /2/instances/vm1/startup")]
    op = talk.op("POST", "/2/instances/vm1/reboot?type=full&dry-run=1")
    assert (op["OP_ID"], op["reboot_type"]) == ("OP_INSTANCE_REBOOT", "full")
    op = talk.op("DELETE", "/2/instances/vm1/tags?tag=a&tag=b&dry-run=1")
    assert (op["OP_ID"], op["kind"], op["name"], op["tags"]) == ("OP_TAGS_DEL", "instance", "vm1", ["a", "b"])
    op = talk.op("POST", "/2/instances/vm1/replace-disks?mode=replace_on_primary&disks=0,+1,&dry-run=1")
    assert op["disks"] == [0, 1]
    op = talk.op("PUT", "/2/nodes/node1/storage/modify?name=/dev/sdb&allocatable=0&dry-run=1")
    assert (op["OP_ID"], op["name"], op["changes"]) == ("OP_NODE_MODIFY_STORAGE", "/dev/sdb", {"allocatable": False})
    op = talk.op("GET", "/2/nodes/node1/storage?storage_type=lvm-pv&output_fields=name,size")
    assert (op["OP_ID"], op["nodes"], op["output_fields"]) == ("OP_NODE_QUERY_STORAGE", ["node1"], ["name", "size"])
    op = talk.op("GET", "/2/instances/vm1/info?static=1")
    assert (op["OP_ID"], op["instances"], op["static"]) == ("OP_INSTANCE_QUERY_DATA", ["vm1"], True)
    op = talk.op("PUT", "/2/nodes/node1/role?dry-run=1", "offline")
    assert (op["OP_ID"], op["node_name"], op["offline"]) == ("OP_NODE_SET_PARAMS", "node1", True)
    assert talk.status("PUT", "/2/nodes/node1/role", "master") == 400
    for role, flags in {
        "master-candidate": (False, False, True),
        "regular": (False, False, False),
        "drained": (False, True, None),
        "offline": (True, None, None),
    }.items():
        op = talk.op("PUT", "/2/nodes/node1/role?dry-run=1", role)
        assert (op.get("offline"), op.get("drained"), op.get("master_candidate")) == flags
    ops = talk.ops("POST", "/2/instances/vm1/reinstall?dry-run=1", {"os": "busybox", "start": False})
    assert [op["OP_ID"] for op in ops] == ["OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_REINSTALL"]
    ops = talk.ops("POST", "/2/instances/vm1/reinstall?dry-run=1&os=busybox&nostartup=0")
    assert [op["OP_ID"] for op in ops][2] == "OP_INSTANCE_STARTUP"


def test_a_wait_for_a_job_that_does_not_change_ends_with_null_after_10_seconds(
    talk: Talk, lab: cluster.SimulatedCluster
) -> None:
    number = lab.run(lab.luxi("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 100}]))
    lab.run(lab.world.clock.sleep(1))
    known = {"fields": ["status"], "previous_job_info": ["running"], "previous_log_serial": 1}
    start = lab.master.clock.monotonic()
    assert talk.value("GET", f"/2/jobs/{number}/wait", known) is None
    assert lab.master.clock.monotonic() - start == pytest.approx(10, abs=0.1)
    lab.run(lab.world.clock.sleep(100))
    assert talk.value("GET", f"/2/jobs/{number}/wait", known) == {"job_info": ["success"], "log_entries": []}


def test_a_query_without_fields_is_refused(talk: Talk) -> None:
    answer = talk.raw("GET", "/2/query/node")
    assert answer.status == 400
    assert "?fields=name,uuid" in answer.body.decode()


def test_a_body_that_is_not_valid_is_refused_with_the_name_of_its_field(talk: Talk) -> None:
    answer = talk.raw("PUT", "/2/query/node", b'{"fields": [5]}')
    assert answer.status == 400
    assert "the body is not valid: fields[0]: must be a text, not a whole number" in answer.body.decode()
    assert "$" not in answer.body.decode()


def test_a_query_for_the_definitions_of_fields_may_name_the_fields(talk: Talk) -> None:
    def names(query: str) -> list[object]:
        answer = msgspec.convert(talk.value("GET", f"/2/query/node/fields{query}"), dict[str, list[dict[str, object]]])
        return [definition["name"] for definition in answer["fields"]]

    assert names("?fields=name,uuid") == ["name", "uuid"]
    assert len(names("")) > 2


def test_a_change_can_be_bound_to_a_version(talk: Talk) -> None:
    version = json.loads(talk.raw("GET", "/2/groups/default").body)["serial_no"]
    for path in ("/2/groups/default/modify", "/2/cluster.example/groups/default/modify"):
        status = 404 if "example" in path else 200
        assert talk.status("PUT", path + "?dry-run=1", {}, if_match=f'"{version}-abc"') == status
    assert talk.status("PUT", "/2/groups/default/modify", {}, if_match=f'"{version + 1}-abc"') == 412
    assert talk.status("PUT", "/2/groups/nobody/modify", {}, if_match="*") == 404
    # What has no version of its own cannot be bound to a version.
    for method, path in (("PUT", "/2/tags?tag=a"), ("POST", "/2/groups"), ("PUT", "/2/segment-ranges/lab/modify")):
        answer = talk.raw(method, path, b"{}", if_match='"1"')
        assert (answer.status, b"If-Match requires the path of an instance" in answer.body) == (400, True), path


def test_the_tag_of_an_object_has_its_version_and_a_digest_of_what_was_sent(talk: Talk) -> None:
    vm = talk.raw("GET", "/2/instances/vm1")
    version, _, digest = vm.headers["ETag"].strip('"').partition("-")
    assert version == str(json.loads(vm.body)["serial_no"])
    assert digest == hashlib.sha256(vm.body).hexdigest()[:16]
    names = talk.raw("GET", "/2/instances")
    assert names.headers["ETag"] == f'"{hashlib.sha256(names.body).hexdigest()[:16]}"'


def test_a_read_is_answered_without_content_if_the_client_has_this_version(talk: Talk) -> None:
    first = talk.raw("GET", "/2/instances/vm1")
    again = talk.raw("GET", "/2/instances/vm1", if_none_match=f'"x", {first.headers["ETag"]}')
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert again.headers["Vary"] == first.headers["Vary"] == "Accept, Accept-Encoding"
    assert talk.raw("GET", "/2/instances/vm1", if_none_match='"x"').body == first.body


@pytest.mark.parametrize(
    ("path", "accepted", "is_packed"),
    [
        ("/2/info", "gzip", True), ("/2/info", "br, GZIP;q=0.5", True), ("/2/info", "", False),
        ("/2/info", "br", False), ("/2/info", "gzip;q=0", False), ("/2/features", "gzip", False),
    ],
)  # fmt: skip
def test_a_long_answer_is_compressed_for_a_client_that_accepts_it(
    talk: Talk, path: str, accepted: str, is_packed: bool
) -> None:
    plain, answer = talk.raw("GET", path), talk.raw("GET", path, accept_encoding=accepted)
    assert (len(plain.body) >= wire.PACKED_BYTES) is (path == "/2/info")
    assert answer.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    assert (gzip.decompress(answer.body) if is_packed else answer.body) == plain.body
    assert (len(answer.body) < len(plain.body)) is is_packed
    assert (answer.headers["ETag"], answer.content_type) == (plain.headers["ETag"], plain.content_type)


def test_an_answer_is_yaml_for_a_client_that_wants_yaml(talk: Talk) -> None:
    answer = talk.raw("GET", "/2/instances/vm1", accept="application/yaml")
    assert (answer.status, answer.content_type) == (200, representation.YAML)
    value = talk.value("GET", "/2/instances/vm1")
    assert isinstance(value, dict)
    assert list(yaml.safe_load(answer.body).items()) == list(value.items())
    assert representation.encode({"b": "ä", "a": (1, None)}, representation.YAML) == "b: ä\na:\n- 1\n- null\n".encode()


def test_a_request_for_another_form_is_refused_and_nothing_is_changed(
    talk: Talk, lab: cluster.SimulatedCluster
) -> None:
    before = lab.daemons[lab.leader].store.snapshot.serial
    answer = talk.raw("PUT", "/2/tags?tag=a", accept="text/html")
    explained = "the Accept header allows neither application/json nor application/yaml"
    assert (answer.status, json.loads(answer.body)["explain"]) == (406, explained)
    assert lab.daemons[lab.leader].store.snapshot.serial == before


@pytest.mark.parametrize("begin", ["/lab.example", "/2/lab.example"])
def test_the_paths_of_the_older_design_lead_to_the_same_objects(talk: Talk, begin: str) -> None:
    assert talk.value("GET", f"{begin}/instances/vm1") == talk.value("GET", "/2/instances/vm1")
    assert talk.value("GET", f"{begin}/instances") == talk.value("GET", "/2/instances")
    op = talk.op("PUT", f"{begin}/instances/vm1/tag?tag=a&dry-run=1")
    assert (op["OP_ID"], op["name"], op["tags"]) == ("OP_TAGS_SET", "vm1", ["a"])
    op = talk.op("PUT", f"{begin}/instances/vm1/startup?dry-run=1")
    assert (op["OP_ID"], op["instance_name"]) == ("OP_INSTANCE_STARTUP", "vm1")
    assert talk.status("GET", f"{begin}x/instances/vm1") == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_tags_are_named_in_the_query(talk: Talk, method: str) -> None:
    answer = talk.raw(method, "/2/instances/vm1/tags")
    assert answer.status == 400
    assert "the request has no tags; add each tag as a query argument: ?tag=first&tag=second" in answer.body.decode()


def test_passwords_are_checked_in_every_form(talk: Talk) -> None:
    for login in ("alice:one", "bob:two", "carol:three", "dora:four"):
        assert talk.status("GET", "/2/info", login=login) == 200
    for login in ("alice:two", "bob:", "carol:{cleartext}three", f"dora:{HA1}", "erika:$apr1$abc$def", "a:line"):
        assert talk.status("GET", "/2/info", login=login) == 401
    assert talk.status("GET", "/2/info", login="", authorization="Bearer abc") == 401
    assert talk.status("GET", "/2/info", login="", authorization="Basic ***") == 401
    encoded = base64.b64encode(b"bob:two").decode()
    for text, status in ((encoded, 200), (f"*{encoded}", 401), (f"{encoded[:4]}*{encoded[4:]}", 401)):
        assert talk.status("GET", "/2/info", login="", authorization=f"Basic {text}") == status
    assert talk.status("PUT", "/2/tags?tag=a", login="alice:one") == 200
    assert talk.status("PUT", "/2/tags?tag=a", login="carol:three") == 403
    assert talk.status("GET", "/2/query/node?fields=name", login="carol:three") == 200
    assert talk.status("GET", "/2/query/node?fields=name", login="dora:four") == 403


def test_the_answer_to_a_wrong_password_is_delayed_and_to_a_right_one_is_not(
    talk: Talk, lab: cluster.SimulatedCluster
) -> None:
    clock = lab.master.clock
    for login, cost in (
        ("bob:guess", users.WRONG_PASSWORD_SECONDS),
        ("nobody:guess", users.WRONG_PASSWORD_SECONDS),
        ("bob:two", 0.0),
    ):
        start = clock.monotonic()
        talk.raw("GET", "/version", login=login)
        assert clock.monotonic() - start == pytest.approx(cost, abs=0.01)


def test_the_users_file_is_read_again_when_it_changes(talk: Talk, lab: cluster.SimulatedCluster) -> None:
    assert talk.status("GET", "/version", login="bob:two") == 200
    lab.run(lab.master.disk.write(USERS, TEXT.replace("bob two", "bob three").encode()))
    assert talk.status("GET", "/version", login="bob:two") == 401
    assert talk.status("GET", "/version", login="bob:three") == 200
    lab.run(lab.master.disk.remove(USERS))
    assert talk.status("GET", "/version", login="bob:three") == 401
    lab.run(lab.master.disk.write(USERS, TEXT.encode()))
    assert talk.status("GET", "/version", login="bob:two") == 200


def test_an_invalid_line_of_the_users_file_is_logged_by_number_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        valid = users.parse(TEXT)
    assert set(valid) == {"alice", "bob", "carol", "dora"}
    assert "line 7" in caplog.text
    assert "line 8" in caplog.text
    assert "apr1" not in caplog.text


@pytest.mark.parametrize("password", ["$2b$", "$2b$12$short", "$2y$99$" + "a" * 53])
def test_a_damaged_password_of_bcrypt_is_never_right(password: str) -> None:
    assert users.parse(f"frank:{password}")["frank"].has("") is False
    assert users.parse(f"frank:{password}")["frank"].has(password) is False


def test_a_request_cannot_forge_a_line_of_the_access_log(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gantry.access"):
        talk.raw("GET", '/2/a"b', login="", user_agent='x" 200\n127.0.0.1 - "')
    (line,) = [record.getMessage() for record in caplog.records if record.name == "gantry.access"]
    assert "\n" not in line
    assert line.count('"') == 6


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", representation.JSON), ("*/*", representation.JSON), ("text/html", None),
        ("text/html, */*;q=0.1", representation.JSON), ("text/yaml", representation.YAML),
        ("application/json;q=1, application/yaml", representation.JSON),
        ("application/json;q=0.5, application/yaml", representation.YAML), ("application/json;q=0", None),
        ("application/json;q=x", None),
    ],
)  # fmt: skip
def test_the_content_type_follows_the_accept_header(accept: str, kind: str | None) -> None:
    assert representation.content_type(accept) == kind


def test_a_certificate_is_demanded_off_the_loopback(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    assert remote.main(["--no-ssl", "--bind", "0.0.0.0", "--root", str(tmp_path)]) == 1
    assert "without TLS" in capsys.readouterr().err


def test_a_running_job_is_killed_on_request(talk: Talk, lab: cluster.SimulatedCluster) -> None:
    number = lab.run(lab.submit(LONG))
    lab.run(lab.world.clock.sleep(1))
    assert json.loads(talk.raw("DELETE", f"/2/jobs/{number}").body)[0] is False
    assert json.loads(talk.raw("DELETE", f"/2/jobs/{number}?kill=1").body) == [True, f"Job {number} will be killed"]
    assert lab.run(lab.wait(number))[0] == "canceled"


@pytest.mark.parametrize(("body", "reason"), [({}, "is missing"), ({"__version__": 0}, "is 0, not 1")])
def test_the_body_of_a_new_instance_has_a_version(talk: Talk, body: dict[str, object], reason: str) -> None:
    answer = talk.raw("POST", "/2/instances", msgspec.json.encode(body))
    assert f"__version__ of the body {reason}" in json.loads(answer.body)["explain"]
