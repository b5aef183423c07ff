"""Measures which lines of src/gantry/operations the scenarios of the simulation execute.

    simulation_coverage.py [--seeds FIRST-LAST] [--bound PERCENT] [--missing] [--processes N]

Prints a line for each file and the share of all: of the statements in functions, without the declarations that
importing the modules executes, and beside it of all statements, as coverage.py counts them. The exit code is 1 if the
share in functions is below the bound, or if a seed breaks a promise. Each process measures its own seeds.
"""

import argparse
import concurrent.futures
import importlib
import os
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

PACKAGE = "gantry.operations"
BOUND = 80.0
"""Percent of the statements in functions, without declarations."""
SEEDS = "0-199"

Lines = Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class Part:
    """What a process has measured: the statements and executed lines of each file, and the seeds that failed."""

    executed: Lines
    imported: Lines
    broken: Sequence[int]


def _recorder() -> coverage.Coverage:
    return coverage.Coverage(source=[PACKAGE], data_file=None, config_file=False)


def _lines(recorder: coverage.Coverage) -> Lines:
    data = recorder.get_data()
    return {path: frozenset(data.lines(path) or ()) for path in data.measured_files()}


def measure(seeds: Sequence[int]) -> Part:
    """Run seeds in this process, which must not have imported the package yet."""
    recorder = _recorder()
    with recorder.collect():
        package = importlib.import_module(PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
            importlib.import_module(module.name)
    imported = _lines(recorder)
    scenario = importlib.import_module("gantry.sim.scenario")
    with recorder.collect():
        broken = [seed for seed in seeds if scenario.run(seed).broken]
    return Part(_lines(recorder), imported, broken)


def _union(parts: Iterable[Lines]) -> dict[str, set[int]]:
    together: dict[str, set[int]] = defaultdict(set)
    for part in parts:
        for path, lines in part.items():
            together[path] |= lines
    return together


@dataclass(frozen=True)
class File:
    """The statements of a file, those that importing executes, and those that neither importing nor a seed executes."""

    path: str
    statements: frozenset[int]
    imported: frozenset[int]
    missing: frozenset[int]

    @property
    def inside(self) -> int:
        """Return the number of statements in functions."""
        return len(self.statements - self.imported)


def files(parts: Sequence[Part]) -> list[File]:
    """Return the files of the package with what all processes have executed."""
    executed, imported = _union(part.executed for part in parts), _union(part.imported for part in parts)
    recorder = _recorder()
    measured_files = []
    for path in sorted(executed):
        statements = frozenset(recorder.analysis2(path)[1])
        measured_files.append(
            File(path, statements, statements & frozenset(imported[path]), statements - frozenset(executed[path]))
        )
    return measured_files


def share(measured_files: Sequence[File]) -> float:
    """Return the percentage of executed statements in functions."""
    return _percentage(sum(file.inside for file in measured_files), measured_files)


def _share_of_all(measured_files: Sequence[File]) -> float:
    return _percentage(sum(len(file.statements) for file in measured_files), measured_files)


def _percentage(total: int, measured_files: Sequence[File]) -> float:
    # What importing executes is never missing.
    return 100.0 * (total - sum(len(file.missing) for file in measured_files)) / total


def _runs(lines: Iterable[int]) -> str:
    """Return line numbers as text, with runs of them as first-last."""
    texts: list[list[int]] = []
    for line in sorted(lines):
        if texts and line == texts[-1][1] + 1:
            texts[-1][1] = line
        else:
            texts.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in texts)


def report(measured_files: Sequence[File], *, missing: bool) -> str:
    """Return the table."""
    rows = []
    for file in measured_files:
        if not file.inside:
            continue
        name = file.path.rpartition("/gantry/operations/")[2]
        lines = f"  {_runs(file.missing)}" if missing else ""
        rows.append(
            f"{name:<40} {file.inside:5} statements in functions, {len(file.missing):4} missing "
            f"{share([file]):4.0f} %{lines}"
        )
    everywhere, inside = _share_of_all(measured_files), share(measured_files)
    rows.append(f"statements in functions executed: {inside:.1f} %; of all statements: {everywhere:.1f} %")
    return "\n".join(rows)


def _split(seeds: range, count: int) -> list[list[int]]:
    return [part for part in (list(seeds[start::count]) for start in range(count)) if part]


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Measure which lines of the operations the simulation executes.")
    parser.add_argument("--seeds", type=_range, default=_range(SEEDS), metavar="FIRST-LAST")
    parser.add_argument("--bound", type=float, default=BOUND, metavar="PERCENT")
    parser.add_argument("--missing", action="store_true", help="list the lines that no seed executes")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args(argv)
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        parts = list(pool.map(measure, _split(options.seeds, options.processes)))
    measured_files = files(parts)
    print(report(measured_files, missing=options.missing))
    if broken := sorted(seed for part in parts for seed in part.broken):
        print(f"seeds that broke a promise: {', '.join(map(str, broken))}")
    if share(measured_files) < options.bound:
        print(f"fewer than {options.bound:g} % of the statements in functions of {Path(PACKAGE.replace('.', '/'))}")
    return 1 if broken or share(measured_files) < options.bound else 0


if __name__ == "__main__":
    sys.exit(main())
