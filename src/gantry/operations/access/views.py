"""The part of the state that a subject sees, as a snapshot of its own: what queries read on a cluster with ``rules``.

A view has the visible objects and what they use (``sight``), with indexes of their own. So a list, a count, a search or
a lookup by address that reads a view has no object that is not in it. Objects that are seen in part are in it without
what they say about others: a network without its pools, a node group without the networks that are not visible.

``Views`` keeps a view for each subject. While the collections that it was created from are the same, it is the same
view; a change costs a walk over the visible objects, and index entries for those that differ. A new view of 5,000
instances takes a fraction of a second (explanation/decisions/0071-reading-by-rules.md).
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from immutables import Map
from msgspec import structs

from gantry.model import access, cluster, instance, job, network
from gantry.operations.access import sight
from gantry.state.objects import snapshot as states

LIMIT = 100
"""The maximum number of subjects whose views are kept; the ones that were used last."""

GONE_LIMIT = 1000
"""The maximum number of removed objects that a view remembers, so that their removal can be reported."""

HIDDEN = "(not visible)"
"""What stands for the name or UUID of an invisible object in the log or result of a visible job."""

_NAMED = ("instances", "nodes", "nodegroups", "networks")
_WITH_UUIDS = (*_NAMED, "ports", "disks", "segmentranges", "subnetpools", "accessrules", "apitokens")

_SOURCES = (
    *("cluster", "instances", "nodes", "nodegroups", "networks", "ports", "segmentranges", "subnetpools"),
    *("accessrules", "apitokens"),
)
"""The collections from which a view is created; jobs are in ``View.jobs``, and what is in no view is left out."""

_WORD = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.+-]*")
_PORT = re.compile(r"port [^()]{1,255} \(([0-9a-f-]{36})\)")


@dataclass(frozen=True)
class View:
    """What a subject sees: ``state`` has it all, the subject's jobs included.

    ``nodes`` and ``networks`` are the UUIDs of those that are seen whole. ``mark`` is the same as long as the same
    objects are visible. ``gone`` are the keys of objects that were visible until they were removed.
    """

    sight: sight.Sight
    state: states.Snapshot
    nodes: frozenset[str]
    networks: frozenset[str]
    mark: str
    gone: Mapping[str, None]

    def has(self, kind: str, key: str) -> bool:
        """Return whether an object is visible, by its collection and key."""
        return self.state.get(kind, key) is not None

    def veiled(self, entry: job.Job) -> job.Job:
        """Return a job whose logs and results name no invisible object, unless its opcodes name that object too."""
        veil = self._veil(entry)
        steps = (
            structs.replace(step, result=veil(step.result), log=tuple(self.veiled_log(entry, step.log)))
            for step in entry.ops
        )
        return structs.replace(entry, ops=tuple(steps))

    def veiled_log(self, entry: job.Job, log: Iterable[job.LogEntry]) -> list[job.LogEntry]:
        """Return messages of a job as ``veiled`` has them."""
        veil = self._veil(entry)
        return [(serial, time, kind, veil(message)) for serial, time, kind, message in log]

    def _veil(self, entry: job.Job) -> Callable[[object], object]:
        return self.veil(msgspec.json.encode([step.input for step in entry.ops]))

    def veil(self, request: bytes) -> Callable[[object], object]:
        """Return the function that removes the names of invisible objects from JSON, except those in a request."""
        requested = frozenset(_WORD.findall(request.decode(errors="replace")))

        def veil(value: object) -> object:
            match value:
                case str():
                    text = _PORT.sub(lambda port: HIDDEN if self._hides(port[1]) else port[0], value)
                    return _WORD.sub(lambda word: self._word(word[0], requested), text)
                case dict():
                    return {veil(key): veil(each) for key, each in value.items()}
                case list() | tuple():
                    return [veil(each) for each in value]
            return value

        return veil

    def _word(self, word: str, requested: frozenset[str]) -> str:
        name = word.rstrip(".-")
        return word if name in requested or not self._hides(name) else word.replace(name, HIDDEN)

    def _hides(self, name: str) -> bool:
        """Return whether a text is the name or UUID of an invisible object."""
        state = self.sight.state
        uuids = (state.names.get((kind, name)) for kind in _NAMED)
        known = [(kind, uuid) for kind, uuid in zip(_NAMED, uuids, strict=True) if uuid]
        known += [(kind, name) for kind in _WITH_UUIDS if name in state.collection(kind)]
        return bool(known) and not any(self.has(kind, key) for kind, key in known)


@dataclass
class _Kept:
    """A view with what it was created from: the collections, and the jobs of all users."""

    sources: tuple[object, ...]
    jobs: Map[str, states.Stored]
    view: View


class Views:
    """The views of the subjects that read, created when they are needed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], _Kept] = OrderedDict()

    def of(self, state: states.Snapshot, subject: access.Subject) -> View | None:
        """Return the view of a subject on a state; None if the subject sees everything."""
        seen = sight.of(state, subject)
        if seen is None:
            return None
        token = subject.token
        key = (subject.door, subject.user, subject.groups, token and (token.uuid, token.is_admin))
        kept, sources = self._kept.get(key), tuple(getattr(state, name) for name in _SOURCES)
        if kept is None or any(old is not new for old, new in zip(kept.sources, sources, strict=True)):
            kept = _Kept(sources, Map(), _created_view(seen, kept.view if kept else None))
            self._kept[key] = kept
        if kept.jobs is not state.jobs:
            own_jobs = {number: entry for number, entry in state.jobs.items() if seen.sees_job(entry)}
            kept.view = replace(kept.view, sight=seen, state=_with_jobs(kept.view.state, own_jobs))
            kept.jobs = state.jobs
        self._kept.move_to_end(key)
        while len(self._kept) > LIMIT:
            self._kept.popitem(last=False)
        return kept.view


