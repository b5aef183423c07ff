"""GET /2/instances/NAME/console/KIND: who gets a console, what goes over it, how it ends, and what it may use."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from gantry import errors
from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.http import sessions
from gantry.doors.rapi import console_stream
from gantry.node.daemon import console_streams
from gantry.rpc import luxi
from gantry.runtime import bytestream, http_interface
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
TEXT = b"alice one write\nbob two read\ncarol three write\ndora four\n"
PATH = "/2/instances/vm1/console/serial"
LINE = f"{cluster.FOLDERS.instances}/fake/.vm1.serial"
ORIGIN = "https://node1:5080"


class Socket:
    """The server's end of a WebSocket, and what the client does at its own."""

    def __init__(self, *, acknowledges: bool = True) -> None:
        self.inbox: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self.reports: list[dict[str, object]] = []
        self.data = b""
        self._acknowledges = acknowledges
        self._changed = asyncio.Event()

    async def receive(self) -> bytes | str | None:
        return await self.inbox.get()

    async def send(self, message: bytes | str) -> None:
        if isinstance(message, str):
            self.reports.append(json.loads(message))
        else:
            self.data += message
            if self._acknowledges:
                self.acknowledge(len(self.data))
        self._changed.set()
        await asyncio.sleep(0)

    def acknowledge(self, received: int) -> None:
        self.inbox.put_nowait(json.dumps({"received": received}))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def report(self, number: int = 0) -> dict[str, object]:
        await self.until(lambda: len(self.reports) > number)
        return self.reports[number]


