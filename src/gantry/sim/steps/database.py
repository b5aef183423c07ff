"""Wishes to let a shared database decide about addresses, and to let the state alone decide again."""

import random

from gantry.sim import facts
from gantry.sim.hardware import databases
from gantry.sim.steps import networks, settings, wish

HOLD_SECONDS = 30
"""The hold time: longer than several steps, shorter than a run."""


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish:
    """Return a wish to use the database, rarely one to leave it."""
    if known.get(settings.KEY, "ipam_driver") == "sql" and chance.random() < 0.3:
        return _decide({"ipam_driver": "embedded", "force": chance.random() < 0.5})
    return _enter()


def _enter() -> wish.Wish:
    return _decide({"ipam_driver": "sql", "ipam_database": databases.URL})


def _decide(op: dict[str, object]) -> wish.Wish:
    text = f"the state and {op['ipam_driver']} decide about addresses"
    return wish.single(text, {"OP_ID": "OP_CLUSTER_SET_PARAMS", **op}, settings.KEY, {"ipam_driver": op["ipam_driver"]})


def tempt(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish that leads to addresses which are allocated and released while the database decides."""
    if known.get(settings.KEY, "ipam_driver") != "sql":
        return _enter()
    if known.get(settings.KEY, "ipam_hold_time") is None:
        seconds = chance.choice([0, HOLD_SECONDS])
        return settings.hold(seconds)
    return networks.draw_address(chance, known)
