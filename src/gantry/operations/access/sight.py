"""What a subject sees on a cluster whose setting ``reading`` is ``rules``; pure.

A subject sees an instance or a node group with the right ``view`` on it, a network with ``view-network``: each role has
them on its objects (``model.access``). An API token is a second limit here too. Who has both rights on the cluster sees
everything, as administrators do, and has no ``Sight``.

What visible instances use is visible with them: their nodes, the groups of these, and their networks. Such an object is
seen in part: what it says about its other users, as the free memory of a node or the pools of a network, is left out
(``views``). A visible node group, and a network with the right, are seen whole.

``check`` looks up the names of a request through ``Named``, so a name of an invisible object is a name that no object
has. ``views`` has the whole of what a subject sees, for queries.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gantry.model import access, cluster, cluster_settings, instance, job, network
from gantry.operations.access import scopes
from gantry.state.objects import access_rules, content
from gantry.state.objects import snapshot as states

Keys = frozenset[str]


@dataclass(frozen=True)
class Reach:
    """On which scopes a subject has a right, by their keys: by rules, and by its token; None is everywhere."""

    by_rules: Keys | None
    by_token: Keys | None

    def contains(self, keys: Collection[str]) -> bool:
        """Return whether the subject has the right on an object in the scopes with these keys."""
        return not any(limit is not None and limit.isdisjoint(keys) for limit in (self.by_rules, self.by_token))

    @property
    def keys(self) -> Keys | None:
        """Return the keys of scopes outside of which the subject has the right nowhere; None if there are none."""
        return self.by_token if self.by_rules is None else self.by_rules


_NOWHERE = Reach(frozenset(), frozenset())


def _reach(state: states.Snapshot, subject: access.Subject, right: access.Right) -> Reach:
    is_admin, by_token = subject.is_admin, None
    if use := subject.token:
        token = access_rules.token_of(state, subject)
        if token is None or token.user != subject.user:
            return _NOWHERE
        is_admin |= use.is_admin
        by_token = _granted(token.roles, right) if token.extent is access.Extent.ROLES else None
    rules = (state.accessrules[uuid] for who in subject.names for uuid in state.rules_of.get(who) or ())
    return Reach(None if is_admin else _granted(rules, right), by_token)


def _granted(roles: Iterable[access.Rule | access.RoleOn], right: access.Right) -> Keys:
    return frozenset(each.key for each in roles if right in access.GRANTS[each.role])


def of(state: states.Snapshot, subject: access.Subject | None) -> "Sight | None":
    """Return what a subject sees, None if that is everything. Cost: that of the subject's rules."""
    if subject is None or state.cluster is None or state.cluster.reading != cluster_settings.Reading.RULES:
        return None
    if subject.is_admin and subject.token is None:
        return None
    instances, networks = (_reach(state, subject, right) for right in (access.Right.VIEW, access.Right.VIEW_NETWORK))
    whole = (access.CLUSTER_KEY,)
    if instances.contains(whole) and networks.contains(whole):
        return None
    return Sight(state, subject, instances, networks)


