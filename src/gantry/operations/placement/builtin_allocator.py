"""The built-in allocator: choose a node for an instance, and explain why other nodes do not fit. Pure.

Called when the request does not specify a node, for a new instance and for a moved one. A node fits if it is online and
vm_capable, is connected to every network that the instance needs, and has enough memory, disk space and processors; if
none of its instances excludes the new one; and if enough memory stays free for the instances that would come to it when
one other node fails (N+1). Of the fitting nodes, the allocator chooses the one with the most free memory, then the
one with the fewest virtual processors, then the first by name.

Tags define exclusion, as in htools: for each prefix in a cluster's tag ``htools:iextags:PREFIX``, two instances with a
same tag ``PREFIX:...`` do not run on one node. Processors are limited if a policy sets its ``vcpu-ratio``.

In a large cluster only ``SAMPLE_SIZE`` random nodes are asked, not all. The best node of such a sample is about as good
as the best of all (repeated requests spread evenly), and the cost does not grow with the cluster.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.model import cluster, instance, parameters
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

SAMPLE_SIZE = 16
"""The number of nodes asked at first; the number doubles each time that none of them fits."""

Statuses = dict[str, calls.NodeStatus | None]
"""The status that nodes reported, by UUID; None if a node did not answer."""


@dataclass(frozen=True)
class Need:
    """What an instance needs on its node: MiB of memory and disk, network UUIDs, processors.

    ``tags`` exclude other instances, except those in ``ignored`` (UUIDs). A ``copy`` of its disks does not run and
    needs no memory and no processors.
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
    """Return why a node cannot take the instance, empty if it can; ``status`` is None if the node did not answer."""
    static = static_unfit(state, node, need)
    if static or status is None:
        return static or "the node does not answer"
    if status.memory_free < need.memory:
        return f"needs {need.memory} MiB of memory, {status.memory_free} MiB are free"
    if not need.copy and (problem := _excluded(state, node, need) or _crowded(state, node, status, need)):
        return problem
    spare = reserve(state, node)
    if need.memory and status.memory_free - need.memory < spare:
        return (
            f"would leave {status.memory_free - need.memory} MiB of memory free, but {spare} MiB are reserved for "
            "instances that would come here if another node failed"
        )
    return full(status, need.disk)


def full(status: calls.NodeStatus, disk: int) -> str:
    """Return why the storage that a node reported cannot take disks of this many MiB; empty if it can."""
    if disk and (problem := next((unit.problem for unit in status.storage if unit.problem), "")):
        return problem
    free = max((storage.free for storage in status.storage), default=0)
    return f"needs {disk} MiB of disk space, {free} MiB are free" if disk > free else ""


def static_unfit(state: states.Snapshot, node: cluster.Node, need: Need) -> str:
    """Return why the configuration forbids an instance on a node; empty if it does not."""
    if node.offline or node.drained:
        return "the node is " + ("offline" if node.offline else "drained")
    if not node.vm_capable:
        return "the node is not vm_capable"
    group = state.nodegroups[node.group]
    missing = [state.networks[uuid].name for uuid in need.networks if uuid not in group.networks]
    return f"network {', '.join(missing)} is not connected to node group {group.name}" if missing else ""


def _excluded(state: states.Snapshot, node: cluster.Node, need: Need) -> str:
    """Return which instance of a node excludes the new one by its tags; empty for none."""
    prefixes = tuple(f"{tag.removeprefix(EXCLUSION)}:" for tag in state.the_cluster.tags if tag.startswith(EXCLUSION))
    exclusive = {tag for tag in need.tags if prefixes and tag.startswith(prefixes)}
    if not exclusive:
        return ""
    here = [state.instances[uuid] for uuid in state.on_node.get(node.uuid) or () if uuid not in need.ignored]
    for vm in sorted(here, key=lambda vm: vm.name):
        if shared := sorted(exclusive.intersection(vm.tags)):
            return f"instance {vm.name} on this node also has the exclusion tag {shared[0]}"
    return ""


def vcpus(state: states.Snapshot, node: cluster.Node, *, ignored: Collection[str] = ()) -> int:
    """Return the number of virtual processors of a node's instances whose admin state is up."""
    here = (state.instances[uuid] for uuid in state.on_node.get(node.uuid) or () if uuid not in ignored)
    up = (vm for vm in here if vm.admin_state is instance.AdminState.UP)
    return sum(int(parameters.fill_backend(state.the_cluster, vm)["vcpus"]) for vm in up)


