"""Nodes with a kernel of their own, for what this machine's kernel cannot: LVM with its device mapper, and DRBD.

A node is a User-Mode Linux process, or QEMU's where that does not run (``hardware``): Debian's kernel, a root file
system that ``image.sh`` makes once (kept in the user's cache, by the content of that script), disks that are sparse
files and can be pulled, and a network card whose cable can be cut. It runs gantry-noded from this checkout. The nodes
of a lab share a bridge in a network namespace of their own; ``entered`` brings the calling thread in, so that it can
reach them.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from tests import leftovers
from tests.node import samples
from tests.real import demonstration
from tests.real.nodes import agent
from tests.real.nodes.hardware import Hardware, choice

import gantry
from gantry import security
from gantry.rpc import calls, client, targets
from gantry.runtime import real

HERE = Path(__file__).parent
KIND = "gu"
ROOT = "/srv/gantry"
PORT = 1811
BOOT_SECONDS = 600

NEEDS = [
    pytest.mark.real,
    demonstration.MINUTES,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not choice.is_possible(), reason="neither User-Mode Linux nor QEMU is installed: make system"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed: make system"),
]
Answer = TypeVar("Answer")


def until(condition: Callable[[], Answer | None], what: str | Callable[[], str], *, timeout: float = 300) -> Answer:
    """Return the result of ``condition`` as soon as it is true; ``what`` describes the failure after the timeout."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(0.1)
    return result


class Node:
    """One node, ``node1`` at 192.0.2.1 and so on."""

    MEMORY: ClassVar[int] = 256
    """MiB."""
    INIT: ClassVar[Path] = HERE / "init.sh"
    """The script that the node's first process is."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        mac = f"52:54:00:00:01:{number:02x}"
        self.hardware = self.hardware_kind()(folder, tap=self.tap, mac=mac, memory=self.MEMORY)

    @classmethod
    def hardware_kind(cls) -> type[Hardware]:
        """Return what nodes of this class run on."""
        return choice.kind()

    @classmethod
    def prepare(cls) -> None:
        """Make what nodes of this class boot from."""
        cls.hardware_kind().prepare()

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"192.0.2.{self.number}"

    @property
    def tap(self) -> str:
        return f"tap{self.number}"

    @property
    def target(self) -> targets.Target:
        return targets.Target(f"uuid-{self.number}", self.name, self.address, PORT)

    def device(self, number: int) -> str:
        return self.hardware.device(number)

    def add_disk(self, size: int) -> str:
        """Add a disk of ``size`` MiB to a node that runs; return its device."""
        return self.device(self.hardware.add_disk(size))

    def pull_disk(self, number: int) -> None:
        """Pull a disk that nothing in the kernel holds."""
        self.hardware.pull_disk(number)

    def start(self) -> None:
        """Boot, with what is on its disks; ``wait`` returns when it is up."""
        self.hardware.start(
            {
                "init.name": self.name,
                "init.address": f"{self.address}/24",
                "init.script": str(self.INIT),
                "init.agent": str(HERE / "agent.py"),
            }
        )

    def wait(self) -> None:
        """Return when the node runs commands."""

        def up() -> bool:
            assert self.hardware.is_on, self._last_words()
            with contextlib.suppress(OSError):
                return self.run("true")[0] == 0
            return False

        until(up, lambda: f"{self.name} did not boot: {self._last_words()}", timeout=BOOT_SECONDS)

    def _last_words(self) -> str:
        return self.hardware.console.read_text(errors="replace")[-2000:]

    def run(self, *arguments: str, timeout: float = 120) -> tuple[int, str]:
        """Run a command in the node; return its exit code and what it wrote."""
        with socket.create_connection((self.address, agent.PORT), timeout=timeout + 10) as connection:
            connection.sendall(json.dumps({"arguments": arguments, "timeout": timeout}).encode() + b"\n")
            with connection.makefile("rb") as file:
                answer = json.loads(file.readline())
        return answer["code"], answer["output"]

    def sh(self, command: str, *, timeout: float = 120) -> str:
        """Run a shell command that succeeds."""
        code, output = self.run("sh", "-ec", command, timeout=timeout)
        assert code == 0, f"{self.name}: {command}: {output}"
        return output.strip()

    def kill(self) -> None:
        """Cut the power."""
        self.hardware.kill()

    def reboot(self) -> None:
        """Switch it on again; return when its daemon listens."""
        self.start()
        self.wait()
        self.start_daemon()

    def start_daemon(self) -> None:
        """Start gantry-noded from this checkout and return when it listens."""
        source = Path(gantry.__file__).parents[1]
        path = f"/host{source}:/host{sysconfig.get_path('purelib')}"
        self.sh(
            f"mkdir -p {ROOT}/run; mountpoint -q {ROOT}/run || mount -t tmpfs run {ROOT}/run;"
            f"export PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1;"
            f"setsid python3 -m gantry.daemons.node --root {ROOT} --name {self.name} >/root/daemon 2>&1 &"
        )

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((self.address, PORT), timeout=10):
                return True
            return False

        until(listens, lambda: f"{self.name} has no daemon: {self.run('cat', '/root/daemon')[1]}")

    def token(self) -> str:
        """Return the line that lets a master in."""
        return self.sh(f"cat {ROOT}/lib/join-token")


@dataclass
class Lab:
    """A few nodes on one bridge, and a master's certificate for all of them."""

    folder: Path
    nodes: list[Node]
    namespace: str
    authority: security.Authority

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the nodes' network, with this thread and what it starts."""
        with samples.entered(self.namespace):
            yield

    def cable(self, node: Node, *, plugged: bool) -> None:
        """Plug a node's cable in, or pull it. (The tap stays up: the node would never notice it come back.)"""
        where = ["master", "br0"] if plugged else ["nomaster"]
        subprocess.run(["ip", "-n", self.namespace, "link", "set", node.tap, *where], check=True)

    def call(self, node: Node, call: calls.Call[Answer]) -> Answer:
        """Call a node as its master."""
        return asyncio.run(self._call(node, call))

    async def _call(self, node: Node, call: calls.Call[Answer]) -> Answer:
        master = client.Client(real.RealRuntime().network, self._tls())
        try:
            return await master.call(node.target, call)
        finally:
            await master.close()

    def _tls(self) -> ssl.SSLContext:
        return security.master_client_context(
            str(self.folder / "master.pem"), str(self.folder / "master.key"), authority=self.authority.certificates
        )

    def join(self, node: Node) -> None:
        """Take a node whose daemon runs into the cluster."""
        asyncio.run(self._join(node))

    async def _join(self, node: Node) -> None:
        token, target = node.token(), node.target
        secret = security.JoinToken.decode(token).secret
        master = client.Client(real.RealRuntime().network, self._tls())
        ask = calls.Join(secret=secret, cluster="lab", node=node.name, uuid=target.uuid, address=node.address)
        request = await master.join(target, token, ask)
        issued = security.issue(
            self.authority, request.encode(),
            uuid=target.uuid, name=node.name, address=node.address, now=time.time(),
        )  # fmt: skip
        trust = self.authority.certificates.decode()
        await master.join(target, token, calls.Enrol(secret=secret, certificate=issued.decode(), authority=trust))
        await master.close()


