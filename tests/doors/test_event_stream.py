"""GET /2/events: what a stream says, where it continues after a lost connection, and when it ends."""

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import pytest

from gantry import errors
from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.rapi import event_stream, feed
from gantry.rpc import luxi
from gantry.runtime import http_interface
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
Message = tuple[str, str, object]
"""Kind, id and content of a message."""


@pytest.fixture
def server(lab: cluster.SimulatedCluster) -> Iterator[http.Server]:
    lab.run(lab.master.disk.write(USERS, b"alice one write\nbob two read\ncarol three\n"))
    yield remote.server(lab.master, cluster.FOLDERS)
    lab.run(lab.master.disk.remove(USERS))


async def _open(
    server: http.Server, query: str = "", *, login: str = "bob:two", **headers: str
) -> AsyncGenerator[bytes, None]:
    password = base64.b64encode(login.encode()).decode()
    sent = {"authorization": f"Basic {password}", "accept": "text/event-stream"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await server.answer(http_interface.Request("GET", f"/2/events{query}", b"", sent))
    assert (answer.status, answer.content_type) == (200, "text/event-stream"), answer.body
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.pieces
    return _parted(answer.pieces)


async def _parted(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the messages of pieces one by one: a piece has all that waited."""
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            for message in piece.split(b"\n\n")[:-1]:
                yield message + b"\n\n"


def _message(piece: bytes) -> Message:
    fields = dict(line.split(": ", 1) for line in piece.decode().splitlines() if line)
    return fields["event"], fields.get("id", ""), json.loads(fields["data"])


async def _read(pieces: AsyncGenerator[bytes, None], number: int) -> list[Message]:
    """Return the next messages, without comments."""
    messages: list[Message] = []
    while len(messages) < number:
        piece = await anext(pieces)
        if piece != b":\n\n":
            messages.append(_message(piece))
    return messages


async def _until_lost(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[Message, None]:
    while (message := (await _read(pieces, 1))[0])[0] != "lost":
        yield message


def _tag(lab: cluster.SimulatedCluster, name: str) -> Awaitable[object]:
    return lab.done({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": [name]})


def _serials(messages: list[Message]) -> list[int]:
    return [int(number) for kind, number, _ in messages if kind == "change"]


def test_a_stream_begins_now_and_has_each_later_event_once(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        pieces = await _open(server)
        ((kind, _, content),) = await _read(pieces, 1)
        before = lab.daemons[lab.leader].store.snapshot.serial
        assert (kind, content) == ("begin", {"serial": before})
        await _tag(lab, "a")
        after = lab.daemons[lab.leader].store.snapshot.serial
        messages = await _read(pieces, after - before)
        assert _serials(messages) == list(range(before + 1, after + 1))
        changes = [change for _, _, event in messages for change in event["changes"]]  # type: ignore[index]
        assert {"kind": "cluster", "what": "changed"}.items() <= next(
            change.items() for change in changes if change["kind"] == "cluster"
        )
        await pieces.aclose()

    lab.run(scenario())


def test_the_events_of_who_sees_everything_cost_the_master_no_calls(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[int] = []
    original = event_stream._VisibleEvents._ask

    async def ask(self: event_stream._VisibleEvents, serial: int) -> event_stream._Visible:
        requests.append(serial)
        return await original(self, serial)

    monkeypatch.setattr(event_stream._VisibleEvents, "_ask", ask)

    async def scenario() -> None:
        pieces = await _open(server)
        await _read(pieces, 1)
        requests.clear()
        await lab.done({"OP_ID": "OP_TAGS_SET", "kind": "node", "name": lab.leader, "tags": ["a"]})
        assert len(_serials(await _read(pieces, 3))) == 3
        assert requests == []
        await _tag(lab, "of-the-cluster")
        await _read(pieces, 3)
        assert requests != []
        await pieces.aclose()

    lab.run(scenario())


@pytest.mark.parametrize("by", ["header", "query"])
def test_a_client_goes_on_where_it_was(lab: cluster.SimulatedCluster, server: http.Server, by: str) -> None:
    async def scenario() -> None:
        pieces = await _open(server)
        await _read(pieces, 1)
        await _tag(lab, f"b{by}")
        ((_, number, _),) = await _read(pieces, 1)
        await pieces.aclose()
        await _tag(lab, f"c{by}")
        resumed = await (_open(server, last_event_id=number) if by == "header" else _open(server, f"?after={number}"))
        messages = await _read(resumed, 4)
        assert messages[0] == ("begin", "", {"serial": int(number)})
        assert _serials(messages) == [int(number) + 1, int(number) + 2, int(number) + 3]
        await resumed.aclose()

    lab.run(scenario())


def test_a_client_that_missed_events_has_to_read_everything_again(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT", 3)
    small = remote.server(lab.master, cluster.FOLDERS)

    async def scenario() -> None:
        newest = lab.daemons[lab.leader].store.snapshot.serial
        for serial in (newest - 4, newest + 1000):
            pieces = await _open(small, f"?after={serial}")
            assert [kind for kind, _, _ in await _read(pieces, 2)] == ["begin", "lost"]
            await _tag(lab, f"d{serial}")
            now = lab.daemons[lab.leader].store.snapshot.serial
            assert _serials(await _read(pieces, 1))[0] <= now
            await pieces.aclose()

    lab.run(scenario())


def test_a_slow_client_hears_that_it_missed_events_and_a_quick_one_misses_none(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT", 3)
    monkeypatch.setattr(event_stream, "_WAITING_PIECES", 1)
    server = remote.server(lab.master, cluster.FOLDERS)
    lab.run(lab.master.disk.write(USERS, b"bob two read\n"))

    async def scenario() -> None:
        slow, quick = await _open(server), await _open(server)
        await _read(slow, 1)
        await _read(quick, 1)
        first = lab.daemons[lab.leader].store.snapshot.serial
        reading = asyncio.create_task(_read(quick, 10))
        for number in range(4):
            await _tag(lab, f"e{number}")
        assert _serials(await reading) == list(range(first + 1, first + 11))
        missed = [message async for message in _until_lost(slow)]
        assert 0 < len(missed) < 9
        assert _serials(missed) == list(range(first + 1, first + 1 + len(missed)))
        await slow.aclose()
        await quick.aclose()

    lab.run(scenario())


@pytest.mark.parametrize("seconds", [3, 3 * event_stream.JOB_WAIT_SECONDS])
def test_a_stream_follows_a_job_to_its_end(lab: cluster.SimulatedCluster, server: http.Server, seconds: float) -> None:
    async def scenario() -> None:
        job = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_master": True, "on_nodes": []})
        pieces = await _open(server, f"?job={job}")
        followed: list[dict[str, object]] = []
        while not followed or followed[-1]["status"] != "success":
            ((kind, _, content),) = await _read(pieces, 1)
            if kind == "job":
                assert isinstance(content, dict)
                followed.append(content)
        assert {each["id"] for each in followed} == {job}
        assert "running" in {each["status"] for each in followed}
        assert len({json.dumps(each) for each in followed}) == len(followed)
        await pieces.aclose()

    lab.run(scenario())


@pytest.fixture
def hook(lab: cluster.SimulatedCluster) -> Iterator[str]:
    lab.run(lab.done({"OP_ID": "OP_WEBHOOK_ADD", "name": "followed", "url": "https://hooks.example/"}))
    state = lab.daemons[lab.leader].store.snapshot
    yield next(uuid for uuid, hook in state.webhooks.items() if hook.name == "followed")
    lab.run(lab.done({"OP_ID": "OP_WEBHOOK_REMOVE", "name": "followed"}))


async def _until_webhooks(pieces: AsyncGenerator[bytes, None]) -> object:
    """Return the content of the next message about webhooks."""
    while (message := (await _read(pieces, 1))[0])[0] != "webhooks":
        pass
    return message[2]


async def _until_silence(pieces: AsyncGenerator[bytes, None]) -> set[str]:
    """Return the kinds of all messages until a comment says that there is no news."""
    kinds: set[str] = set()
    while (piece := await anext(pieces)) != b":\n\n":
        kinds.add(_message(piece)[0])
    return kinds


def test_a_stream_says_when_a_receiver_of_webhooks_is_further(
    lab: cluster.SimulatedCluster, server: http.Server, hook: str
) -> None:
    async def scenario() -> None:
        pieces = await _open(server, "?webhooks=1", login="alice:one")
        await _until_webhooks(pieces)
        for failure in ("HTTP 500", ""):
            await _until_silence(pieces)
            newest = lab.daemons[lab.leader].store.snapshot.serial
            await lab.luxi("StoreWebhookPositions", [[hook, newest, failure, 1.0]])
            assert await _until_webhooks(pieces) == {}
        assert "webhooks" not in await _until_silence(pieces)
        await pieces.aclose()

    lab.run(scenario())


@pytest.mark.parametrize(("query", "login"), [("", "alice:one"), ("?webhooks=1", "bob:two")])
def test_a_stream_has_no_webhooks_unless_an_administrator_asks_for_them(
    lab: cluster.SimulatedCluster, server: http.Server, hook: str, query: str, login: str
) -> None:
    async def scenario() -> None:
        pieces = await _open(server, query, login=login)
        assert "webhooks" not in await _until_silence(pieces)
        await lab.luxi("StoreWebhookPositions", [[hook, 1, "HTTP 500", 1.0]])
        assert "webhooks" not in await _until_silence(pieces)
        await pieces.aclose()

    lab.run(scenario())


def test_a_stream_goes_on_with_webhooks_once_the_master_answers(
    lab: cluster.SimulatedCluster, server: http.Server, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = _fail(lab, monkeypatch, lambda _, arguments: arguments[:1] == ("webhook",), 3)

    async def scenario() -> None:
        pieces = await _open(server, "?webhooks=1", login="alice:one")
        await _until_webhooks(pieces)
        await pieces.aclose()

    lab.run(scenario())
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits == pytest.approx([feed.RETRY_SECONDS] * 3, abs=0.1)


def _fail(
    lab: cluster.SimulatedCluster,
    patch: pytest.MonkeyPatch,
    which: Callable[[str, tuple[object, ...]], bool],
    number: int,
) -> list[float]:
    """Let the master fail a number of calls of the remote API; return the times of these and of the later ones."""
    times: list[float] = []
    call = luxi.Pool.call

    async def failing(pool: luxi.Pool, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if which(method, arguments):
            times.append(lab.master.clock.monotonic())
            if len(times) <= number:
                raise errors.RemoteError("the master daemon does not answer")
        return await call(pool, kind, method, *arguments)

    patch.setattr(luxi.Pool, "call", failing)
    return times


def test_a_stream_asks_for_its_job_until_the_master_answers(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = _fail(lab, monkeypatch, lambda method, _: method == "WaitForJobChange", 3)

    async def scenario() -> list[object]:
        job = await lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_master": True, "on_nodes": []})
        await lab.wait(job)
        pieces = await _open(server, f"?job={job}")
        messages = await _read(pieces, 2)
        await pieces.aclose()
        return [content["status"] for kind, _, content in messages if kind == "job"]  # type: ignore[index]

    assert lab.run(scenario()) == ["success"]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits == pytest.approx([feed.RETRY_SECONDS] * 3, abs=0.1)


def test_a_stream_begins_once_the_master_says_what_its_user_sees(
    lab: cluster.SimulatedCluster, server: http.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = _fail(lab, monkeypatch, lambda _, arguments: arguments[:2] == (feed.END, feed.AT_ONCE), 3)

    async def scenario() -> list[Message]:
        pieces = await _open(server)
        messages = await _read(pieces, 1)
        await pieces.aclose()
        return messages

    assert lab.run(scenario()) == [("begin", "", {"serial": lab.daemons[lab.leader].store.snapshot.serial})]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits == pytest.approx([feed.RETRY_SECONDS] * 3, abs=0.1)


def test_a_job_that_does_not_exist_has_no_status(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        pieces = await _open(server, "?job=987654")
        messages = await _read(pieces, 2)
        assert ("job", "", {"id": 987654, "status": None}) in messages
        await pieces.aclose()

    lab.run(scenario())


def test_a_stream_without_news_says_that_it_lives(lab: cluster.SimulatedCluster, server: http.Server) -> None:
    async def scenario() -> None:
        pieces = await _open(server)
        await _read(pieces, 1)
        begin = lab.world.clock.now()
        assert await anext(pieces) == b":\n\n"
        assert lab.world.clock.now() - begin == pytest.approx(event_stream.PING_SECONDS, abs=0.1)
        await pieces.aclose()

    lab.run(scenario())


@pytest.mark.parametrize("text", [b"carol three\n", b"bob two\n", b"bob other read\n"])
def test_a_stream_ends_with_the_right_of_its_user(
    lab: cluster.SimulatedCluster, server: http.Server, text: bytes
) -> None:
    async def scenario() -> None:
        pieces = await _open(server)
        await _read(pieces, 1)
        await lab.master.clock.sleep(1)
        await lab.master.disk.write(USERS, text)
        async with asyncio.timeout(2 * event_stream.PING_SECONDS):
            assert [piece async for piece in pieces] == []

    lab.run(scenario())


@pytest.mark.parametrize(
    ("query", "login", "status"),
    [("", "carol:three", 403), ("", "bob:wrong", 401), ("?after=x", "bob:two", 400), ("?job=-1", "bob:two", 400)],
)
def test_a_stream_needs_a_right_and_numbers(
    lab: cluster.SimulatedCluster, server: http.Server, query: str, login: str, status: int
) -> None:
    headers = {"authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    request = http_interface.Request("GET", f"/2/events{query}", b"", headers)
    assert lab.run(server.answer(request)).status == status
