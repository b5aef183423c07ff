"""Authentication, and the calls that describe the API."""

import base64
import json

import msgspec
import pytest
from tests.doors.neutron import talk
from tests.doors.neutron.talk import ADMIN, MEMBER, NETWORKS, RANGES, Answer, Talk

from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.http import users
from gantry.doors.neutron import access, resources
from gantry.doors.neutron import resource as declared
from gantry.model import fields
from gantry.runtime import limits
from gantry.sim import cluster

REFUSED = "This server could not verify that you are authorized to access the document you requested."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("write", ("default", access.Role.ADMIN)), ("read", ("default", access.Role.READER)), ("", None),
        ("project=green", ("green", access.Role.MEMBER)), ("project=green,role=admin", ("green", access.Role.ADMIN)),
        ("write,project=green,role=reader", ("green", access.Role.READER)),
        ("role=member", ("default", access.Role.MEMBER)),
        ("role=nonsense,write", None), ("project=green,write", ("green", access.Role.MEMBER)),
    ],
)  # fmt: skip
def test_a_line_of_the_users_file_sets_project_and_role(options: str, expected: tuple[str, access.Role] | None) -> None:
    (user,) = users.parse(f"anna secret {options}").values()
    person = access.of_user(user)
    assert (person and (person.project, person.role)) == expected


def test_a_request_without_a_password_gets_the_answer_of_the_middleware(client: Talk) -> None:
    for headers in ({}, {"authorization": "Basic ***"}, {"authorization": "Bearer x"}, {"x-auth-token": "notused"}):
        answer = client.raw("GET", RANGES, headers=headers)
        content = answer.body
        assert isinstance(content, dict)
        assert (answer.status, content["code"], content["title"]) == (401, "401 Unauthorized", "Unauthorized")
        assert content["message"].startswith(REFUSED)
        assert "Basic" in answer.headers["WWW-Authenticate"]
    assert client.say("GET", NETWORKS, who="nobody").status == 401
    assert client.say("GET", NETWORKS, who="rapi").status == 200


def test_every_answer_has_a_request_id(client: Talk) -> None:
    ids = {client.raw("GET", path).headers["x-openstack-request-id"] for path in ("/", RANGES, "/nope")}
    assert len(ids) == 3
    assert all(each.startswith("req-") and len(each) == 40 for each in ids)


def _login(client: Talk, user: str = MEMBER, password: str = "secret", project: str = "") -> Answer:
    identity = {
        "methods": ["password"],
        "password": {"user": {"name": user, "password": password, "domain": {"id": "default"}}},
    }
    scope = {"scope": {"project": {"name": project, "domain": {"id": "default"}}}} if project else {}
    return client.raw(
        "POST",
        "/v3/auth/tokens",
        json.dumps({"auth": {"identity": identity, **scope}}).encode(),
        headers={"host": "h:1"},
    )


def test_a_token_is_issued_for_a_password_and_expires(client: Talk, lab: cluster.SimulatedCluster) -> None:
    answer = _login(client, project="green")
    token = answer.headers["X-Subject-Token"]
    content = answer.object("token")
    assert (answer.status, content["project"]) == (
        201,
        {"id": "green", "name": "green", "domain": {"id": "default", "name": "Default"}},
    )
    assert content["roles"] == [{"id": "member", "name": "member"}]
    catalog = content["catalog"]
    assert isinstance(catalog, list)
    assert {service["type"]: service["endpoints"][0]["url"] for service in catalog} == {
        "network": "https://h:1",
        "identity": "https://h:1/v3",
    }
    assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 200
    changed = base64.urlsafe_b64encode(base64.urlsafe_b64decode(token).replace(b"green", b"blue!")).decode()
    for other in (changed, token[:-4], "x", "", "ä"):
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": other}).status == 401
    lab.run(lab.master.clock.sleep(access.LIFETIME_SECONDS + 1))
    assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 401


NESTED = b"[" * 50_000 + b"]" * 50_000


@pytest.mark.parametrize("inside", [NESTED, b"1" * 4400, b'"\xff"', b'"\\ud800"'])
def test_a_body_that_cannot_be_read_is_refused_before_the_password(client: Talk, inside: bytes) -> None:
    answer = client.raw("POST", "/v3/auth/tokens", b'{"auth": {"identity": %s}}' % inside)
    assert answer.status == 400
    answer = client.raw("POST", "/v3/auth/tokens", inside)
    assert answer.status == 400
    assert "not a valid request for a token" in str(answer.body)


