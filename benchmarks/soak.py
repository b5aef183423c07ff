"""A soak: whether a cluster that is busy for long stays as large as it was, and answers as fast.

    python benchmarks/soak.py --minutes 60

Three machines with real daemons on the loopback interface, all master candidates, and eight clients: they submit jobs,
create instances of the hypervisor ``fake`` with addresses from a pool and remove them, list and query. The retention of
journal and archive is so small that both are pruned all the time. Each minute (in a short run, twelve times) a line
shows the sizes of files and processes, the longest waits since the line before, and the load of the machine: other work
on it makes clients wait.

The exit code is 1 if the sizes at the end exceed those after the first quarter by more than ``TOLERANCES``, if a client
waited for longer than ``WAIT_SECONDS``, if a request or a job failed, or if an answer had a notice: that something was
acknowledged without a majority.
"""

import argparse
import dataclasses
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.cluster import lab

CLIENTS = 8
INSTANCES = 6
"""The maximum number of instances of a client at a time."""

RETENTION = ("--journal-retention", "1M", "--archive-retention", "1M")
"""Reached within half a minute."""

ARCHIVE_SECONDS = 10
"""The age at which ended jobs are archived, and the interval."""

MEAN_INTERVAL_SECONDS = 0.2
"""Between two actions of a client."""

NO_LOG = 1 << 60
"""A log serial that no job reaches, so that log messages do not end a wait for a job's change."""

WAIT_SECONDS = 1.0
LINES = 12
"""The minimum number of lines."""

TOLERANCES = {
    "files": (1.25, 500),
    "lib MB": (1.25, 4),
    "master MB": (1.15, 15),
    "node MB": (1.15, 15),
    "master fds": (1.0, 20),
    "node fds": (1.0, 20),
}
"""How far the end may exceed the first quarter: a factor, and an amount on top of that."""


@dataclasses.dataclass
class Counts:
    """What a client has seen since the last line; times in seconds."""

    jobs: int = 0
    requests: int = 0
    longest_request: float = 0.0
    longest_job: float = 0.0
    failed: list[str] = dataclasses.field(default_factory=list)
    notices: list[str] = dataclasses.field(default_factory=list)


