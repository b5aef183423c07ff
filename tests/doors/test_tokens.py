"""API tokens at the remote API of a simulated master: what each allows, and everything that a token is refused for."""

import asyncio
import base64
import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import test_access

from gantry import errors
from gantry.daemons import remote
from gantry.doors import luxi
from gantry.doors.http import attempts, tokens, users
from gantry.doors.rapi import event_stream
from gantry.model import access, token_text
from gantry.rpc import luxi as luxi_client
from gantry.runtime import http_interface
from gantry.sim import cluster
from gantry.state.store import audit

DAY = 86_400.0
OPERATOR = [{"role": "operator", "on": "instance:vm1"}]
SHUTDOWN = "/2/instances/vm1/shutdown"


class Lab(test_access.Lab):
    """A simulated cluster and its remote API, which tests ask with tokens."""

    def bearer(
        self, text: str, method: str, path: str, body: object = None, *, peer: str = "198.51.100.9"
    ) -> http_interface.Response:
        return self.sent(f"Bearer {text}", method, path, body, peer=peer)

    def sent(
        self, authorization: str, method: str, path: str, body: object = None, *, peer: str = "198.51.100.9"
    ) -> http_interface.Response:
        headers = {"content-type": "application/json", "authorization": authorization}
        content = b"" if body is None else msgspec.json.encode(body)
        request = http_interface.Request(method, path, content, headers, peer=peer)
        return self.simulated.run(self.server.answer(request))

    def token(self, user: str, name: str = "ci", **fields: object) -> str:
        """Create a token by the remote API, as its user; return its text."""
        answer = self.http(user, "POST", "/2/tokens", {"name": name, **fields})
        assert answer.status == 200, answer.body
        return str(json.loads(answer.body)["token"])

    @property
    def tokens(self) -> dict[str, access.Token]:
        tokens = self.simulated.daemons[self.simulated.leader].store.snapshot.apitokens.values()
        return {token.name: token for token in tokens}

    def write_users(self, content: bytes) -> None:
        self.simulated.run(self.simulated.master.disk.write(test_access.USERS, content))

    def sleep(self, seconds: float) -> None:
        self.simulated.run(self.simulated.master.clock.sleep(seconds))


@pytest.fixture
def lab(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    here = Lab(lab, monkeypatch)
    yield here
    here.become("root")
    for who in {rule[0] for rule in here.rules}:
        here.done({"OP_ID": "OP_ACCESS_REMOVE", "who": who})
    for user in {token.user for token in here.tokens.values()}:
        here.done({"OP_ID": "OP_TOKEN_REVOKE", "user": user})
    lab.run(lab.master.disk.remove(test_access.USERS))


def explained(answer: http_interface.Response) -> str:
    return str(json.loads(answer.body)["explain"])


def test_a_token_is_its_user_wherever_a_password_would_be(lab: Lab) -> None:
    text = lab.token("alice")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    done = lab.bearer(text, "PUT", "/2/instances/vm1/tags?tag=own")
    assert done.status == 200, done.body
    job = lab.job(json.loads(done.body))
    assert job["status"] == "success"
    use = {"uuid": lab.tokens["alice:ci"].uuid, "name": "ci", "is_admin": True}
    assert msgspec.to_builtins(job["submitter"]) == {
        "user": "alice", "door": "rapi", "peer": "198.51.100.9", "token": use,
    }  # fmt: skip
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["own"]})


def test_clients_that_know_only_passwords_send_the_token_as_the_password(lab: Lab) -> None:
    text = lab.token("bob", extent="read")

    def status(user: str) -> int:
        login = base64.b64encode(f"{user}:{text}".encode()).decode()
        return lab.sent(f"Basic {login}", "GET", "/2/instances/vm1").status

    # The name has to be right before the token is known to be right, and afterwards.
    assert status("alice") == 401
    assert status("bob") == 200
    assert status("alice") == 401
    assert status("nobody") == 401


