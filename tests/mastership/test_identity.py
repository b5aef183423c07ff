"""The master's credentials, with real TLS: which servers it trusts when the authority is replaced."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import ports

from gantry import errors, security
from gantry.mastership import identity
from gantry.rpc import calls, client, targets
from gantry.runtime import http_interface, paths
from gantry.runtime.real import RealRuntime, disk

CLUSTER = "cluster.example"


@dataclass
class Master:
    """A master with its authority and its client, as the master daemon connects them."""

    authority: identity.Authority
    credentials: identity.Credentials
    nodes: client.Client

    async def renew(self) -> None:
        await self.credentials.renew()
        await self.nodes.reconnect(self.credentials.context)


@pytest.fixture
def folders(tmp_path: Path) -> paths.Paths:
    return paths.Paths.below(str(tmp_path))


@pytest.fixture
async def master(folders: paths.Paths) -> AsyncIterator[Master]:
    runtime = RealRuntime()
    await runtime.disk.make_directory(folders.lib, mode=0o700)
    authority = await identity.create(runtime, folders, CLUSTER)
    await runtime.disk.write(f"{folders.certificates}/node.key", security.make_key(), mode=0o600)
    credentials = identity.Credentials(runtime, folders, authority, secure=True)
    await credentials.renew()
    own = Master(authority, credentials, client.Client(runtime.network, credentials.context))
    authority.credentials_changed = own.renew
    yield own
    await own.nodes.close()


def server_context(authority: security.Authority, folder: Path) -> ssl.SSLContext:
    """Return the context of a node with a certificate that an authority has just issued."""
    key, request = security.make_request("node1")
    pem = security.issue(authority, request, uuid="u1", name="node1", address="127.0.0.1", now=time.time())
    (folder / "n.pem").write_bytes(pem)
    (folder / "n.key").write_bytes(key)
    return security.node_server_context(f"{folder}/n.pem", f"{folder}/n.key", authority=authority.certificates)


async def answer(_: http_interface.Request) -> http_interface.Response:
    return http_interface.Response(200, b'[true, "node1"]')


async def test_a_master_that_runs_refuses_servers_of_an_authority_that_was_replaced(
    master: Master, tmp_path: Path
) -> None:
    """The connection of before is not used either."""
    runtime, port, former = RealRuntime(), ports.free(), master.authority.signing
    target = targets.Target("u1", "node1", "127.0.0.1", port)
    server = await runtime.network.serve_http(
        "127.0.0.1", port, answer, tls=server_context(former, tmp_path), body_limit=1000
    )
    try:
        assert await master.nodes.call(target, calls.MasterName()) == "node1"
        await master.authority.add_successor(CLUSTER)
        await master.authority.switch()
        await master.authority.renew_master()
        server.renew_tls(server_context(former._replace(certificates=master.authority.signing.certificates), tmp_path))
        assert await master.nodes.call(target, calls.MasterName()) == "node1"
        await master.authority.forget_others()
        await master.authority.renew_master()
        with pytest.raises(errors.RemoteError, match="no trusted connection"):
            await master.nodes.call(target, calls.MasterName())
        server.renew_tls(server_context(master.authority.signing, tmp_path))
        assert await master.nodes.call(target, calls.MasterName()) == "node1"
    finally:
        await server.close()


async def test_a_renewal_that_is_slow_does_not_undo_one_of_a_new_authority(
    master: Master, folders: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    path, write = f"{folders.certificates}/master.pem", disk.Disk.write

    async def slow(own: disk.Disk, name: str, content: bytes, *, mode: int) -> None:
        if name == path and not begun.is_set():
            begun.set()
            await goes_on.wait()
        await write(own, name, content, mode=mode)

    monkeypatch.setattr(disk.Disk, "write", slow)
    daily = asyncio.create_task(master.renew())
    await begun.wait()
    await master.authority.add_successor(CLUSTER)
    await master.authority.switch()
    await master.authority.forget_others()
    by_job = asyncio.create_task(master.authority.renew_master())
    await asyncio.wait([by_job], timeout=0.2)
    goes_on.set()
    await asyncio.gather(daily, by_job)
    present = master.authority.signing.certificates
    assert master.credentials.context.get_ca_certs(binary_form=True) == [security.der_of(present)]
    assert security.is_issued(security.der_of(RealRuntime().disk.read(path)), present)


async def test_connections_are_made_with_the_certificate_of_each_day(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, is_used = master.credentials.context, asyncio.Event()

    async def reconnect(tls: ssl.SSLContext) -> None:
        assert tls is master.credentials.context is not before
        is_used.set()

    monkeypatch.setattr(identity, "DAY_SECONDS", 0.01)
    monkeypatch.setattr(master.nodes, "reconnect", reconnect)
    keeping = asyncio.create_task(master.credentials.keep())
    try:
        await asyncio.wait_for(is_used.wait(), 60)
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
