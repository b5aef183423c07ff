"""Runs the benchmarks and prints a table; ``--json FILE`` and ``--page FILE`` write it too, ``--only WORD`` and
``--but WORD`` choose, ``--runs N`` repeats the whole. Exit status 1 if a figure misses a limit that is not a goal, or
if a benchmark ends with an error, which does not end the others.
"""

import argparse
import contextlib
import datetime
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import (
    addresses,
    backup,
    cluster,
    console,
    guests,
    ipam,
    jobs,
    kube,
    moves,
    neutron,
    owners,
    page,
    picks,
    requests,
    scale,
    segments,
    state,
)
from benchmarks.figure import Figure, median_of_runs

Benchmark = Callable[[], Iterable[Figure]]
BENCHMARKS: dict[str, Benchmark] = {
    **addresses.BENCHMARKS,
    **state.BENCHMARKS,
    **cluster.BENCHMARKS,
    **jobs.BENCHMARKS,
    **scale.BENCHMARKS,
    **owners.BENCHMARKS,
    **moves.BENCHMARKS,
    **guests.BENCHMARKS,
    **backup.BENCHMARKS,
    **neutron.BENCHMARKS,
    **requests.BENCHMARKS,
    **segments.BENCHMARKS,
    **ipam.BENCHMARKS,
    **picks.BENCHMARKS,
    **kube.BENCHMARKS,
    **console.BENCHMARKS,
}


def _line(cells: tuple[str, ...]) -> str:
    widths = (62, 10, 8, 24, 16)
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _limit(figure: Figure) -> str:
    if figure.limit is None:
        return ""
    word = {True: "", False: " MISSED", None: ""}[figure.reached]
    return f"{'>=' if figure.at_least else '<='} {figure.limit:g}{word}"


def _plain(figure: Figure) -> dict[str, object]:
    return {"name": figure.name, "median": figure.median, "unit": figure.unit, "samples": list(figure.samples)}


def _machine() -> dict[str, object]:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "unknown")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }


def _commit() -> str:
    """Return the commit that is measured, with a note if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=, and changes that are not committed", "--abbrev=12"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip() or "unknown"


def _jiffies() -> tuple[int, int]:
    """Return the processor time that a hypervisor gave to others, and all that has passed (proc(5), /proc/stat)."""
    times = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return times[7], sum(times)


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Give each benchmark a folder in which no other benchmark has removed files.

    ext4 passes over inodes that were removed in the last five minutes (fs/ext4/ialloc.c, recently_deleted): to make a
    file beside them takes up to ten times as long. Folders in one that has the attribute T lie apart (chattr(1)).
    """
    with tempfile.TemporaryDirectory(prefix="gb", dir="/tmp") as folder:
        subprocess.run(["chattr", "+T", folder], check=False, capture_output=True)
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def _print(figure: Figure) -> None:
    print(_line((figure.name, f"{figure.median:.4g}", figure.unit, figure.spread, _limit(figure))), flush=True)


def _run(chosen: list[str], broken: dict[str, None]) -> list[Figure]:
    """Run the benchmarks once, and print each figure when it is there; add those that end with an error to a list."""
    figures = []
    for name in chosen:
        try:
            for figure in BENCHMARKS[name]():
                _print(figure)
                figures.append(figure)
        except Exception:  # noqa: BLE001 - the others run all the same: an hour of figures is not lost for one
            traceback.print_exc()
            broken[name] = None
        # What remains of a benchmark, up to a gigabyte, is not looked through by each collection of the others: that
        # takes ten seconds on a machine that has moved its pages away, as long as a server waits for a request.
        gc.collect()
        gc.freeze()
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="", help="write the figures to this file, as JSON")
    parser.add_argument("--page", default="", help=f"write the reference page to this file; needs {page.RUNS} runs")
    parser.add_argument("--only", default="", help="run only benchmarks whose name contains this word")
    parser.add_argument("--but", default="", help="leave out benchmarks whose name contains this word")
    parser.add_argument("--runs", type=int, default=1, help="how often to run the whole; the medians of all runs count")
    options = parser.parse_args()
    if options.page and options.runs < page.RUNS:
        parser.error(f"the page shows the median of at least {page.RUNS} whole runs: add --runs {page.RUNS}")
    return options


def main() -> int:
    options = _options()
    machine = _machine()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(_line(("benchmark", "median", "unit", "spread", "must reach")))
    chosen = [name for name in BENCHMARKS if options.only in name and not (options.but and options.but in name)]
    if not chosen:
        print(
            f"no benchmark has {options.only!r} in its name; the benchmarks are: {', '.join(BENCHMARKS)}",
            file=sys.stderr,
        )
        return 1
    if left_out := [name for name in BENCHMARKS if name not in chosen]:
        machine["left out"] = ", ".join(left_out)
    stolen, passed = _jiffies()
    broken: dict[str, None] = {}
    with _apart():
        figures = median_of_runs([_run(chosen, broken) for _ in range(options.runs)])
    if options.runs > 1:
        print(f"medians of {options.runs} runs:")
        for figure in figures:
            _print(figure)
    taken, now = _jiffies()
    machine["runs"] = options.runs
    machine["stolen"] = f"{100 * (taken - stolen) / max(1, now - passed):.1f} % of the processors' time"
    print(f"stolen by other machines: {machine['stolen']}")
    if options.json:
        Path(options.json).write_text(
            json.dumps({"machine": machine, "figures": [_plain(figure) for figure in figures]}, indent=1)
        )
    if options.page:
        Path(options.page).write_text(page.render(machine, figures))
    missed = [figure for figure in figures if figure.reached is False]
    failed = [figure.name for figure in missed if not figure.goal]
    if goals := [figure.name for figure in missed if figure.goal]:
        print(f"{len(goals)} figures miss their goals: {'; '.join(goals)}")
    if failed:
        print(f"{len(failed)} figures miss their limits: {'; '.join(failed)}", file=sys.stderr)
    if broken:
        print(f"{len(broken)} benchmarks ended with an error, see above: {', '.join(broken)}", file=sys.stderr)
    return 1 if failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
