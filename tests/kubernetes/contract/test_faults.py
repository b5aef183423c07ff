"""Pools and claims under faults: killed servers and controllers, broken watches, failing requests."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, namespace, programs, proxy


@pytest.fixture
async def between(entrance: backends.Entrance) -> AsyncIterator[proxy.Proxy]:
    async with proxy.proxy(entrance) as running_proxy:
        yield running_proxy


@pytest.fixture
def kubeconfig(between: proxy.Proxy, kube: namespace.Namespace, tmp_path: Path) -> Path:
    """The kubeconfig of the proxy."""
    return programs.kubeconfig(tmp_path / "kubeconfig", between.url, namespace=kube.name)


@pytest.fixture
def program(kubeconfig: Path, kube: namespace.Namespace, tmp_path: Path) -> Iterator[programs.Program]:
    """Controllers of the test's namespace, not started."""
    started = programs.Program(kubeconfig, tmp_path, ("--no-leader-elect", "--namespace", kube.name))
    yield started
    started.kill()


async def _ready(kube: namespace.Namespace, *programs_started: programs.Program) -> None:
    async def all_are() -> bool:
        return all([await asyncio.to_thread(lambda replica: replica.is_ready, replica) for replica in programs_started])

    await kube.until(all_are)


async def _nothing_twice(kube: namespace.Namespace) -> list[str]:
    allocated = await kube.allocated_addresses()
    assert len(set(allocated)) == len(allocated), allocated
    return allocated


async def _released(kube: namespace.Namespace) -> None:
    """Delete all claims, and wait until they are gone."""
    for collection in (kube.claims, kube.capi_claims):
        for name in (await kube.get(collection)).names:
            await kube.delete(f"{collection}/{name}")
    await kube.empty(kube.claims, kube.capi_claims, kube.addresses, kube.capi_addresses)


async def test_claims_are_served_whatever_the_server_is_killed_amidst(
    backend: backends.Backend, kube: namespace.Namespace, program: programs.Program
) -> None:
    names = [f"c{number}" for number in range(24)]
    await kube.put(api.pool(pools=[{"subnet": "10.0.0.0/27"}]))
    program.start()
    await _ready(kube, program)

    async def ask(name: str) -> None:
        """Create a claim, with retries."""
        while True:
            try:
                if (await kube.create(namespace.claim(name))).status in (201, 409):
                    return
            except (OSError, aiohttp.ClientError):
                pass
            await asyncio.sleep(0.05)

    async def ask_for_all() -> None:
        for name in names:
            await ask(name)
            await asyncio.sleep(0.02)

    asking = asyncio.ensure_future(ask_for_all())
    for _ in range(3):
        await asyncio.sleep(random.uniform(0.1, 0.5))
        backend.kill()
        await asyncio.sleep(0.3)
        # In this thread: a server may end with the one that has started it.
        backend.start()
    await asking
    addresses = await kube.bound(*names)
    assert sorted(addresses) == await _nothing_twice(kube)
    await _released(kube)
    program.stop()


