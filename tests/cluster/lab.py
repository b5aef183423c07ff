"""A cluster of real daemons as processes on the loopback interface, driven through the real commands.

Guests are those of the ``fake`` hypervisor, so that no root is needed; the disks are real files. ``tests/real`` has the
same with virtual machines.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests import ports

from gantry.runtime.real import RealRuntime

BIN = Path(sys.executable).parent
TIMEOUT = 60.0
CALL_LIMIT_SECONDS = 60.0
"""What each call of a node may take at least; a node that is stopped uses all of it."""

OS_FILES = {
    "ganeti_api_version": "20\n",
    "variants.list": "",
    "parameters.list": "mirror Where its packages are\n",
    "create": '#!/bin/sh\nset -eu\nenv | sort > "$DISK_0_PATH.env"\necho installed > "$DISK_0_PATH.done"\n',
}


def wait_until(condition: Callable[[], bool], what: str, *, timeout: float = TIMEOUT) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:.0f} s for {what}")
        time.sleep(0.02)


@contextlib.contextmanager
def without_waiting_for_a_node() -> Iterator[None]:
    """Fail if the block takes as long as a call of a node that does not answer."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < CALL_LIMIT_SECONDS, "waited for a node"


def files(folder: Path) -> list[Path]:
    """Return all files below a folder; other than ``Path.rglob`` it ignores folders that are removed meanwhile."""
    return [Path(path, name) for path, _, names in os.walk(folder) for name in names]


def listens(port: int, address: str = "127.0.0.1") -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


@dataclass
class Node:
    """A machine: its folder, its port, its daemon."""

    name: str
    root: Path
    port: int
    daemon: subprocess.Popen[bytes] | None = None
    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()
    """What the daemon is started by, such as a program that changes what it sees of the machine."""

    def start(self) -> None:
        where = ["--bind", self.address, "--port", str(self.port), "--root", str(self.root)]
        program = [*self.within, str(BIN / "gantry-noded"), *where, "--name", self.name]
        self.daemon = subprocess.Popen(program, stderr=subprocess.DEVNULL)
        wait_until(self._listens, f"the daemon of {self.name}")

    def _listens(self) -> bool:
        assert self.daemon is None or self.daemon.poll() is None, f"the daemon of {self.name} has ended"
        joined = [self.root / "lib/join-token", self.root / "lib/certs/node.pem"]
        return listens(self.port, self.address) and any(file.exists() for file in joined)

    def stop(self) -> None:
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait(TIMEOUT)


