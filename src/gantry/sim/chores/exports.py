"""An instance is exported and removed, and the export is imported: under its name with its addresses, or another name.

Its data come back as they were. An export with a damaged dump must not be imported.
"""

from gantry.model import instance
from gantry.sim import cluster, facts, story
from gantry.sim.chores import objects
from gantry.sim.hardware import copying
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import wish

VM, COPY = "saved", "restored"

DAMAGED = b"damaged"

SAME = "an instance that is imported under its name has its addresses again"
UNDAMAGED = "a damaged export is not imported"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    first, second = await objects.nodes(stage, 2)
    template = stage.chance.choice(["file", "plain"])
    await objects.network(stage)
    await objects.make(stage, objects.create(VM, first, template=template, disks=2, nics=[objects.NIC], start=True))
    before = stage.instance(VM)
    await stage.insist(_export(first if stage.chance.random() < 0.4 else second, stage.chance.choice(["none", "gzip"])))
    damage = stage.chance.random() < 0.25
    if damage:
        await _damage(stage, first, second)
    name = stage.chance.choice([VM, VM, COPY])
    if name == VM:
        await stage.insist(objects.remove(VM))
    how: dict[str, object] = stage.chance.choice(
        [
            {"src_node": ""},
            {"beparams": {"memory": objects.MEMORY}, "disks": [{"size": "auto"}, {"size": 2 * objects.SIZE}]},
            {"disk_template": template, "os_type": copying.OS_NAME, "tags": ["again"]},
        ]
    )
    job = _import(name, stage.chance.choice([first, second]), template, {k: v for k, v in how.items() if v})
    if damage:
        # An export that continues after an end of the master replaces what was damaged.
        await objects.check_refused(stage, job, UNDAMAGED, is_due=lambda _: _has_damage(stage))
        return
    await stage.insist(job)
    if name == VM:
        _check_same(stage, before)


def _check_same(stage: stages.Stage, before: instance.Instance) -> None:
    after = stage.instance(VM)
    nics, nics_before = ([(nic.mac, nic.ip, nic.network) for nic in vm.nics] for vm in (after, before))
    if nics != nics_before:
        raise story.Violation(SAME, f"{VM} with {nics_before}", f"{nics}")


def _export(target: str, compress: str) -> wish.Wish:
    op: cluster.Opcode = {
        "OP_ID": "OP_BACKUP_EXPORT",
        "instance_name": VM,
        "target_node": target,
        "shutdown": True,
        "shutdown_timeout": 0,
        "compress": compress,
    }
    return wish.single(f"export {VM} to {target}", op, objects.key(VM), {})


async def _damage(stage: stages.Stage, *names: str) -> None:
    """Change a byte of a dump, on the node that has the export."""
    folder = f"{cluster.FOLDERS.exports}/{VM}"
    for name in names:
        disk = stage.lab.world.machine(name).disk
        dumps = [file for file in disk.names(folder) if file != "config.ini"] if disk.exists(folder) else []
        for dump in dumps[:1]:
            stage.story.tell(name, f"fault: the dump {dump} is damaged")
            await disk.write(f"{folder}/{dump}", DAMAGED)


def _has_damage(stage: stages.Stage) -> bool:
    """Return whether each export of the instance has a damaged dump."""
    disks, folder = [stage.lab.world.machine(name).disk for name in stage.lab.names], f"{cluster.FOLDERS.exports}/{VM}"
    exports = [[disk.read(f"{folder}/{file}") for file in disk.names(folder)] for disk in disks if disk.exists(folder)]
    return bool(exports) and all(DAMAGED in files for files in exports)


def _import(name: str, node: str, template: str, how: dict[str, object]) -> wish.Wish:
    op: cluster.Opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "mode": "import",
        "instance_name": name,
        "src_path": VM,
        "pnode": node,
        "start": True,
        **how,
    }
    known = {facts.THERE: True, "up": True, "nics": 1, "disks": 2, "template": template, "size": objects.SIZE}
    known |= {"content": VM, "node": node}
    return wish.single(f"import {VM} as {name} on {node} with {[*how]}", op, objects.key(name), known)
