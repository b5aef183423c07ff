"""All chores by name, and the draw of those of a run."""

import random
from collections.abc import Awaitable, Callable, Mapping

from gantry.sim.chores import (
    allocator_program,
    attached_disks,
    certificates,
    exports,
    invitations,
    lost_disks,
    ports,
    reading_rules,
    renames,
    rights,
    segment_defaults,
    stray_guests,
    subnet_pools,
    webhooks,
)
from gantry.sim.schedules import stage as stages

Do = Callable[[stages.Stage], Awaitable[None]]

CHORES: Mapping[str, Do] = {
    "lost-disks": lost_disks.do,
    "exports": exports.do,
    "renames": renames.do,
    "attached-disks": attached_disks.do,
    "stray-guests": stray_guests.do,
    "rights": rights.do,
    "subnet-pools": subnet_pools.do,
    "ports": ports.do,
    "allocator-program": allocator_program.do,
    "invitations": invitations.do,
    "certificates": certificates.do,
    "segment-defaults": segment_defaults.do,
    "webhooks": webhooks.do,
    "reading-rules": reading_rules.do,
}

SHARE = 0.45
"""The share of the runs that have chores: the other runs stay as they are when a chore is added or changed."""
COUNT = 4
"""The number of chores in such a run."""
LAST_STEP = 10
"""The last step before which chores begin."""


def draw(chance: random.Random) -> list[str]:
    """Return the names of the chores of a run, in their order."""
    return chance.sample(list(CHORES), COUNT) if chance.random() < SHARE else []
