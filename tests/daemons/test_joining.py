"""``gantry-node join`` over real TLS: to whom a machine sends its token."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import msgspec
import pytest
from tests import ports
from tests.node import samples

from gantry import errors, security
from gantry.daemons import joining
from gantry.rpc import calls, exchange, targets
from gantry.runtime import file_interface, http_interface, interface, paths

TOKEN = "5" * 48
SECRET_HASH = security.invitation.hash_of(TOKEN)


@dataclass
class Door:
    """A server at the port of a node daemon; it proves ``key``, and keeps the calls that it receives."""

    key: str
    received: list[str] = field(default_factory=list)
    progress: list[calls.JoinProgress] = field(default_factory=list)

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        self.received.append(request.path)
        if request.path == "/prove_invitation":
            call = msgspec.json.decode(request.body, type=calls.ProveInvitation)
            assert call.invitation == security.invitation.id_of(SECRET_HASH)
            result: object = calls.Proven(proof=security.invitation.proof(SECRET_HASH, call.nonce, self.key))
        else:
            assert TOKEN.encode() in request.body
            result = self.progress.pop(0)
        return http_interface.Response(200, msgspec.json.encode((True, result)))


@dataclass
class JoiningMachine:
    """A machine with a daemon and no cluster, and a node's certificate of a cluster's authority."""

    runtime: interface.Runtime
    folders: paths.Paths
    daemon: file_interface.FileLock
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.authority = security.make_authority("one", self.runtime.clock.now())

    async def certificate(self, name: str) -> tuple[str, str]:
        """Write a node's certificate and key; return the path of the certificate without its ending, and the key."""
        key, request = security.make_request(name)
        now = self.runtime.clock.now()
        pem = security.issue(self.authority, request, uuid=name, name=name, address="127.0.0.1", now=now)
        stem = f"{self.folders.run}/{name}"
        await self.runtime.disk.write(f"{stem}.pem", pem)
        await self.runtime.disk.write(f"{stem}.key", key)
        return stem, security.key_of(security.der_of(pem))

    @contextlib.asynccontextmanager
    async def door(self, door: Door, stem: str) -> AsyncIterator[int]:
        port = ports.free()
        tls = security.node_server_context(f"{stem}.pem", f"{stem}.key", authority=self.authority.certificates)
        server = await self.runtime.network.serve_http("127.0.0.1", port, door.answer, tls=tls, body_limit=1 << 20)
        try:
            yield port
        finally:
            await server.close()

    async def join(self, port: int, token: str = TOKEN) -> None:
        command = joining.Joining(
            self.runtime,
            self.folders,
            report=self.lines.append,
            connect=lambda _: joining.connect(self.runtime.network),
        )
        await command.run(joining.Request(f"127.0.0.1:{port}", token, "node2"))


@pytest.fixture
def machine() -> Iterator[JoiningMachine]:
    with tempfile.TemporaryDirectory(prefix="g") as root:
        folders, runtime = paths.Paths.below(root), samples.runtime()
        for folder in (folders.lib, folders.run):
            os.mkdir(folder)
        with open(f"{folders.lib}/join-token", "w") as token:
            token.write("join token\n")
        lock = runtime.disk.lock(f"{folders.run}/node-daemon.lock")
        yield JoiningMachine(runtime, folders, lock)
        lock.release()


DONE = calls.JoinProgress(job=7, status="success", log=((2, 0, "ask node2\x1b[2J"),))


async def test_a_token_goes_to_the_key_that_the_cluster_has_proven(machine: JoiningMachine) -> None:
    stem, key = await machine.certificate("node1")
    door = Door(key, progress=[calls.JoinProgress(job=7, status="running", log=((1, 0, "send node2"),)), DONE])
    async with machine.door(door, stem) as port:
        await machine.join(port)
    assert door.received == ["/prove_invitation", "/use_invitation", "/use_invitation"]
    assert machine.lines == [
        "job 7 of the cluster adds this machine",
        "send node2",
        "ask node2?[2J",
        "this machine is now a node of the cluster",
    ]


