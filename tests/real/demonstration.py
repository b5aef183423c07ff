"""A demonstration of a test's own: three nodes and a real virtual machine, beside whatever else runs here."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import leftovers

CHECKOUT = Path(__file__).parents[2]
NAME = "hello.example"
NETWORK = "demo"
IPV4, IPV6, FIXED = "198.51.100.10", "2001:db8:d::1:0", "198.51.100.200"

MINUTES = pytest.mark.skipif(not os.environ.get("GANTRY_REAL"), reason="takes minutes; make test-real runs it")

NEEDS = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="QEMU is not installed"),
]


@dataclass
class Demo:
    """A demonstration beside a user's own: another folder, other namespaces."""

    folder: str
    prefix: str
    said: str = ""

    @property
    def node(self) -> Path:
        """Return the folder of the node that the virtual machine runs on."""
        return Path(self.folder) / "node2"

    @property
    def guest(self) -> Path:
        """Return the folder of the running guest."""
        return self.node / "run/instances" / NAME

    def script(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DEMO_DIR": self.folder, "DEMO_PREFIX": self.prefix}
        done = subprocess.run(
            [str(CHECKOUT / "demo/demo.sh"), *arguments],
            env=environment, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def gnt(self, *arguments: str) -> str:
        return self.script("gnt", *arguments).stdout

    def on(self, node: int, *command: str) -> str:
        """Run a command on a node."""
        return self.script("shell", str(node), *command).stdout

    def answers(self, address: str) -> bool:
        ping = ["ip", "netns", "exec", f"{self.prefix}3", "ping", "-c", "1", "-W", "1", address]
        return subprocess.run(ping, capture_output=True, check=False).returncode == 0

    def wait(self, address: str, *, answer: bool = True) -> None:
        deadline = time.monotonic() + 120
        while self.answers(address) is not answer:
            assert time.monotonic() < deadline, f"{address}: {'no' if answer else 'still an'} answer"
            time.sleep(0.2)

    def console(self, command: str, *, until: str, timeout: float = 60) -> str:
        """Type a command into the guest's console again and again until it prints a text; return what was read."""
        where = f"UNIX-CONNECT:{self.guest}/serial"
        deadline, read = time.monotonic() + timeout, b""
        with subprocess.Popen(
            ["socat", "-", where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            try:
                while until.encode() not in read:
                    assert time.monotonic() < deadline, read.decode(errors="replace")
                    process.stdin.write(f"\n{command}\n".encode())
                    process.stdin.flush()
                    time.sleep(0.5)
                    read += process.stdout.read() or b""
            finally:
                process.terminate()
        return read.decode(errors="replace")


@contextlib.contextmanager
def up(prefix: str) -> Iterator[Demo]:
    """Start a demonstration and take all of it away afterwards."""
    leftovers.clear(prefix)
    # A name that ends with a letter, as demo/net.sh asks for.
    own = f"{prefix}{os.getpid()}x"
    demo = Demo(tempfile.mkdtemp(prefix=own, dir=leftovers.FOLDERS) + "/d", own)
    try:
        demo.said = demo.script("up").stdout
        yield demo
    finally:
        demo.script("down")
        spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        assert demo.prefix not in spaces
        assert not Path(demo.folder).exists()
        Path(demo.folder).parent.rmdir()
