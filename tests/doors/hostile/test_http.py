"""Hostile clients of the HTTP servers, each beside an honest client whose requests succeed."""

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.cluster import lab
from tests.doors.hostile import clients, conftest

HALF_A_REQUEST = b"GET /2/info HTTP/1.1\r\nHost: x\r\nX-Slow: "
A_BODY = json.dumps({"instance_name": "x" * (10 << 20)}).encode()

Targets = dict[str, clients.Target]

everywhere = pytest.mark.parametrize("sources", [clients.ATTACKERS, (clients.HOST,)], ids=["others", "same machine"])
# Both front ends have one server: the gate tries its limits once, and that Neutron has them by its big bodies below.
every_front_end = pytest.mark.parametrize("name", ["remote API", pytest.param("Neutron API", marks=pytest.mark.slow)])


def _besiege(target: clients.Target, sources: Sequence[str], data: bytes = b"") -> None:
    """Open a crowd of connections, and some more before each request of the honest client."""
    with target.bounded(), clients.Crowd(target.port, sources, data=data) as crowd:
        crowd.open(clients.CROWD)
        clients.check_honest(target, lambda: crowd.open(40))


@everywhere
@every_front_end
@pytest.mark.parametrize("data", [b"", HALF_A_REQUEST], ids=["silent", "half a request"])
def test_a_crowd_does_not_keep_others_out(plain: Targets, name: str, sources: Sequence[str], data: bytes) -> None:
    _besiege(plain[name], sources, data)


@everywhere
@pytest.mark.parametrize("data", [b"", clients.CLIENT_HELLO, b"not TLS at all\r\n\r\n"], ids=["silent", "half", "no"])
def test_a_crowd_before_tls_does_not_keep_others_out(encrypted: Targets, sources: Sequence[str], data: bytes) -> None:
    _besiege(encrypted["remote API"], sources, data)


@everywhere
@pytest.mark.parametrize("data", [b"", clients.CLIENT_HELLO], ids=["silent", "half"])
def test_a_crowd_does_not_keep_others_from_the_kubernetes_server(
    kubernetes: clients.Target, sources: Sequence[str], data: bytes
) -> None:
    _besiege(kubernetes, sources, data)


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("data", [b"", clients.CLIENT_HELLO], ids=["silent", "half"])
def test_a_crowd_does_not_keep_the_master_from_a_node(
    node: clients.Target, sources: Sequence[str], data: bytes
) -> None:
    _besiege(node, sources, data)


def test_a_connection_of_the_master_survives_a_crowd(node: clients.Target) -> None:
    assert node.tls
    with (
        socket.create_connection((clients.HOST, node.port), timeout=clients.TIMEOUT_SECONDS) as connection,
        node.tls.wrap_socket(connection) as master,
        clients.Crowd(node.port, (clients.HOST,)) as crowd,
    ):
        # The handshake has ended here before the node has read its last part, which makes a master of a stranger.
        _ask_version(master)
        crowd.open(clients.CROWD)
        _ask_version(master)


def _ask_version(node: ssl.SSLSocket) -> None:
    node.sendall(b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    assert node.recv(1 << 16).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_node_closes_connections_without_a_handshake(cluster: lab.Lab) -> None:
    machine = cluster.nodes[0]
    start = time.monotonic()
    with socket.create_connection((clients.HOST, machine.port), timeout=clients.TIMEOUT_SECONDS) as connection:
        assert connection.recv(1) == b""
    assert time.monotonic() - start > 8


@pytest.mark.slow  # A second is real time, of which other programs may take any part.
@everywhere
def test_an_honest_client_is_answered_within_a_second_beside_a_crowd(
    plain: Targets, encrypted: Targets, kubernetes: clients.Target, node: clients.Target, sources: Sequence[str]
) -> None:
    def is_prompt(target: clients.Target) -> bool:
        with clients.Crowd(target.port, sources) as crowd:
            crowd.open(clients.CROWD)
            return clients.is_prompt(lambda: clients.honest_seconds(target), lambda: crowd.open(40))

    assert all(map(is_prompt, (*plain.values(), encrypted["remote API"], kubernetes, node)))


@pytest.mark.slow
@everywhere
@every_front_end
def test_slow_bodies_do_not_keep_others_out(plain: Targets, name: str, sources: Sequence[str]) -> None:
    path = "/v3/auth/tokens" if name == "Neutron API" else "/2/info"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
    _besiege(plain[name], sources, head.encode())


@pytest.mark.slow
@every_front_end
def test_headers_that_arrive_byte_by_byte_are_answered_408(plain: Targets, name: str) -> None:
    with socket.create_connection((clients.HOST, plain[name].port), timeout=clients.TIMEOUT_SECONDS) as connection:
        connection.sendall(HALF_A_REQUEST)
        limit, answer = time.monotonic() + clients.TIMEOUT_SECONDS, b""
        connection.settimeout(0.2)
        while not answer and time.monotonic() < limit:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":408' in answer or b'"code":"408 ' in answer


def test_headers_that_are_too_long_are_answered_431(plain: Targets) -> None:
    with socket.create_connection(
        (clients.HOST, plain["remote API"].port), timeout=clients.TIMEOUT_SECONDS
    ) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /2/info HTTP/1.1\r\n" + b"X-Header: %s\r\n" % (b"x" * 8000) * 20)
        answer = connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 431 ")


def _send_without_reading(target: clients.Target, head: bytes, body: bytes) -> bytes:
    """Send a request; return what the server answers, whether or not it takes the whole body."""
    context = target.tls
    with socket.create_connection((clients.HOST, target.port), timeout=clients.TIMEOUT_SECONDS) as raw:
        connection = context.wrap_socket(raw) if context else raw
        answer = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(head)
            connection.sendall(body)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            answer = connection.recv(1 << 16)
        return answer


def _big(method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(A_BODY)}", "", ""]).encode()


def _flood(target: clients.Target, head: bytes, *, number: int = 100) -> Counter[bytes]:
    """Send big bodies at one time; return the numbers of the statuses, b"" for none."""
    statuses: Counter[bytes] = Counter()

    def send() -> None:
        answer = _send_without_reading(target, head, A_BODY)
        statuses[answer[9:12]] += 1

    threads = [threading.Thread(target=send) for _ in range(number)]
    for thread in threads:
        thread.start()
    clients.check_honest(target)
    for thread in threads:
        thread.join(clients.TIMEOUT_SECONDS)
    return statuses


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("remote API", "/2/instances", b"401"),
        ("Neutron API", "/v2.0/networks", b"401"),
        ("Neutron API", "/v3/auth/tokens", b"413"),
    ],
)
def test_big_bodies_without_a_password_are_not_read(plain: Targets, name: str, path: str, status: bytes) -> None:
    target = plain[name]
    with target.bounded():
        statuses = _flood(target, _big("POST", path))
    assert set(statuses) <= {status, b""}
    assert statuses[status]


