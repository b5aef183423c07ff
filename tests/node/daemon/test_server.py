"""The agent as the master sees it: over TLS on the loopback, joining included."""

import asyncio
import contextlib
import http.client
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import ports
from tests.node import samples

from gantry import errors, security
from gantry.lib_files import ssconf as ssconf_file
from gantry.node.daemon import wiring
from gantry.node.membership import enrollment, ssconf
from gantry.rpc import calls, client, targets
from gantry.runtime import http_interface, interface, limits, paths, simulated
from gantry.security import contexts

UUID = "6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001"


class Cluster:
    """One node's running agent, and a master that knows how to talk to it."""

    def __init__(
        self, runtime: interface.Runtime, folders: paths.Paths, port: int, *, address: str = "127.0.0.1"
    ) -> None:
        self.runtime = runtime
        self.folders = folders
        self.agent = wiring.node(runtime, folders, software="test")
        self.target = targets.Target(UUID, "node1", address, port)
        self.authority = security.make_authority("one", runtime.clock.now())

    def token(self) -> str:
        return self.runtime.disk.read(f"{self.folders.lib}/join-token").decode()

    def master_context(self, authority: security.Authority | None = None) -> ssl.SSLContext:
        own = security.issue_master(authority or self.authority, self.runtime.clock.now())
        return self.context(own, trust=self.authority)

    def context(self, own: security.Pair, *, trust: security.Authority) -> ssl.SSLContext:
        certificate, key = f"{self.folders.run}/c.pem", f"{self.folders.run}/c.key"
        for path, content in ((certificate, own.certificate), (key, own.key)):
            with open(path, "wb") as file:
                file.write(content)
        return security.master_client_context(certificate, key, authority=trust.certificates)

    @contextlib.asynccontextmanager
    async def master(self, context: ssl.SSLContext | None = None) -> AsyncIterator[client.Client]:
        new_client = client.Client(self.runtime.network, context or self.master_context())
        try:
            yield new_client
        finally:
            await new_client.close()

    async def join(self, master: client.Client, masters: tuple[str, ...] = ()) -> None:
        secret = security.JoinToken.decode(self.token()).secret
        ask = calls.Join(secret=secret, cluster="one", node="node1", uuid=UUID, address="127.0.0.1")
        token = self.token()
        request = await master.join(self.target, token, ask)
        certificate = security.issue(
            self.authority,
            request.encode(),
            uuid=UUID,
            name="node1",
            address="127.0.0.1",
            now=self.runtime.clock.now(),
        )
        answer = calls.Enrol(
            secret=secret,
            certificate=certificate.decode(),
            authority=self.authority.certificates.decode(),
            masters=masters,
        )
        await master.join(self.target, token, answer)


@pytest.fixture
async def cluster(folders: paths.Paths) -> AsyncIterator[Cluster]:
    async with serving_node(samples.runtime(), folders) as new_client:
        yield new_client


