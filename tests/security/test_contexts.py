import asyncio
import ssl
import time
from pathlib import Path

import pytest

from gantry import security

NOW = 1_750_000_000.0
UUID = "6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001"


class Papers:
    """An authority with a node and a master, as files."""

    def __init__(self, folder: Path, cluster: str, *, now: float) -> None:
        folder.mkdir()
        self.authority = security.make_authority(cluster, now)
        key, request = security.make_request("node1")
        node = security.issue(self.authority, request, uuid=UUID, name="node1", address="127.0.0.1", now=now)
        master = security.issue_master(self.authority, now)
        for name, content in {
            "node.pem": node,
            "node.key": key,
            "master.pem": master.certificate,
            "master.key": master.key,
        }.items():
            (folder / name).write_bytes(content)
        self.folder = folder

    def server(self) -> ssl.SSLContext:
        return security.node_server_context(
            f"{self.folder}/node.pem", f"{self.folder}/node.key", authority=self.authority.certificates
        )

    def client(self, who: str = "master") -> ssl.SSLContext:
        return security.master_client_context(
            f"{self.folder}/{who}.pem", f"{self.folder}/{who}.key", authority=self.authority.certificates
        )


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "one", "one", now=time.time())


async def greet(server: ssl.SSLContext, client: ssl.SSLContext, *, address: str = "127.0.0.1") -> str:
    """Connect over TLS and return the client's name as the server sees it; ``nobody`` without a certificate."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("ssl_object").getpeercert(True)
        writer.write(security.common_name(certificate).encode() if certificate else b"nobody")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=address)
        try:
            answer_text = (await reader.read()).decode()
        finally:
            writer.close()
    if not answer_text:  # with TLS 1.3 the server refuses after the client's handshake is over
        raise ConnectionError("refused")
    return answer_text


async def test_master_and_node_recognise_each_other(papers: Papers) -> None:
    assert await greet(papers.server(), papers.client()) == security.MASTER


async def test_a_client_without_a_certificate_has_no_name(papers: Papers) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=papers.authority.certificates.decode())
    assert await greet(papers.server(), client) == "nobody"


async def test_a_node_refuses_the_master_of_another_cluster(papers: Papers, tmp_path: Path) -> None:
    other = Papers(tmp_path / "two", "two", now=time.time()).client()
    other.load_verify_locations(cadata=papers.authority.certificates.decode())
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await greet(papers.server(), other)


def followed(papers: Papers, folder: Path) -> Papers:
    """Return the files of another authority of the same cluster, which both sides trust besides that of ``papers``."""
    successor = Papers(folder, "one", now=time.time())
    both = security.bundle([papers.authority.certificates, successor.authority.certificates])
    for each in (papers, successor):
        each.authority = each.authority._replace(certificates=both)
    return successor


async def test_a_context_for_one_authority_does_not_trust_the_one_before(papers: Papers, tmp_path: Path) -> None:
    successor = followed(papers, tmp_path / "two")
    for server, client in ((papers, successor), (successor, papers)):
        assert await greet(server.server(), client.client()) == security.MASTER
    own = security.own_certificate(successor.authority)
    successor.authority = successor.authority._replace(certificates=own)
    assert await greet(successor.server(), successor.client()) == security.MASTER
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await greet(successor.server(), papers.client())
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(papers.server(), successor.client())


async def test_a_node_cannot_command_another_with_its_own_certificate(papers: Papers) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await greet(papers.server(), papers.client("node"))


async def test_the_master_refuses_a_node_at_another_address(papers: Papers) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        await greet(papers.server(), papers.client(), address="127.0.0.2")


async def test_the_master_refuses_a_node_of_another_cluster(papers: Papers, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(Papers(tmp_path / "two", "two", now=time.time()).server(), papers.client())


async def test_the_master_certificate_cannot_serve(papers: Papers) -> None:
    server = security.bootstrap_server_context(f"{papers.folder}/master.pem", f"{papers.folder}/master.key")
    client = papers.client()
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        await greet(server, client)


async def test_a_bootstrap_client_trusts_one_certificate_and_no_other(papers: Papers, tmp_path: Path) -> None:
    certificates = [security.make_bootstrap("node1", time.time()) for _ in range(2)]
    (tmp_path / "b.pem").write_bytes(certificates[0].certificate)
    (tmp_path / "b.key").write_bytes(certificates[0].key)
    server = security.bootstrap_server_context(f"{tmp_path}/b.pem", f"{tmp_path}/b.key")
    assert await greet(server, security.bootstrap_client_context(certificates[0].certificate.decode())) == "nobody"
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(server, security.bootstrap_client_context(certificates[1].certificate.decode()))


async def test_old_protocol_versions_are_refused(papers: Papers) -> None:
    assert papers.server().minimum_version >= ssl.TLSVersion.TLSv1_2
    assert papers.client().minimum_version >= ssl.TLSVersion.TLSv1_2
    assert security.service_client_context("").minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_join_token_survives_its_line() -> None:
    token = security.JoinToken("00ff", "-----BEGIN\n")
    assert "\n" not in token.encode()
    assert security.JoinToken.decode(token.encode()) == token


@pytest.mark.parametrize("line", ["", "hello", "{}", '{"secret": 1, "certificate": ""}', '{"secret": "", "x": 1}'])
def test_an_invalid_join_token_is_reported(line: str) -> None:
    with pytest.raises(ValueError, match="not a join token"):
        security.JoinToken.decode(line)


def test_no_certificate_for_a_request_that_was_changed() -> None:
    authority = security.make_authority("one", NOW)
    with pytest.raises(ValueError):
        security.issue(authority, b"nonsense", uuid=UUID, name="n", address="192.0.2.1", now=NOW)


def test_certificates_say_their_names_and_ends() -> None:
    older, newer = security.make_authority("one", NOW), security.make_authority("two", NOW + 86400)
    _, request = security.make_request("node1")
    own = security.issue(older, request, uuid=UUID, name="node1", address="192.0.2.1", now=NOW, other_names=["lab"])
    assert security.name_of(own) == "node1"
    assert security.name_of(security.own_certificate(older)) == ""
    bundle = security.bundle([older.certificates, newer.certificates])
    first, second = security.facts_of_each(bundle)
    assert (first, second) == (security.facts_of(older.certificates), security.facts_of(newer.certificates))
    assert second.end - first.end == 86400
    for read in (security.name_of, security.facts_of_each):
        with pytest.raises(ValueError):
            read(b"no certificate")


def test_enrolment_wants_the_certificate_of_its_own_key_from_that_authority() -> None:
    authority, other = security.make_authority("one", NOW), security.make_authority("two", NOW)
    key, request = security.make_request("node1")
    stranger, _ = security.make_request("node1")
    own = security.issue(authority, request, uuid=UUID, name="n", address="2001:db8::1", now=NOW)
    security.check_issued(security.Pair(own, key), authority.certificates)
    with pytest.raises(ValueError, match="another key"):
        security.check_issued(security.Pair(own, stranger), authority.certificates)
    with pytest.raises(ValueError, match="not issued"):
        security.check_issued(security.Pair(own, key), other.certificates)


def test_what_is_no_certificate_is_not_taken_for_an_authority() -> None:
    with pytest.raises(ValueError, match="this is not a certificate"):
        security.outside_client_context(authority="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


async def test_a_server_outside_the_cluster_is_checked_by_the_given_authority_and_its_name(papers: Papers) -> None:
    server, authority = papers.server(), papers.authority.certificates.decode()
    assert await greet(server, security.outside_client_context(authority=authority)) == "nobody"
    with pytest.raises(ssl.SSLError):
        await greet(server, security.outside_client_context(authority=authority), address="127.0.0.2")
    with pytest.raises(ssl.SSLError):
        await greet(server, security.outside_client_context())


async def test_a_service_of_the_site_is_checked_by_the_authorities_in_a_file_or_by_those_of_the_system(
    papers: Papers, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(papers.authority.certificates)
    trusting = security.service_client_context(str(tmp_path / "ca.pem"))
    assert await greet(papers.server(), trusting) == "nobody"
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        await greet(papers.server(), trusting, address="127.0.0.2")
    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(papers.server(), security.service_client_context(""))
    with pytest.raises(OSError):
        security.service_client_context(str(tmp_path / "missing.pem"))


@pytest.mark.parametrize("authority", ["", "the wrong one"])
async def test_a_server_outside_the_cluster_is_not_checked_if_that_is_switched_off(
    papers: Papers, tmp_path: Path, authority: str
) -> None:
    other = Papers(tmp_path / "two", "two", now=time.time()).authority.certificates.decode()
    client = security.outside_client_context(authority=other if authority else "", is_checked=False)
    assert await greet(papers.server(), client, address="127.0.0.2") == "nobody"
