"""Counts the promises that the tests keep: ``make promises``.

The lists stand in ``docs/reference/promises``, a row per id. A test says which it keeps by
``@pytest.mark.promise("cluster-25")``; ``promise_plugin`` writes down at the end of a run what became of those tests:
``build/promises/last-run.json`` for each run, ``full-run.json`` for those that left nothing out, ``real-run.json`` for
those of ``make test-real``, which runs what others skip. A promise is kept if at least one test that carries its id
passed in the last full run or in the last one of the real parts, and none failed; of a test that ran in both, the later
counts.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "promises"
RECORDS = ROOT / "build" / "promises"
LAST = "last-run.json"
FULL = "full-run.json"
REAL = "real-run.json"

TOTALS = {"networks": 84, "segments": 93, "ipam": 40, "claims": 56, "cluster": 156}
"""The lists in the order they are shown, each with the number of its last id."""

ROW = re.compile(r"^\| (\w+-\d+) \|", re.MULTILINE)


@dataclass
class Outcome:
    """What became of the tests that carry one id."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, tests: Mapping[str, str]) -> "Outcome":
        """Return the lists from the outcome of each test."""
        lists: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        for test in sorted(tests):
            lists[tests[test]].append(test)
        return cls(**lists)

    @property
    def kept(self) -> bool:
        """Tell whether the promise counts."""
        return bool(self.passed) and not self.failed


@dataclass
class Run:
    """One run of the tests: when it ended (ISO 8601, UTC), and what each id got.

    ``full`` is whether it left nothing out, ``real`` whether nothing but the tests that need no real parts.
    """

    date: str
    full: bool
    promises: dict[str, Outcome]
    real: bool = False

    def write(self, folder: Path) -> None:
        """Keep the record; a run that is full, or has all real parts, also becomes the one that counts."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        for name in (LAST, *([FULL] if self.full else []), *([REAL] if self.real else [])):
            new = folder / f"{name}.{os.getpid()}"
            new.write_text(text + "\n")
            new.replace(folder / name)


def read(path: Path) -> Run | None:
    """Return the record of a run, or None when there was none."""
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    promises = {name: Outcome(**lists) for name, lists in data["promises"].items()}
    return Run(data["date"], data["full"], promises, data.get("real", False))


def merged(*runs: Run | None) -> dict[str, Outcome]:
    """Return what the tests of several runs made of each id: of a test's outcomes the latest, unless it was skipped."""
    found: dict[str, dict[str, str]] = {}
    for run in sorted((run for run in runs if run), key=lambda run: run.date):
        for promise, outcome in run.promises.items():
            tests = found.setdefault(promise, {})
            tests |= {test: "skipped" for test in outcome.skipped if test not in tests}
            tests |= dict.fromkeys(outcome.passed, "passed") | dict.fromkeys(outcome.failed, "failed")
    return {promise: Outcome.of(tests) for promise, tests in found.items()}


def rows(page: Path) -> list[str]:
    """Return the ids of a page in its order."""
    return ROW.findall(page.read_text())


@cache
def known() -> frozenset[str]:
    """Return every id that a test may carry."""
    return frozenset(promise for name in TOTALS for promise in rows(PAGES / f"{name}.md"))


def spans(numbers: Iterable[int]) -> str:
    """Write numbers shortly.

    >>> spans([1, 2, 3, 7, 9, 10])
    '1-3 7 9-10'
    """
    ends: list[list[int]] = []
    for number in sorted(numbers):
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def table(run: Run | None, real: Run | None = None) -> str:
    """Return what ``make promises`` prints of the last full run and the last one of the real parts."""
    outcomes = merged(run, real)
    counts, missing = [], []
    for name, total in TOTALS.items():
        numbers = range(1, total + 1)
        lost = [n for n in numbers if not outcomes.get(f"{name}-{n}", Outcome()).kept]
        counts.append(f"{name} {total - len(lost)}/{total}")
        if lost:
            missing.append(f"  {name} {spans(lost)}")
    dates = [f"full run of {run.date}" if run else "no full run yet: make test"]
    dates += [f"real parts of {real.date}"] if real else ["no run of the real parts that take minutes: make test-real"]
    return "\n".join([*counts, "", *(["not kept:", *missing, ""] if missing else []), *dates])


def main() -> int:
    """Print the table of the last full run."""
    print(table(read(RECORDS / FULL), read(RECORDS / REAL)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
