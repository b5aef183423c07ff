"""One node that reports what it likes: start, failover and changes continue by the majority of the others."""

from collections.abc import Iterator, Mapping

import msgspec
import pytest
from tests.sim import broken_nodes
from tests.sim.broken_nodes import Answer, never_ends, reports, says, tag

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim import cluster

HUGE = msgspec.Raw(b"9" * 4002)
NUMBERS = {
    "2-to-63": 1 << 63,
    "digits-4002": HUGE,
    "negative": -1,
    "float": 1.5,
    "text": "7",
    "null": None,
    "far": (1 << 53) - 1,
    "near": 900,
}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


async def start_fail_over_and_change(lab: cluster.SimulatedCluster, liar: str, answers: Mapping[str, Answer]) -> None:
    """Restart the master beside a lying node, give the role to the third node, and change something each time."""
    broken_nodes.lie(lab, liar, answers)
    await lab.done(tag("before"))
    await lab.stop_master("node1")
    await lab.start_master("node1")
    await lab.done(tag("restarted"))
    await lab.failover("node2")
    await lab.done(tag("failed-over"))
    assert lab.masters() == ["node2"]
    assert {"before", "restarted", "failed-over"} <= set(await broken_nodes.tags(lab))
    await lab.world.clock.sleep(30)
    await lab.done(tag("later"))
    assert lab.masters() == ["node2"]


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("field", ["epoch", "serial", "job", "heard", "given_up"])
def test_no_number_that_one_node_reports_about_its_copy_stops_the_others(
    lab: cluster.SimulatedCluster, field: str, number: object
) -> None:
    value = [number, number] if field == "given_up" else number
    lab.run(start_fail_over_and_change(lab, "node3", {"candidate_status": reports(**{field: value})}))


@pytest.mark.parametrize("field", ["epoch", "heard"])
def test_an_epoch_that_may_be_true_is_taken_over_and_obeyed_by_all(lab: cluster.SimulatedCluster, field: str) -> None:
    """Otherwise one node could lift the epoch so far that the others do not believe the next master."""

    async def scenario() -> None:
        own = lab.daemons["node1"].store.epoch
        for above in (calls.EPOCH_STEP, calls.EPOCH_STEP // 2, calls.EPOCH_STEP // 2 + 1):
            await start_fail_over_and_change(
                lab,
                "node3",
                {"candidate_status": reports(**{field: own + above}), "*": lambda true_answer: true_answer},
            )
            await lab.failover("node1")

    lab.run(scenario())


@pytest.mark.parametrize(
    "grant",
    [
        {"granted": False, "epoch": 1 << 63},
        {"granted": False, "epoch": calls.EPOCH_STEP},
        {"granted": False, "epoch": 10**9},
        {"granted": False, "epoch": 5, "lease": {"node": "node3", "epoch": 5, "seconds": 1e12}},
        {"granted": True, "epoch": -3},
        {"granted": "yes", "epoch": 1},
        {"granted": False, "epoch": HUGE},
    ],
    ids=["2-to-63", "far", "farther", "lease", "negative", "text", "digits"],
)
def test_no_refusal_of_a_grant_by_one_node_stops_the_others(
    lab: cluster.SimulatedCluster, grant: dict[str, object]
) -> None:
    answer = msgspec.json.encode((True, grant))
    lab.run(start_fail_over_and_change(lab, "node3", {"master_promise": says(answer)}))


def test_a_node_that_always_has_granted_the_next_epoch_has_one_vote(lab: cluster.SimulatedCluster) -> None:
    def one_more(true_answer: http_interface.Response) -> http_interface.Response:
        _, grant = msgspec.json.decode(true_answer.body, type=tuple[bool, calls.GrantReply])
        refusal = calls.GrantReply(granted=False, epoch=grant.epoch + 1)
        return http_interface.Response(200, msgspec.json.encode((True, refusal)))

    lab.run(start_fail_over_and_change(lab, "node3", {"master_promise": one_more}))


@pytest.mark.parametrize("name", ["node3", "", "no.such.node"])
def test_a_node_that_names_itself_as_the_master_has_one_vote(lab: cluster.SimulatedCluster, name: str) -> None:
    answers = {"master_name": says(msgspec.json.encode((True, name))), "candidate_status": reports(master=name)}
    lab.run(start_fail_over_and_change(lab, "node3", answers))


@pytest.mark.parametrize(
    "answer",
    [
        says(b"[true, null]"),
        says(b'[true, ["x"]]'),
        says(b'[true, "yes"]'),
        says(b"[true, 7]"),
        says(b"[true]"),
        says(b""),
        says(b"\xff\x00"),
        says(b"[" * 100_000),
        says(b'[false, ["NoSuchError", []]]'),
        says(b"[false, []]", status=500),
        never_ends(),
    ],
    ids=["null", "list", "text", "number", "short", "empty", "bytes", "deep", "error", "status", "endless"],
)
def test_no_answer_of_another_form_by_one_node_stops_the_others(lab: cluster.SimulatedCluster, answer: Answer) -> None:
    lab.run(start_fail_over_and_change(lab, "node3", {"*": answer}))


def test_an_answer_of_a_hundred_megabytes_is_not_received(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_interface, "ANSWER_LIMIT", 1 << 16)
    body = b'[true, "%s"]' % (b"x" * (1 << 17))
    lab.run(start_fail_over_and_change(lab, "node3", {"*": says(body)}))
    assert "the answer has more than" in caplog.text


def test_a_node_that_reports_a_newer_copy_and_sends_other_frames_has_one_vote(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {"candidate_status": reports(serial=4711, digest="0" * 64)}
    frames = says(msgspec.json.encode((True, ["00000000 2 {}\n"])))
    lab.run(start_fail_over_and_change(lab, "node3", {**answers, "journal_fetch": frames}))
    assert "node node3 sent records that do not continue the journal here" in caplog.text


def test_an_old_master_whose_node_answers_wrongly_is_replaced_when_its_lease_has_ended(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        broken_nodes.lie(lab, "node1", {"stop_master": says(b"[true, null]"), "candidate_status": never_ends()})
        old = lab.daemons["node1"]
        lab.world.network.partition("node1", "node2", one_way=True)
        lab.kill_master("node1")
        lab.world.network.heal("node1", "node2")
        await lab.failover("node2")
        assert not old.lease.is_held()
        await lab.done(tag("of-node2"))
        assert lab.masters() == ["node2"]

    lab.run(scenario())


def test_a_node_that_refuses_the_master_for_an_epoch_that_it_invents_keeps_no_job_from_its_end(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        refusal = errors.FencedError("epoch 1 has passed: node3 obeys a master that was confirmed later")
        body = msgspec.json.encode((False, refusal.luxi_pair()))
        broken_nodes.lie(lab, "node3", {"*": says(body, status=refusal.status)})
        await lab.done(tag("before"))
        await lab.world.clock.sleep(60)
        await lab.done(tag("later"))
        assert lab.masters() == ["node1"]

    lab.run(scenario())
