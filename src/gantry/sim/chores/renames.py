"""An instance gets another name, on its disks too, and its old name back; not a name in use, nor while it runs."""

from gantry.sim import facts
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, wish

VM, NEW = "old-name", "new-name"

REFUSED = "an instance is not renamed to a name in use, nor while it runs"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    first, second = await objects.nodes(stage, 2)
    template = stage.chance.choice(["file", "plain", "drbd"])
    known = objects.fields(VM, template, 2, up=False)
    await objects.make(stage, objects.create(VM, first, second, template=template, disks=2))
    await stage.insist(instances.start(VM))
    await objects.check_refused(
        # A guest has the name with which it was started.
        stage,
        _rename(VM, NEW, known),
        REFUSED,
        is_due=lambda _: objects.runs(stage, VM),
    )
    await stage.insist(objects.stop(VM))
    await stage.insist(_rename(VM, NEW, known))
    if stage.chance.random() < 0.5:
        await objects.make(stage, objects.bare(VM, first))
        await objects.check_refused(
            stage, _rename(NEW, VM, known), REFUSED, is_due=lambda state: ("instances", VM) in state.names
        )
        await stage.insist(objects.remove(VM))
    await stage.insist(_rename(NEW, VM, known))
    await stage.insist(instances.start(VM))


def _rename(old: str, new: str, known: facts.Fields) -> wish.Wish:
    op = {"OP_ID": "OP_INSTANCE_RENAME", "instance_name": old, "new_name": new}
    effects = {objects.key(old): {facts.THERE: False}, objects.key(new): known}
    return wish.Wish(f"rename {old} to {new}", [op], [*effects], effects)
