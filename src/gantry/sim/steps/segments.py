"""Wishes about networks with a segment: fewer ids (``cluster.SEGMENTS``) than networks, some requested by id.

Known fields of such a network: whether it exists, whether it is ``segmented``, and its ``segment`` if the id was
requested. These networks are never connected, because nodes do not create segments of this type.
"""

import random

from gantry.sim import cluster, facts
from gantry.sim.steps import networks, wish

NAMES = ("seg1", "seg2", "seg3", "seg4")


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about a network with a segment."""
    free = [name for name in NAMES if not known.thing((networks.KIND, name)).claimed]
    if not free:
        return None
    name = chance.choice(free)
    key = (networks.KIND, name)
    if not known.get(key, facts.THERE):
        text, segment_fields, fields = _draw_segment(chance)
        op: cluster.Opcode = {"OP_ID": "OP_NETWORK_ADD", "network_name": name, **segment_fields}
        return wish.single(f"add network {name} with {text}", op, key, {facts.THERE: True, **fields})
    if chance.random() < 0.4:
        return wish.single(
            f"remove network {name}", {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name}, key, {facts.THERE: False}
        )
    text, segment_fields, fields = _draw_segment(chance) if chance.random() < 0.7 else _NONE
    op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **segment_fields}
    return wish.single(f"network {name}: {text}", op, key, fields)


_NONE: tuple[str, dict[str, object], facts.Fields] = (
    "no segment",
    {"segmented": False},
    {"segmented": False, "segment": False},
)


def _draw_segment(chance: random.Random) -> tuple[str, dict[str, object], facts.Fields]:
    """Return a segment's description, its opcode fields, and the effects of success."""
    if chance.random() < 0.5:
        return "the next segment", {"network_type": "gre"}, {"segmented": True, "segment": None}
    number = chance.randint(1, 4)
    return f"segment {number}", {"network_type": "gre", "segment": number}, {"segmented": True, "segment": number}
