"""A site's own allocator program chooses nodes; it does not know flags, and sometimes answers nonsense.

Whatever it answers, an instance must not come to a node that takes none (``placements``).
"""

import random

import msgspec

from gantry.runtime import commands
from gantry.runtime.simulated import processes
from gantry.sim import cluster
from gantry.sim.chores import objects
from gantry.sim.hardware import copying
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import wish

PROGRAM = "dice"
PATH = f"{cluster.FOLDERS.srv}/iallocators/{PROGRAM}"
NAMES = ("diced1", "diced2", "diced3", "diced4")
SECONDS = 0.2
HONEST_SHARE = 0.6


class _Question(msgspec.Struct):
    type: str
    required_nodes: int = 1
    relocate_from: tuple[str, ...] = ()


class _Document(msgspec.Struct):
    request: _Question
    nodes: dict[str, dict[str, object]]


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    for name in stage.lab.names:
        await _install(stage, name)
    for name in NAMES:
        new = stage.chance.choice(["file", "plain", "drbd", "drbd"])
        await stage.succeeds(_create(name, new))
    there = [name for name in NAMES if stage.clients.facts.get(objects.key(name), "there")]
    for name in there:
        template = stage.clients.facts.get(objects.key(name), "template")
        op: cluster.Opcode = (
            {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_new_secondary", "iallocator": PROGRAM}
            if template == "drbd"
            else {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "iallocator": PROGRAM}
        )
        job = wish.single(f"{op['OP_ID']} of {name} by {PROGRAM}", {**op, "instance_name": name}, objects.key(name), {})
        await stage.succeeds(job)


async def _install(stage: stages.Stage, name: str) -> None:
    machine = stage.lab.world.machine(name)
    await machine.disk.make_directory(PATH.rpartition("/")[0])
    await machine.disk.write(PATH, b"#!", mode=0o755)

    async def answer(call: processes.Invocation) -> commands.Completed:
        await machine.clock.sleep(SECONDS)
        document = msgspec.json.decode(machine.disk.read(call.arguments[1]), type=_Document)
        return commands.Completed(0, _answer(stage.chance, document), b"")

    machine.processes.programs[PATH] = answer


def _answer(chance: random.Random, document: _Document) -> bytes:
    """Return an answer: any nodes but those that the instance leaves, or nonsense."""
    count, question = document.request.required_nodes, document.request
    names = sorted({*document.nodes} - {*question.relocate_from})
    chosen = chance.sample(names, min(count, len(names)))
    if chance.random() < HONEST_SHARE:
        return msgspec.json.encode({"success": True, "info": "by dice", "result": chosen})
    return chance.choice(
        [
            b"no document",
            msgspec.json.encode({"success": False, "info": "no luck"}),
            msgspec.json.encode({"success": True, "result": [*chosen, *chosen]}),
            msgspec.json.encode({"success": True, "result": ["node99"] * count}),
            msgspec.json.encode({"success": True, "result": {"node1": 1}}),
            msgspec.json.encode({"success": True}),
        ]
    )


def _create(name: str, template: str) -> wish.Wish:
    op = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": template,
        "disks": [{"size": objects.SIZE}],
        "os_type": copying.OS_NAME,
        "nics": [],
        "start": False,
        "iallocator": PROGRAM,
        "beparams": {"maxmem": objects.MEMORY, "minmem": objects.MEMORY},
    }
    known = objects.fields(name, template, 1, up=False)
    return wish.single(f"create {name} where {PROGRAM} says", op, objects.key(name), known)
