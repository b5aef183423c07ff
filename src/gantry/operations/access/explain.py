"""What the rules allow, for people: each right on an object with the rule that gives it, and the rules of a user.

An explanation makes the decisions of ``check``: same needs, same function. It knows rules alone: root, the group
gantry-admin and users of the remote API with the option ``write`` may do everything, and need none.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gantry.model import access, cluster_settings
from gantry.operations.access import rights, scopes
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states


class RuleRow(msgspec.Struct, frozen=True):
    """A rule: its object is the cluster, a tag, a project, or has a name and a UUID."""

    uuid: str
    who: str
    role: str
    scope: str
    object: str
    on: str


class Explained(msgspec.Struct, frozen=True):
    """A right, what it lets a user do, whether a rule gives it, and that rule."""

    right: str
    what: str
    allowed: bool
    rule: RuleRow | None


def row(snapshot: states.Snapshot, rule: access.Rule) -> RuleRow:
    """Return a rule with the present name of its object."""
    on = scopes.title(snapshot, rule.scope, rule.object)
    return RuleRow(rule.uuid, rule.who, rule.role.value, rule.scope.value, rule.object, on)


def rules_of(snapshot: states.Snapshot, names: Iterable[str]) -> list[RuleRow]:
    """Return the rules of users and groups, by object and role."""
    uuids = (uuid for who in names for uuid in snapshot.rules_of.get(who) or ())
    rows = (row(snapshot, snapshot.accessrules[uuid]) for uuid in uuids)
    return sorted(rows, key=lambda each: (each.on, each.role, each.who))


def explain(snapshot: states.Snapshot, names: Sequence[str], on: str) -> list[Explained]:
    """Return each right on an object, for users and groups together; InvalidError, NotFoundError for the object."""
    find = access_rules.finder(snapshot)
    explained: list[Explained] = []
    for need in _needs(snapshot, on):
        rule = access.deciding_rule(find, names, need)
        explained.append(
            Explained(need.right.value, need.what, rule is not None, row(snapshot, rule) if rule else None)
        )
    return explained


def _needs(snapshot: states.Snapshot, on: str) -> Iterator[access.Need]:
    scope, uuid = scopes.parse(snapshot, on)
    is_limited = snapshot.the_cluster.reading == cluster_settings.Reading.RULES
    of_instances = (access.Right.VIEW, *_OF_INSTANCES) if is_limited else _OF_INSTANCES
    of_networks = (access.Right.VIEW_NETWORK, *_OF_NETWORKS) if is_limited else _OF_NETWORKS
    match scope:
        case access.Scope.INSTANCE:
            vm = snapshot.instances[uuid]
            yield from (rights.on_instance(snapshot, vm, right) for right in of_instances)
        case access.Scope.NETWORK:
            yield from (rights.on_network(snapshot.networks[uuid], right) for right in of_networks)
        case access.Scope.GROUP:
            group = snapshot.nodegroups[uuid]
            keys = scopes.of_group(group)
            yield from (_each(right, f"each instance in node group {group.name}", keys) for right in of_instances)
            yield rights.on_group(group)
        case access.Scope.TAG:
            keys = (access.CLUSTER_KEY, access.tag_key(uuid))
            yield from (_each(right, f"each instance with tag {uuid}", keys) for right in of_instances)
            yield from (_each(right, f"each network with tag {uuid}", keys) for right in of_networks)
        case access.Scope.PROJECT:
            keys = (access.CLUSTER_KEY, access.project_key(uuid))
            yield from (_each(right, f"each instance of project {uuid}", keys) for right in of_instances)
            yield from (_each(right, f"each network of project {uuid}", keys) for right in of_networks)
        case access.Scope.CLUSTER:
            keys = (access.CLUSTER_KEY,)
            yield from (_each(right, "each instance", keys) for right in of_instances)
            yield from (_each(right, "each network", keys) for right in of_networks)
            yield rights.wire("create networks and segment ranges")
            yield rights.administer("administer the cluster")


_OF_INSTANCES = (access.Right.OPERATE, access.Right.MANAGE)
_OF_NETWORKS = (access.Right.CONNECT, access.Right.CONFIGURE)


def _each(right: access.Right, objects: str, keys: tuple[str, ...]) -> access.Need:
    return access.Need(right, f"{rights.VERBS.get(right, right.value)} {objects}", keys, "")
