"""What code of a machine that has ended may still do: nothing."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gantry.runtime import bytestream, commands, file_interface, http_interface
from gantry.runtime.simulated import SimulatedRuntime, World, processes


@dataclass(frozen=True)
class Opened:
    """What a daemon has opened before its machine ends."""

    runtime: SimulatedRuntime
    file: file_interface.AppendFile
    writer: bytestream.Writer
    entrance: bytestream.Entrance
    other_entrance: bytestream.Entrance
    pid: int


async def idle(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    await reader.read()


async def answer(request: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b"")


async def program(call: processes.Invocation) -> commands.Completed:
    return commands.Completed(0, b"", b"")


async def forever(call: processes.Invocation) -> commands.Completed:
    await asyncio.Event().wait()
    raise AssertionError


async def open_all(world: World) -> Opened:
    machine, other = world.machine("a"), world.machine("b")
    machine.processes.programs |= {"/bin/true": program, "/bin/forever": forever}
    machine.disk.generated["/proc/stat"] = lambda: b"cpu"
    await other.network.serve_http("", 80, answer, tls=None, body_limit=100)
    await machine.network.serve_unix("/sock", idle, mode=0o600, limit=100)
    _, writer = await machine.network.connect_unix("/sock", limit=100)
    entrance = await machine.network.listen_once("", token="", tls=None, limit=100)
    return Opened(
        runtime=machine,
        file=await machine.disk.append_file("/journal"),
        writer=writer,
        entrance=entrance,
        other_entrance=await other.network.listen_once("", token="", tls=None, limit=100),
        pid=await machine.processes.start(["/bin/forever"], environment=None, log="/log"),
    )


USES: dict[str, Callable[[Opened], object]] = {
    "sleep": lambda opened: opened.runtime.clock.sleep(1),
    "compute": lambda opened: opened.runtime.compute(lambda: b""),
    "block": lambda opened: opened.runtime.block(lambda: None),
    "exists": lambda opened: opened.runtime.disk.exists("/journal"),
    "status": lambda opened: opened.runtime.disk.status("/journal"),
    "read": lambda opened: opened.runtime.disk.read("/journal"),
    "read a generated file": lambda opened: opened.runtime.disk.read("/proc/stat"),
    "lock": lambda opened: opened.runtime.disk.lock("/new"),
    "write": lambda opened: opened.runtime.disk.write("/new", b""),
    "append": lambda opened: opened.file.append(b"data"),
    "truncate": lambda opened: opened.file.truncate(0),
    "run": lambda opened: opened.runtime.processes.run(["/bin/true"]),
    "start": lambda opened: opened.runtime.processes.start(["/bin/true"], environment=None, log="/new"),
    "alive": lambda opened: opened.runtime.processes.alive(opened.pid),
    "command line": lambda opened: opened.runtime.processes.command_line(opened.pid),
    "signal": lambda opened: opened.runtime.processes.signal(opened.pid, 15),
    "track": lambda opened: opened.runtime.processes.track("/run"),
    "request": lambda opened: opened.runtime.network.http_client(tls=None).post("b", 80, "/", b"", timeout=9),
    "serve HTTP": lambda opened: opened.runtime.network.serve_http("", 80, answer, tls=None, body_limit=9),
    "serve a socket": lambda opened: opened.runtime.network.serve_unix("/new", idle, mode=0o600, limit=9),
    "connect to a socket": lambda opened: opened.runtime.network.connect_unix("/sock", limit=9),
    "connect to a port": lambda opened: opened.runtime.network.connect_port(
        "b", opened.other_entrance.port, tls=None, limit=9
    ),
    "listen once": lambda opened: opened.runtime.network.listen_once("", token="t", tls=None, limit=9),
    "accept": lambda opened: opened.entrance.accept(timeout=9),
    "write to a stream": lambda opened: opened.writer.write(b"data"),
    "drain": lambda opened: opened.writer.drain(),
}


@pytest.mark.parametrize("use", USES)
def test_code_of_a_machine_that_has_ended_cannot_use_the_runtime(use: str) -> None:
    passed, refused, pids = list[str](), list[float](), list[int]()

    async def daemon(world: World) -> None:
        opened = await open_all(world)
        pids.append(opened.pid)
        try:
            await asyncio.Event().wait()
        finally:
            try:
                result = USES[use](opened)
                if inspect.isawaitable(result):
                    await result
                passed.append(use)
            except asyncio.CancelledError:
                refused.append(world.clock.monotonic())
                raise

    async def scenario(world: World) -> None:
        task = world.machine("a").spawn(daemon(world))
        await world.clock.sleep(1)
        names = world.machine("a").disk.names("/")
        world.kill("a")
        await asyncio.wait([task])
        assert task.cancelled()
        assert world.machine("a").disk.names("/") == names
        assert world.machine("a").processes.alive(pids[0])

    with World(seed=1) as world:
        world.run(scenario(world))
    assert (passed, refused) == ([], [1.0])