def test_the_secret_is_shown_once_and_stored_nowhere(lab: Lab) -> None:
    text = lab.token("bob", until="never")
    secret = text.split("_")[2]
    token = lab.tokens["bob:ci"]
    assert token.id == token_text.identifier(text)
    assert token.secret_hash == token_text.secret_hash(text)
    lab.become("root")
    disk = lab.simulated.master.disk
    lib = cluster.FOLDERS.lib
    for path in (f"{lib}/config.data", *(f"{lib}/journal/{name}" for name in disk.names(f"{lib}/journal"))):
        assert secret.encode() not in disk.read(path)
    for method, arguments in (("ExportConfig", ()), ("QueryJobs", (None, ["ops", "opresult", "oplog"]))):
        displayed = json.dumps(lab.luxi(method, *arguments)[1])
        assert secret not in displayed
        assert token.secret_hash not in displayed
    assert secret.encode() not in lab.http("bob", "GET", "/2/tokens").body


@pytest.mark.parametrize(
    ("user", "refusal"),
    [
        ("alice", "API token ci of user alice does not allow this request"),
        ("bob", "user bob does not have the option write, which this request requires"),
    ],
)
def test_a_token_that_reads_changes_nothing_whatever_its_user_may(lab: Lab, user: str, refusal: str) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    text = lab.token(user, extent="read")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    assert lab.bearer(text, "GET", "/2/query/instance?fields=name").status == 200
    before = lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job
    for method, path in (("PUT", SHUTDOWN), ("DELETE", "/2/instances/vm1"), ("DELETE", f"/2/jobs/{before}")):
        refused = lab.bearer(text, method, path)
        assert (refused.status, explained(refused).partition(";")[0]) == (403, refusal), "by the front end"
    storage = "/2/nodes/node1/storage?storage_type=lvm-pv&output_fields=name"
    assert lab.bearer(text, "GET", storage).status == 403
    assert lab.bearer(text, "PUT", "/2/modify", {"max_running_jobs": 7}).status == 403
    assert lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job == before
    assert lab.http(user, "PUT", SHUTDOWN).status == 200


def test_a_token_with_roles_allows_an_administrator_no_more_than_these(lab: Lab) -> None:
    text = lab.token("alice", extent="roles", roles=OPERATOR)
    done = lab.bearer(text, "PUT", SHUTDOWN)
    assert lab.job(json.loads(done.body))["status"] == "success"
    refused = lab.bearer(text, "DELETE", "/2/instances/vm1")
    assert refused.status == 403
    assert "API token ci of user alice does not allow to manage instance vm1" in explained(refused)
    assert lab.bearer(text, "PUT", "/2/modify", {"max_running_jobs": 7}).status == 403
    assert lab.bearer(text, "PUT", "/2/networks/net1/rename", {"new_name": "x"}).status == 403


def test_a_token_with_roles_gives_its_user_nothing(lab: Lab) -> None:
    text = lab.token("bob", extent="roles", roles=[{"role": "admin", "on": "cluster"}])
    assert lab.bearer(text, "PUT", SHUTDOWN).status == 403
    lab.grant("user:bob", "operator", "instance:vm1")
    assert lab.bearer(text, "PUT", SHUTDOWN).status == 200
    refused = lab.bearer(text, "DELETE", "/2/instances/vm1")
    assert "user bob may not manage instance vm1: no access rule" in explained(refused)


def test_the_rights_are_those_that_the_user_has_at_that_moment(lab: Lab) -> None:
    text = lab.token("alice")
    lab.write_users(test_access.TEXT.replace(b"alice one write", b"alice other read"))
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    assert lab.bearer(text, "PUT", SHUTDOWN).status == 403


def test_a_token_of_a_user_who_was_removed_is_refused_at_once(lab: Lab) -> None:
    text = lab.token("bob")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    lab.write_users(test_access.TEXT.replace(b"bob two read\n", b""))
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401
    lab.write_users(b"")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401


def test_a_token_that_was_revoked_is_refused_from_the_next_request_on(lab: Lab) -> None:
    text = lab.token("bob")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    assert json.loads(lab.http("bob", "DELETE", "/2/tokens/bob/ci").body) is None
    refused = lab.bearer(text, "GET", "/2/instances/vm1")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")


