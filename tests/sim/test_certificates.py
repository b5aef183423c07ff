"""Certificates of a simulated cluster: whom a node obeys, renewal, and what verify says before they end."""

import errno
import hashlib
import ssl
from typing import TypeVar

import msgspec
import pytest

from gantry import errors, security
from gantry.doors import watcher
from gantry.mastership import identity
from gantry.rpc import calls, client, luxi, targets
from gantry.runtime import http_interface
from gantry.sim import cluster

DAY = 86400.0
CERTS = "/gantry/lib/certs"
KEYS = "/gantry/lib/ssconf/ssconf_master_candidates_certs"
RENEW = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO"}

Result = TypeVar("Result")


def read(lab: cluster.SimulatedCluster, node: str, path: str) -> bytes:
    return lab.world.machine(node).disk.read(path)


async def verified(lab: cluster.SimulatedCluster) -> tuple[object, str]:
    number = await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY", "error_codes": True})
    _, results = await lab.wait(number)
    return results[0], str(msgspec.convert(await lab.luxi("QueryJobs", [number], ["oplog"]), list[object]))


async def fine(lab: cluster.SimulatedCluster) -> None:
    await lab.world.clock.sleep(40)  # for nodes whose files are sent again
    good, log = await verified(lab)
    assert good, log


class Thief:
    """Somebody with what was once on the disk of a node, who calls other nodes from its machine."""

    def __init__(self, lab: cluster.SimulatedCluster, node: str) -> None:
        disk = lab.world.machine(node).disk
        self.lab = lab
        self.node = node
        self.files = {name: disk.read(f"{CERTS}/{name}") for name in disk.names(CERTS)}

    def issued(self, *, key: bytes = b"") -> bytes:
        """Return a new master's certificate by the stolen key of the authority, for the stolen or another key."""
        authority = security.Authority(
            self.files["authority.pem"], security.authority_key.load(self.files["authority.key"])
        )
        return security.issue_master(
            authority, self.lab.world.clock.now(), key=key or self.files["node.key"]
        ).certificate

    async def call(self, node: str, call: calls.Call[Result], *, certificate: bytes, epoch: int) -> Result:
        tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.present(certificate)
        caller = client.Client(self.lab.world.machine(self.node).network, tls)
        caller.fence(lambda: epoch, lambda _: None, permitted=_at_once)
        return await caller.call(targets.Target("", node, self.lab.address(node), cluster.PORT), call)


async def _at_once() -> None:
    """Allow everything."""


ATTACKS: list[calls.Call[object]] = [
    calls.Version(),
    calls.MasterName(),
    calls.CandidateStatus(),
    calls.JournalFetch(after="", serial=0),
    calls.GrantEpoch(epoch=900, node="node2", newest=(900, 10**6)),
    calls.LeaseRenew(node="node2", epoch=900),
    calls.WriteSsconf(values={"master_node": "node2"}),
    calls.UploadFile(name="users", content="me"),
    calls.JournalAppend(epoch=900, previous="", frame=""),
    calls.StopMaster(patience=0.0),
    calls.CertificateStore(authority="", certificate=""),
    calls.NodeLeave(),
]


@pytest.mark.parametrize("leave", ["demoted", "removed"])
@pytest.mark.parametrize("pair", ["the certificate that it had", "one of the stolen authority"])
def test_a_node_that_was_demoted_or_removed_commands_no_other_node(leave: str, pair: str) -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        await lab.failover("node2")  # so that it has a master's certificate of its own
        await lab.failover("node1")
        thief = Thief(lab, "node2")
        own = thief.files["master.pem"] if pair.startswith("the") else thief.issued()
        op: dict[str, object] = {"OP_ID": "OP_NODE_REMOVE", "node_name": "node2"}
        if leave == "demoted":
            op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "master_candidate": False, "force": True}
        await lab.done(op)
        await lab.world.clock.sleep(60)
        for name in ("node1", "node3"):
            for attack in ATTACKS:
                for epoch in (0, 4, 900):
                    with pytest.raises(errors.UnknownCallerError):
                        await thief.call(name, attack, certificate=own, epoch=epoch)
        await lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 1})

    with cluster.SimulatedCluster(1, nodes=4) as lab:
        lab.run(scenario())


