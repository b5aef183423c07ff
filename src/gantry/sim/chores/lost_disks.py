"""A drive breaks: disks of a stopped instance are lost, and recreated in place or on other nodes.

A disk that exists must not be recreated: its data would be gone. What remains of the instance must stay as it was.
"""

from gantry.model import instance
from gantry.sim import facts
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, wish

VM = "broken"

EXISTING = "a disk that exists is not recreated"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    template = stage.chance.choice(["file", "plain", "drbd"])
    first, second = await objects.nodes(stage, 2)
    await objects.make(stage, objects.create(VM, first, second, template=template, disks=2))
    vm = stage.instance(VM)
    await objects.check_refused(
        stage, _recreate({}, "which exist"), EXISTING, is_due=lambda state: state.instances.get(vm.uuid) == vm
    )
    is_partial = stage.chance.random() < 0.4
    lost = vm.disks[1:] if is_partial else vm.disks
    await _lose(stage, vm, lost)
    await stage.succeeds(objects.verify(VM))
    known = {**objects.fields(VM, template, 2, up=False)}
    if is_partial:
        arguments: dict[str, object] = {"disks": [1]}
    else:
        known["content"] = None
        arguments, size = _whole(stage, [second, first][: len(vm.nodes)])
        known["size"] = size
    await stage.insist(_recreate(arguments, f"{len(lost)} of 2", effect=known))
    await stage.insist(instances.start(VM))


def _whole(stage: stages.Stage, nodes: list[str]) -> tuple[dict[str, object], int]:
    """Return the arguments for all disks, and the size of the first one that they lead to."""
    match stage.chance.choice(["here", "larger", "there", "chosen"]):
        case "larger":
            return {"disks": [[0, {"size": 2 * objects.SIZE}], [1, {"mode": "ro"}]]}, 2 * objects.SIZE
        case "there":
            return {"nodes": nodes}, objects.SIZE
        case "chosen":
            return {"iallocator": "gantry"}, objects.SIZE
        case _:
            return {}, objects.SIZE


async def _lose(stage: stages.Stage, vm: instance.Instance, lost: tuple[instance.Disk, ...]) -> None:
    key = objects.key(VM)
    if not stage.clients.facts.claim([key]):
        raise stages.Unplayable(f"another client has {VM}")
    for name in objects.machines(stage, vm):
        stage.story.tell(name, f"fault: it loses {len(lost)} disks of {VM}")
        for disk in lost:
            await objects.destroy(stage, name, disk)
    # Until they are recreated, nothing is promised about them.
    stage.clients.facts.doubt([key])
    stage.clients.facts.release([key])


def _recreate(arguments: dict[str, object], which: str, *, effect: facts.Fields | None = None) -> wish.Wish:
    op = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": VM, **arguments}
    return wish.single(f"recreate disks of {VM}, {which}: {arguments}", op, objects.key(VM), effect or {})
