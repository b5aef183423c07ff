"""A cluster whose machines are network namespaces on one switch, the cables of which can be cut, under load.

``play`` does in rounds what happens to a cluster whose master is cut off: the cable of the master is cut while clients
of all machines submit jobs, in most rounds another machine takes over the role, the cable is healed. ``check`` compares
what clients saw acknowledged, by whichever master, with what the cluster has at the end. Guests are those of the
``fake`` hypervisor; root and the ip command are needed, no virtual machine is.
"""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests import leftovers
from tests.cluster import lab

KIND = "gc"
PORT = 1811
NETWORK = "10.77.0"
HEAL_SECONDS = 120.0


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    assert not done.returncode, (words, done.stderr)


@dataclass
class Machine(lab.Node):
    """A machine in its namespace, at one end of a cable."""

    def _listens(self) -> bool:
        assert self.daemon is None or self.daemon.poll() is None, f"the daemon of {self.name} has ended"
        probe = f"import socket; socket.create_connection(('{self.address}', {self.port}), 1)"
        return not subprocess.run(
            [*self.within, sys.executable, "-c", probe], check=False, capture_output=True
        ).returncode


@dataclass
class Cluster(lab.Lab):
    """Machines on a switch; ``switch`` and the namespaces of the machines begin with ``prefix``."""

    prefix: str = ""

    @property
    def switch(self) -> str:
        return f"{self.prefix}sw"

    def add_machine(self) -> lab.Node:
        number = len(self.nodes) + 1
        space, name = f"{self.prefix}n{number}", f"node{number}"
        _ip("netns", "add", space)
        _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", name, "netns", self.switch)
        _ip("-n", self.switch, "link", "set", name, "master", "br0", "up")
        address = f"{NETWORK}.{number}"
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        root = self.folder / name
        root.mkdir()
        node = Machine(name, root, PORT, address=address, within=("ip", "netns", "exec", space))
        self.nodes.append(node)
        node.start()
        return node

    def run(
        self, *arguments: object, check: bool = True, on: lab.Node | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        node = on or self.nodes[self.leader]
        settings = [f"{key}={value}" for key, value in {"GANTRY_ROOT": str(node.root), **more}.items()]
        program, *rest = map(str, arguments)
        done = subprocess.run(
            [*node.within, "env", *settings, str(lab.BIN / program), *rest],
            capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not check or not done.returncode, f"{program} {' '.join(rest)}: {done.stdout}{done.stderr}"
        return done

    def build(self, count: int) -> None:
        first = self.add_machine()
        self.run(
            "gnt-cluster", "init", "--enabled-hypervisors", "fake", "--enabled-disk-templates", "diskless",
            "--primary-ip", first.address, "--node-name", first.name, "cables.example",
        )  # fmt: skip
        for _ in range(count - 1):
            node = self.add_machine()
            self.run(
                "gnt-node", "add", "--join-token-file", node.root / "lib/join-token", "--primary-ip", node.address,
                node.name,
            )  # fmt: skip
        self.run("gnt-network", "add", "--subnet", "cidr=10.20.0.0/16", "--pool", "10.20.0.0/16", "wide")
        self.run("gnt-network", "connect", "-N", "mode=routed,link=main", "wide", "default")

    def cut(self, node: lab.Node) -> None:
        _ip("-n", self.switch, "link", "set", node.name, "down")

    def heal(self, node: lab.Node) -> None:
        _ip("-n", self.switch, "link", "set", node.name, "up")

    def takes_over(self, number: int) -> bool:
        """Let a machine take over the role; return whether it got it. It does not if another one has a newer copy."""
        done = self.run("gnt-cluster", "master-failover", "--yes-do-it", check=False, on=self.nodes[number])
        assert "Traceback" not in done.stderr
        if done.returncode:
            print(f"{self.nodes[number].name} does not get the role: {done.stderr}", flush=True)
            return False
        self.leader = number
        return True

    def wait_for_peace(self) -> None:
        """Wait until one master works, which all candidates follow."""

        def has_one_master() -> bool:
            sockets = [node for node in self.nodes if _asks(node, "QueryClusterInfo") is not None]
            leader = self.nodes[self.leader]
            return sockets == [leader] and _asks(leader, "SetWatcherPause", None) is not None

        lab.wait_until(has_one_master, "one master that a majority obeys", timeout=HEAL_SECONDS)


def _asks(node: lab.Node, method: str, *arguments: object) -> list[object] | None:
    """Return the result of a method in a list; None if no master answers there, or if it refuses."""
    with contextlib.suppress(OSError, ValueError), lab.Luxi(node.root / "run/master.sock") as luxi:
        luxi.socket.settimeout(20)
        success, result = luxi.exchange(method, *arguments)
        return [result] if success else None
    return None


@dataclass
class Acknowledged:
    """What clients saw acknowledged: numbers of jobs, with the instance that each creates, and created instances."""

    jobs: list[tuple[int, str, str]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    refused: int = 0
    in_doubt: int = 0


class Client(threading.Thread):
    """Creates instances through the master of one machine, whenever there is a master."""

    def __init__(self, cluster: Cluster, node: lab.Node, number: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.node, self.number = cluster, node, number
        self.acknowledged = Acknowledged()
        self.ended = threading.Event()
        self.chance = random.Random(number)

    def run(self) -> None:
        count = 0
        while not self.ended.is_set():
            count += 1
            with contextlib.suppress(OSError, ValueError), lab.Luxi(self.node.root / "run/master.sock") as luxi:
                luxi.socket.settimeout(30)
                self._create(luxi, f"c{self.number}-{count}.example")
            time.sleep(0.05)

    def _create(self, luxi: lab.Luxi, name: str) -> None:
        op = {
            "OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "disk_template": "diskless",
            "pnode": self.chance.choice(self.cluster.nodes).name, "nics": [{"ip": ["pool"], "network": "wide"}],
        }  # fmt: skip
        success, number = luxi.exchange("SubmitJob", [op])
        if not success:
            text = str(number)
            self.acknowledged.refused += "may not change" in text
            self.acknowledged.in_doubt += "not acknowledged" in text
            return
        assert isinstance(number, int)
        self.acknowledged.jobs.append((number, name, self.node.name))
        status: object = "queued"
        while status not in ("success", "error", "canceled") and not self.ended.is_set():
            success, answer = luxi.exchange("WaitForJobChange", number, ["status"], [status], None, 5)
            if not success:
                return
            if isinstance(answer, list):
                (status,) = answer[0]
        if status == "success":
            self.acknowledged.created.append(name)


def play(cluster: Cluster, *, rounds: int, seed: int) -> Acknowledged:
    """Cut and heal under load; return what all clients saw acknowledged."""
    chance = random.Random(seed)
    clients = [Client(cluster, node, number) for number, node in enumerate([*cluster.nodes, *cluster.nodes])]
    for client in clients:
        client.start()
    for number in range(rounds):
        _wait_for_more(clients)
        time.sleep(chance.uniform(0.5, 2))
        old = cluster.nodes[cluster.leader]
        cluster.cut(old)
        takes_over = chance.random() < 0.7
        if takes_over:
            other_nodes = [index for index, node in enumerate(cluster.nodes) if node is not old]
            chance.shuffle(other_nodes)
            assert any(map(cluster.takes_over, other_nodes))
        time.sleep(chance.uniform(0, 8))
        cluster.heal(old)
        cluster.wait_for_peace()
        print(f"round {number + 1}: {'taken over' if takes_over else 'healed'}, {_counts(clients)}", flush=True)
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(lab.TIMEOUT)
    acknowledged = Acknowledged()
    for client in clients:
        acknowledged.jobs += client.acknowledged.jobs
        acknowledged.created += client.acknowledged.created
        acknowledged.refused += client.acknowledged.refused
        acknowledged.in_doubt += client.acknowledged.in_doubt
    return acknowledged


def _wait_for_more(clients: list[Client]) -> None:
    """Wait until another instance is acknowledged."""
    before = sum(len(client.acknowledged.created) for client in clients)
    lab.wait_until(lambda: sum(len(client.acknowledged.created) for client in clients) > before, "another instance")


def _counts(clients: list[Client]) -> str:
    jobs = sum(len(client.acknowledged.jobs) for client in clients)
    created = sum(len(client.acknowledged.created) for client in clients)
    return f"{jobs} jobs and {created} instances acknowledged"


def check(cluster: Cluster, acknowledged: Acknowledged) -> None:
    """Check that nothing acknowledged is lost, and that no number and no address was given twice."""
    lab.wait_until(
        lambda: {row[0] for row in cluster.rows("gnt-job", "status")} <= {"success", "error", "canceled"},
        "the end of all jobs", timeout=HEAL_SECONDS,
    )  # fmt: skip
    numbers = [number for number, _, _ in acknowledged.jobs]
    assert len(set(numbers)) == len(numbers), "a job number was given twice"
    with cluster.luxi() as luxi:
        known = luxi.value("QueryJobs", numbers, ["id", "summary"])
        instances = luxi.value("QueryInstances", [], ["name", "nic.ips", "oper_state"], False)
    assert isinstance(known, list)
    assert isinstance(instances, list)
    summaries = {number: json.dumps(summary) for number, summary in known}
    lost = [job for job in acknowledged.jobs if job[1] not in summaries.get(job[0], "")]
    assert not lost, f"{len(lost)} of {len(acknowledged.jobs)} acknowledged jobs are lost: {lost[:5]}"
    names = {row[0] for row in instances}
    gone = [name for name in acknowledged.created if name not in names]
    assert not gone, f"{len(gone)} of {len(acknowledged.created)} acknowledged instances are lost: {gone[:5]}"
    addresses = [address for _, nics, _ in instances for nic in nics for address in nic]
    assert len(set(addresses)) == len(addresses), "an address was given twice"
    running = [address for node in cluster.nodes for address in _running(node)]
    assert len(set(running)) == len(running), "two guests run with one address"


def _running(node: lab.Node) -> Iterator[str]:
    """Yield the addresses of the guests that run on a machine, by whichever master."""
    for file in (node.root / "run/instances/fake").glob("*"):
        guest = json.loads(file.read_text())
        for nic in guest["nics"]:
            yield from (address["ip"] for address in nic["addresses"])


@contextlib.contextmanager
def cluster_of(count: int) -> Iterator[Cluster]:
    """Make a cluster of machines that are all master candidates."""
    leftovers.clear(KIND)
    prefix = leftovers.name(KIND)
    with leftovers.folder(KIND) as root:
        cluster = Cluster(Path(root), prefix=prefix)
        _ip("netns", "add", cluster.switch)
        _ip("-n", cluster.switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", cluster.switch, "link", "set", "br0", "up")
        try:
            cluster.build(count)
            yield cluster
        finally:
            for node in cluster.nodes:
                leftovers.end_space(node.within[-1])
            leftovers.end_space(cluster.switch)
