import copy
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pkcs11
import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils
from tests.security import softhsm
from tests.security.softhsm import PIN, SoftHsm, uri

from gantry.security import authority, authority_key, certificates

NOW = 1_750_000_000.0
P256_KEY = ec.generate_private_key(ec.SECP256R1())
P384_KEY = ec.generate_private_key(ec.SECP384R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)


def pem(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    *,
    passphrase: bytes = b"",
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption)


def unused() -> bytes:
    raise AssertionError("the secret is not needed")


# A key in a file.


def test_a_stored_key_is_loaded_again_without_a_secret() -> None:
    loaded = authority_key.load(authority_key.store(P256_KEY), secret=unused)
    assert loaded.private_numbers() == P256_KEY.private_numbers()


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_is_loaded_with_the_first_line_of_the_secret(form: serialization.PrivateFormat) -> None:
    stored = pem(P256_KEY, passphrase=b"a word", form=form)
    loaded = authority_key.load(stored, secret=lambda: b"a word\nanother line\n")
    assert loaded.private_numbers() == P256_KEY.private_numbers()


@pytest.mark.parametrize("options", [[], ["-scrypt"], ["-v2", "aes-256-cbc", "-iter", "5000"]])
def test_a_key_that_openssl_encrypted_is_loaded(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "secret").write_bytes(b"a word\nanother line\n")
    (tmp_path / "key").write_bytes(pem(P256_KEY))
    command = ["openssl", "pkcs8", "-topk8", *options, "-in", f"{tmp_path}/key", "-passout", f"file:{tmp_path}/secret"]
    stored = subprocess.run(command, check=True, capture_output=True).stdout
    loaded = authority_key.load(stored, secret=(tmp_path / "secret").read_bytes)
    assert loaded.private_numbers() == P256_KEY.private_numbers()


def test_an_encrypted_key_is_refused_without_a_secret() -> None:
    with pytest.raises(ValueError, match="no secret for it is configured"):
        authority_key.load(pem(P256_KEY, passphrase=b"a word"))


@pytest.mark.parametrize("secret", [b"", b"\n", b"\na word\n"])
def test_an_empty_secret_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret of the authority's key is empty"):
        authority_key.load(pem(P256_KEY, passphrase=b"a word"), secret=lambda: secret)


@pytest.mark.parametrize("secret", [b"another word", b" a word", b"a word ", b"a word\r\n"])
def test_another_passphrase_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the passphrase does not fit the encrypted key"):
        authority_key.load(pem(P256_KEY, passphrase=b"a word"), secret=lambda: secret)


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff", b"-----BEGIN PRIVATE KEY-----\n", pem(P256_KEY)[:-60], b"http://x"],
    ids=["empty", "binary", "first line", "truncated", "another URI"],
)
def test_content_that_is_no_key_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match="this is not a private key in PEM"):
        authority_key.load(stored)


def test_a_damaged_encrypted_key_is_refused() -> None:
    stored = pem(P256_KEY, passphrase=b"a word").replace(b"M", b"N", 1)
    with pytest.raises(ValueError, match="or this is damaged"):
        authority_key.load(stored, secret=lambda: b"a word")


@pytest.mark.parametrize("key", [P384_KEY, RSA_KEY], ids=["P-384", "RSA"])
@pytest.mark.parametrize("passphrase", [b"", b"a word"], ids=["clear", "encrypted"])
def test_a_key_that_is_not_on_p256_is_refused(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, passphrase: bytes
) -> None:
    with pytest.raises(ValueError, match="not an elliptic curve key on P-256"):
        authority_key.load(pem(key, passphrase=passphrase), secret=lambda: passphrase)


# The key that follows another key.


def test_a_key_that_follows_an_encrypted_key_is_encrypted_with_the_same_secret() -> None:
    following = ec.generate_private_key(ec.SECP256R1())
    stored = authority_key.store_like(pem(P256_KEY, passphrase=b"old"), following, secret=lambda: b"a word\n")
    assert stored.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    loaded = authority_key.load(stored, secret=lambda: b"a word\n")
    assert loaded.private_numbers() == following.private_numbers()


def test_a_key_that_follows_a_key_in_clear_is_in_clear() -> None:
    stored = authority_key.store_like(pem(RSA_KEY), P256_KEY, secret=unused)
    assert stored == authority_key.store(P256_KEY)


def test_no_key_follows_a_key_in_a_token() -> None:
    with pytest.raises(ValueError, match="the authority's key is in a token, where Gantry makes no keys"):
        authority_key.store_like(uri("token=gantry;object=authority"), P256_KEY, secret=unused)


# A key in a token.