def test_a_token_that_has_ended_is_refused_and_its_name_is_free_again(lab: Lab) -> None:
    text = lab.token("bob", until=lab.simulated.master.clock.now() + 1000)
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 200
    assert "has an API token ci already" in explained(lab.http("bob", "POST", "/2/tokens", {"name": "ci"}))
    lab.sleep(1000.0)
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401
    newer = lab.token("bob")
    assert lab.bearer(newer, "GET", "/2/instances/vm1").status == 200
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401


def test_a_wrong_secret_is_refused_after_the_delay_of_a_wrong_password(lab: Lab) -> None:
    right = lab.token("bob")
    clock = lab.simulated.master.clock
    number = token_text.identifier(right)
    assert number is not None
    wrong = token_text.make("bob", number=b"\1" * 8, secret=b"\2" * 32)
    with_its_id = f"gantry_{number}_{'A' * 43}"
    with_its_id += token_text._check(with_its_id)
    for text in (wrong, with_its_id, token_text.make("nobody", number=b"\1" * 8, secret=b"\2" * 32)):
        start = clock.monotonic()
        assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401
        assert clock.monotonic() - start >= 1.0


@pytest.mark.parametrize("text", ["", "x", "gantry_", "gantry_0000000000_" + "0" * 49, "Ω" * 9, "a" * 5000])
def test_a_text_that_cannot_be_a_token_never_reaches_the_master(
    lab: Lab, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(luxi.METHODS, "ProveToken")
    assert lab.bearer(text, "GET", "/2/instances/vm1").status == 401


def test_wrong_tokens_of_one_address_lock_out_no_token_that_is_right(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BURST", 2)
    monkeypatch.setattr(attempts, "WAITING", 1)
    lab.server = remote.server(lab.simulated.master, cluster.FOLDERS)
    of_bob, of_carol = lab.token("bob"), lab.token("carol")
    assert lab.bearer(of_bob, "GET", "/2/instances/vm1").status == 200

    async def flood() -> list[int]:
        wrong = [token_text.make("bob", number=bytes([n] * 8), secret=bytes([n] * 32)) for n in range(40)]
        requests = [
            http_interface.Request("GET", "/2/info", b"", {"authorization": f"Bearer {text}"}, peer="198.51.100.9")
            for text in (*wrong[:20], of_bob, *wrong[20:], of_carol)
        ]
        return [answer.status for answer in await asyncio.gather(*map(lab.server.answer, requests))]

    statuses = lab.simulated.run(flood())
    carol, bob = statuses.pop(), statuses.pop(20)
    assert {*statuses} == {401, 429}
    assert (bob, carol) == (200, 200)


def test_a_token_creates_and_revokes_no_tokens(lab: Lab) -> None:
    lab.grant("user:bob", "admin", "cluster")
    texts = [
        lab.token("alice", "all"),
        lab.token("alice", "admin", extent="roles", roles=[{"role": "admin", "on": "cluster"}]),
        lab.token("bob", "all"),
    ]
    before = {*lab.tokens}
    for text in texts:
        for refused in (
            lab.bearer(text, "POST", "/2/tokens", {"name": "more"}),
            lab.bearer(text, "DELETE", "/2/tokens/alice/all"),
            lab.bearer(text, "DELETE", "/2/tokens/bob/all"),
        ):
            assert refused.status == 403
            assert "does not allow to" in explained(refused)
    assert {*lab.tokens} == before


def test_users_see_and_revoke_their_own_tokens_and_administrators_all(lab: Lab) -> None:
    lab.token("alice")
    text = lab.token("bob")
    lab.token("carol", extent="roles", roles=OPERATOR)

    def names(body: bytes) -> list[str]:
        return sorted(f"{row['user']}:{row['name']}" for row in json.loads(body))

    assert names(lab.http("bob", "GET", "/2/tokens").body) == ["bob:ci"]
    assert names(lab.bearer(text, "GET", "/2/tokens").body) == ["bob:ci"]
    assert names(lab.http("alice", "GET", "/2/tokens").body) == ["alice:ci", "bob:ci", "carol:ci"]
    rows = json.loads(lab.http("bob", "GET", "/2/query/token?fields=name").body)["data"]
    assert rows == [[[0, "bob:ci"]]]
    (described,) = json.loads(lab.http("carol", "GET", "/2/tokens").body)
    assert described["allows"] == "operator on instance:vm1"
    assert described["end"] == pytest.approx(described["ctime"] + 90 * DAY)
    refused = lab.http("bob", "DELETE", "/2/tokens/carol/ci")
    assert (refused.status, "carol:ci" in lab.tokens) == (403, True)
    assert lab.http("alice", "DELETE", "/2/tokens/carol/ci").status == 200
    again = lab.http("carol", "DELETE", "/2/tokens/carol/ci")
    assert (again.status, "user carol has no API token ci" in explained(again)) == (404, True)
    assert lab.http("dora", "POST", "/2/tokens", {"name": "x"}).status == 403


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "name"),
        ({"name": "a b"}, "the name of a token"),
        ({"name": "a", "user": "alice"}, "user"),
        ({"name": "a", "secret_hash": "0" * 64}, "secret_hash"),
        ({"name": "a", "extent": "all"}, "extent"),
        ({"name": "a", "extent": "roles"}, "has 0 roles"),
        ({"name": "a", "roles": OPERATOR}, "has 1 roles"),
        ({"name": "a", "extent": "roles", "roles": [{"role": "admin", "on": "network:net1"}]}, "has no meaning"),
        ({"name": "a", "extent": "roles", "roles": [{"role": "operator", "on": "instance:vm9"}]}, "no such instance"),
        ({"name": "a", "until": 5}, "would end before it begins"),
        ({"name": "a", "until": 1e12}, "more than 366 days"),
        ({"name": "a", "until": "tomorrow"}, "until"),
    ],
)
def test_an_invalid_token_is_refused_and_nothing_is_created(lab: Lab, body: dict[str, object], text: str) -> None:
    answer = lab.http("bob", "POST", "/2/tokens", body)
    assert answer.status in (400, 404)
    assert text in explained(answer)
    assert not lab.tokens


