"""OP_NODE_SET_PARAMS: change a node's parameters, and its flags, which determine its role.

Candidate, drained and offline exclude each other and the master's role. Setting one of them clears the others; a former
candidate deletes its copy, and the pool is filled from the other nodes. A candidate that goes offline still counts for
the default policy of replication (``lost_candidate``), until it is a candidate again, drained, or demoted on request.

See contracts/cluster-design.md#node-flags.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import cluster, lock, opcodes, parameters
from gantry.operations import base, hook_environment, parameter_levels
from gantry.operations.node import accelerators, candidate_pool
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

ROLES = ("master_candidate", "drained", "offline")
FLAGS = (*ROLES, "master_capable", "vm_capable")
ABANDON_TIMEOUT_SECONDS = 5.0
"""For an answer of a node that goes offline with instances on it, before it counts as down."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """The status of a node that comes back online, and whether the node is ``silent``; offline nodes are not asked."""

    status: calls.NodeStatus | None = None
    silent: bool = False


class NodeSetParams(base.Unit[opcodes.NodeSetParams, Facts]):
    """Changes a node's flags and parameters; the result lists the changes."""

    OPCODE = opcodes.NodeSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the node and the pool of candidates exclusively."""
        node = snapshot.node(self.op.node_name).uuid
        return {(lock.Level.NODE, node): lock.Mode.EXCLUSIVE, candidate_pool.POOL: lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check whether the node answers, so that no later step waits for a node that does not.

        With ``force``, a node that goes offline with instances on it must not answer. A node that comes back must
        answer, and may be a different machine.
        """
        node = snapshot.node(self.op.node_name)
        if not node.offline:
            return Facts(silent=await self._is_silent(snapshot, node))
        if self.op.offline is not False or self.op.force:
            return Facts()
        target = dataclasses.replace(snapshot.target(node), offline=False)
        return Facts(await self.environment.nodes.call(target, accelerators.question(snapshot.the_cluster)))

    def ends_wait(self) -> bool:
        """Mark a node offline: the master then does not wait for it."""
        return self.op.offline is True

    def _abandons(self, snapshot: states.Snapshot, node: cluster.Node) -> bool:
        """Return whether a node goes offline with instances on it, which requires ``force``."""
        return bool(self.op.force and self.op.offline and snapshot.on_node.get(node.uuid))

    async def _is_silent(self, snapshot: states.Snapshot, node: cluster.Node) -> bool:
        target, nodes = snapshot.target(node), self.environment.nodes
        if self.op.master_candidate:
            await nodes.call(target, calls.Version())
            return False
        abandons = self._abandons(snapshot, node)
        timeout_seconds = ABANDON_TIMEOUT_SECONDS if abandons else liveness.READ_TIMEOUT_SECONDS
        if await liveness.is_silent(nodes, target, timeout=timeout_seconds):
            return True
        if abandons:
            raise errors.WrongStateError(
                f"node {node.name} answers and may run instances, so it is not down",
                hint=f"gnt-node migrate {node.name} or gnt-node failover {node.name} moves the instances first",
            )
        return False

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Set the flags and delete a former candidate's copy; then fill the pool."""
        node = accelerators.with_status(snapshot.node(self.op.node_name), facts.status)
        new = self._changed(snapshot, node)
        self._check(snapshot, node, new)
        changes = [(name, getattr(new, name)) for name in FLAGS if getattr(new, name) != getattr(node, name)]
        tuned = {**node.ndparams, **new.ndparams}
        tuned = {name: new.ndparams.get(name, parameters.RESET) for name in tuned if _differs(name, node, new)}
        rising = new.master_candidate and not node.master_candidate
        demoted = node.master_candidate and not new.master_candidate
        forgotten = node.lost_candidate and not new.lost_candidate
        # A candidate gets the secrets before the flag, and loses the flag before the secrets.
        first = structs.replace(new, master_candidate=new.master_candidate and not rising)
        after = snapshot.apply([states.Put(first)], serial=snapshot.serial)
        self._check_pool(after, new, demoted=demoted)
        # A node that was just refused as a candidate must not be promoted by the same opcode.
        promotion = candidate_pool.Promotion(
            self.environment, without=[node.uuid] if self.op.master_candidate is False else []
        )
        # The node may be offline afterwards; it is still notified if it answers.
        target = dataclasses.replace(snapshot.target(node), offline=node.offline or facts.silent)
        steps = [candidate_pool.demotion(self.environment, target)] if demoted else []
        if demoted or forgotten:
            steps += candidate_pool.weakened(snapshot, after, without="" if new.lost_candidate else node.uuid)
        if rising:
            steps.append(self._send_step(snapshot.target(new)))
        elif candidate_pool.missing(after) > 0:
            steps.append(promotion.step)
        lines = [f"{name} of node {node.name} becomes {'yes' if value else 'no'}" for name, value in changes]
        lines += [f"{name} of node {node.name} becomes {value}" for name, value in tuned.items()]
        if forgotten:
            lines.append(f"node {node.name} does not count as a master candidate any more")
        changes += [(f"ndparams/{name}", value) for name, value in tuned.items()]
        if demoted and self.op.master_candidate is False and new.master_capable:
            note = f"{node.name} may become a candidate again if the pool lacks one; --master-capable no prevents that"
            lines.append(note)
            steps.append(base.Step(note))
        return base.Plan(
            lines=lines,
            changes=[states.Put(first)] if changes or forgotten else (),
            steps=steps,
            finish=self._promoted if rising else promotion.changes,
            result=lambda: changes,
            hooks=hook_environment.of_node_modify(snapshot, node, silent=facts.silent),
        )

    def _promoted(self, current: states.Snapshot) -> Sequence[states.Change]:
        node = current.node(self.op.node_name)
        now = self.environment.inputs.now
        return [states.Put(base.changed(node, now, master_candidate=True, lost_candidate=False))]

    def _send_step(self, target: targets.Target) -> base.Step:
        return base.Step(
            f"send {target.name} the secrets of a master candidate",
            candidate_pool.sending_secrets(self.environment, target),
            candidate_pool.deleting_secrets(target),
        )

    def _changed(self, snapshot: states.Snapshot, node: cluster.Node) -> cluster.Node:
        """Return the node with the requested flags, cleared of conflicting flags."""
        op = self.op
        flag_values = {name: getattr(op, name) for name in FLAGS}
        requested = {name: value for name, value in flag_values.items() if value is not None}
        if not requested and op.ndparams is None:
            raise errors.InvalidError(
                f"no change of node {node.name} was requested", hint="specify at least one flag or parameter"
            )
        chosen = [name for name in ROLES if requested.get(name)]
        if len(chosen) > 1:
            raise errors.InvalidError(f"{' and '.join(chosen)} exclude each other", hint="set only one of them")
        flags = {name: getattr(node, name) for name in FLAGS} | requested
        if chosen:
            self._check_candidate(node, chosen[0], requested)
            flags |= {name: name == chosen[0] for name in ROLES}
        if not flags["master_capable"] and node.uuid != snapshot.the_cluster.master_node:
            if requested.get("master_candidate"):
                raise errors.WrongStateError(
                    f"node {node.name} is not master_capable, so it cannot be a master candidate",
                    hint="--master-capable yes allows it",
                )
            flags["master_candidate"] = False
        tuned = parameter_levels.node(node.ndparams, op.ndparams)
        lost = node.master_candidate and flags["offline"]
        kept = node.lost_candidate and op.master_candidate is not False and not flags["drained"]
        flags["lost_candidate"] = flags["master_capable"] and (lost or kept)
        return base.changed(node, self.environment.inputs.now, ndparams=tuned, **flags)

    def _check_candidate(self, node: cluster.Node, chosen: str, requested: Mapping[str, bool]) -> None:
        """Refuse to make an offline or drained node a candidate unless the same request clears that flag."""
        conflicts = [
            name for name in ("offline", "drained") if getattr(node, name) and requested.get(name) is not False
        ]
        if chosen == "master_candidate" and conflicts:
            raise errors.WrongStateError(
                f"node {node.name} is {conflicts[0]} and cannot be a master candidate",
                hint=f"set {conflicts[0]} to no in the same command",
            )

    def _check(self, snapshot: states.Snapshot, node: cluster.Node, new: cluster.Node) -> None:
        touched = any(getattr(self.op, name) is not None for name in ROLES) or not new.master_capable
        if touched and node.uuid == snapshot.the_cluster.master_node:
            raise errors.WrongStateError(
                f"node {node.name} is the master, so it cannot have another role",
                hint="gnt-cluster master-failover on another node moves the role first",
            )
        vms = sorted(snapshot.instances[uuid].name for uuid in snapshot.on_node.get(node.uuid) or ())
        lost = [word for word, is_lost in _losses(node, new) if is_lost]
        if vms and lost and not (lost == ["offline"] and self._abandons(snapshot, node)):
            raise errors.WrongStateError(
                f"node {node.name} cannot be {lost[0]}: it is the primary node of instance {', '.join(vms[:5])}",
                hint="move or remove these instances first; -f abandons a node that is really down",
            )
        copies = sorted(snapshot.instances[uuid].name for uuid in snapshot.copies_on.get(node.uuid) or ())
        if copies and node.vm_capable and not new.vm_capable:
            raise errors.WrongStateError(
                f"vm_capable of node {node.name} cannot be cleared: it is the secondary node of instance "
                f"{', '.join(copies[:5])}",
                hint="gnt-instance replace-disks -n OTHER_NODE changes the secondary node of an instance",
            )

    def _check_pool(self, after: states.Snapshot, new: cluster.Node, *, demoted: bool) -> None:
        """Refuse to remove a candidate that no node can replace, except for a failed node."""
        if not demoted or new.offline or new.drained or self.op.force:
            return
        replacements = len(candidate_pool.eligible(after, without=[new.uuid]))
        if candidate_pool.missing(after) > replacements and self.op.master_candidate is False:
            raise errors.WrongStateError(
                f"the pool of master candidates would be too small without node {new.name}, "
                "and no other node can replace it",
                hint="-f removes it nevertheless; or reduce the candidate pool size",
            )


def _differs(name: str, node: cluster.Node, new: cluster.Node) -> bool:
    return node.ndparams.get(name) != new.ndparams.get(name)


def _losses(node: cluster.Node, new: cluster.Node) -> tuple[tuple[str, bool], ...]:
    return ("offline", new.offline and not node.offline), ("not vm_capable", node.vm_capable and not new.vm_capable)
