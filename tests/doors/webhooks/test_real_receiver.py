"""An unmodified receiver, by the libraries of both standards, on real sockets and TLS; the master is a list."""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from http import server
from pathlib import Path

import msgspec
import pytest
import standardwebhooks
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests import ports
from tests.doors.webhooks import fake_receiver

from gantry.doors import webhooks
from gantry.doors.webhooks import attempts
from gantry.model import webhook
from gantry.rpc import luxi
from gantry.runtime import http_interface, measures
from gantry.runtime.real import RealRuntime

CLUSTER = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
SECRET, OTHER = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
BEHAVIOURS = ("fails", "closes", "hangs", "asks for time", "redirects", "breaks off")
LIMIT_SECONDS = 60.0


class Master:
    """A master with these events, which stores positions as the real one does."""

    def __init__(self, hook: webhook.Webhook, number: int) -> None:
        self.hook = hook
        self.position = webhook.Position(uuid=hook.uuid, name=hook.name)
        self.events = [_event(serial) for serial in range(1, number + 1)]
        self.submitted: list[object] = []
        self.news = asyncio.Event()

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        return msgspec.convert(msgspec.to_builtins(await self._answer(method, *arguments)), kind)

    async def _answer(self, method: str, *arguments: object) -> object:
        match method, arguments:
            case "ReadWebhooks", ():
                hooks, positions = [self.hook], [self.position]
                return {"cluster": CLUSTER, "serial": len(self.events), "webhooks": hooks, "positions": positions}
            case "WaitForEvents", (int(after), int(limit), float(seconds)):
                if after >= len(self.events):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self.news.wait()
                return {"events": self.events[after : after + limit], "serial": len(self.events)}
            case "StoreWebhookPositions", (list(moved),):
                ((uuid, serial, failure, since),) = moved
                self.position = webhook.Position(
                    uuid=uuid, name=self.hook.name, serial=serial, failure=failure, waiting_since=since
                )
                return None
            case "SubmitJob", (list(ops),):
                self.submitted += ops
                self.hook = msgspec.structs.replace(self.hook, enabled=False)
                return 1
        raise AssertionError(method)


def _event(serial: int) -> dict[str, object]:
    change = {"kind": "instance", "key": f"u{serial}", "name": f"vm{serial}", "what": "added"}
    return {"serial": serial, "time": 1_800_000_000.0 + serial, "cause": {}, "changes": [change]}