@contextlib.asynccontextmanager
async def serving_node(runtime: interface.Runtime, folders: paths.Paths) -> AsyncIterator[Cluster]:
    port = ports.free()
    new_client = Cluster(runtime, folders, port)
    ready = asyncio.Event()
    serving = asyncio.create_task(new_client.agent.run("127.0.0.1", port, ready=ready.set))
    await asyncio.wait([serving, asyncio.ensure_future(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield new_client
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_a_node_joins_and_answers_the_master_at_once(cluster: Cluster) -> None:
    async with cluster.master() as master:
        await cluster.join(master)
        known = await master.call(cluster.target, calls.Version())
    assert known == calls.VersionInfo(software="test", node="node1", uuid=UUID, cluster="one")
    assert not cluster.runtime.disk.exists(f"{cluster.folders.lib}/join-token")
    for name in ("node.pem", "node.key", "authority.pem"):
        assert cluster.runtime.disk.status(f"{cluster.folders.certificates}/{name}").mode == 0o600


async def test_a_member_calls_itself_by_its_name_in_the_cluster(folders: paths.Paths) -> None:
    async with serving_node(samples.runtime("machine7"), folders) as cluster, cluster.master() as master:
        await cluster.join(master)
        with pytest.raises(errors.InvalidError, match=r"^node node1 has no hypervisor missing"):
            await master.call(cluster.target, calls.InstanceList(hypervisors=("missing",)))


@pytest.mark.parametrize(("procedure", "status"), [("version", 200), ("unknown", 400)])
async def test_each_answer_has_version_and_time(cluster: Cluster, procedure: str, status: int) -> None:
    async with cluster.master() as master:
        await cluster.join(master)
    http = cluster.runtime.network.http_client(tls=cluster.master_context())
    try:
        target = cluster.target
        answer = await http.post(target.address, target.port, f"/{procedure}", b"{}", timeout=60)
    finally:
        await http.close()
    assert answer.status == status
    assert answer.headers[calls.SOFTWARE_HEADER] == "test"
    assert abs(float(answer.headers[calls.TIME_HEADER]) - cluster.runtime.clock.now()) < 30


async def test_a_node_that_has_not_joined_answers_nothing_else(cluster: Cluster) -> None:
    async with cluster.master() as master:
        known = await master.join(cluster.target, cluster.token(), calls.Version())
        assert known == calls.VersionInfo(software="test")
        with pytest.raises(errors.GantryError, match="no call 'node_info'"):
            await master.join(cluster.target, cluster.token(), calls.NodeInfo())


async def test_a_node_that_has_not_joined_takes_no_long_message_of_anyone(cluster: Cluster) -> None:
    certificate = security.JoinToken.decode(cluster.token()).certificate
    sender = cluster.runtime.network.http_client(tls=security.bootstrap_client_context(certificate))
    try:
        for size, status in ((1 << 20, 400), ((1 << 20) + 1, 413)):
            answer = await sender.post("127.0.0.1", cluster.target.port, "/node_info", b" " * size, timeout=60)
            assert answer.status == status
    finally:
        await sender.close()


@pytest.mark.parametrize("ahead", [-20 * 86400.0, 20 * 86400.0, -11 * 365 * 86400.0])
async def test_the_master_learns_the_time_of_a_node_whose_certificate_is_not_valid_yet_or_any_more(
    cluster: Cluster, ahead: float
) -> None:
    node_time = cluster.runtime.clock.now() + ahead
    bootstrap = security.make_bootstrap("node1", node_time)
    certificate, key = f"{cluster.folders.run}/b.pem", f"{cluster.folders.run}/b.key"
    await cluster.runtime.disk.write(certificate, bootstrap.certificate)
    await cluster.runtime.disk.write(key, bootstrap.key)
    port = ports.free()
    serving = await cluster.runtime.network.serve_http(
        "127.0.0.1",
        port,
        cluster.agent.answer,
        tls=security.bootstrap_server_context(certificate, key),
        body_limit=1000,
    )
    token = security.JoinToken("secret", bootstrap.certificate.decode()).encode()
    try:
        async with cluster.master() as master:
            target = targets.Target(UUID, "node1", "127.0.0.1", port)
            assert abs(await master.join(target, token, calls.NodeClock()) - cluster.runtime.clock.now()) < 60
    finally:
        await serving.close()


DAY = 86400.0
YEAR = 365 * DAY


@dataclass(frozen=True)
class Untrusted:
    """A certificate that nobody may trust: made at another time, by a clock in seconds from ours, or by another."""

    certificate: float = 0.0
    authority: float = 0.0
    cluster: str = "one"
    reason: str = "certificate has expired"

    def authority_of(self, cluster: Cluster) -> security.Authority:
        now = cluster.runtime.clock.now()
        if (self.authority, self.cluster) == (0.0, "one"):
            return cluster.authority
        return security.make_authority(self.cluster, now + self.authority)


UNTRUSTED = {
    "expired": Untrusted(certificate=-YEAR - DAY),
    "not yet valid": Untrusted(certificate=8 * DAY, reason="not yet valid"),
    "of an authority that has expired": Untrusted(authority=-21 * YEAR),
    "of another cluster": Untrusted(cluster="two", reason="verify failed"),
}


@pytest.fixture(params=UNTRUSTED.values(), ids=list(UNTRUSTED))
def untrusted(request: pytest.FixtureRequest) -> Untrusted:
    case: Untrusted = request.param
    return case


async def test_a_node_refuses_a_client_whose_certificate_is_not_valid(cluster: Cluster, untrusted: Untrusted) -> None:
    now, authority = cluster.runtime.clock.now(), untrusted.authority_of(cluster)
    if untrusted.cluster == "one":
        cluster.authority = authority
    await cluster_joined(cluster)
    own = security.issue_master(authority, now + untrusted.certificate)
    context = cluster.context(own, trust=cluster.authority)
    context.verify_flags |= contexts.NO_CHECK_TIME
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.target.port, ssl=context)
    # with TLS 1.3 the server judges after the client's handshake is over: it hangs up before any request
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    async with cluster.master(context) as master:
        with pytest.raises(errors.RemoteError):
            await master.call(cluster.target, calls.Version())


async def test_the_master_refuses_a_node_whose_certificate_is_not_valid(cluster: Cluster, untrusted: Untrusted) -> None:
    """The node serves with a certificate of its own time, and would accept the master."""
    now, authority = cluster.runtime.clock.now(), untrusted.authority_of(cluster)
    trusted = authority if untrusted.cluster == "one" else cluster.authority
    key, request = security.make_request("node1")
    issued_at = now + untrusted.certificate
    pem = security.issue(authority, request, uuid=UUID, name="node1", address="127.0.0.1", now=issued_at)
    folder, port, paths_requested = Path(cluster.folders.run), ports.free(), []
    (folder / "n.pem").write_bytes(pem)
    (folder / "n.key").write_bytes(key)
    tls = security.node_server_context(f"{folder}/n.pem", f"{folder}/n.key", authority=trusted.certificates)
    tls.verify_flags |= contexts.NO_CHECK_TIME

    async def answer(request: http_interface.Request) -> http_interface.Response:
        paths_requested.append(request.path)
        return http_interface.Response(200, b'[true, "node1"]')

    serving = await cluster.runtime.network.serve_http("127.0.0.1", port, answer, tls=tls, body_limit=1000)
    try:
        own = security.issue_master(trusted, now)
        async with cluster.master(cluster.context(own, trust=trusted)) as master:
            target = targets.Target(UUID, "node1", "127.0.0.1", port)
            with pytest.raises(errors.RemoteError, match=f"no trusted connection.*{untrusted.reason}"):
                await master.call(target, calls.MasterName())
    finally:
        await serving.close()
    assert paths_requested == []


async def test_a_wrong_join_secret_is_refused_and_the_node_stays_alone(cluster: Cluster) -> None:
    ask = calls.Join(secret="wrong", cluster="one", node="node1", uuid=UUID, address="127.0.0.1")
    async with cluster.master() as master:
        with pytest.raises(errors.InvalidError, match="the secret is not the one in this node's join token"):
            await master.join(cluster.target, cluster.token(), ask)
        enrol = calls.Enrol(secret="wrong", certificate="", authority="")
        with pytest.raises(errors.InvalidError, match="the secret is not the one"):
            await master.join(cluster.target, cluster.token(), enrol)
    assert cluster.runtime.disk.exists(f"{cluster.folders.lib}/join-token")


async def test_a_join_token_that_has_ended_or_was_used_is_reported_as_that(cluster: Cluster) -> None:
    token = security.JoinToken.decode(cluster.token())
    former = security.make_bootstrap("node1", cluster.runtime.clock.now()).certificate.decode()
    async with cluster.master() as master:
        with pytest.raises(errors.RemoteError) as ended:
            await master.join(cluster.target, security.JoinToken(token.secret, former).encode(), calls.NodeClock())
        assert ended.value.message == (
            f"node node1 (127.0.0.1 port {cluster.target.port}) does not present the certificate in this join token: "
            "the token has ended, was used, or is that of another machine, or another machine answers there"
        )
        assert "gnt-node add node1" in ended.value.hint
        await cluster.join(master)
        with pytest.raises(errors.RemoteError, match="the token has ended, was used"):
            await master.join(cluster.target, token.encode(), calls.NodeClock())


async def test_a_certificate_that_does_not_fit_is_not_taken(cluster: Cluster) -> None:
    token = security.JoinToken.decode(cluster.token())
    other = security.make_authority("two", cluster.runtime.clock.now())
    ask = calls.Join(secret=token.secret, cluster="one", node="node1", uuid=UUID, address="127.0.0.1")
    async with cluster.master() as master:
        request = (await master.join(cluster.target, token.encode(), ask)).encode()
        pem = security.issue(other, request, uuid=UUID, name="n", address="127.0.0.1", now=cluster.runtime.clock.now())
        wrong = calls.Enrol(
            secret=token.secret, certificate=pem.decode(), authority=cluster.authority.certificates.decode()
        )
        with pytest.raises(errors.InvalidError, match="was not issued by the authority"):
            await master.join(cluster.target, token.encode(), wrong)
    assert not enrollment.Enrolment(cluster.runtime, cluster.folders).joined


async def test_a_call_without_certificate_is_refused(cluster: Cluster) -> None:
    async with cluster.master() as master:
        token = cluster.token()
        await cluster.join(master)
        with pytest.raises(errors.RemoteError, match=r"node node1 \(127.0.0.1"):
            await master.join(cluster.target, token, calls.Version())
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.load_verify_locations(cadata=cluster.authority.certificates.decode())
    async with cluster.master(anonymous) as stranger:
        with pytest.raises(errors.ProtocolError, match="only the cluster's master may call this node"):
            await stranger.call(cluster.target, calls.Version())


async def test_a_call_with_another_clusters_certificate_is_refused(cluster: Cluster) -> None:
    async with cluster.master() as master:
        await cluster.join(master)
    other = security.make_authority("two", cluster.runtime.clock.now())
    async with cluster.master(cluster.master_context(other)) as stranger:
        with pytest.raises(errors.RemoteError):
            await stranger.call(cluster.target, calls.Version())


async def test_a_call_with_a_nodes_own_certificate_is_refused(cluster: Cluster) -> None:
    async with cluster.master() as master:
        await cluster.join(master)
    read = cluster.runtime.disk.read
    own = security.Pair(
        read(f"{cluster.folders.certificates}/node.pem"), read(f"{cluster.folders.certificates}/node.key")
    )
    async with cluster.master(cluster.context(own, trust=cluster.authority)) as stranger:
        with pytest.raises(errors.RemoteError):
            await stranger.call(cluster.target, calls.Version())


async def test_a_certificate_of_the_authority_that_is_not_the_masters_is_refused(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    member = security.make_bootstrap("somebody", cluster.runtime.clock.now())
    der = ssl.PEM_cert_to_DER_cert(member.certificate.decode())
    answer = await cluster.agent.answer(
        http_interface.Request("POST", "/version", b"{}", peer_certificate=der),
    )
    assert answer.status == 400
    assert b"only the cluster's master" in answer.body


async def cluster_joined(cluster: Cluster) -> None:
    async with cluster.master() as master:
        await cluster.join(master)


async def raw(
    cluster: Cluster, path: str, body: bytes = b"{}", *, headers: dict[str, str] | None = None
) -> http_interface.Response:
    """Return the answer to a call of the master, with headers of another version."""
    sender = cluster.runtime.network.http_client(tls=cluster.master_context())
    try:
        return await sender.post("127.0.0.1", cluster.target.port, path, body, headers=headers or {}, timeout=60)
    finally:
        await sender.close()


async def test_a_field_of_a_later_version_is_ignored(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    answer = await raw(cluster, "/master_name", b'{"colour": "red"}')
    assert answer.status == 200


async def test_a_master_too_far_from_this_version_is_refused_with_both_versions(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    later = {"x-gantry-software": "9.1", "x-gantry-protocol": "2-3"}
    answer = await raw(cluster, "/master_name", headers=later)
    assert answer.status == 426
    assert answer.headers["x-gantry-protocol"] == "1-1"
    assert b"runs Gantry test with protocol 1-1, the caller Gantry 9.1 with protocol 2-3: they do not" in answer.body
    assert (await raw(cluster, "/version", headers=later)).status == 200


@pytest.mark.parametrize(
    "path, body, message",
    [
        ("/nonsense", b"{}", b"no call 'nonsense'"),
        ("/master_name", b"not json", b"master_name: JSON is malformed"),
        ("/test_delay", b'{"duration": "long"}', b"Expected `float`"),
        ("/instance_info", b"{}", b"missing required field"),
        (
            "/instance_balloon_memory",
            b'{"instance": {"name": "a", "uuid": "b", "hypervisor": "fake"}, "memory": 4}',
            b"the beparams of the instance have no number minmem",
        ),
        ("/instance_info", b"[" * 50_000, b"more than 100 levels of nesting"),
        ("/test_delay", b'{"duration": %s}' % (b"1" * 5000), b"a number has more than 300 digits"),
        ("/instance_info", b'{"name": "\xff"}', b"'utf-8' codec can't decode byte 0xff"),
    ],
)
async def test_what_cannot_be_read_gets_an_answer_that_says_why(
    cluster: Cluster, path: str, body: bytes, message: bytes
) -> None:
    await cluster_joined(cluster)
    sender = cluster.runtime.network.http_client(tls=cluster.master_context())
    try:
        answer = await sender.post("127.0.0.1", cluster.target.port, path, body, timeout=60)
    finally:
        await sender.close()
    assert answer.status == 400
    assert answer.body.startswith(b'[false,["LuxiError"')
    assert message in answer.body


@pytest.mark.promise("cluster-9")
async def test_a_node_speaks_https_and_json_and_nothing_else(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    where = ("127.0.0.1", cluster.target.port)

    def ask() -> tuple[str | None, object]:
        connection = http.client.HTTPSConnection(*where, context=cluster.master_context(), timeout=60)
        connection.request("POST", "/version", json.dumps({}))
        with contextlib.closing(connection):
            answer = connection.getresponse()
            return answer.getheader("content-type"), json.loads(answer.read())

    kind, content = await asyncio.to_thread(ask)
    assert (kind or "").partition(";")[0] == "application/json"
    expected = {"software": "test", "node": "node1", "uuid": UUID, "cluster": "one"}
    assert isinstance(content, list)
    assert (content[0], content[1] | expected) == (True, content[1])
    reader, writer = await asyncio.open_connection(*where)
    writer.write(b"POST /version HTTP/1.1\r\nHost: node1\r\nContent-Length: 2\r\n\r\n{}")
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            assert not (await reader.read()).startswith(b"HTTP/")
    writer.close()


async def test_a_body_beyond_the_limit_is_refused_without_being_kept(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    sender = cluster.runtime.network.http_client(tls=cluster.master_context())
    try:
        answer = await sender.post("127.0.0.1", cluster.target.port, "/version", b" " * ((64 << 20) + 1), timeout=60)
        assert answer.status == 413
    except OSError:  # the server may hang up while we still send
        pass
    finally:
        await sender.close()
    async with cluster.master() as master:
        assert (await master.call(cluster.target, calls.Version())).node == "node1"


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - it waits for a file
            await asyncio.sleep(0.02)


async def test_a_node_that_leaves_makes_a_new_token_and_can_join_again(cluster: Cluster) -> None:
    first = cluster.token()
    async with cluster.master() as master:
        await cluster.join(master)
        await master.call(cluster.target, calls.WriteSsconf(values={"master_node": "node1"}))
        assert await master.call(cluster.target, calls.MasterName()) == "node1"
        await master.call(cluster.target, calls.NodeLeave())
        await until(lambda: cluster.runtime.disk.exists(f"{cluster.folders.lib}/join-token"))
        assert cluster.token() != first
        assert not cluster.runtime.disk.exists(cluster.folders.ssconf)
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(errors.RemoteError):
                    await cluster.join(master)
                    break
                await asyncio.sleep(0.02)
        assert await master.call(cluster.target, calls.MasterName()) == ""


async def test_a_node_leaves_after_the_calls_at_work_and_refuses_others_meanwhile(cluster: Cluster) -> None:
    """A call that wrote a file of the cluster meanwhile would make the removal fail, and the node could not join."""
    began, may_end = asyncio.Event(), asyncio.Event()
    token = f"{cluster.folders.lib}/join-token"

    async def write(path: str, content: bytes, *, mode: int = 0o600) -> None:
        if path.endswith("ssconf_master_node"):
            began.set()
            await may_end.wait()
        await original(path, content, mode=mode)

    disk = cluster.runtime.disk
    original = disk.write
    async with cluster.master() as master:
        await cluster.join(master)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "write", write)
            writing = asyncio.create_task(master.call(cluster.target, calls.WriteSsconf(values={"master_node": "x"})))
            await began.wait()
            leaving = asyncio.create_task(master.call(cluster.target, calls.NodeLeave()))
            async with asyncio.timeout(60):
                while not await refuses(master, cluster.target):  # noqa: ASYNC110 - it waits for an answer
                    await asyncio.sleep(0.02)
            assert not leaving.done()
            may_end.set()
            await asyncio.gather(writing, leaving)
        await until(lambda: disk.exists(token))
    assert not disk.exists(cluster.folders.ssconf)


async def refuses(master: client.Client, target: targets.Target) -> bool:
    try:
        await master.call(target, calls.MasterName())
    except errors.WrongStateError as error:
        return str(error).endswith("this node is leaving its cluster")
    return False


async def test_a_daemon_that_starts_again_is_still_a_member(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    again = enrollment.Enrolment(cluster.runtime, cluster.folders)
    await again.prepare()
    assert again.context().verify_mode is ssl.CERT_OPTIONAL
    member = again.member()
    assert member is not None
    assert (member.cluster, member.node, member.address) == ("one", "node1", "127.0.0.1")


async def refused_by_headers(port: int, authority: security.Authority, procedure: str) -> bool:
    """Return whether a server refuses a caller that trusts it, but has no certificate, before a body is sent."""
    context = security.member_context(authority.certificates)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
    writer.write(f"POST /{procedure} HTTP/1.1\r\nHost: node\r\nContent-Length: 17000\r\n\r\n".encode())
    try:
        answer = await reader.readuntil(b"]")
    finally:
        writer.close()
    if procedure in ("prove_invitation", "use_invitation"):
        return b" 413 " in answer.splitlines()[0]
    return b"only the cluster's master may call this node" in answer


OF_STRANGERS = (
    "version",
    "node_leave",
    "join",
    "enrol",
    "certificate_store",
    "masters_store",
    "nonsense",
    "prove_invitation",
    "use_invitation",
)


@pytest.mark.parametrize("procedure", OF_STRANGERS)
async def test_a_caller_without_a_certificate_is_refused_before_its_body_is_read(
    cluster: Cluster, procedure: str
) -> None:
    await cluster_joined(cluster)
    assert await refused_by_headers(cluster.target.port, cluster.authority, procedure)


async def test_a_server_that_was_a_member_at_its_start_obeys_no_caller_without_a_certificate(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    again = enrollment.Enrolment(cluster.runtime, cluster.folders)
    await again.prepare()
    port = ports.free()
    serving = await cluster.runtime.network.serve_http(
        "127.0.0.1", port, cluster.agent.answer, tls=again.context(), body_limit=1 << 20, guard=cluster.agent
    )
    try:
        assert await refused_by_headers(port, cluster.authority, "version")
        async with cluster.master() as master:
            target = targets.Target(UUID, "node1", "127.0.0.1", port)
            assert (await master.call(target, calls.Version())).node == "node1"
    finally:
        await serving.close()


class Calling:
    """A connection of a client with a certificate that sends empty calls of Version."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)

    async def status(self) -> bytes:
        """Return the status of an answer, empty if the server has closed the connection."""
        self._writer.write(b"POST /version HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n")
        try:
            async with asyncio.timeout(60):
                head = await self._reader.readuntil(b"\r\n\r\n")
                await self._reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
                return head.split()[1]
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def bounded(cluster: Cluster, allowed: limits.HttpLimits) -> AsyncIterator[int]:
    """Serve the calls of a node on another port, with other limits."""
    identity, port = enrollment.Enrolment(cluster.runtime, cluster.folders), ports.free()
    await identity.prepare()
    tls = identity.context()
    serving = await cluster.runtime.network.serve_http(
        "127.0.0.1", port, cluster.agent.answer, tls=tls, body_limit=1 << 20, allowed=allowed, guard=cluster.agent
    )
    try:
        yield port
    finally:
        await serving.close()


async def test_a_candidate_is_no_stranger_from_its_handshake_on(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    now, files = cluster.runtime.clock.now(), ssconf.Files(cluster.runtime.disk, cluster.folders)
    own, unknown = (security.issue_master(cluster.authority, now) for _ in range(2))
    await files.write({ssconf_file.MASTERS: f"{UUID}={security.key_of(security.der_of(own.certificate))}"})
    async with bounded(cluster, limits.HttpLimits(connections=6, strangers=2, per_peer=6)) as port:
        stranger = Calling(port, cluster.context(unknown, trust=cluster.authority))
        await stranger.open()
        assert await stranger.status() == b"403"
        context = cluster.context(own, trust=cluster.authority)
        candidates = [Calling(port, context) for _ in range(3)]
        for calling in candidates:
            await calling.open()
        assert [await calling.status() for calling in candidates] == [b"400"] * 3
        assert await stranger.status() == b"403"
        for calling in (stranger, *candidates):
            calling.close()


@pytest.mark.parametrize("connects", ["afterwards", "before"])
async def test_the_connections_of_a_former_candidate_do_not_keep_the_master_out(
    cluster: Cluster, connects: str
) -> None:
    """It keeps them busy with calls that are refused, so that none is idle for long."""
    await cluster_joined(cluster)
    now, files = cluster.runtime.clock.now(), ssconf.Files(cluster.runtime.disk, cluster.folders)
    own, former = (security.issue_master(cluster.authority, now) for _ in range(2))
    keys = [f"{UUID}={security.key_of(security.der_of(pair.certificate))}" for pair in (own, former)]
    context = cluster.context(former, trust=cluster.authority)
    async with bounded(cluster, limits.HttpLimits(connections=6, strangers=3, per_peer=6)) as port:
        crowd = [Calling(port, context) for _ in range(6)]
        await files.write({ssconf_file.MASTERS: "\n".join(keys if connects == "before" else keys[:1])})
        for calling in crowd:
            await calling.open()
            assert await calling.status() == (b"400" if connects == "before" else b"403")
        await files.write({ssconf_file.MASTERS: keys[0]})
        alive = 6 if connects == "before" else 3
        assert [await calling.status() for calling in crowd] == [b""] * (6 - alive) + [b"403"] * alive
        async with cluster.master(cluster.context(own, trust=cluster.authority)) as master:
            target = targets.Target(UUID, "node1", "127.0.0.1", port)
            assert (await master.call(target, calls.Version())).node == "node1"
        for calling in crowd:
            calling.close()


def test_a_simulated_node_joins_and_answers_its_master() -> None:
    with simulated.World(seed=1) as world:
        node, master = world.machine("node1"), world.machine("master")
        folders = paths.Paths.below("/g")
        node.spawn(wiring.node(node, folders, software="sim", secure=False).run("node1", 1811))

        async def scenario() -> calls.VersionInfo:
            await master.clock.sleep(1)
            cluster = Cluster(node, folders, 1811, address="node1")
            tls = http_interface.UncheckedContext(ssl.PROTOCOL_TLS_CLIENT)
            nodes = client.Client(master.network, tls)
            await cluster.join(nodes)
            with pytest.raises(errors.GantryError, match="only the cluster's master"):
                await nodes.call(cluster.target, calls.Version())
            tls.present(security.issue_master(cluster.authority, master.clock.now()).certificate)
            await nodes.call(cluster.target, calls.NodeInfo())
            return await nodes.call(cluster.target, calls.Version())

        assert world.run(scenario()) == calls.VersionInfo(software="sim", node="node1", uuid=UUID, cluster="one")


async def test_every_declared_call_is_answered(folders: paths.Paths) -> None:
    agent = wiring.node(samples.runtime(), folders, software="test")
    answered = agent.procedures()
    assert answered == {call.procedure() for call in calls.ALL}


async def test_a_bug_in_a_handler_is_an_answer_and_not_the_end(
    folders: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = samples.runtime()
    agent = wiring.node(runtime, folders, software="test", secure=False)

    def bug(self: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(enrollment.Enrolment, "member", bug)
    answer = await agent.answer(http_interface.Request("POST", "/version", b"{}"))
    assert answer.body == b"""[false,["ProgrammerError",["version: KeyError: 'oops'"]]]"""


async def test_a_call_cannot_write_more_than_a_line_into_the_log(
    folders: paths.Paths, caplog: pytest.LogCaptureFixture
) -> None:
    agent = wiring.node(samples.runtime(), folders, software="test", secure=False)
    with caplog.at_level("INFO"):
        answer = await agent.answer(http_interface.Request("POST", "/" + "x" * 70_000, b"{}"))
    assert answer.status == 400
    assert [len(line) < 1200 for line in caplog.messages] == [True]


async def permitted() -> None:
    """Allow all calls."""


async def test_a_master_that_was_replaced_can_neither_look_nor_start_anything(cluster: Cluster) -> None:
    vm = calls.Instance(name="i1", uuid="u1", hypervisor="fake")
    listing = calls.InstanceList(hypervisors=("fake",))
    failures: list[errors.FencedError] = []
    async with cluster.master() as old, cluster.master() as new:
        await cluster.join(old)
        old.fence(lambda: 3, failures.append, permitted=permitted)
        new.fence(lambda: 4, failures.append, permitted=permitted)
        await new.call(cluster.target, calls.WriteSsconf(values={"master_node": "node2"}))
        assert failures == []
        with pytest.raises(errors.FencedError, match=r"epoch 3 has passed.* name node2 as the master"):
            await old.call(cluster.target, calls.InstanceStart(instance=vm))
        assert len(failures) == 1
        for refused in (listing, calls.NodeInfo(), calls.WriteSsconf(values={"master_node": "node1"})):
            with pytest.raises(errors.FencedError):
                await old.call(cluster.target, refused)
        assert await old.call(cluster.target, calls.MasterName()) == "node2"
        await new.call(cluster.target, calls.InstanceStart(instance=vm))
        assert [running.name for running in await new.call(cluster.target, listing)] == ["i1"]
        await new.call(cluster.target, calls.InstanceShutdown(instance=vm, timeout=0))


@pytest.mark.parametrize("call", [calls.Version(), calls.NodeInfo(), calls.WriteSsconf(values={})])
async def test_a_call_with_a_huge_epoch_does_not_make_the_node_refuse_its_master(
    cluster: Cluster, call: calls.Call[object]
) -> None:
    failures: list[errors.FencedError] = []
    async with cluster.master() as master, cluster.master() as attacker:
        await cluster.join(master)
        master.fence(lambda: 4, failures.append, permitted=permitted)
        attacker.fence(lambda: 4 + calls.EPOCH_STEP + 1, failures.append, permitted=permitted)
        await master.call(cluster.target, calls.WriteSsconf(values={"master_node": "node1"}))
        with contextlib.suppress(errors.ProtocolError):
            await attacker.call(cluster.target, call)
        await master.call(cluster.target, calls.WriteSsconf(values={"master_node": "node1"}))
        assert failures == []


async def test_only_a_master_of_a_proven_epoch_says_how_far_changes_are_acknowledged(cluster: Cluster) -> None:
    pairs = [security.issue_master(cluster.authority, cluster.runtime.clock.now()) for _ in range(2)]
    own_contexts = [cluster.context(pair, trust=cluster.authority) for pair in pairs]
    keys = [security.key_of(security.der_of(pair.certificate)) for pair in pairs]
    async with cluster.master(own_contexts[0]) as old, cluster.master(own_contexts[1]) as new:
        await cluster.join(old, masters=(f"old={keys[0]}", f"new={keys[1]}"))
        old.fence(lambda: 3, lambda error: None, permitted=permitted, acknowledged=lambda: (3, 99))
        new.fence(lambda: 4, lambda error: None, permitted=permitted, acknowledged=lambda: (4, 20))
        await new.call(cluster.target, calls.WriteSsconf(values={}))
        assert (await new.call(cluster.target, calls.CandidateStatus())).acknowledged == (0, 0)
        statement = calls.statement_of_epoch(4, "new")
        grants = tuple(
            calls.Grant(certificate=pair.certificate.decode(), signature=security.sign(pair.key, statement))
            for pair in pairs
        )
        await new.call(cluster.target, calls.ProveEpoch(epoch=4, grants=grants))
        await old.call(cluster.target, calls.Version())
        assert (await new.call(cluster.target, calls.CandidateStatus())).acknowledged == (4, 20)
        # Nothing of a later epoch than that of the call can be acknowledged.
        new.fence(lambda: 4, lambda error: None, permitted=permitted, acknowledged=lambda: (5, 1))
        assert (await new.call(cluster.target, calls.CandidateStatus())).acknowledged == (4, 20)


async def test_an_epoch_that_is_no_number_is_refused(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    own = security.issue_master(cluster.authority, cluster.runtime.clock.now())
    der = ssl.PEM_cert_to_DER_cert(own.certificate.decode())
    for epoch in ("", "-1", "1.5", "x", "٣", "9" * 11, "9" * 4002):
        answer = await cluster.agent.answer(
            http_interface.Request("POST", "/version", b"{}", {calls.EPOCH_HEADER: epoch}, der)
        )
        assert answer.status == 400


async def test_the_master_refuses_a_server_with_another_key(cluster: Cluster) -> None:
    """Its certificate is of the authority and for the right address: of a removed node, or signed with a stolen key."""
    await cluster_joined(cluster)
    context = cluster.master_context()
    assert isinstance(context, security.MemberContext)
    own = security.key_of(security.der_of(cluster.runtime.disk.read(f"{cluster.folders.certificates}/node.pem")))
    expected: dict[str, tuple[str, ...] | None] = {}
    context.keys = lambda address: expected[address]
    for keys in (None, ("another key", own)):
        expected["127.0.0.1"] = keys
        async with cluster.master(context) as master:
            assert (await master.call(cluster.target, calls.Version())).uuid == UUID
    for wrong in ((), ("another key",)):
        expected["127.0.0.1"] = wrong
        async with cluster.master(context) as master:
            with pytest.raises(errors.RemoteError, match="the key of the server at"):
                await master.call(cluster.target, calls.Version())


async def test_a_replaced_certificate_with_the_same_key_is_accepted_until_its_end(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    folder, port = Path(cluster.folders.certificates), ports.free()
    replaced = cluster.runtime.disk.read(f"{folder}/node.pem")
    async with cluster.master() as master:
        request = await master.call(cluster.target, calls.CertificateRequest())
        now, authority = cluster.runtime.clock.now(), cluster.authority.certificates.decode()
        pem = security.issue(cluster.authority, request.encode(), uuid=UUID, name="node1", address="127.0.0.1", now=now)
        await master.call(cluster.target, calls.CertificateStore(authority=authority, certificate=pem.decode()))
        serial = security.facts_of(replaced).serial
        await master.call(cluster.target, calls.WriteSsconf(values={"revoked_certificates": serial}))
    (folder / "replaced.pem").write_bytes(replaced)
    tls = security.node_server_context(f"{folder}/replaced.pem", f"{folder}/node.key", authority=authority.encode())
    context = cluster.master_context()
    assert isinstance(context, security.MemberContext)
    context.keys = lambda _: (security.key_of(security.der_of(pem)),)
    serving = await cluster.runtime.network.serve_http(
        "127.0.0.1", port, cluster.agent.answer, tls=tls, body_limit=1000
    )
    try:
        async with cluster.master(context) as master:
            target = targets.Target(UUID, "node1", "127.0.0.1", port)
            assert (await master.call(target, calls.Version())).uuid == UUID
    finally:
        await serving.close()


async def test_certificates_that_have_ended_are_refused_on_both_sides(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    now = cluster.runtime.clock.now()
    ended = security.issue_master(cluster.authority, now - (security.MASTER_DAYS * 86400 + 60))
    async with cluster.master(cluster.context(ended, trust=cluster.authority)) as former:
        with pytest.raises(errors.RemoteError, match=r"compare the clocks|expired|cannot be reached"):
            await former.call(cluster.target, calls.Version())
    async with cluster.master() as master:
        request = await master.call(cluster.target, calls.CertificateRequest())
        pem = security.issue(
            cluster.authority,
            request.encode(),
            uuid=UUID,
            name="node1",
            address="127.0.0.1",
            now=now - (security.NODE_DAYS * 86400 + 60),
        )
        authority = cluster.authority.certificates.decode()
        await master.call(cluster.target, calls.CertificateStore(authority=authority, certificate=pem.decode()))
    async with cluster.master() as master:
        with pytest.raises(errors.RemoteError, match="has expired"):
            await master.call(cluster.target, calls.Version())


async def test_a_renewed_certificate_is_presented_at_once_and_at_the_next_start(cluster: Cluster) -> None:
    await cluster_joined(cluster)
    before = cluster.runtime.disk.read(f"{cluster.folders.certificates}/node.pem")
    async with cluster.master() as master:
        request = await master.call(cluster.target, calls.CertificateRequest(new_key=True))
        now = cluster.runtime.clock.now()
        pem = security.issue(cluster.authority, request.encode(), uuid=UUID, name="node1", address="127.0.0.1", now=now)
        authority = cluster.authority.certificates.decode()
        with pytest.raises(errors.InvalidError, match="cannot be used"):
            await master.call(
                cluster.target,
                calls.CertificateStore(authority=authority, certificate=before.decode().replace("A", "B")),
            )
        await master.call(cluster.target, calls.CertificateStore(authority=authority, certificate=pem.decode()))
    context = cluster.master_context()
    assert isinstance(context, security.MemberContext)
    context.keys = lambda _: (security.key_of_request(request.encode()),)
    async with cluster.master(context) as master:
        assert (await master.call(cluster.target, calls.Version())).uuid == UUID
    assert cluster.runtime.disk.read(f"{cluster.folders.certificates}/node.pem") == pem != before
    assert not cluster.runtime.disk.exists(f"{cluster.folders.certificates}/next.key")


async def test_a_node_obeys_no_caller_of_an_authority_that_was_replaced(cluster: Cluster) -> None:
    """Neither one that connects, nor one whose connection was open before; the daemon is not restarted."""
    await cluster_joined(cluster)
    former, successor = cluster.authority, security.make_authority("one", cluster.runtime.clock.now())
    own = security.issue_master(successor, cluster.runtime.clock.now())
    async with cluster.master() as before, contextlib.AsyncExitStack() as closing:
        both = security.bundle([former.certificates, successor.certificates])
        await before.call(cluster.target, calls.CertificateStore(authority=both.decode()))
        request = await before.call(cluster.target, calls.CertificateRequest())
        pem = security.issue(successor, request.encode(), uuid=UUID, name="node1", address="127.0.0.1", now=time.time())
        store = calls.CertificateStore(authority=both.decode(), certificate=pem.decode())
        await before.call(cluster.target, store)
        master = await closing.enter_async_context(cluster.master(cluster.context(own, trust=successor)))
        present = successor.certificates.decode()
        await master.call(cluster.target, calls.CertificateStore(authority=present))
        assert (await master.call(cluster.target, calls.Version())).uuid == UUID
        for call in (calls.Version(), calls.MastersStore(masters=(), voucher=calls.Voucher(0, "", ""))):
            with pytest.raises(errors.ProtocolError, match="not of an authority that this node trusts"):
                await before.call(cluster.target, call)
    stolen = cluster.context(security.issue_master(former, cluster.runtime.clock.now()), trust=successor)
    async with cluster.master(stolen) as thief:
        with pytest.raises(errors.RemoteError, match="node node1"):
            await thief.call(cluster.target, calls.Version())
