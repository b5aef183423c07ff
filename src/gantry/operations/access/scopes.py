"""The scopes that contain an object, and the objects of rules and of roles of tokens by name.

An instance is in the node group of its primary node, and in the project of the ports that its NICs are made of. Of
tags and projects, those of instances and networks are scopes.
"""

import msgspec

from gantry import errors
from gantry.model import access, cluster, instance, network
from gantry.model.opcodes import base as opcode_base
from gantry.state.objects import snapshot as states

NAMED = {
    access.Scope.GROUP: "nodegroups",
    access.Scope.INSTANCE: "instances",
    access.Scope.NETWORK: "networks",
}
"""The collection of the objects that a scope names."""

_HINT = "write cluster, group:NAME of a node group, tag:TAG, project:ID, instance:NAME or network:NAME"


def of_instance(snapshot: states.Snapshot, vm: instance.Instance) -> tuple[str, ...]:
    """Return the keys of the scopes that contain an instance."""
    group = snapshot.nodes[vm.primary_node].group
    return (access.CLUSTER_KEY, group, *map(access.tag_key, vm.tags), *_of_project(vm.project), vm.uuid)


def of_network(net: network.Network) -> tuple[str, ...]:
    """Return the keys of the scopes that contain a network."""
    return (access.CLUSTER_KEY, *map(access.tag_key, net.tags), *_of_project(net.project), net.uuid)


def _of_project(project: str) -> tuple[str, ...]:
    return (access.project_key(project),) if project else ()


def of_group(group: cluster.NodeGroup) -> tuple[str, ...]:
    """Return the keys of the scopes that contain a node group."""
    return (access.CLUSTER_KEY, group.uuid)


def parse(snapshot: states.Snapshot, text: str) -> tuple[access.Scope, str]:
    """Return the scope and the object, by UUID, that a text names; InvalidError, NotFoundError."""
    word, colon, name = text.partition(":")
    if word not in [*access.Scope] or bool(colon) != (word != access.Scope.CLUSTER) or (colon and not name):
        raise errors.InvalidError(f"{text!r} names nothing that a rule can be about", hint=_HINT)
    scope = access.Scope(word)
    if scope is access.Scope.TAG:
        return scope, _tag(name)
    if scope is access.Scope.PROJECT:
        return scope, _project(name)
    return scope, snapshot.resolve(NAMED[scope], name) if scope in NAMED else ""


def _tag(name: str) -> str:
    try:
        return msgspec.convert(name, opcode_base.Tag)
    except msgspec.ValidationError:
        raise errors.InvalidError(
            f"{name!r} cannot be a tag", hint="a tag has letters, digits and _ . + * / : @ -, at most 128"
        ) from None


def _project(name: str) -> str:
    """Return the id of a project. The front ends and Keystone have the list of projects, and the cluster has none."""
    try:
        is_possible = msgspec.convert(name, opcode_base.Project).isprintable()
    except msgspec.ValidationError:
        is_possible = False
    if not is_possible:
        raise errors.InvalidError(
            f"{name!r} cannot be the id of a project", hint="gnt-network list -o name,project shows those of networks"
        )
    return name


def title(snapshot: states.Snapshot, scope: access.Scope, key: str) -> str:
    """Return the text that names the object of a rule now, as ``parse`` reads it."""
    if scope is access.Scope.CLUSTER:
        return scope.value
    collection = NAMED.get(scope)
    entity = snapshot.get(collection, key) if collection else None
    name = entity.name if isinstance(entity, cluster.NodeGroup | instance.Instance | network.Network) else key
    return f"{scope}:{name}"


def numbers(snapshot: states.Snapshot, key: str) -> tuple[int, int]:
    """Return how many instances and networks are in the scope with a key. Cost: a walk over all of them."""
    instances = sum(key in of_instance(snapshot, vm) for vm in snapshot.instances.values())
    return instances, sum(key in of_network(net) for net in snapshot.networks.values())


def allows(snapshot: states.Snapshot, token: access.Token) -> str:
    """Return what a token allows, in words."""
    if token.extent is not access.Extent.ROLES:
        return token.extent.value
    roles = [f"{each.role} on {title(snapshot, each.scope, each.object)}" for each in token.roles]
    return ", ".join(roles) or access.Extent.READ.value


def check_meaning(role: access.Role, scope: access.Scope) -> None:
    """Raise InvalidError for a role that gives nothing, or nothing of its own, on a scope."""
    if scope in access.SCOPES[role]:
        return
    of_networks = "give the role on network:NAME, project:ID, tag:TAG or cluster"
    hint = {
        access.Scope.NETWORK: "network-admin changes a network, operator connects NICs to it",
        access.Scope.GROUP: f"networks are in no node group; {of_networks}",
        access.Scope.INSTANCE: of_networks,
    }.get(scope, "")
    raise errors.InvalidError(f"the role {role} has no meaning on the scope {scope}", hint=hint)