class Client(threading.Thread):
    """A client with a connection of its own."""

    def __init__(self, cluster: lab.Lab, number: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self._luxi = cluster.luxi()
        self._number = number
        self._nodes = [node.name for node in cluster.nodes]
        self._ended = ended
        self._chance = random.Random(number)
        self._created = 0
        self._instances: list[str] = []
        self._archived_at = time.monotonic()
        self.counts = Counts()

    def run(self) -> None:
        """Do one thing after another until the end."""
        actions = [self._delay, self._create, self._create, self._remove, self._list, self._query]
        while not self._ended.is_set():
            try:
                self._chance.choice(actions)()
                self._archive()
            except (OSError, ValueError) as error:
                self.counts.failed.append(f"client {self._number}: {error!r}")
                return
            self._ended.wait(self._chance.uniform(0, 2 * MEAN_INTERVAL_SECONDS))

    def _ask(self, method: str, *arguments: object) -> object:
        """Send a request and return its result; None if it is refused."""
        begin = time.monotonic()
        self._luxi.send(json.dumps({"method": method, "args": arguments}).encode() + b"\x03")
        answer = json.loads(self._luxi.receive())
        counts = self.counts
        counts.requests += 1
        if method != "WaitForJobChange":
            counts.longest_request = max(counts.longest_request, time.monotonic() - begin)
        if answer.get("notice"):
            counts.notices.append(answer["notice"])
        if not answer["success"]:
            counts.failed.append(f"{method}: {answer['result']}")
            return None
        return answer["result"]

    def _job(self, op: dict[str, object]) -> bool:
        """Submit a job and wait for its end; return whether it succeeded."""
        begin = time.monotonic()
        number = self._ask("SubmitJob", [op])
        status: object = "queued" if number is not None else "refused"
        while status in ("queued", "waiting", "running", "canceling"):
            answer = self._ask("WaitForJobChange", number, ["status"], [status], NO_LOG, 30)
            status = answer[0][0] if isinstance(answer, list) else status if answer else "unknown"
        self.counts.jobs += 1
        self.counts.longest_job = max(self.counts.longest_job, time.monotonic() - begin)
        if status not in ("success", "refused"):
            self.counts.failed.append(f"job {number}, {op['OP_ID']}: {status}")
        return status == "success"

    def _delay(self) -> None:
        self._job({"OP_ID": "OP_TEST_DELAY", "duration": 0})

    def _create(self) -> None:
        if len(self._instances) >= INSTANCES:
            self._remove()
            return
        self._created += 1
        name = f"c{self._number}-{self._created}.example"
        op: dict[str, object] = {
            "OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "disk_template": "diskless",
            "pnode": self._chance.choice(self._nodes), "nics": [{"ip": ["pool"], "network": "wide"}],
        }  # fmt: skip
        if self._job(op):
            self._instances.append(name)

    def _remove(self) -> None:
        if self._instances:
            name = self._instances.pop(self._chance.randrange(len(self._instances)))
            self._job({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name, "ignore_failures": False})

    def _list(self) -> None:
        self._ask("Query", "instance", ["name", "status", "nic.ips", "pnode"], None)

    def _query(self) -> None:
        self._ask("QueryNetworks", [], ["name", "free_count"], False)
        self._ask("QueryJobs", None, ["id", "status"])

    def _archive(self) -> None:
        """Let the first client archive the jobs that have ended, as the watcher does."""
        if self._number == 0 and time.monotonic() - self._archived_at > ARCHIVE_SECONDS:
            self._archived_at = time.monotonic()
            self._ask("AutoArchiveJobs", ARCHIVE_SECONDS, 30)


def _usage(folder: Path) -> tuple[int, int]:
    """Return the number of files below a folder and their bytes; files may vanish meanwhile."""
    files = size = 0
    for path, _, names in os.walk(folder):
        files += len(names)
        for name in names:
            try:
                size += os.lstat(f"{path}/{name}").st_size
            except FileNotFoundError:
                files -= 1
    return files, size


def _process(pid: int) -> tuple[float, int]:
    """Return the memory of a process in MB, and its open descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    memory = next(line for line in lines if line.startswith("VmRSS"))
    return int(memory.split()[1]) / 1000, len(os.listdir(f"/proc/{pid}/fd"))


def sizes(cluster: lab.Lab) -> dict[str, float]:
    """Return the present sizes, by the names of ``TOLERANCES``: files of all machines, processes of the largest."""
    folders = [_usage(node.root / name) for node in cluster.nodes for name in ("lib", "run", "log")]
    libs = [_usage(node.root / "lib")[1] for node in cluster.nodes]
    master = _process(cluster.master_pid())
    nodes = [_process(node.daemon.pid) for node in cluster.nodes if node.daemon]
    return {
        "files": sum(files for files, _ in folders),
        "lib MB": sum(libs) / 1e6,
        "master MB": master[0],
        "node MB": max(memory for memory, _ in nodes),
        "master fds": master[1],
        "node fds": max(descriptors for _, descriptors in nodes),
    }


def total(counts: Sequence[Counts]) -> Counts:
    """Return the counts of all clients together."""
    return Counts(
        jobs=sum(each.jobs for each in counts),
        requests=sum(each.requests for each in counts),
        longest_request=max(each.longest_request for each in counts),
        longest_job=max(each.longest_job for each in counts),
        failed=[text for each in counts for text in each.failed],
        notices=[text for each in counts for text in each.notices],
    )


def problems(samples: Sequence[dict[str, float]], counts: Sequence[Counts]) -> list[str]:
    """Return what is wrong: growth after the first quarter, long waits, failures, notices."""
    quarter, last = samples[(len(samples) - 1) // 4], samples[-1]
    found_problems = [
        f"{name}: {last[name]:.0f} at the end, {quarter[name]:.0f} after the first quarter"
        for name, (factor, amount) in TOLERANCES.items()
        if last[name] > factor * quarter[name] + amount
    ]
    whole = total(counts)
    for what, seconds in (("an answer", whole.longest_request), ("the end of a job", whole.longest_job)):
        if seconds > WAIT_SECONDS:
            found_problems.append(f"a client waited {seconds:.2f} s for {what}, more than {WAIT_SECONDS:g} s")
    for what, texts in (("failures", whole.failed), ("answers with a notice", whole.notices)):
        if texts:
            found_problems.append(f"{len(texts)} {what}, the first: {texts[0]}")
    return found_problems


def _line(cells: Sequence[object]) -> str:
    return "  ".join(f"{cell:>10}" for cell in cells)


def soak(cluster: lab.Lab, seconds: float, show: Callable[[str], None]) -> list[str]:
    """Keep the cluster busy, show a line per interval, and return the problems."""
    ended = threading.Event()
    clients = [Client(cluster, number, ended) for number in range(CLIENTS)]
    samples: list[dict[str, float]] = []
    counts: list[Counts] = []
    show(_line(["seconds", "jobs", "requests", *TOLERANCES, "answer ms", "job ms", "failed", "notices", "load"]))
    begin = time.monotonic()
    interval = min(60.0, seconds / LINES)
    for client in clients:
        client.start()
    while time.monotonic() - begin < seconds:
        time.sleep(max(0.0, begin + (len(samples) + 1) * interval - time.monotonic()))
        recent = []
        for client in clients:
            recent.append(client.counts)
            client.counts = Counts()
        counts.append(total(recent))
        samples.append(sizes(cluster))
        now = counts[-1]
        numbers = [f"{samples[-1][name]:.0f}" for name in TOLERANCES]
        waits = [f"{1000 * wait:.0f}" for wait in (now.longest_request, now.longest_job)]
        load = f"{os.getloadavg()[0]:.1f}"
        elapsed = f"{time.monotonic() - begin:.0f}"
        show(_line([elapsed, now.jobs, now.requests, *numbers, *waits, len(now.failed), len(now.notices), load]))
    ended.set()
    for client in clients:
        client.join(lab.TIMEOUT)
    return problems(samples, counts)


def main() -> int:
    """Run the soak; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Keeps a cluster busy and watches its files, memory and waits.")
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    with lab.lab() as cluster:
        cluster.init(*RETENTION)
        cluster.add_node()
        cluster.add_node()
        cluster.run("gnt-network", "add", "--subnet", "cidr=10.20.0.0/16", "--pool", "10.20.0.0/16", "wide")
        cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", "wide", "default")
        found_problems = soak(cluster, 60 * options.minutes, lambda line: print(line, flush=True))
    for problem in found_problems:
        print(problem)
    print("FAILED" if found_problems else "level: nothing grew, nobody waited")
    return 1 if found_problems else 0


if __name__ == "__main__":
    sys.exit(main())
