"""Invitations of machines: what is kept of them, and which are refused."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors, security
from gantry.model import cluster, opcodes
from gantry.operations.node import invitations

HASH = security.invitation.hash_of("5" * 48)
INVITE = opcodes.NodeInvite(node_name="node4", secret_hash=HASH)
ADD = opcodes.NodeAdd(
    node_name="node4",
    primary_ip="203.0.113.4",
    join_token=build.TOKEN,
    invitation=security.invitation.id_of(HASH),
)


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.nodes.machines["203.0.113.4"] = build.Machine(joined=False)
    return lab


def words(lab: build.MemoryCluster) -> list[tuple[str, str]]:
    return [(each.node, invitations.state_of(each, build.NOW)) for each in lab.state.the_cluster.invitations]


async def test_an_invitation_has_the_options_of_an_addition_and_ends_after_an_hour(lab: build.MemoryCluster) -> None:
    op = msgspec.structs.replace(INVITE, primary_ip="203.0.113.4", port=1900, group="default", vm_capable=False)
    await lab.run(op)
    assert lab.state.the_cluster.invitations == (
        cluster.Invitation(
            node="node4",
            secret_hash=HASH,
            end=build.NOW + 3600,
            primary_ip="203.0.113.4",
            port=1900,
            group="default",
            vm_capable=False,
        ),
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node_name": "node1"}, "node node1 is already part of the cluster"),
        ({"node_name": "localhost"}, "localhost is what every machine is called"),
        ({"primary_ip": "node4"}, "'node4' is not an IP address"),
        ({"primary_ip": "203.0.113.1"}, "node node1 already has address 203.0.113.1 port 1811"),
        ({"group": "missing"}, "no such node group: missing"),
        ({"ndparams": {"colour": "red"}}, "colour"),
    ],
)
async def test_what_an_addition_would_refuse_is_not_invited(
    lab: build.MemoryCluster, fields: dict[str, object], message: str
) -> None:
    assert message in str(await lab.refused(msgspec.structs.replace(INVITE, **fields)))


async def test_a_node_that_joined_has_used_its_invitation_up(lab: build.MemoryCluster) -> None:
    await lab.run(INVITE)
    await lab.run(ADD)
    assert words(lab) == [("node4", "used")]
    assert "the token was used: it admitted node4 at 203.0.113.4" in str(await lab.refused(ADD))


async def test_a_node_that_failed_to_join_has_not(lab: build.MemoryCluster) -> None:
    await lab.run(INVITE)
    lab.nodes.machines["203.0.113.4"].clock = build.NOW + 3 * 86400
    with pytest.raises(errors.EnvironmentFaultError):
        await lab.run(ADD)
    assert words(lab) == [("node4", "open")]


async def test_an_addition_with_an_invitation_that_was_revoked_meanwhile_is_refused(lab: build.MemoryCluster) -> None:
    await lab.run(INVITE)
    await lab.run(opcodes.NodeRevokeInvitation(node_name="node4"))
    assert "the token for node4 was revoked" in str(await lab.refused(ADD))


async def test_the_number_of_invitations_is_limited(lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "LIMIT", 1)
    await lab.run(INVITE)
    other = msgspec.structs.replace(INVITE, node_name="node5", secret_hash="0" * 64)
    assert "already keeps 1 invitations" in str(await lab.refused(other))
    await lab.run(msgspec.structs.replace(INVITE, secret_hash="0" * 64))
