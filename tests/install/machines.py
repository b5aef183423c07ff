"""Debian machines with systemd, as containers, on which the packages in ``dist`` are installed.

``base`` is a minimal Debian with a kernel for guests, made once for a run, with the packages as a repository of its own
and with everything downloaded that they depend on: the machines have no way out. Each machine writes into a folder of
its own above this Debian, so it keeps its files when it is switched off. Their cables end at a bridge in a network
namespace.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import leftovers

CHECKOUT = Path(__file__).parents[2]
PACKAGES = CHECKOUT / "dist"
KIND = "gi"
SUITE = "bookworm"
INCLUDED = "dbus,iproute2,iputils-ping,linux-image-cloud-amd64,systemd-sysv"
INSTALLED = "gantry busybox-static"
"""What the tests install; the base has everything that these depend on, but does not have it installed."""
INSTALL = f"apt-get install -qq --yes --no-install-recommends {INSTALLED}"
FOLDER = "/srv/gantry-packages"
"""Where the packages are on a machine."""
BOOT_TIMEOUT_SECONDS = 300.0
"""Generous: a machine that is switched off first waits for its guest, whose processor may be emulated."""
COMMAND_TIMEOUT_SECONDS = 600.0
POLL_SECONDS = 0.1
UP = ("running", "degraded")

NEEDS = [
    pytest.mark.install,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can boot machines"),
    pytest.mark.skipif(not shutil.which("systemd-nspawn"), reason="systemd-nspawn is not installed: make system"),
    pytest.mark.skipif(not any(PACKAGES.glob("gantry_*.deb")), reason="there are no packages: make packages"),
]


class Machine:
    """A machine; ``run`` runs commands on it while it is on."""

    def __init__(self, name: str, folder: Path, base: Path, space: str) -> None:
        self.name = name
        self._space = space
        self._root = folder / name / "root"
        self._console = folder / name / "console"
        self._process: subprocess.Popen[bytes] | None = None
        for each in ("upper", "work", "root"):
            (folder / name / each).mkdir(parents=True)
        layers = f"lowerdir={base},upperdir={folder / name / 'upper'},workdir={folder / name / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self._root], check=True)
        self.write("/etc/hostname", f"{name}\n")
        # As Debian's installer leaves it.
        self.write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost\n")

    def path(self, path: str) -> Path:
        """Return where a file of the machine is here."""
        return self._root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine, which is off or on."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def boot(self) -> None:
        """Switch the machine on, and return when its systemd has started everything."""
        command = ["nsenter", f"--net=/run/netns/{self._space}", "systemd-nspawn", "--register=no", "--keep-unit"]
        command += ["--quiet", "--boot", f"--directory={self._root}", f"--machine={self.name}"]
        command += ["--network-bridge=switch", "--bind=/dev/net/tun"]
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "0"},
                start_new_session=True,
            )
        limit = time.monotonic() + BOOT_TIMEOUT_SECONDS
        while not (self._first() and self.run("systemctl is-system-running", check=False).strip() in UP):
            assert time.monotonic() < limit, f"{self.name} does not boot: {self._console.read_text()[-2000:]}"
            time.sleep(POLL_SECONDS)

    def _first(self) -> int:
        """Return the process id of the machine's first process; 0 if the machine is off."""
        if self._process is None:
            return 0
        listed = subprocess.run(["pgrep", "-P", str(self._process.pid)], check=False, capture_output=True, text=True)
        return int(listed.stdout.split()[0]) if listed.stdout else 0

    def run(self, command: str, *, check: bool = True) -> str:
        """Run a shell command on the machine and return its output; a failure shows the output."""
        inside = ["nsenter", "-t", str(self._first()), "-a", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        inside += ["HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "bash", "-c", command]
        done = subprocess.run(
            inside,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def power_off(self) -> None:
        """Shut the machine down, as its power button does."""
        self.run("systemctl poweroff", check=False)
        if self._process:
            self._process.wait(BOOT_TIMEOUT_SECONDS)
        self._process = None

    def cut_power(self) -> None:
        """End the machine at once."""
        if self._process:
            first = self._first()
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if first:
                # All other processes of the machine end with its first one.
                os.kill(first, signal.SIGKILL)
            self._await_unplugged()
        self._process = None

    def _await_unplugged(self) -> None:
        """Wait until the kernel has removed the machine's end of the cable, which is after its last process."""
        look = ["ip", "-n", self._space, "link", "show", f"vb-{self.name}"]
        limit = time.monotonic() + BOOT_TIMEOUT_SECONDS
        while subprocess.run(look, check=False, capture_output=True).returncode == 0:
            assert time.monotonic() < limit, f"{self.name} continues to run after its power was cut"
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End the machine and unmount its files."""
        self.cut_power()
        subprocess.run(["umount", "--lazy", self._root], check=False)


@contextlib.contextmanager
def base() -> Iterator[Path]:
    """Make the Debian below all machines."""
    with leftovers.folder(KIND) as name:
        root = Path(name, "base")
        subprocess.run([CHECKOUT / "tools/debian-root.sh", SUITE, root, INCLUDED], check=True)
        repository = root / FOLDER[1:]
        shutil.copytree(PACKAGES, repository)
        with (repository / "Packages").open("w") as index:
            subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=repository, check=True, stdout=index)
        (root / "etc/apt/sources.list.d/gantry.list").write_text(f"deb [trusted=yes] file:{FOLDER} ./\n")
        download = (
            f"apt-get update -qq && apt-get install -qq --yes --download-only --no-install-recommends {INSTALLED}"
        )
        subprocess.run(["chroot", root, "sh", "-c", download], check=True, stdout=subprocess.DEVNULL)
        yield root


@contextlib.contextmanager
def site(below: Path, names: list[str]) -> Iterator[dict[str, Machine]]:
    """Make machines that are off, on one bridge."""
    space = leftovers.name(KIND)
    with leftovers.folder(KIND) as folder, contextlib.ExitStack() as ends:
        subprocess.run(["ip", "netns", "add", space], check=True)
        ends.callback(leftovers.end_space, space)
        for command in ("link set lo up", "link add switch type bridge", "link set switch up"):
            subprocess.run(["ip", "-n", space, *command.split()], check=True)
        built = {name: Machine(name, Path(folder), below, space) for name in names}
        for machine in built.values():
            ends.callback(machine.close)
        yield built


@contextlib.contextmanager
def installed(below: Path) -> Iterator[Machine]:
    """Make a machine called ``node`` that is on, and on which everything for one node is installed."""
    with site(below, ["node"]) as machines:
        machines["node"].boot()
        machines["node"].run(INSTALL)
        yield machines["node"]
