"""Somebody with the disk of a node that left, or on the wire, against real daemons; renewals killed half way."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests import ports
from tests.cluster import lab

from gantry import errors, security
from gantry.rpc import calls, client, targets
from gantry.runtime import real

Result = TypeVar("Result")

WIRE = "127.0.0.2"
"""The address of a machine behind a wire: no other node has it, and so none of their keys counts there."""


@pytest.fixture
def three() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        for _ in range(2):
            cluster_lab.add_node()
        yield cluster_lab


class Thief:
    """A copy of the certificates and keys of a node, and of what the authority's key among them can issue."""

    def __init__(self, cluster: lab.Lab, node: int) -> None:
        self.folder = cluster.folder / f"stolen-{node}"
        shutil.copytree(cluster.nodes[node].root / "lib/certs", self.folder)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def authority(self) -> security.Authority:
        return security.Authority(self.read("authority.pem"), security.authority_key.load(self.read("authority.key")))

    def server(self, name: str) -> ssl.SSLContext:
        """Return the context of a server with a node's name, issued by the stolen authority for a key of the thief."""
        key, request = security.make_request(name)
        pem = security.issue(self.authority(), request, uuid=name, name=name, address=WIRE, now=time.time())
        (self.folder / "server.pem").write_bytes(pem + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem")
        return context

    def issued(self) -> ssl.SSLContext:
        """Return a context with a new master's certificate, issued by the stolen authority for the stolen key."""
        own = security.issue_master(self.authority(), time.time(), key=self.read("node.key"))
        (self.folder / "issued.pem").write_bytes(own.certificate)
        return self.context("issued.pem")

    def context(self, certificate: str = "master.pem") -> ssl.SSLContext:
        return security.master_client_context(
            str(self.folder / certificate), str(self.folder / "node.key"), authority=self.read("authority.pem")
        )


class Wire:
    """What is between the master and a machine: it passes connections on, or answers them, or lets none through.

    ``received`` has what the master sent to the server ``answering``.
    """

    def __init__(self, port: int) -> None:
        self.port = ports.free()
        self.passes: Callable[[], bool] = lambda: True
        self.answering: ssl.SSLContext | None = None
        self.received: list[bytes] = []
        self.connections = 0
        self._behind = port
        self._listener = socket.create_server((WIRE, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                work = self._pass_on if self.passes() else self._answer
                threading.Thread(target=work, args=(connection,), daemon=True).start()

    def _pass_on(self, connection: socket.socket) -> None:
        behind = socket.create_connection(("127.0.0.1", self._behind))
        threading.Thread(target=self._copy, args=(behind, connection), daemon=True).start()
        self._copy(connection, behind)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if self.answering:
                with self.answering.wrap_socket(connection, server_side=True) as wire:
                    while data := wire.recv(65536):
                        self.received.append(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def wire_to(machine: lab.Node) -> Iterator[Wire]:
    wire = Wire(machine.port)
    try:
        yield wire
    finally:
        wire.close()


def add_over(wire: Wire, machine: lab.Node) -> tuple[str, ...]:
    """Return the command that adds a machine over a wire."""
    token = str(machine.root / "lib/join-token")
    where = ("--primary-ip", WIRE, "--port", str(wire.port))
    return ("gnt-node", "add", "--join-token-file", token, *where, machine.name)


@pytest.mark.parametrize("moment", ["before the machine has its certificate", "afterwards"])
@pytest.mark.slow
def test_who_has_the_authoritys_key_and_the_wire_does_not_answer_for_a_machine_that_joins(moment: str) -> None:
    with lab.lab() as cluster:
        cluster.init()
        thief = Thief(cluster, 0)
        machine = cluster.add_machine()
        with wire_to(machine) as wire:
            wire.answering = thief.server(machine.name)
            joined = machine.root / "lib/certs/node.pem"
            # The first two connections are for the clock and the certificate request.
            wire.passes = (lambda: not joined.exists()) if moment == "afterwards" else (lambda: wire.connections <= 2)
            reason = (
                "no trusted connection" if moment == "afterwards" else "does not present the certificate in this join"
            )
            assert reason in cluster.refused(*add_over(wire, machine))
            assert wire.connections > 2
            assert joined.exists() == (moment == "afterwards")
            assert wire.received == []
            assert cluster.rows("gnt-node", "name") == [["node1"]]
            if moment != "afterwards":
                wire.passes = lambda: True
                cluster.run(*add_over(wire, machine))
                cluster.verified()


@pytest.mark.slow
def test_a_machine_whose_joining_the_end_of_the_master_interrupted_is_removed_and_joins() -> None:
    with lab.lab() as cluster:
        cluster.init()
        machine = cluster.add_machine()
        joined, token = machine.root / "lib/certs/node.pem", machine.root / "lib/join-token"
        with wire_to(machine) as wire:
            wire.passes = lambda: not joined.exists()
            op = {
                "OP_ID": "OP_NODE_ADD",
                "node_name": machine.name,
                "primary_ip": WIRE,
                "port": wire.port,
                "join_token": token.read_text(),
            }
            with cluster.luxi() as luxi:
                luxi.value("SubmitJob", [op])
            lab.wait_until(joined.exists, "the certificate of the machine")
            cluster.kill_master()
            wire.passes = lambda: True
            cluster.start_master()
            removal = cluster.run("gnt-node", "remove", machine.name)
            assert "not notified" not in removal.stdout + removal.stderr
            lab.wait_until(token.exists, "another token")
            cluster.run(*add_over(wire, machine))
            cluster.verified()


def attack(tls: ssl.SSLContext, node: lab.Node, call: calls.Call[Result], *, epoch: int = 900) -> Result:
    """Call a node as a master with these credentials would."""

    async def work() -> Result:
        caller = client.Client(real.RealRuntime().network, tls)
        caller.fence(lambda: epoch, lambda _: None, permitted=lambda: asyncio.sleep(0))
        try:
            return await caller.call(targets.Target("", node.name, "127.0.0.1", node.port), call)
        finally:
            await caller.close()

    return asyncio.run(work())


ORDERS: tuple[calls.Call[object], ...] = (
    calls.WriteSsconf(values={"master_node": "node2"}),
    calls.Version(),
    calls.CandidateStatus(),
    calls.GrantEpoch(epoch=900, node="node2", newest=(900, 10**6)),
    calls.CertificateStore(authority="", certificate=""),
    calls.UploadFile(name="users", content="me"),
)


@pytest.mark.parametrize(
    "leaves", [pytest.param("gnt-node modify -C no -f node2", marks=pytest.mark.slow), "gnt-node remove node2"]
)
def test_the_disk_of_a_former_master_that_left_commands_no_node(three: lab.Lab, leaves: str) -> None:
    three.run("gnt-cluster", "master-failover", on=three.nodes[1])
    three.leader = 1
    assert three.answers()
    thief = Thief(three, 1)
    three.run("gnt-cluster", "master-failover", on=three.nodes[0])
    three.leader = 0
    assert three.answers()
    three.run(*leaves.split())
    listed = three.nodes[2].root / "lib/ssconf/ssconf_master_candidates_certs"
    lab.wait_until(lambda: len(listed.read_text().split()) == 2, "the new list of keys on node3")
    for tls in (thief.context(), thief.issued()):
        for order in ORDERS:
            with pytest.raises(errors.UnknownCallerError):
                attack(tls, three.nodes[2], order)
    # The master continues, and node3 obeys it.
    three.run("gnt-debug", "delay", "-n", "node3", "0")
    assert (three.nodes[2].root / "lib/ssconf/ssconf_master_node").read_text() == "node1\n"


@pytest.mark.slow
def test_a_candidate_that_lies_about_epochs_neither_commands_nor_ends_the_master(three: lab.Lab) -> None:
    thief = Thief(three, 1)
    epoch = _epoch(three)
    for wrong in (epoch, epoch - 1, epoch + 10**6):
        for order in (
            calls.WriteSsconf(values={"master_node": "node2"}),
            calls.LeaseRenew(node="node2", epoch=wrong, masters=("me=key",)),
            calls.JournalAppend(epoch=wrong, previous="", frame=""),
            calls.CheckpointStore(epoch=wrong, digest="", config="{}"),
        ):
            with pytest.raises(errors.GantryError, match=r"epoch \d+ (belongs to|has passed|is too far above)"):
                attack(thief.issued(), three.nodes[2], order, epoch=wrong)
    assert (three.nodes[2].root / "lib/ssconf/ssconf_master_node").read_text() == "node1\n"
    before = three.master_pid()
    three.run("gnt-debug", "delay", "-n", "node3", "0")
    assert three.master_pid() == before


def _epoch(cluster: lab.Lab) -> int:
    return int((cluster.nodes[2].root / "lib/epoch").read_text().split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["master", "node"])
def test_a_renewal_that_is_killed_half_way_is_completed_by_the_next(three: lab.Lab, victim: str) -> None:
    keys = _keys(three)
    renewal = "gnt-cluster", "renew-crypto", "--new-cluster-certificate"
    with three.luxi() as luxi:
        luxi.value("SubmitJob", [{"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "cluster_certificate": True}])
    lab.wait_until(lambda: _keys(three) != keys, "the first new certificate")
    if victim == "master":
        three.kill_master()
        three.start_master()
    else:
        daemon = three.nodes[2].daemon
        assert daemon is not None
        daemon.kill()
        daemon.wait()
        three.nodes[2].start()
    assert three.answers()
    three.run("gnt-node", "list")
    three.run(*renewal)
    assert len({(node.root / "lib/certs/authority.pem").read_bytes() for node in three.nodes}) == 1
    for name in ("node2", "node3"):
        three.run("gnt-debug", "delay", "-n", name, "0")
    three.verified()


@pytest.mark.slow
def test_daemons_that_run_trust_no_authority_that_was_replaced(three: lab.Lab) -> None:
    """Also if the key is that of a candidate; and the master trusts no server of it."""
    thief = Thief(three, 1)
    pids = three.master_pid(), [node.daemon.pid for node in three.nodes if node.daemon]
    three.run("gnt-cluster", "renew-crypto", "--new-cluster-certificate", "--keep-keys")
    authority = (three.nodes[0].root / "lib/certs/authority.pem").read_text()
    assert authority.count("BEGIN CERTIFICATE") == 1
    (thief.folder / "present.pem").write_text(authority)
    for node in three.nodes:
        tls = thief.issued()
        tls.load_verify_locations(thief.folder / "present.pem")
        with pytest.raises(errors.RemoteError, match=r"no trusted connection|cannot be reached"):
            attack(tls, node, calls.Version())
    daemon = three.nodes[1].daemon
    assert daemon is not None
    three.run("gnt-debug", "delay", "-n", "node2", "0")
    assert pids == (three.master_pid(), [node.daemon.pid for node in three.nodes if node.daemon])
    daemon.terminate()
    daemon.wait()
    with impostor(three.nodes[1], thief):
        assert "no trusted connection" in three.refused("gnt-debug", "delay", "-n", "node2", "0")


@contextlib.contextmanager
def impostor(node: lab.Node, thief: Thief) -> Iterator[None]:
    """Serve TLS in place of a node, with its stolen certificate."""
    tls = security.bootstrap_server_context(str(thief.folder / "node.pem"), str(thief.folder / "node.key"))
    with socket.create_server((node.address, node.port)) as listener:
        thread = threading.Thread(target=_shake_hands, args=(listener, tls), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _shake_hands(listener: socket.socket, tls: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                tls.wrap_socket(connection, server_side=True).close()


def _keys(cluster: lab.Lab) -> list[bytes]:
    return [(node.root / "lib/certs/node.key").read_bytes() for node in cluster.nodes]
