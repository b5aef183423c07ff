"""Machines that join a simulated cluster with an invitation, through all layers."""

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from gantry import errors, security
from gantry.daemons import joining
from gantry.rpc import calls, exchange, targets
from gantry.runtime import http_interface, simulated
from gantry.sim import cluster

CERTS = "/gantry/lib/certs"
HOUR = 3600.0
DAY = 24 * HOUR


class InvitingCluster(NamedTuple):
    """A cluster, and machines whose daemons run without a cluster; ``lines`` are what joining machines print."""

    lab: cluster.SimulatedCluster
    lines: list[str]

    def invite(self, name: str = "node3", **options: object) -> str:
        token = secrets.token_hex(security.invitation.SECRET_BYTES)
        op = {"OP_ID": "OP_NODE_INVITE", "node_name": name, "secret_hash": security.invitation.hash_of(token)}
        self.lab.run(self.lab.done(op | options))
        return token

    def machine(self, name: str) -> simulated.SimulatedRuntime:
        return self.lab.world.machine(name)

    def presented(self, target: targets.Target) -> str:
        """Return the digest of the key that TLS would show of the machine at an address."""
        name = self.lab.names[int(target.address.rpartition(".")[2]) - 1]
        return security.key_of(security.der_of(self.machine(name).disk.read(f"{CERTS}/node.pem")))

    async def joining(self, master: str, token: str, *, machine: str = "node3", name: str = "", key: str = "") -> None:
        runtime = self.machine(machine)

        def connect(target: targets.Target) -> joining.Connection:
            tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
            return joining.Connection(runtime.network.http_client(tls=tls), lambda: key or self.presented(target))

        command = joining.Joining(runtime, cluster.FOLDERS, report=self.lines.append, connect=connect)
        own = self.lab.address(machine)
        await command.run(joining.Request(self.lab.address(master), token, name or machine, own))

    def join(self, master: str, token: str, **options: str) -> None:
        self.lab.run(self.joining(master, token, **options))

    def refused(self, master: str, token: str, **options: str) -> str:
        """Return the error of a machine that is refused; the cluster stays as it is."""
        nodes = self.nodes()
        with pytest.raises(errors.GantryError) as error:
            self.join(master, token, **options)
        assert self.nodes() == nodes
        return str(error.value)

    def nodes(self) -> list[str]:
        rows = self.lab.run(self.lab.luxi("QueryNodes", [], ["name"], False))
        return sorted(name for (name,) in msgspec.convert(rows, list[tuple[str]]))

    def invitations(self) -> dict[str, str]:
        answer = self.lab.run(self.lab.luxi("ReadOpcode", {"OP_ID": "OP_NODE_QUERY_INVITATIONS"}))
        rows, _ = msgspec.convert(answer, tuple[list[dict[str, object]], list[str]])
        return {str(row["node"]): str(row["state"]) for row in rows}

    def done(self, **op: object) -> None:
        self.lab.run(self.lab.done(op))


@contextlib.contextmanager
def inviting_cluster(*, nodes: int = 2, machines: int = 3, seed: int = 3) -> Iterator[InvitingCluster]:
    with cluster.SimulatedCluster(seed=seed, nodes=machines) as lab:
        names, lab.names = lab.names, lab.names[:nodes]
        lab.run(lab.build())
        lab.names = names
        for name in names[nodes:]:
            lab.run(lab.start_node(name))
            # The lock of a real daemon's program; the simulation has none.
            lab.world.machine(name).disk.lock(f"{cluster.FOLDERS.run}/node-daemon.lock")
        yield InvitingCluster(lab, [])


