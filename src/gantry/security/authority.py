"""The cluster's certificate authority: makes it, and issues certificates.

A cluster has one authority (EC P-256), created with the cluster; while it is renewed, the old one is trusted too. A
node's certificate is for servers only, the master's for clients only, so OpenSSL's check of the purpose prevents a node
from sending commands to another node. A machine has one key for both: the cluster records the key of each node, so a
certificate for another key is worthless, whoever issued it. Times are seconds since the epoch, passed by the caller.
An invalid certificate, key or request raises ValueError.
"""

import datetime
import functools
import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gantry.security import authority_key
from gantry.security.certificates import MASTER, Pair, digest_of

AUTHORITY_DAYS = 7300
NODE_DAYS = 365
MASTER_DAYS = 7
"""Short, but longer than the clocks of two nodes of a cluster may differ."""

EARLIER = datetime.timedelta(days=7)
"""Clocks differ: a certificate is also valid on a node whose clock is this much behind."""

LOCAL = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)
"""What a program on the machine itself calls a server that listens on a loopback address.

Only certificates of ``gantry-rapi`` and ``gantry-kube`` have these names: nodes are called at their addresses, and the
key of some node must not prove to be the server of this machine.
"""


class Authority(NamedTuple):
    """The certificates of all authorities that are trusted (PEM), and the key that belongs to one of them."""

    certificates: bytes
    key: ec.EllipticCurvePrivateKey


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(
    public_key: ec.EllipticCurvePublicKey, subject: x509.Name, *, issuer: x509.Name, days: int, now: float
) -> x509.CertificateBuilder:
    start = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - EARLIER)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _issue(
    authority: Authority,
    public_key: ec.EllipticCurvePublicKey,
    *,
    common_name: str,
    purpose: x509.ObjectIdentifier,
    days: int,
    names: Iterable[x509.GeneralName] = (),
    now: float,
) -> bytes:
    key = authority.key
    builder = (
        _certificate(public_key, _name(common_name), issuer=_own(authority).subject, days=days, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    alternatives = list(names)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return _pem(builder.sign(key, hashes.SHA256()))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _own(authority: Authority) -> x509.Certificate:
    """Return the certificate that belongs to the authority's key."""
    for certificate in x509.load_pem_x509_certificates(authority.certificates):
        if certificate.public_key() == authority.key.public_key():
            return certificate
    raise ValueError("the key of the authority belongs to none of its certificates")


def make_authority(cluster: str, now: float) -> Authority:
    """Create the authority of a cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"Gantry cluster {cluster}")
    certificate = (
        _certificate(key.public_key(), subject, issuer=subject, days=AUTHORITY_DAYS, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), key)


def own_certificate(authority: Authority) -> bytes:
    """Return the certificate that belongs to the authority's key, of all that are trusted."""
    return _pem(_own(authority))


def bundle(certificates: Sequence[bytes]) -> bytes:
    """Return the certificates of several authorities as one text, each once."""
    loaded = [each for text in certificates for each in x509.load_pem_x509_certificates(text)]
    return b"".join(_pem(each) for each in dict.fromkeys(loaded))


def without(certificates: bytes, other: bytes) -> list[bytes]:
    """Return the certificates of a bundle, each as a text, without another one."""
    loaded = x509.load_pem_x509_certificates(certificates)
    return [_pem(each) for each in loaded if each != x509.load_pem_x509_certificate(other)]


def make_key() -> bytes:
    """Create the private key of a machine."""
    return authority_key.store(ec.generate_private_key(ec.SECP256R1()))


def make_request(node: str, key: bytes = b"") -> tuple[bytes, bytes]:
    """Return a node's key, which is created unless it is passed, and the certificate request for it."""
    key = key or make_key()
    subject = x509.CertificateSigningRequestBuilder().subject_name(_name(node))
    return key, subject.sign(authority_key.load(key), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def issue(
    authority: Authority,
    request: bytes,
    *,
    uuid: str,
    name: str,
    address: str,
    now: float,
    days: int = NODE_DAYS,
    other_names: Sequence[str] = (),
    is_local: bool = False,
) -> bytes:
    """Issue a server's certificate: common name its UUID, valid for its IP address and its names.

    The first DNS name is ``name``, as ``certificates.name_of`` expects. With ``is_local`` LOCAL follows, for a server
    that may listen on a loopback address.
    """
    csr = x509.load_pem_x509_csr(request)
    public_key = csr.public_key()
    if not csr.is_signature_valid or not isinstance(public_key, ec.EllipticCurvePublicKey):
        raise ValueError(f"the certificate request of node {name} is not valid")
    return _issue(
        authority,
        public_key,
        common_name=uuid,
        purpose=ExtendedKeyUsageOID.SERVER_AUTH,
        days=days,
        names=dict.fromkeys(
            (
                x509.IPAddress(ipaddress.ip_address(address)),
                *map(x509.DNSName, (name, *other_names)),
                *(LOCAL if is_local else ()),
            )
        ),
        now=now,
    )


def key_of_request(request: bytes) -> str:
    """Return the digest of the key in a certificate request, as ``certificates.key_of``; ValueError."""
    return digest_of(x509.load_pem_x509_csr(request).public_key())


def issue_master(authority: Authority, now: float, *, key: bytes = b"") -> Pair:
    """Issue the master's certificate, which is for clients only, for the key of its machine, or for a new key."""
    key = key or make_key()
    certificate = _issue(
        authority,
        authority_key.load(key).public_key(),
        common_name=MASTER,
        purpose=ExtendedKeyUsageOID.CLIENT_AUTH,
        days=MASTER_DAYS,
        now=now,
    )
    return Pair(certificate, key)


def make_bootstrap(node: str, now: float) -> Pair:
    """Create the self-signed certificate that a node presents until it joins; it cannot issue certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(node)
    certificate = (
        _certificate(key.public_key(), subject, issuer=subject, days=AUTHORITY_DAYS, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), authority_key.store(key))


def check_issued(own: Pair, authority: bytes) -> None:
    """Raise ValueError unless the certificate belongs to the key and was issued by one of the trusted authorities."""
    certificate = x509.load_pem_x509_certificate(own.certificate)
    if certificate.public_key() != authority_key.load(own.key).public_key():
        raise ValueError("the certificate belongs to another key")
    if not any(_is_issuer(each, certificate) for each in x509.load_pem_x509_certificates(authority)):
        raise ValueError("the certificate was not issued by the authority that came with it")


@functools.lru_cache(maxsize=16)
def is_issued(certificate: bytes, authority: bytes) -> bool:
    """Return whether one of the trusted authorities issued a certificate in DER; cached, because peers repeat theirs.

    A handshake has checked the certificate; an authority may have been replaced since.
    """
    peer = x509.load_der_x509_certificate(certificate)
    return any(_is_issuer(each, peer) for each in x509.load_pem_x509_certificates(authority))


def _is_issuer(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def sign(key: bytes, statement: bytes) -> str:
    """Return the signature of a machine's key, in hex."""
    return authority_key.load(key).sign(statement, ec.ECDSA(hashes.SHA256())).hex()


def is_signed(certificate: bytes, statement: bytes, signature: str) -> bool:
    """Return whether a signature is that of the key in a certificate; ValueError if one of them cannot be read."""
    key = x509.load_pem_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("this is not an elliptic curve key")
    try:
        key.verify(bytes.fromhex(signature), statement, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
