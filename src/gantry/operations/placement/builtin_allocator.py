"""Where an instance goes: the built-in allocator. Pure choice among nodes, with why the others were passed over.

Called where no node is named, for a new instance and for one that moves. A node fits when it is online, takes
instances, is connected to every network the instance needs, and has room for its memory, disks and processors; when it
has no instance that must not be met there; and when enough memory stays free for the instances that would come to it if
one other node failed (N+1). Among those the one with the most free memory is taken; where they are equal, the one with
the fewest virtual processors, then by name.

Which instances must not meet is said by tags, as the field's tools have it: of each prefix in a cluster's tag
``htools:iextags:PREFIX``, two instances with the same tag ``PREFIX:...`` do not run on one node. Processors are limited
where a policy sets its ``vcpu-ratio``.

Of a large cluster not all nodes are asked, but ``ASKED`` at random. The best of so many is about as good as the best of
all (what is asked again and again spreads evenly), and its cost does not grow with the cluster.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, parameters
from gantry.rpc import calls
from gantry.state import snapshot as states

ASKED = 16
"""How many nodes are asked at first; as many again as were asked before, each time that none of them fits."""

Statuses = dict[str, calls.NodeStatus | None]
"""What nodes answered, by UUID; None where nothing came."""


@dataclass(frozen=True)
class Need:
    """What an instance asks of its node: MiB of memory and disk, network UUIDs, processors.

    It does not meet others by ``tags``; what is ``ignored`` (UUIDs) is not to be met. A ``copy`` of its disks
    is not run there, and asks for neither memory nor processors.
    """

    memory: int
    disk: int
    networks: Collection[str]
    vcpus: int = 0
    tags: Collection[str] = ()
    ignored: Collection[str] = ()
    copy: bool = False


EXCLUSION = "htools:iextags:"


def unfit(state: states.Snapshot, node: cluster.Node, status: calls.NodeStatus | None, need: Need) -> str:
    """Return why a node cannot take the instance; empty when it can. ``status`` is None when it did not answer."""
    static = static_unfit(state, node, need)
    if static or status is None:
        return static or "it does not answer"
    if status.memory_free < need.memory:
        return f"{need.memory} MiB of memory do not fit, {status.memory_free} MiB are free"
    if not need.copy and (found := _met(state, node, need) or _crowded(state, node, status, need)):
        return found
    spare = reserve(state, node)
    if need.memory and status.memory_free - need.memory < spare:
        return (
            f"{need.memory} MiB of memory leave {status.memory_free - need.memory} MiB, and {spare} MiB are for "
            "instances that would come here if another node failed"
        )
    return full(status, need.disk)


def full(status: calls.NodeStatus, disk: int) -> str:
    """Return why the storage of which a node told has no room for disks of so many MiB; empty when it has."""
    if disk and (problem := next((one.problem for one in status.storage if one.problem), "")):
        return problem
    free = max((storage.free for storage in status.storage), default=0)
    return f"{disk} MiB of disk do not fit, {free} MiB are free" if disk > free else ""


def static_unfit(state: states.Snapshot, node: cluster.Node, need: Need) -> str:
    """Return why the configuration keeps an instance off a node; empty when it does not."""
    if node.offline or node.drained:
        return "it is " + ("offline" if node.offline else "drained")
    if not node.vm_capable:
        return "it takes no instances"
    group = state.nodegroups[node.group]
    missing = [state.networks[uuid].name for uuid in need.networks if uuid not in group.networks]
    return f"network {', '.join(missing)} is not connected to its node group {group.name}" if missing else ""


def _met(state: states.Snapshot, node: cluster.Node, need: Need) -> str:
    """Return which instance of a node must not be met; empty for none."""
    prefixes = tuple(f"{tag.removeprefix(EXCLUSION)}:" for tag in state.the_cluster.tags if tag.startswith(EXCLUSION))
    exclusive = {tag for tag in need.tags if prefixes and tag.startswith(prefixes)}
    here = [
        state.instances[uuid] for uuid in state.on_node.get(node.uuid) or () if exclusive and uuid not in need.ignored
    ]
    for vm in sorted(here, key=lambda one: one.name):
        if shared := sorted(exclusive.intersection(vm.tags)):
            return f"instance {vm.name} is there, which has the tag {shared[0]} too"
    return ""


def vcpus(state: states.Snapshot, node: cluster.Node, *, ignored: Collection[str] = ()) -> int:
    """Return how many virtual processors the instances of a node have that are to run."""
    here = (state.instances[uuid] for uuid in state.on_node.get(node.uuid) or () if uuid not in ignored)
    up = (vm for vm in here if vm.admin_state is instance.AdminState.UP)
    return sum(int(parameters.fill_backend(state.the_cluster, vm)["vcpus"]) for vm in up)


def _crowded(state: states.Snapshot, node: cluster.Node, status: calls.NodeStatus, need: Need) -> str:
    """Return why a node has no processors left, where a policy limits them."""
    ratio = state.nodegroups[node.group].ipolicy.vcpu_ratio or state.the_cluster.ipolicy.vcpu_ratio
    if not ratio or not need.vcpus:
        return ""
    most, used = int(ratio * status.cpu_total), vcpus(state, node, ignored=need.ignored)
    over = used + need.vcpus > most
    return f"{need.vcpus} virtual processors do not fit, {used} of {most} are taken" if over else ""


def reserve(state: states.Snapshot, node: cluster.Node) -> int:
    """Return the MiB that must stay free on a node for the worst failure of one other (N+1).

    That is the node most of whose running instances, by memory, have their mirrored disks here.
    """
    found: dict[str, int] = {}
    for vm in (state.instances[uuid] for uuid in state.copies_on.get(node.uuid) or ()):
        backend = parameters.fill_backend(state.the_cluster, vm)
        if vm.admin_state is instance.AdminState.UP and backend["auto_balance"]:
            found[vm.primary_node] = found.get(vm.primary_node, 0) + int(backend["maxmem"])
    return max(found.values(), default=0)


def sample(left: list[str], count: int, *, below: Callable[[int], int]) -> list[str]:
    """Take some of the nodes that are left, at random; all of them where there are no more than ``count``."""
    if len(left) <= count:
        taken, left[:] = left[:], []
        return taken
    return [left.pop(below(len(left))) for _ in range(count)]


def fitting(
    state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need
) -> list[tuple[int, int, str, cluster.Node]]:
    """Return the nodes that can take the instance, each behind what it is sorted by, the smallest first."""
    found = [(state.nodes[uuid], status) for uuid, status in statuses.items()]
    fits = [
        (-status.memory_free, vcpus(state, node), node.name, node)
        for node, status in found
        if status is not None and not unfit(state, node, status, need)
    ]
    return sorted(fits, key=lambda one: one[:3])


def tiers(state: states.Snapshot, groups: Iterable[cluster.NodeGroup]) -> list[list[str]]:
    """Return the UUIDs of the nodes of groups, those first that are not the last resort.

    In an order that is the same in every run; that of the snapshot's maps is not.
    """
    found: dict[bool, list[str]] = {False: [], True: []}
    for group in groups:
        found[group.alloc_policy is cluster.AllocPolicy.LAST_RESORT] += state.nodes_in.get(group.uuid) or ()
    return [sorted(nodes) for nodes in found.values()]


def choose(
    state: states.Snapshot,
    statuses: Mapping[str, calls.NodeStatus | None],
    need: Need,
    *,
    reasons: Sequence[str] = (),
) -> cluster.Node:
    """Return the node for an instance; ``statuses`` is by node UUID.

    Raises NoRoomError with every node's reason, and those why others were not looked at.
    """
    fits = fitting(state, statuses, need)
    if not fits:
        nodes = sorted((state.nodes[uuid].name, uuid) for uuid in statuses)
        said = [f"{name}: {unfit(state, state.nodes[uuid], statuses[uuid], need)}" for name, uuid in nodes]
        why = "; ".join([*said, *reasons]) or "there are no nodes"
        raise errors.NoRoomError(f"no node can take the instance: {why}")
    return fits[0][3]


SHOWN = 10
"""How many nodes that were passed over an explanation names."""


def explain(
    state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need, *, chosen: cluster.Node
) -> list[str]:
    """Say why ``choose`` took a node: what it has, who came close, and why the others did not fit."""
    ranking = fitting(state, statuses, need)
    others = [f"{name}, {-free} MiB free" for free, _, name, node in ranking if node != chosen]
    status = statuses.get(chosen.uuid)
    room = f", which has {status.memory_free} MiB of memory free" if status else ""
    lines = [f"the allocator takes {chosen.name}{room}, of {len(statuses)} nodes that were asked"]
    lines += [f"less room: {'; '.join(others[:SHOWN])}" + _more(len(others))] if others else []
    fit = {node.uuid for _, _, _, node in ranking}
    nodes = sorted((state.nodes[uuid] for uuid in statuses if uuid not in fit), key=lambda node: node.name)
    why = [f"{node.name}: {unfit(state, node, statuses[node.uuid], need)}" for node in nodes[:SHOWN]]
    return lines + ([f"passed over: {'; '.join(why)}" + _more(len(nodes))] if why else [])


def _more(count: int) -> str:
    return f"; and {count - SHOWN} more" if count > SHOWN else ""