def test_a_machine_joins_with_the_token_and_the_options_of_its_invitation() -> None:
    with inviting_cluster() as here:
        here.join("node1", here.invite(master_capable=False, ndparams={"ssh_port": 2222}))
        rows = here.lab.run(here.lab.luxi("QueryNodes", ["node3"], ["name", "role", "pip", "custom_ndparams"], False))
        assert rows == [["node3", "R", "203.0.113.3", {"ssh_port": 2222}]]
        assert here.lines[-1] == "this machine is now node3 of cluster lab.example"
        assert "send node3 its certificate" in here.lines
        assert not here.machine("node3").disk.exists("/gantry/lib/join-token")


def test_root_invites_and_the_machine_joins_without_the_rights_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    with inviting_cluster() as here:
        token = here.invite()
        monkeypatch.setattr(here.machine("node1").network, "is_privileged", lambda writer: False)
        with pytest.raises(errors.GantryError, match="only root may change which machines become nodes"):
            here.invite("node4")
        here.join("node1", token)
        assert here.nodes() == ["node1", "node2", "node3"]


def test_a_token_admits_one_machine_once() -> None:
    with inviting_cluster(machines=4) as here:
        token = here.invite()
        here.join("node1", token)
        message = here.refused("node1", token, machine="node4", name="node3")
        assert "the token was used: it admitted node3 at 203.0.113.3; if you do not know that machine" in message
        assert here.invitations() == {"node3": "used"}


def test_of_two_machines_with_one_token_at_one_moment_one_joins() -> None:
    with inviting_cluster(machines=4) as here:
        token = here.invite()

        async def both() -> list[BaseException | None]:
            tries = (here.joining("node1", token, machine=name, name="node3") for name in ("node3", "node4"))
            return await asyncio.gather(*tries, return_exceptions=True)

        outcomes = here.lab.run(both())
        (refusal,) = (str(outcome) for outcome in outcomes if outcome)
        assert "another machine, at 203.0.113." in refusal or "the token was used" in refusal
        assert here.nodes() == ["node1", "node2", "node3"]
        joined = [name for name in ("node3", "node4") if here.machine(name).disk.exists(f"{CERTS}/node.pem")]
        assert len(joined) == 1


def test_while_a_machine_joins_another_is_refused_and_the_same_one_may_ask_again() -> None:
    with inviting_cluster(machines=4) as here:
        token = here.invite()

        async def scenario() -> None:
            first = asyncio.ensure_future(here.joining("node1", token))
            for _ in range(1000):
                await asyncio.sleep(0.001)
                if here.lines:
                    break
            again = asyncio.ensure_future(here.joining("node1", token))
            with pytest.raises(errors.BusyError, match=r"another machine, at 203.0.113.3, is joining with this token"):
                await here.joining("node1", token, machine="node4", name="node3")
            await asyncio.gather(first, again)

        here.lab.run(scenario())
        assert here.lines.count("this machine is now node3 of cluster lab.example") == 2
        assert len({line for line in here.lines if line.startswith("job ")}) == 1
        assert here.nodes() == ["node1", "node2", "node3"]


def test_a_token_ends_after_an_hour() -> None:
    with inviting_cluster() as here:
        token = here.invite()
        here.machine("node1").clock.offset = 2 * HOUR
        assert "the token for node3 ended 1.0 hours ago: it is valid for 1 hour; gnt-node add" in here.refused(
            "node1", token
        )
        assert here.invitations() == {"node3": "ended"}
        here.machine("node1").clock.offset = 2 * HOUR + DAY
        here.invite("other")
        assert here.invitations() == {"other": "open"}


def test_a_revoked_token_admits_no_machine_and_only_an_open_one_can_be_revoked() -> None:
    with inviting_cluster() as here:
        token = here.invite()
        here.done(OP_ID="OP_NODE_REVOKE_INVITATION", node_name="node3")
        assert "the token for node3 was revoked; gnt-node add" in here.refused("node1", token)
        with pytest.raises(errors.ExecutionError, match="there is no open invitation for node3"):
            here.done(OP_ID="OP_NODE_REVOKE_INVITATION", node_name="node3")
        here.join("node1", here.invite())


