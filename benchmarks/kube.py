"""Claims end to end: a user's process, an API server and controllers, with TLS, on the machine's own disk.

First our own server with the controllers that it starts (``gantry-kube serve``): 10,000 claims on one pool; then, with
these bound, controllers by themselves, started and killed; then claims in waves of 5,000 on a pool of 5,000.
Last, controllers on the API server that the kubeconfig in ``GANTRY_BENCH_KUBECONFIG`` names, where the definitions of
``deploy/kubernetes/crd`` are installed, with fewer claims: an etcd takes some hundred writes a second, and a claim that
is released for another to be served costs six: the mark of its deletion, three to release it, two to serve.

The clocks:

    bound            from the first request of the user who makes the claims, sixteen requests at a time, to the event
                     that says to a watch of his that the last is bound, or knows why not
    served           from the moment at which he asks for the deletion of 5,000 bound claims, in one request, to the
                     event that the last of 5,000 that waited is bound: marking, releasing and serving are all in it
    after the answer the same, from the answer to that request: all are marked then, and the release has begun
    gone             from the request until the last of the deleted claims has gone
    processor time   of server and controllers together, from that moment until the last has gone
    added            from the moment at which he lets the pool grow by 5,000 addresses, which are free from then on, to
                     the event that the last of 5,000 that waited is bound
"""

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib import parse

import msgspec
from tests import ports, processes

from benchmarks.figure import Figure
from gantry.kubernetes.api import definitions, ipam, schema
from gantry.kubernetes.controllers import client, kubeconfig, metrics, rate_limit
from gantry.runtime import real as machine

CLAIMS = 10_000
WAVE = 5_000
ROUNDS = 3
REAL_CLAIMS = 1_500
REAL_WAVE = 1_000
TIMEOUT_SECONDS = 600.0
HERE = f"/apis/{ipam.API_VERSION}/namespaces/default"


class _List(msgspec.Struct):
    class Meta(msgspec.Struct, rename="camel"):
        resource_version: str = ""

    metadata: Meta
    items: list[ipam.IPClaim]


class Kubernetes:
    """An API server, controllers that can be restarted, and a user of it."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._port = ports.free()
        self.kubeconfig = os.environ.get("GANTRY_BENCH_KUBECONFIG", "")

    def serve(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start our server, and return when it listens."""
        data = self._folder / "data"
        self.kubeconfig = str(data / "kubeconfig")
        Path(self.kubeconfig).unlink(missing_ok=True)
        running = self._program("serve", "--data", str(data), "--port", str(self._port), *arguments)
        end = time.monotonic() + 60
        while not Path(self.kubeconfig).exists():
            assert time.monotonic() < end, "the server did not begin"
            time.sleep(0.05)
        return running

    def _program(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"{arguments[0]}.log").open("ab"))
        running = subprocess.Popen([sys.executable, "-m", "gantry.daemons.kube", *arguments], stderr=log)
        self._stack.callback(running.wait)
        self._stack.callback(running.kill)
        return running

    async def control(self) -> tuple[subprocess.Popen[bytes], float, float]:
        """Start controllers; return them when they lead, the seconds until they were ready, and until they led."""
        health, began = ports.free(), time.monotonic()
        where = ("--kubeconfig", self.kubeconfig, "--run-folder", str(self._folder / "run"))
        running = self._program("controllers", *where, "--bind", "127.0.0.1", "--health-port", str(health))
        await _until_answer(health, "/readyz", b"ok")
        ready = time.monotonic() - began
        await _until_answer(health, "/metrics", b"\ngantry_kube_leader 1.0\n")
        return running, ready, time.monotonic() - began

    @contextlib.asynccontextmanager
    async def user(self) -> AsyncIterator[client.Client]:
        """Yield a client that nothing holds back."""
        runtime = machine.RealRuntime()
        target = kubeconfig.from_kubeconfig(runtime, self.kubeconfig)
        tls = await kubeconfig.tls(runtime, target, folder=str(self._folder / "run"))
        limit = rate_limit.RateLimit(runtime.clock, per_second=1e6, burst=1000)
        api_client = client.Client(runtime, target, tls=tls, limit=limit, counts=metrics.Metrics())
        try:
            yield api_client
        finally:
            await api_client.close()


async def _until_answer(port: int, path: str, text: bytes) -> None:
    """Wait until controllers answer with a text; they do not listen at first."""
    http = machine.RealRuntime().network.http_client(tls=None)
    body = b""
    end = time.monotonic() + TIMEOUT_SECONDS
    try:
        while text not in body:
            assert time.monotonic() < end, f"{path} did not answer with {text!r}"
            await asyncio.sleep(0.02)
            with suppress(OSError):
                body = (await http.request("GET", "127.0.0.1", port, path, timeout=5)).body
    finally:
        await http.close()


def _end(size: int) -> str:
    return f"10.0.{size // 256}.{size % 256}"


