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
def house() -> build.House:
    lab = build.House()
    lab.put(NODE)
    lab.nodes.machines[NODE.primary_ip] = build.Machine(joined=False)
    return lab


async def test_a_node_keeps_its_record_and_gets_another_certificate(house: build.House) -> None:
    await house.run(READD)
    node = house.state.node("node2")
    assert node.certificate.keys not in ((), FORMER.keys)
    assert house.state.the_cluster.revoked == (cluster.Revoked(serial="77", end=FORMER.end),)
    changed = {"certificate", "accelerator", "accelerator_reason", "serial_no", "mtime", "drained"}
    assert {name for name in NODE.__struct_fields__ if getattr(node, name) != getattr(NODE, name)} == changed
    assert (node.master_candidate, node.drained) == (True, False)
    assert house.machine("node2").files["authority.key"] == "authority's key"


async def test_an_offline_node_that_was_a_candidate_is_one_again(house: build.House) -> None:
    house.put(structs.replace(NODE, offline=True, drained=False, master_candidate=False, lost_candidate=True))
    await house.run(READD)
    node = house.state.node("node2")
    assert (node.offline, node.master_candidate, node.lost_candidate) == (False, True, False)


async def test_where_the_pool_is_full_it_remains_a_lost_candidate(house: build.House) -> None:
    house.put(structs.replace(build.OWNER, candidate_pool_size=1))
    await house.run(READD)
    node = house.state.node("node2")
    assert (node.master_candidate, node.lost_candidate) == (False, True)


async def test_the_machine_is_no_candidate_before_it_has_everything(house: build.House) -> None:
    seen: list[tuple[bool, bool, bool]] = []

    class Watched(build.FakeNodes):
        async def call(self, target: targets.Target, call: calls.Call[build.Result]) -> build.Result:
            node = house.state.node("node2")
            if not isinstance(call, calls.Version):
                seen.append((node.joining, node.master_candidate, node.lost_candidate))
            return await super().call(target, call)

    watched = Watched()
    watched.machines = house.nodes.machines
    house.nodes = house.environment.nodes = watched
    await house.run(READD)
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
    house: build.House, fields: dict[str, object], message: str
) -> None:
    assert message in str(await house.refused(structs.replace(READD, **fields)))
    assert message in str(await house.refused(structs.replace(INVITE, **fields)))


async def test_a_node_that_answers_is_not_added_again(house: build.House) -> None:
    house.machine("node2").joined = True
    house.machine("node2").uuid = NODE.uuid
    assert "node node2 answers as a member of the cluster" in str(await house.refused(READD))


def interrupted(house: build.House) -> None:
    """Leave what a master leaves that ends after the machine has joined, before the last record."""
    request = enroll.Request(build.REQUEST, security.key_of_request(build.REQUEST.encode()))
    house.put(known.joining(NODE, request, now=build.NOW))
    machine = house.machine("node2")
    machine.joined, machine.uuid = True, NODE.uuid


async def test_an_addition_that_was_interrupted_is_completed_without_a_token(house: build.House) -> None:
    interrupted(house)
    await house.run(structs.replace(READD, join_token=""))
    node = house.state.node("node2")
    assert (node.joining, node.master_candidate, node.offline) == (False, True, False)
    assert node.certificate.serial not in ("", FORMER.serial)
    assert house.state.the_cluster.revoked == (cluster.Revoked(serial="77", end=FORMER.end),)
    assert house.machine("node2").files["authority.key"] == "authority's key"


async def test_no_machine_is_invited_that_has_joined(house: build.House) -> None:
    interrupted(house)
    assert await house.run(INVITE) == {"joined": True}
    assert not house.state.the_cluster.invitations
    house.machine("node2").joined = False
    await house.run(INVITE)
    assert house.state.the_cluster.invitations


async def test_a_machine_that_has_not_joined_needs_a_token(house: build.House) -> None:
    for node in (NODE, structs.replace(NODE, joining=True)):
        house.put(node)
        for dry_run in (True, False):
            op = structs.replace(READD, join_token="", dry_run=dry_run)
            assert "node node2 needs a join token" in str(await house.refused(op))


async def test_without_the_option_the_node_is_there_already(house: build.House) -> None:
    error = await house.refused(structs.replace(READD, readd=False, primary_ip=NODE.primary_ip))
    assert "node node2 is already part of the cluster; add --readd" in str(error)
    error = await house.refused(structs.replace(INVITE, readd=False))
    assert "add --readd if its machine has lost its files" in str(error)
    assert isinstance(error, errors.ExistsError)


async def test_the_locks_are_those_of_the_node_and_of_the_pool(house: build.House) -> None:
    node = (lock.Level.NODE, NODE.uuid)
    assert house.unit(READD).locks(house.state)[node] is lock.Mode.EXCLUSIVE
    assert house.unit(INVITE).locks(house.state)[node] is lock.Mode.EXCLUSIVE
    assert (lock.Level.CONFIG, "candidates") in house.unit(READD).locks(house.state)


async def test_an_invitation_admits_the_machine_once(house: build.House) -> None:
    await house.run(INVITE)
    (invitation,) = house.state.the_cluster.invitations
    assert (invitation.primary_ip, invitation.port, invitation.readd) == (NODE.primary_ip, 1812, True)
    await house.run(structs.replace(READD, invitation=invitations.id_of(invitation)))
    assert [each.closed for each in house.state.the_cluster.invitations] == [cluster.Closed.USED]
    assert house.state.the_cluster.revoked