def _with_jobs(part: states.Snapshot, own_jobs: Mapping[str, job.Job]) -> states.Snapshot:
    after = object.__new__(states.Snapshot)
    object.__setattr__(after, "__dict__", {**vars(part), "jobs": Map(own_jobs)})
    return after


def _created_view(seen: sight.Sight, before: View | None) -> View:
    """Return a view, from the former one of the same subject by the differences."""
    visible_objects = dict(_objects(seen))
    part = before.state if before else states.Snapshot()
    changes: list[states.Change] = []
    for kind, objects in visible_objects.items():
        known = part.collection(kind)
        changes += (states.Delete(kind, key) for key in known if key not in objects)
        changes += (
            states.Put(new)
            for key, new in objects.items()
            if (old := known.get(key)) is not new and (kind not in _REDUCED or old != new)
        )
    if part.cluster is not seen.state.cluster:
        changes.append(states.Put(seen.state.the_cluster))
    visible = frozenset(key for objects in visible_objects.values() for key in objects)
    return View(
        sight=seen,
        state=part.part(changes, serial=seen.state.serial),
        nodes=frozenset(key for key in visible_objects["nodes"] if seen.sees_whole_node(seen.state.nodes[key])),
        networks=frozenset(
            key for key in visible_objects["networks"] if seen.sees_whole_network(seen.state.networks[key])
        ),
        mark=hashlib.sha256("\n".join(sorted(visible)).encode()).hexdigest()[:16],
        gone=_gone(seen, before, visible) if before else {},
    )


def _gone(seen: sight.Sight, before: View, visible: frozenset[str]) -> Mapping[str, None]:
    """Return the keys of removed objects that were visible; what became invisible is not one of them."""
    earlier = {**before.gone}
    for kind in _SOURCES[1:]:
        exists = seen.state.collection(kind)
        earlier |= dict.fromkeys(key for key in before.state.collection(kind) if key not in visible)
        earlier = {key: None for key in earlier if key not in exists}
    return dict.fromkeys(list(earlier)[-GONE_LIMIT:])


