"""What goes over the wire from the master to a node: HTTP in TLS, with messages of JSON."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gantry import security
from gantry.rpc import calls, client, targets
from gantry.runtime.real import RealRuntime

UUID = "6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001"
ANSWERS = {
    b"/version": b'[true, {"software": "1", "node": "node1", "cluster": "one"}]',
    b"/write_ssconf": b"[true, null]",
}


@dataclass
class RawServer:
    """A server that knows TLS, but not HTTP: it keeps each request as it came."""

    port: int = 0
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Head and body of each request."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        self.requests.append((head, await reader.readexactly(length)))
        answer = ANSWERS[head.split()[1]]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(answer), answer))
        await writer.drain()
        writer.close()


@pytest.fixture
def papers(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a node and of its master."""
    now = RealRuntime().clock.now()
    authority = security.make_authority("one", now)
    key, request = security.make_request("node1")
    node = security.issue(authority, request, uuid=UUID, name="node1", address="127.0.0.1", now=now)
    master = security.issue_master(authority, now)
    for name, content in {"n.pem": node, "n.key": key, "m.pem": master.certificate, "m.key": master.key}.items():
        (tmp_path / name).write_bytes(content)
    own = [f"{tmp_path}/{name}" for name in ("n.pem", "n.key", "m.pem", "m.key")]
    return (
        security.node_server_context(own[0], own[1], authority=authority.certificates),
        security.master_client_context(own[2], own[3], authority=authority.certificates),
    )


@pytest.fixture
async def node(papers: tuple[ssl.SSLContext, ssl.SSLContext]) -> AsyncIterator[RawServer]:
    node = RawServer()
    server = await asyncio.start_server(node.answer, "127.0.0.1", 0, ssl=papers[0])
    node.port = server.sockets[0].getsockname()[1]
    async with server:
        yield node


@pytest.mark.promise("cluster-9")
async def test_the_master_sends_json_by_http_to_a_server_that_accepts_tls_alone(
    node: RawServer, papers: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    nodes = client.Client(RealRuntime().network, papers[1])
    target = targets.Target(UUID, "node1", "127.0.0.1", node.port)
    values = {"cluster_name": "lab.example", "node_list": "node1\nnode2 ü"}
    try:
        known = await nodes.call(target, calls.Version())
        await nodes.call(target, calls.WriteSsconf(values=values))
    finally:
        await nodes.close()
    assert known == calls.VersionInfo(software="1", node="node1", cluster="one")
    (first, nothing), (second, body) = node.requests
    assert first.startswith(b"POST /version HTTP/1.1\r\n")
    assert second.startswith(b"POST /write_ssconf HTTP/1.1\r\n")
    assert b"content-type: application/json" in second.lower()
    assert [json.loads(nothing), json.loads(body)] == [{}, {"values": values}]
