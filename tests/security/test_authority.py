"""The authority certifies machines only; signatures of machines: what one has signed, and what it has not."""

import pytest
from cryptography import x509

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


def test_a_servers_certificate_names_its_machine_and_what_the_machine_calls_itself(
    machine: tuple[bytes, bytes],
) -> None:
    certificate = x509.load_pem_x509_certificate(machine[0])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert (names.get_values_for_type(x509.DNSName), addresses) == (
        ["node1", "localhost"],
        ["192.0.2.1", "127.0.0.1", "::1"],
    )
    assert security.name_of(machine[0]) == "node1"


def test_a_servers_certificate_names_nothing_twice() -> None:
    _, request = security.make_request("localhost")
    authority = security.make_authority("one", NOW)
    pem = security.issue(authority, request, uuid="u1", name="localhost", address="127.0.0.1", now=NOW)
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "localhost", "::1"]


def test_a_certificate_is_of_one_of_the_authorities_that_are_trusted() -> None:
    first, second = (security.make_authority("one", NOW) for _ in range(2))
    key = security.make_key()
    own = security.der_of(security.issue_master(first, NOW, key=key).certificate)
    both = security.bundle([second.certificates, first.certificates])
    assert [security.is_issued(own, trusted) for trusted in (first.certificates, both)] == [True, True]
    assert not security.is_issued(own, second.certificates)
    itself = security.der_of(security.make_bootstrap("node1", NOW).certificate)
    assert not security.is_issued(itself, both)


def test_a_statement_is_signed_by_the_key_of_the_certificate_only(machine: tuple[bytes, bytes]) -> None:
    certificate, key = machine
    other, _ = security.make_request("node2")
    assert security.is_signed(certificate, b"statement", security.sign(key, b"statement"))
    assert not security.is_signed(certificate, b"another", security.sign(key, b"statement"))
    assert not security.is_signed(certificate, b"statement", security.sign(other, b"statement"))


def test_a_signature_that_is_not_hex_cannot_be_read(machine: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        security.is_signed(machine[0], b"statement", "no hex")
