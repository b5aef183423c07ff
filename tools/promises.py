"""Counts the promises that the tests keep: ``make promises``.

The lists stand in ``docs/reference/promises``, a row per id. A test says which it keeps by
``@pytest.mark.promise("cluster-25")``; ``promise_plugin`` writes down at the end of a run what became of those tests:
``build/promises/last-run.json`` for each run, ``full-run.json`` for those that left nothing out. A promise is kept if
at least one test that carries its id passed in the last full run, and none failed.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "promises"
RECORDS = ROOT / "build" / "promises"
LAST = "last-run.json"
FULL = "full-run.json"

TOTALS = {"networks": 84, "segments": 93, "ipam": 40, "claims": 56, "cluster": 156}
"""The lists in the order they are shown, each with the number of its last id."""

ROW = re.compile(r"^\| (\w+-\d+) \|", re.MULTILINE)


@dataclass
class Outcome:
    """What became of the tests that carry one id."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Tell whether the promise counts."""
        return bool(self.passed) and not self.failed


@dataclass
class Run:
    """One run of the tests: when it ended (ISO 8601, UTC), whether it left nothing out, and what each id got."""

    date: str
    full: bool
    promises: dict[str, Outcome]

    def write(self, folder: Path) -> None:
        """Keep the record; a full run also becomes the one that counts."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        for name in (LAST, FULL) if self.full else (LAST,):
            new = folder / f"{name}.{os.getpid()}"
            new.write_text(text + "\n")
            new.replace(folder / name)


def read(path: Path) -> Run | None:
    """Return the record of a run, or None when there was none."""
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    promises = {name: Outcome(**lists) for name, lists in data["promises"].items()}
    return Run(data["date"], data["full"], promises)


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


def table(run: Run | None) -> str:
    """Return what ``make promises`` prints."""
    outcomes = run.promises if run else {}
    counts, missing = [], []
    for name, total in TOTALS.items():
        numbers = range(1, total + 1)
        lost = [n for n in numbers if not outcomes.get(f"{name}-{n}", Outcome()).kept]
        counts.append(f"{name} {total - len(lost)}/{total}")
        if lost:
            missing.append(f"  {name} {spans(lost)}")
    date = f"full run of {run.date}" if run else "no full run yet: make test"
    return "\n".join([*counts, "", *(["not kept:", *missing, ""] if missing else []), date])


def main() -> int:
    """Print the table of the last full run."""
    print(table(read(RECORDS / FULL)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