def _crowded(state: states.Snapshot, node: cluster.Node, status: calls.NodeStatus, need: Need) -> str:
    """Return why a node has not enough processors, if a policy limits them."""
    ratio = state.nodegroups[node.group].ipolicy.vcpu_ratio or state.the_cluster.ipolicy.vcpu_ratio
    if not ratio or not need.vcpus:
        return ""
    maximum, used = int(ratio * status.cpu_total), vcpus(state, node, ignored=need.ignored)
    exceeded = used + need.vcpus > maximum
    return f"needs {need.vcpus} virtual processors, {used} of {maximum} are in use" if exceeded else ""


def reserve(state: states.Snapshot, node: cluster.Node) -> int:
    """Return the MiB of memory that must stay free on a node for the worst failure of one other node (N+1).

    That is the node from which the most memory of running instances with mirrored disks would come here.
    """
    memory_by_node: dict[str, int] = {}
    for vm in (state.instances[uuid] for uuid in state.copies_on.get(node.uuid) or ()):
        backend = parameters.fill_backend(state.the_cluster, vm)
        if vm.admin_state is instance.AdminState.UP and backend["auto_balance"]:
            memory_by_node[vm.primary_node] = memory_by_node.get(vm.primary_node, 0) + int(backend["maxmem"])
    return max(memory_by_node.values(), default=0)


def sample(remaining: list[str], count: int, *, below: Callable[[int], int]) -> list[str]:
    """Remove and return ``count`` random nodes of the remaining ones, or all if there are not more."""
    if len(remaining) <= count:
        taken, remaining[:] = remaining[:], []
        return taken
    return [remaining.pop(below(len(remaining))) for _ in range(count)]


def fitting(
    state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need
) -> list[tuple[int, int, str, cluster.Node]]:
    """Return the nodes that can take the instance, best first, each after its sort key."""
    nodes = [(state.nodes[uuid], status) for uuid, status in statuses.items()]
    fits = [
        (-status.memory_free, vcpus(state, node), node.name, node)
        for node, status in nodes
        if status is not None and not unfit(state, node, status, need)
    ]
    return sorted(fits, key=lambda entry: entry[:3])


def tiers(state: states.Snapshot, groups: Iterable[cluster.NodeGroup]) -> list[list[str]]:
    """Return the UUIDs of the nodes of groups, those of the policy ``last_resort`` in the second list.

    The order is the same in every run; the order of the snapshot's maps is not.
    """
    by_last_resort: dict[bool, list[str]] = {False: [], True: []}
    for group in groups:
        by_last_resort[group.alloc_policy is cluster.AllocPolicy.LAST_RESORT] += state.nodes_in.get(group.uuid) or ()
    return [sorted(nodes) for nodes in by_last_resort.values()]


def choose(
    state: states.Snapshot,
    statuses: Mapping[str, calls.NodeStatus | None],
    need: Need,
    *,
    reasons: Sequence[str] = (),
) -> cluster.Node:
    """Return the node for an instance; ``statuses`` is by node UUID.

    Raises NoRoomError with the reason of every node, and the ``reasons`` against nodes that were not considered.
    """
    fits = fitting(state, statuses, need)
    if not fits:
        nodes = sorted((state.nodes[uuid].name, uuid) for uuid in statuses)
        problems = [f"{name}: {unfit(state, state.nodes[uuid], statuses[uuid], need)}" for name, uuid in nodes]
        details = "; ".join([*problems, *reasons]) or "there are no nodes"
        raise errors.NoRoomError(f"no node can take the instance: {details}")
    return fits[0][3]


MAX_EXPLAINED = 10
"""The maximum number of other nodes that an explanation names."""


def explain(
    state: states.Snapshot, statuses: Mapping[str, calls.NodeStatus | None], need: Need, *, chosen: cluster.Node
) -> list[str]:
    """Explain why ``choose`` chose a node: its memory, the next best nodes, and why the other nodes do not fit."""
    ranking = fitting(state, statuses, need)
    runners_up = [f"{name}, {-free} MiB free" for free, _, name, node in ranking if node != chosen]
    status = statuses.get(chosen.uuid)
    memory = f" with {status.memory_free} MiB of memory free" if status else ""
    lines = [f"the allocator chose {chosen.name}{memory}, of {len(statuses)} nodes that were asked"]
    lines += [f"less memory: {'; '.join(runners_up[:MAX_EXPLAINED])}" + _more(len(runners_up))] if runners_up else []
    fit = {node.uuid for _, _, _, node in ranking}
    nodes = sorted((state.nodes[uuid] for uuid in statuses if uuid not in fit), key=lambda node: node.name)
    problems = [f"{node.name}: {unfit(state, node, statuses[node.uuid], need)}" for node in nodes[:MAX_EXPLAINED]]
    return lines + ([f"not fitting: {'; '.join(problems)}" + _more(len(nodes))] if problems else [])


def _more(count: int) -> str:
    return f"; and {count - MAX_EXPLAINED} more" if count > MAX_EXPLAINED else ""
