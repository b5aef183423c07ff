"""The private key of the cluster's authority, as ``lib/certs/authority.key`` has it."""

from collections.abc import Callable

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def _no_secret() -> bytes:
    raise ValueError("it is not stored in clear")


def load(stored: bytes, *, secret: Callable[[], bytes] = _no_secret) -> ec.EllipticCurvePrivateKey:
    """Return the key in a file; ValueError if it is not an elliptic curve key."""
    del secret
    key = serialization.load_pem_private_key(stored, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("this is not an elliptic curve key")
    return key


def store(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the content of a file with a key."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
