"""Wishes about segment ranges: few ranges of few ids, of the type that the networks of ``segments`` use.

Known fields of a range: whether it exists, its ``minimum`` and its ``maximum``. Clients choose the UUIDs.
"""

import random

from gantry.sim import cluster, facts
from gantry.sim.steps import settings, wish

KIND = "segmentrange"
UUIDS = {f"r{number}": f"00000000-0000-4000-8800-{number:012}" for number in (1, 2, 3)}
"""The ranges with the UUIDs that clients choose: names need not be unique."""
HIGHEST = 8


def draw(chance: random.Random, known: facts.Facts) -> wish.Wish | None:
    """Return a wish about a segment range, or one that lets the cluster manage ranges."""
    if not known.get(settings.KEY, "segment_ranges") and chance.random() < 0.8:
        op: cluster.Opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": True}
        return wish.single("let the cluster manage segment ranges", op, settings.KEY, {"segment_ranges": True})
    free = [name for name in UUIDS if not known.thing((KIND, name)).claimed]
    if not free:
        return None
    name = chance.choice(free)
    minimum = chance.randint(1, HIGHEST)
    maximum = min(HIGHEST, minimum + chance.randint(-1, 4))
    run = {"minimum": minimum, "maximum": maximum}
    text = f"{minimum} to {maximum}"
    if not known.get((KIND, name), facts.THERE) and chance.random() < 0.95:
        project = chance.choice(["", "", "p1"])
        spec = {
            "uuid": UUIDS[name],
            "network_type": "gre",
            "name": name,
            "shared": not project,
            "project": project,
            **run,
        }
        op = {"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [spec]}
        return wish.single(f"add segment range {name}: {text}", op, (KIND, name), {facts.THERE: True, **run})
    if chance.random() < 0.3:
        op = {"OP_ID": "OP_SEGMENT_RANGE_REMOVE", "range": UUIDS[name]}
        return wish.single(f"remove segment range {name}", op, (KIND, name), {facts.THERE: False})
    op = {"OP_ID": "OP_SEGMENT_RANGE_SET_PARAMS", "range": UUIDS[name], **run}
    return wish.single(f"segment range {name}: {text}", op, (KIND, name), run)
