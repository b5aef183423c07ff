"""Nodes that do not answer: how long a query and a job wait for them, in virtual time."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

import pytest

from gantry import errors
from gantry.rpc import call_queue, calls, client, liveness, silence, targets
from gantry.runtime import simulated

Result = TypeVar("Result")

ALIVE = targets.Target("u1", "node1", "192.0.2.1", 1811)
FROZEN = targets.Target("u2", "node2", "192.0.2.2", 1811)
LIST = calls.InstanceList(hypervisors=("fake",))
HOOKS = calls.HooksRun(path="x", phase="pre", environment={})


class Nodes:
    """Nodes that take ``seconds`` for an answer, by name and call, and fail after the call's own limit."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = {}
        self.frozen: set[str] = set()
        self.refusing: set[str] = set()
        self.sent: list[tuple[float, str, str]] = []
        self.answered: dict[str, float] = {}

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        name, procedure = target.name, call.procedure()
        self.sent.append((asyncio.get_running_loop().time(), name, procedure))
        if name in self.refusing:
            raise errors.RemoteError(f"node {name} refused the connection")
        seconds = call.LIMIT if name in self.frozen else self.seconds.get((name, procedure), 0.0)
        await asyncio.sleep(seconds)
        if seconds >= call.LIMIT:
            raise errors.RemoteError(f"node {name} did not answer {procedure}")
        self.answered[name] = asyncio.get_running_loop().time()
        return cast("Result", name)

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        return [await liveness.answer(self, target, call) for target in where]

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        raise AssertionError("nobody joins")

    def last_answer(self, target: targets.Target) -> float:
        return self.answered.get(target.name, liveness.NEVER)

    def silence(self) -> silence.Silence | None:
        return None


class WatchedNodes:
    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.nodes = Nodes()
        self.silent = silence.Silence(self.nodes, world.clock)
        self.reader = liveness.Reader(self.nodes, self.silent)

    def time(self) -> float:
        return self.world.loop.time()

    def read(self, call: calls.Call[object] = LIST) -> tuple[float, list[bool]]:
        """Return the seconds that a query took, and which of the two nodes answered."""
        start = self.time()
        answers = self.world.run(self.reader.fan_out([ALIVE, FROZEN], call))
        return self.time() - start, [answer.error is None for answer in answers]

    def attempts(self, call: calls.Call[object] = LIST) -> list[float]:
        """Return the moments at which the frozen node was called in this way since the last time."""
        sent, self.nodes.sent = self.nodes.sent, []
        return [moment for moment, name, procedure in sent if (name, procedure) == (FROZEN.name, call.procedure())]

    def sleep(self, seconds: float) -> None:
        self.world.run(asyncio.sleep(seconds))


@pytest.fixture
def watched_nodes() -> Iterator[WatchedNodes]:
    with simulated.World(seed=1) as world:
        watched_nodes = WatchedNodes(world)
        yield watched_nodes
        world.run(watched_nodes.silent.close())


def test_a_query_waits_less_than_two_seconds_for_a_frozen_node_and_the_next_one_not_at_all(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    assert watched_nodes.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])
    assert liveness.READ_TIMEOUT_SECONDS < 2
    assert watched_nodes.read() == (0.0, [True, False])
    assert len(watched_nodes.attempts()) == 1


def test_many_frozen_nodes_take_no_longer_than_one(watched_nodes: WatchedNodes) -> None:
    where = [targets.Target(f"u{number}", f"node{number}", "192.0.2.9", number) for number in range(100)]
    watched_nodes.nodes.frozen = {target.name for target in where}
    start = watched_nodes.time()
    answers = watched_nodes.world.run(watched_nodes.reader.fan_out(where, LIST))
    assert watched_nodes.time() - start == liveness.READ_TIMEOUT_SECONDS
    assert all("did not answer instance_list within 1.5 s" in str(answer.error) for answer in answers)


def test_a_silent_node_is_asked_in_the_background_and_is_normal_again_when_it_answers(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.sleep(200)
    assert len(watched_nodes.attempts()) == 4  # each waits 60 s, and the pauses between them grow
    watched_nodes.nodes.frozen.clear()
    watched_nodes.sleep(61 + silence.MAX_INTERVAL_SECONDS)
    assert watched_nodes.read() == (0.0, [True, True])
    watched_nodes.attempts()
    watched_nodes.sleep(1000)
    assert watched_nodes.attempts() == []


def test_a_node_that_is_slow_answers_the_query_after_its_answer_has_come(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.seconds = {("node2", "instance_list"): 3.0}
    assert watched_nodes.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])
    watched_nodes.nodes.seconds.clear()
    watched_nodes.sleep(2)
    assert watched_nodes.read() == (0.0, [True, True])


