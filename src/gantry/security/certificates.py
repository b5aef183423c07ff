"""What certificates say: names, keys, serial numbers and ends. Texts are PEM unless a function says DER."""

import functools
import hashlib
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import NameOID

MASTER = "gantry-master"
"""The common name in a master's certificate; only its owner may command nodes."""


class Pair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@functools.lru_cache(maxsize=16)
def common_name(certificate: bytes) -> str:
    """Return the common name of a certificate in DER, or ""; cached, because peers present the same certificates."""
    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


@functools.lru_cache(maxsize=4096)
def key_of(certificate: bytes) -> str:
    """Return the digest of the public key in a certificate in DER: SHA-256, in hex.

    A certificate that is renewed for the same key has the same digest.
    """
    return digest_of(x509.load_der_x509_certificate(certificate).public_key())


def digest_of(key: CertificatePublicKeyTypes) -> str:
    """Return the digest of a public key: SHA-256 of its SubjectPublicKeyInfo (RFC 5280, section 4.1), in hex."""
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


@functools.lru_cache(maxsize=4096)
def serial_of(certificate: bytes) -> str:
    """Return the serial number of a certificate in DER, in hex."""
    return f"{x509.load_der_x509_certificate(certificate).serial_number:x}"


def der_of(certificate: bytes) -> bytes:
    """Return a certificate in DER; ValueError if the text is not a certificate."""
    return x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)


class Facts(NamedTuple):
    """What the cluster records of a certificate: digest of its key, serial number in hex, and its end."""

    key: str
    serial: str
    end: float


def facts_of(certificate: bytes) -> Facts:
    """Return what the cluster records of a certificate; ValueError if it is not a certificate."""
    loaded = x509.load_pem_x509_certificate(certificate)
    return Facts(digest_of(loaded.public_key()), f"{loaded.serial_number:x}", loaded.not_valid_after_utc.timestamp())


def end_of(certificate: bytes) -> float:
    """Return when a certificate ends, for a bundle the certificate that ends first; ValueError if there is none."""
    return min(each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(certificate))
