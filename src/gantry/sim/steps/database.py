"""Wishes to let a shared database decide about addresses, and to let the state alone decide again."""

import random

from gantry.sim import facts
from gantry.sim.hardware import databases
from gantry.sim.steps import settings, wish


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish:
    """Return a wish to use the database, rarely one to leave it."""
    if known.get(settings.KEY, "ipam_driver") == "sql" and chance.random() < 0.3:
        op: dict[str, object] = {"ipam_driver": "embedded", "force": chance.random() < 0.5}
    else:
        op = {"ipam_driver": "sql", "ipam_database": databases.URL}
    text = f"the state and {op['ipam_driver']} decide about addresses"
    return wish.single(text, {"OP_ID": "OP_CLUSTER_SET_PARAMS", **op}, settings.KEY, {"ipam_driver": op["ipam_driver"]})
