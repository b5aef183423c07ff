"""Opcodes that only read, answered without a job: shared questions, limits, refusals."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from gantry import errors
from gantry.daemons import units
from gantry.jobs import reads
from gantry.model import opcodes
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.sim import cluster

SYSTEMS = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["name"]}
INFO = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": []}
READING = (
    SYSTEMS,
    INFO,
    {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": "vm1"},
    {"OP_ID": "OP_NODE_QUERY_STORAGE", "output_fields": ["name"], "storage_type": "file"},
    {"OP_ID": "OP_NODE_QUERY_INVITATIONS"},
    {"OP_ID": "OP_NODE_QUERYVOLS", "output_fields": ["name"]},
    {"OP_ID": "OP_TAGS_SEARCH", "pattern": "x"},
)


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=1, nodes=3) as lab:
        lab.run(lab.build())
        create = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": True}
        lab.run(lab.done(create))
        yield lab


@pytest.fixture
def os_calls(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to nodes about operating systems."""
    node_names: list[str] = []
    nodes = lab.daemons[lab.leader].nodes
    call = nodes.call

    async def recorded(target: targets.Target, asking: calls.Call[object]) -> object:
        if isinstance(asking, calls.OsDiagnose):
            node_names.append(target.name)
            await lab.world.clock.sleep(0.1)
        return await call(target, asking)

    monkeypatch.setattr(nodes, "call", recorded)
    return node_names


def last_job(lab: cluster.SimulatedCluster) -> int:
    return lab.daemons[lab.leader].store.snapshot.last_job


def serial(lab: cluster.SimulatedCluster) -> int:
    return lab.daemons[lab.leader].store.snapshot.serial


def failure(lab: cluster.SimulatedCluster, op: dict[str, object]) -> errors.GantryError:
    with pytest.raises(errors.GantryError) as caught:
        lab.run(lab.luxi("ReadOpcode", op))
    return caught.value


def test_every_unit_that_only_reads_is_answered_here() -> None:
    reading = {kind.OPCODE for kind in units.REGISTRY.values() if kind.READS}
    assert reading == {type(opcodes.decode(op)) for op in READING}


@pytest.mark.parametrize("op", READING, ids=lambda op: op["OP_ID"])
def test_reading_makes_no_job_and_changes_nothing(lab: cluster.SimulatedCluster, op: dict[str, object]) -> None:
    before = last_job(lab), serial(lab)
    for _ in range(30):
        result, warnings = msgspec.convert(lab.run(lab.luxi("ReadOpcode", op)), tuple[object, list[str]])
        assert not warnings
    assert (last_job(lab), serial(lab)) == before
    assert lab.run(lab.done(op)) == [result]
    assert last_job(lab) == before[0] + 1


def test_equal_questions_at_the_same_time_share_one_answer(lab: cluster.SimulatedCluster, os_calls: list[str]) -> None:
    async def together() -> list[object]:
        return await asyncio.gather(
            *(lab.luxi("ReadOpcode", {**SYSTEMS, "reason": [["gnt:user", str(i), i]]}) for i in range(50))
        )

    answers = lab.run(together())
    assert answers == [answers[0]] * 50
    assert sorted(os_calls) == ["node1", "node2", "node3"]
    lab.run(lab.luxi("ReadOpcode", SYSTEMS))
    assert len(os_calls) == 6, "an answer is not kept: it would become old"


def test_a_question_after_a_change_is_not_answered_from_before_it(
    lab: cluster.SimulatedCluster, os_calls: list[str]
) -> None:
    async def around() -> None:
        first = asyncio.ensure_future(lab.luxi("ReadOpcode", SYSTEMS))
        await lab.world.clock.sleep(0.05)
        await lab.done({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["new"]})
        await lab.luxi("ReadOpcode", SYSTEMS)
        await first

    lab.run(around())
    assert len(os_calls) == 6


