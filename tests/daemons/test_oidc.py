"""Invalid OpenID Connect options of gantry-rapi: the errors before the server listens."""

from pathlib import Path

import pytest

from gantry.daemons import remote

ISSUER = ("--oidc-issuer", "https://login.example")
CLIENT = (*ISSUER, "--oidc-client-id", "gantry")
WHOLE = (*CLIENT, "--oidc-public-url", "https://gantry.example:5080")
PUBLIC = (*WHOLE, "--oidc-public-client")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--oidc-issuer", "http://login.example"), "the address of --oidc-issuer has no TLS"),
        (("--oidc-issuer", "login.example"), "the address of --oidc-issuer is not a URL"),
        (("--oidc-issuer", "https://login.example/?a=b"), "the address of --oidc-issuer has a query"),
        (ISSUER, "add --oidc-client-id"),
        ((*CLIENT, "--oidc-public-client"), "the address of --oidc-public-url is not a URL"),
        ((*CLIENT, "--oidc-public-url", "http://gantry.example"), "the address of --oidc-public-url has no TLS"),
        ((*CLIENT, "--oidc-public-url", "https://gantry.example/x"), "the address of --oidc-public-url has a path"),
        (WHOLE, "chmod 600"),
        ((*WHOLE, "--oidc-client-secret-file", "/nonexistent"), "add --oidc-public-client if the provider gave none"),
        ((*PUBLIC, "--oidc-scopes", "profile"), "one of them openid"),
        ((*PUBLIC, "--oidc-scopes", 'openid "x"'), "one of them openid"),
        ((*PUBLIC, "--oidc-user-claim", ""), "--oidc-user-claim is empty"),
        ((*PUBLIC, "--oidc-groups-claim", "", "--oidc-admin-group", "a"), "without --oidc-groups-claim nobody"),
        ((*PUBLIC, "--oidc-groups-claim", "", "--oidc-login-group", "a"), "without --oidc-groups-claim nobody"),
        ((*PUBLIC, "--oidc-ca", "/nonexistent"), "cannot load the certificate authorities in /nonexistent"),
        ((*PUBLIC, "--no-console"), "which --no-console switches off"),
    ],
)
def test_invalid_options_are_reported(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    secret = tmp_path / "lib/oidc-secret"
    secret.write_text("sesame\n")
    secret.chmod(0o604)
    assert remote.main(["--root", str(tmp_path), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("content", "message"), [(b"", "is empty"), (b"\n", "is empty"), (b"\xff", "cannot be read")])
def test_a_secret_that_is_none_is_reported(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(content)
    secret.chmod(0o600)
    assert remote.main(["--root", str(tmp_path), *WHOLE, "--oidc-client-secret-file", str(secret)]) == 1
    assert message in capsys.readouterr().err
