"""Wishes that concern no object: delays, some after another job, ``verify``, and a redistribution of files."""

import random

from gantry.sim import cluster, facts
from gantry.sim.steps import wish


def draw(chance: random.Random, known: facts.Facts, *, jobs: list[int]) -> wish.Wish:
    """Return a wish that changes no object; its job may depend on one of ``jobs``."""
    if chance.random() < 0.2:
        return wish.Wish("verify the cluster", [{"OP_ID": "OP_CLUSTER_VERIFY"}])
    if chance.random() < 0.2:
        return wish.Wish("send the files again", [{"OP_ID": "OP_CLUSTER_REDIST_CONF"}])
    nodes = known.known("node", there=True, free=False)
    where = chance.sample(nodes, chance.randint(0, min(2, len(nodes))))
    ops: list[cluster.Opcode] = []
    for _ in range(chance.choice([1, 1, 3])):
        seconds = chance.choice([0, 0.5, 3, 15])
        ops.append(
            {"OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_nodes": where, "priority": chance.randint(-5, 5)}
        )
    if jobs and chance.random() < 0.4:
        number = chance.choice(jobs)
        ops[0] = {**ops[0], "depends": [[number, chance.choice([[], ["success"]])]]}
        return wish.Wish(f"wait after job {number}", ops)
    return wish.Wish(f"wait {len(ops)} times on {', '.join(where) or 'the master'}", ops)
