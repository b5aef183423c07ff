"""``gantry-kube controllers`` as processes."""

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from tests import ports
from tests.cluster import lab


@dataclass
class Program:
    """A process that can be killed and restarted; its log is in ``folder``."""

    kubeconfig: Path
    folder: Path
    options: tuple[str, ...] = ("--no-leader-elect",)
    port: int = field(default_factory=ports.free)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        where = ["--kubeconfig", str(self.kubeconfig), "--run-folder", str(self.folder)]
        health = ["--bind", "127.0.0.1", "--health-port", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "-m", "gantry.daemons.kube", "controllers", *where, *health, *self.options], stderr=log
            )

    @property
    def is_ready(self) -> bool:
        """Return whether it has listed all kinds."""
        return self.read("readyz") is not None

    @property
    def leads(self) -> bool:
        return "\ngantry_kube_leader 1.0\n" in (self.read("metrics") or "")

    def read(self, path: str) -> str | None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}") as answer:
            return str(answer.read().decode())
        return None

    def kill(self) -> None:
        if self.running:
            self.running.kill()
            self.running.wait(lab.TIMEOUT)
            self.running = None

    def stop(self) -> None:
        """Stop it cleanly; fail if it has ended before."""
        if self.running:
            assert self.running.poll() is None, (self.folder / "log").read_text()[-3000:]
            self.running.terminate()
            assert self.running.wait(lab.TIMEOUT) == 0
            self.running = None


@contextlib.contextmanager
def controllers(kubeconfig: Path, folder: Path, *options: str) -> Iterator[Program]:
    """Run controllers, and wait until they are ready."""
    folder.mkdir(exist_ok=True)
    program = Program(kubeconfig, folder, ("--no-leader-elect", *options))
    program.start()
    try:
        lab.wait_until(lambda: program.is_ready, "the controllers")
        yield program
        program.stop()
    finally:
        program.kill()


def kubeconfig(path: Path, url: str, *, namespace: str = "default") -> Path:
    """Write a kubeconfig for a server without authentication."""
    context = {"cluster": "c", "user": "u", "namespace": namespace}
    content = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": context}],
    }
    path.write_text(yaml.safe_dump(content))
    return path
