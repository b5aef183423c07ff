"""Nodes that are added again: their machines have lost their files, or were replaced, and the state keeps the nodes.

What is recorded stays: UUID, address, node group, parameters, instances. The former certificate ends, and the node is
a candidate again only when it has a copy of everything, because the machine remembers nothing that it acknowledged.

An addition whose master ended after the machine had joined is completed: the record of the node is still ``joining``.
"""

from msgspec import structs

from gantry import errors
from gantry.model import cluster, opcodes
from gantry.operations import base
from gantry.operations.node import enroll
from gantry.rpc import targets
from gantry.state.objects import snapshot as states

_RECORDED = ("group", "master_capable", "vm_capable", "ndparams", "port")
"""What the state has of such a node, so that an opcode cannot set it too."""


def find(snapshot: states.Snapshot, op: opcodes.NodeAdd | opcodes.NodeInvite) -> cluster.Node:
    """Return the node to add again; raises NotFoundError, WrongStateError, InvalidError."""
    node = snapshot.node(op.node_name)
    if node.uuid == snapshot.the_cluster.master_node:
        raise errors.WrongStateError(
            f"node {node.name} is the master, which has all its files",
            hint="gnt-cluster master-failover on another node first, if its machine was replaced",
        )
    usual = type(op)(**{name: getattr(op, name) for name in type(op).__struct_fields__ if name not in _RECORDED})
    if requested := [
        name for name in _RECORDED if getattr(op, name) not in (getattr(usual, name), getattr(node, name))
    ]:
        raise errors.InvalidError(
            f"{', '.join(requested)} cannot be set with readd: node {node.name} keeps what is recorded",
            hint="change it afterwards with gnt-node modify or gnt-group assign-nodes",
        )
    if op.primary_ip not in ("", node.primary_ip):
        raise errors.InvalidError(
            f"node {node.name} has the address {node.primary_ip}, not {op.primary_ip}",
            hint="give the machine that address, or remove the node and add it as a new one",
        )
    return node


async def is_member(nodes: base.Nodes, node: cluster.Node, target: targets.Target) -> bool:
    """Return whether only the last record of the node's addition is missing; WrongStateError if nothing is."""
    if not await enroll.has_joined(nodes, target):
        return False
    if node.joining:
        return True
    raise errors.WrongStateError(
        f"node {node.name} answers as a member of the cluster, so it need not be added again",
        hint=f"gnt-node modify --offline no {node.name} brings an offline node back",
    )


def joining(node: cluster.Node, request: enroll.Request | None, *, now: float) -> cluster.Node:
    """Return the record of such a node while its machine joins with the key of this request.

    The serial number is that of the former certificate, which ends when the machine has joined.
    """
    former = node.certificate
    certificate = structs.replace(former, keys=(request.key,)) if request else cluster.NO_CERTIFICATE
    return base.changed(
        node,
        now,
        joining=True,
        offline=False,
        drained=False,
        master_candidate=False,
        lost_candidate=node.master_candidate or node.lost_candidate,
        certificate=certificate,
    )