def test_a_job_that_waits_has_the_limits_of_its_token_when_it_begins(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    text = lab.token("bob")
    lab.become("root")
    _, blocker = lab.luxi("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 2000}])
    op = {**test_access.STOP, "depends": [[blocker, ["success"]]]}
    named = {"name": "bob", "write": False, "token": lab.tokens["bob:ci"].uuid}
    is_done, number = lab.luxi("SubmitJob", [op], user=named)
    assert is_done
    lab.done({"OP_ID": "OP_TOKEN_REVOKE", "user": "bob"})
    job = lab.job(number)
    assert job["status"] == "error"
    assert "API token ci was revoked" in str(job["result"])
    assert lab.bearer(text, "GET", "/2/info").status == 401


def test_the_roles_of_a_token_end_with_their_object(lab: Lab) -> None:
    lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "gone"})
    lab.token("alice", extent="roles", roles=[{"role": "operator", "on": "network:gone"}, *OPERATOR])
    lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "gone"})
    assert [each.scope for each in lab.tokens["alice:ci"].roles] == [access.Scope.INSTANCE]


def test_a_job_of_a_token_belongs_to_the_token_and_its_user(lab: Lab) -> None:
    lab.grant("user:bob", "operator", "instance:vm1")
    first, second = lab.token("bob", "first"), lab.token("bob", "second")
    number = json.loads(lab.bearer(first, "PUT", SHUTDOWN).body)
    own = json.loads(lab.http("bob", "PUT", SHUTDOWN).body)
    for each in (number, own):
        lab.job(each)
    assert lab.bearer(second, "DELETE", f"/2/jobs/{number}").status == 403
    assert lab.bearer(first, "DELETE", f"/2/jobs/{own}").status == 403
    assert lab.bearer(first, "DELETE", f"/2/jobs/{number}").status == 200
    assert lab.http("bob", "DELETE", f"/2/jobs/{number}").status == 200
    lab.become("root")
    assert lab.luxi("QueryJobs", [number], ["user"])[1] == [["bob with token first"]]