class Guest:
    """A program that plays a guest's serial line: it notes what is typed, and who is connected."""

    def __init__(self) -> None:
        self.typed = b""
        self.streams: list[bytestream.Writer] = []
        self.connected = 0

    async def serve(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        self.streams.append(writer)
        self.connected += 1
        try:
            while data := await reader.read(1 << 16):
                self.typed += data
        finally:
            self.connected -= 1


@dataclasses.dataclass
class Person:
    """Somebody with a session."""

    server: http.Server
    cookie: str
    token: str

    def request(self, path: str = PATH, **headers: str) -> http_interface.Request:
        sent = {
            "host": "node1:5080",
            "origin": ORIGIN,
            "upgrade": "websocket",
            "cookie": self.cookie,
            "sec-websocket-protocol": f"{sessions.PROTOCOL}, {sessions.TOKEN_PROTOCOL}{self.token}",
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return http_interface.Request("GET", path, b"", {name: text for name, text in sent.items() if text})

    async def asks(self, path: str = PATH, **headers: str) -> http_interface.Response:
        return await self.server.answer(self.request(path, **headers))

    async def opens(self, path: str = PATH, *, acknowledges: bool = True) -> "Console":
        answer = await self.asks(path)
        assert (answer.status, answer.subprotocol) == (101, sessions.PROTOCOL), answer.body
        assert answer.conversation
        socket = Socket(acknowledges=acknowledges)
        return Console(socket, asyncio.ensure_future(answer.conversation(socket)))


@dataclasses.dataclass
class Console:
    """A console that is open, or was refused."""

    socket: Socket
    task: asyncio.Future[None]

    async def close(self) -> None:
        self.socket.inbox.put_nowait(None)
        await self.task


@pytest.fixture
def server(lab: cluster.SimulatedCluster) -> Iterator[http.Server]:
    lab.run(lab.master.disk.write(USERS, TEXT))
    lab.run(lab.done({"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "vm1"}))
    yield remote.server(lab.master, cluster.FOLDERS)
    lab.run(lab.done({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm1"}))
    lab.run(lab.master.disk.remove(USERS))


async def log_in(server: http.Server, user: str = "alice", password: str = "one") -> Person:
    body = json.dumps({"user": user, "password": password}).encode()
    request = http_interface.Request("POST", "/2/session", body, {"content-type": "application/json"})
    answer = await server.answer(request)
    return Person(server, answer.headers["Set-Cookie"].partition(";")[0], json.loads(answer.body)["csrf"])


@asynccontextmanager
async def line(lab: cluster.SimulatedCluster) -> AsyncIterator[Guest]:
    """Play the serial line of vm1; at the end nothing is open on the node."""
    guest = Guest()
    listening = await lab.master.network.serve_unix(LINE, guest.serve, mode=0o600, limit=1 << 16)
    try:
        yield guest
        await until(lab, lambda: guest.connected == 0)
        assert lab.master.network.wires.entrances.by_port == {}
    finally:
        await listening.close()


async def until(lab: cluster.SimulatedCluster, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(600):
        while not condition():
            await lab.master.clock.sleep(0.01)


def run(lab: cluster.SimulatedCluster, scenario: Callable[[], Awaitable[None]]) -> None:
    async def work() -> None:
        await scenario()

    lab.run(work())


def test_what_is_typed_reaches_the_guest_and_what_it_prints_the_browser(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab) as guest:
            console = await (await log_in(server)).opens()
            assert await console.socket.report() == {"state": "open", "node": "node1"}
            console.socket.inbox.put_nowait(b"ls\r")
            await until(lab, lambda: guest.typed == b"ls\r")
            guest.streams[0].write(b"bin etc\r\n")
            await console.socket.until(lambda: console.socket.data == b"bin etc\r\n")
            await console.close()

    run(lab, scenario)


def test_a_console_ends_with_the_guest_and_the_page_hears_of_it(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab) as guest:
            console = await (await log_in(server)).opens()
            await console.socket.report()
            guest.streams[0].write(b"last words")
            guest.streams[0].close()
            await console.task
            assert console.socket.data == b"last words"
            assert console.socket.reports[1]["why"] == "guest"
            assert "node1" in str(console.socket.reports[1]["text"])

    run(lab, scenario)


def test_a_second_user_reads_who_has_the_console_and_may_take_it_over(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab) as guest:
            first = await (await log_in(server)).opens()
            await first.socket.report()
            carol = await log_in(server, "carol", "three")
            second = await carol.opens()
            await second.task
            assert second.socket.reports == [{"state": "used", "user": "alice"}]
            assert not first.task.done()
            third = await carol.opens(f"{PATH}?take-over=1")
            assert (await third.socket.report())["state"] == "open"
            await first.task
            assert first.socket.reports[1] == {
                "state": "ended",
                "text": "carol has taken the console over.",
                "why": "taken",
                "user": "carol",
            }
            third.socket.inbox.put_nowait(b"x")
            await until(lab, lambda: guest.typed == b"x")
            await third.close()

    run(lab, scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ""}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://node1:5080"}, 403),
        ({"origin": "https://node1:5081"}, 403),
        ({"origin": "https://node1:5080.evil.example"}, 403),
        ({"cookie": ""}, 401),
        ({"cookie": "__Host-gantry-session=00"}, 401),
        ({"sec_websocket_protocol": ""}, 403),
        ({"sec_websocket_protocol": "gantry.console"}, 403),
        ({"sec_websocket_protocol": "gantry.console, gantry.csrf."}, 403),
        ({"sec_websocket_protocol": "gantry.console, gantry.csrf.00"}, 403),
        ({"upgrade": ""}, 426),
        ({"cookie": "", "authorization": "Basic YWxpY2U6b25l"}, 401),
    ],
)
def test_a_console_needs_a_page_of_this_server_its_session_and_its_token(
    lab: cluster.SimulatedCluster, server: http.Server, headers: dict[str, str], status: int
) -> None:
    async def scenario() -> None:
        answer = await (await log_in(server)).asks(**headers)
        assert (answer.status, answer.conversation) == (status, None)

    run(lab, scenario)


def test_a_console_with_the_token_alone_is_refused(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        alice = await log_in(server)
        answer = await alice.asks(sec_websocket_protocol=f"{sessions.TOKEN_PROTOCOL}{alice.token}")
        assert answer.status == 403

    run(lab, scenario)


def test_a_console_needs_the_right_to_start_the_instance(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        bob = await log_in(server, "bob", "two")
        console = await bob.opens(PATH)
        await console.task
        (report,) = console.socket.reports
        assert report["state"] == "refused"
        assert "user bob may not operate instance vm1" in str(report["text"])
        await lab.done({"OP_ID": "OP_ACCESS_ADD", "who": "user:bob", "role": "operator", "on": "instance:vm1"})
        console = await bob.opens(PATH)
        await console.task
        # The rule is enough: what remains is that a fake guest has no console.
        assert "has no serial console" in str(console.socket.reports[0]["text"])
        await lab.done({"OP_ID": "OP_ACCESS_REMOVE", "who": "user:bob"})

    run(lab, scenario)


def test_a_user_who_may_not_even_read_is_refused_before_the_master_is_asked(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        answer = await (await log_in(server, "dora", "four")).asks()
        assert (answer.status, answer.conversation) == (403, None)

    run(lab, scenario)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/2/instances/vm9/console/serial", "vm9"),
        ("/2/instances/vm1/console/vnc", "has no vnc console"),
        (PATH, "has no serial console"),
    ],
)
def test_what_has_no_console_is_refused_with_its_reason(
    lab: cluster.SimulatedCluster, server: http.Server, path: str, text: str
) -> None:
    async def scenario() -> None:
        console = await (await log_in(server)).opens(path)
        await console.task
        assert [each["state"] for each in console.socket.reports] == ["refused"]
        assert text in str(console.socket.reports[0]["text"])

    run(lab, scenario)


def test_there_are_two_kinds_of_consoles(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        assert (await (await log_in(server)).asks("/2/instances/vm1/console/x")).status == 404

    run(lab, scenario)


def test_an_instance_that_does_not_run_has_no_console(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm1"})
        console = await (await log_in(server)).opens()
        await console.task
        assert "vm1 does not run" in str(console.socket.reports[0]["text"])

    run(lab, scenario)


def test_an_instance_on_an_offline_node_has_no_console() -> None:
    with cluster.SimulatedCluster(seed=2, nodes=2) as simulated:
        simulated.run(simulated.build())
        create = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "pnode": "node2"}
        simulated.run(simulated.done(create))
        simulated.kill("node2")
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "offline": True, "force": True}
        simulated.run(simulated.done(op))
        with pytest.raises(errors.GantryError, match="primary node node2 of instance vm1 is offline"):
            simulated.run(simulated.luxi("OpenConsole", "vm1", "serial", "alice"))


async def log_out(alice: Person, lab: cluster.SimulatedCluster) -> None:
    headers = {"cookie": alice.cookie, sessions.HEADER: alice.token}
    assert (await alice.server.answer(http_interface.Request("DELETE", "/2/session", b"", headers))).status == 200


async def change_line(alice: Person, lab: cluster.SimulatedCluster) -> None:
    await lab.master.clock.sleep(1)
    await lab.master.disk.write(USERS, b"alice other write\n")


async def lose_right(alice: Person, lab: cluster.SimulatedCluster) -> None:
    await lab.master.clock.sleep(1)
    await lab.master.disk.write(USERS, b"alice one read\n")


@pytest.mark.parametrize("end", [log_out, change_line, lose_right])
def test_a_console_ends_with_its_session(
    lab: cluster.SimulatedCluster,
    server: http.Server,
    end: Callable[[Person, cluster.SimulatedCluster], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        async with line(lab):
            alice = await log_in(server)
            console = await alice.opens()
            await console.socket.report()
            await end(alice, lab)
            async with asyncio.timeout(3 * console_stream.CHECK_SECONDS):
                await console.task
            assert console.socket.reports[1]["why"] == "session"

    run(lab, scenario)


def test_a_console_ends_when_its_user_loses_the_right_to_it(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_ACCESS_ADD", "who": "user:bob", "role": "operator", "on": "instance:vm1"})
        async with line(lab):
            console = await (await log_in(server, "bob", "two")).opens()
            assert (await console.socket.report())["state"] == "open"
            await lab.master.clock.sleep(5 * console_stream.RIGHT_SECONDS)
            assert not console.task.done()
            await lab.done({"OP_ID": "OP_ACCESS_REMOVE", "who": "user:bob"})
            async with asyncio.timeout(2 * console_stream.RIGHT_SECONDS):
                await console.task
        report = console.socket.reports[1]
        assert (report["state"], report["why"]) == ("ended", "right")
        assert "user bob may not operate instance vm1" in str(report["text"])

    run(lab, scenario)


def test_a_console_stays_while_no_master_says_that_the_right_to_it_is_lost(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []

    async def refuse(_: luxi.Pool, kind: type, method: str, *arguments: object) -> object:
        requests.append(method)
        raise errors.RemoteError("the master daemon does not answer")

    async def scenario() -> None:
        async with line(lab):
            console = await (await log_in(server)).opens()
            assert (await console.socket.report())["state"] == "open"
            monkeypatch.setattr(luxi.Pool, "call", refuse)
            await lab.master.clock.sleep(5 * console_stream.RIGHT_SECONDS)
            assert not console.task.done()
            assert 3 <= len(requests) <= 5
            console.socket.inbox.put_nowait(None)
            await console.task

    run(lab, scenario)


def test_a_session_ends_after_twelve_hours_whatever_is_typed(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LONGEST_SECONDS", 60.0)

    async def scenario() -> None:
        async with line(lab):
            console = await (await log_in(server)).opens()
            begin = lab.master.clock.monotonic()
            while not console.task.done():
                console.socket.inbox.put_nowait(b"x")
                await lab.master.clock.sleep(1)
            assert console.socket.reports[1]["why"] == "session"
            assert lab.master.clock.monotonic() - begin == pytest.approx(60, abs=5)

    run(lab, scenario)


def test_a_serial_console_ends_after_an_hour_without_a_key_and_keys_keep_it_and_its_session(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab):
            alice = await log_in(server)
            console = await alice.opens()
            for _ in range(3):
                await lab.master.clock.sleep(console_stream.IDLE_SECONDS - 60)
                assert not console.task.done()
                console.socket.inbox.put_nowait(b"x")
            await console.task
            assert console.socket.reports[1]["why"] in ("idle", "session")
            # The console alone did not keep the session.
            await lab.master.clock.sleep(2 * console_stream.CHECK_SECONDS)
            assert (await server.answer(alice.request("/2/session"))).status == 401

    run(lab, scenario)


def test_a_serial_console_that_is_idle_ends_though_another_page_keeps_the_session(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab):
            alice = await log_in(server)
            console = await alice.opens()
            begin = lab.master.clock.monotonic()
            while not console.task.done():
                await lab.master.clock.sleep(60)
                assert (await server.answer(alice.request("/2/session"))).status == 200
            assert lab.master.clock.monotonic() - begin == pytest.approx(console_stream.IDLE_SECONDS, abs=120)
            assert console.socket.reports[1] == {
                "state": "ended", "text": "Nothing was typed for 60 minutes.", "why": "idle",
            }  # fmt: skip

    run(lab, scenario)


@pytest.mark.parametrize(
    ("error", "reason"), [(ConnectionRefusedError("refused"), "refused"), (TimeoutError(), "no answer")]
)
def test_a_port_of_a_console_that_cannot_be_reached_is_named_with_its_node(
    lab: cluster.SimulatedCluster,
    server: http.Server,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    reason: str,
) -> None:
    async def fail(*arguments: object, **options: object) -> object:
        raise error

    async def scenario() -> None:
        async with line(lab):
            monkeypatch.setattr(lab.master.network, "connect_port", fail)
            console = await (await log_in(server)).opens()
            await console.task
            (report,) = console.socket.reports
            assert report["state"] == "refused"
            assert str(report["text"]).startswith(
                f"the console's port on node node1 cannot be reached: {reason}; the master connects to 203.0.113.1"
            )
            # The node ends the guest's stream when nobody has come.
            await lab.master.clock.sleep(2 * console_streams.CLIENT_TIMEOUT_SECONDS)

    run(lab, scenario)


def test_a_guest_that_prints_without_end_waits_for_the_browser(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab) as guest:
            console = await (await log_in(server)).opens(acknowledges=False)
            await console.socket.report()
            written = 0

            async def flood() -> None:
                nonlocal written
                while written < 8 << 20:  # far more than all buffers
                    guest.streams[0].write(bytes(1 << 14))
                    written += 1 << 14
                    await guest.streams[0].drain()

            flooding = asyncio.ensure_future(flood())
            await lab.master.clock.sleep(30)
            before = written
            await lab.master.clock.sleep(30)
            assert written == before < 2 << 20
            assert len(console.socket.data) < console_stream.WINDOW_BYTES + (64 << 10)
            console.socket.acknowledge(len(console.socket.data))
            await console.socket.until(lambda: len(console.socket.data) > console_stream.WINDOW_BYTES + (128 << 10))
            flooding.cancel()
            await console.close()

    run(lab, scenario)


@pytest.mark.parametrize("message", ["", "x", "7", '{"received": -1}', '{"received": 1}', '{"received": "x"}'])
def test_a_receipt_that_is_not_valid_ends_the_console(
    lab: cluster.SimulatedCluster, server: http.Server, message: str
) -> None:
    async def scenario() -> None:
        async with line(lab):
            console = await (await log_in(server)).opens()
            await console.socket.report()
            console.socket.inbox.put_nowait(message)
            await console.task
            assert console.socket.reports[1]["why"] == "invalid"

    run(lab, scenario)


def test_a_user_has_a_number_of_consoles_and_all_users_together(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_stream, "MOST_OF_USER", 1)

    async def scenario() -> None:
        async with line(lab):
            alice, carol = await log_in(server), await log_in(server, "carol", "three")
            first = await alice.opens()
            await first.socket.report()
            second = await alice.opens()
            await second.task
            assert "1 consoles of alice are open" in str(second.socket.reports[0]["text"])
            monkeypatch.setattr(console_stream, "MOST", 1)
            third = await carol.opens()
            await third.task
            assert "1 consoles of all users are open" in str(third.socket.reports[0]["text"])
            await first.close()
            fourth = await alice.opens()
            assert (await fourth.socket.report())["state"] == "open"
            fifth = await alice.opens()
            await fifth.task
            assert "1 consoles of alice are open" in str(fifth.socket.reports[0]["text"])
            await fourth.close()

    run(lab, scenario)


def test_a_node_has_a_number_of_consoles(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_streams, "MOST", 0)

    async def scenario() -> None:
        async with line(lab) as guest:
            console = await (await log_in(server)).opens()
            await console.task
            assert "0 consoles are open on node node1" in str(console.socket.reports[0]["text"])
            assert guest.streams == []

    run(lab, scenario)


def test_a_stream_that_breaks_without_a_word_is_the_fault_of_the_node_which_the_page_names(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(guest: object, client: object, stop: object) -> str:
        raise ConnectionResetError("the daemon was killed")

    monkeypatch.setattr(console_streams, "_relay", break_down)

    async def scenario() -> None:
        async with line(lab):
            console = await (await log_in(server)).opens()
            await console.task
            assert console.socket.reports[1]["why"] == "lost"
            assert "node1" in str(console.socket.reports[1]["text"])

    run(lab, scenario)


def test_a_console_whose_client_never_comes_is_closed_on_the_node(
    lab: cluster.SimulatedCluster, server: http.Server
) -> None:
    async def scenario() -> None:
        async with line(lab) as guest:
            ticket = await lab.luxi("OpenConsole", "vm1", "serial", "alice")
            assert isinstance(ticket, dict)
            assert (ticket["node"], len(ticket["token"])) == ("node1", 64)
            await until(lab, lambda: guest.connected == 1)
            begin = lab.master.clock.monotonic()
            await until(lab, lambda: guest.connected == 0)
            assert lab.master.clock.monotonic() - begin < 2 * console_streams.CLIENT_TIMEOUT_SECONDS

    run(lab, scenario)
