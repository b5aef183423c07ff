"""Run a check on both runtimes: ``drive(check)`` calls the check with a runtime and an empty folder."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable

import pytest
from tests import ports

from gantry.runtime import commands, interface
from gantry.runtime.real import RealRuntime
from gantry.runtime.simulated import World, processes

Check = Callable[[interface.Runtime, str], Awaitable[None]]


async def _program(call: processes.Invocation) -> commands.Completed:
    """Behave as /bin/cat, /bin/sleep or /bin/sh do in the checks."""
    if call.arguments[0] == "/bin/cat":
        return commands.Completed(0, call.stdin, b"")
    if call.arguments[0] == "/bin/sleep":
        await asyncio.sleep(600)
    return commands.Completed(3, call.environment.get("WORD", "").encode() + b"\n", b"bad\n")


async def _connected(call: processes.Invocation) -> commands.Completed:
    """Behave as the connected /bin/bash scripts of the checks do."""
    assert call.connection
    reader, writer = call.connection
    writer.write(b"begin\n")
    try:
        if "trap" in call.arguments[-1]:
            await asyncio.sleep(600)
        if word := (await reader.readline()).strip():
            writer.write(word + b" again\n")
    except asyncio.CancelledError:
        writer.write(b"last\n")
        raise
    return commands.Completed(5, b"", b"")


def _on_real(check: Check) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:  # short: a socket's path ends at 107 bytes
            await check(RealRuntime(), folder)

    asyncio.run(main())


def _on_simulated(check: Check) -> None:
    with World(seed=1) as world:
        machine = world.machine("node1")
        machine.processes.programs |= dict.fromkeys(("/bin/cat", "/bin/sleep", "/bin/sh"), _program)
        machine.processes.programs["/bin/bash"] = _connected
        world.run(machine.disk.make_directory("/t"))

        async def main() -> None:
            await check(machine, "/t")

        world.run(main())


@pytest.fixture(params=["real", "simulated"])
def drive(request: pytest.FixtureRequest) -> Callable[[Check], None]:
    return _on_real if request.param == "real" else _on_simulated


@pytest.fixture
def port() -> int:
    return ports.free()
