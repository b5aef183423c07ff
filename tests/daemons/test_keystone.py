"""Invalid Keystone options of gantry-rapi: the errors before the server listens."""

from pathlib import Path

import pytest

from gantry.daemons import remote

URL = ("--keystone-url", "https://keystone.example:5000")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "add --keystone-url"),
        (("--keystone-url", "http://keystone.example:5000"), "without TLS passwords and tokens would be sent"),
        ((*URL, "--keystone-password-file", "/nonexistent"), "password file /nonexistent cannot be read"),
        ((*URL, "--keystone-ca", "/nonexistent"), "cannot load the certificate authorities in /nonexistent"),
        (URL, "chmod 600"),
    ],
)
def test_invalid_options_are_reported(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    secret = tmp_path / "lib/keystone-password"
    secret.write_text("sesame\n")
    secret.chmod(0o604 if "chmod" in message else 0o600)
    auth = ("--neutron-port", "1", "--neutron-auth", "keystone", "--root", str(tmp_path))
    assert remote.main([*auth, *options]) == 1
    assert message in capsys.readouterr().err
