"""What a mutation run says at its end."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from tools.mutants import exceptions, mutations, runs

LEAST_SHARE = 0.95
"""The share of the drawn mutants that has to be killed."""

KILLED = ("killed", "timed out")
COLUMNS: tuple[runs.Outcome, ...] = ("killed", "timed out", "survived", "no test")


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of the drawn mutations; ``None`` for those that did not run. ``false_alarms`` are failures of the
    product without a fault.
    """

    results: Sequence[tuple[mutations.Mutation, runs.Result | None]]
    reasons: dict[exceptions.Key, str]
    controls: int = 0
    false_alarms: Sequence[str] = ()

    @property
    def survivors(self) -> list[tuple[mutations.Mutation, runs.Result]]:
        """The mutants that no test noticed."""
        return [(mutation, result) for mutation, result in self.results if result and result.outcome not in KILLED]

    @property
    def share(self) -> float:
        """The share of the drawn mutants that was killed; one that did not run was not killed."""
        return 1 - (len(self.survivors) + self._missing) / max(1, len(self.results))

    @property
    def is_good(self) -> bool:
        """Whether all ran, enough were killed, each survivor has a reason, and the tests pass without a fault."""
        listed = all(mutation.key in self.reasons for mutation, _ in self.survivors)
        return not self._missing and self.share >= LEAST_SHARE and listed and not self.false_alarms

    @property
    def _missing(self) -> int:
        return sum(result is None for _, result in self.results)

    def lines(self) -> Iterator[str]:
        """Yield the report: survivors first, then late ones, a table, and the share."""
        for mutation, missed in self.survivors:
            yield f"{mutation.path}:{mutation.line}: {missed.outcome}, in {mutation.scope or 'the module'}"
            yield from _difference(mutation)
            yield f"    reason: {self.reasons.get(mutation.key, 'none in tools/mutants/survivors.toml')}"
        for mutation, result in self.results:
            if result and result.outcome == "timed out":
                yield f"{mutation.path}:{mutation.line}: timed out, first test {result.test}"
                yield from _difference(mutation)
            elif result and result.outcome == "killed" and mutation.key in self.reasons:
                yield f"{mutation.path}:{mutation.line}: is in survivors.toml, but {result.test} kills it"
        yield from self._table()
        for test in self.false_alarms:
            yield f"fails without a fault: {test}"
        drawn = len(self.results)
        yield f"killed: {self.share:.1%} of {drawn} drawn, {self._missing} of them not run; needed: {LEAST_SHARE:.0%}"

    def _table(self) -> Iterator[str]:
        counts: dict[str, Counter[str]] = {}
        for mutation, result in self.results:
            area = mutation.path.split("/")[2]
            counts.setdefault(area, Counter())[result.outcome if result else "not run"] += 1
        yield f"{'area':10}" + "".join(f"{column:>10}" for column in (*COLUMNS, "not run"))
        for area, count in sorted(counts.items()):
            yield f"{area:10}" + "".join(f"{count[column]:>10}" for column in (*COLUMNS, "not run"))
        yield f"without a fault: {self.controls - len(self.false_alarms)} of {self.controls} runs pass"


def _difference(mutation: mutations.Mutation) -> Iterator[str]:
    yield f"    - {mutation.before}"
    yield f"    + {mutation.after}"
