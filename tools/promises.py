"""Counts the promises that the tests keep: ``make promises``.

The lists stand in ``docs/reference/promises``, a row per id. A test says which it keeps by
``@pytest.mark.promise("cluster-25")``; ``promise_plugin`` records at the end of a run what became of those tests:
``build/promises/last-run.json`` for each run, ``full-run.json`` for those that left nothing out, and one record for
each part: ``gate-run.json``, ``slow-run.json``, ``real-run.json``, ``kube-run.json``. Only records of the tree as it is
now count (see ``trees``); of a test that ran in several, the latest counts.

A promise is kept if a test that carries its id passed with every parameter set, none that carries it failed, and no
parameter set of one was skipped. It is held by a real part if one of those tests reached another process or a socket
(see ``contact_plugin``), else by logic only; then its page says why, and at most a tenth of all are.

The exit status is 0 if every promise is kept and held as its page says. On a machine that lacks a part, ``--skips``
excuses what is lost only because tests were skipped.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from tools import gate, trees

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "promises"
RECORDS = ROOT / "build" / "promises"
LAST = "last-run.json"
FULL = "full-run.json"
PARTS = {"gate": gate.MARKS, "slow": "slow and not (real or kube or install)", "real": "real", "kube": "kube"}
"""The parts of a full run, each with the expression of marks (``pytest -m``) that selects it."""

TOTALS = {"networks": 84, "segments": 93, "ipam": 40, "claims": 56, "cluster": 156}
"""The lists in the order they are shown, each with the number of its last id."""

ROW = re.compile(r"^\| (\w+-\d+) \|", re.MULTILINE)

REASON = re.compile(r"^- (\w+-\d+(?:, \w+-\d+)*): \S", re.MULTILINE)
"""A line below a list that says why promises are held by logic only."""

ELSEWHERE = "its part did not run"
"""Why a test of another part counts as skipped in the record of a part."""

MIN_REAL = 0.9
"""The part of all promises that must be held by real parts."""


@dataclass
class Outcome:
    """What became of the tests that carry one id."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    reasons: dict[str, str] = field(default_factory=dict)
    """Why a test was skipped."""

    real: list[str] = field(default_factory=list)
    """The tests that reached a real part."""

    @classmethod
    def of(
        cls, tests: Mapping[str, str], *, reasons: Mapping[str, str] | None = None, real: Collection[str] = ()
    ) -> "Outcome":
        """Return the lists from the outcome of each test, with the reasons of those that were skipped."""
        lists: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
        for test in sorted(tests):
            lists[tests[test]].append(test)
        why = {test: (reasons or {}).get(test, "") for test in lists["skipped"]}
        return cls(**lists, reasons=why, real=sorted(set(real) & tests.keys()))

    @property
    def lost_sets(self) -> list[str]:
        """Return the parameter sets that were skipped."""
        return [test for test in self.skipped if test.endswith("]")]

    @property
    def kept(self) -> bool:
        """Return whether the promise counts."""
        return bool(self.passed) and not self.failed and not self.lost_sets

    @property
    def held_by_real_part(self) -> bool:
        """Return whether a test that passed reached a real part."""
        return not set(self.real).isdisjoint(self.passed)


@dataclass
class Run:
    """One run of the tests: when it ended (ISO 8601, UTC), and what became of the tests of each id.

    ``full`` is whether it left nothing out; ``part`` is the name of the part that it ran whole, if any; ``tree`` is the
    content hash of the tree, empty if that changed during the run; ``commit`` is what was checked out.
    """

    date: str
    full: bool
    promises: dict[str, Outcome]
    part: str = ""
    tree: str = ""
    commit: str = ""

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
    return Run(data["date"], data["full"], promises, *(data.get(name, "") for name in ("part", "tree", "commit")))


def merged(*runs: Run | None) -> dict[str, Outcome]:
    """Return what the tests of several runs made of each id: of a test's outcomes the latest, unless it was skipped.

    Once all parts have run, what one of them left to another is not counted: the machine of a part may have other
    parameter sets (of the versions of a client that it has) than that on which they run.
    """
    outcomes: dict[str, dict[str, str]] = {}
    reasons: dict[str, str] = {}
    real: set[str] = set()
    whole = PARTS.keys() <= {run.part for run in runs if run}
    for run in sorted((run for run in runs if run), key=lambda run: run.date):
        for promise, outcome in run.promises.items():
            tests = outcomes.setdefault(promise, {})
            skipped = [test for test in outcome.skipped if not whole or outcome.reasons.get(test) != ELSEWHERE]
            tests |= {test: "skipped" for test in skipped if test not in tests}
            tests |= dict.fromkeys(outcome.passed, "passed") | dict.fromkeys(outcome.failed, "failed")
            reasons |= {test: reason for test, reason in outcome.reasons.items() if reason or test not in reasons}
            real |= set(outcome.real)
    return {promise: Outcome.of(tests, reasons=reasons, real=real) for promise, tests in outcomes.items()}


def rows(page: Path) -> list[str]:
    """Return the ids of a page in its order."""
    return ROW.findall(page.read_text())


def reasons() -> frozenset[str]:
    """Return the ids for which a page says why they are held by logic only."""
    pages = [(PAGES / f"{name}.md").read_text() for name in TOTALS]
    return frozenset(promise for page in pages for ids in REASON.findall(page) for promise in ids.split(", "))


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


