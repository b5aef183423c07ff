"""Units that add, change, rename and remove node groups, and assign nodes to them.

The nodes of a group have in common: a layer 2 with its connected networks, parameters, and the policy of their
instances. The last group, and a group with nodes, cannot be removed.
"""

from collections.abc import Sequence

from msgspec import structs, to_builtins

from gantry import errors
from gantry.model import cluster, lock, opcodes, parameters
from gantry.operations import base, hook_environment, parameter_levels
from gantry.state.objects import snapshot as states

Report = Sequence[tuple[str, object]]
"""The changes: parameter and new value (contracts/opcodes.md#results)."""

SETTINGS = ("alloc_policy", "ndparams", "diskparams", "ipolicy")


def _applied(
    snapshot: states.Snapshot, group: cluster.NodeGroup, op: opcodes.GroupAdd | opcodes.GroupSetParams
) -> cluster.NodeGroup:
    """Return a group with the settings of an opcode; raises InvalidError."""
    if op.ipolicy and op.ipolicy.std:
        raise errors.InvalidError(
            "a node group cannot have its own standard specs", hint="gnt-cluster modify --ipolicy-std-specs"
        )
    return structs.replace(
        group,
        alloc_policy=op.alloc_policy or group.alloc_policy,
        ndparams=parameter_levels.node(group.ndparams, op.ndparams),
        diskparams=parameter_levels.disks(group.diskparams, op.diskparams),
        ipolicy=parameter_levels.limits(group.ipolicy, op.ipolicy, above=snapshot.the_cluster.ipolicy),
    )


def _differences(old: cluster.NodeGroup, new: cluster.NodeGroup) -> list[str]:
    policy_line = (
        [f"alloc_policy: {old.alloc_policy} becomes {new.alloc_policy}"] if old.alloc_policy != new.alloc_policy else []
    )
    node = ("node", parameters.NODE, old.ndparams, new.ndparams)
    disks = parameter_levels.by_name("disk", parameters.DISK, old.diskparams, new.diskparams)
    return [
        *policy_line,
        *parameter_levels.differences(iter([node, *disks])),
        *parameter_levels.limit_differences(old.ipolicy, new.ipolicy),
    ]


class GroupAdd(base.Planned[opcodes.GroupAdd]):
    """Adds a node group."""

    OPCODE = opcodes.GroupAdd

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the name exclusively."""
        return {(lock.Level.GROUP, self.op.group_name): lock.Mode.EXCLUSIVE}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group."""
        del facts
        op, inputs = self.op, self.environment.inputs
        _check_free(snapshot, op.group_name)
        plain = cluster.NodeGroup(
            uuid=inputs.uuid(), name=op.group_name, ctime=inputs.now, mtime=inputs.now, tags=tuple(sorted({*op.tags}))
        )
        new = _applied(snapshot, plain, op)
        return base.Plan(
            lines=[f"add node group {new.name}", *_differences(plain, new)],
            changes=[states.Put(new)],
            hooks=hook_environment.of_group(snapshot, new, path="group-add"),
        )


def _check_free(snapshot: states.Snapshot, name: str) -> None:
    if ("nodegroups", name) in snapshot.names:
        raise errors.ExistsError(f"node group {name} exists already", hint="choose another name")


class GroupSetParams(base.Planned[opcodes.GroupSetParams]):
    """Changes a node group; the result lists the changes."""

    OPCODE = opcodes.GroupSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the group exclusively."""
        return {(lock.Level.GROUP, snapshot.group(self.op.group_name).uuid): lock.Mode.EXCLUSIVE}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group; log the instances that violate its policy now."""
        del facts
        if all(getattr(self.op, name) is None for name in SETTINGS):
            raise errors.InvalidError(
                f"no change of node group {self.op.group_name} was requested", hint="specify at least one setting"
            )
        old = snapshot.group(self.op.group_name)
        new = _applied(snapshot, old, self.op)
        lines = _differences(old, new) or [f"nothing changes: node group {old.name} already has these settings"]
        if new != old:
            lines += parameter_levels.misfits(snapshot, parameter_levels.with_changes(snapshot, new), groups=[old.uuid])
        changed = [(name, self._builtin(new, name)) for name in SETTINGS if getattr(new, name) != getattr(old, name)]
        return base.Plan(
            lines=lines,
            changes=[states.Put(base.changed(new, self.environment.inputs.now))] if new != old else [],
            steps=base.log_steps(lines),
            result=lambda: changed,
            hooks=hook_environment.of_group(
                snapshot, old, path="group-modify", NEW_ALLOC_POLICY=new.alloc_policy.value
            ),
        )

    def _builtin(self, new: cluster.NodeGroup, name: str) -> object:
        return to_builtins(getattr(new, name))


class GroupRename(base.Planned[opcodes.GroupRename]):
    """Renames a node group; the result is the new name."""

    OPCODE = opcodes.GroupRename

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the group and the new name exclusively."""
        group = snapshot.group(self.op.group_name).uuid
        return {(lock.Level.GROUP, name): lock.Mode.EXCLUSIVE for name in (group, self.op.new_name)}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the group under its new name."""
        del facts
        old, name = snapshot.group(self.op.group_name), self.op.new_name
        _check_free(snapshot, name)
        return base.Plan(
            lines=[f"rename node group {old.name} to {name}"],
            changes=[states.Put(base.changed(old, self.environment.inputs.now, name=name))],
            result=lambda: name,
            hooks=hook_environment.of_group_rename(snapshot, old, new_name=name),
        )


