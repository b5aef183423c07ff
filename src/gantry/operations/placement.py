"""Where a new instance goes: pure choice among nodes, with the reasons why the others were passed over.

Called by ``create`` when no node is named. A node fits when it is online, takes instances, is connected to every
network the instance needs, and has room for its memory and disks; among those the one with the most free memory is
taken, by name where they are equal.

Of a large cluster not all nodes are asked, but ``ASKED`` at random. The best of so many is about as good as the best of
all (what is asked again and again spreads evenly), and its cost does not grow with the cluster.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster
from gantry.rpc import calls
from gantry.state import snapshot as states

ASKED = 16
"""How many nodes are asked at first; as many again as were asked before, each time that none of them fits."""

Statuses = dict[str, calls.NodeStatus | None]
"""What nodes answered, by UUID; None where nothing came."""


@dataclass(frozen=True)
class Need:
    """What an instance asks of its node: MiB of memory and disk, and network UUIDs."""

    memory: int
    disk: int
    networks: Collection[str]


def unfit(state: states.Snapshot, node: cluster.Node, status: calls.NodeStatus | None, need: Need) -> str:
    """Return why a node cannot take the instance; empty when it can. ``status`` is None when it did not answer."""
    static = static_unfit(state, node, need)
    if static or status is None:
        return static or "it does not answer"
    if status.memory_free < need.memory:
        return f"{need.memory} MiB of memory do not fit, {status.memory_free} MiB are free"
    free = max((storage.free for storage in status.storage), default=0)
    return f"{need.disk} MiB of disk do not fit, {free} MiB are free" if need.disk > free else ""


def static_unfit(state: states.Snapshot, node: cluster.Node, need: Need) -> str:
    """Return why the configuration keeps an instance off a node; empty when it does not."""
    if node.offline or node.drained:
        return "it is " + ("offline" if node.offline else "drained")
    if not node.vm_capable:
        return "it takes no instances"
    group = state.nodegroups[node.group]
    missing = [state.networks[uuid].name for uuid in need.networks if uuid not in group.networks]
    return f"network {', '.join(missing)} is not connected to its node group {group.name}" if missing else ""


def sample(left: list[str], count: int, *, below: Callable[[int], int]) -> list[str]:
    """Take some of the nodes that are left, at random; all of them where there are no more than ``count``."""
    if len(left) <= count:
        taken, left[:] = left[:], []
        return taken
    return [left.pop(below(len(left))) for _ in range(count)]


def fitting(
    state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need
) -> list[tuple[int, str, cluster.Node]]:
    """Return the nodes that can take the instance, each behind what it is sorted by, the smallest first."""
    found = [(state.nodes[uuid], status) for uuid, status in statuses.items()]
    return sorted(
        (-status.memory_free, node.name, node)
        for node, status in found
        if status is not None and not unfit(state, node, status, need)
    )


def choose(state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need) -> cluster.Node:
    """Return the node for an instance; ``statuses`` is by node UUID. Raises NoRoomError with every node's reason."""
    fits = fitting(state, statuses, need)
    if not fits:
        nodes = sorted((state.nodes[uuid].name, uuid) for uuid in statuses)
        reasons = [f"{name}: {unfit(state, state.nodes[uuid], statuses[uuid], need)}" for name, uuid in nodes]
        raise errors.NoRoomError(f"no node can take the instance: {'; '.join(reasons) or 'there are no nodes'}")
    return fits[0][2]