AUTHORITY = authority.make_authority("c", NOW)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    """Tokens with all keys of the tests."""
    hsm = SoftHsm(tmp_path_factory.mktemp("softhsm"))
    for label in ("gantry", "a token; 50% full", "twin", "twin"):
        hsm.make_token(label)
    own = pem(AUTHORITY.key)
    hsm.put(own, "gantry", "authority", key_id="01")
    hsm.put(own, "a token; 50% full", "key?", key_id="ff00")
    hsm.put(pem(P384_KEY), "gantry", "p384", key_id="02")
    hsm.put(pem(RSA_KEY), "gantry", "rsa", key_id="03")
    hsm.put(own, "gantry", "without public", key_id="04", has_public=False)
    hsm.put(own, "gantry", "mixed", key_id="05", has_public=False)
    hsm.put(own, "gantry", "no point", key_id="0a", has_public=False)
    hsm.put(own, "gantry", "double", key_id="06")
    hsm.put(own, "gantry", "double", key_id="07")
    hsm.put(own, "gantry", "lost", key_id="08")
    hsm.put(own, "gantry", "no signatures", key_id="09")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", hsm.configuration)
        yield hsm
        pkcs11.unload(softhsm.MODULE)


def change(label: str) -> pkcs11.Session:
    """Return a session that may change a token."""
    return pkcs11.lib(softhsm.MODULE).get_token(token_label=label).open(rw=True, user_pin=PIN.decode())


def load(text: str, *, secret: bytes = PIN) -> ec.EllipticCurvePrivateKey:
    return authority_key.load(uri(text), secret=lambda: secret)


@pytest.fixture
def in_token(tokens: SoftHsm) -> authority.Authority:
    """The authority, whose key is in a token."""
    return authority.Authority(AUTHORITY.certificates, load("token=gantry;object=authority"))


def check_issued(certificate: bytes) -> None:
    """Raise InvalidSignature unless a certificate was issued with the authority's key."""
    own = x509.load_pem_x509_certificate(AUTHORITY.certificates)
    x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(own)


def accepts(folder: Path, node: certificates.Pair, authority_certificate: bytes) -> bool:
    """Return whether OpenSSL accepts a node's certificate, as a client that trusts an authority."""
    (folder / "node.pem").write_bytes(node.certificate)
    (folder / "node.key").write_bytes(node.key)
    (folder / "trusted.pem").write_bytes(authority_certificate)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / "node.pem", folder / "node.key")
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.load_verify_locations(folder / "trusted.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="192.0.2.1")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError:
            return False
    return client.getpeercert() != {}


@softhsm.NEEDED
def test_a_key_in_a_token_issues_certificates_that_openssl_accepts(
    in_token: authority.Authority, tmp_path: Path
) -> None:
    now = time.time()
    own, request = authority.make_request("node1")
    issued = authority.issue(in_token, request, uuid="6f0d", name="node1", address="192.0.2.1", now=now)
    check_issued(issued)
    node = certificates.Pair(issued, own)
    assert accepts(tmp_path, node, AUTHORITY.certificates)
    assert not accepts(tmp_path, node, authority.make_authority("another", now).certificates)


@softhsm.NEEDED
def test_a_key_in_a_token_issues_the_masters_certificate(in_token: authority.Authority) -> None:
    issued = authority.issue_master(in_token, NOW).certificate
    check_issued(issued)


@softhsm.NEEDED
def test_a_key_in_a_token_signs_requests_and_digests(in_token: authority.Authority) -> None:
    key = in_token.key
    assert x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256()).is_signature_valid
    algorithm = ec.ECDSA(utils.Prehashed(hashes.SHA384()))
    key.public_key().verify(key.sign(b"d" * 48, algorithm), b"d" * 48, algorithm)


@softhsm.NEEDED
def test_a_key_in_a_token_has_its_public_half_but_never_leaves_the_token(in_token: authority.Authority) -> None:
    key = in_token.key
    assert key.public_key() == AUTHORITY.key.public_key()
    assert (key.key_size, key.curve.name) == (256, "secp256r1")
    assert copy.deepcopy(key) is copy.copy(key) is key
    with pytest.raises(ValueError, match="the private key stays in its token: pkcs11:token=gantry;object=authority"):
        authority_key.store(key)
    with pytest.raises(ValueError, match="the private key stays in its token"):
        key.private_numbers()
    with pytest.raises(UnsupportedAlgorithm, match="signs with ECDSA only"):
        key.sign(b"data", None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedAlgorithm):
        key.exchange(ec.ECDH(), key.public_key())


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    "text",
    [
        "token=a%20token%3B%2050%25%20full;object=key%3f;type=private",
        "id=%FF%00;manufacturer=SoftHSM%20project;model=SoftHSM%20v2;token=a%20token%3B%2050%25%20full",
        "token=gantry;object=double;id=%07",
    ],
)
def test_a_key_is_found_by_any_of_its_attributes(text: str) -> None:
    assert load(text, secret=PIN + b"\nanother line\n").public_key() == AUTHORITY.key.public_key()


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("token=other;object=authority", "there are no tokens with these attributes in the PKCS#11 module /usr/lib/"),
        ("token=gantry;serial=00;object=authority", "there are no tokens with these attributes"),
        ("token=twin;object=authority", "there are 2 tokens with these attributes"),
        ("token=gantry;object=other", "there are no private keys with these attributes in the token"),
        ("token=gantry;object=authority;id=%02", "there are no private keys with these attributes in the token"),
        ("token=gantry;object=double", "there are 2 private keys with these attributes in the token"),
        ("token=gantry;object=p384", "the key in the token is not an elliptic curve key on P-256"),
        ("token=gantry;object=rsa", "the key in the token is not an elliptic curve key on P-256"),
        ("token=gantry;object=without%20public", "there are no public keys with the ID of the private key"),
    ],
)
def test_a_key_that_the_uri_does_not_name_exactly_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}.*: pkcs11:token="):
        load(text)


