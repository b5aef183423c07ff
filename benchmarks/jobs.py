"""The job queue under load: rate, delay, different locks, many waiting jobs, and questions meanwhile.

Fifty locks are those of fifty nodes in the configuration, each with a port of its own, which all lead to the one node
daemon there is: the master locks and calls each of them as it would fifty machines, and no processor time goes to
fifty daemons.
"""

import asyncio
import contextlib
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import structs
from tests.cluster import lab

from benchmarks.figure import Figure, resident_megabytes, timed
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime
from gantry.state.objects import snapshot
from gantry.state.store import transaction

TOGETHER = 2000
ALONE = 200
ROUNDS = 5
RATE = 500
SECONDS = 8
LOCKS = 50
WAITING = 10_000
CLIENTS = 8
QUERY_SECONDS = 5.0
NOTHING = {"OP_ID": "OP_TEST_DELAY", "duration": 0}


@contextlib.contextmanager
def _cluster(candidates: int = 0) -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        for _ in range(candidates):
            cluster_lab.add_node()
        yield cluster_lab


def _submit_many(luxi: lab.Luxi, jobs: list[list[dict[str, object]]]) -> list[object]:
    answer = luxi.value("SubmitManyJobs", jobs)
    assert isinstance(answer, list)
    return [number for _, number in answer]


def _finish(luxi: lab.Luxi, numbers: list[object]) -> None:
    """Wait until all jobs have ended well, with few questions."""
    luxi.finished(numbers[-1])
    while True:
        rows = luxi.value("QueryJobs", numbers, ["status"])
        assert isinstance(rows, list)
        statuses = {status for (status,) in rows}
        if statuses == {"success"}:
            return
        if not statuses <= {"queued", "waiting", "running", "success"}:
            raise RuntimeError(f"jobs ended with {statuses}")
        time.sleep(0.01)


def rate() -> Iterable[Figure]:
    rates = []
    with _cluster(candidates=2) as cluster_lab, cluster_lab.luxi() as luxi:
        cluster_lab.run("gnt-cluster", "modify", "--replication", "majority")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            _finish(luxi, _submit_many(luxi, [[dict(NOTHING)]] * TOGETHER))
            rates.append(TOGETHER / (time.perf_counter() - start))
            luxi.exchange("AutoArchiveJobs", -1, 600)
    name = f"queue: {TOGETHER} jobs without work together, durable, two candidates, majority"
    yield Figure(name, "jobs/s", rates, 1000, at_least=True)


def one_job() -> Iterable[Figure]:
    """Measure the price of a majority: each change of the job waits for the master and one of two candidates."""
    with _cluster(candidates=2) as cluster_lab, cluster_lab.luxi() as luxi:
        cluster_lab.run("gnt-cluster", "modify", "--replication", "majority")
        samples = timed(lambda: luxi.finished(luxi.value("SubmitJob", [NOTHING])), rounds=ALONE)
    yield Figure("queue: one job without work, from submit to end, two candidates, majority", "ms", samples, 20)


def _submit_steadily(cluster_lab: lab.Lab, numbers: list[object], share: int) -> None:
    with cluster_lab.luxi() as luxi:
        begin = time.perf_counter()
        for turn in range(share * SECONDS):
            time.sleep(max(0.0, begin + turn / share - time.perf_counter()))
            numbers.append(luxi.value("SubmitJob", [NOTHING]))


