"""Which keys and algorithms a signature may have."""

import base64
import contextlib
import json
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import errors as jose_errors
from joserfc import jwk, jws, jwt

from gantry import errors
from gantry.doors.rapi.oidc import claims, id_token

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
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"kid": "other"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"n": "AQAB"},
        {"n": 7},
        {"n": "*"},
        {"n": ""},
    ],
)
def test_a_key_for_something_else_is_not_used(change: dict[str, object]) -> None:
    token = jwt.encode({"alg": "RS256", "kid": "rsa"}, dict(CLAIMS), RSA, algorithms=["RS256"])
    document = {**RSA.as_dict(private=False), **change}
    assert id_token.matching(id_token.keys([document]), id_token.signer(token)) is None
    assert checked(token, [document, {**RSA.as_dict(private=False)}]) == CLAIMS


def test_a_short_key_does_not_count() -> None:
    with warnings.catch_warnings(action="ignore", category=jose_errors.SecurityWarning):
        short = jwk.RSAKey.generate_key(1024, {"kid": "short"})
    long_enough = {**RSA.as_dict(private=False)}
    assert [key.kid for key in id_token.keys([{**short.as_dict(private=False)}, long_enough])] == [RSA.kid]


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


WORDS = (
    "RSA",
    "EC",
    "OKP",
    "sig",
    "P-256",
    "Ed25519",
    "AQAB",
    "p256",
    "rsa",
    "verify",
    "ES256",
    "RS256",
    "c",
    "i",
    "n",
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
JSON = st.recursive(
    PLAIN,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some, max_size=3),
    max_leaves=6,
)
"""What a provider may answer instead of what it should."""


def mostly(names: str) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(names.split()), JSON, max_size=6)


def refused_or(work: Callable[[], object]) -> None:
    """Do something that may be refused; any other exception is a fault."""
    with contextlib.suppress(errors.ForbiddenError):
        work()


@given(
    change=mostly("kty n e crv x y d use alg kid key_ops x5c x5t k oth"), name=st.sampled_from(["RS256", "ES256", ""])
)
def test_whatever_a_provider_publishes_as_a_key_is_read_or_left_out(change: dict[str, object], name: str) -> None:
    right = KEYS[name].as_dict(private=False) if name else {}
    token = jwt.encode({"alg": "ES256", "kid": "p256"}, dict(CLAIMS), KEYS["ES256"], algorithms=["ES256"])
    known, signed = id_token.keys([{**right, **change}]), id_token.signer(token)
    key = id_token.matching(known, signed)
    if key:
        refused_or(lambda: id_token.check(token, key, signed, issuer="i", client_id="c", nonce="n", now=NOW))


@given(change=mostly("iss sub aud exp iat nbf nonce azp jti preferred_username groups email"))
def test_whatever_a_provider_signs_is_a_user_or_refused(change: dict[str, object]) -> None:
    key, content = KEYS["ES256"], json.dumps({**CLAIMS, **change})
    token = jws.serialize_compact({"alg": "ES256", "kid": "p256"}, content, key, algorithms=["ES256"])
    refused_or(lambda: claims.Mapped().user(checked(token, [{**key.as_dict(private=False)}])))


@given(change=mostly("alg kid crit jwk jku b64 typ cty x5c x5u x"))
def test_whatever_is_in_the_header_of_a_token_without_a_right_signature_it_is_refused(
    change: dict[str, object],
) -> None:
    header = json.dumps({"alg": "ES256", "kid": "p256", **change}).encode()
    parts = (header, json.dumps(CLAIMS).encode(), b"x" * 64)
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    with pytest.raises((errors.ForbiddenError, AssertionError)):
        checked(token, [{**key.as_dict(private=False)} for key in KEYS.values()])