def test_history_has_tokens_and_who_used_them(lab: Lab) -> None:
    text = lab.token("alice", "deploy")
    lab.job(json.loads(lab.bearer(text, "PUT", "/2/instances/vm1/tags?tag=own&reason=x").body))
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "vm1", "tags": ["own"]})
    _, answer = lab.luxi("QueryHistory", "token", "alice:deploy", None, None, 10)
    assert isinstance(answer, dict)
    assert [change["what"] for event in answer["events"] for change in event["changes"]] == ["added", "success"]
    _, answer = lab.luxi("QueryHistory", "instance", "vm1", None, None, 2)
    assert isinstance(answer, dict)
    assert answer["events"][0]["cause"]["user"] == "gnt:rapi:alice with token deploy"


def test_the_audit_has_tokens_and_no_hash_of_their_secrets(lab: Lab) -> None:
    text = lab.token("alice", "deploy", extent="roles", roles=OPERATOR)
    lab.job(json.loads(lab.bearer(text, "PUT", SHUTDOWN).body))
    lab.become("root")
    is_done, answer = lab.luxi("QueryAudit", {"user": "alice"})
    assert is_done
    created, used = msgspec.convert(answer, audit.Answer).entries[-2:]
    assert (created.what, created.token, created.changes[0].what) == ("TOKEN_ADD(deploy)", "", "added")
    assert (used.what, used.token, used.peer) == ("INSTANCE_SHUTDOWN(vm1)", "deploy", "198.51.100.9")
    assert token_text.secret_hash(text) not in json.dumps(answer)


def stream(lab: Lab, text: str, end: str) -> list[bytes]:
    """Return what a stream of events with a token says until it ends, where ``end`` is what ends the token."""

    async def scenario() -> list[bytes]:
        request = http_interface.Request(
            "GET", "/2/events", b"", {"authorization": f"Bearer {text}", "accept": "text/event-stream"}
        )
        answer = await lab.server.answer(request)
        assert answer.pieces
        pieces = [await anext(answer.pieces)]
        if end == "revoked":
            await lab.simulated.done({"OP_ID": "OP_TOKEN_REVOKE", "user": "bob"})
        elif end == "removed":
            await lab.simulated.master.disk.write(test_access.USERS, b"alice one write\n")
        elif end == "unproven":
            # A master that does not say whether the token is valid.
            patch.delitem(luxi.METHODS, "ProveToken")
        else:
            await lab.simulated.master.clock.sleep(1000.0)
        async with asyncio.timeout(event_stream.PING_SECONDS * 100):
            pieces += [piece async for piece in answer.pieces]
        return pieces

    lab.become("root")
    with pytest.MonkeyPatch.context() as patch:
        return lab.simulated.run(scenario())


@pytest.mark.parametrize("end", ["revoked", "removed", "over", "unproven"])
def test_an_open_stream_ends_with_its_token(lab: Lab, end: str) -> None:
    text = lab.token("bob", until=lab.simulated.master.clock.now() + 1000)
    begin, *more = stream(lab, text, end)
    assert begin.startswith(b"event: begin")
    # Nothing of what happened afterwards is in the stream, not even the end of the token itself.
    assert not any(b"OP_TOKEN_REVOKE" in piece for piece in more)


