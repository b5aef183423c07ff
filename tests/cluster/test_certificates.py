"""Somebody with the disk of a node that left, against real daemons; and renewals that are killed half way."""

import asyncio
import shutil
import ssl
import time
from collections.abc import Iterator
from typing import TypeVar

import pytest
from tests import certificates
from tests.cluster import lab

from gantry import errors, security
from gantry.rpc import calls, client, targets
from gantry.runtime import real

Result = TypeVar("Result")


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

    def issued(self) -> ssl.SSLContext:
        """Return a context with a new master's certificate, issued by the stolen authority for the stolen key."""
        authority = security.Authority(
            self.read("authority.pem"), security.authority_key.load(self.read("authority.key"))
        )
        own = security.issue_master(authority, time.time(), key=self.read("node.key"))
        (self.folder / "issued.pem").write_bytes(own.certificate)
        return self.context("issued.pem")

    def context(self, certificate: str = "master.pem") -> ssl.SSLContext:
        return certificates.master_context(
            str(self.folder / certificate), str(self.folder / "node.key"), authority=self.read("authority.pem")
        )


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
    calls.MasterPromise(epoch=900, node="node2", newest=(900, 10**6)),
    calls.CertificateStore(authority="", certificate=""),
    calls.UploadFile(name="users", content="me"),
)


@pytest.mark.parametrize("leaves", ["gnt-node modify -C no -f node2", "gnt-node remove node2"])
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
    # The master goes on, and node3 obeys it.
    three.run("gnt-debug", "delay", "-n", "node3", "0")
    assert (three.nodes[2].root / "lib/ssconf/ssconf_master_node").read_text() == "node1\n"


def test_a_candidate_that_lies_about_epochs_neither_commands_nor_ends_the_master(three: lab.Lab) -> None:
    thief = Thief(three, 1)
    epoch = _epoch(three)
    for wrong in (epoch, epoch - 1, epoch + 10**6):
        with pytest.raises(errors.GantryError):
            attack(thief.issued(), three.nodes[2], calls.WriteSsconf(values={"master_node": "node2"}), epoch=wrong)
    assert (three.nodes[2].root / "lib/ssconf/ssconf_master_node").read_text() == "node1\n"
    before = three.master_pid()
    three.run("gnt-debug", "delay", "-n", "node3", "0")
    assert three.master_pid() == before


def _epoch(cluster: lab.Lab) -> int:
    return int((cluster.nodes[2].root / "lib/epoch").read_text().split()[0])


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


def _keys(cluster: lab.Lab) -> list[bytes]:
    return [(node.root / "lib/certs/node.key").read_bytes() for node in cluster.nodes]
