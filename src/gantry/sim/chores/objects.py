"""The objects of chores: instances with an operating system, and a network of their own, which no other client uses."""

import contextlib
import functools
from collections.abc import Callable, Sequence

from gantry.model import instance
from gantry.sim import cluster, facts, invariants, node_disks, story
from gantry.sim.hardware import copying
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, networks, wish
from gantry.sim.steps import nodes as node_steps
from gantry.state.objects import snapshot as states

NET = "chores"
CIDR = "10.70.0.0/27"
POOL = "10.70.0.8-10.70.0.23"
SIZE = 64
MEMORY = 512
IsDue = Callable[[states.Snapshot], bool]

ATTEMPTS = 6
BACK_OFF_SECONDS = 5.0


def key(name: str) -> facts.Key:
    """Return the key of an instance."""
    return instances.KIND, name


async def nodes(stage: stages.Stage, count: int) -> list[str]:
    """Return machines that are up and have nodes that take instances, by what clients know; Unplayable if too few."""
    for _ in range(ATTEMPTS):
        names = list(filter(functools.partial(_takes_instances, stage), stage.up()))
        if len(names) >= count:
            return stage.chance.sample(names, count)
        await stage.sleep(BACK_OFF_SECONDS)
    raise stages.Unplayable(f"there are not {count} nodes")


def _takes_instances(stage: stages.Stage, name: str) -> bool:
    known = stage.clients.facts
    is_node = known.get((node_steps.KIND, name), facts.THERE) is not False
    return is_node and not any(known.get((node_steps.KIND, name), flag) for flag in ("offline", "drained"))


def create(
    name: str, *where: str, template: str, disks: int = 1, nics: Sequence[object] = (), start: bool = False
) -> wish.Wish:
    """Return the wish for an instance on a node, and for mirrored disks a second one, with an operating system."""
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": template,
        "disks": [{"size": SIZE, "name": f"{name}-{index}"} for index in range(disks)],
        "os_type": copying.OS_NAME,
        "nics": nics,
        "start": start,
        "pnode": where[0],
        "beparams": {"maxmem": MEMORY, "minmem": MEMORY},
    }
    if template == "drbd":
        op["snode"] = where[1]
    return wish.single(f"create {name} on {' and '.join(where)}", op, key(name), fields(name, template, disks, start))


def bare(name: str, node: str, *nics: object, tags: Sequence[str] = ()) -> wish.Wish:
    """Return the wish for a stopped instance without disks."""
    op: cluster.Opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": "diskless",
        "disks": [],
        "no_install": True,
        "nics": nics,
        "start": False,
        "pnode": node,
        "tags": tags,
        "beparams": {"maxmem": MEMORY, "minmem": MEMORY},
    }
    known: dict[str, object] = {facts.THERE: True, "up": False, "nics": len(nics), "disks": 0, "template": "diskless"}
    known |= {f"tag {tag}": True for tag in tags}
    return wish.single(f"create {name} on {node}, without disks", op, key(name), known)


async def make(stage: stages.Stage, creation: wish.Wish) -> None:
    """Create an instance; remove what an interrupted attempt has left. Unplayable without success."""
    ((_, name),) = creation.keys
    for _ in range(ATTEMPTS):
        if await stage.succeeds(creation):
            return
        await stage.sleep(BACK_OFF_SECONDS)
        with contextlib.suppress(stages.Unplayable):
            stage.instance(name)
            await stage.succeeds(remove(name))
    raise stages.Unplayable(f"no success: {creation.text}")


async def check_refused(stage: stages.Stage, job: wish.Wish, promise: str, *, is_due: IsDue) -> None:
    """Submit a job that must be refused; raises Violation if it succeeds.

    ``is_due`` is whether it must be, by the state of a master and by what machines have: it is called before and after
    the job, because a machine may lose its power and a master its role meanwhile.
    """
    (name,) = stage.lab.masters()[:1] or ("",)
    daemon = stage.lab.daemons.get(name)
    was_due = is_due(stage.state())
    is_done = await stage.succeeds(job)
    if is_done and was_due and stage.lab.daemons.get(name) is daemon and is_due(stage.state()):
        raise story.Violation(promise, f"a refusal: {job.text}", "success")


def runs(stage: stages.Stage, name: str) -> bool:
    """Return whether an instance's guest runs on any machine."""
    return any(guest.running.name == name for each in stage.lab.names for guest in invariants.guests(stage.lab, each))


def fields(name: str, template: str, disks: int, up: bool) -> facts.Fields:
    """Return what is known of an instance that ``create`` has made."""
    known = {facts.THERE: True, "up": up, "template": template, "disks": disks, "size": SIZE, "content": name}
    return known | {"copied": template == "drbd" or None}


def change(name: str, text: str, effect: facts.Fields, **arguments: object) -> wish.Wish:
    """Return the wish for a change of an instance."""
    op: cluster.Opcode = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": name, **arguments}
    return wish.single(f"{name}: {text}", op, key(name), effect)


def stop(name: str) -> wish.Wish:
    """Return the wish that stops an instance."""
    op = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": name, "timeout": 0}
    return wish.single(f"stop {name}", op, key(name), {"up": False})


def remove(name: str) -> wish.Wish:
    """Return the wish that removes an instance."""
    op = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name, "shutdown_timeout": 0}
    return wish.single(f"remove {name}", op, key(name), {facts.THERE: False})


async def network(stage: stages.Stage) -> None:
    """Make the network of the chores, unless it is there; Unplayable if that does not succeed."""
    key = (networks.KIND, NET)
    if ("networks", NET) not in stage.state().names:
        op: cluster.Opcode = {
            "OP_ID": "OP_NETWORK_ADD",
            "network_name": NET,
            "subnets": [{"cidr": CIDR}],
            "pools": [{"range": POOL, "name": NET}],
        }
        there = {facts.THERE: True, f"subnet {CIDR}": True, f"pool {NET}": True}
        await stage.insist(wish.single(f"add network {NET}", op, key, there))
    state = stage.state()
    if state.names.get(("networks", NET)) not in state.group(networks.GROUP).networks:
        op = {
            "OP_ID": "OP_NETWORK_CONNECT",
            "network_name": NET,
            "group_name": networks.GROUP,
            "network_mode": "routed",
            "network_link": "main",
        }
        await stage.insist(wish.single(f"connect network {NET}", op, key, {"connected": True}))


def verify(name: str) -> wish.Wish:
    """Return the wish to verify the cluster, with an instance as its object."""
    return wish.single("verify the cluster", {"OP_ID": "OP_CLUSTER_VERIFY"}, key(name), {})


NIC = {"network": NET, "ip": "pool"}
"""A NIC in that network, with any address of its pool."""


def machines(stage: stages.Stage, vm: instance.Instance) -> list[str]:
    """Return the machines that have the disks of an instance."""
    state = stage.state()
    return [state.nodes[uuid].name for uuid in vm.nodes]


async def destroy(stage: stages.Stage, name: str, disk: instance.Disk) -> None:
    """Destroy a disk of a stopped instance on a machine, as a broken drive does."""
    machine = stage.lab.world.machine(name).disk
    for part in disk.children or (disk,):
        last = part.logical_id[-1]
        stage.lab.groups[name].by_name.pop(last, None)
        if last.startswith(node_disks.STORAGE) and machine.exists(last):
            await machine.remove(last)
