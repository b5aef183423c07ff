"""Counts the promises that the tests keep: ``make promises``.

The lists stand in ``docs/reference/promises``, a row per id. A test says which it keeps by
``@pytest.mark.promise("cluster-25")``; ``promise_plugin`` records at the end of a run what became of those tests:
``build/promises/last-run.json`` for each run, ``full-run.json`` for those that left nothing out, and one record for
each part: ``unit-run.json``, ``real-run.json``, ``kube-run.json``. Only records of the tree as it is now count (see
``trees``); of a test that ran in several, the latest counts.

A promise is kept if a test that carries its id passed with every parameter set, none that carries it failed, and no
parameter set of one was skipped. The exit status is 0 if every promise is kept, or is lost only because tests of it
were skipped on this machine; it is 1 otherwise.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from tools import trees

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "promises"
RECORDS = ROOT / "build" / "promises"
LAST = "last-run.json"
FULL = "full-run.json"
PARTS = {"unit": "not real and not kube", "real": "real", "kube": "kube"}
"""The parts of a full run, each with the expression of marks (``pytest -m``) that selects it."""

TOTALS = {"networks": 84, "segments": 93, "ipam": 40, "claims": 56, "cluster": 156}
"""The lists in the order they are shown, each with the number of its last id."""

ROW = re.compile(r"^\| (\w+-\d+) \|", re.MULTILINE)


@dataclass
class Outcome:
    """What became of the tests that carry one id."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    reasons: dict[str, str] = field(default_factory=dict)
    """Why a test was skipped."""

    @classmethod
    def of(cls, tests: Mapping[str, str], reasons: Mapping[str, str] | None = None) -> "Outcome":
        """Return the lists from the outcome of each test, and the reasons of those that were skipped."""
        lists: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        for test in sorted(tests):
            lists[tests[test]].append(test)
        return cls(**lists, reasons={test: (reasons or {}).get(test, "") for test in lists["skipped"]})

    @property
    def lost_sets(self) -> list[str]:
        """Return the parameter sets that were skipped."""
        return [test for test in self.skipped if test.endswith("]")]

    @property
    def kept(self) -> bool:
        """Return whether the promise counts."""
        return bool(self.passed) and not self.failed and not self.lost_sets


@dataclass
class Run:
    """One run of the tests: when it ended (ISO 8601, UTC), and what became of the tests of each id.

    ``full`` is whether it left nothing out; ``part`` is the name of the part that it ran whole, if any; ``tree`` is the
    content hash of the tree, empty if that changed during the run.
    """

    date: str
    full: bool
    promises: dict[str, Outcome]
    part: str = ""
    tree: str = ""

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
    return Run(data["date"], data["full"], promises, data.get("part", ""), data.get("tree", ""))


def merged(*runs: Run | None) -> dict[str, Outcome]:
    """Return what the tests of several runs made of each id: of a test's outcomes the latest, unless it was skipped."""
    outcomes: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    for run in sorted((run for run in runs if run), key=lambda run: run.date):
        for promise, outcome in run.promises.items():
            tests = outcomes.setdefault(promise, {})
            tests |= {test: "skipped" for test in outcome.skipped if test not in tests}
            tests |= dict.fromkeys(outcome.passed, "passed") | dict.fromkeys(outcome.failed, "failed")
            reasons |= {test: reason for test, reason in outcome.reasons.items() if reason or test not in reasons}
    return {promise: Outcome.of(tests, reasons) for promise, tests in outcomes.items()}


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


def counting(tree: str, runs: Mapping[str, Run | None]) -> dict[str, Run]:
    """Return the records that count: those of the tree with this content hash."""
    return {name: run for name, run in runs.items() if run and tree and run.tree == tree}


def table(tree: str, runs: Mapping[str, Run | None]) -> tuple[str, bool]:
    """Return what ``make promises`` prints, and whether no promise is lost but through tests skipped on this machine.

    ``runs`` are the records by name: ``full`` and the parts.
    """
    outcomes = merged(*counting(tree, runs).values())
    counts, missing, skips = [], [], []
    fine = True
    for name, total in TOTALS.items():
        lost = [n for n in range(1, total + 1) if not outcomes.get(f"{name}-{n}", Outcome()).kept]
        counts.append(f"{name} {total - len(lost)}/{total}")
        if lost:
            missing.append(f"  {name} {spans(lost)}")
        for promise in (f"{name}-{number}" for number in lost):
            outcome = outcomes.get(promise, Outcome())
            skips += [f"  {promise} {test}: {outcome.reasons.get(test, '')}" for test in outcome.skipped]
            fine = fine and bool(outcome.skipped) and not outcome.failed
    lines = [*counts, "", *(["not kept:", *missing, ""] if missing else [])]
    lines += ["of these, skipped on this machine:", *skips, ""] if skips else []
    return "\n".join([*lines, *(_dated(tree, name, runs.get(name)) for name in ("full", *PARTS))]), fine


def _dated(tree: str, name: str, run: Run | None) -> str:
    make = {"full": "make test"}.get(name, f"make {name}" if name == "unit" else f"make test-{name}")
    if not run:
        return f"{name}: no run yet: {make}"
    return f"{name}: run of {run.date}" + ("" if run.tree == tree else f", of another tree, does not count: {make}")


def main() -> int:
    """Print the table of the records that count."""
    names = {"full": FULL} | {part: f"{part}-run.json" for part in PARTS}
    text, fine = table(trees.content_hash(ROOT), {name: read(RECORDS / file) for name, file in names.items()})
    print(text)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
