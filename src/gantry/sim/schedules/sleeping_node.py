"""A node sleeps through a change of master, with a call of the former master in its socket.

Its process stands still as soon as the call to start an instance is on its way, its sockets keep what arrives, and its
clock continues to run. Then the master daemon ends, and another machine becomes the master. An administrator sees that
no guest runs on the sleeping node, marks the node offline, and starts the instance elsewhere. When the node wakes, it
must not carry the call out (explanation/replication.md#permits): there would be two guests.
"""

import contextlib

from gantry.model import cluster_settings
from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim import cluster, facts
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, moves, nodes

VM = "sleeper"
KEY: facts.Key = (instances.KIND, VM)

POLICY = cluster_settings.Replication.MAJORITY
"""Under it, what the administrator does is not lost, and a node that sleeps stops nobody."""

CALL_SECONDS = 20.0
"""For the call to be on its way."""
JOB_SECONDS = 240.0
"""For the job of the former master to end."""
AWAKE_SECONDS = 30.0
"""After the node has woken, until it is marked online: longer than it waits for an extension of a permit."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    lab = stage.lab
    present_master = stage.master_of(POLICY)
    asleep = stage.choose(
        [name for name in stage.up(present_master) if not stage.has_guests(name)], "node without guests"
    )
    stage.clients.facts.begin({KEY: {facts.THERE: False}})
    await stage.must(instances.create_bare(VM, node=asleep))

    def is_start(source: str, target: str, request: http_interface.Request) -> bool:
        return target == asleep and request.path == f"/{calls.InstanceStart.procedure()}"

    with contextlib.ExitStack() as ends:

        def sleep(source: str) -> None:
            if lab.stop(asleep, cluster.NODE):
                text = f"{asleep} sleeps, with a call of {source} in its socket"
                ends.callback(stage.faults.begin_lasting(text, lambda: lab.resume(asleep, cluster.NODE)))

        trap = ends.enter_context(stage.trap(is_start, sleep))
        starting = stage.begin(stage.carry_out(instances.start(VM)))
        await stage.wait_for(lambda: bool(trap.sender), "a call to start the instance", seconds=CALL_SECONDS)
        await stage.sleep(stage.chance.uniform(0, 2))
        stage.kill_master(trap.sender)
        await stage.sleep(stage.chance.uniform(0, 15))
        await stage.elect(asleep)
        await stage.wait_for(starting.done, "the end of the job", seconds=JOB_SECONDS)
        stage.master_of(POLICY)
        if not lab.is_stopped(asleep, cluster.NODE) or stage.has_guests(asleep):
            raise stages.Unplayable(f"{asleep} does not sleep, or has guests")
        await stage.must(nodes.mark_offline(asleep, offline=True))
        await stage.must(moves.leave_failed_node(VM, stage.choose(stage.up(asleep), "other node")))
        await stage.must(instances.start(VM))
    await stage.sleep(AWAKE_SECONDS)
    await stage.carry_out(nodes.mark_offline(asleep, offline=False))
