"""The Neutron API before a master of its own: ports and networks with a segment, and ranges of a million ids.

Clients are connections of one process, each of which sends one request after the other; clients, API and master share
the machine's processors. An answer is given when the change is durable.
"""

import contextlib
import functools
import json
import os
import selectors
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

from tests import ports, postgres
from tests.cluster import lab
from tests.neutron import server

from benchmarks.figure import Figure, timed

ROUNDS = 3
SECONDS = 4.0
CLIENTS = 8
IDS = 1_000_000
MIN_RATE_ALONE, MIN_RATE_TOGETHER = 300, 1000
SHARED_IDS = 10_000_000
PORTS, TOGETHER = 100_000, 4000
FILTERS = {"ip_address=10.0.200.7": 20, "ip_address_substr=10.0.200.7": 100, "ip_address_substr=.200.7": 100}
"""Filters of a list of ports, and the most milliseconds that each may take."""

PEER, OURS = "Neutron itself", "ours"


class Client:
    """A connection that is kept, for one request after the other."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def receive(self) -> bytes | None:
        """Receive a part of an answer; return the body when the answer is complete.

        A status of 300 or above raises, and so does a server that has closed the connection.
        """
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the server has closed the connection without an answer")
        self._received += data
        head, _, content = self._received.partition(b"\r\n\r\n")
        if b"\r\n\r\n" not in self._received or len(content) < _length(head):
            return None
        if int(head.split(b" ", 2)[1]) >= 300:
            raise RuntimeError(self._received.decode())
        self._received = b""
        return content

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Return the body of an answer."""
        self.socket.sendall(_message(method, path, body))
        while (content := self.receive()) is None:
            pass
        return content

    def make(self, path: str, body: object) -> str:
        """Create an object and return its id."""
        (created,) = json.loads(self.ask("POST", path, body)).values()
        return str(created["id"])


def _message(method: str, path: str, body: object) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json"
    head = f"{method} {path} HTTP/1.1\r\nHost: n\r\n{kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)


@contextlib.contextmanager
def api() -> Iterator[tuple[lab.Lab, int, int]]:
    """Run a cluster and its API, for everybody on this machine: the cluster, the API's process id and port."""
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.run("gnt-cluster", "modify", "--segment-ranges", "yes")
        port = ports.free()
        where = ["--bind", "127.0.0.1", "--no-ssl", "--port", str(ports.free()), "--neutron-port", str(port)]
        program = [str(lab.BIN / "gantry-rapi"), *where, "--neutron-auth", "none", "--root", str(cluster_lab.master)]
        daemon = subprocess.Popen(program)
        try:
            lab.wait_until(lambda: lab.listens(port), "the Neutron API")
            yield cluster_lab, daemon.pid, port
        finally:
            daemon.terminate()
            daemon.wait(lab.TIMEOUT)


def rate(port: int, clients: int, path: str, body: object) -> float:
    """Return how often in a second ``clients`` make an object, each the next one when it has its answer."""
    request = _message("POST", path, body)
    begun = time.perf_counter()
    done = 0
    with selectors.DefaultSelector() as waiting:
        for client in [Client(port) for _ in range(clients)]:
            waiting.register(client.socket, selectors.EVENT_READ, client)
            client.socket.sendall(request)
        while waiting.get_map():
            for key, _ in waiting.select():
                if key.data.receive() is None:
                    continue
                done += 1
                if time.perf_counter() < begun + SECONDS:
                    key.data.socket.sendall(request)
                else:
                    waiting.unregister(key.data.socket)
                    key.data.socket.close()
    return done / (time.perf_counter() - begun)


def _rates(port: int, what: str, path: str, body: object) -> Iterator[Figure]:
    for clients, least in ((1, MIN_RATE_ALONE), (CLIENTS, MIN_RATE_TOGETHER)):
        rates = [rate(port, clients, path, body) for _ in range(ROUNDS)]
        yield Figure(f"neutron: {what}, {clients} at a time, durable", "1/s", rates, least, at_least=True)


def _lan(client: Client) -> str:
    """Create a network with a subnet 10.0.0.0/8, and return its id."""
    network = client.make("/v2.0/networks", {"network": {"name": "lan"}})
    client.make("/v2.0/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/8"}})
    return network


def prepare(port: int) -> dict[str, tuple[str, object]]:
    """Create a network with a subnet 10.0.0.0/8; return path and body of requests for ports and networks."""
    network = _lan(Client(port))
    return {
        "POST ports": ("/v2.0/ports", {"port": {"network_id": network}}),
        "POST networks": ("/v2.0/networks", {"network": {}}),
    }


