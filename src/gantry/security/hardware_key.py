"""A private key that stays in a PKCS#11 token: a hardware security module, a smart card, or SoftHSM.

To ``cryptography`` it is a private key like others, so certificates and revocation lists are signed with it as with a
key in a file. Each signature has a session of its own, and the module is initialized again after a failure, so a token
that was away for a while is found again.

A login belongs to the whole process and not to a session: a second login fails, and the end of either ends both. So
these keys are used by one thread at a time. Each wrong PIN counts as an attempt, and tokens lock themselves after a
few; nothing here tries a PIN twice. The module imports the library python-pkcs11, which is an optional dependency.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pkcs11
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.utils import Buffer
from pkcs11.types import SignMixin

from gantry.security.key_uri import KeyUri

_P256 = bytes.fromhex("06082a8648ce3d030107")
"""The curve's object identifier (RFC 5480, section 2.1.1.1) in DER, as tokens store it."""

_POINT = 65
"""Bytes of an uncompressed point of this curve; tokens store it in an octet string, or bare."""

_HALF = 32
"""Bytes of each of the two numbers of a signature."""

_Match = TypeVar("_Match")


class HardwareKey(ec.EllipticCurvePrivateKey):
    """An elliptic curve key in a token; ``sign`` raises ValueError if the token does not sign."""

    def __init__(self, uri: KeyUri, pin: str, public_key: ec.EllipticCurvePublicKey) -> None:
        self._uri = uri
        self._pin = pin
        self._public_key = public_key

    def public_key(self) -> ec.EllipticCurvePublicKey:
        """Return the public key, which was read when the key was loaded."""
        return self._public_key

    @property
    def curve(self) -> ec.EllipticCurve:
        """The curve of the public key."""
        return self._public_key.curve

    @property
    def key_size(self) -> int:
        """Bits of the key."""
        return self._public_key.key_size

    def sign(self, data: Buffer, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        """Sign in the token, which receives the digest only."""
        if not isinstance(signature_algorithm, ec.ECDSA):
            raise UnsupportedAlgorithm("a key in a token signs with ECDSA only")
        algorithm = signature_algorithm.algorithm
        digest = bytes(data) if isinstance(algorithm, utils.Prehashed) else _digest(data, algorithm)
        with _session(self._uri, self._pin) as session:
            private = _private(session, self._uri)
            if not isinstance(private, SignMixin):
                raise ValueError(f"the key in the token may not sign: {self._uri}")
            numbers = private.sign(digest, mechanism=pkcs11.Mechanism.ECDSA)
        return utils.encode_dss_signature(int.from_bytes(numbers[:_HALF]), int.from_bytes(numbers[_HALF:]))

    def exchange(self, algorithm: ec.ECDH, peer_public_key: ec.EllipticCurvePublicKey) -> bytes:
        """Refuse: an authority signs, and does nothing else."""
        raise UnsupportedAlgorithm("a key in a token is used for signatures only")

    def private_numbers(self) -> ec.EllipticCurvePrivateNumbers:
        """Refuse: the key does not leave its token."""
        raise ValueError(f"the private key stays in its token: {self._uri}")

    def private_bytes(
        self,
        encoding: serialization.Encoding,
        format: serialization.PrivateFormat,  # noqa: A002  # the name that cryptography declares
        encryption_algorithm: serialization.KeySerializationEncryption,
    ) -> bytes:
        """Refuse: the key does not leave its token."""
        raise ValueError(f"the private key stays in its token: {self._uri}")

    def __copy__(self) -> "HardwareKey":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "HardwareKey":
        return self


def load(uri: KeyUri, pin: str) -> HardwareKey:
    """Return the key that a URI names, after one signature as a test; ValueError says why it cannot be used."""
    with _session(uri, pin) as session:
        public_key = _public_key(session, uri, _private(session, uri))
    key = HardwareKey(uri, pin, public_key)
    try:
        public_key.verify(key.sign(b"", ec.ECDSA(hashes.SHA256())), b"", ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise ValueError(f"the public key in the token is not that of the private key: {uri}") from None
    return key


def _digest(data: Buffer, algorithm: hashes.HashAlgorithm) -> bytes:
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()


@contextlib.contextmanager
def _session(uri: KeyUri, pin: str) -> Iterator[pkcs11.Session]:
    """Log in to the token for a moment; all errors of the token become ValueError."""
    try:
        with _token(uri).open(user_pin=pin) as session:
            yield session
    except (pkcs11.PKCS11Error, ValueError) as error:
        _finalize(uri.module)
        raise ValueError(_message(error, uri)) from error


def _finalize(module: str) -> None:
    """Let the next session initialize the module again: some modules find a token that came back only then."""
    with contextlib.suppress(pkcs11.PKCS11Error):
        pkcs11.lib(module).finalize()


def _message(error: Exception, uri: KeyUri) -> str:
    match error:
        case ValueError():
            return str(error)
        case pkcs11.PinIncorrect() | pkcs11.PinInvalid() | pkcs11.PinLenRange():
            return f"the token refuses the PIN, and may lock itself after a few attempts: {uri}"
        case _:
            return f"the token failed ({_reason(error)}): {uri}"


def _reason(error: Exception) -> str:
    return ": ".join(filter(None, [type(error).__name__, str(error)]))


def _token(uri: KeyUri) -> pkcs11.Token:
    try:
        library = pkcs11.lib(uri.module)
    except pkcs11.PKCS11Error as error:
        raise ValueError(f"the PKCS#11 module {uri.module} cannot be loaded ({_reason(error)})") from error
    tokens = [token for token in library.get_tokens() if uri.token.items() <= _attributes(token).items()]
    return _only(tokens, f"tokens with these attributes in the PKCS#11 module {uri.module}", uri)


def _attributes(token: pkcs11.Token) -> dict[str, str]:
    return {
        "token": token.label,
        "manufacturer": token.manufacturer_id,
        "model": token.model,
        "serial": token.serial.decode("utf-8", "replace"),
    }


def _private(session: pkcs11.Session, uri: KeyUri) -> pkcs11.PrivateKey:
    attributes: dict[pkcs11.Attribute, object] = {pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PRIVATE_KEY}
    if uri.label is not None:
        attributes[pkcs11.Attribute.LABEL] = uri.label
    if uri.id is not None:
        attributes[pkcs11.Attribute.ID] = uri.id
    keys = [key for key in session.get_objects(attributes) if isinstance(key, pkcs11.PrivateKey)]
    key = _only(keys, "private keys with these attributes in the token", uri)
    if key.key_type != pkcs11.KeyType.EC or key[pkcs11.Attribute.EC_PARAMS] != _P256:
        raise ValueError(f"the key in the token is not an elliptic curve key on P-256: {uri}")
    return key


def _public_key(session: pkcs11.Session, uri: KeyUri, private: pkcs11.PrivateKey) -> ec.EllipticCurvePublicKey:
    """Return the public key, which a token stores as another object with the same ID."""
    attributes = {pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PUBLIC_KEY, pkcs11.Attribute.ID: private.id}
    key = _only(list(session.get_objects(attributes)), "public keys with the ID of the private key in the token", uri)
    point = bytes(key[pkcs11.Attribute.EC_POINT])
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point[-_POINT:])
    except ValueError as error:
        raise ValueError(f"the public key in the token is not a point on P-256 ({error}): {uri}") from error


def _only(matches: Sequence[_Match], noun: str, uri: KeyUri) -> _Match:
    if len(matches) != 1:
        raise ValueError(f"there are {len(matches) or 'no'} {noun}, and exactly one is needed: {uri}")
    return matches[0]