def test_a_token_is_for_the_own_project_or_an_administrators_choice(client: Talk) -> None:
    assert _login(client, project="blue").status == 401
    assert _login(client, password="wrong").status == 401
    assert _login(client, user="nobody").status == 401
    assert client.raw("POST", "/v3/auth/tokens", b"{}").status == 400
    token = _login(client, user=ADMIN, project="green").headers["X-Subject-Token"]
    network = client.raw(
        "POST",
        NETWORKS,
        b'{"network": {"name": "x"}}',
        headers={"x-auth-token": token, "content-type": "application/json"},
    ).object("network")
    assert (network["project_id"], "provider:network_type" in network) == ("green", True)
    client.clear()


AUTHENTICATION = "The request you have made requires authentication."
UNREADABLE = "The body is not a valid request for a token by password."


def _refusal(answer: Answer) -> tuple[object, object, object]:
    """Return status, title and message of a refusal in the form of Keystone, which has no other members."""
    content = answer.object("error")
    assert set(content) == {"code", "message", "title"}
    assert content["code"] == answer.status
    return answer.status, content["title"], content["message"]


@pytest.mark.parametrize(
    "login",
    [
        {"password": "wrong"}, {"user": "stranger"}, {"user": "nobody"}, {"project": "blue"}, {"project": "nosuch"},
        {"user": ADMIN, "password": "wrong"}, {"user": ADMIN, "project": "nosuch"},
    ],
    ids=str,
)  # fmt: skip
def test_a_login_is_refused_in_the_words_of_keystone(client: Talk, login: dict[str, str]) -> None:
    assert _refusal(_login(client, **login)) == (401, "Unauthorized", AUTHENTICATION)


def test_a_login_that_is_no_password_is_refused_as_keystone_does(client: Talk) -> None:
    def post(body: bytes) -> tuple[object, object, object]:
        return _refusal(client.raw("POST", "/v3/auth/tokens", body))

    for body in (b"", b"{}", b"[]", b"{", b'{"auth": {"identity": {"methods": ["password"]}}}'):
        assert post(body) == (400, "Bad Request", UNREADABLE)
    token = b'{"auth": {"identity": {"methods": ["token"], "token": {"id": "x"}}}}'
    assert post(token) == (401, "Unauthorized", "Attempted to authenticate with an unsupported method.")


def test_other_identity_calls_are_refused_in_the_form_of_keystone(client: Talk) -> None:
    for headers in ({}, {"x-auth-token": "notused"}, {"authorization": "Basic ***"}):
        answer = client.raw("GET", "/v3/projects", headers=headers)
        assert _refusal(answer) == (401, "Unauthorized", AUTHENTICATION)
        assert "Basic" in answer.headers["WWW-Authenticate"]
    assert client.longest_body("POST", "/v3/projects") is None
    assert _refusal(client.get("/v3/projects/nope")) == (404, "Not Found", "Could not find project: nope.")
    missing = (404, "Not Found", "The resource could not be found.")
    for method, path in (("GET", "/v3/users"), ("POST", "/v3/projects"), ("DELETE", "/v3/projects/green")):
        assert _refusal(client.say(method, path)) == missing


def test_a_token_ends_with_its_project(client: Talk, lab: cluster.SimulatedCluster) -> None:
    """No user of the file is in the project any more, so it does not exist, for administrators either."""
    token = _login(client, user=ADMIN, project="blue").headers["X-Subject-Token"]
    without = talk.USERS.replace("project=blue", "project=green")
    try:
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 200
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, without.encode()))
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 401
    finally:
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, talk.USERS.encode()))


def test_projects_are_those_of_the_users(client: Talk) -> None:
    assert [project["name"] for project in client.get("/v3/projects").all("projects")] == ["blue", "default", "green"]
    assert [project["id"] for project in client.get("/v3/projects?name=green").all("projects")] == ["green"]
    assert client.get("/v3/projects?name=nope").all("projects") == []
    assert client.get("/v3/projects/green").object("project")["name"] == "green"
    assert client.get("/v3/projects/nope").status == 404
    assert client.get("/v2.0/tenants/green").object("tenant")["id"] == "green"
    assert client.get("/v3/nope").status == 404
    assert client.raw("GET", "/v3/projects").status == 401