@dataclass(frozen=True)
class Sight:
    """What a subject sees of a state."""

    state: states.Snapshot
    subject: access.Subject
    instances: Reach
    networks: Reach

    @property
    def sees_wiring(self) -> bool:
        """Return whether the subject sees what the networks of the cluster share: subnet pools and segment ranges."""
        return self.networks.contains((access.CLUSTER_KEY,))

    def sees_instance(self, vm: instance.Instance) -> bool:
        """Return whether the subject sees an instance."""
        return self.instances.contains(scopes.of_instance(self.state, vm))

    def sees_whole_group(self, group: cluster.NodeGroup) -> bool:
        """Return whether the subject sees a node group, with its nodes, and not only that instances are there."""
        return self.instances.contains(scopes.of_group(group))

    def sees_whole_node(self, node: cluster.Node) -> bool:
        """Return whether the subject sees a node, and not only that instances are there."""
        return node.group in self.state.nodegroups and self.sees_whole_group(self.state.nodegroups[node.group])

    def sees_whole_network(self, net: network.Network) -> bool:
        """Return whether the subject sees a network, and not only that instances are in it."""
        return self.networks.contains(scopes.of_network(net))

    def sees_job(self, entry: job.Job) -> bool:
        """Return whether the subject sees a job: the user's own, with a token of roles those of that token."""
        submitter, token = entry.submitter, access_rules.token_of(self.state, self.subject)
        if submitter is None:
            return False
        if token is not None and token.extent is not access.Extent.ROLES:
            return self.subject.is_same_user(submitter)
        return self.subject.has_jobs_of(submitter)

    def sees(self, kind: str, key: str) -> bool:
        """Return whether the subject sees an object, whole or in part, by its collection and key."""
        state = self.state
        if key not in state.collection(kind):
            return False
        match kind:
            case "instances":
                return self.sees_instance(state.instances[key])
            case "nodes":
                return self.sees_whole_node(state.nodes[key]) or self._uses_node(key)
            case "nodegroups":
                nodes = state.nodes_in.get(key) or ()
                return self.sees_whole_group(state.nodegroups[key]) or any(map(self._uses_node, nodes))
            case "networks":
                return self.sees_whole_network(state.networks[key]) or self._has(state.in_network.get(key) or ())
            case "ports":
                return self.sees_whole_network(state.networks[state.ports[key].network])
            case "segmentranges" | "subnetpools":
                return self.sees_wiring
            case "accessrules":
                return self.sees_rule(state.accessrules[key])
            case "apitokens":
                return self.sees_token(state.apitokens[key])
            case "jobs":
                return self.sees_job(state.jobs[key])
        return False

    def sees_rule(self, rule: access.Rule) -> bool:
        """Return whether the subject sees an access rule: the user's own, about what is visible."""
        return rule.who in self.subject.names and self.sees_object_of(rule)

    def sees_token(self, token: access.Token) -> bool:
        """Return whether the subject sees an API token: users of the remote API see their own."""
        return (token.user, "rapi") == (self.subject.user, self.subject.door)

    def sees_object_of(self, role: access.Rule | access.RoleOn) -> bool:
        """Return whether the subject sees the object of a rule, or of a role of a token."""
        collection = scopes.NAMED.get(role.scope)
        return collection is None or self.sees(collection, role.object)

    def _uses_node(self, uuid: str) -> bool:
        return self._has(self.state.on_node.get(uuid) or ()) or self._has(self.state.copies_on.get(uuid) or ())

    def _has(self, uuids: Iterable[str]) -> bool:
        return any(self.sees_instance(self.state.instances[uuid]) for uuid in uuids)

    def named(self) -> "Named":
        """Return the state in which names of invisible objects are unknown."""
        return Named.of(self)


class Named(states.Snapshot):
    """A state with all its objects, in which a lookup by name or UUID finds only what a subject sees.

    ``looked_up`` has the UUIDs of the results. What is not looked up by name is all there: the instances of a node, for
    the rights that emptying it needs.
    """

    _sight: Sight
    looked_up: set[str]

    @classmethod
    def of(cls, sight: Sight) -> "Named":
        """Return the state of a sight."""
        state = object.__new__(cls)
        object.__setattr__(state, "__dict__", {**vars(sight.state), "_sight": sight, "looked_up": set()})
        return state

    def resolve(self, kind: str, name: str) -> str:
        """Return the UUID for a name, as ``Content.resolve`` does; NotFoundError also for an invisible object.

        The work of the request looks its names up among all objects. So a name that fits a visible object by its
        beginning, but means an invisible one as a whole, is unknown, and one that fits both is ambiguous.
        """
        uuid = self.named(kind, name)
        if not uuid:
            matching = self.matching(kind, name)
            visible = [whole for whole, each in matching.items() if self._sight.sees(kind, each)]
            if len(matching) > 1 and visible:
                raise content.ambiguous(kind, name, visible)
            uuid = next(iter(matching.values())) if len(matching) == 1 else ""
        if not uuid or not self._sight.sees(kind, uuid):
            raise content.unknown(kind, name)
        self.looked_up.add(uuid)
        return uuid

    def may_name(self, need: access.Need) -> bool:
        """Return whether a refusal may name the object of a need: the request does, or the subject sees it."""
        if not need.object or need.object in self.looked_up:
            return True
        return any(self._sight.sees(kind, need.object) for kind in ("instances", "networks", "nodegroups"))