class GroupRemove(base.Planned[opcodes.GroupRemove]):
    """Removes a node group that has no nodes."""

    OPCODE = opcodes.GroupRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the group exclusively."""
        return {(lock.Level.GROUP, snapshot.group(self.op.group_name).uuid): lock.Mode.EXCLUSIVE}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the group with its network connections."""
        del facts
        group = snapshot.group(self.op.group_name)
        members = sorted(snapshot.nodes[uuid].name for uuid in snapshot.nodes_in.get(group.uuid) or ())
        if members:
            raise errors.WrongStateError(
                f"node group {group.name} still has node {', '.join(members[:5])}",
                hint="gnt-group assign-nodes assigns them to another group",
            )
        if len(snapshot.nodegroups) == 1:
            raise errors.WrongStateError(
                f"node group {group.name} is the only node group", hint="a cluster needs at least one node group"
            )
        return base.Plan(
            lines=[f"remove node group {group.name}"],
            changes=[states.Delete("nodegroups", group.uuid)],
            hooks=hook_environment.of_group(snapshot, group, path="group-remove"),
        )


class GroupAssignNodes(base.Planned[opcodes.GroupAssignNodes]):
    """Assigns nodes with their instances to a node group."""

    OPCODE = opcodes.GroupAssignNodes

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the nodes, their present groups and their new group exclusively."""
        nodes = [snapshot.node(name) for name in self.op.nodes]
        groups = {snapshot.group(self.op.group_name).uuid, *(node.group for node in nodes)}
        return {
            **{(lock.Level.GROUP, uuid): lock.Mode.EXCLUSIVE for uuid in groups},
            **{(lock.Level.NODE, node.uuid): lock.Mode.EXCLUSIVE for node in nodes},
        }

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the nodes; without ``force``, each instance must keep its networks and stay in one group."""
        del facts
        group, now = snapshot.group(self.op.group_name), self.environment.inputs.now
        nodes = {node.uuid: node for node in map(snapshot.node, self.op.nodes) if node.group != group.uuid}
        moved = sorted(nodes.values(), key=lambda node: node.name)
        new = [base.changed(node, now, group=group.uuid) for node in moved]
        after = parameter_levels.with_changes(snapshot, *new)
        conflicts = [line for node in moved for line in _missing_networks(snapshot, node, group)]
        conflicts += _split(snapshot, after, moved)
        if conflicts and not self.op.force:
            raise errors.WrongStateError(
                "; ".join(conflicts[:5]),
                hint="connect the network to that group first, move mirrored nodes together; or add -f",
            )
        notes = [*conflicts, *parameter_levels.misfits(snapshot, after, groups=[group.uuid])]
        lines = [
            f"node {node.name} moves from node group {_name(snapshot, node.group)} to {group.name}" for node in moved
        ]
        return base.Plan(
            lines=[*(lines or [f"nothing changes: the nodes are already in node group {group.name}"]), *notes],
            changes=[states.Put(node) for node in new],
            steps=base.log_steps(notes),
        )


def _name(snapshot: states.Snapshot, uuid: str) -> str:
    return snapshot.nodegroups[uuid].name if uuid in snapshot.nodegroups else "(none)"


def _missing_networks(snapshot: states.Snapshot, node: cluster.Node, group: cluster.NodeGroup) -> list[str]:
    """Return the networks of a node's instances that are not connected to a group."""
    lines = []
    for vm in sorted(
        (snapshot.instances[uuid] for uuid in snapshot.on_node.get(node.uuid) or ()), key=lambda vm: vm.name
    ):
        missing = sorted(
            {snapshot.networks[nic.network].name for nic in vm.nics if nic.network} - _networks(snapshot, group)
        )
        if missing:
            lines.append(
                f"network {', '.join(missing)} of instance {vm.name} on {node.name} "
                f"is not connected to node group {group.name}"
            )
    return lines


def _split(before: states.Snapshot, after: states.Snapshot, moved: Sequence[cluster.Node]) -> list[str]:
    """Return the instances whose disks are in one node group now, and in several after nodes have moved."""
    uuids = {
        uuid for node in moved for index in (before.on_node, before.copies_on) for uuid in index.get(node.uuid) or ()
    }
    lines = []
    for vm in sorted((before.instances[uuid] for uuid in uuids), key=lambda vm: vm.name):
        old, new = ({state.nodes[node].group for node in vm.nodes} for state in (before, after))
        if len(new) > len(old):
            names = ", ".join(sorted(_name(after, uuid) for uuid in new))
            lines.append(f"instance {vm.name} would have its disks in node groups {names}")
    return lines


def _networks(snapshot: states.Snapshot, group: cluster.NodeGroup) -> set[str]:
    return {snapshot.networks[uuid].name for uuid in group.networks}
