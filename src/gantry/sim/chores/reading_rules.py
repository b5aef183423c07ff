"""Reading is limited by rules for a while: a viewer of one instance sees that, what it uses, and nothing else."""

from collections.abc import Iterator

from gantry import errors
from gantry.sim import cluster, story
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, settings, wish

VM = "visible"
USER = "viewer"
RULE = {"who": f"user:{USER}", "role": "viewer", "on": f"instance:{VM}"}
PROMISE = "with reading by rules, a user sees the objects of the own roles and what they use"
ROUNDS = 3

QUESTIONS = (
    ("instance", ["name", "status", "nic.ips"]),
    ("network", ["name", "free_count", "address_list"]),
    ("node", ["name", "pinst_list"]),
    ("group", ["name", "node_list"]),
    ("port", ["name"]),
    ("job", ["id", "user", "error"]),
)


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    (node,) = await objects.nodes(stage, 1)
    await objects.network(stage)
    await objects.make(stage, objects.bare(VM, node, {"network": objects.NET, "ip": "pool"}))
    await stage.insist(_setting("rules"))
    await stage.insist(_rule("OP_ACCESS_ADD"))
    for _ in range(ROUNDS):
        await _look(stage)
        await stage.sleep(stage.chance.uniform(0, 10))
    await stage.insist(_rule("OP_ACCESS_REMOVE"))
    await stage.insist(_setting("all"))


def _setting(reading: str) -> wish.Wish:
    op: cluster.Opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "reading": reading}
    return wish.single(f"reading: {reading}", op, settings.KEY, {"reading": reading})


def _rule(op_id: str) -> wish.Wish:
    return wish.single(f"{op_id} {RULE}", {"OP_ID": op_id, **RULE}, (instances.KIND, VM), {})


async def _look(stage: stages.Stage) -> None:
    """Ask a master for all objects as the viewer; an instance that is not the own one must be in no answer."""
    master = stage.clients.master()
    daemon = stage.lab.daemons.get(master)
    if daemon is None:
        return
    before = daemon.store.snapshot
    other_instances = {vm.name for vm in before.instances.values()} - {VM}
    for resource, fields in QUESTIONS:
        try:
            answer = await stage.clients.ask("Query", resource, fields, None, on=master, user={"name": USER})
        except (OSError, errors.GantryError, TimeoutError):
            return
        named_instances = other_instances.intersection(_texts(answer))
        if (
            named_instances
            and daemon.store.snapshot.the_cluster is before.the_cluster
            and before.the_cluster.reading == "rules"
        ):
            raise story.Violation(
                PROMISE, f"no {resource} that names another instance", ", ".join(sorted(named_instances))
            )


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in an answer."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)
