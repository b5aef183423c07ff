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
def house() -> Iterator[WatchedNodes]:
    with simulated.World(seed=1) as world:
        house = WatchedNodes(world)
        yield house
        world.run(house.silent.close())


def test_a_query_waits_less_than_two_seconds_for_a_frozen_node_and_the_next_one_not_at_all(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    assert house.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])
    assert liveness.READ_TIMEOUT_SECONDS < 2
    assert house.read() == (0.0, [True, False])
    assert len(house.attempts()) == 1


def test_many_frozen_nodes_take_no_longer_than_one(house: WatchedNodes) -> None:
    where = [targets.Target(f"u{number}", f"node{number}", "192.0.2.9", number) for number in range(100)]
    house.nodes.frozen = {target.name for target in where}
    start = house.time()
    answers = house.world.run(house.reader.fan_out(where, LIST))
    assert house.time() - start == liveness.READ_TIMEOUT_SECONDS
    assert all("did not answer instance_list within 1.5 s" in str(answer.error) for answer in answers)


def test_a_silent_node_is_asked_in_the_background_and_is_normal_again_when_it_answers(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.sleep(200)
    assert len(house.attempts()) == 4  # each waits 60 s, and the pauses between them grow
    house.nodes.frozen.clear()
    house.sleep(61 + silence.MAX_INTERVAL_SECONDS)
    assert house.read() == (0.0, [True, True])
    house.attempts()
    house.sleep(1000)
    assert house.attempts() == []


def test_a_node_that_is_slow_answers_the_query_after_its_answer_has_come(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node2", "instance_list"): 3.0}
    assert house.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])
    house.nodes.seconds.clear()
    house.sleep(2)
    assert house.read() == (0.0, [True, True])


