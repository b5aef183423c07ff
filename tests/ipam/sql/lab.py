"""A queue with the master's units over a state in memory, and a shared database."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from msgspec import structs
from tests.jobs import simulated_jobs
from tests.operations import build

from gantry import errors
from gantry.daemons import units
from gantry.ipam import embedded, shared
from gantry.ipam.sql import driver, engines, requests
from gantry.jobs import environment, processor, queue
from gantry.model import cluster, network, opcodes
from gantry.model import job as jobs
from gantry.operations import base
from gantry.runtime import simulated
from gantry.state.journal import journal
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

T = TypeVar("T")

NET, SUBNET = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000001"


def net(pool: str = "192.0.2.10-192.0.2.19") -> network.Network:
    subnet = network.Subnet(
        uuid=SUBNET,
        cidr="192.0.2.0/24",
        gateway="192.0.2.1",
        pools=(network.Pool(range=pool),),
        external=("192.0.2.12",),
    )
    return network.Network(uuid=NET, name="lab", subnets=(subnet,))


def first(pool: str = "192.0.2.10-192.0.2.19", uuid: str = "c") -> list[states.Stored]:
    group = structs.replace(build.GROUP, networks={NET: cluster.Connection(mode="bridged", link="br7")})
    return [structs.replace(build.OWNER, uuid=uuid), group, *build.NODES, net(pool)]


class Store(simulated_jobs.MemoryStore):
    """A store in memory that notifies observers of every change."""

    may_be_superseded = False
    position = journal.Position(epoch=1)

    def __init__(self, state: states.Snapshot) -> None:
        super().__init__(state)
        self.observers: list[transaction.Observer] = []

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        before, ticket = self.snapshot, super().submit(changes, cause)
        for observer in self.observers:
            observer(before, self.snapshot, changes)
        return ticket

    def _write(self) -> None:
        super()._write()
        if self.full:
            for observer in self.observers:
                observer(self.snapshot, self.snapshot, ())


class Lab(simulated_jobs.SimulatedJobs):
    """A cluster; ``lab.restart()`` simulates a crash and restart of its master."""

    def __init__(self, world: simulated.World, *values: states.Stored) -> None:
        self.kept = Store(states.Snapshot().apply([states.Put(value) for value in values or first()], serial=1))
        self.fakes = build.FakeNodes()
        for node in build.NODES:
            self.fakes.machine(self.kept.snapshot.target(node))
        self.latency = random.Random(world.seed)
        super().__init__(world)

    def boot(self) -> None:
        self.store, self.nodes = self.kept, cast("base.Nodes", self.fakes)
        super().boot()
        self.ledger = embedded.Ledger()
        self.ledger.follow(self.kept.snapshot, self.kept.snapshot, ())
        self.runtime.block = self._slow  # type: ignore[method-assign]
        self.addresses = shared.Shared(self.runtime, self.ledger, self.kept)
        self.kept.observers = [self.ledger.follow, self.addresses.follow]
        services = environment.Services(
            nodes=self.nodes,
            ledger=self.ledger,
            authority=build.Authority(),
            runtime=self.runtime,
            submit=lambda many, submitter: self.queue.submit_many(many, submitter=submitter),
            has_hooks=lambda _: False,
            addresses=self.addresses,
        )
        self.processor = processor.Processor(self.book, self.locks, units=units.REGISTRY, services=services)
        self.queue = queue.Queue(self.book, self.processor, self.runtime, archived=self.archived.get, limit=self.limit)

    async def _slow(self, work: Callable[[], T]) -> T:
        """Run work, with a random delay before and after it, in which other tasks run."""
        await asyncio.sleep(self.latency.uniform(0, 0.1))
        try:
            return work()
        finally:
            await asyncio.sleep(self.latency.uniform(0, 0.1))

    async def start(self) -> None:
        self.addresses.start()
        await self.queue.start()

    async def restart(self) -> None:
        """End the daemon as a crash does, and start a new one on the content of the store."""
        await self.addresses.close()
        await self.queue.close()
        self.kept.snapshot = self.kept.durable
        self.boot()
        await self.start()

    @property
    def state(self) -> states.Snapshot:
        return self.kept.snapshot

    async def job(self, op: dict[str, object]) -> object:  # type: ignore[override]
        """Run an opcode as a job; return its result, or raise its error."""
        (number,) = await self.queue.submit_many([[opcodes.decode(op)]])
        assert isinstance(number, int), number
        await self.wait(number)
        return ended(self.queue.jobs()[number])

    async def wait(self, *numbers: int) -> list[str]:
        for number in numbers:
            while (job := self.queue.jobs()[number]).status not in jobs.FINAL:
                await self.queue.wait_for_change(
                    number, lambda changed: [changed.status], previous=[job.status], serial=10**9, timeout=1e6
                )
        return [str(self.queue.jobs()[number].status) for number in numbers]

    async def switch(self, driver_name: str, url: str = "", **more: object) -> object:
        op = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_driver": driver_name, **more}
        return await self.job(op | ({"ipam_database": url} if url else {}))

    async def add_port(self, ip: str = "", count: int = 1) -> list[str]:
        """Make ports and return their addresses."""
        spec = {"network": NET} | ({"fixed": [{"ip": ip}]} if ip else {})
        rows = await self.job({"OP_ID": "OP_PORT_ADD", "ports": [spec] * count})
        assert isinstance(rows, list)
        return [ip for row in rows for ip in row["ip"]]

    async def remove_port(self, ip: str) -> None:
        await self.job({"OP_ID": "OP_PORT_REMOVE", "port": self.state.addresses[NET, ip].port})

    async def add_instance(self, name: str) -> None:
        nic = {"network": NET, "ip": "pool"}
        op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "mode": "create", "disk_template": "diskless"}
        await self.job(op | {"pnode": "node1", "os_type": "plain", "nics": [nic], "hypervisor": "fake", "start": False})

    async def remove_instance(self, name: str) -> None:
        await self.job({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name})

    def allocated(self) -> set[str]:
        """Return the addresses of the network that the state has."""
        return {ip for cable, ip in self.state.addresses if cable == NET}

    async def until(self, true: Callable[[], bool]) -> None:  # type: ignore[override]
        async with asyncio.timeout(1000):
            while not true():  # noqa: ASYNC110 - a database tells nobody
                await asyncio.sleep(1)


def ended(job: jobs.Job) -> object:
    result = job.ops[0].result
    if job.status is jobs.Status.SUCCESS:
        return result
    assert isinstance(result, list)
    raise errors.from_luxi(*result)


def other(url: str, seed: int = 0) -> driver.Driver:
    """Return somebody else at the database."""
    return driver.Driver(engines.open_database(url), below=random.Random(seed).randrange)


def owners(url: str) -> dict[str, str]:
    """Return who has which address of the subnet."""
    return {each.address: each.owner for each in other(url).allocations(SUBNET)}


def take(url: str, ip: str, owner: str = "somebody") -> None:
    other(url).allocate(SUBNET, requests.SpecificAddress(ip), owner=owner, key=ip)


def port() -> opcodes.AnyOpcode:
    return opcodes.decode({"OP_ID": "OP_PORT_ADD", "ports": [{"network": NET}]})


def move(url: str) -> opcodes.AnyOpcode:
    return opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_driver": "sql", "ipam_database": url})
