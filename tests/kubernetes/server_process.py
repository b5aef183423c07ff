"""An embedded API server as a program of its own, and the stock clients of the Kubernetes API on it.

``kubectl`` is the one of this machine, in as many versions as lie beside it; the virtual environment of the Python
clients is made once for all checkouts.
"""

import abc
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from tests import cache, ports
from tests.cluster import lab

HERE = Path(__file__).parent
CLIENTS = ("kubernetes", "kopf", "lightkube", "kr8s", "kubernetes_asyncio")
OLDEST = (1, 27)


def kubectls() -> list[Path]:
    """Return the programs of this machine: kubectl, or of a bundle of versions those that we support."""
    path = shutil.which("kubectl")
    if not path:
        return []
    bundle = sorted(Path(path).resolve().parent.glob("kubectl.1.*"))
    versions = [(program, re.fullmatch(r"kubectl\.(\d+)\.(\d+)", program.name)) for program in bundle]
    fitting = [version for version, name in versions if name and (int(name[1]), int(name[2])) >= OLDEST]
    return fitting or [Path(path)]


def environment() -> Path:
    """Return the virtual environment with the Python clients, created if it does not exist."""
    return cache.environment("kubernetes-clients", HERE / "constraints.txt", *CLIENTS)


class Reached(abc.ABC):
    """A server of ours or another that programs find by a kubeconfig; ``home`` is their home directory."""

    home: Path

    @property
    @abc.abstractmethod
    def kubeconfig(self) -> Path:
        """Return that of the administrator."""

    def run(self, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program that finds the server by its environment."""
        variables = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}
        return subprocess.run(
            arguments, input=stdin, env=variables, capture_output=True, text=True, timeout=120, check=False
        )

    def python(self, script: Path) -> dict[str, object]:
        """Run a script with the Python clients, and return the JSON that it prints."""
        done = self.run(environment() / "bin/python", script)
        assert done.returncode == 0, done.stdout + done.stderr
        return msgspec.convert(json.loads(done.stdout), dict[str, object])


@dataclass
class ServerProcess(Reached):
    """A server as a process; ``folder`` is its data directory, ``version`` its Kubernetes release."""

    folder: Path
    home: Path
    port: int = field(default_factory=ports.free)
    version: tuple[int, int] = (1, 30)
    with_controllers: bool = False
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        arguments = ["serve", "--data", str(self.folder), "--port", str(self.port)]
        arguments += [] if self.with_controllers else ["--no-controllers"]
        running = self.running = subprocess.Popen([sys.executable, "-m", "gantry.daemons.kube", *arguments])
        lab.wait_until(lambda: self._is_ready or running.poll() is not None, "the API server")
        assert running.poll() is None

    @property
    def _is_ready(self) -> bool:
        return self.kubeconfig.exists() and lab.listens(self.port)

    def stop(self, *, orderly: bool = True) -> None:
        """Stop the process, by ``kill -9`` unless ``orderly``."""
        if self.running:
            self.running.terminate() if orderly else self.running.kill()
            self.running.wait(lab.TIMEOUT)
            self.running = None

    def kill(self) -> None:
        self.stop(orderly=False)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"


@contextlib.contextmanager
def running(folder: Path, *, with_controllers: bool = False) -> Iterator[ServerProcess]:
    """Run a server with TLS and tokens in an empty directory."""
    data, home = folder / "data", folder / "home"
    home.mkdir()
    new_process = ServerProcess(data, home, with_controllers=with_controllers)
    new_process.start()
    try:
        yield new_process
    finally:
        new_process.stop()