def ids(name: str) -> list[str]:
    """Return the ids of a list."""
    return [f"{name}-{number}" for number in range(1, TOTALS[name] + 1)]


def _numbers(promises: Iterable[str]) -> str:
    return spans(int(promise.rpartition("-")[2]) for promise in promises)


@dataclass(frozen=True)
class Count:
    """What the runs of a tree made of all promises; ``explained`` are those that a page says are held by logic only."""

    outcomes: Mapping[str, Outcome]
    explained: Collection[str]

    def outcome(self, promise: str) -> Outcome:
        """Return what became of the tests of a promise."""
        return self.outcomes.get(promise, Outcome())

    def lost(self, name: str) -> list[str]:
        """Return the promises of a list that are not kept."""
        return [promise for promise in ids(name) if not self.outcome(promise).kept]

    def by_logic(self, name: str) -> list[str]:
        """Return the promises of a list that are kept, and held by logic only."""
        kept = [promise for promise in ids(name) if self.outcome(promise).kept]
        return [promise for promise in kept if not self.outcome(promise).held_by_real_part]

    @property
    def skipped(self) -> bool:
        """Return whether each promise that is not kept was lost only because tests of it were skipped."""
        lost = [self.outcome(promise) for name in TOTALS for promise in self.lost(name)]
        return all(outcome.skipped and not outcome.failed for outcome in lost)

    @property
    def kept(self) -> int:
        """Return how many promises are kept."""
        return sum(TOTALS.values()) - sum(len(self.lost(name)) for name in TOTALS)

    @property
    def real_share(self) -> float:
        """Return which part of the kept promises is held by real parts."""
        return 1 - sum(len(self.by_logic(name)) for name in TOTALS) / max(1, self.kept)

    def complaints(self) -> list[str]:
        """Return in which way promises are not held as their pages say."""
        by_logic = {promise for name in TOTALS for promise in self.by_logic(name)}
        kept = {promise for name in TOTALS for promise in ids(name) if self.outcome(promise).kept}
        missing, stale = by_logic - set(self.explained), set(self.explained) & kept - by_logic
        faults = [f"held by logic only, and no page says why: {', '.join(sorted(missing))}"] if missing else []
        faults += [f"held by a real part, though a page says why not: {', '.join(sorted(stale))}"] if stale else []
        if self.real_share < MIN_REAL:
            faults.append(f"{self.real_share:.1%} are held by real parts; at least {MIN_REAL:.0%} must be")
        return faults


def table(tree: str, runs: Mapping[str, Run | None], *, explained: Collection[str]) -> tuple[str, Count]:
    """Return what ``make promises`` prints, and the count; ``runs`` are the records by name: ``full`` and the parts."""
    count = Count(merged(*counting(tree, runs).values()), explained)
    lines = [
        f"{count.kept} of {sum(TOTALS.values())} promises are kept, {count.real_share:.1%} of them by real parts",
        "",
    ]
    for name, total in TOTALS.items():
        by_logic = count.by_logic(name)
        kept = total - len(count.lost(name))
        counts = f": {kept - len(by_logic)} by real parts, {len(by_logic)} by logic only" if kept else ""
        lines.append(f"{name} {kept}/{total}{counts}{f' ({_numbers(by_logic)})' if by_logic else ''}")
    missing = [f"  {name} {_numbers(count.lost(name))}" for name in TOTALS if count.lost(name)]
    lines += ["", "not kept:", *missing] if missing else []
    if skips := list(_skips(count)):
        lines += ["", "of these, skipped on this machine:", *skips]
    lines += ["", *(_dated(tree, name, runs.get(name)) for name in ("full", *PARTS))]
    return "\n".join(lines), count


def _skips(count: Count) -> Iterable[str]:
    for promise in (promise for name in TOTALS for promise in count.lost(name)):
        outcome = count.outcome(promise)
        yield from (f"  {promise} {test}: {outcome.reasons.get(test, '')}" for test in outcome.skipped)


def _dated(tree: str, name: str, run: Run | None) -> str:
    make = {"full": "pytest -m ''", "gate": "make test"}.get(name, f"make test-{name}")
    if not run:
        return f"{name}: no run yet: {make}"
    where = f", commit {run.commit}" if run.commit else ""
    return f"{name}: run of {run.date}{where}" + (
        "" if run.tree == tree else f", of another tree, does not count: {make}"
    )


def main() -> int:
    """Print the table of the records that count."""
    parser = argparse.ArgumentParser(prog="promises", description="Count the promises that the tests keep.")
    parser.add_argument("--skips", action="store_true", help="excuse what is lost only because tests were skipped")
    options = parser.parse_args()
    names = {"full": FULL} | {part: f"{part}-run.json" for part in PARTS}
    records = {name: read(RECORDS / file) for name, file in names.items()}
    text, count = table(trees.content_hash(ROOT), records, explained=reasons())
    print(text)
    complaints = count.complaints()
    print("\n".join(["", *complaints]) if complaints else "")
    whole = count.kept == sum(TOTALS.values())
    return 0 if not complaints and (whole or (options.skips and count.skipped)) else 1


if __name__ == "__main__":
    sys.exit(main())
