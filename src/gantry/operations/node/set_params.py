"""OP_NODE_SET_PARAMS: a node's parameters, and its flags, which add up to one role.

Candidate, drained and offline exclude each other and the master's role. Setting one takes the others away; a candidate
that ceases to be one gives up its copy, and the pool is filled from the other nodes.

See contracts/cluster-design.md#node-flags.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import cluster, lock, opcodes, parameters
from gantry.operations import base, hook_environment, parameter_levels
from gantry.operations.node import accelerators, candidate_pool
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

ROLES = ("master_candidate", "drained", "offline")
FLAGS = (*ROLES, "master_capable", "vm_capable")


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a node says of itself that comes back, and whether it is ``silent``; one that is offline is not asked."""

    status: calls.NodeStatus | None = None
    silent: bool = False


class NodeSetParams(base.Unit[opcodes.NodeSetParams, Facts]):
    """Changes a node's flags and parameters; the result lists what has changed."""

    OPCODE = opcodes.NodeSetParams

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the node, and the pool of candidates."""
        node = snapshot.node(self.op.node_name).uuid
        return {(lock.Level.NODE, node): lock.Mode.EXCLUSIVE, candidate_pool.POOL: lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask whether the node is there: of one that is not, which may take long to find out, no more is asked.

        One that is given up with its instances on it must not answer. One that is to be online again has to, and may be
        another machine now.
        """
        node = snapshot.node(self.op.node_name)
        if not node.offline:
            return Facts(silent=await self._is_silent(snapshot, node))
        if self.op.offline is not False or self.op.force:
            return Facts()
        target = dataclasses.replace(snapshot.target(node), offline=False)
        return Facts(await self.environment.nodes.call(target, accelerators.question(snapshot.the_cluster)))

    def _gives_up(self, snapshot: states.Snapshot, node: cluster.Node) -> bool:
        """Tell whether a node is to be offline though instances are on it, which only ``force`` does."""
        return bool(self.op.force and self.op.offline and snapshot.on_node.get(node.uuid))

    async def _is_silent(self, snapshot: states.Snapshot, node: cluster.Node) -> bool:
        try:
            await self.environment.nodes.call(snapshot.target(node), calls.Version())
        except errors.RemoteError:
            if self.op.master_candidate:
                raise
            return True
        if self._gives_up(snapshot, node):
            raise errors.WrongStateError(
                f"node {node.name} answers and may run instances, it is not down",
                hint=f"gnt-node migrate {node.name} or gnt-node failover {node.name} moves them first",
            )
        return False

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Set the flags and take a former candidate's copy; then fill the pool."""
        node = accelerators.told(snapshot.node(self.op.node_name), facts.status)
        new = self._wanted(snapshot, node)
        self._check(snapshot, node, new)
        told = [(name, getattr(new, name)) for name in FLAGS if getattr(new, name) != getattr(node, name)]
        tuned = {**node.ndparams, **new.ndparams}
        tuned = {name: new.ndparams.get(name, parameters.RESET) for name in tuned if _differs(name, node, new)}
        rising = new.master_candidate and not node.master_candidate
        demoted = node.master_candidate and not new.master_candidate
        # A candidate has the papers before the flag, and loses the flag before the papers.
        first = structs.replace(new, master_candidate=new.master_candidate and not rising)
        after = snapshot.apply([states.Put(first)], serial=snapshot.serial)
        self._check_pool(after, new, demoted=demoted)
        # A node that was told to be no candidate is not made one in the same breath.
        promotion = candidate_pool.Promotion(
            self.environment, without=[node.uuid] if self.op.master_candidate is False else []
        )
        # It may be offline after this, and is told all the same where it still hears it.
        target = dataclasses.replace(snapshot.target(node), offline=node.offline or facts.silent)
        steps = [candidate_pool.demotion(self.environment, target)] if demoted else []
        if rising:
            steps.append(self._give_step(snapshot.target(new)))
        elif candidate_pool.missing(after) > 0:
            steps.append(promotion.step)
        lines = [f"{name} of node {node.name} becomes {'yes' if value else 'no'}" for name, value in told]
        lines += [f"{name} of node {node.name} becomes {value}" for name, value in tuned.items()]
        told += [(f"ndparams/{name}", value) for name, value in tuned.items()]
        if demoted and self.op.master_candidate is False and new.master_capable:
            note = f"{node.name} may be chosen again when a candidate is missing; --master-capable no keeps it out"
            lines.append(note)
            steps.append(base.Step(note))
        return base.Plan(
            lines=lines,
            changes=[states.Put(first)] if told else (),
            steps=steps,
            finish=self._raised if rising else promotion.changes,
            result=lambda: told,
            hooks=hook_environment.of_node_modify(snapshot, node, silent=facts.silent),
        )

    def _raised(self, newest: states.Snapshot) -> Sequence[states.Change]:
        node = newest.node(self.op.node_name)
        return [states.Put(base.changed(node, self.environment.inputs.now, master_candidate=True))]

    def _give_step(self, target: targets.Target) -> base.Step:
        return base.Step(
            f"give {target.name} what a master candidate keeps",
            candidate_pool.sending(self.environment, target),
            candidate_pool.taking_back(target),
        )

    def _wanted(self, snapshot: states.Snapshot, node: cluster.Node) -> cluster.Node:
        """Return the node with the flags that were asked for, none in another's way."""
        op = self.op
        asked = {name: getattr(op, name) for name in FLAGS}
        given = {name: value for name, value in asked.items() if value is not None}
        if not given and op.ndparams is None:
            raise errors.InvalidError("nothing is to be changed", hint="name at least one flag or parameter")
        chosen = [name for name in ROLES if given.get(name)]
        if len(chosen) > 1:
            raise errors.InvalidError(f"{' and '.join(chosen)} exclude each other", hint="set one of them")
        flags = {name: getattr(node, name) for name in FLAGS} | given
        if chosen:
            self._check_way(node, chosen[0], given)
            flags |= {name: name == chosen[0] for name in ROLES}
        if not flags["master_capable"] and node.uuid != snapshot.the_cluster.master_node:
            if given.get("master_candidate"):
                raise errors.WrongStateError(
                    f"node {node.name} may not be a master candidate", hint="--master-capable yes allows it"
                )
            flags["master_candidate"] = False
        tuned = parameter_levels.node(node.ndparams, op.ndparams)
        return base.changed(node, self.environment.inputs.now, ndparams=tuned, **flags)

    def _check_way(self, node: cluster.Node, chosen: str, given: Mapping[str, bool]) -> None:
        """A node that is offline or drained becomes a candidate only when that is taken back in the same request."""
        held = [name for name in ("offline", "drained") if getattr(node, name) and given.get(name) is not False]
        if chosen == "master_candidate" and held:
            raise errors.WrongStateError(
                f"node {node.name} is {held[0]} and cannot be a master candidate",
                hint=f"set {held[0]} to no in the same command",
            )

    def _check(self, snapshot: states.Snapshot, node: cluster.Node, new: cluster.Node) -> None:
        touched = any(getattr(self.op, name) is not None for name in ROLES) or not new.master_capable
        if touched and node.uuid == snapshot.the_cluster.master_node:
            raise errors.WrongStateError(
                f"node {node.name} is the master, whose role excludes every other",
                hint="gnt-cluster master-failover on another node moves the role first",
            )
        vms = sorted(snapshot.instances[uuid].name for uuid in snapshot.on_node.get(node.uuid) or ())
        lost = [word for word, gone in _losses(node, new) if gone]
        if vms and lost and not (lost == ["offline"] and self._gives_up(snapshot, node)):
            raise errors.WrongStateError(
                f"node {node.name} cannot be {lost[0]}: it is the primary node of instance {', '.join(vms[:5])}",
                hint="move or remove them first; -f gives up a node that is really down",
            )
        copies = sorted(snapshot.instances[uuid].name for uuid in snapshot.copies_on.get(node.uuid) or ())
        if copies and node.vm_capable and not new.vm_capable:
            raise errors.WrongStateError(
                f"node {node.name} cannot be not vm_capable: it is the secondary node of instance "
                f"{', '.join(copies[:5])}",
                hint="gnt-instance replace-disks -n OTHER_NODE gives each another one",
            )

    def _check_pool(self, after: states.Snapshot, new: cluster.Node, *, demoted: bool) -> None:
        """Refuse to give a candidate up whom nobody replaces; a node that fails has to be given up all the same."""
        if not demoted or new.offline or new.drained or self.op.force:
            return
        others = len(candidate_pool.eligible(after, without=[new.uuid]))
        if candidate_pool.missing(after) > others and self.op.master_candidate is False:
            raise errors.WrongStateError(
                f"the pool of master candidates would be too small without node {new.name}, "
                "and no other node can take its place",
                hint="-f does it all the same; or make the pool smaller",
            )


def _differs(name: str, node: cluster.Node, new: cluster.Node) -> bool:
    return node.ndparams.get(name) != new.ndparams.get(name)


def _losses(node: cluster.Node, new: cluster.Node) -> tuple[tuple[str, bool], ...]:
    return ("offline", new.offline and not node.offline), ("not vm_capable", node.vm_capable and not new.vm_capable)
