"""Many more jobs at a time than a node has calls at a time, in virtual time."""

from collections.abc import Iterator

import pytest

from gantry.rpc import call_queue
from gantry.runtime import http_interface
from gantry.runtime.simulated import wires
from gantry.sim import cluster

JOBS = 300


class Counted:
    """The calls that are under way at a node."""

    def __init__(self, lab: cluster.SimulatedCluster, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_way = 0
        self.most = 0
        exchange = wires.Wires.exchange

        async def counted(
            net: wires.Wires, source: str, target: str, port: int, request: http_interface.Request, *, tls: bool
        ) -> http_interface.Response:
            is_counted = target == node
            self.under_way += is_counted
            self.most = max(self.most, self.under_way)
            try:
                return await exchange(net, source, target, port, request, tls=tls)
            finally:
                self.under_way -= is_counted

        monkeypatch.setattr(wires.Wires, "exchange", counted)


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=1, nodes=4) as lab:
        lab.run(lab.build(candidate_pool_size=2))
        yield lab


def create_many(lab: cluster.SimulatedCluster, node: str) -> set[object]:
    """Create instances on a node, one job for each, all at one moment; return how the jobs ended."""
    create = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": node}
    jobs = [[{**create, "instance_name": f"vm{number}.example"}] for number in range(JOBS)]
    answers = lab.run(lab.luxi("SubmitManyJobs", jobs))
    assert isinstance(answers, list)
    numbers = [number for _, number in answers]
    statuses: set[object] = {"queued"}
    while not statuses <= {"success", "error"}:
        lab.run(lab.world.clock.sleep(1))
        rows = lab.run(lab.luxi("QueryJobs", numbers, ["status"]))
        assert isinstance(rows, list)
        statuses = {status for (status,) in rows}
    return statuses


def test_a_burst_of_jobs_has_few_calls_at_a_node_and_ends_well(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counted(lab, "node4", monkeypatch)
    assert create_many(lab, "node4") == {"success"}
    assert call_queue.JOB_SLOTS <= calls.most <= 32


def test_a_burst_of_jobs_gives_a_frozen_node_up_after_some_seconds_with_few_calls(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in lab.names:
        if name != "node4":
            lab.world.network.partition(name, "node4")
    calls = Counted(lab, "node4", monkeypatch)
    start = lab.world.clock.monotonic()
    assert create_many(lab, "node4") == {"error"}
    assert lab.world.clock.monotonic() - start < 15
    # Until the jobs give the node up, each two seconds let other calls have the slots.
    assert calls.most <= 4 * call_queue.JOB_SLOTS + 8
