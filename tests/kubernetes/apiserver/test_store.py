import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests import ports
from tests.cluster import lab
from tests.kubernetes.apiserver import api

from gantry import errors
from gantry.kubernetes.apiserver import store, watch_cache
from gantry.runtime import real
from gantry.runtime.real import disk

TITLE = "secrets"


def _secret(name: str, **more: object) -> api.Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "n", "uid": name}, **more}


def _key(name: str) -> watch_cache.Key:
    return watch_cache.Key(TITLE, "n", name)


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[store.Store]:
    new_store = store.Store(real.RealRuntime(), str(folder))
    await new_store.open()
    try:
        yield new_store
    finally:
        await new_store.close()


async def test_what_was_stored_is_there_again_with_its_version(tmp_path: Path) -> None:
    async with _opened(tmp_path) as opened_store:
        kept = await opened_store.put(TITLE, _secret("a", data={"x": "y"}))
        await opened_store.put(TITLE, _secret("b"))
        await opened_store.remove(TITLE, _secret("b"))
        last = opened_store.version
    async with _opened(tmp_path) as again:
        assert again.get(_key("a")) == kept
        assert (again.get(_key("b")), again.version) == (None, last)
        assert (await again.put(TITLE, _secret("c"))).version == last + 1


async def test_writes_that_wait_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = 0
    append = disk.AppendFile.append

    async def counted(file: disk.AppendFile, data: bytes) -> None:
        nonlocal syncs
        syncs += 1
        await append(file, data)

    async with _opened(tmp_path) as opened_store:
        monkeypatch.setattr(disk.AppendFile, "append", counted)
        versions = await asyncio.gather(*(opened_store.put(TITLE, _secret(f"s{number}")) for number in range(200)))
        assert [item.version for item in versions] == list(range(1, 201))
        assert 1 <= syncs <= 5


async def test_a_bug_that_ends_the_writer_leaves_no_request_waiting(tmp_path: Path) -> None:
    def broken(event: watch_cache.Event) -> None:
        raise KeyError(event.item.key)

    async with _opened(tmp_path) as opened_store:
        await opened_store.put(TITLE, _secret("a"))
        opened_store.observer = broken
        tasks = [asyncio.create_task(opened_store.put(TITLE, _secret(name))) for name in ("b", "c")]
        for failed in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(failed, errors.InternalError)
        assert not opened_store.is_writable
        with pytest.raises(errors.InternalError, match="no longer written"):
            await opened_store.remove(TITLE, _secret("a"))
    async with _opened(tmp_path) as again:
        assert again.get(_key("a"))


async def test_a_torn_end_is_cut_off_and_damage_stops_the_server(tmp_path: Path) -> None:
    path = tmp_path / "objects.log"
    async with _opened(tmp_path) as opened_store:
        await opened_store.put(TITLE, _secret("a"))
        whole = path.read_bytes()
        await opened_store.put(TITLE, _secret("b"))
    path.write_bytes(path.read_bytes()[:-5])
    async with _opened(tmp_path) as again:
        assert (again.get(_key("a")) is None, again.get(_key("b"))) == (False, None)
        await again.put(TITLE, _secret("c"))
    async with _opened(tmp_path) as again:
        assert again.get(_key("c")) is not None
    assert path.read_bytes().startswith(whole)
    damaged = bytearray(path.read_bytes())
    damaged[len(whole) - 20] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(errors.ConfigurationError, match=r"objects.log is damaged at byte offset \d+"):
        async with _opened(tmp_path):
            pass


async def test_a_long_file_is_replaced_by_a_shorter_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "COMPACT_BYTES", 20_000)
    sizes = []
    async with _opened(tmp_path) as opened_store:
        await opened_store.put(TITLE, _secret("still"))
        for number in range(400):
            await opened_store.put(TITLE, _secret("a", data={"n": str(number)}))
            sizes.append((tmp_path / "objects.log").stat().st_size)
    assert max(sizes) < 25_000
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes))
    async with _opened(tmp_path) as again:
        stored = again.get(_key("a"))
        assert stored
        assert (stored.version, again.version, again.get(_key("still")) is None) == (401, 401, False)
        with pytest.raises(Exception, match="too old resource version"):
            again.collection(TITLE).since(1)
        await again.put(TITLE, _secret("b"))


async def test_a_write_that_fails_is_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _opened(tmp_path) as opened_store:
        first = await opened_store.put(TITLE, _secret("a"))
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", _full)
            both = await asyncio.gather(
                opened_store.put(TITLE, _secret("a", data={"x": "y"})),
                opened_store.put(TITLE, _secret("b")),
                return_exceptions=True,
            )
        assert all(isinstance(error, errors.StorageError) for error in both)
        assert (opened_store.current(_key("a")), opened_store.current(_key("b"))) == (first, None)
        await opened_store.put(TITLE, _secret("b"))
    async with _opened(tmp_path) as again:
        assert (again.get(_key("a")), again.get(_key("b")) is None) == (first, False)


def _full(descriptor: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


async def test_a_folder_has_one_server(tmp_path: Path) -> None:
    async with _opened(tmp_path):
        with pytest.raises(errors.BusyError, match="another server is using the directory"):
            async with _opened(tmp_path):
                pass


@asynccontextmanager
async def _program(folder: Path, port: int) -> AsyncIterator[subprocess.Popen[bytes]]:
    arguments = ["serve", "--data", str(folder), "--port", str(port), "--no-ssl", "--no-controllers"]
    running = subprocess.Popen([sys.executable, "-m", "gantry.daemons.kube", *arguments])  # noqa: ASYNC220
    try:
        async with asyncio.timeout(api.TIMEOUT):
            while not lab.listens(port):
                assert running.poll() is None
                await asyncio.sleep(0.05)
        yield running
    finally:
        running.kill()
        running.wait()


async def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    port = ports.free()
    answered: list[str] = []

    async def write(session: aiohttp.ClientSession, worker: int) -> None:
        for number in range(10_000):
            name = f"s-{worker}-{number}"
            body = {"metadata": {"name": name}}
            async with session.post(f"http://127.0.0.1:{port}{api.SECRETS}", json=body) as answer:
                if answer.status == 201:
                    answered.append(name)

    for rounds in range(3):
        async with _program(tmp_path, port) as running:
            token = (tmp_path / "tokens").read_text().partition(",")[0]
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
                async with session.get(f"http://127.0.0.1:{port}{api.SECRETS}") as answer:
                    listed = api.Answer(answer.status, await answer.json()).names
                assert set(answered) <= set(listed)
                assert len(listed) <= len(answered) + rounds * 4
                writing = [asyncio.create_task(write(session, 4 * rounds + worker)) for worker in range(4)]
                before = len(answered)
                async with asyncio.timeout(api.TIMEOUT):
                    while len(answered) < before + 50:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                running.send_signal(signal.SIGKILL)
                gone = await asyncio.gather(*writing, return_exceptions=True)
                assert all(isinstance(error, aiohttp.ClientError) for error in gone)
