"""The query methods of LUXI about what nodes and instances use: now, and in the last day (not in Ganeti).

The values are the nodes' (``node.daemon.usage``); the master keeps none. An instance's are those of its primary node.
"""

import msgspec

from gantry import errors
from gantry.doors.luxi.services import Services
from gantry.rpc import calls


class Used(msgspec.Struct, frozen=True):
    """What a node (``instance`` is empty) or an instance on it uses; the values as ``calls.Usage`` has them."""

    node: str
    instance: str
    time: float
    processor: float
    memory: int
    read: int
    written: int
    received: int
    sent: int


async def now(services: Services) -> list[Used]:
    """Return the newest values of all nodes and running instances; a node that does not answer has none."""
    state = services.snapshot()
    online = [state.target(node) for node in state.nodes.values() if not node.offline]
    answers = await services.source.nodes.fan_out(online, calls.UsageNow())
    return [
        _used(answer.target.name, usage)
        for answer in answers
        for usage in answer.value or ()
        if _is_visible(services, answer.target.uuid, usage.name)
    ]


def _is_visible(services: Services, node_uuid: str, instance: str) -> bool:
    """Return whether the subject sees a running instance, or all of a node: the node's values are those of all."""
    view = services.view()
    if view is None:
        return True
    return node_uuid in view.nodes if instance == calls.OF_NODE else ("instances", instance) in view.state.names


async def history(services: Services, kind: str, name: str, since: float) -> list[Used]:
    """Return the values of an object after a time, at most those of a day; RemoteError if its node does not answer."""
    state = services.snapshot()
    if kind == "node":
        node, of = state.node(name), calls.OF_NODE
        if not _is_visible(services, node.uuid, of):
            raise errors.ForbiddenError(
                f"what node {node.name} uses is visible to users with a role on its node group",
                hint="read what your instances use",
            )
    elif kind == "instance":
        instance = state.instance(name)
        node, of = state.nodes[instance.primary_node], instance.name
    else:
        raise errors.InvalidError(f"nothing is known of what a {kind} uses", hint="the kinds are node, instance")
    values = await services.source.nodes.call(state.target(node), calls.UsageHistory(name=of, since=since))
    return [_used(node.name, usage) for usage in values]


def _used(node: str, usage: calls.Usage) -> Used:
    return Used(
        node,
        usage.name,
        usage.time,
        usage.processor,
        usage.memory,
        usage.read,
        usage.written,
        usage.received,
        usage.sent,
    )
