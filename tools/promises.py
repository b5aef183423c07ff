"""Counts the promises that the tests keep: ``make promises``.

The lists stand in ``docs/reference/promises``, a row per id. A test says which it keeps by
``@pytest.mark.promise("cluster-25")``; ``promise_plugin`` writes down at the end of a run what became of those tests:
``build/promises/last-run.json`` for each run, ``full-run.json`` for those that left nothing out, ``real-run.json`` and
``kube-run.json`` for those of ``make test-real`` and ``make test-kube``, which run what others skip. A promise is
kept if at least one test that carries its id passed in the last of these runs, and none failed; of a test that ran in
several, the latest counts.
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
PARTS = {"real": "real parts that take minutes", "kube": "tests on a real API server"}
"""The marks of tests that other runs skip, each alone the selection of a run of them, and what they are."""

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

    ``full`` is whether it left nothing out; ``part`` is the mark if it left out nothing but the tests without that.
    """

    date: str
    full: bool
    promises: dict[str, Outcome]
    part: str = ""

    def write(self, folder: Path) -> None:
        """Keep the record; a run that is full, or has the whole of a part, also becomes the one that counts."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        for name in (LAST, *([FULL] if self.full else []), *([f"{self.part}-run.json"] if self.part else [])):
            new = folder / f"{name}.{os.getpid()}"
            new.write_text(text + "\n")
            new.replace(folder / name)


def read(path: Path) -> Run | None:
    """Return the record of a run, or None when there was none."""
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    promises = {name: Outcome(**lists) for name, lists in data["promises"].items()}
    return Run(data["date"], data["full"], promises, data.get("part", ""))


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


def table(run: Run | None, **parts: Run | None) -> str:
    """Return what ``make promises`` prints of the last full run and the last ones of the parts."""
    outcomes = merged(run, *parts.values())
    counts, missing = [], []
    for name, total in TOTALS.items():
        numbers = range(1, total + 1)
        lost = [n for n in numbers if not outcomes.get(f"{name}-{n}", Outcome()).kept]
        counts.append(f"{name} {total - len(lost)}/{total}")
        if lost:
            missing.append(f"  {name} {spans(lost)}")
    dates = [f"full run of {run.date}" if run else "no full run yet: make test"]
    for part, text in PARTS.items():
        found = parts.get(part)
        dates.append(f"{text}: run of {found.date}" if found else f"no run of the {text}: make test-{part}")
    return "\n".join([*counts, "", *(["not kept:", *missing, ""] if missing else []), *dates])


def main() -> int:
    """Print the table of the last full run."""
    print(table(read(RECORDS / FULL), **{part: read(RECORDS / f"{part}-run.json") for part in PARTS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