@dataclass
class Lab:
    """Nodes and the commands that run on the first of them, or on ``leader`` when the master has moved."""

    folder: Path
    nodes: list[Node] = field(default_factory=list)
    leader: int = 0

    @property
    def master(self) -> Path:
        return self.nodes[self.leader].root

    def add_machine(self) -> Node:
        name = f"node{len(self.nodes) + 1}"
        root = self.folder / name
        definition = root / "srv/os/plain"
        definition.mkdir(parents=True)
        for file, text in OS_FILES.items():
            (definition / file).write_text(text)
        (definition / "create").chmod(0o755)
        node = Node(name, root, ports.free())
        self.nodes.append(node)
        node.start()
        return node

    def run(
        self, *arguments: object, check: bool = True, on: Node | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the master's machine or ``on`` another; it must succeed unless ``check`` is off."""
        program, *rest = map(str, arguments)
        done = subprocess.run(
            [BIN / program, *rest],
            env={**os.environ, "GANTRY_ROOT": str(on.root if on else self.master), **more},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            raise AssertionError(f"{program} {' '.join(rest)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def refused(self, *arguments: object, code: int = 1, on: Node | None = None) -> str:
        """Run a command that must be refused with one line of reason; return what it said."""
        done = self.run(*arguments, check=False, on=on)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr

    def verified(self) -> str:
        """Return what verify says when it finds nothing wrong: files on the nodes follow a change a moment later."""
        deadline = time.monotonic() + TIMEOUT
        while (done := self.run("gnt-cluster", "verify", check=False)).returncode:
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(0.1)
        return done.stdout

    def rows(self, program: str, fields: str, *names: str) -> list[list[str]]:
        """Return a list command's rows of the given fields."""
        done = self.run(program, "list", "--no-headers", "--separator", "|", "-o", fields, *names)
        return [line.split("|") for line in done.stdout.splitlines()]

    def init(self, *more: object) -> None:
        first = self.add_machine()
        self.run(
            "gnt-cluster", "init", "--enabled-hypervisors", "fake", "--enabled-disk-templates", "file,diskless",
            "--primary-ip", "127.0.0.1", "--port", first.port, "--node-name", first.name, *more, "lab.example",
        )  # fmt: skip

    def add_node(self) -> Node:
        node = self.add_machine()
        token = node.root / "lib/join-token"
        where = ("--primary-ip", "127.0.0.1", "--port", node.port)
        self.run("gnt-node", "add", "--join-token-file", token, *where, node.name)
        return node

    def add_network(self, name: str = "net1") -> None:
        self.run(
            "gnt-network", "add", "--subnet", "cidr=192.0.2.0/24,gateway=192.0.2.1", "--subnet", "cidr=2001:db8::/64",
            "--pool", "192.0.2.10-192.0.2.13,name=lan4", "--pool", "2001:db8::10-2001:db8::ffff,name=lan6", name,
        )  # fmt: skip
        self.run("gnt-network", "connect", "-N", "mode=routed,link=main", name, "default")

    def add_instance(self, name: str, *more: object, nics: str = "ip0=lan4,ip1=lan6,network=net1") -> None:
        self.run("gnt-instance", "add", *instance_arguments(*more, nics=nics), name)

    def luxi(self) -> "Luxi":
        return Luxi(self.master / "run/master.sock")

    def master_pid(self) -> int:
        """Return the process id of the master daemon, which it keeps in the queue's lock."""
        return int((self.master / "lib/queue/lock").read_text().split()[0])

    def kill_master(self) -> None:
        """End the master daemon as a power cut would."""
        pid = self.master_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), "the end of the master")

    def start_master(
        self, *options: str, check: bool = True, on: Node | None = None, within: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """Start the master daemon; ``within`` is a program that starts it."""
        daemon = subprocess.Popen(
            [*within, BIN / "gantry-masterd", *options, "--root", on.root if on else self.master],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if check:
            wait_until(lambda: self.answers() or daemon.poll() is not None, "the master daemon")
            assert daemon.poll() is None, daemon.communicate()[1]
        return daemon

    def answers(self) -> bool:
        with contextlib.suppress(OSError), self.luxi() as luxi:
            return "name" in luxi.call("QueryClusterInfo")
        return False

    def close_daemons(self) -> None:
        for node in self.nodes:
            with contextlib.suppress(OSError, ValueError, IndexError):
                self.stop_master(node)
        for node in self.nodes:
            node.stop()

    def stop_master(self, node: Node) -> None:
        """End the master daemon of a node, which may have none: its node daemon writes to the lock's file too."""
        pid = int((node.root / "lib/queue/lock").read_text().split()[0])
        if b"gantry-masterd" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: is_gone(pid), "the end of the master")

    def close(self) -> None:
        self.close_daemons()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; a zombie has, when none of its threads is left that hold its files."""
    return not RealRuntime().processes.alive(pid)


def instance_arguments(*more: object, nics: str = "ip0=lan4,ip1=lan6,network=net1", size: str = "16m") -> list[object]:
    return ["-t", "file", "--disk", f"0:size={size}", "-o", "plain", "-n", "node1", "--net", f"0:{nics}", *more]


class Luxi:
    """A client of the master's protocol in a few lines."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(str(path))

    def __enter__(self) -> "Luxi":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        data = b""
        while not data.endswith(b"\x03"):
            part = self.socket.recv(1 << 20)
            if not part:
                return data
            data += part
        return data[:-1]

    def exchange(self, method: str, *arguments: object) -> tuple[bool, object]:
        self.send(json.dumps({"method": method, "args": arguments}).encode() + b"\x03")
        answer = json.loads(self.receive())
        return answer["success"], answer["result"]

    def call(self, method: str, *arguments: object) -> dict[str, object]:
        success, result = self.exchange(method, *arguments)
        assert success, result
        return result if isinstance(result, dict) else {"": result}

    def finished(self, number: object) -> list[object]:
        """Wait for the end of a job; return its status and the results of its opcodes."""
        status: object = "queued"
        while status not in ("success", "error", "canceled"):
            answer = self.value("WaitForJobChange", number, ["status"], [status], None, 60)
            if isinstance(answer, list):
                (status,) = answer[0]
        rows = self.value("QueryJobs", [number], ["status", "opresult"])
        assert isinstance(rows, list)
        row: list[object] = rows[0]
        return row

    def value(self, method: str, *arguments: object) -> object:
        return self.call(method, *arguments).get("")


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    """A folder for a lab, with a path short enough for sockets where that of ``tempfile`` is; all ends with it."""
    cluster = Lab(Path(tempfile.mkdtemp(prefix="gl")))
    try:
        yield cluster
    finally:
        cluster.close()
