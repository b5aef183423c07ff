"""Authentication of master and nodes: the cluster's certificate authority, its certificates, and TLS contexts.

A cluster has one authority (EC P-256), created with the cluster. A node's certificate is for servers only, the master's
for clients only, so OpenSSL's check of the purpose prevents a node from sending commands to another node. A node that
has not joined presents a self-signed certificate, which is in its join token: the master trusts exactly that
certificate. All texts are PEM; times are seconds since the epoch, passed by the caller. An invalid certificate, key,
request or token raises ValueError.
"""

import datetime
import functools
import ipaddress
import ssl
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MASTER = "gantry-master"
"""The common name in the master's certificate; only its owner may command nodes."""

AUTHORITY_DAYS = 7300
ISSUED_DAYS = 3650
# Clocks differ: a certificate is also valid on a node whose clock is this much behind.
EARLIER = datetime.timedelta(days=7)
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""``X509_V_FLAG_NO_CHECK_TIME`` of OpenSSL, which Python does not name."""


class Pair(NamedTuple):
    """A certificate and its private key."""

    certificate: bytes
    key: bytes


class JoinToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token that an administrator copies from a new node to the master: a secret and the node's certificate."""

    secret: str
    certificate: str

    def encode(self) -> str:
        """Return the token as one line of JSON, without a newline."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, line: str) -> "JoinToken":
        """Decode a token; raises ValueError with the problem."""
        try:
            return msgspec.json.decode(line, type=cls)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not a join token: {error}") from None


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("this is not an elliptic curve key")
    return key


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
    authority: Pair,
    public_key: ec.EllipticCurvePublicKey,
    *,
    common_name: str,
    purpose: x509.ObjectIdentifier,
    names: Iterable[x509.GeneralName] = (),
    now: float,
) -> bytes:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = _load_key(authority.key)
    builder = (
        _certificate(public_key, _name(common_name), issuer=issuer.subject, days=ISSUED_DAYS, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    alternatives = list(names)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def make_authority(cluster: str, now: float) -> Pair:
    """Create the authority of a new cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"Gantry cluster {cluster}")
    certificate = (
        _certificate(key.public_key(), subject, issuer=subject, days=AUTHORITY_DAYS, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def make_request(node: str) -> tuple[bytes, bytes]:
    """Create a node's key and certificate request; return both."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(_name(node)).sign(key, hashes.SHA256())
    return _key_pem(key), request.public_bytes(serialization.Encoding.PEM)


def issue(authority: Pair, request: bytes, *, uuid: str, name: str, address: str, now: float) -> bytes:
    """Issue a node's certificate: server only, common name its UUID, valid for its IP address and its name."""
    csr = x509.load_pem_x509_csr(request)
    public_key = csr.public_key()
    if not csr.is_signature_valid or not isinstance(public_key, ec.EllipticCurvePublicKey):
        raise ValueError(f"the certificate request of node {name} is not valid")
    return _issue(
        authority,
        public_key,
        common_name=uuid,
        purpose=ExtendedKeyUsageOID.SERVER_AUTH,
        names=[x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName(name)],
        now=now,
    )


def issue_master(authority: Pair, now: float) -> Pair:
    """Create the master's key and certificate, which is for clients only."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue(
        authority, key.public_key(), common_name=MASTER, purpose=ExtendedKeyUsageOID.CLIENT_AUTH, now=now
    )
    return Pair(certificate, _key_pem(key))


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
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def check_enrolment(own: Pair, authority: bytes) -> None:
    """Raise ValueError unless the certificate belongs to the key and was issued by the authority."""
    certificate = x509.load_pem_x509_certificate(own.certificate)
    if certificate.public_key() != _load_key(own.key).public_key():
        raise ValueError("the certificate belongs to another key")
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (InvalidSignature, TypeError, ValueError) as error:
        raise ValueError("the certificate was not issued by the authority that came with it") from error


def end_of(certificate: bytes) -> float:
    """Return when a certificate in PEM ends."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


@functools.lru_cache(maxsize=16)
def common_name(certificate: bytes) -> str:
    """Return the common name of a certificate in DER, or ""; cached, because peers present the same certificates."""
    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@functools.cache
def unchecked_context(protocol: int) -> ssl.SSLContext:
    """Return a context without certificates, for a simulated network; always the same object."""
    return _context(protocol)


def bootstrap_server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a node that has not joined, from two file names; it requests no client certificate."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def renew_server_context(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Present another certificate from the next connection on, from two file names; raises OSError.

    The files are tried in a new context first: a pair that is only half written would damage the context in use.
    """
    bootstrap_server_context(certificate, key)
    context.load_cert_chain(certificate, key)


def require_authority(context: ssl.SSLContext, certificate: str, key: str, *, authority: bytes) -> None:
    """Turn a bootstrap context into that of a member node, from the next connection on; this cannot be undone."""
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=authority.decode())
    context.verify_mode = ssl.CERT_REQUIRED


def node_server_context(certificate: str, key: str, *, authority: bytes) -> ssl.SSLContext:
    """Return the context of a node's server, which requires a client certificate of this authority.

    ``certificate`` and ``key`` are file names. The node daemon itself checks that the client is the master.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    require_authority(context, certificate, key, authority=authority)
    return context


def stream_server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a node that receives bulk data, from two file names; the sender authenticates by token."""
    return bootstrap_server_context(certificate, key)


def stream_client_context(authority: bytes) -> ssl.SSLContext:
    """Return the context of a node that sends bulk data to another node, which must present its certificate."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    return context


def master_client_context(certificate: str, key: str, *, authority: bytes) -> ssl.SSLContext:
    """Return the master's context, from two file names; a node must present a certificate for its address."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=authority.decode())
    return context


def service_client_context(authorities: str) -> ssl.SSLContext:
    """Return a context for a service of the site, with the authorities in a file, or the system's without a file name.

    Raises OSError if the file cannot be used.
    """
    context = ssl.create_default_context(cafile=authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def bootstrap_client_context(certificate: str) -> ssl.SSLContext:
    """Return a context that trusts exactly one certificate, at any address; raises ValueError if it is invalid.

    It ignores the certificate's dates: if the clocks differ, the master can still ask the node for its time.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= NO_CHECK_TIME
    try:
        context.load_verify_locations(cadata=certificate.encode("ascii").decode())
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"this is not a certificate: {error}") from None
    return context


def outside_client_context(
    *, authority: str = "", certificate: str = "", key: str = "", is_checked: bool = True
) -> ssl.SSLContext:
    """Return the context for a server outside the cluster, which must present a certificate for its name.

    ``authority`` is PEM; if it is empty, the system's authorities apply. ``certificate`` and ``key`` are file names.
    Raises OSError for invalid files, ValueError for an invalid authority.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        try:
            context.load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise ValueError(f"this is not a certificate: {error}") from None
    else:
        context.load_default_certs()
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context
