"""Which keys and algorithms a signature may have."""

import base64
import json
import warnings

import pytest
from joserfc import errors as jose_errors
from joserfc import jwk, jws, jwt

from gantry import errors
from gantry.doors.rapi.oidc import id_token

NOW = 1_800_000_000
CLAIMS: dict[str, object] = {"iss": "i", "sub": "s", "aud": "c", "exp": NOW + 9, "iat": NOW, "nonce": "n"}
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
KEYS: dict[str, id_token.Key] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSA),
    "ES256": jwk.ECKey.generate_key("P-256", {"kid": "p256"}),
    "ES384": jwk.ECKey.generate_key("P-384", {"kid": "p384"}),
    "ES512": jwk.ECKey.generate_key("P-521", {"kid": "p521"}),
    "Ed25519": jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"}),
    "EdDSA": jwk.OKPKey.generate_key("Ed25519", {"kid": "eddsa"}),
}


DEEP = base64.urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=") + ".e30.e30"


def checked(token: str, published: list[dict[str, object]]) -> dict[str, object]:
    signed = id_token.signer(token)
    key = id_token.matching(id_token.keys(published), signed)
    assert key is not None
    return id_token.check(token, key, signed, issuer="i", client_id="c", nonce="n", now=NOW)


@pytest.mark.parametrize("algorithm", id_token.ALGORITHMS)
def test_each_algorithm_with_a_public_key_is_accepted(algorithm: str) -> None:
    key = KEYS[algorithm]
    published: list[dict[str, object]] = [{**each.as_dict(private=False)} for each in KEYS.values()]
    with warnings.catch_warnings(action="ignore", category=jose_errors.SecurityWarning):
        token = jwt.encode({"alg": algorithm, "kid": key.kid}, dict(CLAIMS), key, algorithms=[algorithm])
        assert checked(token, published) == CLAIMS
    body = token.split(".")
    body[1] = body[1][:-1] + ("A" if body[1][-1] != "A" else "B")
    with pytest.raises(errors.ForbiddenError, match="its signature is wrong"):
        checked(".".join(body), published)


@pytest.mark.parametrize(
    "change",
    [{"use": "enc"}, {"alg": "RS512"}, {"kid": "other"}, {"kty": "oct", "k": "c2VjcmV0"}, {"n": "AQAB"}, {"n": 7}],
)
def test_a_key_for_something_else_is_not_used(change: dict[str, object]) -> None:
    token = jwt.encode({"alg": "RS256", "kid": "rsa"}, dict(CLAIMS), RSA, algorithms=["RS256"])
    document = {**RSA.as_dict(private=False), **change}
    assert id_token.matching(id_token.keys([document]), id_token.signer(token)) is None
    assert checked(token, [document, {**RSA.as_dict(private=False)}]) == CLAIMS


def test_a_short_key_does_not_count() -> None:
    with warnings.catch_warnings(action="ignore", category=jose_errors.SecurityWarning):
        short = jwk.RSAKey.generate_key(1024, {"kid": "short"})
    assert id_token.keys([{**short.as_dict(private=False)}]) == []


def test_of_very_many_keys_the_first_are_read() -> None:
    key = KEYS["ES256"].as_dict(private=False)
    assert len(id_token.keys([{**key}] * 1000)) == id_token.MAX_KEYS


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "é", "e30.e30.", "bnVsbA.e30.", "\x00" * 99, DEEP])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(errors.ForbiddenError, match="the ID token of the OpenID provider is refused"):
        id_token.signer(token)


@pytest.mark.parametrize("content", [["a"], None, 7, "text"])
def test_a_token_whose_content_is_no_object_is_refused(content: object) -> None:
    key = KEYS["ES256"]
    token = jws.serialize_compact({"alg": "ES256", "kid": "p256"}, json.dumps(content), key, algorithms=["ES256"])
    with pytest.raises(errors.ForbiddenError, match="refused"):
        checked(token, [{**key.as_dict(private=False)}])