class Receiver(server.ThreadingHTTPServer):
    """Behaves badly as it is asked, then verifies and accepts."""

    def __init__(self, port: int, context: ssl.SSLContext | None, secret: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.verifier = standardwebhooks.Webhook(f"whsec_{secret}")
        self.bad: list[str] = []
        self.paths: list[str] = []
        self.accepted: list[http_interface.Request] = []
        self.refused: list[str] = []
        self.free = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about a client that has given up."""


class Handler(server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in the base class
        pass

    def do_GET(self) -> None:
        self._receiver.paths.append(f"GET {self.path}")
        self._answer(200)

    @property
    def _receiver(self) -> Receiver:
        assert isinstance(self.server, Receiver)
        return self.server

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def do_POST(self) -> None:
        own = self._receiver
        body = self.rfile.read(int(self.headers["content-length"]))
        own.paths.append(f"POST {self.path}")
        headers: Mapping[str, str] = {name.lower(): value for name, value in self.headers.items()}
        match own.bad.pop(0) if own.bad else "":
            case "fails":
                return self._answer(500)
            case "closes":
                self.close_connection = True
                return None
            case "hangs":
                own.free.wait(LIMIT_SECONDS)
                return None
            case "asks for time":
                return self._answer(429, Retry_After="1")
            case "redirects":
                return self._answer(302, Location="/elsewhere")
            case "breaks off":
                self.wfile.write(b"HTTP/1.1 500 x\r\nContent-Length: 99\r\n\r\nabc")
                self.close_connection = True
                return None
            case "is gone":
                return self._answer(410)
        try:
            own.verifier.verify(body, dict(headers))
        except standardwebhooks.WebhookVerificationError as error:
            own.refused.append(str(error))
            return self._answer(401)
        own.accepted.append(http_interface.Request("POST", self.path, body, headers))
        return self._answer(204)


@contextlib.contextmanager
def listening(port: int, context: ssl.SSLContext | None = None, secret: str = SECRET) -> Iterator[Receiver]:
    receiver = Receiver(port, context, secret)
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.free.set()
        receiver.shutdown()
        receiver.server_close()
        thread.join()


@contextlib.asynccontextmanager
async def sending(master: Master) -> AsyncGenerator[measures.Measures, None]:
    counts = measures.Measures()
    task = asyncio.create_task(webhooks.Webhooks(RealRuntime(), master, counts=counts).run())
    try:
        yield counts
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition has not come true"
        await asyncio.sleep(0.02)


def hook(url: str, **fields: object) -> webhook.Webhook:
    return webhook.Webhook(uuid="w1", name="hook", origin="https://x", secret_url=url, secret=SECRET, **fields)  # type: ignore[arg-type]


def names(receiver: Receiver) -> list[object]:
    return [fake_receiver.contents(fake_receiver.parsed(request))["name"] for request in receiver.accepted]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a test of real time short."""
    monkeypatch.setattr(attempts, "FIRST_BACK_OFF_SECONDS", 0.02)
    monkeypatch.setattr(attempts, "TIMEOUT_SECONDS", 2.0)
    monkeypatch.setattr(webhooks, "NEWS_INTERVAL_SECONDS", 0.01)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, str]:
    """Return the context of a server on 127.0.0.1 with a certificate of its own, and that certificate."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    own = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = own.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(pem + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, pem.decode()


async def test_each_behaviour_of_a_receiver_only_delays_its_events_over_tls(tmp_path: Path) -> None:
    port = ports.free()
    context, authority = certificate(tmp_path, "own")
    master = Master(hook(f"https://127.0.0.1:{port}/in?key=sesame", authorities=authority), 20)
    with listening(port, context) as receiver:
        receiver.bad += BEHAVIOURS
        async with sending(master):
            await until(lambda: len(receiver.accepted) == 20)
        assert names(receiver) == [f"vm{number}" for number in range(1, 21)]
        assert receiver.paths == ["POST /in?key=sesame"] * (20 + len(BEHAVIOURS))
        assert not receiver.refused
        assert master.position.serial == 20


async def test_a_certificate_of_somebody_else_gets_nothing(tmp_path: Path) -> None:
    port = ports.free()
    context, _ = certificate(tmp_path, "server")
    _, other = certificate(tmp_path, "other")
    for authorities in (other, ""):
        master = Master(hook(f"https://127.0.0.1:{port}/", authorities=authorities), 1)
        with listening(port, context) as receiver:
            async with sending(master) as counts:
                await until(lambda counts=counts: _count(counts, "gantry_webhook_failed_total") >= 2)
            assert not receiver.paths
        assert "certificate" in master.position.failure.lower()


def _count(counts: measures.Measures, name: str) -> float:
    return sum(sample.value for family in counts.families() if family.name == name for sample in family.samples)


async def test_a_restart_of_the_daemon_while_the_receiver_is_away_loses_nothing_and_doubles_nothing() -> None:
    port = ports.free()
    master = Master(hook(f"http://127.0.0.1:{port}/"), 30)
    with listening(port) as receiver:
        receiver.bad += [*[""] * 10, "hangs"]
        async with sending(master):
            await until(lambda: len(receiver.paths) == 11)
    first = names(receiver)
    async with sending(master) as counts:
        await until(lambda: _count(counts, "gantry_webhook_failed_total") >= 2)
    with listening(port) as receiver:
        async with sending(master):
            await until(lambda: names(receiver)[-1:] == ["vm30"])
    assert [*first, *names(receiver)] == [f"vm{number}" for number in range(1, 31)]


async def test_a_receiver_that_is_gone_gets_no_other_request_and_its_webhook_is_disabled() -> None:
    port = ports.free()
    master = Master(hook(f"http://127.0.0.1:{port}/"), 3)
    with listening(port) as receiver:
        receiver.bad += ["is gone"]
        async with sending(master):
            await until(lambda: bool(master.submitted))
            await until(lambda: not master.hook.enabled)
            await asyncio.sleep(0.2)
        assert receiver.paths == ["POST /"]
    (op,) = master.submitted
    assert isinstance(op, dict)
    assert (op["OP_ID"], op["name"], op["enabled"]) == ("OP_WEBHOOK_SET_PARAMS", "hook", False)


async def test_a_receiver_with_either_secret_accepts_while_one_replaces_the_other() -> None:
    for secret, end, is_accepted in ((SECRET, 0.0, True), (OTHER, time.time() + 600, True), (OTHER, 1.0, False)):
        port = ports.free()
        own = hook(f"http://127.0.0.1:{port}/", previous_secret=OTHER, previous_secret_end=end)
        with listening(port, secret=secret) as receiver:
            async with sending(Master(own, 1)):
                await until(lambda receiver=receiver: receiver.accepted or receiver.refused)
            assert bool(receiver.accepted) is is_accepted