def test_a_disk_that_hangs_does_not_hide_what_the_node_can_still_report(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.seconds = {("node2", "node_info"): 1e6}
    assert watched_nodes.read(calls.NodeInfo())[1] == [True, False]
    assert watched_nodes.read() == (0.0, [True, True])


def test_a_node_that_refuses_connections_is_asked_by_each_query(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.refusing = {"node2"}
    assert watched_nodes.read() == watched_nodes.read() == (0.0, [True, False])
    assert len(watched_nodes.attempts()) == 2
    watched_nodes.nodes.refusing.clear()
    assert watched_nodes.read() == (0.0, [True, True])


def test_a_frozen_node_whose_daemon_ends_is_not_silent_any_more(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.nodes.frozen, watched_nodes.nodes.refusing = set(), {"node2"}
    watched_nodes.sleep(62)
    watched_nodes.nodes.refusing.clear()
    assert watched_nodes.read() == (0.0, [True, True])


def test_a_silent_node_without_queries_is_forgotten(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.sleep(silence.UNUSED_SECONDS + 200)
    watched_nodes.attempts()
    watched_nodes.sleep(1000)
    assert watched_nodes.attempts() == []
    assert watched_nodes.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])


def test_a_node_that_answers_nothing_is_silent_for_queries_of_all_kinds(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    assert watched_nodes.read(calls.NodeInfo()) == (0.0, [True, False])
    assert watched_nodes.attempts(calls.NodeInfo()) == []


def test_a_silent_node_is_normal_again_when_it_answers_anything(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.nodes.frozen.clear()
    watched_nodes.world.run(watched_nodes.nodes.call(FROZEN, calls.NodeInfo()))  # as a job makes it
    assert watched_nodes.read(calls.NodeInfo()) == (0.0, [True, True])


def test_a_silent_node_is_asked_for_the_smallest_answer_every_few_seconds(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.attempts()
    watched_nodes.sleep(100)
    checks = watched_nodes.attempts(calls.Version())
    assert max(after - before for before, after in itertools.pairwise(checks)) <= 2 * silence.VERSION_SECONDS


def job(watched_nodes: WatchedNodes) -> client.Queued:
    """Return what the jobs of the master that makes the queries call nodes with."""
    return client.Queued(cast("client.Client", watched_nodes.nodes), watched_nodes.silent)


def test_a_job_that_reads_waits_for_a_frozen_node_once_and_calls_it_not_at_all_afterwards(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    nodes = job(watched_nodes)
    for checks in (liveness.THOROUGH, liveness.BRIEF):
        (first,) = watched_nodes.world.run(liveness.attend(nodes, [FROZEN], LIST, checks=checks))
        watched_nodes.attempts()
        start = watched_nodes.time()
        (second,) = watched_nodes.world.run(liveness.attend(nodes, [FROZEN], LIST, checks=checks))
        assert watched_nodes.time() == start
        assert watched_nodes.attempts() == []
        assert "did not answer instance_list lately" in str(second.error)
        assert first.error
    assert watched_nodes.read() == (0.0, [True, False])
    watched_nodes.world.run(nodes.close())


def test_a_job_that_changes_something_asks_a_silent_node_once_more_and_gives_it_up_soon(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    nodes = job(watched_nodes)
    watched_nodes.world.run(nodes.fan_out([FROZEN], HOOKS))
    start = watched_nodes.time()
    watched_nodes.attempts(HOOKS)
    (answer,) = watched_nodes.world.run(nodes.fan_out([FROZEN], HOOKS))
    assert answer.error
    assert watched_nodes.time() - start < 2
    assert len(watched_nodes.attempts(HOOKS)) == 1
    watched_nodes.nodes.frozen.clear()
    (answer,) = watched_nodes.world.run(nodes.fan_out([FROZEN], HOOKS))
    assert answer.error is None
    watched_nodes.world.run(nodes.close())


def test_a_job_that_only_reads_does_not_believe_a_silence_shorter_than_its_own_timeouts(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.read()
    watched_nodes.nodes.frozen.clear()
    (answer,) = watched_nodes.world.run(liveness.attend(job(watched_nodes), [FROZEN], LIST, checks=liveness.THOROUGH))
    assert answer.error is None


def test_a_canceled_query_leaves_no_call(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}

    async def cancel() -> None:
        query = asyncio.create_task(watched_nodes.reader.call(FROZEN, LIST))
        await asyncio.sleep(1)
        query.cancel()
        await asyncio.gather(query, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    watched_nodes.world.run(cancel())


def test_a_job_waits_for_slow_hooks_and_not_for_a_node_that_freezes(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.seconds = {("node1", "hooks_run"): 500.0}
    watched_nodes.nodes.frozen = {"node2"}
    start = watched_nodes.time()
    slow, frozen = watched_nodes.world.run(liveness.attend(watched_nodes.nodes, [ALIVE, FROZEN], HOOKS))
    assert watched_nodes.time() - start == 500
    assert slow.error is None
    assert frozen.value is None
    start = watched_nodes.time()
    (frozen,) = watched_nodes.world.run(liveness.attend(watched_nodes.nodes, [FROZEN], HOOKS))
    assert watched_nodes.time() - start == 7
    assert "node2 (192.0.2.2 port 1811) did not answer hooks_run and does not answer at all" in str(frozen.error)


def test_a_job_that_reads_gives_a_frozen_node_up_within_two_seconds(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    watched_nodes.nodes.seconds = {("node1", "os_diagnose"): 20.0}
    start = watched_nodes.time()
    (frozen,) = watched_nodes.world.run(liveness.read(watched_nodes.nodes, [FROZEN], calls.OsDiagnose()))
    assert watched_nodes.time() - start < 2
    assert frozen.error
    (slow,) = watched_nodes.world.run(liveness.read(watched_nodes.nodes, [ALIVE], calls.OsDiagnose()))
    assert slow.error is None


def test_a_job_waits_for_a_node_that_is_too_busy_for_a_check_but_answers_other_calls(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.seconds = {
        ("node1", "hooks_run"): 60.0,
        ("node1", "version"): 20.0,
        ("node1", "node_info"): 3.0,
    }

    async def other_calls() -> None:
        while True:
            await watched_nodes.nodes.call(ALIVE, calls.NodeInfo())

    async def check() -> bool:
        working = asyncio.ensure_future(other_calls())
        try:
            (answer,) = await liveness.attend(watched_nodes.nodes, [ALIVE], HOOKS)
        finally:
            working.cancel()
        return answer.error is None

    assert watched_nodes.world.run(check())


@pytest.mark.slow
def test_thousands_of_jobs_that_wait_for_a_busy_node_do_not_check_it(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.seconds = {("node1", "hooks_run"): 60.0, ("node1", "node_info"): 1.0}

    async def other_calls() -> None:
        while True:
            await watched_nodes.nodes.call(ALIVE, calls.NodeInfo())

    async def check() -> None:
        working = asyncio.ensure_future(other_calls())
        await asyncio.gather(*(liveness.attend(watched_nodes.nodes, [ALIVE], HOOKS) for _ in range(3000)))
        working.cancel()

    watched_nodes.world.run(check())
    assert not [procedure for _, _, procedure in watched_nodes.nodes.sent if procedure == "version"]


def test_a_query_counts_its_timeout_from_when_its_call_is_sent(watched_nodes: WatchedNodes) -> None:
    watched_nodes.nodes.seconds = {("node1", "instance_list"): 1.0}
    # Equal ones would share an answer.
    different = [calls.InstanceList(hypervisors=(f"h{number}",)) for number in range(10 * call_queue.QUERY_SLOTS)]

    async def together() -> list[targets.Answer[tuple[calls.RunningInstance, ...]]]:
        return await asyncio.gather(*(liveness.answer(watched_nodes.reader, ALIVE, call) for call in different))

    assert [answer for answer in watched_nodes.world.run(together()) if answer.error] == []
    assert watched_nodes.time() > liveness.READ_TIMEOUT_SECONDS


def test_queries_that_wait_for_their_turn_at_a_node_that_turns_out_silent_end_with_those_before(
    watched_nodes: WatchedNodes,
) -> None:
    watched_nodes.nodes.frozen = {"node2"}
    different = [calls.InstanceList(hypervisors=(f"h{number}",)) for number in range(100)]

    async def together() -> list[targets.Answer[tuple[calls.RunningInstance, ...]]]:
        return await asyncio.gather(*(liveness.answer(watched_nodes.reader, FROZEN, call) for call in different))

    answers = watched_nodes.world.run(together())
    assert watched_nodes.time() < 2 * liveness.READ_TIMEOUT_SECONDS
    assert all(answer.error for answer in answers)