def test_a_disk_that_hangs_does_not_hide_what_the_node_can_still_report(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node2", "node_info"): 1e6}
    assert house.read(calls.NodeInfo())[1] == [True, False]
    assert house.read() == (0.0, [True, True])


def test_a_node_that_refuses_connections_is_asked_by_each_query(house: WatchedNodes) -> None:
    house.nodes.refusing = {"node2"}
    assert house.read() == house.read() == (0.0, [True, False])
    assert len(house.attempts()) == 2
    house.nodes.refusing.clear()
    assert house.read() == (0.0, [True, True])


def test_a_frozen_node_whose_daemon_ends_is_not_silent_any_more(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.nodes.frozen, house.nodes.refusing = set(), {"node2"}
    house.sleep(62)
    house.nodes.refusing.clear()
    assert house.read() == (0.0, [True, True])


def test_a_silent_node_without_queries_is_forgotten(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.sleep(silence.UNUSED_SECONDS + 200)
    house.attempts()
    house.sleep(1000)
    assert house.attempts() == []
    assert house.read() == (liveness.READ_TIMEOUT_SECONDS, [True, False])


def test_a_node_that_answers_nothing_is_silent_for_queries_of_all_kinds(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    assert house.read(calls.NodeInfo()) == (0.0, [True, False])
    assert house.attempts(calls.NodeInfo()) == []


def test_a_silent_node_is_normal_again_when_it_answers_anything(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.nodes.frozen.clear()
    house.world.run(house.nodes.call(FROZEN, calls.NodeInfo()))  # as a job makes it
    assert house.read(calls.NodeInfo()) == (0.0, [True, True])


def test_a_silent_node_is_asked_for_the_smallest_answer_every_few_seconds(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.attempts()
    house.sleep(100)
    checks = house.attempts(calls.Version())
    assert max(after - before for before, after in itertools.pairwise(checks)) <= 2 * silence.VERSION_SECONDS


def job(house: WatchedNodes) -> client.Queued:
    """Return what the jobs of the master that makes the queries call nodes with."""
    return client.Queued(cast("client.Client", house.nodes), house.silent)


def test_a_job_that_reads_waits_for_a_frozen_node_once_and_calls_it_not_at_all_afterwards(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    nodes = job(house)
    for checks in (liveness.THOROUGH, liveness.BRIEF):
        (first,) = house.world.run(liveness.attend(nodes, [FROZEN], LIST, checks=checks))
        house.attempts()
        start = house.time()
        (second,) = house.world.run(liveness.attend(nodes, [FROZEN], LIST, checks=checks))
        assert house.time() == start
        assert house.attempts() == []
        assert "did not answer instance_list lately" in str(second.error)
        assert first.error
    assert house.read() == (0.0, [True, False])
    house.world.run(nodes.close())


def test_a_job_that_changes_something_asks_a_silent_node_once_more_and_gives_it_up_soon(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    nodes = job(house)
    house.world.run(nodes.fan_out([FROZEN], HOOKS))
    start = house.time()
    house.attempts(HOOKS)
    (answer,) = house.world.run(nodes.fan_out([FROZEN], HOOKS))
    assert answer.error
    assert house.time() - start < 2
    assert len(house.attempts(HOOKS)) == 1
    house.nodes.frozen.clear()
    (answer,) = house.world.run(nodes.fan_out([FROZEN], HOOKS))
    assert answer.error is None
    house.world.run(nodes.close())


def test_a_job_that_only_reads_does_not_believe_a_silence_shorter_than_its_own_timeouts(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.read()
    house.nodes.frozen.clear()
    (answer,) = house.world.run(liveness.attend(job(house), [FROZEN], LIST, checks=liveness.THOROUGH))
    assert answer.error is None


def test_a_canceled_query_leaves_no_call(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}

    async def cancel() -> None:
        query = asyncio.create_task(house.reader.call(FROZEN, LIST))
        await asyncio.sleep(1)
        query.cancel()
        await asyncio.gather(query, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    house.world.run(cancel())


def test_a_job_waits_for_slow_hooks_and_not_for_a_node_that_freezes(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node1", "hooks_run"): 500.0}
    house.nodes.frozen = {"node2"}
    start = house.time()
    slow, frozen = house.world.run(liveness.attend(house.nodes, [ALIVE, FROZEN], HOOKS))
    assert house.time() - start == 500
    assert slow.error is None
    assert frozen.value is None
    start = house.time()
    (frozen,) = house.world.run(liveness.attend(house.nodes, [FROZEN], HOOKS))
    assert house.time() - start == 7
    assert "node2 (192.0.2.2 port 1811) did not answer hooks_run and does not answer at all" in str(frozen.error)


def test_a_job_that_reads_gives_a_frozen_node_up_within_two_seconds(house: WatchedNodes) -> None:
    house.nodes.frozen = {"node2"}
    house.nodes.seconds = {("node1", "os_diagnose"): 20.0}
    start = house.time()
    (frozen,) = house.world.run(liveness.read(house.nodes, [FROZEN], calls.OsDiagnose()))
    assert house.time() - start < 2
    assert frozen.error
    (slow,) = house.world.run(liveness.read(house.nodes, [ALIVE], calls.OsDiagnose()))
    assert slow.error is None


def test_a_job_waits_for_a_node_that_is_too_busy_for_a_check_but_answers_other_calls(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node1", "hooks_run"): 60.0, ("node1", "version"): 20.0, ("node1", "node_info"): 3.0}

    async def other_calls() -> None:
        while True:
            await house.nodes.call(ALIVE, calls.NodeInfo())

    async def check() -> bool:
        working = asyncio.ensure_future(other_calls())
        try:
            (answer,) = await liveness.attend(house.nodes, [ALIVE], HOOKS)
        finally:
            working.cancel()
        return answer.error is None

    assert house.world.run(check())


@pytest.mark.slow
def test_thousands_of_jobs_that_wait_for_a_busy_node_do_not_check_it(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node1", "hooks_run"): 60.0, ("node1", "node_info"): 1.0}

    async def other_calls() -> None:
        while True:
            await house.nodes.call(ALIVE, calls.NodeInfo())

    async def check() -> None:
        working = asyncio.ensure_future(other_calls())
        await asyncio.gather(*(liveness.attend(house.nodes, [ALIVE], HOOKS) for _ in range(3000)))
        working.cancel()

    house.world.run(check())
    assert not [procedure for _, _, procedure in house.nodes.sent if procedure == "version"]


def test_a_query_counts_its_timeout_from_when_its_call_is_sent(house: WatchedNodes) -> None:
    house.nodes.seconds = {("node1", "instance_list"): 1.0}
    number = 10 * call_queue.QUERY_SLOTS
    answers = house.world.run(house.reader.fan_out([ALIVE] * number, LIST))
    assert house.time() > liveness.READ_TIMEOUT_SECONDS
    assert [answer for answer in answers if answer.error] == []


def test_queries_that_wait_for_their_turn_at_a_node_that_turns_out_silent_end_with_those_before(
    house: WatchedNodes,
) -> None:
    house.nodes.frozen = {"node2"}
    answers = house.world.run(house.reader.fan_out([FROZEN] * 100, LIST))
    assert house.time() < 2 * liveness.READ_TIMEOUT_SECONDS
    assert all(answer.error for answer in answers)
