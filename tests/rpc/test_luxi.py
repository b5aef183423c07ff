"""The client side of the master's protocol: connections that are kept, and a master that restarts."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest

from gantry import errors
from gantry.rpc import luxi
from gantry.runtime import bytestream, interface
from gantry.runtime.real import RealRuntime


class Master:
    """Answers each method with its first argument; ``Late`` waits until the test lets it continue."""

    def __init__(self, runtime: interface.Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._server: interface.Server | None = None
        self.connections = 0
        self.refusals = 0
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def start(self) -> None:
        self._server = await self._runtime.network.serve_unix(self._path, self._serve, mode=0o600, limit=1 << 20)

    async def stop(self) -> None:
        assert self._server
        await self._server.close()

    async def _serve(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                request = msgspec.json.decode((await reader.readuntil(luxi.ETX))[:-1])
                if request["method"] == "Late":
                    self.asked.set()
                    await self.go_on.wait()
                if self.refusals:
                    self.refusals -= 1
                    reason = errors.BusyError("too many connections").luxi_pair()
                    refusal = {"success": False, "result": reason, "retry_after": 1}
                    writer.write(msgspec.json.encode(refusal) + luxi.ETX)
                    return
                answer = {"success": request["method"] != "Fail", "result": request["args"][0]}
                writer.write(msgspec.json.encode(answer) + luxi.ETX)
                await writer.drain()


@pytest.fixture
async def master(tmp_path: Path) -> Master:
    daemon = Master(RealRuntime(), str(tmp_path / "m.sock"))
    await daemon.start()
    return daemon


@pytest.fixture
def pool(master: Master, tmp_path: Path) -> luxi.Pool:
    return luxi.Pool(RealRuntime().network, str(tmp_path / "m.sock"))


async def test_one_caller_after_the_other_uses_one_connection(master: Master, pool: luxi.Pool) -> None:
    assert [await pool.call(int, "Echo", number) for number in range(5)] == [0, 1, 2, 3, 4]
    assert master.connections == 1


async def test_callers_at_one_time_do_not_wait_for_each_other(master: Master, pool: luxi.Pool) -> None:
    late = asyncio.create_task(pool.call(str, "Late", "late"))
    assert await pool.call(str, "Echo", "soon") == "soon"
    master.go_on.set()
    assert await late == "late"
    assert master.connections == 2


async def test_a_failure_of_the_master_leaves_the_connection_usable(master: Master, pool: luxi.Pool) -> None:
    with pytest.raises(errors.NotFoundError, match="no such thing"):
        await pool.call(int, "Fail", ["OpPrereqError", ["no such thing", "unknown_entity"]])
    assert await pool.call(int, "Echo", 7) == 7
    assert master.connections == 1


async def test_a_restarted_master_is_reached_at_once(master: Master, pool: luxi.Pool) -> None:
    assert await pool.call(int, "Echo", 1) == 1
    await master.stop()
    with pytest.raises(errors.RemoteError, match="does not answer"):
        await pool.call(int, "Echo", 2)
    await master.start()
    assert await pool.call(int, "Echo", 3) == 3


async def test_a_caller_that_gives_up_leaves_no_answer_to_the_next(master: Master, pool: luxi.Pool) -> None:
    late = asyncio.create_task(pool.call(str, "Late", "late"))
    await asyncio.wait_for(master.asked.wait(), 60)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    master.go_on.set()
    assert await pool.call(str, "Echo", "mine") == "mine"


async def test_two_thousand_calls_at_once_take_turns_on_the_connections_of_the_pool(
    master: Master, pool: luxi.Pool
) -> None:
    numbers = await asyncio.gather(*(pool.call(int, "Echo", number) for number in range(2000)))
    assert numbers == list(range(2000))
    assert master.connections <= luxi.CONNECTIONS


async def test_a_master_with_too_many_connections_is_asked_again(master: Master, pool: luxi.Pool) -> None:
    master.refusals = 1
    assert await pool.call(int, "Echo", 5) == 5
    assert master.connections == 2


async def test_a_master_that_always_has_too_many_connections_is_busy(
    master: Master, pool: luxi.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(luxi, "BUSY_SECONDS", 0.0)
    master.refusals = 10
    with pytest.raises(errors.GantryError, match="too many connections"):
        await pool.call(int, "Echo", 5)