def test_a_certificate_of_the_authority_for_an_unknown_key_is_refused() -> None:
    async def scenario() -> None:
        await lab.build()
        thief = Thief(lab, "node2")
        forged = thief.issued(key=security.make_key())
        with pytest.raises(errors.UnknownCallerError):
            await thief.call("node3", calls.Version(), certificate=forged, epoch=0)
        foreign = security.make_authority("another", lab.world.clock.now())
        other = security.issue_master(foreign, lab.world.clock.now()).certificate
        with pytest.raises(errors.ProtocolError, match="not of an authority that this node trusts"):
            await thief.call("node3", calls.Version(), certificate=other, epoch=0)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


@pytest.mark.parametrize(
    "order",
    [
        calls.WriteSsconf(values={"cluster_name": "stolen"}),
        calls.LeaseRenew(node="node2", epoch=0, masters=("me=key",)),
        calls.JournalAppend(epoch=0, previous="", frame=""),
        calls.CheckpointStore(epoch=0, digest=hashlib.sha256(b"{}").hexdigest(), config="{}"),
    ],
    ids=lambda order: order.procedure(),
)
def test_an_epoch_belongs_to_one_node(order: calls.Call[object]) -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.world.clock.sleep(10)
        thief = Thief(lab, "node2")
        epoch, keys = lab.daemons["node1"].store.epoch, read(lab, "node3", KEYS)
        own = order if isinstance(order, calls.WriteSsconf) else msgspec.structs.replace(order, epoch=epoch)
        with pytest.raises(errors.FencedError, match=f"epoch {epoch} belongs to the node with UUID"):
            await thief.call("node3", own, certificate=thief.issued(), epoch=epoch)
        assert read(lab, "node3", KEYS) == keys
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_a_node_obeys_the_next_epoch_of_any_candidate_only_until_the_master_calls() -> None:
    """And only if it has not heard of the master for some time. The master asks for the next epoch, and continues."""

    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        thief = Thief(lab, "node2")
        epoch, own = lab.daemons["node1"].store.epoch, thief.issued()
        order = calls.WriteSsconf(values={"cluster_name": "stolen"})
        await lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_nodes": ["node3"]})
        with pytest.raises(errors.UnprovenError, match=f"has not seen the proof of epoch {epoch + 1}"):
            await thief.call("node3", order, certificate=own, epoch=epoch + 1)
        await lab.world.clock.sleep(60)
        await thief.call("node3", order, certificate=own, epoch=epoch + 1)
        assert read(lab, "node3", "/gantry/lib/ssconf/ssconf_cluster_name") == b"stolen\n"
        await lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 1, "on_nodes": ["node3"]})
        with pytest.raises(errors.FencedError):
            await thief.call("node3", order, certificate=own, epoch=epoch + 1)
        with pytest.raises(errors.UnprovenError):
            await thief.call("node3", order, certificate=own, epoch=lab.daemons["node1"].store.epoch + 1)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_a_candidate_can_stop_the_master_daemon_a_few_times() -> None:
    async def scenario() -> None:
        await lab.build()
        thief = Thief(lab, "node2")
        stop = calls.StopMaster(patience=1)
        for _ in range(3):
            assert await thief.call("node1", stop, certificate=thief.issued(), epoch=0)
            assert lab.masters() == []
            await lab.start_master("node1")
        for _ in range(10):
            with pytest.raises(errors.WrongStateError, match="3 times, and did not become the master"):
                await thief.call("node1", stop, certificate=thief.issued(), epoch=0)
            await lab.world.clock.sleep(60)
        assert lab.masters() == ["node1"]
        await fine(lab)
        # Who really becomes the master is not limited, and neither is another candidate.
        await lab.failover("node3")
        await lab.world.clock.sleep(3600)
        await lab.failover("node1")
        await lab.failover("node2")
        for _ in range(4):
            await lab.failover("node1")
            await lab.failover("node2")
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_a_node_that_is_marked_offline_learns_of_a_demotion_when_it_is_marked_online() -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        thief = Thief(lab, "node2")
        node4 = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node4"}
        await lab.done({**node4, "offline": True})
        demotion = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "master_candidate": False, "force": True}
        await lab.done(demotion)
        await lab.world.clock.sleep(60)
        await thief.call("node4", calls.Version(), certificate=thief.issued(), epoch=0)
        await lab.done({**node4, "offline": False})
        await lab.world.clock.sleep(60)
        with pytest.raises(errors.UnknownCallerError):
            await thief.call("node4", calls.Version(), certificate=thief.issued(), epoch=0)

    with cluster.SimulatedCluster(1, nodes=4) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("options", [{}, {"keep_keys": True}, {"cluster_certificate": True}, {"nodes": ["node1"]}])
