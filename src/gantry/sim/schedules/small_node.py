"""An instance is to be moved, while it runs, to a node that has too little memory for it.

Guests that jobs under way bring to that node do not count: the node had the memory when they looked.
"""

from gantry.sim import cluster, facts, invariants, story
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, moves

VM = "large"
KEY: facts.Key = (instances.KIND, VM)

FITS = "an instance is moved only to a node that has the memory for it"

SMALL_MEMORY = b"MemTotal: 1048576 kB\nMemAvailable: 1048576 kB\n"
"""What the kernel of the small node says: half of what instances have."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one of them does not succeed."""
    lab = stage.lab
    home = stage.choose(stage.up(), "node")
    small = stage.choose(stage.up(home), "other node")
    stage.clients.facts.begin({KEY: {facts.THERE: False}})
    await stage.must(instances.create_bare(VM, node=home))
    await stage.must(instances.start(VM))
    generated = lab.world.machine(small).disk.generated
    before, generated[cluster.MEMORY_FILE] = generated[cluster.MEMORY_FILE], lambda: SMALL_MEMORY
    end = stage.faults.begin_lasting(
        f"{small} has 1 GiB of memory", lambda: generated.update({cluster.MEMORY_FILE: before})
    )
    await stage.carry_out(moves.migrate(VM, small))
    end()
    if any(guest.running.name == VM for guest in invariants.guests(lab, small)):
        raise story.Violation(FITS, f"{VM} on another node than {small}, which has 1 GiB of memory", "it runs there")