def _objects(seen: sight.Sight) -> Iterator[tuple[str, dict[str, states.Stored]]]:
    """Yield each collection with its visible objects, as the subject sees them."""
    state = seen.state
    instances = {vm.uuid: vm for vm in _instances(seen)}
    groups = {uuid for uuid, group in state.nodegroups.items() if seen.sees_whole_group(group)}
    nodes = {uuid for vm in instances.values() for uuid in vm.nodes}
    nodes |= {uuid for group in groups for uuid in state.nodes_in.get(group) or ()}
    groups |= {group for uuid in nodes if (group := state.nodes[uuid].group) in state.nodegroups}
    whole = {uuid for uuid, net in state.networks.items() if seen.sees_whole_network(net)}
    used = {use for vm in instances.values() for use in _networks_of(vm)} - whole
    networks = {uuid: state.networks[uuid] for uuid in whole}
    networks |= {uuid: _without_pools(state.networks[uuid]) for uuid in used}
    yield "instances", {**instances}
    yield "nodes", {uuid: state.nodes[uuid] for uuid in nodes}
    yield "nodegroups", {uuid: _connected(state.nodegroups[uuid], networks) for uuid in groups}
    yield "networks", {**networks}
    ports = (state.ports[uuid] for net in whole for uuid in state.ports_in.get(net) or ())
    yield "ports", {port.uuid: _of_visible_device(state, port, instances) for port in ports}
    for kind in ("segmentranges", "subnetpools"):
        yield kind, {**state.collection(kind)} if seen.sees_wiring else {}
    rules = (state.accessrules[uuid] for who in seen.subject.names for uuid in state.rules_of.get(who) or ())
    yield "accessrules", {rule.uuid: rule for rule in rules if seen.sees_rule(rule)}
    tokens = (state.apitokens[uuid] for uuid in state.tokens_of.get(seen.subject.user) or ())
    yield "apitokens", {token.uuid: _with_visible_roles(seen, token) for token in tokens if seen.sees_token(token)}


_REDUCED = ("nodegroups", "networks", "ports", "apitokens")
"""The collections with objects that a view has in another form."""


def _instances(seen: sight.Sight) -> Iterator[instance.Instance]:
    """Yield the visible instances. Only roles on the cluster, a tag or a project cost a walk over all instances."""
    state, keys = seen.state, seen.instances.keys
    candidates: Iterable[instance.Instance]
    if keys is None or access.CLUSTER_KEY in keys or any(":" in key for key in keys):
        candidates = state.instances.values()
    else:
        uuids = {uuid for uuid in keys if uuid in state.instances}
        nodes = (node for key in keys for node in state.nodes_in.get(key) or ())
        uuids |= {uuid for node in nodes for uuid in state.on_node.get(node) or ()}
        candidates = (state.instances[uuid] for uuid in uuids)
    return (vm for vm in candidates if seen.sees_instance(vm))


def _networks_of(vm: instance.Instance) -> Iterator[str]:
    yield from (nic.network for nic in vm.nics if nic.network)
    yield from (use.network for use in vm.lingering if use.network)


def _without_pools(net: network.Network) -> network.Network:
    """Return a network that is seen in part: how much of its pools is in use is a matter of others."""
    subnets = tuple(structs.replace(subnet, pools=(), external=()) for subnet in net.subnets)
    return structs.replace(net, subnets=subnets)


def _connected(group: cluster.NodeGroup, networks: Mapping[str, network.Network]) -> cluster.NodeGroup:
    if group.networks.keys() <= networks.keys():
        return group
    return structs.replace(group, networks={key: plug for key, plug in group.networks.items() if key in networks})


def _of_visible_device(
    state: states.Snapshot, port: network.Port, instances: Mapping[str, instance.Instance]
) -> network.Port:
    hidden = port.device_id in state.instances and port.device_id not in instances
    return structs.replace(port, device_id="") if hidden else port


def _with_visible_roles(seen: sight.Sight, token: access.Token) -> access.Token:
    roles = tuple(role for role in token.roles if seen.sees_object_of(role))
    return token if roles == token.roles else structs.replace(token, roles=roles)
