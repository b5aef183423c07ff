"""The reported progress of a migration, against a stand-in for QEMU's control connection."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec
import pytest

from gantry.node.hypervisors.kvm import guest_records, migration
from gantry.runtime import bytestream, paths
from gantry.runtime.real import RealRuntime

ENDED = {"status": "completed", "ram": {"transferred": 9, "total": 10}}


@asynccontextmanager
async def qemu(folders: paths.Paths, migrating: object, states: Iterable[str]) -> AsyncIterator[migration.Migration]:
    """Answer how the migration is, always the same, and what the guest does: the next of ``states``, then the last."""
    runtime, remaining_states = RealRuntime(), iter(states)
    known = guest_records.Guests(runtime, folders.run)
    state = ""

    def answer(command: str) -> object:
        nonlocal state
        if command == "query-status":
            state = next(remaining_states, state)
            return {"status": state, "running": state == "running"}
        return migrating if command == "query-migrate" else {}

    async def serve(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        writer.write(b'{"QMP": {"version": {}, "capabilities": []}}\r\n')
        try:
            while True:
                request = msgspec.json.decode(await reader.readuntil(b"\n"), type=dict[str, object])
                message = {"return": answer(str(request["execute"])), "id": request["id"]}
                writer.write(msgspec.json.encode(message) + b"\r\n")
        except asyncio.IncompleteReadError:
            return

    os.makedirs(known.files("vm1").folder)
    server = await runtime.network.serve_unix(known.files("vm1").control, serve, mode=0o600, limit=1 << 20)
    try:
        yield migration.Migration(runtime, known)
    finally:
        await server.close()


async def test_a_guest_that_is_just_leaving_is_waited_for(folders: paths.Paths) -> None:
    async with qemu(folders, ENDED, ["finish-migrate", "finish-migrate", "postmigrate"]) as moving:
        assert (await moving.status("vm1")).status == "active"
        assert (await moving.status("vm1", wait=60)).status == "completed"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param("postmigrate", "completed", id="it stands still since it has left"),
        pytest.param("running", "none", id="that was how it came here"),
        pytest.param("paused", "none", id="it came here, and was paused since"),
    ],
)
async def test_what_the_end_of_a_migration_means_depends_on_what_the_guest_does(
    state: str, expected: str, folders: paths.Paths
) -> None:
    async with qemu(folders, ENDED, [state]) as moving:
        assert (await moving.status("vm1", wait=60)).status == expected
