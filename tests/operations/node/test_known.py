"""Nodes that are added again: what they keep, what ends, and what is refused."""

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors, security
from gantry.model import cluster, lock, opcodes
from gantry.operations.node import enroll, invitations, known
from gantry.rpc import calls, targets

READD = opcodes.NodeAdd(node_name="node2", join_token=build.TOKEN, readd=True)
INVITE = opcodes.NodeInvite(node_name="node2", secret_hash="0" * 64, readd=True)
FORMER = cluster.Certificate(keys=("former",), serial="77", end=build.NOW + 1000)
NODE = structs.replace(
    build.NODES[1], master_candidate=True, drained=True, certificate=FORMER, ndparams={"cpu_speed": 1.5}, port=1812
)


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(NODE)
    lab.nodes.machines[NODE.primary_ip] = build.Machine(joined=False)
    return lab


async def test_a_node_keeps_its_record_and_gets_another_certificate(lab: build.MemoryCluster) -> None:
    await lab.run(READD)
    node = lab.state.node("node2")
    assert node.certificate.keys not in ((), FORMER.keys)
    assert lab.state.the_cluster.revoked == (cluster.Revoked(serial="77", end=FORMER.end),)
    changed = {"certificate", "accelerator", "accelerator_reason", "serial_no", "mtime", "drained"}
    assert {name for name in NODE.__struct_fields__ if getattr(node, name) != getattr(NODE, name)} == changed
    assert (node.master_candidate, node.drained) == (True, False)
    assert lab.machine("node2").files["authority.key"] == "authority's key"


async def test_an_offline_node_that_was_a_candidate_is_one_again(lab: build.MemoryCluster) -> None:
    lab.put(structs.replace(NODE, offline=True, drained=False, master_candidate=False, lost_candidate=True))
    await lab.run(READD)
    node = lab.state.node("node2")
    assert (node.offline, node.master_candidate, node.lost_candidate) == (False, True, False)


async def test_where_the_pool_is_full_it_remains_a_lost_candidate(lab: build.MemoryCluster) -> None:
    lab.put(structs.replace(build.OWNER, candidate_pool_size=1))
    await lab.run(READD)
    node = lab.state.node("node2")
    assert (node.master_candidate, node.lost_candidate) == (False, True)


async def test_the_machine_is_no_candidate_before_it_has_everything(lab: build.MemoryCluster) -> None:
    seen: list[tuple[bool, bool, bool]] = []

    class Watched(build.FakeNodes):
        async def call(self, target: targets.Target, call: calls.Call[build.Result]) -> build.Result:
            node = lab.state.node("node2")
            if not isinstance(call, calls.Version):
                seen.append((node.joining, node.master_candidate, node.lost_candidate))
            return await super().call(target, call)

    watched = Watched()
    watched.machines = lab.nodes.machines
    lab.nodes = lab.environment.nodes = watched
    await lab.run(READD)
    assert set(seen) == {(True, False, True)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node_name": "node9"}, "no such node: node9"),
        ({"node_name": "node1"}, "node node1 is the master"),
        ({"primary_ip": "203.0.113.9"}, "node node2 has the address 203.0.113.2, not 203.0.113.9"),
        ({"group": "default"}, "group cannot be set with readd: node node2 keeps what is recorded"),
        ({"vm_capable": False, "port": 99}, "vm_capable, port cannot be set with readd"),
    ],
)
async def test_a_node_that_cannot_be_added_again_is_refused(
    lab: build.MemoryCluster, fields: dict[str, object], message: str
) -> None:
    assert message in str(await lab.refused(structs.replace(READD, **fields)))
    assert message in str(await lab.refused(structs.replace(INVITE, **fields)))


async def test_a_node_that_answers_is_not_added_again(lab: build.MemoryCluster) -> None:
    lab.machine("node2").joined = True
    lab.machine("node2").uuid = NODE.uuid
    assert "node node2 answers as a member of the cluster" in str(await lab.refused(READD))


def interrupted(lab: build.MemoryCluster) -> None:
    """Leave what a master leaves that ends after the machine has joined, before the last record."""
    request = enroll.Request(build.REQUEST, security.key_of_request(build.REQUEST.encode()))
    lab.put(known.joining(NODE, request, now=build.NOW))
    machine = lab.machine("node2")
    machine.joined, machine.uuid = True, NODE.uuid


async def test_an_addition_that_was_interrupted_is_completed_without_a_token(lab: build.MemoryCluster) -> None:
    interrupted(lab)
    await lab.run(structs.replace(READD, join_token=""))
    node = lab.state.node("node2")
    assert (node.joining, node.master_candidate, node.offline) == (False, True, False)
    assert node.certificate.serial not in ("", FORMER.serial)
    assert lab.state.the_cluster.revoked == (cluster.Revoked(serial="77", end=FORMER.end),)
    assert lab.machine("node2").files["authority.key"] == "authority's key"


async def test_no_machine_is_invited_that_has_joined(lab: build.MemoryCluster) -> None:
    interrupted(lab)
    assert await lab.run(INVITE) == {"joined": True}
    assert not lab.state.the_cluster.invitations
    lab.machine("node2").joined = False
    await lab.run(INVITE)
    assert lab.state.the_cluster.invitations


async def test_a_machine_that_has_not_joined_needs_a_token(lab: build.MemoryCluster) -> None:
    for node in (NODE, structs.replace(NODE, joining=True)):
        lab.put(node)
        for dry_run in (True, False):
            op = structs.replace(READD, join_token="", dry_run=dry_run)
            assert "node node2 needs a join token" in str(await lab.refused(op))


async def test_without_the_option_the_node_is_there_already(lab: build.MemoryCluster) -> None:
    error = await lab.refused(structs.replace(READD, readd=False, primary_ip=NODE.primary_ip))
    assert "node node2 is already part of the cluster; add --readd" in str(error)
    error = await lab.refused(structs.replace(INVITE, readd=False))
    assert "add --readd if its machine has lost its files" in str(error)
    assert isinstance(error, errors.ExistsError)


async def test_the_locks_are_those_of_the_node_and_of_the_pool(lab: build.MemoryCluster) -> None:
    node = (lock.Level.NODE, NODE.uuid)
    assert lab.unit(READD).locks(lab.state)[node] is lock.Mode.EXCLUSIVE
    assert lab.unit(INVITE).locks(lab.state)[node] is lock.Mode.EXCLUSIVE
    assert (lock.Level.CONFIG, "candidates") in lab.unit(READD).locks(lab.state)


async def test_an_invitation_admits_the_machine_once(lab: build.MemoryCluster) -> None:
    await lab.run(INVITE)
    (invitation,) = lab.state.the_cluster.invitations
    assert (invitation.primary_ip, invitation.port, invitation.readd) == (NODE.primary_ip, 1812, True)
    await lab.run(structs.replace(READD, invitation=invitations.id_of(invitation)))
    assert [each.closed for each in lab.state.the_cluster.invitations] == [cluster.Closed.USED]
    assert lab.state.the_cluster.revoked
