"""What both runtimes promise of sockets and programs."""

import asyncio
import errno
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from tests import ports

from gantry.runtime import bytestream, commands, http_interface, interface

Drive = Callable[[Callable[[interface.Runtime, str], Awaitable[None]]], None]


async def echo(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    """Answer every line until the end or a line beyond the limit."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            writer.write(b"too long\n")
            await writer.drain()
            return
        writer.write(line)
        await writer.drain()


def test_unix_stream_carries_messages_both_ways(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, echo, mode=0o660, limit=1000)
        assert runtime.disk.status(path).mode == 0o660
        reader, writer = await network.connect_unix(path, limit=1000)
        for word in (b"one\n", b"two\n"):
            writer.write(word)
            await writer.drain()
            assert await reader.readuntil(b"\n") == word
        writer.close()
        assert writer.is_closing()
        await server.close()
        await server.close()
        assert not runtime.disk.exists(path)

    drive(check)


def test_unix_message_over_the_limit_is_refused(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, echo, mode=0o600, limit=100)
        reader, writer = await network.connect_unix(path, limit=1000)
        writer.write(b"x" * 150)
        assert await reader.readuntil(b"\n") == b"too long\n"
        writer.close()
        await server.close()

    drive(check)


def test_unix_writer_waits_for_a_peer_that_does_not_read(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def deaf(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
            await asyncio.Event().wait()

        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, deaf, mode=0o600, limit=1000)
        _, writer = await network.connect_unix(path, limit=1000)

        async def flood() -> None:
            while True:
                writer.write(b"x" * 100_000)
                await writer.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flood(), 0.3)
        writer.close()
        await server.close()

    drive(check)


def test_unix_peer_that_closes_ends_the_stream(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        seen: asyncio.Queue[object] = asyncio.Queue()

        async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
            try:
                await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                seen.put_nowait(error.partial)
            try:
                while True:
                    writer.write(b"anybody?\n")
                    await writer.drain()
            except ConnectionError as error:
                seen.put_nowait(type(error))
                raise

        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, handler, mode=0o600, limit=1000)
        _, writer = await network.connect_unix(path, limit=1000)
        writer.write(b"half a mess")
        await writer.drain()
        writer.close()
        async with asyncio.timeout(60):
            assert await seen.get() == b"half a mess"
            assert await seen.get() in (ConnectionResetError, BrokenPipeError)
        await server.close()

    drive(check)


def test_unix_server_that_closes_ends_its_handlers_and_connections(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, echo, mode=0o600, limit=1000)
        reader, writer = await network.connect_unix(path, limit=1000)
        writer.write(b"one\n")
        assert await reader.readuntil(b"\n") == b"one\n"
        async with asyncio.timeout(60):
            await server.close()
            assert await reader.read(10) == b""
        writer.close()
        with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
            await network.connect_unix(path, limit=1000)

    drive(check)


def test_unix_socket_in_use_is_refused_and_its_server_goes_on(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network, path = runtime.network, f"{folder}/sock"
        server = await network.serve_unix(path, echo, mode=0o600, limit=1000)
        with pytest.raises(OSError, match=r"in use|is listening"):
            await network.serve_unix(path, echo, mode=0o600, limit=1000)
        reader, writer = await network.connect_unix(path, limit=1000)
        writer.write(b"one\n")
        assert await reader.readuntil(b"\n") == b"one\n"
        writer.close()
        await server.close()

    drive(check)


def test_unix_socket_is_created_only_in_a_directory_that_exists(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        with pytest.raises(FileNotFoundError):
            await runtime.network.serve_unix(f"{folder}/missing/sock", echo, mode=0o600, limit=1000)
        assert runtime.disk.names(folder) == []

    drive(check)


async def echo_request(request: http_interface.Request) -> http_interface.Response:
    """Echo the request in the answer."""
    text = f"{request.method} {request.path} {request.headers['content-type']} ".encode()
    return http_interface.Response(201, text + request.body, "text/plain")


def test_http_post_reaches_the_handler_and_its_answer_comes_back(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network = runtime.network
        server = await network.serve_http("127.0.0.1", port, echo_request, tls=None, body_limit=100)
        client = network.http_client(tls=None)
        posts = [client.post("127.0.0.1", port, f"/call?n={n}", b"%d" % n, timeout=60) for n in range(5)]
        for number, answer in enumerate(await asyncio.gather(*posts)):
            expected = f"POST /call?n={number} application/json {number}"
            assert (answer.status, answer.body, answer.content_type) == (201, expected.encode(), "text/plain")
        await client.close()
        await server.close()
        await server.close()

    drive(check)


def test_http_headers_are_sent_only_with_their_own_post(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        seen: list[str | None] = []

        async def handler(request: http_interface.Request) -> http_interface.Response:
            seen.append(request.headers.get("x-number"))
            return http_interface.Response(200, b"")

        server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        await client.post("127.0.0.1", port, "/", b"", timeout=60, headers={"x-number": "7"})
        await client.post("127.0.0.1", port, "/", b"", timeout=60)
        await client.close()
        await server.close()
        assert seen == ["7", None]

    drive(check)


def test_http_request_uses_any_method_and_its_answer_has_headers_in_lower_case(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def handler(request: http_interface.Request) -> http_interface.Response:
            body = f"{request.method} {request.path} {request.headers['x-number']} ".encode() + request.body
            return http_interface.Response(404, body, headers={"X-Other": "Seven"})

        server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        answer = await client.request("GET", "127.0.0.1", port, "/a?b", timeout=60, headers={"x-number": "7"})
        assert (answer.status, answer.body, answer.headers["x-other"]) == (404, b"GET /a?b 7 ", "Seven")
        await client.close()
        await server.close()

    drive(check)


def test_http_pieces_arrive_as_they_are_sent_and_the_server_notices_the_end(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        more, ended = asyncio.Event(), asyncio.Event()

        async def pieces() -> AsyncGenerator[bytes, None]:
            try:
                yield b"two "
                await more.wait()
                for _ in range(1000):
                    yield b"three"
                    await runtime.clock.sleep(0.01)
            finally:
                ended.set()

        async def handler(request: http_interface.Request) -> http_interface.Response:
            return http_interface.Response(200, b"one ", pieces=pieces())

        server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        answer = await client.stream("127.0.0.1", port, "/", timeout=60)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.pieces
        seen = b""
        while len(seen) < 8:
            seen += await anext(answer.pieces)
        assert seen == b"one two "
        more.set()
        assert (await anext(answer.pieces)).startswith(b"three")
        await answer.pieces.aclose()
        async with asyncio.timeout(60):
            await ended.wait()
        await client.close()
        await server.close()

    drive(check)


def test_a_request_waits_for_all_pieces_of_its_answer(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"two "
            await runtime.clock.sleep(0.01)
            yield b"three"

        async def handler(request: http_interface.Request) -> http_interface.Response:
            return http_interface.Response(200, b"one ", pieces=pieces())

        server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        answer = await client.request("GET", "127.0.0.1", port, "/", timeout=60)
        assert (answer.status, answer.body, answer.pieces) == (200, b"one two three", None)
        await client.close()
        await server.close()

    drive(check)


def test_http_pieces_raise_an_os_error_when_the_server_fails_or_closes(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def pieces(fails: bool) -> AsyncGenerator[bytes, None]:
            yield b"one"
            if fails:
                raise ConnectionResetError("the disk is gone")
            await asyncio.Event().wait()

        async def handler(request: http_interface.Request) -> http_interface.Response:
            return http_interface.Response(200, b"", pieces=pieces(request.path == "/fails"))

        server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        for path in ("/fails", "/waits"):
            answer = await client.stream("127.0.0.1", port, path, timeout=60)
            assert answer.pieces
            assert await anext(answer.pieces) == b"one"
            if path == "/waits":
                await server.close()
            with pytest.raises(OSError):
                await anext(answer.pieces)
        await client.close()

    drive(check)


def test_http_body_beyond_the_limit_is_answered_with_413(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        network = runtime.network
        server = await network.serve_http("127.0.0.1", port, echo_request, tls=None, body_limit=1000)
        client = network.http_client(tls=None)
        assert (await client.post("127.0.0.1", port, "/", b"x" * 1000, timeout=60)).status == 201
        assert (await client.post("127.0.0.1", port, "/", b"x" * 1001, timeout=60)).status == 413
        await client.close()
        await server.close()

    drive(check)


def test_http_handler_that_fails_is_answered_with_500(drive: Drive, port: int) -> None:
    async def fail(request: http_interface.Request) -> http_interface.Response:
        raise ValueError("no")

    async def check(runtime: interface.Runtime, folder: str) -> None:
        server = await runtime.network.serve_http("127.0.0.1", port, fail, tls=None, body_limit=1000)
        client = runtime.network.http_client(tls=None)
        assert (await client.post("127.0.0.1", port, "/", b"", timeout=60)).status == 500
        await client.close()
        await server.close()

    drive(check)


def test_http_post_to_a_closed_port_is_refused(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        client = runtime.network.http_client(tls=None)
        with pytest.raises(ConnectionRefusedError):
            await client.post("127.0.0.1", port, "/", b"", timeout=60)
        with pytest.raises(OSError):
            await client.post("no-such-host.invalid", port, "/", b"", timeout=60)
        await client.close()

    drive(check)


def test_http_post_times_out_while_the_handler_goes_on(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        begun, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(request: http_interface.Request) -> http_interface.Response:
            begun.set()
            await release.wait()
            finished.set()
            return http_interface.Response(200, b"")

        server = await runtime.network.serve_http("127.0.0.1", port, slow, tls=None, body_limit=1000)
        client = runtime.network.http_client(tls=None)
        seconds = 0.2
        while not begun.is_set():  # a busy machine may not come so far in that time
            assert seconds < 100, "the handler does not begin"
            with pytest.raises(TimeoutError):
                await client.post("127.0.0.1", port, "/", b"", timeout=seconds)
            seconds *= 3
        release.set()
        async with asyncio.timeout(60):
            await finished.wait()
        await client.close()
        await server.close()

    drive(check)


def test_http_server_that_closes_ends_its_handlers_and_frees_the_port(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def hang(request: http_interface.Request) -> http_interface.Response:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

        network = runtime.network
        server = await network.serve_http("127.0.0.1", port, hang, tls=None, body_limit=1000)
        client = network.http_client(tls=None)
        post = asyncio.create_task(client.post("127.0.0.1", port, "/", b"", timeout=60))
        await begun.wait()
        async with asyncio.timeout(60):
            await server.close()
            assert ended.is_set()
            with pytest.raises(OSError):
                await post
        with pytest.raises(ConnectionRefusedError):
            await client.post("127.0.0.1", port, "/", b"", timeout=60)
        again = await network.serve_http("127.0.0.1", port, echo_request, tls=None, body_limit=1000)
        assert (await client.post("127.0.0.1", port, "/", b"", timeout=60)).status == 201
        await client.close()
        await again.close()

    drive(check)


def test_http_port_in_use_is_refused(drive: Drive, port: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        server = await runtime.network.serve_http("127.0.0.1", port, echo_request, tls=None, body_limit=1000)
        with pytest.raises(OSError):
            await runtime.network.serve_http("127.0.0.1", port, echo_request, tls=None, body_limit=1000)
        await server.close()

    drive(check)


def test_program_gets_input_and_environment_and_its_output_is_kept(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        run = runtime.processes.run
        data = b"line\n" * 100_000
        assert await run(["/bin/cat"], stdin=data) == commands.Completed(0, data, b"")
        script = 'echo "$WORD"; echo bad >&2; exit 3'
        completed = await run(["/bin/sh", "-c", script], environment={"WORD": "hi"}, directory=folder)
        assert completed == commands.Completed(3, b"hi\n", b"bad\n")

    drive(check)


def test_program_that_is_missing_raises_file_not_found(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        with pytest.raises(FileNotFoundError):
            await runtime.processes.run(["/no/such/program"])
        with pytest.raises(FileNotFoundError):
            await runtime.processes.start(["/no/such/program"], environment=None, log=f"{folder}/log")

    drive(check)


def test_program_that_runs_too_long_raises_timeout_error(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        with pytest.raises(TimeoutError):
            await runtime.processes.run(["/bin/sleep", "600"], timeout=0.2)

    drive(check)


def test_started_program_runs_until_a_signal_ends_it(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        programs, command = runtime.processes, ["/bin/sleep", "600"]
        pid = await programs.start(command, environment={"PATH": os.environ["PATH"]}, log=f"{folder}/log")
        assert programs.alive(pid)
        assert programs.command_line(pid) == command
        programs.signal(pid, 0)
        programs.signal(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while programs.alive(pid):
                await runtime.clock.sleep(0.01)
        assert programs.command_line(pid) == []

    drive(check)


def test_started_program_appends_its_output_to_the_log(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        log = f"{folder}/log"
        await runtime.disk.write(log, b"old\n")
        script = 'echo "$WORD"; echo bad >&2'
        await runtime.processes.start(["/bin/sh", "-c", script], environment={"WORD": "hi"}, log=log)
        async with asyncio.timeout(60):
            while runtime.disk.read(log) != b"old\nhi\nbad\n":
                await runtime.clock.sleep(0.01)

    drive(check)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_signal_to_a_missing_process_raises(drive: Drive, pid: int) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        assert not runtime.processes.alive(pid)
        with pytest.raises(ProcessLookupError):
            runtime.processes.signal(pid, 0)

    drive(check)


def test_connected_program_has_a_connection_as_standard_input(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        messages = list[bytes]()

        async def talk(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
            messages.append(await reader.readuntil())
            writer.write(b"end\n")
            messages.append(await reader.read())

        script = 'echo begin >&0; read word; echo "$word" again >&0; exit 5'
        assert await runtime.processes.run_connected(["/bin/bash", "-c", script], talk) == 5
        assert messages == [b"begin\n", b"end again\n"]
        with pytest.raises(FileNotFoundError):
            await runtime.processes.run_connected(["/no/such/program"], talk)

    drive(check)


def test_error_of_the_handler_is_raised_when_the_connected_program_has_ended(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def fail(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
            await reader.readuntil()
            raise ValueError("unexpected message")

        script = "echo begin >&0; read word; exit 5"
        with pytest.raises(ValueError, match="unexpected message"):
            await runtime.processes.run_connected(["/bin/bash", "-c", script], fail)

    drive(check)


def test_cancelled_run_connected_ends_the_program_and_reads_its_last_output(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        messages, began = list[bytes](), asyncio.Event()

        async def talk(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
            messages.append(await reader.readuntil())
            began.set()
            messages.append(await reader.read())

        script = 'trap "echo last >&0; exit" TERM; echo begin >&0; while :; do sleep 0.05; done'
        task = asyncio.ensure_future(runtime.processes.run_connected(["/bin/bash", "-c", script], talk))
        await began.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert messages == [b"begin\n", b"last\n"]

    drive(check)


def test_an_http_answer_beyond_the_limit_is_not_received(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_interface, "ANSWER_LIMIT", 100_000)

    async def check(runtime: interface.Runtime, folder: str) -> None:
        async def answer(request: http_interface.Request) -> http_interface.Response:
            return http_interface.Response(200, b"x" * int(request.path[1:]))

        port = ports.free()
        server = await runtime.network.serve_http("127.0.0.1", port, answer, tls=None, body_limit=100)
        client = runtime.network.http_client(tls=None)
        for size in (100_000, 100_001, 3_000_000, 100):
            if size <= 100_000:
                assert len((await client.post("127.0.0.1", port, f"/{size}", b"", timeout=60)).body) == size
                continue
            with pytest.raises(OSError, match="the answer has more than") as caught:
                await client.post("127.0.0.1", port, f"/{size}", b"", timeout=60)
            assert caught.value.errno == errno.EMSGSIZE
        assert (
            len((await client.request("GET", "127.0.0.1", port, "/2048", timeout=60, answer_limit=2048)).body) == 2048
        )
        with pytest.raises(OSError, match="the answer has more than 2 KiB"):
            await client.request("GET", "127.0.0.1", port, "/2049", timeout=60, answer_limit=2048)
        await client.close()
        await server.close()

    drive(check)