def test_big_bodies_without_a_token_are_not_read_by_the_kubernetes_server(kubernetes: clients.Target) -> None:
    with kubernetes.bounded():
        statuses = _flood(kubernetes, _big("POST", kubernetes.path), number=30)
    assert set(statuses) <= {b"401", b""}
    assert statuses[b"401"]


def test_a_body_of_a_user_beyond_the_limit_is_answered_413(plain: Targets) -> None:
    head = _big("POST", "/2/instances", f"Authorization: {conftest.BASIC['Authorization']}")
    answer = _send_without_reading(plain["remote API"], head, A_BODY)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":413' in answer


def _login(password: str, user: str = "alice") -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@everywhere
@every_front_end
def test_wrong_passwords_do_not_lock_the_user_out(cluster: lab.Lab, sources: Sequence[str], name: str) -> None:
    # A server of its own: it has not seen the right password before.
    with conftest.front_ends(cluster) as targets:
        target, answers = targets[name], list[clients.Answer]()

        def guess(number: int) -> None:
            source = sources[number % len(sources)]
            with contextlib.suppress(ConnectionError):  # that many connections may be too many
                answers.append(target.ask("GET", headers=_login(f"wrong{number}"), source=source))

        threads = [threading.Thread(target=guess, args=(number,)) for number in range(60 * len(sources))]
        with target.bounded():
            for thread in threads:
                thread.start()
            clients.check_honest(target)
            for thread in threads:
                thread.join(clients.TIMEOUT_SECONDS)
    statuses = Counter(answer.status for answer in answers)
    assert 401 in statuses
    assert set(statuses) <= {401, 429, 503}
    for answer in answers:
        assert (answer.headers.get("Retry-After") == "1") == (answer.status != 401)
        assert answer.status != 401 or answer.seconds > 0.9


@pytest.mark.slow  # Each check takes half a second of a processor; test_attempts has the same on the simulated clock.
@everywhere
def test_guesses_of_a_costly_password_do_not_keep_another_user_waiting(
    cluster: lab.Lab, sources: Sequence[str]
) -> None:
    with conftest.front_ends(cluster) as targets:
        target, answered = targets["remote API"], list[int]()

        def guess(number: int) -> None:
            with contextlib.suppress(ConnectionError):  # the server ends before most of them are checked
                answer = target.ask(headers=_login(f"wrong{number}", "dave"), source=sources[number % len(sources)])
                answered.append(answer.status)

        threads = [threading.Thread(target=guess, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        lab.wait_until(lambda: 401 in answered, "the first wrong password")
        before = answered.count(401)
        assert target.ask(headers=_login("right", "carol")).status == 200
        # Of the guesses, a few are checked during carol's check; all of them take far longer than hers.
        assert answered.count(401) - before < 15
    for thread in threads:
        thread.join(clients.TIMEOUT_SECONDS)
    assert set(answered) <= {401, 429}


@pytest.mark.parametrize("option", ["--max-connections-per-address", "--max-strangers"])
def test_a_server_that_is_full_of_requests_says_so(cluster: lab.Lab, option: str) -> None:
    # Requests in work make no room: these wait a second for the answer to a wrong password.
    head = b"GET /2/info HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\n\r\n" % base64.b64encode(b"nobody:wrong")
    with conftest.front_ends(cluster, option, "5") as targets:
        target, status = targets["remote API"], 429 if "address" in option else 503
        with clients.Crowd(target.port, (clients.HOST,), data=head) as crowd:
            # At first one is refused while an earlier one is closing, and makes room for the next until it is in work.
            for _ in range(200):
                crowd.open(5)
                time.sleep(0.05)
                answer = target.ask()
                if answer.status == status:
                    break
    assert answer.status == status
    assert answer.headers["Retry-After"] == "1"
    assert json.loads(answer.body)["code"] == answer.status


def test_a_daemon_without_file_descriptors_goes_on(cluster: lab.Lab) -> None:
    within = ("prlimit", "--nofile=128:128")
    with conftest.front_ends(cluster, within=within) as targets:
        target = targets["remote API"]
        with target.bounded(), clients.Crowd(target.port, clients.ATTACKERS) as crowd:
            crowd.open(500)
            clients.check_honest(target)
