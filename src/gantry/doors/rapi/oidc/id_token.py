"""The checks of an ID token (OpenID Connect Core 1.0, section 3.1.3.7): who signed it, for whom, when, for what log-in.

Signatures, keys and the standard claims are the work of joserfc. The algorithms are those with a public key alone: with
``none`` or a shared key (HS256) anybody who knows the public key could sign.
"""

import hmac
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joserfc import errors as jose_errors
from joserfc import jwk, jws, jwt

from gantry import errors

ALGORITHMS: Mapping[str, str] = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "Ed25519": "OKP", "EdDSA": "OKP",
}  # fmt: skip
"""The algorithms that are accepted, each with the type of its keys."""

RSA_BITS = 2048
"""The smallest RSA key whose signature counts."""
LEEWAY_SECONDS = 60
"""How far the clocks of provider and daemon may differ."""
OLDEST_SECONDS = 600
"""How long ago a token may have been issued: it is fetched at the moment of the log-in."""
MAX_KEYS = 100
"""The keys of a provider that are read."""

Key = jwk.RSAKey | jwk.ECKey | jwk.OKPKey


@dataclass(frozen=True)
class Signer:
    """The algorithm and the name of the key of a token, as its header states them."""

    algorithm: str
    key_id: str | None


def keys(documents: Iterable[Mapping[str, object]]) -> Sequence[Key]:
    """Return the keys of a provider that can check signatures; others are left out (RFC 7517, section 5)."""
    usable: list[Key] = []
    for document in list(documents)[:MAX_KEYS]:
        if document.get("kty") not in ALGORITHMS.values() or document.get("use", "sig") != "sig":
            continue
        try:
            with warnings.catch_warnings(action="ignore", category=jose_errors.SecurityWarning):
                key = jwk.import_key({**document})  # type: ignore[dict-item]
        except (jose_errors.JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, jwk.RSAKey) and key.raw_value.key_size < RSA_BITS:
            continue
        if isinstance(key, Key):
            usable.append(key)
    return usable


def signer(token: str) -> Signer:
    """Return what a token says about its signature, before any check; ForbiddenError for another algorithm."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (jose_errors.JoseError, ValueError, TypeError, RecursionError):
        raise _refused("it is not a signed token") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _refused(f"its signature has the algorithm {str(algorithm)[:20]!r}")
    return Signer(algorithm, key_id if isinstance(key_id, str) else None)


def matching(known: Sequence[Key], signed: Signer) -> Key | None:
    """Return the key of a signature, None if there is none; a token without a key id needs a provider with one key."""
    fitting = [
        key
        for key in known
        if key.key_type == ALGORITHMS[signed.algorithm]
        and key.alg in (None, signed.algorithm)
        and signed.key_id in (None, key.kid)
    ]
    if signed.key_id is None and len(fitting) > 1:
        return None
    return fitting[0] if fitting else None


def check(
    token: str, key: Key, signed: Signer, *, issuer: str, client_id: str, nonce: str, now: float
) -> dict[str, object]:
    """Return the claims of a token for this log-in; ``now`` is in seconds since the epoch. Raises ForbiddenError."""
    registry = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True},
    )
    try:
        with warnings.catch_warnings(action="ignore", category=jose_errors.SecurityWarning):  # the name EdDSA is old
            claims: dict[str, object] = jwt.decode(token, key, algorithms=[signed.algorithm]).claims
        registry.validate(claims)
    except jose_errors.ExpiredTokenError:
        raise _refused("it has expired; do the clocks of the two machines differ?") from None
    except jose_errors.ClaimError as error:
        raise _refused(f"its claim {error.claim!r} is missing or wrong") from None
    except (jose_errors.JoseError, ValueError, TypeError, RecursionError):
        raise _refused("its signature is wrong") from None
    _check_parties(claims, client_id)
    if not hmac.compare_digest(str(claims["nonce"]).encode(errors="replace"), nonce.encode()):
        raise _refused("it belongs to another log-in")
    issued = claims["iat"]
    if isinstance(issued, int | float) and issued < now - OLDEST_SECONDS - LEEWAY_SECONDS:
        raise _refused("it was issued too long ago")
    return claims


def _check_parties(claims: Mapping[str, object], client_id: str) -> None:
    """Refuse a token that was issued to another client, even if this one is among its audiences."""
    audience, party = claims["aud"], claims.get("azp")
    is_shared = isinstance(audience, list) and len(audience) > 1
    if (party is not None or is_shared) and party != client_id:
        raise _refused("it was issued to another client")


def _refused(why: str) -> errors.ForbiddenError:
    return errors.ForbiddenError(f"the ID token of the OpenID provider is refused: {why}")