def test_a_client_that_leaves_does_not_take_the_answer_of_others_with_it(lab: cluster.SimulatedCluster) -> None:
    service, op = lab.daemons[lab.leader].reads, opcodes.decode(INFO)

    async def one_leaves() -> reads.Reading:
        first, second = (asyncio.ensure_future(service.read(op)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert "vm1" in str(lab.run(one_leaves()).result)


def test_a_question_without_waiting_clients_ends(lab: cluster.SimulatedCluster, os_calls: list[str]) -> None:
    service, op = lab.daemons[lab.leader].reads, opcodes.decode(SYSTEMS)

    async def all_leave() -> reads.Reading:
        first = asyncio.ensure_future(service.read(op))
        await lab.world.clock.sleep(0.05)
        first.cancel()
        await asyncio.wait([first])
        return await service.read(op)

    lab.run(all_leave())
    assert len(os_calls) > 3, "the second question was not answered by the first one, which had ended"


def test_what_changes_something_is_refused(lab: cluster.SimulatedCluster) -> None:
    error = failure(lab, {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["x"]})
    assert "OP_TAGS_SET does not only read; submit it as a job" in str(error)
    assert "x" not in str(lab.run(lab.luxi("QueryTags", "cluster", "")))


def test_a_plan_that_changes_something_is_a_bug(lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (unit,) = (kind for kind in units.REGISTRY.values() if kind.OPCODE is opcodes.TagsSearch)
    monkeypatch.setattr(unit, "plan", lambda self, snapshot, facts: base.Plan(steps=[base.Step("breaks")]))
    assert isinstance(failure(lab, {"OP_ID": "OP_TAGS_SEARCH", "pattern": "x"}), errors.InternalError)


def test_names_are_checked(lab: cluster.SimulatedCluster) -> None:
    assert isinstance(failure(lab, {**INFO, "instances": ["vm9"]}), errors.NotFoundError)


def test_more_different_questions_than_the_limit_are_refused(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "LIMIT", 3)
    names = ("name", "valid", "variants", "parameters", "hidden")

    async def together() -> list[object]:
        return await asyncio.gather(
            *(lab.luxi("ReadOpcode", {**SYSTEMS, "output_fields": [name]}) for name in names), return_exceptions=True
        )

    refused = [answer for answer in lab.run(together()) if isinstance(answer, errors.BusyError)]
    assert len(refused) == 2
    assert lab.run(lab.luxi("ReadOpcode", {**SYSTEMS, "output_fields": ["name"]})) == [[["sample"]], []]


def test_a_silent_node_delays_the_answer_by_less_than_two_seconds(lab: cluster.SimulatedCluster) -> None:
    op = {**SYSTEMS, "output_fields": ["name", "valid", "node_status"]}
    for name in ("node1", "node2"):
        lab.world.network.partition(name, "node3")
    start = lab.world.clock.monotonic()
    lab.run(lab.luxi("ReadOpcode", op))
    assert lab.world.clock.monotonic() - start < 2
    for name in ("node1", "node2"):
        lab.world.network.heal(name, "node3")


def test_a_dry_run_is_answered_with_what_would_be_done(lab: cluster.SimulatedCluster) -> None:
    before = last_job(lab)
    for op in (INFO, SYSTEMS):
        assert lab.run(lab.luxi("ReadOpcode", {**op, "dry_run": True})) == [[], []]
    assert last_job(lab) == before


def test_questions_end_with_the_daemon(lab: cluster.SimulatedCluster, os_calls: list[str]) -> None:
    service, op = lab.daemons[lab.leader].reads, opcodes.decode(SYSTEMS)

    async def closed() -> float:
        questions = [asyncio.ensure_future(service.read(op)) for _ in range(2)]
        await lab.world.clock.sleep(0.05)
        begin = lab.world.clock.monotonic()
        await service.close()
        answers = await asyncio.gather(*questions, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError, asyncio.CancelledError]
        return lab.world.clock.monotonic() - begin

    assert lab.run(closed()) == 0
    assert os_calls, "the questions were under way"
