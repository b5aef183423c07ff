"""``gantry-kube serve`` as a program: the API server with its controller process."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests import ports, processes
from tests.cluster import lab
from tests.kubernetes.claims import server

from gantry.kubernetes.api import ipam, meta, schema
from gantry.kubernetes.controllers import client, kubeconfig, metrics, rate_limit
from gantry.runtime import real

HERE = f"/apis/{ipam.API_VERSION}/namespaces/default"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gantry-kube"


@contextlib.contextmanager
def serving(folder: Path, port: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program, and kill it at the end."""
    command = [sys.executable, "-m", "gantry.daemons.kube", "serve", "--data", str(folder), "--port", str(port)]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as running:
        try:
            lab.wait_until(lambda: lab.listens(port) or running.poll() is not None, "the API server")
            assert running.poll() is None
            yield running
        finally:
            running.kill()


def controllers_of(server: subprocess.Popen[str]) -> int:
    """Wait for the controllers of a server, and return their process id."""
    lab.wait_until(lambda: bool(processes.children(server.pid)), "the controllers")
    (pid,) = processes.children(server.pid)
    return pid


@contextlib.asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[client.Client]:
    runtime = real.RealRuntime()
    lab.wait_until((folder / "kubeconfig").exists, "the kubeconfig")
    target = kubeconfig.from_kubeconfig(runtime, str(folder / "kubeconfig"))
    tls = await kubeconfig.tls(runtime, target, folder=str(folder))
    limit = rate_limit.RateLimit(runtime.clock, per_second=1000, burst=100)
    user = client.Client(runtime, target, tls=tls, limit=limit, counts=metrics.Metrics())
    try:
        yield user
    finally:
        await user.close()


def here(body: schema.Json) -> schema.Json:
    return {**body, "metadata": {"name": server.metadata(body)["name"]}}


async def bound(user: client.Client, name: str) -> str:
    """Wait for the address of a claim, and return its name."""
    async with asyncio.timeout(lab.TIMEOUT):
        while True:
            claim = meta.read(await user.get(f"{HERE}/ipclaims/{name}"), ipam.IPClaim)
            if claim.address_name:
                return claim.address_name
            await asyncio.sleep(0.05)


async def serve_one(folder: Path) -> None:
    """Create a pool and a claim, and wait until the claim has an address."""
    async with talking(folder) as user:
        await user.send("POST", f"{HERE}/ippools", here(server.pool()))
        await user.send("POST", f"{HERE}/ipclaims", here(server.claim("one")))
        await bound(user, "one")


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


async def test_without_controllers_claims_are_not_served(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port, "--no-controllers"):
        async with talking(tmp_path) as user:
            with pytest.raises(client.RefusedError, match="404"):
                await user.get(LEASE)


async def test_controllers_do_not_outlive_a_server_that_is_killed(tmp_path: Path, port: int) -> None:
    runtime = real.RealRuntime()
    with serving(tmp_path, port) as running:
        controllers = controllers_of(running)
        await serve_one(tmp_path)
        running.kill()
        lab.wait_until(lambda: not runtime.processes.alive(controllers), "the end of the controllers")


async def test_a_server_whose_controllers_die_ends_and_says_so(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port) as running:
        os.kill(controllers_of(running), signal.SIGKILL)
        _, output = running.communicate(timeout=lab.TIMEOUT)
    assert running.returncode == 1
    assert "gantry-kube: the controllers have exited with code -9; see the log above" in output


async def test_a_server_that_cannot_have_controllers_says_why(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port, "--site", "a b") as running:
        _, output = running.communicate(timeout=lab.TIMEOUT)
    assert running.returncode == 1
    assert "gantry-kube: 'a b' is not a valid site name" in output
    assert "the controllers have exited with code 1" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
async def test_a_server_that_ends_on_a_signal_lets_its_controllers_release_the_lease(
    tmp_path: Path, port: int, number: signal.Signals
) -> None:
    runtime = real.RealRuntime()
    with serving(tmp_path, port) as running:
        controllers = controllers_of(running)
        await serve_one(tmp_path)
        running.send_signal(number)
        _, output = running.communicate(timeout=lab.TIMEOUT)
        assert running.returncode == 0, output
        assert not runtime.processes.alive(controllers)
    (tmp_path / "kubeconfig").unlink()
    with serving(tmp_path, port, "--no-controllers"):
        async with talking(tmp_path) as user:
            holder = (await user.get(LEASE))["spec"]
    assert isinstance(holder, dict)
    assert holder["holderIdentity"] == ""


def test_controllers_without_a_server_say_so() -> None:
    command = [sys.executable, "-m", "gantry.daemons.kube", "controllers", "--attended"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "gantry-kube: Socket operation on non-socket\n"


@pytest.mark.promise("claims-13", "claims-42")
async def test_the_controllers_of_a_server_draw_at_random_with_the_servers_option(tmp_path: Path, port: int) -> None:
    wide = here(server.pool(pools=[{"subnet": "2001:db8::/64"}]))
    with serving(tmp_path, port, "--random-order"):
        async with talking(tmp_path) as user:
            await user.send("POST", f"{HERE}/ippools", wide)
            await user.send("POST", f"{HERE}/ipclaims", here(server.claim("drawn")))
            assert await bound(user, "drawn") != "pool-1-2001-db8--1"
