"""Tokens of SoftHSM for tests; their files are in a folder of the test, and no other tokens are seen."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MODULE = "/usr/lib/softhsm/libsofthsm2.so"
PIN = b"7391"

NEEDED = pytest.mark.skipif(not Path(MODULE).exists(), reason="SoftHSM is not installed: make system")


class SoftHsm:
    """The tokens in a folder; ``SOFTHSM2_CONF`` must name ``configuration`` before the module is loaded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.configuration = str(folder / "softhsm2.conf")
        (folder / "tokens").mkdir()
        (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\n")

    def make_token(self, label: str) -> None:
        self._run("--init-token", "--free", "--label", label, "--so-pin", "55555555")

    def put(self, key: bytes, token: str, label: str, *, key_id: str, has_public: bool = True) -> None:
        """Import a key in PKCS#8 PEM into a token, with its public key or alone."""
        path = self._folder / "key.pem"
        path.write_bytes(key)
        public = [] if has_public else ["--no-public-key"]
        self._run("--import", str(path), "--token", token, "--label", label, "--id", key_id, "--force", *public)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Take the files of all tokens away for a moment."""
        (self._folder / "tokens").rename(self._folder / "away")
        try:
            yield
        finally:
            (self._folder / "away").rename(self._folder / "tokens")

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            ["softhsm2-util", *arguments, "--pin", PIN.decode()],
            env={"SOFTHSM2_CONF": self.configuration, "PATH": "/usr/bin"},
            check=True,
            capture_output=True,
        )


def uri(text: str) -> bytes:
    """Return the content of a file with the URI of a key in SoftHSM."""
    return f"pkcs11:{text}?module-path={MODULE}\n".encode()