def _plug_in(namespace: str, nodes: list[Node]) -> None:
    orders = [
        "link set lo up", "link add br0 type bridge", "link set br0 up", "address add 192.0.2.254/24 dev br0",
        *(f"tuntap add {node.tap} mode tap" for node in nodes),
        *(f"link set {node.tap} master br0 up" for node in nodes),
    ]  # fmt: skip
    for order in orders:
        subprocess.run(["ip", "-n", namespace, *order.split()], check=True)


@contextlib.contextmanager
def up(count: int, *, disks: tuple[int, ...], kind: type[Node] = Node, joined: bool = True) -> Iterator[Lab]:
    """Boot nodes with disks of these sizes in MiB and run their daemons, ``joined`` to a master of the lab's own."""
    kind.prepare()
    leftovers.clear(KIND)
    namespace = leftovers.name(KIND)
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    with leftovers.folder(KIND) as folder:
        authority = security.make_authority("lab", time.time())
        lab = Lab(
            Path(folder),
            [kind(number + 1, Path(folder) / str(number + 1)) for number in range(count)],
            namespace,
            authority,
        )
        own = security.issue_master(authority, time.time())
        (lab.folder / "master.pem").write_bytes(own.certificate)
        (lab.folder / "master.key").write_bytes(own.key)
        try:
            _plug_in(namespace, lab.nodes)
            with lab.entered():
                for node in lab.nodes:
                    node.folder.mkdir()
                    for size in disks:
                        node.hardware.add_disk(size)
                    node.start()
                for node in lab.nodes:
                    node.wait()
                    node.start_daemon()
                    if joined:
                        lab.join(node)
            yield lab
        finally:
            for node in lab.nodes:
                node.kill()
            leftovers.end_space(namespace)