async def test_no_token_goes_to_another_node_of_the_cluster_that_passes_the_proof_on(machine: JoiningMachine) -> None:
    stem, _ = await machine.certificate("thief")
    _, key = await machine.certificate("node1")
    door = Door(key)
    async with machine.door(door, stem) as port:
        with pytest.raises(errors.WrongStateError, match="something is between it and this machine"):
            await machine.join(port)
    assert door.received == ["/prove_invitation"]


async def test_no_token_goes_to_a_key_that_takes_the_place_of_the_proven_one(machine: JoiningMachine) -> None:
    stem, key = await machine.certificate("node1")
    thief, _ = await machine.certificate("thief")
    connection = joining.connect(machine.runtime.network)
    target, door = targets.Target("", "m", "127.0.0.1", 0), Door(key)
    call = calls.ProveInvitation(invitation=security.invitation.id_of(SECRET_HASH), nonce=secrets.token_hex(32))
    for own, accepted in ((stem, True), (thief, False)):
        async with machine.door(door, own) as port:
            target = targets.Target("", "m", "127.0.0.1", port)
            if accepted:
                await exchange.make(connection.http, target, call, headers={})
                assert connection.key() == key
            else:
                with pytest.raises(errors.RemoteError, match="another key than before"):
                    await exchange.make(connection.http, target, call, headers={})
    await connection.http.close()
    assert len(door.received) == 1


async def test_the_error_of_the_job_is_the_error_of_the_command(machine: JoiningMachine) -> None:
    stem, key = await machine.certificate("node1")
    failure = errors.EnvironmentFaultError("its clock is wrong", hint="set it").luxi_pair()
    door = Door(key, progress=[calls.JoinProgress(job=7, status="error", error=failure)])
    async with machine.door(door, stem) as port:
        with pytest.raises(errors.EnvironmentFaultError) as refused:
            await machine.join(port)
    assert str(refused.value) == (
        "job 7 could not add this machine: its clock is wrong; set it; nothing was changed; "
        "remove the cause and repeat the command while the token is valid"
    )


async def test_a_daemon_that_has_just_left_another_cluster_is_waited_for(
    machine: JoiningMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem, key = await machine.certificate("node1")
    path = f"{machine.folders.lib}/join-token"
    os.unlink(path)
    waits: list[float] = []

    async def make_token(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            await machine.runtime.disk.write(path, b"late token\n")

    monkeypatch.setattr(machine.runtime.clock, "sleep", make_token)
    door = Door(key, progress=[DONE])
    async with machine.door(door, stem) as port:
        await machine.join(port)
    assert waits == [joining.POLL_SECONDS] * 3
    assert machine.lines[-1] == "this machine is now a node of the cluster"


async def test_a_daemon_that_makes_no_token_is_not_waited_for_without_end(
    machine: JoiningMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.unlink(f"{machine.folders.lib}/join-token")
    monkeypatch.setattr(joining, "DAEMON_SECONDS", 0.3)
    with pytest.raises(errors.WrongStateError, match="or it has just begun to"):
        await machine.join(1)


async def test_a_machine_without_a_daemon_is_not_waited_for(
    machine: JoiningMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.runtime.clock, "sleep", None)
    machine.daemon.release()
    with pytest.raises(errors.WrongStateError, match="no gantry-noded runs here"):
        await machine.join(1)


async def test_a_member_of_a_cluster_does_not_connect(machine: JoiningMachine) -> None:
    folder = machine.folders.certificates
    await machine.runtime.disk.make_directory(folder)
    await machine.runtime.disk.write(f"{folder}/node.pem", b"")
    await machine.runtime.disk.write(
        f"{folder}/member.json", b'{"node": "n", "cluster": "c", "uuid": "u", "address": "::1"}'
    )
    with pytest.raises(errors.WrongStateError, match="this machine already is node n of cluster c"):
        await machine.join(1)


@pytest.mark.parametrize("master", ["", ":1811", "host:0", "host:65536", "host:x", "[::1", "a:b:c", "host:٣"])
async def test_what_is_not_an_address_is_named(machine: JoiningMachine, master: str) -> None:
    command = joining.Joining(
        machine.runtime, machine.folders, report=print, connect=lambda _: joining.connect(machine.runtime.network)
    )
    with pytest.raises(errors.InvalidError, match="is not the address of a master"):
        await command.run(joining.Request(master, TOKEN, "node2"))
