"""Small states for the tests of the state: objects, stores on simulated machines, and what is to be compared."""

import dataclasses
import re
from collections.abc import Coroutine
from typing import TypeVar

import msgspec
from immutables import Map

from gantry.model import cluster, instance, job, network, opcodes
from gantry.runtime import paths, simulated
from gantry.state.objects import snapshot
from gantry.state.start import creation
from gantry.state.store import transaction

T = TypeVar("T")

WHERE = paths.Paths.below("/g")
CAUSE = transaction.Cause(job=7, opcode="OP_TEST_DELAY", user="gnt:user", reason="test")

OWNER = cluster.Cluster(uuid="c", name="cl.example.com", master_node="n0", master_netdev="eth0", ctime=5.0)
GROUP = cluster.NodeGroup(uuid="g", name="default")
NET = network.Network(uuid="net", name="net1", subnets=(network.Subnet(uuid="s", cidr="10.0.0.0/8"),))


def node(number: int) -> cluster.Node:
    return cluster.Node(
        uuid=f"n{number}", name=f"node{number}", primary_ip=f"192.0.2.{number + 1}", group="g", master_candidate=True
    )


def vm(number: int, *, ip: str = "", tags: tuple[str, ...] = ()) -> instance.Instance:
    nic = instance.Nic(uuid=f"x{number}", mac=f"aa:00:00:{number:06x}", network="net", ip=(ip,) if ip else ())
    return instance.Instance(
        uuid=f"i{number}", name=f"inst{number}", primary_node="n0", hypervisor="kvm", nics=(nic,), tags=tags
    )


def queued(number: int) -> job.Job:
    return job.Job(id=number, ops=(job.Step(input=opcodes.TestDelay(duration=1.0)),), received_timestamp=(1, 2))


def ended(queued_job: job.Job) -> job.Job:
    step = msgspec.structs.replace(queued_job.ops[0], status=job.Status.SUCCESS, log=((1, (1, 5), "message", "slept"),))
    return msgspec.structs.replace(queued_job, ops=(step,), end_timestamp=(3, 4))


def put(*values: snapshot.Stored) -> list[snapshot.Change]:
    return [snapshot.Put(value) for value in values]


FIRST = put(OWNER, GROUP, NET, node(0), node(1), node(2))


def on(world: simulated.World, machine: simulated.SimulatedRuntime, work: Coroutine[object, object, T]) -> T:
    """Run ``work`` as a task of the machine; tasks that it starts end with the machine."""

    async def finished() -> T:
        return await machine.spawn(work)

    return world.run(finished())


def new_store(
    world: simulated.World, machine: simulated.SimulatedRuntime, *, limits: transaction.Limits | None = None
) -> transaction.Store:
    on(world, machine, creation.create(machine, WHERE, FIRST))
    return opened(world, machine, limits=limits)


def opened(
    world: simulated.World, machine: simulated.SimulatedRuntime, *, limits: transaction.Limits | None = None
) -> transaction.Store:
    return on(world, machine, transaction.Store.open(machine, WHERE, limits=limits))


def content(state: snapshot.Snapshot) -> dict[str, object]:
    """Return a state's objects and indexes as plain data that can be compared."""
    return {field.name: _plain(getattr(state, field.name)) for field in dataclasses.fields(state)}


def _plain(value: object) -> object:
    match value:
        case Map():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def marked(data: bytes) -> bytes:
    """Return a ``config.data`` as after an edit by hand: with the marker of an edit instead of the checksum."""
    return re.sub(rb'"checksum": "[0-9a-f]{64}"', b'"checksum": "edited"', data, count=1)


def sections(machine: simulated.SimulatedRuntime) -> list[str]:
    return [f"{WHERE.journal}/{name}" for name in machine.disk.names(WHERE.journal)]
