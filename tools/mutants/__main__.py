"""Runs drawn mutants: ``make mutants``, or ``python -m tools.mutants --number 500``.

Each run draws a seed of its own and prints it, so that tests are not written to the mutants of one seed. The results of
a run and its seed are kept in ``build/mutants/last-run.json``. With ``--keep`` the mutants that it killed do not run
again, and with ``--portion`` only that many of the others run: so a run can be continued, and survivors can be tried
again after a test has been written.
"""

import argparse
import queue
import random
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


class LastRun(msgspec.Struct):
    """The file: the seed of the run, and its results."""

    seed: int
    results: list[Kept] = []


FILE = FOLDER / "last-run.json"
SEEDS = 10**6
"""How many seeds there are to draw from."""


class Session:
    """One call of the program: the mutations that a seed drew, the results known so far, the copies of the tree."""

    def __init__(
        self, seed: int, drawn: Sequence[mutations.Mutation], selection: traces.Selection, known: Sequence[Kept]
    ) -> None:
        self.results = {(kept.key, kept.number): kept.result for kept in known}
        self._seed = seed
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
        FILE.write_bytes(msgspec.json.encode(LastRun(self._seed, kept)))

    def report(self) -> report.Report:
        """Return what is known."""
        results = [(mutation, self.results.get((mutation.key, mutation.number))) for mutation in self._drawn]
        return report.Report(results, exceptions.read(), self.controls, self.false_alarms)


def seed_of(chosen: int | None, continued: LastRun | None) -> int:
    """Return the seed of a run: the chosen one, or that of the run that it continues, or else a new one."""
    if chosen is not None:
        return chosen
    return continued.seed if continued else random.randrange(SEEDS)


def _number(text: str) -> int | None:
    return int(text) if text else None


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--number", type=int, default=500, help="draw this many mutants")
    parser.add_argument("--seed", type=_number, help="draw by this seed (default: a new one for each run)")
    parser.add_argument("--jobs", type=int, default=2, help="run this many at a time")
    parser.add_argument("--portion", type=int, help="run this many at most")
    parser.add_argument("--keep", action="store_true", help="continue the last run: what it killed does not run again")
    parser.add_argument("--only", default="", help="run those alone whose path has this text")
    return parser


def main() -> int:
    """Run; the exit status is 0 if the report is good."""
    options = command_line().parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    continued = msgspec.json.decode(FILE.read_bytes(), type=LastRun) if options.keep and FILE.exists() else None
    seed = seed_of(options.seed, continued)
    print(f"seed {seed}", flush=True)
    drawn = drawing.draw(drawing.sources(ROOT), options.number, seed)
    drawn = [mutation for mutation in drawn if options.only in mutation.path]
    selection = traces.Selection(traces.load(ROOT, FOLDER / "traces.json"))
    session = Session(seed, drawn, selection, continued.results if continued else ())
    session.run(options.jobs, options.portion or len(drawn))
    outcome = session.report()
    print(*outcome.lines(), f"the same mutants again: make mutants N={options.number} SEED={seed}", sep="\n")
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
