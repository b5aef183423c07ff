"""The authority certifies machines only; signatures of machines: what one has signed, and what it has not."""

import datetime
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gantry import security

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def machine() -> tuple[bytes, bytes]:
    """The certificate and key of a machine."""
    key, request = security.make_request("node1")
    authority = security.make_authority("one", NOW)
    return security.issue(authority, request, uuid="u1", name="node1", address="192.0.2.1", now=NOW), key


def test_an_authority_cannot_certify_other_authorities() -> None:
    certificate = x509.load_pem_x509_certificate(security.make_authority("one", NOW).certificates)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)


def _names(certificate: bytes) -> list[str]:
    loaded = x509.load_pem_x509_certificate(certificate)
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_the_certificate_of_a_node_names_the_node_alone(machine: tuple[bytes, bytes]) -> None:
    assert _names(machine[0]) == ["192.0.2.1", "node1"]
    assert security.name_of(machine[0]) == "node1"


def test_a_server_for_programs_on_its_machine_has_the_names_that_they_use() -> None:
    _, request = security.make_request("node1")
    authority = security.make_authority("one", NOW)
    pem = security.issue(authority, request, uuid="u1", name="node1", address="192.0.2.1", now=NOW, is_local=True)
    assert _names(pem) == ["192.0.2.1", "node1", "localhost", "127.0.0.1", "::1"]
    assert security.name_of(pem) == "node1"


def test_a_servers_certificate_names_nothing_twice() -> None:
    _, request = security.make_request("localhost")
    authority = security.make_authority("one", NOW)
    pem = security.issue(authority, request, uuid="u1", name="localhost", address="127.0.0.1", now=NOW, is_local=True)
    assert _names(pem) == ["127.0.0.1", "localhost", "::1"]


def test_a_certificate_is_of_one_of_the_authorities_that_are_trusted() -> None:
    first, second = (security.make_authority("one", NOW) for _ in range(2))
    key = security.make_key()
    own = security.der_of(security.issue_master(first, NOW, key=key).certificate)
    both = security.bundle([second.certificates, first.certificates])
    assert [security.is_issued(own, trusted) for trusted in (first.certificates, both)] == [True, True]
    assert not security.is_issued(own, second.certificates)
    itself = security.der_of(security.make_bootstrap("node1", NOW).certificate)
    assert not security.is_issued(itself, both)


def test_the_own_certificate_is_that_of_the_key_and_without_it_the_others_remain() -> None:
    first, second = (security.make_authority("one", NOW) for _ in range(2))
    both = first._replace(certificates=security.bundle([second.certificates, first.certificates]))
    assert security.own_certificate(both) == first.certificates
    assert security.without(both.certificates, first.certificates) == [second.certificates]
    assert security.without(first.certificates, second.certificates) == [first.certificates]
    with pytest.raises(ValueError, match="belongs to none of its certificates"):
        security.own_certificate(second._replace(certificates=first.certificates))


def _request_of_another_kind_of_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node1")])
    request = x509.CertificateSigningRequestBuilder(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def _request_with_another_signature() -> bytes:
    request = x509.load_pem_x509_csr(security.make_request("node1")[1])
    data = bytearray(request.public_bytes(serialization.Encoding.DER))
    data[-1] ^= 1
    return x509.load_der_x509_csr(bytes(data)).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("make_request", [_request_of_another_kind_of_key, _request_with_another_signature])
def test_a_request_that_its_key_has_not_signed_or_of_a_key_without_an_elliptic_curve_gets_no_certificate(
    make_request: Callable[[], bytes],
) -> None:
    authority = security.make_authority("one", NOW)
    with pytest.raises(ValueError, match="the certificate request of node node1 is not valid"):
        security.issue(authority, make_request(), uuid="u1", name="node1", address="192.0.2.1", now=NOW)


def test_a_machine_that_has_not_joined_shows_a_certificate_that_issues_nothing_and_serves_only() -> None:
    certificate = x509.load_pem_x509_certificate(security.make_bootstrap("node1", NOW).certificate)
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    purpose = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert (basic.critical, usage.critical, purpose.critical) == (True, True, True)
    assert not basic.value.ca
    assert not usage.value.key_cert_sign
    assert list(purpose.value) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_statement_is_signed_by_the_key_of_the_certificate_only(machine: tuple[bytes, bytes]) -> None:
    certificate, key = machine
    other, _ = security.make_request("node2")
    assert security.is_signed(certificate, b"statement", security.sign(key, b"statement"))
    assert not security.is_signed(certificate, b"another", security.sign(key, b"statement"))
    assert not security.is_signed(certificate, b"statement", security.sign(other, b"statement"))


def test_a_signature_of_a_key_without_an_elliptic_curve_cannot_be_read() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node1")])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + datetime.timedelta(1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    with pytest.raises(ValueError, match="not an elliptic curve key"):
        security.is_signed(certificate, b"statement", "00")


def test_a_signature_that_is_not_hex_cannot_be_read(machine: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        security.is_signed(machine[0], b"statement", "no hex")