def test_renewed_certificates_work_and_the_old_ones_do_not(options: dict[str, object]) -> None:
    async def scenario() -> None:
        await lab.build()
        before = {name: read(lab, name, f"{CERTS}/node.pem") for name in lab.names}
        keys = {name: read(lab, name, f"{CERTS}/node.key") for name in lab.names}
        authority = read(lab, "node3", f"{CERTS}/authority.pem")
        thief = Thief(lab, "node1")
        assert await lab.done({**RENEW, **options}) == [[]]
        renewed = {name for name in lab.names if read(lab, name, f"{CERTS}/node.pem") != before[name]}
        assert renewed == (set(lab.names) if options != {"nodes": ["node1"]} else {"node1"})
        same_keys = {name for name in lab.names if read(lab, name, f"{CERTS}/node.key") == keys[name]}
        assert same_keys == (set(lab.names) if "keep_keys" in options else set(lab.names) - renewed)
        await lab.world.clock.sleep(60)
        if same_keys != set(lab.names):
            with pytest.raises(errors.ProtocolError if "cluster_certificate" in options else errors.UnknownCallerError):
                await thief.call("node3", calls.Version(), certificate=thief.files["master.pem"], epoch=0)
        revoked = read(lab, "node3", "/gantry/lib/ssconf/ssconf_revoked_certificates").decode().split()
        assert sorted(revoked) == sorted(security.facts_of(before[name]).serial for name in renewed)
        after = {read(lab, name, f"{CERTS}/authority.pem") for name in lab.names}
        assert len(after) == 1
        assert (authority in after) == ("cluster_certificate" not in options)
        await fine(lab)
        # The next master can issue certificates too, and is obeyed.
        await lab.failover("node2")
        assert await lab.done({**RENEW, "nodes": ["node1", "node2"]}) == [[]]
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_the_authority_before_is_trusted_nowhere_after_its_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted: list[int] = []

    async def scenario() -> None:
        await lab.build()
        thief, credentials = Thief(lab, "node2"), lab.daemons["node1"].credentials
        renew = credentials.renew

        async def note() -> None:
            trusted.append(read(lab, "node1", f"{CERTS}/authority.pem").count(b"BEGIN CERTIFICATE"))
            await renew()

        monkeypatch.setattr(credentials, "renew", note)
        assert await lab.done({**RENEW, "cluster_certificate": True, "keep_keys": True}) == [[]]
        assert trusted[-1] == 1
        # node2 is a candidate and keeps its key, so only the authority makes the difference.
        with pytest.raises(errors.ProtocolError, match="not of an authority that this node trusts"):
            await thief.call("node3", calls.Version(), certificate=thief.issued(), epoch=0)
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.slow
def test_a_renewal_that_is_cut_off_at_any_write_leaves_a_cluster_that_renews_again(power: bool) -> None:
    for victim in ("node1", "node2"):
        for visit in range(1, 60, 2 if victim == "node1" else 1):
            if not _interrupted(victim, visit, power=power):
                break


def _interrupted(victim: str, visit: int, *, power: bool) -> bool:
    """End a machine at its n-th write during a renewal of everything; return whether the renewal had not ended."""

    async def scenario() -> bool:
        await lab.build()
        lab.end_at(victim, visit, power=power)
        try:
            number = await lab.submit({**RENEW, "cluster_certificate": True})
            await lab.wait(number)
        except (errors.GantryError, OSError):
            pass
        ended = not lab.has_power(victim) if power else victim not in lab.daemons and victim == "node1"
        lab.world.machine(victim).disk.on_visit = None
        if victim == "node1" and (ended or not lab.masters()):
            await lab.restart("node1")
        else:
            await lab.start_node(victim)
        await lab.world.clock.sleep(40)
        bundles = {name: read(lab, name, f"{CERTS}/authority.pem") for name in lab.names}
        # A plain renewal continues where this one was cut off, because the master's file still has two authorities.
        is_unfinished = bundles["node1"].count(b"BEGIN CERTIFICATE") > 1
        assert is_unfinished or victim != "node1" or len(set(bundles.values())) == 1, (victim, visit)
        assert await lab.done({**RENEW, "cluster_certificate": not is_unfinished}) == [[]], (victim, visit)
        await fine(lab)
        return True

    with cluster.SimulatedCluster(visit) as lab:
        return lab.run(scenario())