def share(port: int) -> None:
    """Make a range of VXLAN ids of which each network gets one."""
    shared = {"name": "all", "network_type": "vxlan", "minimum": 1, "maximum": SHARED_IDS}
    Client(port).make("/v2.0/network_segment_ranges", {"network_segment_range": shared})


def rates() -> Iterable[Figure]:
    """Make ports in one network, and networks that get the next VXLAN id."""
    with api() as (_, _, port):
        share(port)
        for what, (path, body) in prepare(port).items():
            yield from _rates(port, what, path, body)


@contextlib.contextmanager
def _ours() -> Iterator[int]:
    with api() as (_, _, port):
        share(port)
        yield port


@contextlib.contextmanager
def _peer() -> Iterator[int]:
    with (
        postgres.running() as database,
        server.running(database.create("neutron"), driver="internal", workers=2) as (_, client),
    ):
        yield client.port


def beside() -> Iterable[Figure]:
    """Ask a Neutron of two workers on PostgreSQL, whose networks have no segment, and ours for the same.

    The work is alike: nobody is authenticated on either side, and what is acknowledged lies on one disk, in the log of
    PostgreSQL there and in the journal here. Neutron makes more of a port: it writes quotas, revisions and DNS names,
    and calls its mechanism drivers; the names of the rows say so.
    """
    medians: dict[tuple[str, int], dict[str, float]] = {}
    for name, run in {PEER: _peer, OURS: _ours}.items():
        with run() as port:
            for what, (path, body) in prepare(port).items():
                for clients in (1, CLIENTS):
                    samples = [rate(port, clients, path, body) for _ in range(ROUNDS)]
                    medians.setdefault((what, clients), {})[name] = statistics.median(samples)
                    yield Figure(
                        f"neutron: {name}, {what}, {clients} at a time, no authentication, one disk", "1/s", samples
                    )
    for (what, clients), each in medians.items():
        times = each[OURS] / each[PEER]
        yield Figure(
            f"neutron: how much quicker ours is, {what}, {clients} at a time, without Neutron's plug-ins",
            "times",
            [times],
        )


def ranges() -> Iterable[Figure]:
    """Make, rename, list and delete a range of a million ids."""
    with api() as (cluster_lab, _, port):
        client = Client(port)
        path = "/v2.0/network_segment_ranges"
        body = {"name": "r", "network_type": "vxlan", "minimum": 1, "maximum": IDS}
        keys: list[str] = []

        def remove() -> None:
            client.ask("DELETE", f"{path}/{keys.pop()}")

        steps: dict[str, Callable[[], object]] = {
            "create": lambda: keys.append(client.make(path, {"network_segment_range": body})),
            "rename": lambda: client.ask("PUT", f"{path}/{keys[-1]}", {"network_segment_range": {"name": "s"}}),
            "list": lambda: client.ask("GET", path),
            "delete": remove,
        }
        samples: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(10):
            for name, step in steps.items():
                samples[name] += timed(step, rounds=1)
        for name, times in samples.items():
            yield Figure(f"neutron: a VXLAN range of {IDS} ids, {name}", "ms", times, 20)
        before = _memory(cluster_lab)
        steps["create"]()
        yield Figure(
            f"neutron: a VXLAN range of {IDS} ids, memory of the master", "MB", [_memory(cluster_lab) - before], 1
        )


def filters() -> Iterable[Figure]:
    """Find one of 100,000 ports by its address, and those whose address contains a text, with their ids alone."""
    with api() as (_, _, port):
        share(port)
        client = Client(port)
        network, path = _lan(client), "/v2.0/ports"
        for _ in range(PORTS // TOGETHER):
            client.ask("POST", path, {"ports": [{"network_id": network}] * TOGETHER})
        for filter_, most in FILTERS.items():
            query = f"{path}?fields=id&fixed_ips={filter_}"
            count = len(json.loads(client.ask("GET", query))["ports"])
            samples = timed(functools.partial(client.ask, "GET", query), rounds=20)
            yield Figure(f"neutron: {count} of {PORTS:,} ports by {filter_}", "ms", samples, most)


def _memory(cluster_lab: lab.Lab) -> float:
    """Return what the master has resident, in MB."""
    with open(f"/proc/{cluster_lab.master_pid()}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


BENCHMARKS = {
    "neutron API: rates": rates,
    "neutron API: ranges": ranges,
    "neutron API: filters": filters,
    "neutron API: beside Neutron": beside,
}
