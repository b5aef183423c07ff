"""Networks and segment ranges that are made, changed and removed at the same time, through the real queue.

The hooks around networks take their time, so that jobs stand between plan and transaction while others come.
"""

import asyncio
import random
from collections.abc import Awaitable, Iterator, Sequence
from typing import TypeVar, cast

import pytest
from msgspec import structs
from tests.jobs import simulated_jobs
from tests.operations import build

from gantry.daemons import units
from gantry.ipam import embedded
from gantry.jobs import environment, processor, queue
from gantry.model import job as jobs
from gantry.model import network, opcodes
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

Result = TypeVar("Result")
SEEDS = range(12)
FAILURE = calls.HookResult(script="no", outcome="failed", output="no")


class Store(simulated_jobs.MemoryStore):
    """A store in memory with a ledger beside it, which sees every change, and which remembers every id ever used."""

    def __init__(self, state: states.Snapshot) -> None:
        super().__init__(state)
        self.ledger = embedded.Ledger()
        self.ledger.follow(state, state, ())

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        before, ticket = self.snapshot, super().submit(changes, cause)
        self.ledger.follow(before, self.snapshot, changes)
        return ticket


class Nodes:
    """Nodes whose hooks take a while, and stop one in four networks where they are ``strict``."""

    def __init__(self, seed: int, *, strict: bool) -> None:
        self.random = random.Random(seed)
        self.strict = strict

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        if isinstance(call, calls.Version):
            return cast("Result", calls.VersionInfo(software="1"))
        await asyncio.sleep(self.random.choice((0.0, 0.1, 1.0, 5.0)))
        assert isinstance(call, calls.HooksRun)
        fails = self.strict and call.phase == "pre" and self.random.random() < 0.25
        return cast("Result", (FAILURE,) if fails else ())

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        return [targets.Answer(target, value=await self.call(target, call)) for target in where]

    def last_answer(self, target: targets.Target) -> float:
        return float("-inf")

    def silence(self) -> None:
        return None


class SegmentJobs(simulated_jobs.SimulatedJobs):
    """The queue with the units of the master, over a cluster in which segment ranges may be made."""

    def __init__(self, world: simulated.World, seed: int, *ranges: network.SegmentRange, strict: bool = False) -> None:
        owner = structs.replace(build.OWNER, segment_ranges=True, segment_fallback=False)
        self.slow = Nodes(seed, strict=strict)
        values = (owner, *build.FIRST[1:], *ranges)
        self.kept = Store(states.Snapshot().apply([states.Put(value) for value in values], serial=1))
        super().__init__(world)

    def boot(self) -> None:
        self.store = self.kept
        super().boot()
        services = environment.Services(
            nodes=cast("base.Nodes", self.slow),
            ledger=self.kept.ledger,
            authority=build.Authority(),
            runtime=self.runtime,
            submit=lambda many, submitter: self.queue.submit_many(many, submitter=submitter),
        )
        self.processor = processor.Processor(self.book, self.locks, units=units.REGISTRY, services=services)
        self.queue = queue.Queue(self.book, self.processor, self.runtime, archived=self.archived.get, limit=self.limit)

    @property
    def state(self) -> states.Snapshot:
        return self.kept.snapshot

    async def at_once(self, *ops: opcodes.Opcode) -> list[str]:
        """Submit a job for each opcode, in one moment, and return how they ended: a code where one failed."""
        await self.queue.start()
        numbers = await self.queue.submit_many([[cast("opcodes.AnyOpcode", op)] for op in ops])
        accepted = [number for number in numbers if isinstance(number, int)]
        assert len(accepted) == len(ops)
        await self.wait(*accepted)
        return [_ended(self.job(number)) for number in accepted]


def _ended(job: jobs.Job) -> str:
    if job.status is jobs.Status.SUCCESS:
        return "success"
    match job.ops[0].result:
        case ["OpPrereqError", [_, str(code)]]:
            return code
        case [str(name), _]:
            return name
    raise AssertionError(job.ops[0].result)


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    value: int = request.param
    return value


@pytest.fixture
def world(seed: int) -> Iterator[simulated.World]:
    with simulated.World(seed=seed) as world:
        yield world


def lab(minimum: int, maximum: int, *, uuid: str = "lab", project: str = "p1") -> network.SegmentRange:
    return network.SegmentRange(
        uuid=uuid,
        name="",
        network_type="vlan",
        physical_network="physnet1",
        minimum=minimum,
        maximum=maximum,
        shared=not project,
        project=project,
    )


def creation(index: int, **fields: object) -> opcodes.AnyOpcode:
    settings = fields or {"project": "p1", "segmented": True}
    return opcodes.decode({"OP_ID": "OP_NETWORK_ADD", "network_name": f"n{index}", **settings})


def ids(segment_jobs: SegmentJobs) -> list[int]:
    used = [net.segment.segmentation_id for net in segment_jobs.state.networks.values() if net.segment]
    assert len(used) == len(set(used))
    return sorted(used)


