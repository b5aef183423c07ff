"""A server on a simulated machine with power failures at any time: no acknowledged write is lost."""

import asyncio
import contextlib
from collections.abc import Coroutine

import pytest

from gantry import errors
from gantry.kubernetes.apiserver import store, watch_cache
from gantry.runtime import simulated

WRITERS = 6


def _secret(name: str, count: int) -> dict[str, object]:
    head = {"name": name, "namespace": "n", "uid": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": head, "data": {"count": str(count)}}


def _key(name: str) -> watch_cache.Key:
    return watch_cache.Key("secrets", "n", name)


async def _opened(machine: simulated.SimulatedRuntime) -> store.Store:
    opened_store = store.Store(machine, "/kube")
    await opened_store.open()
    return opened_store


@pytest.mark.parametrize("seed", range(20))
def test_no_power_cut_takes_back_what_was_answered(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "COMPACT_BYTES", 3000)
    answered: dict[str, int] = {}
    sent: dict[str, int] = {}

    async def write(objects: store.Store, name: str) -> None:
        for count in range(sent.get(name, 0) + 1, 10_000):
            sent[name] = count
            answered[name] = (await objects.put("secrets", _secret(name, count))).version

    async def work(machine: simulated.SimulatedRuntime) -> None:
        objects = await _opened(machine)
        await asyncio.gather(*(write(objects, f"s{number}") for number in range(WRITERS)))

    with simulated.World(seed) as world:
        machine, chance = world.machine("site"), world.source("when")
        last = 0
        for _ in range(4):
            machine.spawn(work(machine))
            world.run(asyncio.sleep(chance.uniform(0.0, 0.3)))
            world.crash("site")
            objects = world.run(_finished(machine))
            assert objects.version >= max(answered.values(), default=0) >= last
            last = objects.version
            for name, version in answered.items():
                stored = objects.get(_key(name))
                assert stored is not None
                assert stored.version >= version
            world.kill("site")
        assert answered


async def _finished(machine: simulated.SimulatedRuntime) -> store.Store:
    objects = await _opened(machine)
    await objects.close()
    return objects


@pytest.mark.parametrize("seed", range(20))
def test_no_failing_sync_takes_back_what_was_answered(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "COMPACT_BYTES", 1000)
    answered: dict[str, int] = {}

    async def work(machine: simulated.SimulatedRuntime) -> None:
        objects = await _opened(machine)
        machine.disk.fail_sync = 0.3
        for count in range(60):
            with contextlib.suppress(errors.StorageError):
                answered["s"] = (await objects.put("secrets", _secret("s", count))).version

    with simulated.World(seed) as world:
        machine = world.machine("site")
        world.run(_done(machine, work(machine)))
        machine.disk.fail_sync = 0.0
        world.crash("site")
        stored = world.run(_finished(machine)).get(_key("s"))
        assert stored is not None
        assert stored.version >= answered["s"]


async def _done(machine: simulated.SimulatedRuntime, work: Coroutine[object, object, None]) -> None:
    await machine.spawn(work)
