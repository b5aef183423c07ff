"""How messages between simulated machines are delayed, broken, repeated and answered."""

import asyncio
import errno
import gc
from collections.abc import AsyncGenerator, Iterator

import pytest

from gantry.runtime import http_interface, interface
from gantry.runtime.simulated import SimulatedRuntime, World

PORT = 1811


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        for name in ("one", "two", "three"):
            new_world.machine(name)
        yield new_world


async def answer(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, request.body)


async def serve(machine: SimulatedRuntime, handler: http_interface.Handler = answer) -> interface.Server:
    return await machine.network.serve_http("", PORT, handler, tls=None, body_limit=100)


async def ask(machine: SimulatedRuntime, host: str, *, timeout: float = 60) -> http_interface.Response:
    return await machine.network.http_client(tls=None).post(host, PORT, "/", b"hello", timeout=timeout)


async def timed_ask(world: World, source: str, target: str) -> float:
    begin = world.clock.monotonic()
    await ask(world.machine(source), target)
    return world.clock.monotonic() - begin


def test_a_request_and_its_answer_take_the_delay_each(world: World) -> None:
    async def scenario() -> None:
        await serve(world.machine("two"))
        assert 0.0002 <= await timed_ask(world, "one", "two") <= 0.004
        world.network.delay = (2.0, 3.0)
        assert 4 <= await timed_ask(world, "one", "two") <= 6
        assert 4 <= await timed_ask(world, "two", "localhost") <= 6

    world.run(scenario())


def test_a_late_message_takes_up_to_the_lateness_longer(world: World) -> None:
    async def scenario() -> None:
        await serve(world.machine("two"))
        world.network.reorder = 1.0
        seconds = [await timed_ask(world, "one", "two") for _ in range(50)]
        assert 0 < min(seconds) < 3 < 7 < max(seconds) <= 10.004
        world.network.lateness = 0.0
        assert await timed_ask(world, "one", "two") <= 0.004

    world.run(scenario())


def test_a_slow_link_adds_half_of_its_seconds_to_each_message_at_least(world: World) -> None:
    async def scenario() -> None:
        await serve(world.machine("two"))
        world.network.slow_down("one", "two", 8)
        seconds = [await timed_ask(world, "one", "two") for _ in range(50)]
        assert 8 <= min(seconds) < 10 < 14 < max(seconds) <= 16.004
        assert await timed_ask(world, "three", "two") <= 0.004

    world.run(scenario())


@pytest.mark.parametrize("fault", ["drop", "reorder", "duplicate", "reset"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "two"])
def test_inside_a_machine_no_message_is_lost_late_or_repeated(world: World, fault: str, host: str) -> None:
    served = list[bytes]()

    async def count(request: http_interface.Request) -> http_interface.Response:
        served.append(request.body)
        return http_interface.Response(200, b"")

    async def scenario() -> None:
        await serve(world.machine("two"), count)
        setattr(world.network, fault, 1.0)
        assert await timed_ask(world, "two", host) <= 0.004
        assert served == [b"hello"]

    world.run(scenario())


def test_a_machine_has_the_names_and_addresses_that_were_registered(world: World) -> None:
    world.network.register("192.0.2.2", "two")
    assert world.network.resolve("192.0.2.2", "one") == "two"
    assert world.network.resolve("two", "one") == "two"
    assert world.network.resolve("localhost", "one") == "one"
    with pytest.raises(OSError) as caught:
        world.network.resolve("192.0.2.3", "one")
    assert (caught.value.errno, caught.value.filename) == (errno.EHOSTUNREACH, "192.0.2.3")


def test_a_partition_has_the_directions_that_it_was_made_with(world: World) -> None:
    network = world.network
    network.partition("one", "two", one_way=True)
    assert (network.is_cut("one", "two"), network.is_cut("two", "one")) == (True, False)
    network.heal("two", "one")
    assert (network.is_cut("one", "two"), network.is_cut("two", "one")) == (False, False)
    network.partition("one", "two")
    network.partition("one", "three")
    assert (network.is_cut("one", "two"), network.is_cut("two", "one")) == (True, True)
    network.heal("one", "two")
    assert (network.is_cut("one", "two"), network.is_cut("one", "three")) == (False, True)


def test_a_request_that_is_served_twice_has_the_second_answer(world: World) -> None:
    numbers = iter(range(10))

    async def number(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"%d" % next(numbers))

    async def scenario() -> None:
        await serve(world.machine("two"), number)
        world.network.duplicate = 1.0
        assert (await ask(world.machine("one"), "two")).body == b"1"
        world.network.duplicate = 0.0
        assert (await ask(world.machine("one"), "two")).body == b"2"

    world.run(scenario())