def _pool(name: str, size: int) -> schema.Json:
    spec = {"namePrefix": name, "pools": [{"start": "10.0.0.1", "end": _end(size)}]}
    return {"apiVersion": ipam.API_VERSION, "kind": "IPPool", "metadata": {"name": name}, "spec": spec}


def _claim(pool: str, wave: str, number: int) -> schema.Json:
    metadata = {"name": f"{wave}-{number}", "labels": {"wave": wave}}
    return {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "metadata": metadata, "spec": {"pool": {"name": pool}}}


async def _each(work: Iterable[Coroutine[object, object, object]]) -> None:
    """Run all coroutines, sixteen at a time."""
    slots = asyncio.Semaphore(16)

    async def run(piece: Coroutine[object, object, object]) -> None:
        async with slots:
            await piece

    await asyncio.gather(*(run(piece) for piece in work))


class Wave:
    """Claims of one label: a user's view of them."""

    def __init__(self, user: client.Client, pool: str, name: str, size: int) -> None:
        self._user, self._pool, self._size = user, pool, size
        self._selector = parse.urlencode({"labelSelector": f"wave={name}"})
        self._name = name

    async def make(self) -> None:
        """Create the claims."""
        bodies = (_claim(self._pool, self._name, number) for number in range(self._size))
        await _each(self._user.exchange("POST", f"{HERE}/ipclaims", body) for body in bodies)

    async def listed(self) -> _List:
        answer = await self._user.exchange("GET", f"{HERE}/ipclaims?{self._selector}")
        return msgspec.json.decode(answer, type=_List)

    @contextlib.asynccontextmanager
    async def seen(self, *, refused: bool = False, gone: bool = False) -> AsyncIterator[asyncio.Task[float]]:
        """Watch; the task returns when all claims are bound, or (``refused``) have an error, or are ``gone``."""
        version = (await self.listed()).metadata.resource_version
        task = asyncio.create_task(self._watch(version, refused=refused, gone=gone))
        try:
            yield task
        finally:
            task.cancel()

    async def _watch(self, version: str, *, refused: bool, gone: bool) -> float:
        done = set()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:  # a server ends the watch of who does not keep up
                query = f"{self._selector}&watch=true&resourceVersion={version}"
                async for event in self._user.watch(f"{HERE}/ipclaims?{query}", silence=TIMEOUT_SECONDS):
                    claim = definitions.decode(bytes(event.body))
                    assert isinstance(claim, ipam.IPClaim)
                    version = claim.metadata.resource_version
                    is_bound = claim.address_name or (refused and claim.status.error_message)
                    if event.type == "DELETED" if gone else is_bound:
                        done.add(claim.metadata.name)
                    if len(done) == self._size:
                        return time.monotonic()

    async def delete(self) -> None:
        """Delete all in one request.

        A real server marks one after the other and gives up after half a minute: then it is asked again.
        """
        while True:
            try:
                await self._user.send("DELETE", f"{HERE}/ipclaims?{self._selector}", timeout=TIMEOUT_SECONDS)
                return
            except client.RefusedError as error:
                if error.http_status != 504:
                    raise


async def _check(user: client.Client) -> None:
    """Assert that no address was allocated twice."""
    bodies = msgspec.convert((await user.get(f"{HERE}/ipaddresses"))["items"], list[ipam.IPAddress])
    addresses = [(body.pool, body.spec.address) for body in bodies]
    assert len(addresses) == len(set(addresses)), "an address was allocated twice"