def delay() -> Iterable[Figure]:
    """Measure from the moment a job was received to the moment it had its locks, as the job itself reports."""
    samples = []
    with _cluster(candidates=2) as cluster_lab:
        for _ in range(3):
            numbers: list[object] = []
            threads = [
                threading.Thread(target=_submit_steadily, args=(cluster_lab, numbers, RATE // CLIENTS))
                for _ in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with cluster_lab.luxi() as luxi:
                _finish(luxi, numbers)
                samples.append(_percentile(_delays(luxi, numbers), 99))
                luxi.exchange("AutoArchiveJobs", -1, 600)
    yield Figure(f"queue: delay of a job at {RATE // CLIENTS * CLIENTS}/s, 99 of 100 are below", "ms", samples, 100)


def _delays(luxi: lab.Luxi, numbers: list[object]) -> list[float]:
    rows = luxi.value("QueryJobs", numbers, ["received_ts", "opexec"])
    assert isinstance(rows, list)
    return [1e3 * (_seconds(began) - _seconds(received)) for received, (began,) in rows]


def _seconds(moment: list[int]) -> float:
    return moment[0] + moment[1] / 1e6


def _percentile(values: list[float], which: int) -> float:
    return statistics.quantiles(values, n=100)[which - 1]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


class _Entrances:
    """Ports that lead to one port; the master knows a node by its address and port, and limits its calls to each."""

    def __init__(self, target: int, count: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        servers = [asyncio.start_server(self._connect, "127.0.0.1", 0) for _ in range(count)]
        self._servers = [self._loop.run_until_complete(server) for server in servers]
        self.ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        self._thread = threading.Thread(target=self._loop.run_forever)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            answers, questions = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(_pass_on(reader, questions), _pass_on(answers, writer))

    def __enter__(self) -> "_Entrances":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for server in self._servers:
            server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


async def _add_nodes(cluster_lab: lab.Lab, ports: list[int]) -> None:
    """Put nodes into the state of a stopped master that have the address of the first, and other ports."""
    where = paths.Paths.below(str(cluster_lab.master))
    store = await transaction.Store.open(RealRuntime(), where)
    first = next(iter(store.snapshot.nodes.values()))
    more = [
        structs.replace(
            first,
            uuid=f"{number:08}-0000-4000-8000-000000000000",
            name=f"more{number}",
            port=port,
            master_candidate=False,
        )
        for number, port in enumerate(ports)
    ]
    await store.commit([snapshot.Put(node) for node in more], transaction.Cause(reason="benchmark"))
    await store.close()


def different_locks() -> Iterable[Figure]:
    samples = []
    with _cluster() as cluster_lab, _Entrances(cluster_lab.nodes[0].port, LOCKS) as entrances:
        cluster_lab.stop_master(cluster_lab.nodes[0])
        asyncio.run(_add_nodes(cluster_lab, entrances.ports))
        # Most of its nodes are the same machine, so they cannot vote.
        cluster_lab.start_master("--no-voting", "--yes-do-it")
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 1, "on_master": False}
        with cluster_lab.luxi() as luxi:
            for _ in range(ROUNDS):
                start = time.perf_counter()
                _finish(
                    luxi, _submit_many(luxi, [[{**delay, "on_nodes": [f"more{number}"]}] for number in range(LOCKS)])
                )
                samples.append(time.perf_counter() - start)
    yield Figure(f"queue: {LOCKS} jobs of one second on {LOCKS} different locks", "s", samples, 1.5)


def waiting() -> Iterable[Figure]:
    with _cluster() as cluster_lab, cluster_lab.luxi() as luxi:
        hold = {"OP_ID": "OP_TEST_DELAY", "duration": 600, "on_nodes": ["node1"]}
        luxi.value("SubmitJob", [hold])
        pid = cluster_lab.master_pid()
        before = resident_megabytes(pid)
        numbers: list[object] = []
        while len(numbers) < WAITING:
            numbers += _submit_many(luxi, [[hold]] * 1000)
        time.sleep(2)
        grown = resident_megabytes(pid) - before
        name = f"waiting: {WAITING} jobs"
        yield Figure(f"{name}, memory of the master", "MB", [before + grown], 100)
        yield Figure(f"{name}, memory for each", "KB", [1e3 * grown / WAITING])
        submitted = timed(lambda: numbers.append(luxi.value("SubmitJob", [hold])), rounds=50)
        yield Figure(f"{name}, submit one more", "ms", submitted, 50)
        listed = timed(lambda: luxi.value("QueryJobs", None, ["id", "status", "summary"]), rounds=10)
        yield Figure(f"{name}, list them all", "ms", listed, 50)
        victims = iter(numbers[::7])
        yield Figure(f"{name}, cancel one", "ms", timed(lambda: luxi.value("CancelJob", next(victims)), rounds=50), 50)


def _questions(path: str, message: bytes) -> float:
    """Return the answers per second of clients that each send the next request after an answer."""
    chosen = selectors.DefaultSelector()
    for _ in range(CLIENTS):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        chosen.register(connection, selectors.EVENT_READ, connection)
        connection.sendall(message)
    count = 0
    end = time.perf_counter() + QUERY_SECONDS
    while time.perf_counter() < end:
        for key, _ in chosen.select(1):
            answer = key.data.recv(1 << 16)
            if not (answer.startswith(b'{"success":true') and answer.endswith(b"\x03")):
                raise RuntimeError(f"an unexpected answer: {answer[:200]!r}")
            count += 1
            key.data.sendall(message)
    for key in list(chosen.get_map().values()):
        key.data.close()
    return count / QUERY_SECONDS


SMALL = {
    "QueryConfigValues": b'{"method": "QueryConfigValues", "args": [["cluster_name"]]}\x03',
    "Query of a node's name": b'{"method": "Query", "args": ["node", ["name"], ["=", "name", "node1"]]}\x03',
}


def questions() -> Iterable[Figure]:
    with _cluster() as cluster_lab:
        for name, message in SMALL.items():
            rates = [_questions(str(cluster_lab.master / "run/master.sock"), message) for _ in range(3)]
            yield Figure(f"luxi: {name}, {CLIENTS} clients", "/s", rates, 8000, at_least=True)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "queue-rate": rate,
    "queue-one": one_job,
    "queue-delay": delay,
    "queue-locks": different_locks,
    "queue-waiting": waiting,
    "luxi": questions,
}
