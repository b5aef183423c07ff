"""Jobs that are one transaction, on a simulated master: their records, and the jobs that run as usual."""

from collections.abc import Iterator

import msgspec
import pytest

from gantry import errors
from gantry.daemons import master, units
from gantry.model import job, lock, opcodes
from gantry.operations import base
from gantry.sim import cluster

ADD = {"OP_ID": "OP_NETWORK_ADD", "subnets": [{"cidr": "192.0.2.0/24", "pool": True}]}


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=1, nodes=1) as simulation:
        simulation.run(simulation.build())
        yield simulation


@pytest.fixture
def daemon(lab: cluster.SimulatedCluster) -> master.Master:
    return lab.daemons["node1"]


def _run(lab: cluster.SimulatedCluster, **op: object) -> tuple[int, str, list[object]]:
    answer = lab.run(lab.luxi("RunJob", [op], 5))
    return msgspec.convert(answer, tuple[int, str, list[object]])


def _records(daemon: master.Master) -> int:
    return daemon.store.durable_serial


def test_a_change_of_the_state_alone_is_one_record(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    before = _records(daemon)
    number, status, results = _run(lab, **ADD, network_name="one")
    assert (status, _records(daemon)) == ("success", before + 1)
    assert daemon.store.snapshot.network("one").subnets[0].cidr == "192.0.2.0/24"
    assert isinstance(results[0], dict)
    stored = daemon.store.snapshot.jobs[str(number)]
    assert (stored.status, stored.ops[0].result) == (job.Status.SUCCESS, results[0])
    assert None not in (stored.received_timestamp, stored.start_timestamp, stored.end_timestamp)
    other = lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0}))
    assert other == number + 1
    lab.run(lab.wait(other))


def test_events_and_history_tell_of_it_as_of_any_job(lab: cluster.SimulatedCluster) -> None:
    trail = [["alice", "for the lab", 1]]
    number, _, _ = _run(lab, **ADD, network_name="told", reason=trail)
    past = lab.run(lab.luxi("QueryHistory", "network", "told", None, None, 10))
    events = msgspec.convert(past, dict[str, object])["events"]
    ((event),) = msgspec.convert(events, list[dict[str, object]])
    cause = msgspec.convert(event["cause"], dict[str, object])
    assert (cause["job"], cause["opcode"], cause["user"]) == (number, "OP_NETWORK_ADD", "alice")
    changes = msgspec.convert(event["changes"], list[dict[str, object]])
    assert [(change["kind"], change["name"]) for change in changes if change["kind"] != "job"] == [("network", "told")]


@pytest.mark.parametrize(
    "op",
    [
        {"OP_ID": "OP_NETWORK_REMOVE", "network_name": "nowhere"},  # fails where locks are asked for
        {**ADD, "network_name": "twice"},  # in the plan
        {"OP_ID": "OP_PORT_ADD", "ports": [{"network": "nowhere"}]},
    ],
    ids=lambda op: str(op["OP_ID"]),
)  # fmt: skip
def test_a_refusal_is_a_job_that_failed_and_changes_nothing(
    lab: cluster.SimulatedCluster, daemon: master.Master, op: dict[str, object]
) -> None:
    if "twice" in op.values() and not _is_there(daemon, "twice"):
        assert _run(lab, **op)[1] == "success"
    before, networks = _records(daemon), set(daemon.store.snapshot.networks)
    number, status, results = _run(lab, **op)
    assert (status, _records(daemon)) == ("error", before + 1)
    assert msgspec.convert(results[0], tuple[str, list[object]])[0] == "OpPrereqError"
    assert daemon.store.snapshot.jobs[str(number)].status is job.Status.ERROR
    assert set(daemon.store.snapshot.networks) == networks


def _is_there(daemon: master.Master, name: str) -> bool:
    return ("networks", name) in daemon.store.snapshot.names


def test_who_has_the_locks_is_waited_for(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    assert _run(lab, **ADD, network_name="held")[1] == "success"
    uuid = daemon.store.snapshot.network("held").uuid
    request = daemon.locks.try_acquire(1_000_000, {(lock.Level.NETWORK, uuid): lock.Mode.EXCLUSIVE})
    assert request
    number, status, _ = _run(lab, OP_ID="OP_NETWORK_REMOVE", network_name="held")
    assert status == "waiting"
    daemon.locks.release(request)
    lab.run(lab.wait(number))
    assert not _is_there(daemon, "held")


def test_all_opcodes_of_a_job_of_two_are_run(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    ops = [{**ADD, "network_name": name} for name in ("first", "second")]
    answer = lab.run(lab.luxi("RunJob", ops, 5))
    number, status, results = msgspec.convert(answer, tuple[int, str, list[object]])
    assert (status, len(results)) == ("success", 2)
    assert len(daemon.store.snapshot.jobs[str(number)].ops) == 2
    assert _is_there(daemon, "first")
    assert _is_there(daemon, "second")


def test_hooks_are_run_as_ever(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    folder = f"{cluster.FOLDERS.hooks}/network-add-post.d"
    lab.run(lab.master.disk.make_directory(folder))
    try:
        before = _records(daemon)
        assert _run(lab, **ADD, network_name="hooked")[1] == "success"
        assert _records(daemon) > before + 1
    finally:
        lab.run(lab.master.disk.remove_tree(folder))


async def _nothing() -> None:
    """Do nothing, as a step of a plan."""


STEP = base.Step("beyond the state", (base.Procedure("nothing", _nothing),))


@pytest.mark.parametrize(
    "plan",
    [
        base.Plan(steps=[STEP]),
        base.Plan(after=[STEP]),
        base.Plan(finish=lambda _: []),
        base.Plan(jobs=[]),
    ],
    ids=["steps", "steps afterwards", "last changes", "jobs"],
)
def test_a_plan_with_more_than_changes_is_run_as_ever(
    lab: cluster.SimulatedCluster, daemon: master.Master, monkeypatch: pytest.MonkeyPatch, plan: base.Plan
) -> None:
    (unit,) = (kind for kind in units.REGISTRY.values() if kind.OPCODE is opcodes.NetworkAdd)
    monkeypatch.setattr(unit, "plan", lambda self, snapshot, facts: plan)
    before = _records(daemon)
    number, status, results = _run(lab, **ADD, network_name="more")
    assert (status, results) == ("success", [None if plan.jobs is None else {"jobs": []}])
    assert _records(daemon) > before + 1
    log = daemon.store.snapshot.jobs[str(number)].ops[0].log
    assert [entry[3] for entry in log] == [step.text for step in (*plan.steps, *plan.after)]


def test_a_dry_run_changes_nothing(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    _, status, results = _run(lab, **ADD, network_name="dry", dry_run=True)
    assert status == "success"
    assert results[0]
    assert not _is_there(daemon, "dry")


def test_nothing_is_left_of_what_the_disk_did_not_take(lab: cluster.SimulatedCluster, daemon: master.Master) -> None:
    before, last = _records(daemon), daemon.store.snapshot.last_job
    lab.master.disk.fail_write = 1.0
    try:
        with pytest.raises(errors.StorageError):
            lab.run(lab.luxi("RunJob", [{**ADD, "network_name": "lost"}], 5))
    finally:
        lab.master.disk.fail_write = 0.0
    assert (_records(daemon), daemon.store.snapshot.last_job) == (before, last)
    assert not _is_there(daemon, "lost")
    assert _run(lab, **ADD, network_name="lost")[0] == last + 1