def test_a_node_that_does_not_answer_stops_the_renewal_of_the_authority_before_anything_changes() -> None:
    async def scenario() -> None:
        await lab.build()
        before = {name: read(lab, name, f"{CERTS}/authority.pem") for name in lab.names}
        lab.kill("node3")
        status, results = await lab.wait(await lab.submit({**RENEW, "cluster_certificate": True}))
        assert status == "error"
        assert "node node3 did not send a certificate request" in str(results)
        assert {name: read(lab, name, f"{CERTS}/authority.pem") for name in lab.names} == before
        # Without a new authority the others are renewed.
        assert await lab.done(RENEW) == [["node3"]]
        await lab.start_node("node3")
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_a_node_that_was_away_during_several_renewals_learns_of_the_new_keys() -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        lab.kill("node3")
        for _ in range(calls.EARLIER_KEYS):
            assert await lab.done(RENEW) == [["node3"]]
        await lab.start_node("node3")
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_a_node_that_was_offline_while_the_authority_was_replaced_is_added_again_without_its_files() -> None:
    async def scenario() -> None:
        await lab.build()
        node3 = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3"}
        await lab.done({**node3, "offline": True})
        number = await lab.submit({**RENEW, "cluster_certificate": True})
        assert (await lab.wait(number))[0] == "success"
        (log,) = msgspec.convert(await lab.luxi("QueryJobs", [number], ["oplog"]), list[object])
        assert "node3: offline while the authority was replaced; before such a machine runs again" in str(log)
        with pytest.raises(errors.ExecutionError, match="a node that was away meanwhile is added again"):
            await lab.done({**node3, "offline": False})
        lab.kill("node3")
        disk = lab.world.machine("node3").disk
        await disk.remove_tree(cluster.FOLDERS.lib)
        await lab.start_node("node3")
        token = disk.read(f"{cluster.FOLDERS.lib}/join-token").decode()
        again = {"OP_ID": "OP_NODE_ADD", "node_name": "node3", "primary_ip": lab.address("node3"), "readd": True}
        await lab.done({**again, "join_token": token})
        await fine(lab)

    with cluster.SimulatedCluster(seed=1) as lab:
        lab.run(scenario())


def test_a_renewal_names_the_file_that_the_master_could_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise OSError(errno.EIO, "Input/output error", f"{CERTS}/master.pem")

    async def scenario() -> None:
        await lab.build()
        with monkeypatch.context() as patch:
            patch.setattr(lab.daemons["node1"].credentials, "renew", fail)
            status, results = await lab.wait(await lab.submit(RENEW))
        assert status == "error"
        assert f"a file of the master could not be written: {CERTS}/master.pem: Input/output error" in str(results)
        assert await lab.done(RENEW) == [[]]
        await fine(lab)

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_candidate_keeps_its_key_while_too_few_others_know_the_new_one(nodes: int) -> None:
    async def scenario() -> None:
        await lab.build()
        keys = {name: read(lab, name, f"{CERTS}/node.key") for name in lab.names}
        lab.kill("node2")
        renewed = {"node1", "node3"} if nodes == 3 else set()
        assert await lab.done(RENEW) == [sorted(set(lab.names) - renewed)]
        assert {name for name in lab.names if read(lab, name, f"{CERTS}/node.key") != keys[name]} == renewed
        lab.kill("node1")
        for name in ("node2", "node1"):
            await lab.restart(name)
        await fine(lab)
        assert await lab.done(RENEW) == [[]]

    with cluster.SimulatedCluster(1, nodes=nodes) as lab:
        lab.run(scenario())


def test_the_only_candidate_keeps_its_key_while_too_few_nodes_know_the_new_one() -> None:
    """Nobody else could introduce it to the other node, and with the new key it would not be confirmed again."""

    async def scenario() -> None:
        await lab.build(candidate_pool_size=1)
        await lab.world.clock.sleep(40)
        key = read(lab, "node1", f"{CERTS}/node.key")
        lab.world.machine("node2").disk.fail_write = 1.0
        await lab.submit(RENEW)
        await lab.world.clock.sleep(5)
        lab.kill("node1")
        lab.world.machine("node2").disk.fail_write = 0.0
        assert read(lab, "node1", f"{CERTS}/node.key") == key
        await lab.restart("node1")
        await fine(lab)

    with cluster.SimulatedCluster(7, nodes=2) as lab:
        lab.run(scenario())


