"""Nodes: take a machine into the cluster, send one out (seed "Node flags" for candidates)."""

from gantry import errors
from gantry.address import ranges
from gantry.model import cluster, opcodes
from gantry.operations import base, joining
from gantry.rpc import calls, targets
from gantry.state import snapshot as states


def candidate_is_needed(snapshot: states.Snapshot) -> bool:
    """Tell whether the pool of master candidates has room (seed "master candidate flag"); the master counts."""
    owner = snapshot.the_cluster
    others = sum(node.master_candidate and node.uuid != owner.master_node for node in snapshot.nodes.values())
    return 1 + others < owner.candidate_pool_size


class NodeAdd(base.Unit[opcodes.NodeAdd, None]):
    """Takes a machine in: a certificate against its join token, a group, the authority's key for a candidate."""

    OPCODE = opcodes.NodeAdd
    status: calls.NodeStatus | None = None

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the name and share the group."""
        return {
            (base.Level.NODE, self.op.node_name): base.Mode.EXCLUSIVE,
            (base.Level.GROUP, self._group(snapshot).uuid): base.Mode.SHARED,
        }

    def _group(self, snapshot: states.Snapshot) -> cluster.NodeGroup:
        if self.op.group:
            return snapshot.group(self.op.group)
        return min(snapshot.nodegroups.values(), key=lambda group: (group.name != "default", group.name))

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing: the machine is no node yet."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the node, let it join; then record what it told of itself, as a candidate where one is needed."""
        del facts
        op, inputs = self.op, self.environment.inputs
        if ("nodes", op.node_name) in snapshot.names:
            raise errors.ExistsError(f"node {op.node_name} is part of the cluster already")
        if not op.join_token:
            raise errors.InvalidError(
                f"no join token of node {op.node_name} is given",
                hint=joining.TOKEN_HINT,
            )
        address = str(ranges.parse_address(op.primary_ip))
        for other in snapshot.nodes.values():
            if (other.primary_ip, other.port) == (address, op.port):
                raise errors.NotUniqueError(f"address {address} port {op.port} is that of node {other.name}")
        new = cluster.Node(
            uuid=inputs.uuid(),
            name=op.node_name,
            ctime=inputs.now,
            mtime=inputs.now,
            primary_ip=address,
            port=op.port,
            group=self._group(snapshot).uuid,
            master_capable=op.master_capable,
            vm_capable=op.vm_capable,
        )
        target = snapshot.target(new)
        join = base.Step(f"give {new.name} its certificate", lambda: self._join(target), lambda: self._leave(target))
        look = base.Step(f"ask {new.name} for its resources", lambda: self._look(target))
        return base.Plan(
            lines=[f"add node {new.name} at {address}"],
            changes=[states.Put(new)],
            steps=[join, look],
            finish=lambda newest: self._finish(newest, new.uuid),
        )

    async def _join(self, target: targets.Target) -> None:
        environment = self.environment
        await joining.join(
            environment.nodes,
            environment.authority,
            target,
            token=self.op.join_token,
            cluster=environment.snapshot().the_cluster.name,
            sleep=environment.sleep,
        )

    async def _leave(self, target: targets.Target) -> None:
        try:
            await self.environment.nodes.call(target, calls.NodeLeave())
        except errors.RemoteError as error:
            self.environment.log.warning(f"{target.name} did not hear that it left: {error}")

    async def _look(self, target: targets.Target) -> None:
        self.status = await self.environment.nodes.call(target, calls.NodeInfo(probe=True))
        if self.op.master_capable:
            authority = self.environment.authority
            for name, content in (("authority.pem", authority.certificate), ("authority.key", authority.key)):
                await self.environment.nodes.call(target, calls.UploadFile(name=name, content=content))

    def _finish(self, newest: states.Snapshot, uuid: str) -> list[states.Change]:
        node, status = newest.nodes[uuid], self.status
        candidate = self.op.master_capable and candidate_is_needed(newest)
        return [
            states.Put(
                base.changed(
                    node,
                    self.environment.inputs.now,
                    master_candidate=candidate,
                    accelerator=status.accelerator if status else "",
                    accelerator_reason=status.accelerator_reason if status else "",
                )
            )
        ]


class NodeRemove(base.Unit[opcodes.NodeRemove, None]):
    """Sends a node out that runs no instances and is not the master."""

    OPCODE = opcodes.NodeRemove

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the node."""
        return {(base.Level.NODE, snapshot.node(self.op.node_name).uuid): base.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> None:
        """Ask nothing."""

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the node, then tell it; one that does not hear it is reported."""
        del facts
        node = snapshot.node(self.op.node_name)
        if node.uuid == snapshot.the_cluster.master_node:
            raise errors.WrongStateError(f"node {node.name} is the master", hint="fail the master role over first")
        vms = sorted(snapshot.instances[uuid].name for uuid in snapshot.on_node.get(node.uuid) or ())
        if vms:
            raise errors.WrongStateError(
                f"node {node.name} is the primary node of instance {', '.join(vms[:5])}",
                hint="remove or move them first",
            )
        target = snapshot.target(node)
        return base.Plan(
            lines=[f"remove node {node.name}"],
            changes=[states.Delete("nodes", node.uuid)],
            steps=[base.Step(f"tell {node.name} that it left", lambda: self._tell(target))],
        )

    async def _tell(self, target: targets.Target) -> None:
        try:
            await self.environment.nodes.call(target, calls.NodeLeave())
        except errors.RemoteError as error:
            self.environment.log.warning(f"{target.name} was removed, but did not hear it: {error}")
