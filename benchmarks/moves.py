"""Instances in numbers: many instances created in one batch, and the evacuation of a node with many instances.

Guests are those of the ``fake`` hypervisor, without disks, so what is measured is the master: locks, journal, calls.
"""

import time
from collections.abc import Callable, Iterable

from tests.cluster import lab

from benchmarks.figure import Figure

BATCH = 100
EVACUATED = 20
ROUNDS = 5


def _create(name: str, node: str) -> dict[str, object]:
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "disk_template": "diskless",
        "pnode": node,
        "beparams": {"memory": 4},
    }


def _done(luxi: lab.Luxi, numbers: list[object]) -> None:
    for number in numbers:
        status, result = luxi.finished(number)
        if status != "success":
            raise RuntimeError(f"job {number} ended with {result}")


def _submit(luxi: lab.Luxi, ops: list[dict[str, object]]) -> list[object]:
    answers = luxi.value("SubmitManyJobs", [[op] for op in ops])
    assert isinstance(answers, list)
    return [number for _, number in answers]


def _remove(luxi: lab.Luxi, names: list[str]) -> None:
    _done(luxi, _submit(luxi, [{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name} for name in names]))


def batch() -> Iterable[Figure]:
    rates = []
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        with cluster_lab.luxi() as luxi:
            for _ in range(ROUNDS):
                names = [f"vm{number}" for number in range(BATCH)]
                ops = [_create(name, f"node{1 + index % 2}") for index, name in enumerate(names)]
                start = time.perf_counter()
                _done(luxi, _submit(luxi, ops))
                rates.append(BATCH / (time.perf_counter() - start))
                _remove(luxi, names)
    yield Figure(f"instance add: {BATCH} in one batch, diskless, fake", "1/s", rates, 50, at_least=True)


def evacuation() -> Iterable[Figure]:
    """Measure from the moment that the evacuation was received to the moment that the last move had its locks."""
    spans, whole = [], []
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.add_node()
        with cluster_lab.luxi() as luxi:
            names = [f"vm{number}" for number in range(EVACUATED)]
            for _ in range(ROUNDS):
                _done(luxi, _submit(luxi, [_create(name, "node3") for name in names]))
                evacuate = {"OP_ID": "OP_NODE_EVACUATE", "node_name": "node3", "mode": "primary-only"}
                number = luxi.value("SubmitJob", [evacuate])
                _, results = luxi.finished(number)
                assert isinstance(results, list)
                moves = [job for _, job in results[0]["jobs"]]
                assert len(moves) == EVACUATED
                _done(luxi, moves)
                first = _times(luxi, [number])[0][0]
                times = _times(luxi, moves)
                spans.append(max(began for _, began, _ in times) - first)
                whole.append(max(ended for _, _, ended in times) - first)
                _remove(luxi, names)
    yield Figure(f"evacuation of {EVACUATED} instances: until the last move has begun", "s", spans, 1)
    yield Figure(f"evacuation of {EVACUATED} instances: until the last move has ended", "s", whole)


def _times(luxi: lab.Luxi, numbers: list[object]) -> list[tuple[float, float, float]]:
    """Return when jobs were received, began to run and ended."""
    rows = luxi.value("QueryJobs", numbers, ["received_ts", "opexec", "end_ts"])
    assert isinstance(rows, list)
    return [(_seconds(received), _seconds(began[0]), _seconds(ended)) for received, began, ended in rows]


def _seconds(moment: list[int]) -> float:
    return moment[0] + moment[1] / 1e6


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"instance batch": batch, "evacuation": evacuation}
