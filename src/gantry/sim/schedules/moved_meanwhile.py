"""A job waits for the lock of an instance that another job is moving.

The locks that the waiting job has asked for are those of the instance's former nodes. When it gets its turn, it must
have the locks of the present nodes (explanation/locks.md#whole-sets).
"""

from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim import facts
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, moves, wish

VM = "mover"
KEY: facts.Key = (instances.KIND, VM)


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    home = stage.choose(stage.up(), "node")
    target = stage.choose(stage.up(home), "other node")
    stage.clients.facts.begin({KEY: {facts.THERE: False}})
    await stage.must(instances.create_bare(VM, node=home))
    await stage.must(instances.start(VM))
    waiting = []

    def is_migration(source: str, receiver: str, request: http_interface.Request) -> bool:
        return receiver == home and request.path == f"/{calls.InstanceMigrate.procedure()}"

    def submit(_: str) -> None:
        op = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": VM, "beparams": {"vcpus": 2}}
        # The first client has claimed the instance; this one changes nothing that clients know of it.
        waiting.append(stage.begin(stage.carry_out(wish.Wish(f"another client: change {VM}", [op]))))

    with stage.trap(is_migration, submit):
        await stage.carry_out(moves.migrate(VM, target))
    for task in waiting:
        await task