def test_a_second_invitation_for_a_name_takes_the_place_of_the_first() -> None:
    with inviting_cluster() as here:
        first, second = here.invite(), here.invite()
        assert "the cluster knows no such token" in here.refused("node1", first)
        here.join("node1", second)


@pytest.mark.parametrize("token", ["", "x", "A" * 48, "0" * 47, "0" * 49, "-"])
def test_what_is_not_a_token_is_not_sent(token: str) -> None:
    with inviting_cluster(nodes=1, machines=2) as here:
        assert "this is not a token" in here.refused("node1", token, machine="node2")


def test_the_token_of_another_cluster_is_refused() -> None:
    with inviting_cluster(nodes=1, machines=2) as here:
        message = here.refused("node1", secrets.token_hex(24), machine="node2")
        assert "the cluster knows no such token: it is mistyped" in message
        assert "comes from another cluster" in message


def test_a_machine_with_a_wrong_clock_may_repeat_the_line_with_the_right_time() -> None:
    with inviting_cluster() as here:
        token = here.invite()
        clock = here.machine("node3").clock
        clock.offset = 3 * DAY
        message = here.refused("node1", token)
        assert "could not add this machine: node node3 cannot join: its clock is 3.0 days ahead" in message
        assert "set both clocks" in message
        assert here.invitations() == {"node3": "open"}
        clock.offset = 0.0
        here.join("node1", token)


def test_a_name_in_the_cluster_is_neither_invited_nor_admitted() -> None:
    with inviting_cluster(machines=4) as here:
        with pytest.raises(errors.ExecutionError, match="node node2 is already part of the cluster"):
            here.invite("node2")
        token = here.invite()
        other = here.machine("node4").disk.read("/gantry/lib/join-token").decode()
        here.done(OP_ID="OP_NODE_ADD", node_name="node3", primary_ip="203.0.113.4", join_token=other)
        assert "the token was used: it admitted node3 at 203.0.113.4" in here.refused("node1", token)


def test_the_line_is_refused_on_another_machine_unless_it_is_named() -> None:
    with inviting_cluster(machines=4) as here:
        token = here.invite("node3.example.org")
        message = here.refused("node1", token, machine="node4")
        assert "the token is for node3.example.org, but this machine is called node4; run the line on" in message
        here.join("node1", token)


def test_a_machine_with_a_cluster_stays_there() -> None:
    with inviting_cluster() as here:
        token = here.invite()
        message = here.refused("node1", token, machine="node2", name="node3")
        assert "this machine already is node node2 of cluster lab.example; to move it, run gnt-node remove" in message


def test_a_machine_without_a_running_daemon_is_refused_with_the_remedy() -> None:
    with cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        message = InvitingCluster(lab, [])
        with pytest.raises(errors.WrongStateError, match="no gantry-noded runs here") as refused:
            message.join("node1", "0" * 48, machine="node1")
        assert "start it" in refused.value.hint


def test_a_master_that_is_down_is_named_with_the_remedy() -> None:
    with inviting_cluster() as here:
        token = here.invite()
        here.lab.kill_master("node1")
        with pytest.raises(errors.GantryError, match="the master daemon does not answer"):
            here.join("node1", token)
        here.lab.kill("node1")
        with pytest.raises(errors.GantryError, match="is this the address of a machine of the cluster"):
            here.join("node1", token)
        here.lab.run(here.lab.restart("node1"))
        here.join("node1", token)


def test_a_machine_without_a_cluster_is_not_taken_for_a_master() -> None:
    with inviting_cluster(machines=4) as here, pytest.raises(errors.WrongStateError, match="cannot admit this machine"):
        here.join("node4", here.invite(), key="k")