def test_the_end_of_the_first_follower_s_token_ends_no_other_stream(lab: Lab) -> None:
    text = lab.token("bob")

    async def scenario() -> bytes:
        headers = {"authorization": f"Bearer {text}", "accept": "text/event-stream"}
        first = await lab.server.answer(http_interface.Request("GET", "/2/events", b"", headers))
        assert first.pieces
        await anext(first.pieces)
        login = base64.b64encode(b"carol:three").decode()
        headers = {"authorization": f"Basic {login}", "accept": "text/event-stream"}
        second = await lab.server.answer(http_interface.Request("GET", "/2/events", b"", headers))
        assert second.pieces
        await anext(second.pieces)
        await lab.simulated.done({"OP_ID": "OP_TOKEN_REVOKE", "user": "bob"})
        await lab.simulated.done({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": ["after"]})
        seen = b""
        async with asyncio.timeout(1000.0):
            while b"OP_TAGS_SET" not in seen:
                seen += await anext(second.pieces)
        await second.pieces.aclose()
        await first.pieces.aclose()
        return seen

    lab.become("root")
    assert b"OP_TAGS_SET" in lab.simulated.run(scenario())
    lab.done({"OP_ID": "OP_TAGS_DEL", "kind": "cluster", "name": "", "tags": ["after"]})


def test_a_master_that_knows_no_tokens_lets_no_request_with_one_through(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lab.token("alice")
    before = lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job

    class OlderUser(msgspec.Struct, forbid_unknown_fields=True):
        name: str
        write: bool = False

    class OlderRequest(msgspec.Struct):
        method: str
        args: msgspec.Raw
        remote: bool = False
        user: OlderUser | None = None

    with monkeypatch.context() as patch:
        patch.delitem(luxi.METHODS, "ProveToken")
        for path in ("/2/instances/vm1", "/2/info"):
            assert lab.bearer(text, "GET", path).status >= 400
        assert lab.bearer(text, "PUT", SHUTDOWN).status >= 400
    # The master becomes an older one between the proof and the request.
    with monkeypatch.context() as patch:
        patch.setattr(luxi, "_Request", OlderRequest)
        named = luxi_client.NamedUser("alice", write=True, token=lab.tokens["alice:ci"].uuid)
        client = luxi_client.Pool(lab.simulated.master.network, cluster.FOLDERS.luxi_socket, remote=True, naming=True)

        async def call() -> object:
            luxi_client.USER.set(named)
            return await client.call(object, "SubmitJob", [test_access.STOP])

        with pytest.raises(errors.GantryError, match="cannot be decoded"):
            lab.simulated.run(call())
        assert msgspec.json.decode(msgspec.json.encode(luxi_client.NamedUser("bob")), type=OlderUser).name == "bob"
    assert lab.simulated.daemons[lab.simulated.leader].store.snapshot.last_job == before


def test_tokens_are_listed_for_who_has_a_name(lab: Lab) -> None:
    lab.token("bob")
    lab.become("root")
    for user, names in (("bob", [[[0, "bob:ci"]]]), ("carol", [])):
        is_done, answer = lab.luxi("Query", "token", ["name"], None, user={"name": user})
        assert is_done
        assert isinstance(answer, dict)
        assert answer["data"] == names
    nameless = lab.refusal("Query", "token", ["name"], None, user={"name": ""})
    assert nameless == "somebody without a name has no API tokens; log in"


def test_of_proven_tokens_a_bounded_number_is_remembered(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PROVEN", 2)
    texts = [lab.token("bob", f"ci{number}") for number in range(5)]
    known = tokens.Tokens(lab.simulated.master, users.Users(lab.simulated.master, test_access.USERS), _prove_all)

    async def scenario() -> list[int]:
        sizes = []
        for text in (*texts, *texts):
            user = await known.check(text, peer="198.51.100.9", name="bob")
            assert user
            sizes.append(len(known._proven))
        return sizes

    assert lab.simulated.run(scenario()) == [1, 2] * 5


async def _prove_all(identifier: str, secret_hash: str) -> tokens.Proof:
    return tokens.Proof("uuid", "bob", "ci", "everything")


def test_luxi_knows_a_token_by_its_user_alone(lab: Lab) -> None:
    lab.token("bob")
    uuid = lab.tokens["bob:ci"].uuid
    lab.become("root")
    for user in ({"name": "alice", "write": True, "token": uuid}, {"name": "bob", "token": "0" * 36}):
        assert "was revoked, or has ended" in lab.refusal("QueryClusterInfo", user=user)
    assert lab.luxi("QueryClusterInfo", user={"name": "bob", "token": uuid})[0]


def test_a_system_user_with_the_name_of_a_user_creates_no_tokens_of_that_user(lab: Lab) -> None:
    add = {"OP_ID": "OP_TOKEN_ADD", "user": "bob", "name": "x", "secret_hash": "0" * 64}
    add["id"] = token_text.of_user("bob") + "000000"
    lab.grant("user:bob", "operator", "instance:vm1")
    lab.become("bob", "gantry")
    assert "may not create tokens of bob" in lab.refusal("SubmitJob", [add])
    lab.become("gantry-rapi", "gantry-admin")
    assert "may not create tokens of bob" in lab.refusal("SubmitJob", [add], user={"name": "carol"})
    assert "may not create tokens of bob" in lab.refusal("SubmitJob", [add], user={"name": ""})
    assert not lab.tokens
