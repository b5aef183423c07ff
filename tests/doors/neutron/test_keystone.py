"""The answers of the Neutron API while Keystone works and fails in all ways; in virtual time."""

import asyncio
import dataclasses
import datetime
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.doors.neutron.talk import NETWORKS, Talk

from gantry import errors
from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.neutron import access, keystone, tokens
from gantry.runtime import http_interface
from gantry.runtime.simulated import SimulatedRuntime, World, network
from gantry.sim import cluster

ADDRESS = "http://localhost:5000"
FILE = "/password"
PASSWORD = "sesame-open"
HOUR = 3600.0
LOGIN, LOOKUP = "POST /v3/auth/tokens", "GET /v3/auth/tokens?nocatalog"

Fault = Callable[[], http_interface.Response]


def format_time(seconds: float) -> str:
    """Return a time as Keystone writes it."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def token_of(expires: float, *, roles: Sequence[str] = ("member", "reader"), project: str = "p1") -> dict[str, object]:
    domain = {"id": "default", "name": "Default"}
    token: dict[str, object] = {
        "methods": ["password"], "expires_at": format_time(expires),
        "roles": [{"id": "0", "name": name} for name in roles],
        "user": {"id": "u1", "name": "anna", "domain": domain},
    }  # fmt: skip
    return token | ({"project": {"id": project, "name": "web", "domain": domain}} if project else {})


@dataclass
class Keystone:
    """A fake Keystone on the same node: the tokens that it knows, the requests that it got, and its next faults."""

    machine: SimulatedRuntime
    known: dict[str, dict[str, object]] = field(default_factory=dict)
    own: str = ""
    password: str = PASSWORD
    lifetime: float = HOUR
    requests: list[str] = field(default_factory=list)
    fault: Fault | None = None
    faulty: str = ""
    """The kind of request that ``fault`` applies to; all if it is empty."""
    slow: float = 0.0
    logins: int = 0

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        call = f"{request.method} {request.path}"
        self.requests.append(call)
        await self.machine.clock.sleep(self.slow)
        if self.fault and self.faulty in call:
            return self.fault()
        if call == LOGIN:
            return self._login(msgspec.json.decode(request.body))
        if request.headers["x-auth-token"] != self.own:
            return http_interface.Response(401, b"{}")
        token = self.known.get(request.headers["x-subject-token"])
        return http_interface.Response(200 if token else 404, msgspec.json.encode({"token": token}))

    def _login(self, body: object) -> http_interface.Response:
        domain = {"id": "default"}
        user = {"name": "gantry", "domain": domain, "password": self.password}
        identity = {"methods": ["password"], "password": {"user": user}}
        if body != {"auth": {"identity": identity, "scope": {"project": {"name": "service", "domain": domain}}}}:
            return http_interface.Response(401, b"{}")
        self.logins += 1
        self.own = f"own-{self.logins}"
        content = {"token": token_of(self.machine.clock.now() + self.lifetime)}
        return http_interface.Response(201, msgspec.json.encode(content), headers={"X-Subject-Token": self.own})


@dataclass
class Lab:
    """The authenticator of the Neutron API, and its Keystone."""

    world: World
    machine: SimulatedRuntime
    keystone: Keystone
    tokens: tokens.Tokens

    def ask(self, token: str) -> access.Person | int:
        """Return the user of a token, or the status with which the token is refused."""
        return self.world.run(self.asking(token))

    async def asking(self, token: str) -> access.Person | int:
        try:
            return await self.tokens.person({"x-auth-token": token}, "192.0.2.1")
        except http.RefusedError as error:
            return error.status

    def wait(self, seconds: float) -> None:
        self.world.run(self.machine.clock.sleep(seconds))


@pytest.fixture
def lab() -> Iterator[Lab]:
    with World(seed=3) as world:
        machine = world.machine("door")
        stub = Keystone(machine)
        stub.known["good"] = token_of(machine.clock.now() + HOUR)
        world.run(machine.network.serve_http("localhost", 5000, stub.answer, tls=None, body_limit=10_000))
        world.run(machine.disk.write(FILE, f"{PASSWORD}\n".encode(), mode=0o600))
        account = keystone.Account("gantry", "service", "default", FILE)
        service = keystone.Service(machine, keystone.Address.parse(ADDRESS), account, tls=None)
        yield Lab(world, machine, stub, tokens.Tokens(machine, service, address=ADDRESS))


ANNA = access.Person("anna@Default", "p1", access.Role.MEMBER)


def test_a_token_has_user_and_project(lab: Lab) -> None:
    assert lab.ask("good") == ANNA
    assert lab.keystone.requests == [LOGIN, LOOKUP]


@pytest.mark.parametrize(
    ("roles", "role"),
    [
        (["reader"], access.Role.READER), (["admin", "manager", "member", "reader"], access.Role.ADMIN),
        (["Member"], access.Role.MEMBER), (["service"], None), ([], None),
    ],
)  # fmt: skip
def test_the_highest_role_counts_and_a_token_without_a_role_is_refused(
    lab: Lab, roles: list[str], role: access.Role | None
) -> None:
    lab.keystone.known["other"] = token_of(lab.machine.clock.now() + HOUR, roles=roles)
    assert lab.ask("other") == (403 if role is None else dataclasses.replace(ANNA, role=role))


def test_a_token_without_a_project_is_refused(lab: Lab) -> None:
    lab.keystone.known["other"] = token_of(lab.machine.clock.now() + HOUR, roles=["admin"], project="")
    assert lab.ask("other") == 403


def test_an_answer_is_cached_for_its_time_and_a_revoked_token_refused_afterwards(lab: Lab) -> None:
    assert lab.ask("good") == ANNA
    del lab.keystone.known["good"]
    lab.wait(tokens.CACHE_SECONDS - 1)
    assert lab.ask("good") == ANNA
    assert lab.keystone.requests.count(LOOKUP) == 1
    lab.wait(2)
    assert [lab.ask("good"), lab.ask("good")] == [401, 401]
    assert lab.keystone.requests.count(LOOKUP) == 2


def test_an_unknown_token_is_looked_up_again_after_a_while(lab: Lab) -> None:
    assert [lab.ask("new"), lab.ask("new")] == [401, 401]
    assert lab.keystone.requests.count(LOOKUP) == 1
    lab.keystone.known["new"] = lab.keystone.known["good"]
    lab.wait(tokens.INVALID_CACHE_SECONDS + 1)
    assert lab.ask("new") == ANNA


def test_a_cached_token_is_refused_after_its_expiry(lab: Lab) -> None:
    lab.keystone.known["short"] = token_of(lab.machine.clock.now() + 5)
    assert lab.ask("short") == ANNA
    lab.wait(6)
    assert lab.ask("short") == 401


def test_the_cache_is_limited_and_guesses_do_not_evict_valid_tokens(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.ask("good") == ANNA
    for number in range(tokens.INVALID_LIMIT + 5):
        assert lab.ask(f"guess-{number}") == 401
    count = len(lab.keystone.requests)
    assert (lab.ask("good"), lab.ask(f"guess-{tokens.INVALID_LIMIT + 4}")) == (ANNA, 401)
    assert len(lab.keystone.requests) == count
    assert lab.ask("guess-0") == 401
    assert len(lab.keystone.requests) == count + 1


def test_concurrent_requests_share_one_lookup_even_if_the_first_is_canceled(lab: Lab) -> None:
    async def check() -> list[access.Person | int]:
        lab.keystone.slow = 1.0
        asking = [asyncio.ensure_future(lab.asking("good")) for _ in range(10)]
        await lab.machine.clock.sleep(0.5)
        asking[0].cancel()
        return await asyncio.gather(*asking[1:])

    assert lab.world.run(check()) == [ANNA] * 9
    assert lab.keystone.requests == [LOGIN, LOOKUP]


@pytest.mark.parametrize("text", ["", "two words", "umlaut-\u00e4", "line\nend", "x" * (tokens.MAX_LENGTH + 1)])
def test_a_text_that_cannot_be_a_token_is_refused_without_a_request(lab: Lab, text: str) -> None:
    assert lab.ask(text) == 401
    assert lab.keystone.requests == []


def test_the_service_token_is_renewed_before_it_expires(lab: Lab) -> None:
    lab.keystone.lifetime = 2 * keystone.RENEWAL_SECONDS
    lab.ask("a")
    lab.wait(keystone.RENEWAL_SECONDS - 5)
    lab.ask("b")
    assert lab.keystone.logins == 1
    lab.wait(10)
    lab.ask("c")
    assert lab.keystone.logins == 2


def test_the_service_token_is_renewed_once_when_it_is_rejected(lab: Lab) -> None:
    lab.ask("a")
    lab.keystone.own = "forgotten"

    async def check() -> list[access.Person | int]:
        return await asyncio.gather(*(lab.asking(token) for token in ("b", "c", "good")))

    assert lab.world.run(check()) == [401, 401, ANNA]
    assert lab.keystone.logins == 2


def failing(status: int, body: bytes = b"") -> Fault:
    return lambda: http_interface.Response(status, body, headers={"X-Subject-Token": "t"})


@pytest.mark.parametrize("faulty", ["POST", "GET", ""])
@pytest.mark.parametrize(
    "fault",
    [
        failing(500), failing(503), failing(403), failing(302), failing(200, b"nonsense"), failing(201, b"\xff"),
        failing(200, b'{"token": {}}'), failing(201, b'{"token": {"expires_at": "tomorrow"}}'),
        failing(200, b"[" * 9000),
    ],
)  # fmt: skip
def test_a_failure_of_keystone_is_answered_503_and_not_cached(lab: Lab, fault: Fault, faulty: str) -> None:
    lab.keystone.fault, lab.keystone.faulty = fault, faulty
    assert lab.ask("good") == 503
    lab.keystone.fault = None
    lab.wait(keystone.BACK_OFF_SECONDS + 0.1)
    assert lab.ask("good") == ANNA


def test_a_login_whose_answer_has_no_token_is_a_failure_and_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    body = msgspec.json.encode({"token": token_of(lab.machine.clock.now() + HOUR)})
    lab.keystone.fault, lab.keystone.faulty = (lambda: http_interface.Response(201, body)), "POST"
    assert lab.ask("good") == 503
    assert lab.keystone.requests == [LOGIN]
    assert "Keystone cannot validate tokens: Keystone's answer to a login has no token" in caplog.messages


def test_a_service_token_that_is_rejected_twice_is_answered_503(lab: Lab) -> None:
    lab.keystone.fault, lab.keystone.faulty = failing(401), "GET"
    assert lab.ask("good") == 503
    assert lab.keystone.logins == 2


@pytest.mark.parametrize("lost", ["cut", "gone", "slow"])
def test_a_keystone_that_does_not_answer_is_503_for_all_at_the_same_time(lab: Lab, lost: str) -> None:
    lab.keystone.slow = 10 * HOUR if lost == "slow" else 0.0
    if lost == "cut":
        lab.world.network.partition("door", "door")
    if lost == "gone":
        lab.world.kill("door")

    async def check() -> list[access.Person | int]:
        return await asyncio.gather(*(lab.asking(f"t{number}") for number in range(5)))

    start = lab.machine.clock.monotonic()
    assert lab.world.run(check()) == [503] * 5
    assert lab.machine.clock.monotonic() - start < 2 * keystone.TIMEOUT_SECONDS


def test_a_keystone_that_stops_answering_after_the_login_is_503(lab: Lab) -> None:
    assert lab.ask("good") == ANNA
    lab.world.network.partition("door", "door")
    assert lab.ask("another") == 503


def test_a_login_that_is_refused_is_not_repeated_at_once_and_the_file_is_read_again(lab: Lab) -> None:
    lab.keystone.password = "another"
    assert [lab.ask("good"), lab.ask("good")] == [503, 503]
    assert lab.keystone.requests == [LOGIN]
    lab.world.run(lab.machine.disk.write(FILE, b"another", mode=0o600))
    lab.wait(keystone.REFUSED_BACK_OFF_SECONDS - 1)
    assert lab.ask("good") == 503
    lab.wait(2)
    assert lab.ask("good") == ANNA


def test_no_secret_is_logged_and_a_failure_once(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert lab.ask("good") == ANNA
    for fault in (failing(500, b"secret-body"), failing(200, b"secret-body")):
        lab.keystone.fault = fault
        assert [lab.ask("sesame-1"), lab.ask("sesame-2")] == [503, 503]
    lab.keystone.fault = None
    assert lab.ask("sesame-3") == 401
    messages = [record.getMessage() for record in caplog.records if record.name == tokens.__name__]
    assert messages == [
        "Keystone cannot validate tokens: Keystone answered with the unexpected status 500",
        "Keystone can validate tokens again",
    ]  # fmt: skip
    assert not re.search(r"sesame|secret|own-\d", caplog.text)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [(None, 0, "cannot be read"), (b"x", 0o640, "chmod 600"), (b"\n", 0o600, "is empty"), (b"\xff", 0o600, "read")],
)
def test_an_unusable_password_file_is_reported(lab: Lab, content: bytes | None, mode: int, message: str) -> None:
    account = keystone.Account("gantry", "service", "default", "/other")
    if content is not None:
        lab.world.run(lab.machine.disk.write("/other", content, mode=mode))
    with pytest.raises(errors.ConfigurationError, match=message):
        account.password(lab.machine.disk)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://k.example:5000", ("k.example", 5000, "/v3", True)),
        ("https://k.example/identity/v3/", ("k.example", 443, "/identity/v3", True)),
        ("http://127.0.0.1:5000/v3", ("127.0.0.1", 5000, "/v3", False)),
        ("http://[::1]/identity", ("::1", 80, "/identity/v3", False)),
    ],
)
def test_a_url_of_keystone_is_parsed(url: str, expected: tuple[str, int, str, bool]) -> None:
    assert dataclasses.astuple(keystone.Address.parse(url)) == expected


@pytest.mark.parametrize(
    "url",
    ["k.example:5000", "http://k.example:5000", "ftp://localhost", "https://", "https://a:b@k.example", "https://k:x",
     "https://k?x", "https://[", "", "http://192.0.2.1"],
)  # fmt: skip
def test_an_invalid_url_of_keystone_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidError):
        keystone.Address.parse(url)


def test_the_challenge_names_keystone_and_there_are_no_identity_calls(lab: Lab) -> None:
    with cluster.SimulatedCluster(seed=1, nodes=1) as simulated:
        simulated.run(simulated.build())
        source = Stub({"good": msgspec.convert(token_of(simulated.master.clock.now() + HOUR), keystone.Token)})
        known = tokens.Tokens(simulated.master, source, address=ADDRESS)
        client = Talk(simulated, remote.neutron_server(simulated.master, cluster.FOLDERS, tokens=known))
        answer = client.raw("GET", NETWORKS)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, f'Keystone uri="{ADDRESS}"')
        assert client.raw("POST", "/v3/auth/tokens", b"{}").status == 401
        headers = {"x-auth-token": "good", "content-type": "application/json"}
        assert client.raw("GET", "/v3/projects", headers=headers).status == 404
        network = client.raw("POST", NETWORKS, b'{"network": {"name": "n"}}', headers=headers).object("network")
        assert network["project_id"] == "p1"
        headers["x-auth-token"] = "broken"
        content = client.raw("GET", NETWORKS, headers=headers).body
        assert content == {
            "message": "The Keystone service is temporarily unavailable.", "code": "503 Service Unavailable",
            "title": "Service Unavailable",
        }  # fmt: skip


@dataclass
class SlowSource:
    """A source that does not answer, and whose requests take a while to end when they are canceled."""

    machine: SimulatedRuntime
    events: list[str] = field(default_factory=list)

    async def look_up(self, token: str) -> keystone.Token | None:
        self.events.append(f"asked for {token}")
        try:
            await self.machine.clock.sleep(HOUR)
        finally:
            await self.machine.clock.sleep(1.0)
            self.events.append(f"ended {token}")
        return None

    async def close(self) -> None:
        self.events.append("closed")


def test_a_door_that_closes_ends_its_requests_before_the_connections(lab: Lab) -> None:
    source = SlowSource(lab.machine)
    lab.tokens = tokens.Tokens(lab.machine, source, address=ADDRESS)

    async def check() -> list[access.Person | int | BaseException]:
        asking = [asyncio.ensure_future(lab.asking(token)) for token in ("a", "b")]
        await lab.machine.clock.sleep(5.0)
        await lab.tokens.close()
        assert source.events == ["asked for a", "asked for b", "ended a", "ended b", "closed"]
        return await asyncio.gather(*asking, return_exceptions=True)

    assert [type(outcome) for outcome in lab.world.run(check())] == [asyncio.CancelledError] * 2


def test_a_door_that_closes_ends_its_connections_to_keystone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[network.HttpClient] = []

    async def close(client: network.HttpClient) -> None:
        closed.append(client)

    monkeypatch.setattr(network.HttpClient, "close", close)
    assert lab.ask("good") == ANNA
    assert closed == []
    lab.world.run(lab.tokens.close())
    assert len(closed) == 1


@dataclass
class Stub:
    """A source of tokens without a network."""

    known: dict[str, keystone.Token]

    async def look_up(self, token: str) -> keystone.Token | None:
        if token == "broken":
            raise errors.BusyError("no answer")
        return self.known.get(token)

    async def close(self) -> None: ...
