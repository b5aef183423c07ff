"""The control connection, against something that talks like QEMU, or does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from gantry import errors
from gantry.node.hypervisors.kvm import qmp
from gantry.runtime import bytestream, paths
from gantry.runtime.real import RealRuntime

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\r\n'
READY = b'{"return": {}}\r\n'


class Request(msgspec.Struct):
    """The part of a command that its answer repeats."""

    id: str


@asynccontextmanager
async def qemu(folders: paths.Paths, *lines: bytes, greeting: bytes = GREETING) -> AsyncIterator[qmp.Connection]:
    """Greet, answer the negotiation, then each command with the next of ``lines``; hang up when there is none.

    An answer without an ID gets that of the command.
    """

    async def serve(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        writer.write(greeting)
        try:
            for answer in (READY, *lines):
                request = msgspec.json.decode(await reader.readuntil(b"\n"), type=Request)
                writer.write(b"".join(identified(line, request.id) for line in answer.splitlines()))
            await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return

    runtime = RealRuntime()
    path = f"{folders.run}/q"
    server = await runtime.network.serve_unix(path, serve, mode=0o600, limit=1 << 20)
    try:
        async with await qmp.connect(runtime, path, guest="vm1") as connection:
            yield connection
    finally:
        await server.close()


def identified(line: bytes, request_id: str) -> bytes:
    message = msgspec.json.decode(line, type=dict[str, object])
    return msgspec.json.encode(({} if "event" in message else {"id": request_id}) | message) + b"\r\n"


async def test_a_command_returns_its_result_though_events_come_between(folders: paths.Paths) -> None:
    events = b'{"event": "RTC_CHANGE", "timestamp": {}}\r\n{"event": "RESET"}\r\n'
    answer = b'{"return": {"status": "paused", "running": false}}\r\n'
    async with qemu(folders, events + answer) as control:
        assert (await control.status()).status == "paused"
        assert await control.event({"RESET"}) == "RESET"


async def test_an_event_that_comes_later_is_waited_for(folders: paths.Paths) -> None:
    async with qemu(folders, READY + b'{"event": "STOP"}\r\n{"event": "SHUTDOWN"}\r\n') as control:
        await control.execute("system_powerdown")
        assert await control.event({"SHUTDOWN"}) == "SHUTDOWN"


async def test_the_event_of_another_device_is_not_taken_for_it(folders: paths.Paths) -> None:
    events = (
        b'{"event": "DEVICE_DELETED", "data": {"path": "/machine/peripheral/dev-a/virtio-backend"}}\r\n'
        b'{"event": "DEVICE_DELETED", "data": {"device": "dev-b", "path": "/machine/peripheral/dev-b"}}\r\n'
        b'{"event": "STOP"}\r\n{"event": "DEVICE_DELETED", "data": {"device": "dev-a"}}\r\n{"event": "RESUME"}\r\n'
    )
    async with qemu(folders, READY + events) as control:
        await control.execute("device_del", {"id": "dev-a"})
        assert await control.event({"DEVICE_DELETED"}, device="dev-a") == "DEVICE_DELETED"
        assert await control.event({"STOP", "RESUME"}) == "RESUME"


async def test_the_error_of_a_missing_device_differs_from_that_of_a_refusal(folders: paths.Paths) -> None:
    answer = b'{"error": {"class": "DeviceNotFound", "desc": "Device \'x\' not found"}}\r\n'
    async with qemu(folders, answer) as control:
        with pytest.raises(errors.NotFoundError, match="instance vm1: device_del: Device 'x' not found"):
            await control.execute("device_del", {"id": "x"})


@pytest.mark.parametrize(
    "stale",
    [
        pytest.param(b'{"return": {}, "id": "5a0e7c1c-9b38-4f9a-8f0e-2f3f4d1f3a11/1"}\r\n', id="another connection"),
        pytest.param(b'{"return": {}, "id": null}\r\n', id="a client whose requests have no ID"),
        pytest.param(b'{"error": {"class": "GenericError", "desc": "too late"}, "id": 7}\r\n', id="an error"),
        pytest.param(b'{"QMP": {"version": {}, "capabilities": []}, "id": null}\r\n', id="a second greeting"),
    ],
)
async def test_what_qemu_owes_the_client_before_is_not_taken_for_an_answer(folders: paths.Paths, stale: bytes) -> None:
    answer = b'{"return": {"status": "paused", "running": false}}\r\n'
    async with qemu(folders, stale + answer + b'{"event": "STOP"}\r\n') as control:
        assert (await control.status()).status == "paused"
        assert await control.event({"STOP"}) == "STOP"


async def test_a_refusal_says_which_instance_command_and_why(folders: paths.Paths) -> None:
    async with qemu(folders, b'{"error": {"class": "GenericError", "desc": "no such device"}}\r\n') as control:
        with pytest.raises(errors.HypervisorError, match="instance vm1: device_del: no such device"):
            await control.execute("device_del", {"id": "x"})


async def test_the_error_of_a_qemu_that_ends_differs_from_that_of_a_refusal(folders: paths.Paths) -> None:
    async with qemu(folders) as control:
        with pytest.raises(errors.HypervisorError, match="QEMU ended during quit"):
            await control.execute("quit")


@pytest.mark.parametrize("greeting", [b"220 mail.example.com ESMTP\r\n", b"[]\n", b"x" * (2 << 20)])
async def test_something_else_behind_the_socket_is_said_to_be_so(folders: paths.Paths, greeting: bytes) -> None:
    with pytest.raises(errors.HypervisorError, match="instance vm1: greeting: not QMP"):
        async with qemu(folders, greeting=greeting):
            pass
