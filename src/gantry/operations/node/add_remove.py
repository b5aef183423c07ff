"""Units that add a machine to the cluster and remove a node (contracts/cluster-design.md#node-flags)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gantry import errors
from gantry.address import ranges
from gantry.model import cluster, lock, network, opcodes
from gantry.operations import base, hook_environment, parameter_levels, stray_guests
from gantry.operations.network import address_users
from gantry.operations.node import accelerators, candidate_pool, enroll, invitations, known
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states
from gantry.state.objects import ssconf


@dataclass(frozen=True)
class Facts:
    """The UUID of the node, and the machine's certificate request; None in a dry run."""

    uuid: str
    request: enroll.Request | None = None


@dataclass
class _Newcomer:
    """What the steps of an addition learn about the node, for the last transaction."""

    status: calls.NodeStatus | None = None
    certificate: cluster.Certificate = cluster.NO_CERTIFICATE
    trusted: bool = False


class NodeAdd(base.Unit[opcodes.NodeAdd, Facts]):
    """Adds a machine: signs a certificate for its join token, and sends a candidate the authority's key.

    The state has the key of the machine before the machine is called as a node, so that nobody else answers for it, and
    so that a master which takes over in between can still call it.

    An invitation for its name is used up when the node has joined, so a machine that failed to join may try again.
    A node that is added again (``known``) keeps its record; only its certificate, and what it has to learn, are new. It
    needs no join token if its machine has joined, but the master ended before the last record.
    """

    OPCODE = opcodes.NodeAdd
    status: calls.NodeStatus | None = None
    trusted = False

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the name exclusively, the group shared, and the networks in which the node's address is reserved.

        A node that is added again is taken, and the pool of candidates, which it leaves meanwhile.
        """
        if self.op.readd:
            node = snapshot.node(self.op.node_name).uuid
            return {(lock.Level.NODE, node): lock.Mode.EXCLUSIVE, candidate_pool.POOL: lock.Mode.EXCLUSIVE}
        return {
            (lock.Level.NODE, self.op.node_name): lock.Mode.EXCLUSIVE,
            (lock.Level.GROUP, self._group(snapshot).uuid): lock.Mode.SHARED,
            **{(lock.Level.NETWORK, net.uuid): lock.Mode.EXCLUSIVE for net in self._reserved(snapshot)},
        }

    def _reserved(self, snapshot: states.Snapshot) -> list[network.Network]:
        """Return the networks that change because the node's address is reserved in them; NotUniqueError if in use."""
        if self.op.readd:
            return []
        addresses = [ranges.parse_address(self.op.primary_ip)]
        if not self.op.conflicts_check:
            return []
        return address_users.reserve_for_node(snapshot, self.op.node_name, addresses)

    def _group(self, snapshot: states.Snapshot) -> cluster.NodeGroup:
        if self.op.group:
            return snapshot.group(self.op.group)
        return min(snapshot.nodegroups.values(), key=lambda group: (group.name != "default", group.name))

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask the machine for its certificate request; a dry run asks nothing."""
        uuid = snapshot.node(self.op.node_name).uuid if self.op.readd else self.environment.inputs.uuid()
        facts, nodes = Facts(uuid), self.environment.nodes
        target = snapshot.target(self._draft(snapshot, facts))
        if self.op.readd and not self.op.dry_run and await known.is_member(nodes, snapshot.nodes[uuid], target):
            return replace(facts, request=await enroll.member_request(nodes, target))
        if not self.op.join_token:
            raise errors.InvalidError(f"node {target.name} needs a join token", hint=enroll.TOKEN_HINT)
        if self.op.dry_run:
            return facts
        request = await enroll.certificate_request(
            nodes,
            target,
            token=self.op.join_token,
            cluster=snapshot.the_cluster.name,
            now=self.environment.inputs.now,
        )
        return replace(facts, request=request)

    def _draft(self, snapshot: states.Snapshot, facts: Facts) -> cluster.Node:
        """Check the opcode, and return the node as the state records it while the machine joins."""
        op, inputs = self.op, self.environment.inputs
        enroll.check_name(op.node_name)
        if op.invitation:
            # Another machine with the same token may have been faster; its end was checked when the job was submitted.
            invitations.opened(invitations.find(snapshot, op.invitation), now=0.0)
        if ("nodes", op.node_name) in snapshot.names and not op.readd:
            raise errors.ExistsError(
                f"node {op.node_name} is already part of the cluster",
                hint="add --readd if its machine has lost its files or was replaced",
            )
        if op.readd:
            return known.joining(known.find(snapshot, op), facts.request, now=inputs.now)
        address = str(ranges.parse_address(op.primary_ip))
        for other in snapshot.nodes.values():
            if (other.primary_ip, other.port) == (address, op.port):
                raise errors.NotUniqueError(f"node {other.name} already has address {address} port {op.port}")
        return cluster.Node(
            uuid=facts.uuid,
            name=op.node_name,
            ctime=inputs.now,
            mtime=inputs.now,
            primary_ip=address,
            port=op.port,
            group=self._group(snapshot).uuid,
            master_capable=op.master_capable,
            vm_capable=op.vm_capable,
            ndparams=parameter_levels.node({}, op.ndparams),
            joining=True,
            certificate=cluster.Certificate(keys=(facts.request.key,)) if facts.request else cluster.NO_CERTIFICATE,
        )

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the node and let it join; then record what it reports, as a candidate if the pool needs one."""
        new, networks = self._draft(snapshot, facts), self._reserved(snapshot)
        target = snapshot.target(new)
        newcomer = _Newcomer()

        async def enroll_node() -> None:
            newcomer.certificate = await self._join(target, facts.request)

        async def query_node() -> None:
            await self._query(target, newcomer)

        warning = f"{target.name} was not notified that it left"

        async def dismiss_node() -> None:
            try:
                await self.environment.nodes.call(target, calls.NodeLeave())
            except errors.ProtocolError as error:
                self.environment.log.warning(f"{warning}, because it had not joined: {error.message}")

        reason = "a machine that has not joined does not know the call"
        leave = base.Procedure(reason, dismiss_node, errors.RemoteError, warning)
        enrollment = base.Procedure("waits for the node to restart with its certificate", enroll_node)
        query = base.Procedure("the answer becomes part of the node's record", query_node)
        join = base.Step(f"send {new.name} its certificate", (enrollment,), (leave,))
        resources = base.Step(f"ask {new.name} for its resources and send it the cluster's files", (query,))
        return base.Plan(
            lines=[
                f"add node {new.name} at {new.primary_ip}{' again' if self.op.readd else ''}",
                *(f"reserve address {new.primary_ip} in network {net.name}" for net in networks),
            ],
            changes=[states.Put(new), *(states.Put(base.changed(net, new.ctime)) for net in networks)],
            steps=[join, resources],
            finish=lambda current: self._finish(current, new.uuid, newcomer),
            hooks=hook_environment.of_node_add(snapshot, new),
        )

    async def _join(self, target: targets.Target, request: enroll.Request | None) -> cluster.Certificate:
        assert request is not None, "a dry run ends before its steps"
        environment = self.environment
        return await enroll.join(
            environment.nodes,
            environment.authority,
            target,
            request=request,
            token=self.op.join_token,
            masters=ssconf.masters(environment.snapshot()),
            sleep=environment.sleep,
        )

    async def _query(self, target: targets.Target, newcomer: "_Newcomer") -> None:
        nodes = self.environment.nodes
        newcomer.status = await nodes.call(target, accelerators.question(self.environment.snapshot().the_cluster))
        # Files that were sent when the state changed may have arrived before the node had its certificate.
        await nodes.call(target, calls.WriteSsconf(values=ssconf.values(self.environment.snapshot())))
        current = self.environment.snapshot()
        newcomer.trusted = current.nodes[target.uuid].master_capable and candidate_pool.missing(current) > 0
        if newcomer.trusted:
            await candidate_pool.send_secrets(self.environment, target)

    def _finish(self, current: states.Snapshot, uuid: str, newcomer: "_Newcomer") -> list[states.Change]:
        node = accelerators.with_status(current.nodes[uuid], newcomer.status)
        candidate = newcomer.trusted and candidate_pool.missing(current) > 0
        now = self.environment.inputs.now
        flags = {"master_candidate": candidate, "joining": False, "certificate": newcomer.certificate}
        lost = node.lost_candidate and not candidate
        changes: list[states.Change] = [states.Put(base.changed(node, now, lost_candidate=lost, **flags))]
        the_cluster = current.the_cluster
        used = invitations.closed(the_cluster.invitations, node.name, why=cluster.Closed.USED, address=node.primary_ip)
        revoked = enroll.revoked(current, [node.certificate], now=now)
        if (used, revoked) != (the_cluster.invitations, the_cluster.revoked):
            changes.append(states.Put(base.changed(the_cluster, now, invitations=used, revoked=revoked)))
        return changes


