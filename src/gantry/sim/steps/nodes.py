"""Wishes about nodes: flags, and nodes that are removed and added again.

Known fields of a node: whether it exists, ``offline`` and ``drained``. Other jobs can also change the candidates.
"""

import random
from collections.abc import Callable

from gantry.sim import cluster, facts
from gantry.sim.steps import wish

KIND = "node"


def draw(chance: random.Random, known: facts.Facts, *, token: Callable[[str], tuple[str, str]]) -> wish.Wish | None:
    """Return a wish about a node; ``token`` returns the address and the join token of a removed node."""
    free = known.known(KIND)
    if not free:
        return None
    name = chance.choice(free)
    if known.get((KIND, name), facts.THERE) is False:
        return _add(name, *token(name))
    if chance.random() < 0.15:
        op = {"OP_ID": "OP_NODE_REMOVE", "node_name": name}
        return wish.single(f"remove node {name}", op, (KIND, name), {facts.THERE: False})
    return _flags(chance, known, name)


def _add(name: str, address: str, token: str) -> wish.Wish:
    op = {"OP_ID": "OP_NODE_ADD", "node_name": name, "primary_ip": address, "join_token": token}
    fields = {facts.THERE: True, "offline": False, "drained": False}
    return wish.single(f"add node {name}", op, (KIND, name), fields)


def add_again(name: str, address: str, token: str) -> wish.Wish:
    """Return the wish that makes a machine without files the node again that it was."""
    op: cluster.Opcode = {
        "OP_ID": "OP_NODE_ADD",
        "node_name": name,
        "primary_ip": address,
        "join_token": token,
        "readd": True,
    }
    return wish.single(f"add node {name} again", op, (KIND, name), {"offline": False, "drained": False})


def mark_offline(name: str, *, offline: bool) -> wish.Wish:
    """Return the wish that marks a node offline although instances have it as primary node, or ends that."""
    op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": offline, "auto_promote": True, "force": offline}
    fields = {"offline": offline} | ({"drained": False} if offline else {})
    return wish.single(f"node {name}: offline {'yes' if offline else 'no'}", op, (KIND, name), fields)


def _flags(chance: random.Random, known: facts.Facts, name: str) -> wish.Wish:
    clear = {"offline": False, "drained": False}
    set_now = [flag for flag in clear if known.get((KIND, name), flag)]
    if set_now and chance.random() < 0.8:
        flag, value = set_now[0], False
    else:
        flag, value = chance.choice(["offline", "drained", "master_candidate", "master_candidate"]), True
        if flag == "master_candidate":
            value = chance.random() < 0.6
    flags = clear | {flag: True} if value else {flag: False}
    fields = {name: flags[name] for name in clear if name in flags}
    op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, flag: value, "auto_promote": True}
    if flag == "master_candidate" and value:
        op |= clear
    return wish.single(f"node {name}: {flag} {'yes' if value else 'no'}", op, (KIND, name), fields)
