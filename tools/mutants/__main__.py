"""Runs drawn mutants: ``make mutants``, or ``python -m tools.mutants --number 500 --seed 1``.

The results of a run are kept in ``build/mutants/results.json``. With ``--keep`` the mutants that it killed do not run
again, and with ``--portion`` only that many of the others run: so a run can be continued, and survivors can be tried
again after a test has been written.
"""

import argparse
import queue
import sys
import tempfile
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path

import msgspec

from tools.mutants import drawing, exceptions, mutations, report, runs, traces

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
CONTROL = 20
"""Of this many runs one is made without the fault: the tests have to pass then."""


class Kept(msgspec.Struct):
    """A result as the file has it."""

    key: exceptions.Key
    number: int
    result: runs.Result


class Session:
    """One call of the program: the drawn mutations, the results known so far, the copies of the tree."""

    def __init__(self, drawn: Sequence[mutations.Mutation], selection: traces.Selection, known: list[Kept]) -> None:
        self.results = {(kept.key, kept.number): kept.result for kept in known}
        self.controls = 0
        self.false_alarms: list[str] = []
        self._drawn = drawn
        self._selection = selection
        self._copies: queue.SimpleQueue[runs.Copy] = queue.SimpleQueue()

    def run(self, jobs: int, portion: int) -> None:
        """Run the mutants that were not killed yet, as many as the portion has, and keep each result at once."""
        waiting = self._waiting()[:portion]
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder, futures.ThreadPoolExecutor(jobs) as pool:
            for job in range(jobs):
                self._copies.put(runs.Copy(ROOT, Path(folder, str(job))))
            for done, mutation in enumerate(pool.map(self._try, range(len(waiting)), waiting), 1):
                result = self.results[mutation.key, mutation.number]
                print(
                    f"{done}/{len(waiting)} {mutation.path}:{mutation.line}: {result.outcome} {result.test}", flush=True
                )
                self._keep()

    def _waiting(self) -> list[mutations.Mutation]:
        """Return the mutations without a result, then those that survived."""
        results = [(mutation, self.results.get((mutation.key, mutation.number))) for mutation in self._drawn]
        survivors = [mutation for mutation, result in results if result and result.outcome not in report.KILLED]
        return [mutation for mutation, result in results if result is None] + survivors

    def _try(self, index: int, mutation: mutations.Mutation) -> mutations.Mutation:
        copy = self._copies.get()
        try:
            tests = self._selection.tests(mutation)
            seconds = {test: self._selection.seconds(test) for test in tests}
            self.results[mutation.key, mutation.number] = copy.run(mutation, tests, seconds)
            if index % CONTROL == 0:
                self.controls += 1
                control = copy.run(None, tests, seconds)
                if control.outcome in report.KILLED:
                    self.false_alarms.append(control.test)
        finally:
            self._copies.put(copy)
        return mutation

    def _keep(self) -> None:
        kept = [Kept(key, number, result) for (key, number), result in list(self.results.items())]
        (FOLDER / "results.json").write_bytes(msgspec.json.encode(kept))

    def report(self) -> report.Report:
        """Return what is known."""
        results = [(mutation, self.results.get((mutation.key, mutation.number))) for mutation in self._drawn]
        return report.Report(results, exceptions.read(), self.controls, self.false_alarms)


def main() -> int:
    """Run; the exit status is 0 if the report is good."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--number", type=int, default=500, help="draw this many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="run this many at a time")
    parser.add_argument("--portion", type=int, help="run this many at most")
    parser.add_argument("--keep", action="store_true", help="run what the last run killed no second time")
    parser.add_argument("--only", default="", help="run those alone whose path has this text")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = drawing.draw(drawing.sources(ROOT), options.number, options.seed)
    drawn = [mutation for mutation in drawn if options.only in mutation.path]
    selection = traces.Selection(traces.load(ROOT, FOLDER / "traces.json"))
    session = Session(drawn, selection, _known() if options.keep else [])
    session.run(options.jobs, options.portion or len(drawn))
    outcome = session.report()
    print(*outcome.lines(), sep="\n")
    return 0 if outcome.is_good else 1


def _known() -> list[Kept]:
    file = FOLDER / "results.json"
    return msgspec.json.decode(file.read_bytes(), type=list[Kept]) if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
