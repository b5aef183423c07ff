"""The two methods of LUXI for a machine that joins: proofs, refusals, and what it hears of its job."""

import secrets
from collections.abc import Mapping

import msgspec
import pytest

from gantry import security
from gantry.doors.luxi import invitations
from gantry.model import cluster as model
from gantry.operations import base
from gantry.sim import cluster
from gantry.state.journal import record
from gantry.state.objects import snapshot as states

ADDRESS = "203.0.113.99"
"""The address of a machine that does not answer."""


def invite(lab: cluster.SimulatedCluster, name: str) -> str:
    secret = secrets.token_hex(security.invitation.SECRET_BYTES)
    op = {"OP_ID": "OP_NODE_INVITE", "node_name": name, "secret_hash": security.invitation.hash_of(secret)}
    lab.run(lab.done(op))
    return secret


def join_token() -> str:
    key = security.make_authority("stranger", 1_800_000_000.0).certificates.decode()
    return security.JoinToken("secret", key).encode()


def put_invitations(lab: cluster.SimulatedCluster, *kept: model.Invitation) -> None:
    async def put() -> None:
        store = lab.daemons[lab.leader].store
        changed = base.changed(store.snapshot.the_cluster, lab.master.clock.now(), invitations=kept)
        await store.submit([states.Put(changed)], record.Cause())

    lab.run(put())


def use(lab: cluster.SimulatedCluster, *arguments: object) -> Mapping[str, object]:
    return msgspec.convert(lab.run(lab.luxi("UseInvitation", *arguments)), dict[str, object])


def refusal(answer: Mapping[str, object]) -> str:
    return msgspec.convert(answer["refusal"], tuple[str, list[str]])[1][0]


def test_a_proof_is_for_the_key_that_the_cluster_recorded_for_the_master(lab: cluster.SimulatedCluster) -> None:
    secret_hash = security.invitation.hash_of(invite(lab, "node7"))
    state = lab.daemons[lab.leader].store.snapshot
    (key,) = state.nodes[state.the_cluster.master_node].certificate.keys
    for presented, is_own in ((key, True), ("0" * 64, False)):
        arguments = security.invitation.id_of(secret_hash), "nonce", presented
        answer = msgspec.convert(lab.run(lab.luxi("ProveInvitation", *arguments)), dict[str, object])
        if is_own:
            assert answer == {"proof": security.invitation.proof(secret_hash, "nonce", key)}
        else:
            assert "presents another key than the cluster recorded for it; run gnt-cluster renew-crypto" in refusal(
                answer
            )
            assert "proof" not in answer


@pytest.mark.parametrize("token", ["", "x", "{}", '{"secret": "x", "certificate": "y"}'])
def test_a_join_token_that_is_not_valid_is_refused(lab: cluster.SimulatedCluster, token: str) -> None:
    secret = invite(lab, "node7")
    before = lab.daemons[lab.leader].store.snapshot.last_job
    assert "the machine sent an invalid join token: " in refusal(use(lab, secret, token, "node7", ADDRESS))
    assert lab.daemons[lab.leader].store.snapshot.last_job == before


def test_a_node_that_is_already_part_of_the_cluster_is_not_added_again(lab: cluster.SimulatedCluster) -> None:
    """As after a master that ended while the machine joined: the node is recorded, and the invitation is open."""
    store, secret = lab.daemons[lab.leader].store, secrets.token_hex(security.invitation.SECRET_BYTES)
    end = lab.master.clock.now() + 60
    for readd in (False, True):
        secret_hash = security.invitation.hash_of(secret)
        put_invitations(lab, model.Invitation(node="node1", secret_hash=secret_hash, end=end, readd=readd))
        answer = use(lab, secret, join_token(), "node1", ADDRESS)
        if readd:
            assert answer["job"] == store.snapshot.last_job
            lab.run(lab.wait(store.snapshot.last_job))
        else:
            expected = "node node1 is already part of the cluster; gnt-node remove it first, or invite another name"
            assert refusal(answer) == expected
    put_invitations(lab)


def test_a_machine_hears_of_its_own_job_alone(lab: cluster.SimulatedCluster) -> None:
    secret, another, token = invite(lab, "node7"), invite(lab, "node8"), join_token()
    number = use(lab, secret, token, "node7", ADDRESS)["job"]
    other_job = lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0}))
    for arguments in (
        (secret, token, "node7", ADDRESS, 987654),
        (secret, token, "node7", ADDRESS, other_job),
        (secret, join_token(), "node7", ADDRESS, number),
        (another, token, "node8", ADDRESS, number),
    ):
        assert refusal(use(lab, *arguments)) == f"this token has started no job {arguments[4]}, or it is archived"
    assert isinstance(number, int)
    ((source, reason, nanoseconds),) = lab.daemons[lab.leader].queue.jobs()[number].ops[0].input.reason
    assert (source, reason) == ("gnt:client:gantry-node", "join")
    assert nanoseconds / 1e9 == pytest.approx(lab.world.clock.now(), abs=5)
    assert lab.run(lab.wait(number))[0] == "error"
    ended = use(lab, secret, token, "node7", ADDRESS, number)
    assert (ended["job"], ended["status"]) == (number, "error")
    (results,) = msgspec.convert(lab.run(lab.luxi("QueryJobs", [number], ["opresult"])), list[list[list[object]]])
    assert ended["refusal"] == results[0][0]


def test_a_machine_waits_for_its_job_as_long_as_it_asks_up_to_a_limit_and_hears_that_it_was_canceled(
    lab: cluster.SimulatedCluster,
) -> None:
    secret, token = invite(lab, "node7"), join_token()
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 1}))
    blocking = lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 200, "on_master": True, "on_nodes": []}))
    number = use(lab, secret, token, "node7", ADDRESS)["job"]
    assert isinstance(number, int)
    for seconds, waited in ((0, 0), (7, 7), (100, invitations.WAIT_LIMIT)):
        begin = lab.master.clock.monotonic()
        answer = use(lab, secret, token, "node7", ADDRESS, number, 0, seconds)
        assert lab.master.clock.monotonic() - begin == pytest.approx(waited, abs=0.2)
        assert (answer["job"], answer["status"]) == (number, "queued")
        assert "refusal" not in answer
    assert lab.run(lab.luxi("CancelJob", number)) == [True, f"Dequeued job {number}"]
    answer = use(lab, secret, token, "node7", ADDRESS, number, 0, 5)
    assert answer["status"] == "canceled"
    assert answer["refusal"] == ["JobCanceled", [f"job {number} was canceled"]]
    lab.run(lab.luxi("CancelJob", blocking, True))
    lab.run(lab.wait(blocking))
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": "default"}))