def test_a_node_that_was_away_learns_of_new_candidates_from_one_that_it_knows() -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        assert len(read(lab, "node4", KEYS).split()) == 2
        lab.kill("node4")
        await lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": 3})
        await lab.world.clock.sleep(20)
        await lab.failover("node3")
        await lab.start_node("node4")
        await lab.world.clock.sleep(60)
        assert len(read(lab, "node4", KEYS).split()) == 3
        await fine(lab)

    with cluster.SimulatedCluster(1, nodes=4) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("signer", ["a regular node", "a stranger", "another list"])
def test_only_a_known_candidate_vouches_for_a_master(signer: str) -> None:
    async def scenario() -> None:
        await lab.build(candidate_pool_size=2)
        thief = Thief(lab, "node2")
        lab_uuid = read(lab, "node4", f"{CERTS}/member.json")
        uuid = msgspec.json.decode(lab_uuid, type=dict[str, object])["uuid"]
        key = security.make_key()
        forged = thief.issued(key=key)
        digest = security.key_of(security.der_of(forged))
        lists = (f"me={digest}",)
        epoch = lab.daemons["node1"].store.epoch
        vouching = "node2" if signer == "another list" else "node3"
        statement = "\n".join(("gantry candidates of a proven epoch", str(epoch), str(uuid), *lists))
        vouched = statement.replace("me=", "you=") if signer == "another list" else statement
        signing = security.make_key() if signer == "a stranger" else read(lab, vouching, f"{CERTS}/node.key")
        voucher = calls.Voucher(
            epoch=epoch,
            certificate=read(lab, vouching, f"{CERTS}/node.pem").decode(),
            signature=security.sign(signing, vouched.encode()),
        )
        call = calls.MastersStore(masters=lists, voucher=voucher, vouchers=(voucher, voucher))
        with pytest.raises(errors.UnprovenError, match="0 of the 2 master candidates that this node knows"):
            await thief.call("node4", call, certificate=forged, epoch=0)
        await fine(lab)

    with cluster.SimulatedCluster(1, nodes=4) as lab:
        lab.run(scenario())


def test_the_masters_certificate_is_issued_again_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "DAY_SECONDS", 600.0)

    async def scenario() -> None:
        await lab.build()
        before = security.end_of(read(lab, "node1", f"{CERTS}/master.pem"))
        await lab.world.clock.sleep(650)
        assert security.end_of(read(lab, "node1", f"{CERTS}/master.pem")) == before + 600

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


def test_the_watcher_renews_certificates_before_they_end() -> None:
    async def scenario() -> None:
        await lab.build()
        authority = read(lab, "node1", f"{CERTS}/authority.pem")
        for days, renewed in ((security.NODE_DAYS - 70, False), (security.NODE_DAYS - 50, True)):
            await _round_after(lab, days)
            end = security.end_of(read(lab, "node2", f"{CERTS}/node.pem"))
            assert (end > lab.master.clock.now() + 300 * DAY) == renewed
        await _round_after(lab, security.AUTHORITY_DAYS - 100)
        assert read(lab, "node2", f"{CERTS}/authority.pem") != authority
        good, log = await verified(lab)
        assert good, log
        assert "ECLUSTERCERT" not in log

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())


async def _round_after(lab: cluster.SimulatedCluster, days: float) -> None:
    """Let the watcher look at certificates this long after the cluster was made."""
    for name in lab.names:
        lab.world.machine(name).clock.offset = days * DAY
    caller = luxi.Client(lab.master.network, cluster.FOLDERS.luxi_socket)
    try:
        one_round = watcher.Watcher(
            lab.master, "/gantry/lib/watcher.data", master=caller, authority=f"{CERTS}/authority.pem"
        )
        await one_round.run()
    finally:
        await caller.close()
    await lab.world.clock.sleep(60)


def test_verify_warns_before_a_certificate_ends_and_fails_after() -> None:
    async def scenario() -> None:
        await lab.build()
        good, log = await verified(lab)
        assert good, log
        assert "ECLUSTERCERT" not in log
        for name in lab.names:
            lab.world.machine(name).clock.offset = (security.NODE_DAYS - 20) * DAY
        good, log = await verified(lab)
        assert good, log
        for name in lab.names:
            assert f"WARNING:ECLUSTERCERT:node:{name}: /gantry/" in log
        assert "certs/node.pem ends in 20 days" in log
        for name in lab.names:
            lab.world.machine(name).clock.offset = (security.NODE_DAYS + 20) * DAY
        good, log = await verified(lab)
        assert not good
        assert "ERROR:ECLUSTERCERT:node:node2: " in log
        assert "certs/node.pem has ended" in log

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())
