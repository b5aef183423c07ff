"""A disk goes from one instance to another with its data, and comes back; then it gets another disk template.

An instance that does not have the disk any more must not be able to use or remove it.
"""

from collections.abc import Mapping

from gantry.sim import facts
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, wish

VM, OTHER = "giver", "taker"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    first, second = await objects.nodes(stage, 2)
    template = stage.chance.choice(["file", "plain", "drbd"])
    await objects.make(stage, objects.create(VM, first, second, template=template))
    await objects.make(stage, objects.bare(OTHER, first))
    await stage.insist(_detach(VM))
    uuid, name = _detached(stage)
    by = {"name": name} if name and stage.chance.random() < 0.5 else {"uuid": uuid}
    await stage.insist(_attach(OTHER, by, template))
    await stage.insist(instances.start(OTHER))
    await stage.insist(objects.stop(OTHER))
    await stage.insist(_detach(OTHER))
    await stage.insist(_attach(VM, {"uuid": uuid}, template))
    await stage.insist(objects.remove(OTHER))
    for new in {"file": ["plain", "drbd"], "plain": ["drbd", "file"], "drbd": ["plain", "file"]}[template]:
        # Mirrored disks become files, and files mirrored disks, by way of plain ones.
        if {template, new} == {"file", "drbd"}:
            continue
        await stage.insist(_convert(new, second))
        template = new
    await stage.insist(instances.start(VM))


def _detached(stage: stages.Stage) -> tuple[str, str]:
    """Return the UUID and the name of the disk that the instance has given."""
    for each in stage.state().disks.values():
        if each.instance == VM:
            return each.disk.uuid, each.disk.name
    raise stages.Unplayable(f"no detached disk of {VM}")


def _detach(name: str) -> wish.Wish:
    known = {"disks": 0, "size": None, "content": None, "copied": None}
    return objects.change(name, "detach its disk", known, disks=[["detach", 0, {}]])


def _attach(name: str, by: Mapping[str, object], template: str) -> wish.Wish:
    known: facts.Fields = {"disks": 1, "size": objects.SIZE, "content": VM, "template": template}
    return objects.change(name, f"attach the disk of {VM}", known, disks=[["attach", -1, by]])


def _convert(template: str, second: str) -> wish.Wish:
    arguments: dict[str, object] = {"disk_template": template}
    if template == "drbd":
        arguments["remote_node"] = second
    known: facts.Fields = {"template": template, "content": VM, "copied": template == "drbd" or None}
    return objects.change(VM, f"convert its disk to {template}", known, **arguments)
