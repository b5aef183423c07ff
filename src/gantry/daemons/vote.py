"""The confirmation of a master, decided over what the nodes answered; pure.

``role`` asks all nodes, offline ones too, and ``decide`` says what follows:

- the configuration: at least half plus one of all nodes, and of all master candidates, say that nothing is newer than
  the copy here, by epoch and serial, and by the highest job number;
- not a single node holds a newer one, none another one of the same epoch and serial, and none has heard of a later
  master;
- the role: at least half plus one of all nodes take this one for the master. Not asked when it takes the role over.

The node that asks is counted, with its own copy as its answer. A node that holds no copy knows of nothing newer, unless
it gave up one that was: it may have been among those that acknowledged. It cannot turn out ``CONFIRMED`` for a copy
that lacks what a majority of the candidates has acknowledged. It is a confirmation: who asks twice is answered twice.
That only one of two begins, ``role`` has promised by the same majorities.

See contracts/cluster-design.md#confirmation-of-the-master.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gantry.rpc import calls


class Outcome(StrEnum):
    """What became of a vote; one that is undecided could turn out either way with the answers that are missing."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node said: whom it takes for the master, and how far its copy reaches; None where it did not say.

    ``why`` is the reason then; ``offline`` is the node's flag, ``reached`` whether it answered anything.
    """

    node: str
    master: str | None = None
    copy: calls.CandidateState | None = None
    why: str = ""
    offline: bool = False

    @property
    def reached(self) -> bool:
        """Tell whether the node answered at all."""
        return self.master is not None or self.copy is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants to be master, with what: ``copy`` as a candidate would tell it, ``candidates`` by name.

    ``taking_over`` when the node was not the master before.
    """

    node: str
    copy: calls.CandidateState
    candidates: Collection[str] = ()
    taking_over: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, and what stands in the way of ``CONFIRMED``."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()


def is_newer(copy: calls.CandidateState, than: calls.CandidateState) -> bool:
    """Tell whether a copy has what the other lacks; what an older epoch's master wrote last does not count."""
    later = (copy.epoch, copy.serial) > (than.epoch, than.serial)
    return later or (copy.epoch >= than.epoch and copy.job > than.job)


def highest_epoch(answers: Sequence[Answer]) -> int:
    """Return the highest epoch that any node has seen."""
    return max((max(answer.copy.epoch, answer.copy.heard) for answer in answers if answer.copy), default=0)


def decide(claim: Claim, answers: Sequence[Answer]) -> Verdict:
    """Decide over the answers of all other nodes."""
    refusals = list(_contradictions(claim, answers))
    if refusals:
        return Verdict(Outcome.REFUSED, tuple(refusals))
    told = [answer for answer in answers if answer.copy is not None]
    candidates = [answer for answer in answers if answer.node in claim.candidates]
    tallies = [
        _Tally("nodes say that nothing is newer than the copy here", len(told), len(answers) - len(told)),
        _Tally(
            "master candidates say that nothing is newer than the copy here",
            sum(answer.copy is not None for answer in candidates),
            sum(answer.copy is None for answer in candidates),
        ),
    ]
    if not claim.taking_over:
        named = [answer.master for answer in answers if answer.master is not None]
        yes = named.count(claim.node)
        tallies.append(
            _Tally(f"nodes take {claim.node} for the master", yes, len(answers) - len(named), no=len(named) - yes)
        )
    reasons = tuple(tally.text for tally in tallies if not tally.passed)
    if not reasons:
        return Verdict(Outcome.CONFIRMED)
    lost = any(not tally.possible for tally in tallies)
    return Verdict(Outcome.REFUSED if lost else Outcome.UNDECIDED, reasons)


@dataclass(frozen=True, slots=True)
class _Tally:
    """Votes of the others; the node itself is one more that says yes."""

    what: str
    yes: int
    silent: int
    no: int = 0

    @property
    def _total(self) -> int:
        return 1 + self.yes + self.silent + self.no

    @property
    def _quorum(self) -> int:
        return self._total // 2 + 1

    @property
    def passed(self) -> bool:
        return 1 + self.yes >= self._quorum

    @property
    def possible(self) -> bool:
        return 1 + self.yes + self.silent >= self._quorum

    @property
    def text(self) -> str:
        return f"{1 + self.yes} of {self._total} {self.what}, {self._quorum} are needed"


def _contradictions(claim: Claim, answers: Sequence[Answer]) -> Iterator[str]:
    mine = claim.copy
    for answer in answers:
        copy = answer.copy
        if copy is None:
            continue
        here = f"here it is {_extent(mine)}"
        if is_newer(copy, mine):
            yield f"node {answer.node} holds a newer copy, {_extent(copy)}, {here}"
        elif (copy.epoch, copy.serial) == (mine.epoch, mine.serial) and copy.digest != mine.digest:
            yield f"node {answer.node} holds another copy of {_extent(copy)}"
        elif copy.given_up > (mine.epoch, mine.serial):
            epoch, serial = copy.given_up
            yield f"node {answer.node} gave up a newer copy, epoch {epoch} serial {serial}, {here}"
        elif copy.heard > mine.epoch:
            yield f"node {answer.node} has heard of a later master, of epoch {copy.heard}, {here}"


def _extent(copy: calls.CandidateState) -> str:
    return f"epoch {copy.epoch} serial {copy.serial} job {copy.job}"


def described(answers: Sequence[Answer]) -> str:
    """Say for people what each node answered."""
    return "; ".join(_said(answer) for answer in answers) or "there is no other node"


def _said(answer: Answer) -> str:
    parts = []
    if answer.master is not None:
        parts.append(f"takes {answer.master or 'nobody'} for the master")
    if answer.copy is not None:
        parts.append(f"holds {_extent(answer.copy)}" if answer.copy.serial else "holds no copy")
    if answer.why:
        parts.append(f"says: {answer.why}" if answer.reached else f"does not answer: {answer.why}")
    return f"{answer.node} {', '.join(parts)}"