async def test_what_happens_while_watches_are_cut_is_seen(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    await kube.put(namespace.pool())
    program.start()
    await _ready(kube, program)
    for number in range(4):

        async def watched() -> bool:
            return between.watches >= 3

        await kube.until(watched)
        assert between.cut() >= 3
        await kube.put(namespace.claim(f"c{number}"))
    await kube.bound(*(f"c{number}" for number in range(4)))
    await _released(kube)
    program.stop()


def _sometimes(chance: random.Random, share: float) -> proxy.Fault:
    """Answer some of the requests with errors of an overloaded server."""
    answers: list[Callable[[], web.Response]] = [
        lambda: proxy.refused(409, "Conflict"),
        lambda: proxy.refused(410, "Expired"),
        lambda: proxy.refused(429, "TooManyRequests", **{"Retry-After": "1"}),
        lambda: proxy.refused(500, "InternalError"),
        lambda: web.Response(status=502, text="<html>", content_type="text/html"),
    ]
    return lambda _: chance.choice(answers)() if chance.random() < share else None


async def test_what_came_and_went_while_versions_were_forgotten_is_noticed(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    await kube.put(namespace.pool("pool-1", ("10.0.0.1", "10.0.0.1")), api.address("by-hand", "10.0.0.1"))
    await kube.put(namespace.claim("waits"))
    program.start()
    await kube.wait_for_message("waits", "Exhausted")
    between.fault = lambda _: proxy.refused(500, "InternalError")
    between.cut()
    await kube.delete(f"{kube.addresses}/by-hand")
    await kube.put(namespace.pool("new", ("10.0.9.1", "10.0.9.1")), namespace.claim("late", of="new"))
    forgotten = 0

    def forget(request: web.Request) -> web.Response | None:
        nonlocal forgotten
        if "watch=true" not in request.path_qs or forgotten >= 20:
            return None
        forgotten += 1
        return proxy.refused(410, "Expired")

    between.fault = forget
    assert await kube.bound("waits", "late") == ["10.0.0.1", "10.0.9.1"]
    assert forgotten > 0
    await _released(kube)
    program.stop()


@pytest.mark.slow
async def test_claims_are_served_though_requests_fail_and_their_answers_get_lost(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    chance = random.Random(kube.name)
    between.fault, between.after = _sometimes(chance, 0.15), _sometimes(chance, 0.1)
    names = [f"c{number}" for number in range(8)]
    await kube.put(api.pool(pools=[{"subnet": "10.0.0.0/28"}]), namespace.capi_claim("other"))
    program.start()
    for name in names:
        await kube.put(namespace.claim(name))
        await asyncio.sleep(0.1)
        between.cut()
    addresses = [*await kube.bound(*names), *await kube.bound("other", kind="IPAddressClaim")]
    assert sorted(addresses) == await _nothing_twice(kube)
    await _released(kube)
    between.fault = between.after = lambda _: None
    program.stop()


@pytest.mark.promise("claims-45")
@pytest.mark.slow
async def test_controllers_that_are_killed_at_every_write_lose_and_leave_nothing(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    kills = 0
    program.options += ("--concurrency", "1")

    def kill(request: web.Request) -> web.Response | None:
        nonlocal kills
        if not proxy.writes(request):
            return None
        kills += 1
        program.kill()
        return proxy.refused(500, "InternalError")

    async def live() -> None:
        while True:
            if program.running is None:
                program.start()
            await asyncio.sleep(0.02)

    # Each write is lost once, and then done without anybody hearing of it.
    between.fault = lambda request: kill(request) if kills % 2 == 0 else None
    between.after = kill
    await kube.put(namespace.pool(), namespace.claim("one"), namespace.capi_claim("two"))
    living = asyncio.ensure_future(live())
    try:
        addresses = [*await kube.bound("one"), *await kube.bound("two", kind="IPAddressClaim")]
        assert sorted(addresses) == await _nothing_twice(kube) == ["10.0.0.1", "10.0.0.2"]
        assert kills >= 12
        await _released(kube)
        assert kills >= 24
    finally:
        living.cancel()


@pytest.mark.promise("claims-43")
async def test_a_conflict_is_logged_and_the_claim_is_reconciled_again(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    conflicts = 0

    def conflict(request: web.Request) -> web.Response | None:
        """Refuse the first address, as a server does on which another writer was faster."""
        nonlocal conflicts
        if request.method != "POST" or not request.path.endswith("/ipaddresses") or conflicts:
            return None
        conflicts += 1
        return proxy.refused(409, "AlreadyExists")

    between.fault = conflict
    await kube.put(namespace.pool(), namespace.claim("one"))
    program.start()
    await kube.bound("one")
    assert conflicts == 1
    conflict_line = f"IPAddress {kube.name}/pool-1-10-0-0-1 for IPClaim {kube.name}/one already exists"
    assert conflict_line in (program.folder / "log").read_text()
    await _released(kube)
    program.stop()


@pytest.mark.promise("claims-48")
async def test_claims_are_served_while_no_status_of_a_pool_can_be_written_and_pools_while_no_claim_can(
    kube: namespace.Namespace, between: proxy.Proxy, program: programs.Program
) -> None:
    def fail(collection: str) -> proxy.Fault:
        def fault(request: web.Request) -> web.Response | None:
            return proxy.refused(500, "InternalError") if proxy.writes(request) and collection in request.path else None

        return fault

    # The pool itself must be writable: no address is allocated before its finalizer keeps it.
    between.fault = fail("/ippools/pool-1/status")
    await kube.put(namespace.pool(), namespace.claim("one"))
    program.start()
    assert await kube.bound("one") == ["10.0.0.1"]
    assert (await kube.get(kube.pool)).at("status.indexes") is None
    between.fault = fail("/ipclaims/")
    await kube.put(namespace.claim("two"))

    async def displayed() -> bool:
        pool = await kube.get(kube.pool)
        return (pool.at("status.waiting"), pool.at("status.indexes")) == (1, {"one": "10.0.0.1"})

    await kube.until(displayed)
    assert await kube.address_of("two") == ""
    between.fault = lambda _: None
    assert await kube.bound("two") == ["10.0.0.2"]
    await _released(kube)
    program.stop()


@pytest.mark.slow
async def test_of_two_controllers_one_works_and_the_other_takes_over(
    kube: namespace.Namespace, kubeconfig: Path, tmp_path: Path
) -> None:
    """Within 15 seconds, as ``tests/kubernetes/controllers`` tells by a clock that no other program slows down."""
    both = [programs.Program(kubeconfig, tmp_path, ("--namespace", kube.name)) for _ in range(2)]
    try:
        for replica in both:
            replica.start()
        await _ready(kube, *both)
        await kube.put(namespace.pool(), namespace.claim("one"))
        await kube.bound("one")
        leading: list[programs.Program] = []

        async def one_leads() -> bool:
            # A replica that got no time to renew its lease stops leading until it has taken the lease again.
            leads = [await asyncio.to_thread(lambda replica: replica.leads, replica) for replica in both]
            leading[:] = itertools.compress(both, leads)
            return len(leading) == 1

        await kube.until(one_leads)
        leading[0].kill()
        await kube.put(namespace.claim("two"))
        assert await kube.bound("two") == ["10.0.0.2"]
        (other,) = [replica for replica in both if replica is not leading[0]]
        assert await asyncio.to_thread(lambda: other.leads)
        leading[0].start()
        await _ready(kube, leading[0])
        await asyncio.to_thread(other.stop)
        await kube.put(namespace.claim("three"))
        assert await kube.bound("three") == ["10.0.0.3"]
    finally:
        for replica in both:
            replica.kill()