def test_each_project_is_enabled_and_in_the_only_domain(client: Talk) -> None:
    projects = client.get("/v3/projects").all("projects")
    projects.append(client.get("/v3/projects/green").object("project"))
    projects.append(client.get("/v2.0/tenants/green").object("tenant"))
    for project in projects:
        state = {name: project[name] for name in ("enabled", "is_domain", "domain_id", "parent_id")}
        assert state == {"enabled": True, "is_domain": False, "domain_id": "default", "parent_id": "default"}
    domain = client.get("/v3/domains/default").object("domain")
    assert domain == {"id": "default", "name": "Default", "enabled": True}


def test_other_users_than_administrators_see_only_their_project(client: Talk) -> None:
    assert [project["name"] for project in client.get("/v3/projects", who=MEMBER).all("projects")] == ["green"]
    assert client.get("/v3/projects?name=green", who=MEMBER).all("projects")[0]["id"] == "green"
    assert client.get("/v3/projects?name=blue", who=MEMBER).all("projects") == []
    for path in ("/v3/projects/blue", "/v2.0/tenants/blue"):
        assert client.get(path, who=MEMBER).status == 404
    assert client.get("/v2.0/tenants/green", who=MEMBER).status == 200


@pytest.mark.parametrize(
    ("user", "line"),
    [
        (MEMBER, "anna other project=green"), (MEMBER, "anna secret project=blue"), (MEMBER, "anna secret"),
        (MEMBER, "anna secret project=green,role=none"), (MEMBER, "anna secret project=green,role=reader"),
        (MEMBER, ""), (ADMIN, "admin secret role=member"), (ADMIN, "admin secret read"),
        (ADMIN, "admin secret project=green,role=admin"), (ADMIN, ""),
    ],
)  # fmt: skip
def test_a_token_ends_with_the_password_the_project_or_the_role_of_its_user(
    client: Talk, lab: cluster.SimulatedCluster, user: str, line: str
) -> None:
    """Whatever project the administrator has chosen: the line that gave the right to choose is another one."""
    token = _login(client, user=user, project="green").headers["X-Subject-Token"]
    changed = [line if each.startswith(f"{user} ") else each for each in talk.USERS.splitlines()]
    assert changed != talk.USERS.splitlines()
    try:
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 200
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, "\n".join(changed).encode()))
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 401
    finally:
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, talk.USERS.encode()))


@pytest.mark.parametrize("extra", ["!", " ", ".", "\\n", "*"])
def test_a_token_with_a_character_that_tokens_never_have_is_refused(client: Talk, extra: str) -> None:
    token = _login(client).headers["X-Subject-Token"]
    for changed, status in ((token, 200), (token[:8] + extra + token[8:], 401), (extra + token, 401)):
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": changed}).status == status


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(("path", "title"), [(NETWORKS, "Network"), (RANGES, "Network Segment Range")])
def test_a_change_names_one_object(client: Talk, method: str, path: str, title: str) -> None:
    name = title.replace(" ", "")
    assert client.refused(method, path, {}) == (404, f"{name}NotFound", f"{title} None could not be found.")


def test_a_job_of_a_request_says_who_made_it_by_which_request_and_when(
    client: Talk, lab: cluster.SimulatedCluster
) -> None:
    before = lab.master.clock.now()
    client.add(NETWORKS, {"name": "traced"})
    rows = msgspec.convert(lab.run(lab.luxi("QueryJobs", None, ["ops"])), list[tuple[list[dict[str, object]]]])
    (trail,) = (op["reason"] for (ops,) in rows for op in ops if "traced" in (op.get("network_name"), op.get("label")))
    first = msgspec.convert(trail, list[tuple[str, str, int]])[0]
    assert first[:2] == (f"gnt:neutron:{ADMIN}", f"POST {NETWORKS}")
    assert int(before * 1e9) <= first[2] <= int(lab.master.clock.now() * 1e9)
    client.clear()


def test_a_token_outlives_changes_of_other_lines(client: Talk, lab: cluster.SimulatedCluster) -> None:
    token = _login(client).headers["X-Subject-Token"]
    try:
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, f"{talk.USERS}\ncarl secret read\n".encode()))
        assert client.raw("GET", NETWORKS, headers={"x-auth-token": token}).status == 200
    finally:
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, talk.USERS.encode()))


