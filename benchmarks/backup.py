"""Export and import of an instance's disk, compared with ``dd`` of the same file through the same compressor.

Both are timed in turns, so that other work on the machine slows both down. Half of the disk is filled with data that
cannot be compressed.
"""

import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import lab

from benchmarks.figure import Figure

MEBIBYTES = 1024
ROUNDS = 3
NAME = "bulk"


def _fill(disk: Path) -> None:
    with disk.open("r+b") as file:
        for _ in range(MEBIBYTES // 2):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def _seconds(*pipeline: list[str]) -> float:
    """Run programs as a pipeline and return how many seconds it took."""
    begun = time.perf_counter()
    before = None
    running = []
    for arguments in pipeline:
        program = subprocess.Popen(arguments, stdin=before, stdout=subprocess.PIPE)
        running.append(program)
        before = program.stdout
    for program in running:
        if program.wait():
            raise RuntimeError(f"{program.args!r} failed")
    return time.perf_counter() - begun


def _read(path: Path) -> list[str]:
    return ["dd", f"if={path}", "bs=1M", "status=none"]


def _write(path: Path, *more: str) -> list[str]:
    conversion = ",".join(("fsync", *more))
    return ["dd", f"of={path}", "bs=1M", "iflag=fullblock", f"conv={conversion}", "status=none"]


def _shares(cluster_lab: lab.Lab, compress: str) -> tuple[list[float], list[float]]:
    """Return the speed of exports and imports, in percent of the speed of ``dd``."""
    (disk,) = (cluster_lab.nodes[0].root / "srv/file-storage" / NAME).glob("*-*-*-*-*")
    dump, copy = cluster_lab.folder / "dump", cluster_lab.folder / "copy"
    program = [] if compress == "none" else [[compress, "-c"]]
    back = [] if compress == "none" else [[compress, "-dc"]]
    exports, imports = [], []
    for _ in range(ROUNDS):
        plain = _seconds(_read(disk), *program, _write(dump))
        begun = time.perf_counter()
        cluster_lab.run("gnt-backup", "export", "-n", "node2", "--compress", compress, NAME)
        exports.append(100 * plain / (time.perf_counter() - begun))
        plain = _seconds(_read(dump), *back, _write(copy, "sparse"))
        begun = time.perf_counter()
        cluster_lab.run("gnt-backup", "import", "-n", "node1", "--no-start", "--src-dir", NAME, f"{NAME}2")
        imports.append(100 * plain / (time.perf_counter() - begun))
        cluster_lab.run("gnt-instance", "remove", "-f", f"{NAME}2")
        dump.unlink()
        copy.unlink()
    return exports, imports


def export_and_import() -> Iterable[Figure]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.run(
            "gnt-instance", "add", "-t", "file", "--disk", f"0:size={MEBIBYTES}m", "--no-install", "--no-nics",
            "-n", "node1", NAME,
        )  # fmt: skip
        (disk,) = (cluster_lab.nodes[0].root / "srv/file-storage" / NAME).glob("*-*-*-*-*")
        _fill(disk)
        for compress, limit in (("gzip", 80.0), ("zstd", None), ("none", None)):
            exports, imports = _shares(cluster_lab, compress)
            what = f"of a disk of {MEBIBYTES} MiB, half empty, beside dd with {compress}"
            yield Figure(f"backup: export {what}", "%", exports, limit, at_least=True)
            yield Figure(f"backup: import {what}", "%", imports, limit, at_least=True)


BENCHMARKS = {"backup": export_and_import}