POINT = P256_KEY.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    ("label", "key_id", "point", "message"),
    [
        ("mixed", b"\x05", POINT, "the public key in the token is not that of the private key"),
        ("no point", b"\x0a", b"\x04" + b"p" * 64, "the public key in the token is not a point on P-256"),
    ],
    ids=["another key", "no point"],
)
def test_a_public_key_that_does_not_fit_the_private_key_is_refused(
    label: str, key_id: bytes, point: bytes, message: str
) -> None:
    attributes = {
        pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PUBLIC_KEY,
        pkcs11.Attribute.KEY_TYPE: pkcs11.KeyType.EC,
        pkcs11.Attribute.ID: key_id,
        pkcs11.Attribute.EC_PARAMS: pkcs11.util.ec.encode_named_curve_parameters("secp256r1"),
        pkcs11.Attribute.EC_POINT: b"\x04\x41" + point,
    }
    with change("gantry") as session:
        session.create_object(attributes | {pkcs11.Attribute.TOKEN: True})
    with pytest.raises(ValueError, match=message):
        load(f"token=gantry;object={label.replace(' ', '%20')}")


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
def test_a_key_that_may_not_sign_is_refused() -> None:
    with change("gantry") as session:
        session.get_key(pkcs11.ObjectClass.PRIVATE_KEY, id=b"\x09")[pkcs11.Attribute.SIGN] = False
    with pytest.raises(ValueError, match="the key in the token may not sign"):
        load("token=gantry;object=no%20signatures")


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize("pin", [b"1111", b"1", b" 7391", b"9" * 300])
def test_a_wrong_pin_is_refused_and_the_right_pin_counts_afterwards(pin: bytes) -> None:
    with pytest.raises(ValueError, match="the token refuses the PIN") as caught:
        load("token=gantry;object=authority", secret=pin)
    assert str(caught.value).endswith(": pkcs11:token=gantry;object=authority")
    load("token=gantry;object=authority")


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
def test_a_pin_that_is_not_text_is_refused() -> None:
    with pytest.raises(ValueError, match="the PIN in the secret of the authority's key is not UTF-8"):
        load("token=gantry;object=authority", secret=b"\xff\xfe")


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
def test_a_key_in_a_token_is_refused_without_a_secret() -> None:
    with pytest.raises(ValueError, match="no secret for it is configured"):
        authority_key.load(uri("token=gantry;object=authority"))


@softhsm.NEEDED
@pytest.mark.usefixtures("tokens")
def test_a_signature_fails_with_the_reason_when_the_key_has_gone_since_it_was_loaded() -> None:
    lost = authority.Authority(AUTHORITY.certificates, load("token=gantry;object=lost"))
    with change("gantry") as session:
        session.get_key(pkcs11.ObjectClass.PRIVATE_KEY, id=b"\x08").destroy()
    with pytest.raises(ValueError, match="there are no private keys with these attributes in the token, and"):
        authority.issue_master(lost, NOW)


@softhsm.NEEDED
def test_a_token_is_found_that_was_made_after_a_failure(tokens: SoftHsm) -> None:
    with pytest.raises(ValueError, match="there are no tokens with these attributes"):
        load("token=new;object=authority")
    tokens.make_token("new")
    tokens.put(pem(AUTHORITY.key), "new", "authority", key_id="01")
    assert load("token=new;object=authority").public_key() == AUTHORITY.key.public_key()


@softhsm.NEEDED
def test_a_token_that_comes_back_signs_again(tokens: SoftHsm, in_token: authority.Authority) -> None:
    with tokens.away(), pytest.raises(ValueError, match=r"the token failed \(GeneralError\): pkcs11:token=gantry"):
        authority.issue_master(in_token, NOW)
    issued = authority.issue_master(in_token, NOW).certificate
    check_issued(issued)


@pytest.mark.parametrize(
    ("module", "reason"),
    [("/nonexistent/module.so", "No such file or directory"), (sys.executable, "")],
    ids=["missing", "no library"],
)
def test_a_module_that_cannot_be_loaded_is_named(module: str, reason: str) -> None:
    stored = f"pkcs11:token=gantry;object=authority?module-path={module}".encode()
    with pytest.raises(ValueError, match=f"the PKCS#11 module {module} cannot be loaded .*{reason}"):
        authority_key.load(stored, secret=lambda: PIN)


def test_without_the_library_for_tokens_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gantry.security.hardware_key", raising=False)
    monkeypatch.delattr("gantry.security.hardware_key", raising=False)
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    with pytest.raises(ValueError, match="pip install 'python-pkcs11>="):
        authority_key.load(uri("token=gantry;object=authority"), secret=lambda: PIN)
