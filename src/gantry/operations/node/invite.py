"""Units about the invitations of machines that join by ``gantry-node join``.

An invitation has the options of an addition, so the machine needs to show only a secret. The state keeps the secret's
hash (``model.cluster.Invitation``), as a part of the cluster, so a new master knows it too.
"""

from gantry import errors
from gantry.address import ranges
from gantry.model import cluster, lock, opcodes
from gantry.operations import base, parameter_levels
from gantry.operations.network import address_users
from gantry.operations.node import enroll, invitations, known
from gantry.state.objects import snapshot as states

LIST = {(lock.Level.CONFIG, "cluster"): lock.Mode.EXCLUSIVE}
"""The lock of the list of invitations, which is a part of the cluster's entry."""


class NodeInvite(base.Unit[opcodes.NodeInvite, bool]):
    """Makes an invitation; it takes the place of an earlier one for the same name.

    A machine that is to be added again, and has joined although its addition was not completed, needs none.
    """

    OPCODE = opcodes.NodeInvite

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the list of invitations, and the node or its name, so that no addition of it is under way."""
        node = snapshot.node(self.op.node_name).uuid if self.op.readd else self.op.node_name
        return {**LIST, (lock.Level.NODE, node): lock.Mode.EXCLUSIVE}

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Return whether the machine has joined; only one whose addition was interrupted is asked."""
        if not self.op.readd or self.op.dry_run:
            return False
        node = known.find(snapshot, self.op)
        begun = node.joining and bool(node.certificate.keys)
        return begun and await known.is_member(self.environment.nodes, node, snapshot.target(node))

    def plan(self, snapshot: states.Snapshot, facts: bool) -> base.Plan:
        """Put the invitation into the cluster; what an addition would refuse is refused now."""
        if facts:
            line = f"node {self.op.node_name} has joined; an addition without a join token completes its record"
            return base.Plan(lines=[line], result=lambda: {"joined": True})
        op, now, owner = self.op, self.environment.inputs.now, snapshot.the_cluster
        invitation = self._for_known(snapshot) if op.readd else self._for_new(snapshot)
        other_invitations = [
            each for each in invitations.kept(owner.invitations, now) if each.node != invitation.node or each.closed
        ]
        if any(each.secret_hash == op.secret_hash for each in other_invitations):
            raise errors.NotUniqueError("another invitation has the same secret", hint="repeat the command")
        if len(other_invitations) >= invitations.LIMIT:
            raise errors.NoRoomError(
                f"the cluster already keeps {len(other_invitations)} invitations of the last day, the maximum",
                hint="add the node with --join-token-file",
            )
        master = snapshot.nodes[owner.master_node]
        answer = {"address": master.primary_ip, "port": master.port, "end": invitation.end}
        return base.Plan(
            lines=[f"invite {invitation.node} for {invitations.VALID_SECONDS / 3600:g} hour"],
            changes=[states.Put(base.changed(owner, now, invitations=(*other_invitations, invitation)))],
            result=lambda: answer,
        )

    def _for_new(self, snapshot: states.Snapshot) -> cluster.Invitation:
        """Return the invitation of a machine that is to become a node."""
        op = self.op
        enroll.check_name(op.node_name)
        if ("nodes", op.node_name) in snapshot.names:
            raise errors.ExistsError(
                f"node {op.node_name} is already part of the cluster",
                hint="choose another name, or add --readd if its machine has lost its files or was replaced",
            )
        address = str(ranges.parse_address(op.primary_ip)) if op.primary_ip else ""
        for other in snapshot.nodes.values():
            if (other.primary_ip, other.port) == (address, op.port):
                raise errors.NotUniqueError(f"node {other.name} already has address {address} port {op.port}")
        address_users.check_free(snapshot, op.node_name, [ranges.parse_address(address)] if address else [])
        return cluster.Invitation(
            node=op.node_name,
            secret_hash=op.secret_hash,
            end=self.environment.inputs.now + invitations.VALID_SECONDS,
            primary_ip=address,
            port=op.port,
            group=snapshot.group(op.group).name if op.group else "",
            master_capable=op.master_capable,
            vm_capable=op.vm_capable,
            ndparams=parameter_levels.node({}, op.ndparams),
        )

    def _for_known(self, snapshot: states.Snapshot) -> cluster.Invitation:
        """Return the invitation of a node's machine that has lost its files."""
        node = known.find(snapshot, self.op)
        return cluster.Invitation(
            node=node.name,
            secret_hash=self.op.secret_hash,
            end=self.environment.inputs.now + invitations.VALID_SECONDS,
            primary_ip=node.primary_ip,
            port=node.port,
            readd=True,
        )


class NodeQueryInvitations(base.Planned[opcodes.NodeQueryInvitations]):
    """Lists the invitations that are kept, by name, the newest last."""

    OPCODE = opcodes.NodeQueryInvitations
    BRIEF = True
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing."""
        return {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Describe each invitation without its secret's hash."""
        del facts
        now = self.environment.inputs.now
        rows = [
            {
                "node": each.node,
                "state": invitations.state_of(each, now),
                "end": each.end,
                "group": each.group,
                "address": each.address or each.primary_ip,
            }
            for each in sorted(snapshot.the_cluster.invitations, key=lambda each: (each.node, each.end))
        ]
        return base.Plan(lines=[f"{row['node']}: {row['state']}" for row in rows], result=lambda: rows)


class NodeRevokeInvitation(base.Planned[opcodes.NodeRevokeInvitation]):
    """Revokes the open invitation for a name."""

    OPCODE = opcodes.NodeRevokeInvitation
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the list of invitations and the name exclusively: an addition that runs is not revoked."""
        return {**LIST, (lock.Level.NODE, self.op.node_name): lock.Mode.EXCLUSIVE}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Close the invitation."""
        del facts
        name, now, owner = self.op.node_name, self.environment.inputs.now, snapshot.the_cluster
        if not any(each.node == name and invitations.state_of(each, now) == "open" for each in owner.invitations):
            raise errors.NotFoundError(
                f"there is no open invitation for {name}", hint="gnt-node list-invitations shows all"
            )
        remaining = invitations.closed(invitations.kept(owner.invitations, now), name, why=cluster.Closed.REVOKED)
        return base.Plan(
            lines=[f"revoke the invitation of {name}"],
            changes=[states.Put(base.changed(owner, now, invitations=remaining))],
        )
