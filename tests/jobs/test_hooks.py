"""Hooks around the work of a job, and the addresses that are held meanwhile."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import pytest
from msgspec import structs
from tests.jobs import simulated_jobs
from tests.jobs.simulated_jobs import Script, SimulatedJobs, op, procedure

from gantry import errors
from gantry.ipam import driver
from gantry.model import cluster, instance, network
from gantry.operations import base, draws
from gantry.operations.network import nics
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

Result = TypeVar("Result")

GROUP = cluster.NodeGroup(uuid="g", name="default")
MASTER = cluster.Node(uuid="m", name="node1", primary_ip="203.0.113.1", group="g")
OTHER = cluster.Node(uuid="o", name="node2", primary_ip="203.0.113.2", group="g")
POOL = network.Pool(range="192.0.2.10-192.0.2.12")
NET = network.Network(uuid="net", name="net1", subnets=(network.Subnet(uuid="s", cidr="192.0.2.0/24", pools=(POOL,)),))
HERE = targets.Target("m", "node1", "203.0.113.1", 1811)
THERE = targets.Target("o", "node2", "203.0.113.2", 1811)
DISTANT = targets.Target("f", "node3", "203.0.113.3", 1811, offline=True)

Answer = tuple[calls.HookResult, ...] | errors.GantryError


@dataclass
class Nodes:
    """Nodes that answer hooks as ``answers`` says, by phase and node, after ``seconds``."""

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    told: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    trail: list[str] = field(default_factory=list)

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        if isinstance(call, calls.Version):
            return cast("Result", calls.VersionInfo(software="1"))
        answer = await self._answer(target, call)
        if answer.error:
            raise answer.error
        return cast("Result", answer.value)

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        return [await self._answer(target, call) for target in where]

    def last_answer(self, target: targets.Target) -> float:
        return float("-inf")

    def silence(self) -> None:
        return None

    async def _answer(self, target: targets.Target, call: calls.Call[Result]) -> targets.Answer[Result]:
        assert isinstance(call, calls.HooksRun)
        if target.offline:
            return targets.Answer(target, error=errors.RemoteError("it is marked offline"), offline=True)
        self.asked.append((call.phase, target.name))
        self.trail.append(f"{call.phase} on {target.name}")
        self.told.append(call.environment)
        await asyncio.sleep(self.seconds)
        answer = self.answers.get((call.phase, target.name), ())
        if isinstance(answer, errors.GantryError):
            return targets.Answer(target, error=answer)
        return targets.Answer(target, value=cast("Result", answer))


def around(
    *,
    pre: Sequence[targets.Target] = (HERE,),
    post: Sequence[targets.Target] = (HERE,),
    leaving: Sequence[targets.Target] = (),
    report: base.Report | None = None,
) -> base.Hooks:
    return base.Hooks(
        path="network-add",
        object_type="NETWORK",
        environment={"COUNT": "0"},
        later=lambda newest: {"COUNT": str(len(newest.networks))},
        nodes_pre=pre,
        nodes_post=post,
        nodes_leaving=leaving,
        report=report,
    )


def failed(output: str = "") -> tuple[calls.HookResult, ...]:
    return (
        calls.HookResult(script="00-readme", outcome="skipped"),
        calls.HookResult(script="05-good", outcome="succeeded", output="fine"),
        calls.HookResult(script="10-check", outcome="failed", output=output),
    )


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def lab(world: simulated.World, nodes: Nodes) -> SimulatedJobs:
    lab = SimulatedJobs(world)
    lab.nodes = cast("base.Nodes", nodes)
    lab.memory.snapshot = lab.memory.snapshot.apply(
        [states.Put(GROUP), states.Put(MASTER), states.Put(OTHER)], serial=2
    )
    lab.boot()
    return lab


def run(lab: SimulatedJobs, *ops: str, dry_run: bool = False) -> list[object]:
    """Run one job for each script, all at once; return their results."""

    async def scenario() -> list[int]:
        answers = await lab.queue.submit_many([[op(name, dry_run=dry_run)] for name in ops])
        numbers = [number for number in answers if isinstance(number, int)]
        await lab.wait(*numbers)
        return numbers

    return [lab.job(number).ops[0].result for number in lab.run(scenario())]


def messages(lab: SimulatedJobs) -> list[object]:
    return [entry[3] for job in lab.queue.jobs().values() for step in job.ops for entry in step.log]


def script(trail: list[str], hooks: base.Hooks, *, fails: bool = False) -> Script:
    async def do() -> None:
        trail.append("step")
        if fails:
            raise errors.RemoteError("node2 does not answer")

    async def part() -> None:
        trail.append("farewell")

    after = [base.Step("tell them", procedure(part))] if hooks.nodes_leaving else []
    steps = [base.Step("work", procedure(do))]
    return Script(plan=base.Plan(changes=[states.Put(NET)], steps=steps, after=after, hooks=hooks))


def test_hooks_run_before_anything_is_changed_and_after_all_is_done(lab: SimulatedJobs, nodes: Nodes) -> None:
    lab.scripts["unit"] = script(nodes.trail, around(pre=[HERE, THERE], post=[THERE], leaving=[HERE]))
    assert run(lab, "unit") == [None]
    assert nodes.trail == ["pre on node1", "pre on node2", "step", "post on node1", "farewell", "post on node2"]
    assert nodes.told[0] == {
        "GANETI_HOOKS_VERSION": "2",
        "GANETI_HOOKS_PATH": "network-add",
        "GANETI_HOOKS_PHASE": "pre",
        "GANETI_OP_CODE": "OP_TEST_DELAY",
        "GANETI_OBJECT_TYPE": "NETWORK",
        "GANETI_CLUSTER": "c",
        "GANETI_MASTER": "node1",
        "GANETI_COUNT": "0",
    }
    assert nodes.told[-1] == nodes.told[0] | {"GANETI_HOOKS_PHASE": "post", "GANETI_POST_COUNT": "1"}


def test_a_script_that_fails_before_the_work_stops_the_job_and_nothing_is_changed(
    lab: SimulatedJobs, nodes: Nodes
) -> None:
    nodes.answers = {("pre", "node1"): failed("no such owner"), ("pre", "node2"): failed()}
    lab.scripts["unit"] = script(nodes.trail, around(pre=[HERE, THERE]))
    before = lab.memory.snapshot
    assert run(lab, "unit") == [
        ["HooksAbort", [[["node1", "10-check", "no such owner"], ["node2", "10-check", "(no output)"]]]]
    ]
    assert nodes.trail == ["pre on node1", "pre on node2"]
    assert lab.memory.snapshot.networks == before.networks
    assert str(lab.job(1).status) == "error"


def test_a_script_that_fails_after_the_work_is_a_warning(lab: SimulatedJobs, nodes: Nodes) -> None:
    nodes.answers = {("post", "node1"): failed("mail could not be sent"), ("post", "node2"): errors.RemoteError("gone")}
    lab.scripts["unit"] = script(nodes.trail, around(post=[HERE, THERE]))
    assert run(lab, "unit") == [None]
    assert "net" in lab.memory.durable.networks
    assert messages(lab) == [
        "work",
        "- WARNING: hooks network-add on node1: script 10-check failed, output: mail could not be sent",
        "- WARNING: hooks network-add on node2: did not run: gone",
    ]


def test_a_node_that_does_not_answer_refuses_nothing_and_one_that_is_offline_is_not_missed(
    lab: SimulatedJobs, nodes: Nodes
) -> None:
    nodes.answers = {("pre", "node2"): errors.RemoteError("node node2 cannot be reached")}
    lab.scripts["unit"] = script(nodes.trail, around(pre=[DISTANT, THERE, HERE]))
    assert run(lab, "unit") == [None]
    assert messages(lab)[0] == "- WARNING: hooks network-add on node2: did not run: node node2 cannot be reached"
    assert not any("node3" in str(line) for line in messages(lab))


def test_the_post_phase_is_left_out_when_the_work_failed(lab: SimulatedJobs, nodes: Nodes) -> None:
    lab.scripts["unit"] = script(nodes.trail, around(), fails=True)
    run(lab, "unit")
    assert nodes.trail == ["pre on node1", "step"]


def test_a_dry_run_and_an_operation_without_hooks_ask_no_node(lab: SimulatedJobs, nodes: Nodes) -> None:
    lab.scripts["unit"] = script(nodes.trail, around())
    lab.scripts["plain"] = Script(plan=base.Plan(changes=[states.Put(NET)]))
    run(lab, "unit", dry_run=True)
    run(lab, "plain")
    assert nodes.asked == []


def test_a_unit_can_take_what_failed_after_the_work_into_its_result(lab: SimulatedJobs, nodes: Nodes) -> None:
    failures: list[base.HookFailure] = []
    nodes.answers = {("post", "node1"): failed("worn out")}
    lab.scripts["unit"] = Script(plan=base.Plan(hooks=around(report=failures.extend), result=lambda: len(failures)))
    assert run(lab, "unit") == [1]
    assert failures == [("node1", "10-check", "worn out")]
    assert messages(lab) == []


def test_what_changed_while_the_hooks_ran_is_not_overwritten(lab: SimulatedJobs, nodes: Nodes) -> None:
    renamed = network.Network(uuid="net", name="renamed")
    lab.scripts["slow"] = script(nodes.trail, around())
    lab.scripts["quick"] = Script(plan=base.Plan(changes=[states.Put(renamed)]))
    nodes.seconds = 10
    slow, quick = run(lab, "slow", "quick")
    assert quick is None
    assert isinstance(slow, list)
    assert slow[0] == "OpPrereqError"
    assert "networks net" in str(slow[1])
    assert lab.memory.durable.networks["net"].name == "renamed"


# Addresses


class FollowedStore(simulated_jobs.MemoryStore):
    """A store whose changes a ledger follows."""

    follow: Callable[[states.Snapshot, states.Snapshot, Sequence[states.Change]], None]

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        before, ticket = self.snapshot, super().submit(changes, cause)
        self.follow(before, self.snapshot, changes)
        return ticket


@pytest.fixture
def pool(lab: SimulatedJobs, nodes: Nodes) -> SimulatedJobs:
    """Return a cluster with a pool of three addresses, whose hooks take ten seconds."""
    store = FollowedStore(lab.memory.snapshot.apply([states.Put(NET)], serial=3))
    store.follow = lab.ledger.follow
    lab.memory = lab.store = store
    lab.boot()
    nodes.seconds = 10
    return lab


def taking(
    lab: SimulatedJobs,
    name: str,
    ip: str = "pool",
    *,
    net: network.Network = NET,
    hooks: base.Hooks | None = None,
    steps: Sequence[base.Step] = (),
) -> Script:
    """Return a unit that creates an instance, or changes its addresses; the result is the list of addresses."""

    def plan(snapshot: states.Snapshot) -> base.Plan:
        picks = lab.ledger.allocations(snapshot)
        addresses = () if ip == "none" else (picks.allocate(net, driver.parse(ip, force=False)),)
        card = instance.Nic(uuid=f"x{name}", mac=f"aa:00:00:00:00:{name}", ip=addresses, network="net")
        vm = instance.Instance(uuid=name, name=name, primary_node="m", hypervisor="fake", nics=(card,))
        return base.Plan(changes=[states.Put(vm)], hooks=hooks, steps=steps, result=lambda: list(addresses))

    return Script(plan=plan)


def test_two_jobs_whose_hooks_run_at_the_same_time_pick_different_addresses(pool: SimulatedJobs, nodes: Nodes) -> None:
    for name in ("01", "02", "03", "04"):
        pool.scripts[name] = taking(pool, name, hooks=around())
    *results, last = run(pool, "01", "02", "03", "04")
    assert results == [["192.0.2.10"], ["192.0.2.11"], ["192.0.2.12"]]
    assert isinstance(last, list)
    assert "every pool of network net1 is full" in str(last[1])
    assert sorted(address for _, address in pool.memory.durable.addresses) == ["192.0.2.10", "192.0.2.11", "192.0.2.12"]


def test_the_address_of_a_job_that_hooks_refused_is_free_again(pool: SimulatedJobs, nodes: Nodes) -> None:
    nodes.answers = {("pre", "node1"): failed()}
    pool.scripts["01"] = taking(pool, "01", hooks=around())
    pool.scripts["02"] = taking(pool, "02", hooks=around(pre=[THERE]))
    refused, first = run(pool, "01", "02")
    assert isinstance(refused, list)
    assert refused[0] == "HooksAbort"
    assert first == ["192.0.2.11"]
    pool.scripts["03"] = taking(pool, "03")
    assert run(pool, "03") == [["192.0.2.10"]]


def test_who_asks_for_an_address_that_is_held_hears_which_job_holds_it(pool: SimulatedJobs, nodes: Nodes) -> None:
    pool.scripts["01"] = taking(pool, "01", hooks=around())
    pool.scripts["02"] = taking(pool, "02", "192.0.2.10")
    first, second = run(pool, "01", "02")
    assert first == ["192.0.2.10"]
    assert isinstance(second, list)
    assert "address 192.0.2.10 of network net1 is held by job 1" in str(second[1])


def test_an_address_that_a_job_gives_up_is_held_until_its_end_and_given_back_when_it_fails(
    pool: SimulatedJobs, nodes: Nodes
) -> None:
    async def slow() -> None:
        await asyncio.sleep(10)
        raise errors.RemoteError("node1 does not answer")

    pool.scripts["01"] = taking(pool, "01", "192.0.2.10")
    assert run(pool, "01") == [["192.0.2.10"]]
    pool.scripts["give up"] = taking(pool, "01", "none", steps=[base.Step("unplug", procedure(slow))])
    pool.scripts["02"] = taking(pool, "02")
    pool.scripts["03"] = taking(pool, "03", "192.0.2.10")
    lost, picked, refusal = run(pool, "give up", "02", "03")
    assert isinstance(lost, list)
    assert lost[0] == "RemoteError"
    assert picked == ["192.0.2.11"]
    assert isinstance(refusal, list)
    assert "is held by job 2" in str(refusal[1])
    assert pool.memory.durable.instances["01"].nics[0].ip == ("192.0.2.10",)


def test_a_mac_address_that_a_job_gives_up_is_held_until_its_end_and_given_back_when_it_fails(
    pool: SimulatedJobs, nodes: Nodes
) -> None:
    async def slow() -> None:
        await asyncio.sleep(10)
        raise errors.RemoteError("node1 does not answer")

    def bare(snapshot: states.Snapshot) -> base.Plan:
        vm = structs.replace(snapshot.instances["01"], nics=())
        return base.Plan(changes=[states.Put(vm)], steps=[base.Step("unplug", procedure(slow))])

    def named(snapshot: states.Snapshot) -> base.Plan:
        inputs = draws.Inputs(now=0.0, uuid=str, below=lambda _: 0)
        mac = nics.Macs(snapshot, inputs, held_macs=pool.ledger.macs).take("aa:00:00:00:00:01", NET)
        return base.Plan(result=lambda: mac)

    pool.scripts["01"] = taking(pool, "01", "192.0.2.10")
    assert run(pool, "01") == [["192.0.2.10"]]
    pool.scripts["give up"], pool.scripts["02"] = Script(plan=bare), Script(plan=named)
    lost, refusal = run(pool, "give up", "02")
    assert isinstance(lost, list)
    assert lost[0] == "RemoteError"
    assert isinstance(refusal, list)
    assert "MAC address aa:00:00:00:00:01 is held by running job 2" in str(refusal[1])
    assert [nic.mac for nic in pool.memory.durable.instances["01"].nics] == ["aa:00:00:00:00:01"]


def test_an_address_that_a_job_gave_up_is_free_after_it(pool: SimulatedJobs, nodes: Nodes) -> None:
    pool.scripts["01"] = taking(pool, "01", "192.0.2.10")
    pool.scripts["give up"] = taking(pool, "01", "none", hooks=around())
    pool.scripts["02"] = taking(pool, "02")
    for name in ("01", "give up"):
        run(pool, name)
    assert run(pool, "02") == [["192.0.2.10"]]


@pytest.mark.promise("networks-58")
def test_no_address_is_given_twice_whatever_hooks_and_steps_run_side_by_side(pool: SimulatedJobs, nodes: Nodes) -> None:
    wide = network.Network(
        uuid="net",
        name="net1",
        subnets=(network.Subnet(uuid="s", cidr="10.0.0.0/24", pools=(network.Pool(range="10.0.0.10-10.0.0.40"),)),),
    )
    pool.memory.snapshot = pool.memory.snapshot.apply([states.Put(wide)], serial=99)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise errors.RemoteError("node1 does not answer")

    scripts = [f"{number:02x}" for number in range(60)]
    for number, name in enumerate(scripts):
        ip = "10.0.0.10" if number % 7 == 0 else "pool"
        steps = [base.Step("plug", procedure(fail))] if number % 3 == 0 else []
        pool.scripts[name] = taking(pool, name, ip, net=wide, hooks=around() if number % 2 else None, steps=steps)
    results = run(pool, *scripts)
    allocated = [result[0] for result in results if isinstance(result, list) and str(result[0]).startswith("10.")]
    assert len(allocated) == len(set(allocated)) >= 20
    assert {address for _, address in pool.memory.durable.addresses} == set(allocated)


def test_the_masters_own_node_is_asked_where_the_machine_has_a_folder_of_scripts(
    lab: SimulatedJobs, nodes: Nodes
) -> None:
    lab.scripts["unit"] = script(nodes.trail, around(pre=[HERE, THERE], post=[HERE, THERE]))
    services = lab.processor._services
    lab.processor._services = dataclasses.replace(services, has_hooks=lambda name: name == "network-add-post.d")
    assert run(lab, "unit") == [None]
    assert nodes.trail == ["pre on node2", "step", "post on node1", "post on node2"]
