"""A node whose clock is a day off is reported, and works."""

import time
from dataclasses import dataclass

import msgspec
import pytest
from cryptography import x509
from tests.doors import talk

from gantry import errors, security
from gantry.node.daemon import server
from gantry.rpc import calls
from gantry.runtime import interface
from gantry.sim import cluster

DAY = 86400.0


@dataclass
class Shifted:
    """A clock that is some seconds ahead of another."""

    right: interface.Clock
    ahead: float

    def now(self) -> float:
        return self.right.now() + self.ahead

    def monotonic(self) -> float:
        return self.right.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.right.sleep(seconds)


@pytest.mark.parametrize("ahead", [-DAY, DAY])
def test_verify_reports_a_clock_that_is_a_day_off_and_nothing_else_breaks(
    ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.SimulatedCluster(seed=1, nodes=3) as lab:
        wrong = lab.world.machine("node2")
        monkeypatch.setattr(wrong, "clock", Shifted(wrong.clock, ahead))
        lab.run(lab.build())
        create = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": "node2", "start": True}
        lab.run(lab.done({**create, "instance_name": "vm1.example"}))
        number = lab.run(lab.submit({"OP_ID": "OP_CLUSTER_VERIFY"}))
        assert lab.run(lab.wait(number)) == ("success", [False])
        ((log,),) = msgspec.convert(lab.run(lab.luxi("QueryJobs", [number], ["oplog"])), list[list[object]])
        assert f"node node2: the node's clock is {ahead:+.0f} s off" in str(log)
        assert str(log).count("ERROR") == 1
        lab.run(lab.done({"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "vm1.example", "reboot_type": "hard"}))
        lab.kill("node2")
        lab.run(lab.restart("node2"))
        lab.run(lab.done(talk.DELAY, {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "vm1.example"}))


FAR = pytest.mark.parametrize(
    "ahead, text", [(-9 * DAY, "its clock is 9.0 days behind"), (2.5 * DAY, "its clock is 2.5 days ahead")]
)


@FAR
def test_a_node_whose_clock_is_days_off_cannot_join(ahead: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster.SimulatedCluster(seed=1, nodes=2) as lab:
        machine = lab.world.machine("node2")
        monkeypatch.setattr(machine, "clock", Shifted(machine.clock, ahead))
        with pytest.raises(errors.ExecutionError, match=f"node node2 cannot join: {text}.*the limit is 2 days"):
            lab.run(lab.build())


@FAR
def test_a_cluster_does_not_begin_on_a_machine_whose_node_daemon_sees_another_time(
    ahead: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def see(_: server.Agent, call: calls.NodeClock) -> float:
        return lab.master.clock.now() + ahead

    with cluster.SimulatedCluster(seed=1, nodes=2) as lab:
        monkeypatch.setattr(server.Agent, "_clock", see)
        with pytest.raises(errors.EnvironmentFaultError, match=f"node node1 cannot join: {text}"):
            lab.run(lab.build())


@pytest.mark.parametrize("ahead", [-DAY, DAY])
def test_certificates_are_valid_on_a_machine_whose_clock_is_a_day_off(ahead: float) -> None:
    there = time.time() + ahead
    authority = security.make_authority("cl.example", time.time())
    for certificate in (authority.certificates, security.issue_master(authority, time.time()).certificate):
        assert _valid_at(certificate, there)
    assert _valid_at(security.make_bootstrap("node2", there).certificate, time.time())


def _valid_at(certificate: bytes, moment: float) -> bool:
    described = x509.load_pem_x509_certificate(certificate)
    start, end = described.not_valid_before_utc.timestamp(), described.not_valid_after_utc.timestamp()
    return start + 3600 < moment < end
