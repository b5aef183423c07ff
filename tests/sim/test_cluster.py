"""Whole clusters under faults, each from a seed; a failing seed fails in every run."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.state import build as state_build

from gantry import errors
from gantry.sim import cluster
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

POOL = 60
NETWORK: tuple[cluster.Opcode, ...] = (
    {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": "net1",
        "subnets": [{"cidr": "10.0.0.0/24"}, {"cidr": "2001:db8::/64"}],
        "pools": [
            {"range": f"10.0.0.10-10.0.0.{9 + POOL}", "name": "four"},
            {"range": "2001:db8::1:0/112", "name": "six"},
        ],
    },
    {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": "net1",
        "group_name": "default",
        "network_mode": "routed",
        "network_link": "main",
    },
)


@dataclass
class Client:
    """Creates and removes instances one after the other; records which results were acknowledged."""

    lab: cluster.SimulatedCluster
    job_ended: asyncio.Event
    name: str
    chance: random.Random
    submitted: list[int] = field(default_factory=list)
    ended: dict[int, str] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)

    async def work(self, count: int) -> None:
        for number in range(count):
            await self.create(f"{self.name}-{number}")
            if self.created and self.chance.random() < 0.3:
                await self.remove(self.chance.choice(sorted(self.created)))
            await self.lab.world.clock.sleep(self.chance.uniform(0, 2))

    async def create(self, name: str) -> None:
        nics = [{"ip": ["four", "six"], "network": "net1"}]
        op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "disk_template": "diskless", "nics": nics}
        if await self.do({**op, "pnode": self.chance.choice(self.lab.names)}):
            self.created.add(name)

    async def remove(self, name: str) -> None:
        self.created.discard(name)
        done = await self.do({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name})
        (self.gone if done else self.doubtful).add(name)

    async def do(self, op: cluster.Opcode) -> bool:
        """Submit a job and wait for its end, over restarts of the master; return whether the job succeeded."""
        number = 0
        for _ in range(1000):
            with contextlib.suppress(OSError, errors.StorageError, errors.NotMasterError):
                if not number:
                    number = await self.lab.submit(op)
                    self.submitted.append(number)
                status, _ = await self.lab.wait(number)
                self.job_ended.set()
                self.ended[number] = status
                return status == "success"
            # Longer than a master without a majority needs to continue after its candidates are back.
            await self.lab.world.clock.sleep(1 if number else 15)
            if not number:
                return False
        raise TimeoutError(f"job {number} has no end")


async def disturb(lab: cluster.SimulatedCluster, chance: random.Random, job_ended: asyncio.Event) -> None:
    """Lose messages, cut wires, let disks fail, kill daemons and take the power from machines, the master among them.

    About half of the machines fail at the moment when a client learns that a job ended.
    """
    wires = lab.world.network
    wires.drop, wires.duplicate = chance.uniform(0, 0.05), chance.uniform(0, 0.1)
    for _ in range(8):
        await lab.world.clock.sleep(chance.uniform(0, 8))
        name = chance.choice([lab.names[0], *lab.names])
        if chance.random() < 0.3:
            other = chance.choice([each for each in lab.names if each != name])
            wires.partition(name, other)
            await lab.world.clock.sleep(chance.uniform(0, 20))
            wires.heal(name, other)
            continue
        if chance.random() < 0.3:
            lab.master.disk.fail_sync = True
            await lab.world.clock.sleep(chance.uniform(0, 3))
            lab.master.disk.fail_sync = False
            continue
        if chance.random() < 0.5:
            job_ended.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job_ended.wait(), 20)
        (lab.kill if chance.random() < 0.5 else lab.crash)(name)
        await lab.world.clock.sleep(chance.uniform(0, 3))
        await lab.restart(name)
    wires.drop = wires.duplicate = 0.0


async def scenario(lab: cluster.SimulatedCluster) -> list[Client]:
    await lab.build()
    await lab.done(*NETWORK)
    job_ended = asyncio.Event()
    clients = [Client(lab, job_ended, f"c{number}", lab.world.source(f"client {number}")) for number in range(3)]
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(lab, lab.world.source("chaos"), job_ended))
        for client in clients:
            group.create_task(client.work(8))
    return clients


async def rows(lab: cluster.SimulatedCluster, kind: str, *fields: str) -> list[list[object]]:
    answer = msgspec.convert(await lab.luxi("Query", kind, fields, None), dict[str, object])
    return [[value for _, value in row] for row in msgspec.convert(answer["data"], list[list[tuple[int, object]]])]


async def check(lab: cluster.SimulatedCluster, clients: list[Client]) -> None:
    await lab.world.clock.sleep(60)
    for (number,) in await rows(lab, "job", "id"):
        # A job that no client knows of may still have to run.
        await lab.wait(msgspec.convert(number, int))
    known = {str(name): addresses for name, addresses in await rows(lab, "instance", "name", "nic.ips")}
    created = {name for client in clients for name in client.created}
    gone = {name for client in clients for name in client.gone}
    assert created | gone
    assert created <= set(known)
    assert not gone & set(known)
    addresses_in_use = [
        ip for nics in msgspec.convert(list(known.values()), list[list[list[str]]]) for nic in nics for ip in nic
    ]
    assert len(addresses_in_use) == 2 * len(known)
    assert len(set(addresses_in_use)) == len(addresses_in_use)
    ((free,),) = await rows(lab, "network", "free_count")
    assert free == POOL + (1 << 16) - len(addresses_in_use)
    jobs = {row[0]: row[1] for row in await rows(lab, "job", "id", "status")}
    submitted = [number for client in clients for number in client.submitted]
    assert len(set(submitted)) == len(submitted)
    assert set(submitted) <= set(jobs)
    assert set(jobs.values()) <= {"success", "error"}
    ended = {number: status for client in clients for number, status in client.ended.items()}
    assert {number: jobs[number] for number in ended} == ended
    running = {str(name) for name, state in await rows(lab, "instance", "name", "oper_state") if state}
    assert running <= set(known)
    (verified,) = (await lab.wait(await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY"})))[1]
    log = msgspec.convert(await lab.luxi("QueryJobs", None, ["oplog"]), list[list[list[list[list[object]]]]])
    assert "should not exist" not in str(log[-1]), verified


async def states_of(lab: cluster.SimulatedCluster) -> list[dict[str, object]]:
    """Return the state that each machine would recover as the master."""
    contents = []
    for name in lab.names:
        machine = lab.world.machine(name)
        store = await machine.spawn(transaction.Store.open(machine, cluster.FOLDERS))
        contents.append(_comparable(store.snapshot))
        await machine.spawn(store.close())
    return contents


def _comparable(state: states.Snapshot) -> dict[str, object]:
    return state_build.content(state)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 20))])
def test_nothing_acknowledged_is_lost_and_no_address_is_allocated_twice(seed: int) -> None:
    with cluster.SimulatedCluster(seed) as lab:
        clients = lab.run(scenario(lab))
        lab.run(check(lab, clients))
        for name in lab.names:
            lab.crash(name)
        for name in reversed(lab.names):
            lab.run(lab.restart(name))
        lab.run(check(lab, clients))
        lab.run(lab.world.clock.sleep(120))
        for name in lab.names:
            lab.kill(name)
        first, *other_states = lab.run(states_of(lab))
        assert all(other == first for other in other_states)


def test_one_seed_gives_one_run() -> None:
    def outcome() -> object:
        with cluster.SimulatedCluster(4) as lab:
            lab.run(scenario(lab))
            return lab.world.clock.monotonic(), lab.run(rows(lab, "instance", "name", "pnode", "nic.ips", "nic.macs"))

    assert outcome() == outcome()