@pytest.mark.parametrize("strict", [False, True])
def test_twenty_creations_and_deletions_on_one_range_have_exactly_the_permitted_outcomes(
    world: simulated.World, seed: int, strict: bool
) -> None:
    segment_jobs = SegmentJobs(world, seed, lab(100, 104), strict=strict)
    ops = [creation(index) for index in range(14)] + [opcodes.SegmentRangeRemove(range="lab") for _ in range(6)]
    random.Random(seed).shuffle(ops)
    outcomes = dict.fromkeys(map(id, ops), "")
    outcomes |= dict(zip(outcomes, segment_jobs.run(segment_jobs.at_once(*ops)), strict=True))
    created = [outcomes[id(op)] for op in ops if isinstance(op, opcodes.NetworkAdd)]
    removed = [outcomes[id(op)] for op in ops if isinstance(op, opcodes.SegmentRangeRemove)]
    assert {*created} <= {"success", "insufficient_resources", *(["HooksAbort"] if strict else [])}
    assert {*removed} <= {"success", "wrong_state", "unknown_entity"}
    networks = ids(segment_jobs)
    assert len(networks) == created.count("success")
    if "lab" in segment_jobs.state.segmentranges:
        assert not {"success", "unknown_entity"} & {*removed}
        assert set(networks) <= {*range(100, 105)}
        assert strict or networks == [100, 101, 102, 103, 104]
    else:
        assert removed.count("success") == 1
        assert networks == []


def test_a_range_that_is_removed_and_made_again_under_creations_leaves_no_network_outside(
    world: simulated.World, seed: int
) -> None:
    segment_jobs = SegmentJobs(world, seed, lab(100, 104), lab(1, 50, uuid="all", project=""))
    shrinks = [opcodes.SegmentRangeSetParams(range="lab", minimum=100 + index) for index in (1, 2, 3)]
    grows = [opcodes.SegmentRangeSetParams(range="lab", minimum=100) for _ in range(3)]
    gone = [opcodes.NetworkRemove(network_name=f"n{index}") for index in range(4)]
    ops: list[opcodes.Opcode] = [*(creation(index) for index in range(10)), *shrinks, *grows, *gone]
    random.Random(seed).shuffle(ops)
    outcomes = segment_jobs.run(segment_jobs.at_once(*ops))
    assert {*outcomes} <= {"success", "insufficient_resources", "wrong_state", "unknown_entity", "LockError"}
    lab_range = segment_jobs.state.segmentranges["lab"]
    assert all(lab_range.minimum <= number <= lab_range.maximum for number in ids(segment_jobs))


def test_of_overlapping_ranges_that_are_made_at_the_same_moment_one_stays(world: simulated.World, seed: int) -> None:
    segment_jobs = SegmentJobs(world, seed)
    specs = [
        opcodes.SegmentRangeSpec(
            network_type="vlan", physical_network="physnet1", minimum=1 + index, maximum=100 + index
        )
        for index in range(8)
    ]
    outcomes = segment_jobs.run(segment_jobs.at_once(*(opcodes.SegmentRangeAdd(ranges=(spec,)) for spec in specs)))
    assert sorted(outcomes) == ["resource_not_unique"] * 7 + ["success"]
    assert len(segment_jobs.state.segmentranges) == 1


def test_one_vlan_that_eight_name_at_once_is_given_to_one(world: simulated.World, seed: int) -> None:
    segment_jobs = SegmentJobs(world, seed, lab(1, 4000, project=""))
    named = {"network_type": "vlan", "physical_network": "physnet1", "segment": 402}
    outcomes = segment_jobs.run(segment_jobs.at_once(*(creation(index, **named) for index in range(8))))
    assert outcomes.count("success") == 1
    assert {*outcomes} <= {"success", "resource_not_unique", "temp_insufficient_resources"}
    assert ids(segment_jobs) == [402]


def test_ids_come_back_from_networks_that_hooks_stop_and_from_those_that_are_removed(
    world: simulated.World, seed: int
) -> None:
    segment_jobs = SegmentJobs(world, seed, lab(100, 109), strict=True)
    first = segment_jobs.run(segment_jobs.at_once(*(creation(index) for index in range(10))))
    created = [f"n{index}" for index, outcome in enumerate(first) if outcome == "success"]
    assert len(ids(segment_jobs)) == len(created)
    segment_jobs.slow.strict = False
    outcomes = segment_jobs.run(segment_jobs.at_once(*(opcodes.NetworkRemove(network_name=name) for name in created)))
    assert outcomes == ["success"] * len(created)
    again = segment_jobs.run(segment_jobs.at_once(*(creation(index) for index in range(20, 30))))
    assert again == ["success"] * 10
    assert ids(segment_jobs) == [*range(100, 110)]


def test_four_projects_at_once_get_ids_of_their_own_only(world: simulated.World, seed: int) -> None:
    ranges = [lab(100 * index, 100 * index + 4, uuid=f"r{index}", project=f"p{index}") for index in range(1, 5)]
    segment_jobs = SegmentJobs(world, seed, *ranges, lab(1, 4, uuid="all", project=""))
    ops = [creation(index, project=f"p{index % 4 + 1}", segmented=True) for index in range(24)]
    outcomes = segment_jobs.run(segment_jobs.at_once(*ops))
    assert outcomes.count("success") == 20
    assert all(
        net.segment.segmentation_id // 100 == int(net.project[1:])
        for net in segment_jobs.state.networks.values()
        if net.segment
    )
