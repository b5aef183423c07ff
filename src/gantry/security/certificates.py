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


def name_of(certificate: bytes) -> str:
    """Return the first DNS name that a certificate is valid for, "" if there is none; ValueError."""
    extensions = x509.load_pem_x509_certificate(certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    return next(iter(names.get_values_for_type(x509.DNSName)), "")


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
    return _facts(x509.load_pem_x509_certificate(certificate))


def facts_of_each(bundle: bytes) -> list[Facts]:
    """Return what the cluster records of each certificate in a text; ValueError if it has no certificate."""
    return [_facts(certificate) for certificate in x509.load_pem_x509_certificates(bundle)]


def _facts(certificate: x509.Certificate) -> Facts:
    key, serial = digest_of(certificate.public_key()), f"{certificate.serial_number:x}"
    return Facts(key, serial, certificate.not_valid_after_utc.timestamp())


def validity_of(certificate: bytes) -> tuple[float, float]:
    """Return begin and end of a certificate, of a bundle the latest begin and the first end; ValueError for none."""
    every = x509.load_pem_x509_certificates(certificate)
    return max(each.not_valid_before_utc.timestamp() for each in every), end_of(certificate)


def end_of(certificate: bytes) -> float:
    """Return when a certificate ends, for a bundle the certificate that ends first; ValueError if there is none."""
    return min(each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(certificate))
