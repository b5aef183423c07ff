"""A running master: jobs, waiting, and the commands that users run, all with the real daemons and programs."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

from tests.cluster import lab

from benchmarks.figure import Figure, resident_megabytes, timed

TOGETHER = 2000
ALONE = 200
INSTANCES = 1000
WAITING = 1000
NOTHING = {"OP_ID": "OP_TEST_DELAY", "duration": 0}


@contextlib.contextmanager
def _cluster() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        yield cluster_lab


def _wait(luxi: lab.Luxi, number: object) -> None:
    status: object = "queued"
    while status not in ("success", "error", "canceled"):
        answer = luxi.value("WaitForJobChange", number, ["status"], [status], None, 60)
        if isinstance(answer, list):
            (status,) = answer[0]
    if status != "success":
        raise RuntimeError(f"job {number}: {status}")


def _submit_many(luxi: lab.Luxi, jobs: list[list[dict[str, object]]]) -> list[object]:
    answer = luxi.value("SubmitManyJobs", jobs)
    assert isinstance(answer, list)
    return [number for _, number in answer]


def _archive(luxi: lab.Luxi) -> None:
    luxi.exchange("AutoArchiveJobs", -1, 600)


def jobs_together() -> Iterable[Figure]:
    rates = []
    with _cluster() as cluster_lab, cluster_lab.luxi() as luxi:
        for _ in range(5):
            start = time.perf_counter()
            for number in _submit_many(luxi, [[dict(NOTHING)]] * TOGETHER):
                _wait(luxi, number)
            rates.append(TOGETHER / (time.perf_counter() - start))
            _archive(luxi)
    yield Figure(f"jobs: {TOGETHER} without work, submitted together, durable", "jobs/s", rates, 500, at_least=True)


def one_job() -> Iterable[Figure]:
    with _cluster() as cluster_lab, cluster_lab.luxi() as luxi:
        samples = timed(lambda: _wait(luxi, luxi.value("SubmitJob", [NOTHING])), rounds=ALONE)
    yield Figure("job: one without work, from submit to finish", "ms", samples, 20)


def _usage(cluster_lab: lab.Lab, *arguments: str) -> tuple[float, float]:
    """Return wall clock and processor time of a command, in milliseconds."""
    environment = {**os.environ, "GANTRY_ROOT": str(cluster_lab.master)}
    start = time.perf_counter()
    process = subprocess.Popen([lab.BIN / arguments[0], *arguments[1:]], env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    wall = time.perf_counter() - start
    return wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def list_instances() -> Iterable[Figure]:
    with _cluster() as cluster_lab:
        yield from _list_figures(cluster_lab, 0, wall=120)
        with cluster_lab.luxi() as luxi:
            create = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": "node1"}
            jobs: list[list[dict[str, object]]] = [
                [{**create, "instance_name": f"vm{i}.example"}] for i in range(INSTANCES)
            ]
            for number in _submit_many(luxi, jobs):
                _wait(luxi, number)
        yield from _list_figures(cluster_lab, INSTANCES, wall=250)


def _list_figures(cluster_lab: lab.Lab, count: int, *, wall: float) -> Iterable[Figure]:
    samples = [_usage(cluster_lab, "gnt-instance", "list") for _ in range(15)]
    name = f"list: gnt-instance list, {count} instances"
    yield Figure(f"{name}, wall clock", "ms", [wall_time for wall_time, _ in samples], wall)
    yield Figure(f"{name}, CPU of the command", "ms", [cpu_time for _, cpu_time in samples], 100)


def waiting_jobs() -> Iterable[Figure]:
    """Measure what each costs, its share of the one message that brings them all included."""
    samples = []
    for _ in range(3):
        with _cluster() as cluster_lab, cluster_lab.luxi() as luxi:
            hold = {"OP_ID": "OP_TEST_DELAY", "duration": 20, "on_nodes": ["node1"]}
            luxi.value("SubmitJob", [hold])
            pid = cluster_lab.master_pid()
            before = resident_megabytes(pid)
            _let_wait(luxi, hold)
            samples.append((resident_megabytes(pid) - before) * 1e3 / WAITING)
    yield Figure(f"waiting: memory of a job that waits for a lock, {WAITING} of them", "KB", samples, 10)


def _let_wait(luxi: lab.Luxi, hold: dict[str, object]) -> None:
    """Submit jobs that need what another holds, and return when all wait for it."""
    numbers = _submit_many(luxi, [[{**hold, "duration": 0.001}]] * WAITING)
    while luxi.value("QueryJobs", numbers[-1:], ["status"]) != [["waiting"]]:
        time.sleep(0.1)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "jobs": jobs_together,
    "job": one_job,
    "list": list_instances,
    "waiting": waiting_jobs,
}