class NodeRemove(base.Unit[opcodes.NodeRemove, Sequence[stray_guests.Stray]]):
    """Removes a node that runs no instances and is not the master."""

    OPCODE = opcodes.NodeRemove

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the node and the pool of candidates exclusively."""
        node = snapshot.node(self.op.node_name).uuid
        return {(lock.Level.NODE, node): lock.Mode.EXCLUSIVE, candidate_pool.POOL: lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> Sequence[stray_guests.Stray]:
        """Ask the node for guests that should not run there; their addresses would count as free after its removal."""
        return await stray_guests.reported(self.environment.nodes, snapshot, [snapshot.node(self.op.node_name)])

    def plan(self, snapshot: states.Snapshot, facts: Sequence[stray_guests.Stray]) -> base.Plan:
        """Replace it as a candidate, delete it, then notify it; if it does not answer, log a warning.

        The node is notified only after the deletion is stored: it then forgets the cluster, which cannot be undone.
        """
        node = snapshot.node(self.op.node_name)
        if node.uuid == snapshot.the_cluster.master_node:
            raise errors.WrongStateError(
                f"node {node.name} is the master", hint="run gnt-cluster master-failover on another node"
            )
        vms = sorted(snapshot.instances[uuid].name for uuid in snapshot.on_node.get(node.uuid) or ())
        if vms:
            raise errors.WrongStateError(
                f"node {node.name} is the primary node of instance {', '.join(vms[:5])}",
                hint="remove or move these instances first",
            )
        copies = sorted(snapshot.instances[uuid].name for uuid in snapshot.copies_on.get(node.uuid) or ())
        if copies:
            raise errors.WrongStateError(
                f"node {node.name} is the secondary node of instance {', '.join(copies[:5])}",
                hint="gnt-instance replace-disks -n OTHER_NODE changes the secondary node of an instance",
            )
        stray_guests.check_none(facts)
        target = snapshot.target(node)
        deletion = states.Delete("nodes", node.uuid)
        # What the state would refuse at the end is refused before anything is done.
        snapshot.apply([deletion], serial=snapshot.serial)
        promotion = candidate_pool.Promotion(self.environment, without=[node.uuid])
        warning = f"{target.name} was removed, but was not notified that it left"
        leave = base.Command(target, calls.NodeLeave(), errors.GantryError, warning)
        return base.Plan(
            lines=[f"remove node {node.name}", *_still_reserved(snapshot, node)],
            steps=[*candidate_pool.weakened(snapshot, snapshot, without=node.uuid), promotion.step]
            if node.master_candidate
            else candidate_pool.weakened(snapshot, snapshot, without=node.uuid),
            finish=lambda current: [
                deletion,
                *enroll.revocation(current, [node.certificate], now=self.environment.inputs.now),
                *promotion.changes(current),
            ],
            after=[base.Step(f"let {node.name} leave the cluster", (leave,))],
            hooks=hook_environment.of_node_remove(snapshot, node),
        )


def _still_reserved(snapshot: states.Snapshot, node: cluster.Node) -> Iterator[str]:
    """Name the reservations of a removed node's addresses, which stay because the machine may keep its addresses."""
    for each in address_users.in_networks(snapshot, address_users.addresses_of(node)):
        if each.is_reserved:
            yield (
                f"address {each.address} stays reserved in network {each.net.name}; release it with "
                f"gnt-network modify --remove-reserved-ips {each.address} {each.net.name}"
            )