def test_versions_and_collections_are_listed(client: Talk) -> None:
    (version,) = client.raw("GET", "/", headers={"host": "h:1"}).all("versions")
    links = [{"rel": "self", "href": "https://h:1/v2.0/"}]
    assert version == {"id": "v2.0", "status": "CURRENT", "links": links}
    assert client.raw("GET", "/v3", headers={"host": "h:1"}).object("version")["id"] == "v3.14"
    names = [each["collection"] for each in client.get("/v2.0/").all("resources")]
    assert names == ["networks", "subnets", "subnetpools", "ports"]
    assert client.get("/v2.0").status == 404
    assert client.refused("GET", "/v2.0/nopes") == (404, "HTTPNotFound", "The resource could not be found.")
    assert client.refused("POST", "/v2.0/")[0] == 405


@pytest.mark.promise("segments-86", "segments-88")
def test_extensions_are_returned_alone_and_as_a_list(client: Talk) -> None:
    extension = client.get("/v2.0/extensions/network-segment-range").object("extension")
    assert (extension["name"], extension["updated"]) == ("Neutron Network Segment Range", "2018-11-29T00:00:00-00:00")
    assert extension in client.get("/v2.0/extensions").all("extensions")
    answer = client.get("/v2.0/extensions/nope").body
    assert answer == {
        "message": "The resource could not be found.<br /><br />\nExtension with alias nope does not exist\n\n",
        "code": "404 Not Found", "title": "Not Found",
    }  # fmt: skip


def test_only_users_may_send_a_long_body(client: Talk) -> None:
    login = {"authorization": f"Basic {base64.b64encode(b'anna:secret').decode()}"}
    assert client.longest_body("POST", "/v3/auth/tokens") == limits.STRANGER_BODY_BYTES
    assert client.longest_body("POST", "/", login) == limits.STRANGER_BODY_BYTES
    assert client.longest_body("POST", NETWORKS, login) == http.BODY_LIMIT
    assert client.longest_body("POST", NETWORKS) is None


def test_without_authentication_all_users_are_administrators(lab: cluster.SimulatedCluster) -> None:
    client = Talk(lab, remote.neutron_server(lab.master, cluster.FOLDERS, everybody=True, scheme="http"))
    assert client.raw("GET", RANGES, headers={"x-auth-token": "notused"}).status == 200
    assert client.raw("GET", "/v3/projects/anything").status == 200
    assert client.raw("GET", "/v3/projects?name=any").all("projects")[0]["id"] == "any"
    assert client.raw("POST", "/v3/auth/tokens", b"{}").status == 400


@pytest.mark.parametrize(
    ("scheme", "forwarded", "expected"),
    [
        ("http", {}, "http://h:1"), ("http", {"x-forwarded-proto": "https"}, "https://h:1"),
        ("http", {"x-forwarded-proto": "https", "x-forwarded-host": "api.example"}, "https://api.example"),
        ("http", {"x-forwarded-proto": "ftp", "x-forwarded-host": "api.example"}, "http://h:1"),
        ("https", {"x-forwarded-proto": "https", "x-forwarded-host": "api.example"}, "https://h:1"),
    ],
)  # fmt: skip
def test_links_lead_through_the_proxy_in_front_of_a_server_without_tls(
    lab: cluster.SimulatedCluster, scheme: str, forwarded: dict[str, str], expected: str
) -> None:
    client = Talk(lab, remote.neutron_server(lab.master, cluster.FOLDERS, scheme=scheme))
    (version,) = client.raw("GET", "/", headers={"host": "h:1", **forwarded}).all("versions")
    assert version["links"] == [{"rel": "self", "href": f"{expected}/v2.0/"}]


def test_no_authentication_requires_the_loopback(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    arguments = ["--bind", "0.0.0.0", "--neutron-port", "1", "--neutron-auth", "none", "--root", str(tmp_path)]
    assert remote.main(arguments) == 1
    assert "without authentication" in capsys.readouterr().err


@pytest.mark.parametrize("resource", resources.ALL, ids=lambda each: each.collection)
def test_a_table_uses_only_fields_that_the_master_has(resource: declared.Resource) -> None:
    known = fields.REGISTRY[resource.kind]
    for name, attribute in resource.table.items():
        assert name == attribute.name
        assert attribute.text
        assert set(attribute.fields) <= known.keys(), name
        assert not attribute.field or attribute.field in attribute.fields, name
    assert {*resource.needs, *resource.computed} <= known.keys()
