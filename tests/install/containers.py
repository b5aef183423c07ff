"""Containers of the images in ``dist``, started as docs/how-to/images.md says.

Images and containers are in a storage of their own, so the tests see no other containers of the machine and end only
theirs. They use runc, because crun, podman's default, needs systemd or cgroups of version 2.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import leftovers
from tests.install import machines

from gantry import __version__

KIND = "gc"
NAMES = ("gantry-api", "gantry-kube")
USER = 65532
HARDENING = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
# The host may allow less than podman's defaults.
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
LIFETIME_SECONDS = 600
COMMAND_TIMEOUT_SECONDS = 120.0


def archive(name: str) -> Path:
    """Return the path of the archive of an image."""
    return machines.PACKAGES / f"{name}-{__version__}.oci.tar"


NEEDS = [
    pytest.mark.install,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start containers"),
    pytest.mark.skipif(not shutil.which("podman"), reason="podman is not installed: make system"),
    pytest.mark.skipif(not all(map(Path.exists, map(archive, NAMES))), reason="there are no images: make images"),
]


class Container:
    """A running container."""

    def __init__(self, engine: "Engine", identity: str) -> None:
        self._engine = engine
        self._identity = identity

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, with the rights of its process."""
        return self._engine.podman("exec", self._identity, *command, check=False)

    @property
    def status(self) -> dict[str, str]:
        """The fields of /proc/PID/status of the container's first process."""
        pid = self._engine.podman("inspect", "--format={{.State.Pid}}", self._identity).stdout.strip()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def log(self) -> str:
        """What the container has written."""
        done = self._engine.podman("logs", self._identity)
        return done.stdout + done.stderr

    def check_running(self) -> None:
        """Fail with the log if the container has ended."""
        state = self._engine.podman("inspect", "--format={{.State.Running}}", self._identity).stdout.strip()
        assert state == "true", self.log

    def stop(self) -> int:
        """Stop the container, as podman and Kubernetes do, and return its exit code."""
        self._engine.podman("stop", "--time=20", self._identity)
        return int(self._engine.podman("inspect", "--format={{.State.ExitCode}}", self._identity).stdout)


class Engine:
    """Podman with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self._command = ["podman", f"--root={folder}/root", f"--runroot={folder}/run", f"--tmpdir={folder}/tmp"]
        self._command += [
            "--storage-driver=overlay",
            "--runtime=runc",
            "--cgroup-manager=cgroupfs",
            "--events-backend=none",
        ]

    def podman(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run podman; a failure shows its output, unless ``check`` is False."""
        done = subprocess.run(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def inspect(self, name: str) -> dict[str, object]:
        """Return the configuration of an image."""
        (image,) = json.loads(self.podman("image", "inspect", f"{name}:{__version__}").stdout)
        configuration: dict[str, object] = image["Config"]
        return configuration

    def run(self, name: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run a container to its end."""
        return self.podman("run", "--rm", *self._options(options), f"{name}:{__version__}", *arguments, check=False)

    @contextlib.contextmanager
    def started(self, name: str, *arguments: str, options: tuple[str, ...] = ()) -> Iterator[Container]:
        """Run a container in the background, and remove it at the end."""
        words = [*self._options(options), f"{name}:{__version__}", *arguments]
        identity = self.podman("run", "--detach", *words).stdout.strip()
        try:
            yield Container(self, identity)
        finally:
            self.podman("rm", "--force", "--time=5", identity)

    @staticmethod
    def _options(options: tuple[str, ...]) -> list[str]:
        return [*HARDENING, *LIMITS, "--network=host", f"--timeout={LIFETIME_SECONDS}", *options]


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """Load the images into an empty storage."""
    with leftovers.folder(KIND) as folder:
        loaded = Engine(Path(folder))
        for name in NAMES:
            loaded.podman("load", "--quiet", f"--input={archive(name)}")
        yield loaded