def test_a_handler_answers_in_front_of_another_until_the_port_is_closed(world: World) -> None:
    def front(handler: http_interface.Handler) -> http_interface.Handler:
        async def refuse(request: http_interface.Request) -> http_interface.Response:
            own = await handler(request)
            return http_interface.Response(503, b"not " + own.body)

        return refuse

    async def scenario() -> None:
        server = await serve(world.machine("two"))
        world.network.intercept("two", PORT, front)
        response = await ask(world.machine("one"), "two")
        assert (response.status, response.body) == (503, b"not hello")
        await server.close()
        await serve(world.machine("two"))
        assert (await ask(world.machine("one"), "two")).status == 200

    world.run(scenario())


def test_the_server_of_a_daemon_that_was_killed_does_not_close_the_port_of_the_next(world: World) -> None:
    two = world.machine("two")

    async def scenario() -> None:
        before = await two.spawn(serve(two))
        world.kill("two")
        await two.spawn(serve(two))
        await before.close()
        assert (await ask(world.machine("one"), "two")).body == b"hello"

    world.run(scenario())


def test_the_failure_of_a_handler_is_reported_and_answered(world: World) -> None:
    reports, answered = list[tuple[object, object]](), list[bytes]()
    failure = ValueError("no")

    async def fail(request: http_interface.Request) -> http_interface.Response:
        raise failure

    async def scenario() -> None:
        world.loop.set_exception_handler(lambda _, about: reports.append((about["message"], about["exception"])))
        await serve(world.machine("two"), fail)
        world.network.on_arrival = lambda *_: answered.append
        assert (await ask(world.machine("one"), "two")).status == 500

    world.run(scenario())
    assert reports == [("the handler of two:1811 failed", failure)]
    assert answered == []


def test_a_request_continues_at_the_server_when_its_client_gives_up(world: World) -> None:
    events = list[str]()

    async def slow(request: http_interface.Request) -> http_interface.Response:
        await world.clock.sleep(5)
        events.append("served")
        return http_interface.Response(200, b"")

    async def scenario() -> None:
        await serve(world.machine("two"), slow)
        with pytest.raises(TimeoutError):
            await ask(world.machine("one"), "two", timeout=1)
        events.append("gave up")
        await world.clock.sleep(10)

    world.run(scenario())
    assert events == ["gave up", "served"]


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_server_that_ends_during_a_request_resets_the_connection(world: World, end: str) -> None:
    two = world.machine("two")
    reports, answered = list[dict[str, object]](), list[bytes]()

    async def hang(request: http_interface.Request) -> http_interface.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def scenario() -> None:
        world.loop.set_exception_handler(lambda _, context: reports.append(context))
        world.network.on_arrival = lambda *_: answered.append
        server = await two.spawn(serve(two, hang))
        asking = asyncio.ensure_future(ask(world.machine("one"), "two"))
        await world.clock.sleep(1)
        if end == "close":
            await server.close()
        else:
            world.kill("two")
        with pytest.raises(ConnectionResetError, match="two:1811 ended the connection"):
            await asking
        with pytest.raises(ConnectionRefusedError, match="two:1811 refused the connection"):
            await ask(world.machine("one"), "two")

    world.run(scenario())
    assert (reports, answered) == ([], [])


def test_the_failure_of_a_body_that_no_client_waits_for_is_not_reported(world: World) -> None:
    reports = list[dict[str, object]]()
    ended = list[str]()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"first"
        await world.clock.sleep(1)
        ended.append("pieces")
        raise ConnectionResetError("the disk is gone")

    async def handler(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=pieces())

    async def scenario() -> None:
        world.loop.set_exception_handler(lambda _, context: reports.append(context))
        await serve(world.machine("two"), handler)
        world.network.partition("two", "one", one_way=True)
        with pytest.raises(TimeoutError):
            await world.machine("one").network.http_client(tls=None).stream("two", PORT, "/", timeout=5)

    world.run(scenario())
    gc.collect()
    assert (ended, reports) == (["pieces"], [])


def test_the_body_of_an_answer_ends_at_the_server_when_its_client_closes_it(world: World) -> None:
    ended = list[float]()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"piece"
                await world.clock.sleep(100)
        finally:
            ended.append(world.clock.monotonic())

    async def handler(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"", pieces=pieces())

    async def scenario() -> None:
        await serve(world.machine("two"), handler)
        answer = await world.machine("one").network.http_client(tls=None).stream("two", PORT, "/", timeout=5)
        assert answer.pieces
        assert await anext(answer.pieces) == b"piece"
        await world.clock.sleep(5)
        assert ended == []
        await answer.pieces.aclose()
        await world.clock.sleep(1)

    world.run(scenario())
    assert ended == [pytest.approx(5, abs=0.1)]