def test_any_node_names_the_master_and_a_change_of_master_keeps_invitations() -> None:
    with inviting_cluster(nodes=3, machines=5) as here:
        first, second = here.invite("node4"), here.invite("node5")
        here.join("node2", first, machine="node4")
        assert "the master is at 203.0.113.1 port 1811" in here.lines
        here.lab.kill("node1")
        here.lab.run(here.lab.failover("node2"))
        here.lab.run(here.lab.world.clock.sleep(5))
        here.join("node3", second, machine="node5")
        assert here.nodes() == ["node1", "node2", "node3", "node4", "node5"]


def test_the_secret_is_sent_only_to_a_key_that_the_cluster_has_proven(caplog: pytest.LogCaptureFixture) -> None:
    with inviting_cluster() as here:
        token = here.invite()
        message = here.refused("node1", token, key="digest of another key")
        assert "something is between it and this machine; the token was not sent" in message
        assert here.invitations() == {"node3": "open"}
        assert here.lines == []


def test_the_secret_is_in_no_file_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with inviting_cluster() as here, caplog.at_level(logging.DEBUG):
        token = here.invite()
        here.join("node1", token)
        here.refused("node1", token, machine="node2", name="node3")
        for name in here.lab.names:
            disk = here.machine(name).disk
            assert not [path for path, (_, content) in disk.image().items() if token.encode() in (content or b"")]
        assert token not in caplog.text
        displayed = str(here.lab.run(here.lab.luxi("QueryJobs", None, ["id", "ops", "oplog", "opresult"])))
        exported = str(here.lab.run(here.lab.luxi("ExportConfig")))
        secret_hash = security.invitation.hash_of(token)
        assert "NODE_INVITE" in displayed
        assert "invitations" in exported
        assert secret_hash not in displayed + exported + caplog.text


async def _attempt(here: InvitingCluster, call: calls.Call[object]) -> object:
    """Make a call to the master's node as a machine without a certificate does."""
    tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
    network = here.machine("node3").network
    return await exchange.make(
        network.http_client(tls=tls), targets.Target("", "m", here.lab.address("node1"), 1811), call, headers={}
    )


def test_what_a_demoted_candidate_knows_admits_no_machine() -> None:
    with inviting_cluster(nodes=3, machines=4) as here:
        token = here.invite("node4")
        secret_hash = security.invitation.hash_of(token)
        stored = b"".join(content or b"" for _, content in here.machine("node3").disk.image().values())
        assert secret_hash.encode() in stored
        join_token = here.machine("node4").disk.read("/gantry/lib/join-token").decode()
        use = calls.UseInvitation(secret=secret_hash, join_token=join_token, node="node4", address="203.0.113.4")
        with pytest.raises(errors.NotFoundError, match="knows no such token"):
            here.lab.run(_attempt(here, use))
        assert here.nodes() == ["node1", "node2", "node3"]


@pytest.mark.parametrize("call", [calls.Version(), calls.NodeLeave(), calls.NodeInfo(), calls.StopMaster()])
def test_a_client_without_a_certificate_may_do_nothing_else(call: calls.Call[object]) -> None:
    with (
        inviting_cluster() as here,
        pytest.raises(errors.GantryError, match="only the cluster's master may call this node"),
    ):
        here.lab.run(_attempt(here, call))


def test_wrong_tokens_of_a_peer_are_checked_a_few_at_a_time_and_logged_a_few_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with inviting_cluster() as here:
        here.invite()

        async def guess() -> None:
            call = calls.ProveInvitation(invitation=secrets.token_hex(16), nonce=secrets.token_hex(32))
            with pytest.raises(errors.PrerequisiteError):
                await _attempt(here, call)

        async def guess_often(number: int) -> float:
            before = here.lab.world.clock.monotonic()
            for _ in range(number):
                await guess()
            return here.lab.world.clock.monotonic() - before

        assert here.lab.run(guess_often(100)) < 10
        assert here.lab.run(guess_often(50)) > 5
        lines = [record for record in caplog.records if "may not join" in record.message]
        assert 5 <= len(lines) <= 15
