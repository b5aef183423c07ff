"""The private key of the cluster's authority, as ``lib/certs/authority.key`` has it. The file has one of three forms:

    PKCS#8 in PEM               as ``gnt-cluster init`` makes it
    encrypted PKCS#8 in PEM     the secret is its passphrase
    a PKCS#11 URI on one line   the key is in a token, and the secret is its PIN (see ``key_uri``)

The machines' own keys are always of the first form. Every fault is a ValueError with a message for the operator.
How to change the form: docs/how-to/authority-key.md.
"""

from collections.abc import Callable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gantry.security import key_uri

Secret = Callable[[], bytes]
"""Returns the content of the file with the secret, whose first line counts; ValueError if there is none."""

_ENCRYPTED = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")
"""How an encrypted key says so: PKCS#8, and the older form of OpenSSL."""


def no_secret() -> bytes:
    """Raise ValueError, for where no secret is configured."""
    raise ValueError("the authority's key is encrypted or in a token, and no secret for it is configured")


def load(stored: bytes, *, secret: Secret = no_secret) -> ec.EllipticCurvePrivateKey:
    """Return the key in a file; ``secret`` is called only if the key needs one."""
    if _is_uri(stored):
        return _load_from_token(stored, secret)
    if not _is_encrypted(stored):
        return _load_pem(stored, None, "this is not a private key in PEM, encrypted or not, and not a PKCS#11 URI")
    return _load_pem(stored, _first_line(secret), "the passphrase does not fit the encrypted key, or this is damaged")


def store(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the content of a file with a key; ValueError for a key in a token."""
    return _store(key, serialization.NoEncryption())


def store_like(previous: bytes, key: ec.EllipticCurvePrivateKey, *, secret: Secret = no_secret) -> bytes:
    """Return the content of a file with a new key, encrypted if that of the previous key is.

    ValueError if the previous key is in a token, because Gantry makes no keys there.
    """
    if _is_uri(previous):
        raise ValueError("the authority's key is in a token, where Gantry makes no keys: put it into a file first")
    if _is_encrypted(previous):
        return _store(key, serialization.BestAvailableEncryption(_first_line(secret)))
    return store(key)


def _is_uri(stored: bytes) -> bool:
    return stored.lstrip().startswith(key_uri.SCHEME.encode())


def _is_encrypted(stored: bytes) -> bool:
    return any(mark in stored for mark in _ENCRYPTED)


def _store(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _first_line(secret: Secret) -> bytes:
    """Return the secret as OpenSSL's ``file:`` reads it: the first line, without its end."""
    line = secret().split(b"\n", 1)[0]
    if not line:
        raise ValueError("the secret of the authority's key is empty: write it into the first line of its file")
    return line


def _load_pem(stored: bytes, passphrase: bytes | None, fault: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(stored, passphrase)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{fault} ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("this is not an elliptic curve key on P-256")
    return key


def _load_from_token(stored: bytes, secret: Secret) -> ec.EllipticCurvePrivateKey:
    try:
        from gantry.security import hardware_key
    except ImportError as error:
        raise ValueError(
            "the authority's key is in a token, and the library for tokens is not installed"
            f" (pip install 'python-pkcs11>=0.10,<0.11' in Gantry's environment): {error}"
        ) from error
    uri = key_uri.parse(stored.decode("utf-8", "replace").strip())
    try:
        pin = _first_line(secret).decode()
    except UnicodeDecodeError:
        raise ValueError("the PIN in the secret of the authority's key is not UTF-8") from None
    return hardware_key.load(uri, pin)
