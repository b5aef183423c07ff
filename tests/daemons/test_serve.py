"""``gantry-kube serve`` as a program: the API server with its controllers beside it."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests import ports
from tests.cluster import lab
from tests.operations.claim import server

from gantry.doors.kube import access, client, metrics, pace
from gantry.model.kube import ipam, meta, schema
from gantry.runtime import real

HERE = f"/apis/{ipam.API_VERSION}/namespaces/default"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gantry-kube"


@contextlib.contextmanager
def serving(folder: Path, port: int, *arguments: str) -> Iterator[None]:
    """Run the program, and kill it at the end."""
    command = [sys.executable, "-m", "gantry.daemons.kube", "serve", "--data", str(folder), "--port", str(port)]
    running = subprocess.Popen([*command, *arguments])
    try:
        lab.wait_until(lambda: lab.listens(port) or running.poll() is not None, "the API server")
        assert running.poll() is None
        yield
    finally:
        running.kill()
        running.wait()


@contextlib.asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[client.Client]:
    runtime = real.RealRuntime()
    lab.wait_until((folder / "kubeconfig").exists, "the kubeconfig")
    target = access.from_kubeconfig(runtime, str(folder / "kubeconfig"))
    tls = await access.tls(runtime, target, folder=str(folder))
    limit = pace.Limit(runtime.clock, per_second=1000, burst=100)
    user = client.Client(runtime, target, tls=tls, limit=limit, counts=metrics.Metrics())
    try:
        yield user
    finally:
        await user.close()


def here(body: schema.Json) -> schema.Json:
    return {**body, "metadata": {"name": server.metadata(body)["name"]}}


async def bound(user: client.Client, name: str) -> str:
    """Return the name of the address that a claim gets, when it has one."""
    async with asyncio.timeout(lab.PATIENCE):
        while True:
            found = meta.read(await user.get(f"{HERE}/ipclaims/{name}"), ipam.IPClaim)
            if found.address_name:
                return found.address_name
            await asyncio.sleep(0.05)


@pytest.fixture
def port() -> int:
    return ports.free()


async def test_the_server_alone_is_enough_and_goes_on_after_a_kill(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port):
        async with talking(tmp_path) as user:
            await user.send("POST", f"{HERE}/ippools", here(server.pool()))
            await user.send("POST", f"{HERE}/ipclaims", here(server.claim("one")))
            first = await bound(user, "one")
            holder = (await user.get(LEASE))["spec"]
    (tmp_path / "kubeconfig").unlink()
    with serving(tmp_path, port):
        async with talking(tmp_path) as user:
            await user.send("POST", f"{HERE}/ipclaims", here(server.claim("two")))
            assert await bound(user, "two") != first
            assert await bound(user, "one") == first
            again = (await user.get(LEASE))["spec"]
    assert isinstance(holder, dict)
    assert isinstance(again, dict)
    assert (again["holderIdentity"], again["leaseTransitions"]) == (
        holder["holderIdentity"],
        holder["leaseTransitions"],
    )


async def test_without_controllers_nobody_cares_for_claims(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port, "--no-controllers"):
        async with talking(tmp_path) as user:
            with pytest.raises(client.RefusedError, match="404"):
                await user.get(LEASE)