async def _bound(user: client.Client, pool: str, *, size: int, capacity: int) -> float:
    """Create a pool and claims on it; return the seconds until each is bound or knows why not."""
    await user.send("POST", f"{HERE}/ippools", _pool(pool, capacity))
    first, second = (Wave(user, pool, name, size // 2) for name in (f"{pool}-0", f"{pool}-1"))
    began = time.monotonic()
    async with first.seen(refused=True) as first_bound, second.seen(refused=True) as second_bound:
        await first.make()
        await second.make()
        return max(await first_bound, await second_bound) - began


async def _released(
    user: client.Client, pool: str, rounds: int, *, size: int, spent: Callable[[], float]
) -> list[tuple[float, float, float, float]]:
    """Release wave after wave of a full pool while another waits.

    Returns the seconds to served, of these after the answer, to gone, and spent.
    """
    out = []
    for number in range(rounds):
        full, waiting, later = (Wave(user, pool, f"{pool}-{number + ahead}", size) for ahead in range(3))
        assert all(claim.address_name for claim in (await full.listed()).items)
        async with waiting.seen() as served, full.seen(gone=True) as gone:
            began, before = time.monotonic(), spent()
            await full.delete()
            answered, last = time.monotonic(), await served
            out.append((last - began, last - answered, await gone - began, spent() - before))
        async with later.seen(refused=True) as bound:
            await later.make()
            await bound
    return out


async def _added(user: client.Client, pool: str, wave: Wave, *, size: int) -> float:
    """Let a pool grow; return the seconds until all that waited are bound."""
    async with wave.seen() as served:
        began = time.monotonic()
        spec = {"pools": [{"start": "10.0.0.1", "end": _end(2 * size)}]}
        await user.send("PATCH", f"{HERE}/ippools/{pool}", {"spec": spec}, content_type=client.MERGE)
        return await served - began


def _memory(running: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process, and of those that it has started, in MB."""
    lines = "".join(Path(f"/proc/{pid}/status").read_text() for pid in _family(running)).splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _processor_time(running: subprocess.Popen[bytes]) -> float:
    """Return the seconds that a process, and those that it has started, have computed."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in _family(running))
    return sum(int(ticks) for fields in stats for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def _family(running: subprocess.Popen[bytes]) -> list[int]:
    """Return the process ids of a process and of those that it has started."""
    return [running.pid, *processes.children(running.pid)]


def _kill(running: subprocess.Popen[bytes]) -> None:
    running.kill()
    running.wait()


async def _restarted(kube: Kubernetes) -> list[Figure]:
    """Measure controllers of their own on a server that has 10,000 bound claims."""
    running = kube.serve("--no-controllers")
    ready, memory, leads = [], [], []
    for _ in range(ROUNDS):
        controllers, until_ready, until_leading = await kube.control()
        ready.append(until_ready)
        leads.append(until_leading)
        memory.append(_memory(controllers))
        _kill(controllers)
    _kill(running)
    return [
        Figure(f"controllers with {CLAIMS} bound claims: start to ready", "s", ready, 10),
        Figure(f"controllers with {CLAIMS} bound claims: memory when they lead", "MB", memory, 150),
        Figure("controllers killed: others lead", "s", leads[1:], 15),
    ]


async def _embedded(kube: Kubernetes) -> list[Figure]:
    running = kube.serve()
    async with kube.user() as user:
        bound = CLAIMS / await _bound(user, "wide", size=CLAIMS, capacity=CLAIMS)
    _kill(running)
    restarted = await _restarted(kube)
    running = kube.serve()
    async with kube.user() as user:
        crowded = await _bound(user, "narrow", size=2 * WAVE, capacity=WAVE)
        spent = functools.partial(_processor_time, running)
        released = await _released(user, "narrow", ROUNDS, size=WAVE, spent=spent)
        waiting = Wave(user, "narrow", f"narrow-{ROUNDS + 1}", WAVE)
        added = await _added(user, "narrow", waiting, size=WAVE)
        await _check(user)
    memory = _memory(running)
    _kill(running)
    served, after, gone, computed = zip(*released, strict=True)
    return [
        Figure(f"claims bound, {CLAIMS} on one pool", "1/s", [bound], 40, at_least=True),
        *restarted,
        Figure(f"{2 * WAVE} claims at once on a pool of {WAVE}: all bound or told", "s", [crowded]),
        Figure(f"{WAVE} claims deleted: {WAVE} that waited bound", "s", served),
        Figure(f"{WAVE} claims deleted: {WAVE} that waited bound, after the answer", "s", after, 5),
        Figure(f"{WAVE} claims deleted: the last has gone", "s", gone),
        Figure(f"{WAVE} claims deleted: processor time", "s", computed),
        Figure(f"{WAVE} addresses added: {WAVE} that waited bound", "s", [added], 5),
        Figure("server and controllers: memory after all that", "MB", [memory]),
    ]


async def _real(kube: Kubernetes) -> list[Figure]:
    running, _, _ = await kube.control()
    async with kube.user() as user:
        bound = REAL_CLAIMS / await _bound(user, "wide", size=REAL_CLAIMS, capacity=REAL_CLAIMS)
        crowded = await _bound(user, "narrow", size=2 * REAL_WAVE, capacity=REAL_WAVE)
        spent = functools.partial(_processor_time, running)
        ((served, _, gone, _),) = await _released(user, "narrow", 1, size=REAL_WAVE, spent=spent)
        await _check(user)
    return [
        Figure(f"real server: claims bound, {REAL_CLAIMS} on one pool", "1/s", [bound], 40, at_least=True),
        Figure(f"real server: {2 * REAL_WAVE} claims at once on a pool of {REAL_WAVE}: bound or told", "s", [crowded]),
        Figure(f"real server: {REAL_WAVE} claims deleted: {REAL_WAVE} that waited bound", "s", [served]),
        Figure(f"real server: {REAL_WAVE} claims deleted: the last has gone", "s", [gone]),
    ]


def claims() -> Iterable[Figure]:
    """Bind, crowd, release, restart; on a real server too if there is one."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield from asyncio.run(_embedded(Kubernetes(stack, Path(folder))))
    if os.environ.get("GANTRY_BENCH_KUBECONFIG"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            yield from asyncio.run(_real(Kubernetes(stack, Path(folder))))


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"claims": claims}
