"""Whoever has the key of a master candidate, or had it, and names epochs: whom do the nodes obey?"""

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.sim.test_certificates import CERTS, KEYS, Thief, read

from gantry import errors, security
from gantry.rpc import calls
from gantry.sim import cluster

ORDER = calls.WriteSsconf(values={"cluster_name": "stolen"})


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """A cluster of four candidates and two other nodes; the first is the master."""
    with cluster.SimulatedCluster(1, nodes=6) as simulated:
        simulated.run(simulated.build(candidate_pool_size=4))
        yield simulated


async def works(lab: cluster.SimulatedCluster, master: str) -> None:
    """Check that the master is the only one, and commands all nodes."""
    assert lab.masters() == [master]
    nodes = [name for name in lab.names if lab.has_power(name) and name != "node4"]
    await lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 1, "on_nodes": nodes}, on=master)


def uuid_of(lab: cluster.SimulatedCluster, name: str) -> str:
    return str(msgspec.json.decode(read(lab, name, f"{CERTS}/member.json"), type=dict[str, object])["uuid"])


def test_what_a_candidate_claimed_is_of_no_use_to_it_when_it_is_removed(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        thief = Thief(lab, "node4")
        own, epoch = thief.issued(), lab.daemons["node1"].store.epoch
        for claimed in (epoch + 1, epoch + 600):
            await lab.world.clock.sleep(60)
            for node in ("node2", "node5"):
                with contextlib.suppress(errors.GantryError):
                    await thief.call(node, calls.TestDelay(duration=0), certificate=own, epoch=claimed)
            frame = calls.JournalAppend(epoch=claimed, previous="", frame="")
            lease = calls.LeaseRenew(epoch=claimed, node="node4", masters=(f"{uuid_of(lab, 'node4')}=mine",))
            with pytest.raises(errors.UnprovenError):
                await thief.call("node2", frame, certificate=own, epoch=claimed)
            with pytest.raises(errors.UnprovenError):
                await thief.call("node2", lease, certificate=own, epoch=claimed)
        await lab.done({"OP_ID": "OP_NODE_REMOVE", "node_name": "node4"})
        await lab.world.clock.sleep(62)
        for master in ("node1", "node2"):
            if master != "node1":
                await lab.failover(master)
            await works(lab, master)
            for node in ("node3", "node5"):
                for claimed in (epoch, epoch + 1, epoch + 600, epoch + 601):
                    with pytest.raises(errors.UnknownCallerError):
                        await thief.call(node, ORDER, certificate=own, epoch=claimed)
                assert read(lab, node, "/gantry/lib/ssconf/ssconf_cluster_name") == b"lab.example\n"

    lab.run(scenario())


def test_keys_that_a_candidate_writes_without_a_proof_lock_no_master_out(lab: cluster.SimulatedCluster) -> None:
    """The node compares proofs and vouchers with the keys from before. So the master is obeyed when it calls."""

    async def scenario() -> None:
        for _ in range(3):  # until the node has seen the proof of the master's epoch
            await lab.world.clock.sleep(60)
            await works(lab, "node1")
        await lab.world.clock.sleep(60)
        thief, keys = Thief(lab, "node4"), read(lab, "node5", KEYS)
        own, epoch = thief.issued(), lab.daemons["node1"].store.epoch + 1
        alone = f"{uuid_of(lab, 'node4')}={security.key_of(security.der_of(own))}"
        signers = [security.serial_of(security.der_of(read(lab, name, f"{CERTS}/node.pem"))) for name in lab.names[:3]]
        values = {"master_candidates_certs": alone, "revoked_certificates": "\n".join(signers)}
        await thief.call("node5", calls.WriteSsconf(values=values), certificate=own, epoch=epoch)
        assert read(lab, "node5", KEYS).decode() == f"{alone}\n"
        foreign = security.make_authority("another", lab.world.clock.now()).certificates.decode()
        store = calls.CertificateStore(authority=foreign)
        with pytest.raises(errors.WrongStateError, match="does not replace the authorities that it trusts"):
            await thief.call("node5", store, certificate=own, epoch=epoch)
        upload = calls.UploadFile(name="authority.pem", content=foreign)
        with pytest.raises(errors.WrongStateError, match="does not replace the authorities that it trusts"):
            await thief.call("node5", upload, certificate=own, epoch=epoch)
        await works(lab, "node1")
        await lab.done({"OP_ID": "OP_NODE_REMOVE", "node_name": "node4"})
        await lab.world.clock.sleep(62)
        now = read(lab, "node5", KEYS).split()
        assert alone.encode() not in now
        assert set(now) > set(keys.split()) - {alone.encode()}  # node5 or node6 is a candidate in its place
        with pytest.raises(errors.UnknownCallerError):
            await thief.call("node5", ORDER, certificate=own, epoch=epoch + 100)
        await works(lab, "node1")

    lab.run(scenario())


def test_no_node_vouches_for_a_candidate_that_is_not_the_master(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        thief = Thief(lab, "node4")
        own, epoch = thief.issued(), lab.daemons["node1"].store.epoch
        masters = tuple(read(lab, "node3", KEYS).decode().split())
        alone = tuple(line for line in masters if line.startswith(uuid_of(lab, "node4")))
        for keys in (masters, alone):
            for claimed in (epoch, epoch + 1, epoch + 900):
                await lab.world.clock.sleep(60)
                call = calls.Vouch(uuid=uuid_of(lab, "node5"), masters=keys)
                with pytest.raises(errors.GantryError):
                    await thief.call("node3", call, certificate=own, epoch=claimed)
        await works(lab, "node1")

    lab.run(scenario())


def test_vouchers_of_a_former_master_are_of_no_use_to_it_when_it_is_removed(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.failover("node4")
        masters, former = tuple(read(lab, "node4", KEYS).decode().split()), lab.daemons["node4"]
        state = former.store.snapshot
        vouchers = []
        candidates = [
            state.target(member) for member in sorted(state.nodes.values(), key=lambda member: member.name)[:3]
        ]
        for candidate in candidates:
            for away in ("node5", "node6"):
                request = calls.Vouch(uuid=uuid_of(lab, away), masters=masters)
                vouchers.append((away, await former.nodes.call(candidate, request)))
        # It has the word of no candidate for another list than theirs.
        with pytest.raises(errors.WrongStateError, match="is not the one that this node has from the master"):
            await former.nodes.call(candidates[0], calls.Vouch(uuid=uuid_of(lab, "node5"), masters=masters[:1]))
        thief = Thief(lab, "node4")
        await lab.failover("node1")
        await lab.done({"OP_ID": "OP_NODE_REMOVE", "node_name": "node4"})
        await lab.world.clock.sleep(62)
        for node in ("node5", "node6"):
            keys = read(lab, node, KEYS)
            words = tuple(voucher for away, voucher in vouchers if away == node)
            assert len(words) == 3
            call = calls.MastersStore(masters=masters, voucher=words[0], vouchers=words)
            with pytest.raises(errors.FencedError, match="this node obeys a master that was confirmed later"):
                await thief.call(node, call, certificate=thief.issued(), epoch=0)
            assert read(lab, node, KEYS) == keys
        await works(lab, "node1")

    lab.run(scenario())


def test_epochs_that_a_candidate_names_end_no_master_and_prevent_no_start(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        thief = Thief(lab, "node4")
        own = thief.issued()

        async def attack() -> None:
            """Name an epoch at two nodes that have not heard of the master for some time, and at two others."""
            await lab.world.clock.sleep(60)
            epoch = max(daemon.store.epoch for daemon in lab.daemons.values()) + 5
            for node in ("node5", "node6"):
                await thief.call(node, ORDER, certificate=own, epoch=epoch)
                assert read(lab, node, "/gantry/lib/ssconf/ssconf_cluster_name") == b"stolen\n"
            for node in ("node2", "node3"):
                with pytest.raises(errors.UnprovenError, match="has not seen the proof of epoch"):
                    await thief.call(node, ORDER, certificate=own, epoch=epoch)

        for _ in range(2):  # until the nodes have seen the proof of the master's epoch
            await lab.world.clock.sleep(60)
            await works(lab, "node1")
        epoch_before = lab.daemons["node1"].store.epoch
        await attack()
        await works(lab, "node1")
        assert lab.daemons["node1"].store.epoch > epoch_before
        await lab.world.clock.sleep(60)
        await works(lab, "node1")
        await attack()
        await lab.stop_master("node1")
        await lab.start_master("node1")
        await works(lab, "node1")
        await attack()
        lab.kill("node1")
        await lab.failover("node2")
        await lab.start_node("node1")
        await works(lab, "node2")

    lab.run(scenario())


@pytest.mark.parametrize("nodes", [["node2", "node3"], ["node2", "node3", "node5", "node6"]], ids=len)
@pytest.mark.parametrize("step", [400, calls.EPOCH_STEP])
def test_a_master_goes_above_what_a_candidate_made_nodes_grant(
    lab: cluster.SimulatedCluster, nodes: list[str], step: int
) -> None:
    async def scenario() -> None:
        thief = Thief(lab, "node4")
        own, epoch = thief.issued(), lab.daemons["node1"].store.epoch
        for times in (1, 2):
            for node in nodes:
                call = calls.GrantEpoch(
                    epoch=epoch + times * step, node="node4", newest=(10**6, 10**6), stopped={"node1": 10**6}
                )
                assert (await thief.call(node, call, certificate=own, epoch=0)).granted
        await lab.world.clock.sleep(60)
        await works(lab, "node1")
        assert lab.daemons["node1"].store.epoch > epoch + 2 * step
        lab.kill("node1")
        await lab.failover("node2")
        await lab.start_node("node1")
        await works(lab, "node2")

    lab.run(scenario())
