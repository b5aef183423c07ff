"""The confirmation of a master: decides the vote from the answers of the nodes; pure.

``role`` asks all nodes, including offline nodes. ``decide`` confirms the master if all of these hold:

- the state: a majority (more than half) of all nodes, and a majority of all master candidates, say that no copy is
  newer than the copy of this node, by epoch and serial, and by the highest job number;
- no node contradicts: none holds a newer copy or a different copy of the same epoch and serial, none gave up a newer
  copy, and none has heard of a later master or of more acknowledged records; two that heard of a master or of records
  that no copy has prove a loss, and so does this machine itself;
- the role: a majority of all nodes names this node as the master. Not required when the node takes the role over.

The node that asks counts as one answer, with its own copy. A node without a copy counts as knowing nothing newer,
unless it gave up a newer copy, which it may have acknowledged. If no master acknowledges a change without a majority, a
node that contradicts has one vote like any other, so that the word of one node decides nothing; but records decide: a
node that sends the newer ones refuses the claim alone, as others may have lost theirs. So does a candidate
that has become the master later, and does not count the asker among the candidates: it may have been made the master
without a vote. The outcome is never
``CONFIRMED`` for a copy that lacks a record which a majority of the candidates has acknowledged.

A confirmation is not exclusive: two nodes that ask may both be confirmed. The grants that ``role`` collects from the
same majorities allow only one of them to begin.

See contracts/cluster-design.md#confirmation-of-the-master.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gantry.rpc import calls
from gantry.rpc.calls import reach

MOST_ABOVE = calls.EPOCH_STEP // 2
"""How far an epoch that only one node reports may be above all others: with the next epoch, nodes must still obey."""


class Outcome(StrEnum):
    """The outcome of a vote; the missing answers could turn ``UNDECIDED`` either way."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's answer: the node that it takes for the master, and the extent of its copy; None for a missing answer.

    ``why`` is the reason for a missing answer; ``offline`` is the node's flag; ``reached`` is set if it answered. A
    newer copy is ``proven`` if the node sent its records, in an unbroken chain from a record that both copies have. A
    node that ``disowns`` the asker does not count it among the master candidates, and answers nothing else; if it
    obeys itself as the master, ``own_epoch`` is the epoch of that. At a ``locked`` node a master daemon has the queue's
    lock, so the copy is missing: it works or wants to be the master.
    """

    node: str
    master: str | None = None
    copy: calls.CandidateState | None = None
    why: str = ""
    offline: bool = False
    proven: bool = False
    disowns: bool = False
    own_epoch: int = 0
    locked: bool = False

    @property
    def reached(self) -> bool:
        """Return whether the node answered any call."""
        return self.master is not None or self.copy is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """A node's claim to be the master: ``copy`` is the extent of its state, ``candidates`` the names of all candidates.

    ``taking_over`` is set when the node was not the master before. ``by_majority`` is set when no master acknowledges a
    change without a majority of the candidates: then nothing is acknowledged that only a minority has or has heard of,
    and the grants of a majority are enough. ``acknowledged`` is the furthest acknowledged record that this machine
    itself has heard of.
    """

    node: str
    copy: calls.CandidateState
    candidates: Collection[str] = ()
    taking_over: bool = False
    by_majority: bool = False
    acknowledged: reach.Reach = reach.UNKNOWN


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, and what speaks against the claim: contradictions, and why it is not ``CONFIRMED``."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()


WITNESSES = 2
"""How many nodes must have heard of a later master, under ``by_majority``, to refuse a claim: one may be broken."""


def is_newer(copy: calls.CandidateState, than: calls.CandidateState) -> bool:
    """Return whether a copy has records that ``than`` lacks; the last records of an older epoch do not count."""
    later = (copy.epoch, copy.serial) > (than.epoch, than.serial)
    return later or (copy.epoch >= than.epoch and copy.job > than.job)


def highest_epoch(answers: Sequence[Answer]) -> int:
    """Return the highest epoch that any node has heard of; 0 without answers.

    An unproven one that is too far above the rest does not count: whoever has a candidate's key can make one.
    """
    copies = [answer.copy for answer in answers if answer.copy]
    proven = max((max(copy.epoch, copy.heard) for copy in copies), default=0)
    return max([proven, *(copy.unproven for copy in copies if copy.unproven <= proven + MOST_ABOVE)])


def without_impossible(own_epoch: int, answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers, without the copy of a node that reports an epoch which no other node comes near.

    Such a node is broken: its files or its memory are damaged. Its word counts as missing.
    """
    epochs = [_epoch(answer) for answer in answers]
    checked = []
    for index, answer in enumerate(answers):
        known = max([own_epoch, *epochs[:index], *epochs[index + 1 :]])
        if epochs[index] > known + MOST_ABOVE:
            why = f"it reports epoch {epochs[index]}, and no other node knows an epoch above {known}"
            checked.append(replace(answer, copy=None, why=why))
        else:
            checked.append(answer)
    return checked


def _epoch(answer: Answer) -> int:
    copy = answer.copy
    return max(copy.epoch, copy.heard, copy.given_up[0], copy.acknowledged[0]) if copy else 0


def decide(claim: Claim, answers: Sequence[Answer]) -> Verdict:
    """Decide the vote from the answers of all other nodes."""
    contradictions = {answer.node: text for answer in answers if (text := _contradiction(claim, answer))}
    refusals = tuple(contradictions.values())
    losses = tuple(_lost_masters(claim, answers))
    is_certain = any(_is_certain(claim, answer) for answer in answers if answer.node in contradictions)
    if losses or is_certain or (refusals and not claim.by_majority):
        return Verdict(Outcome.REFUSED, (*refusals, *losses))
    candidates = [answer for answer in answers if answer.node in claim.candidates]
    if lost_text := _lost_records(claim, answers):
        # A silent candidate may have them, and answer the next time.
        is_decided = all(answer.copy for answer in candidates)
        return Verdict(Outcome.REFUSED if is_decided else Outcome.UNDECIDED, (*refusals, lost_text))
    what = "say that nothing is newer than the copy here"
    tallies = [
        _copies(f"nodes {what}", answers, contradictions),
        _copies(f"master candidates {what}", candidates, contradictions),
    ]
    if not claim.taking_over:
        tallies.append(_names(claim.node, answers))
    if all(tally.passed for tally in tallies):
        return Verdict(Outcome.CONFIRMED, refusals)
    reasons = (*refusals, *(tally.text for tally in tallies if not tally.passed))
    lost = any(not tally.possible for tally in tallies)
    return Verdict(Outcome.REFUSED if lost else Outcome.UNDECIDED, reasons)


def _is_certain(claim: Claim, answer: Answer) -> bool:
    """Return whether the contradiction of this node alone refuses the claim."""
    return answer.proven or has_replaced(claim, answer)


def has_replaced(claim: Claim, answer: Answer) -> bool:
    """Return whether a candidate is a later master, for which the asker is no candidate.

    An administrator may have given up the asker, and made that candidate the master without a vote. When all that were
    given up are back, they may be a majority, and none of them knows of it.
    """
    return answer.disowns and answer.node in claim.candidates and answer.own_epoch > claim.copy.epoch


@dataclass(frozen=True, slots=True)
class _Tally:
    """Votes of the other nodes; the node that asks adds one yes."""

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


def _lost_masters(claim: Claim, answers: Sequence[Answer]) -> Iterator[str]:
    """Report a later master that several nodes have heard of, although no copy has its first record.

    Under ``by_majority`` a master calls nodes only when a majority of the candidates has that record. If none of a
    majority has it, these copies were lost or restored from a backup. One node alone may be broken.
    """
    newest = max([claim.copy.epoch, *(answer.copy.epoch for answer in answers if answer.copy)])
    epochs = Counter(answer.copy.heard for answer in answers if answer.copy and answer.copy.heard > newest)
    for epoch, count in sorted(epochs.items()):
        if claim.by_majority and count >= WITNESSES:
            nodes = ", ".join(answer.node for answer in answers if answer.copy and answer.copy.heard == epoch)
            yield (
                f"{nodes} have heard of a later master, of epoch {epoch}, and no copy has its records: the copies of "
                f"the candidates may be restored from a backup; here it is {_extent(claim.copy)}"
            )


def _lost_records(claim: Claim, answers: Sequence[Answer]) -> str:
    """Return which acknowledged records several nodes, or this machine, have heard of, although no copy has them.

    The result is empty if there are none.
    """
    newest = max([_end(claim.copy), *(_end(answer.copy) for answer in answers if answer.copy)])
    known = lost_records(claim, answers, beyond=newest)
    if known and (claim.acknowledged > newest or (claim.by_majority and len(known.nodes) >= WITNESSES)):
        return f"{known}: of the candidates that acknowledged them, each is silent or was restored from a backup"
    return ""


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Acknowledged records up to ``last`` that ``copy``, the copy of ``owner``, lacks; ``nodes`` have heard of them."""

    last: reach.Reach
    owner: str
    copy: calls.CandidateState
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        epoch, serial = self.last
        first = self.copy.serial + 1
        what = f"records {first} to {serial} of epoch {epoch}" if first <= serial else f"serial {serial} epoch {epoch}"
        return (
            f"{what} were acknowledged, as {', '.join(self.nodes)} {'have' if len(self.nodes) > 1 else 'has'} heard, "
            f"and the copy of {self.owner} lacks them, {_extent(self.copy)}"
        )


def lost_records(claim: Claim, answers: Sequence[Answer], *, beyond: reach.Reach = reach.UNKNOWN) -> LostRecords | None:
    """Return what was acknowledged and is neither in the copy of a claim nor before ``beyond``; None for nothing."""
    positions = {answer.node: answer.copy.acknowledged for answer in answers if answer.copy}
    positions[claim.node] = claim.acknowledged
    end = max(_end(claim.copy), beyond)
    nodes = tuple(sorted(node for node, position in positions.items() if position > end))
    return LostRecords(max(positions[node] for node in nodes), claim.node, claim.copy, nodes) if nodes else None


def _end(copy: calls.CandidateState) -> reach.Reach:
    return copy.epoch, copy.serial


def _copies(what: str, answers: Sequence[Answer], contradictions: Collection[str]) -> _Tally:
    no = sum(answer.disowns or answer.node in contradictions for answer in answers)
    yes = sum(answer.copy is not None and answer.node not in contradictions for answer in answers)
    return _Tally(what, yes, len(answers) - yes - no, no=no)


def _names(node: str, answers: Sequence[Answer]) -> _Tally:
    named = [answer.master for answer in answers if answer.master is not None]
    yes, disowning = named.count(node), sum(answer.disowns for answer in answers)
    silent = len(answers) - len(named) - disowning
    return _Tally(f"nodes take {node} for the master", yes, silent, no=len(named) - yes + disowning)


def _contradiction(claim: Claim, answer: Answer) -> str:
    """Return why a node does not confirm the claim, empty if it does or if its answer is missing."""
    mine, copy = claim.copy, answer.copy
    here = f"here it is {_extent(mine)}"
    if has_replaced(claim, answer):
        return (
            f"node {answer.node} has become the master in epoch {answer.own_epoch}, without {claim.node} as a master "
            f"candidate; {here}"
        )
    if copy is None:
        is_rival = claim.by_majority and answer.master == answer.node
        return f"node {answer.node} takes itself for the master" if is_rival else ""
    if is_newer(copy, mine):
        return f"node {answer.node} holds a newer copy, {_extent(copy)}, {here}"
    if (copy.epoch, copy.serial) == (mine.epoch, mine.serial) and copy.digest != mine.digest:
        return f"node {answer.node} holds another copy of {_extent(copy)}"
    if copy.given_up > (mine.epoch, mine.serial):
        epoch, serial = copy.given_up
        return f"node {answer.node} gave up a newer copy, epoch {epoch} serial {serial}, {here}"
    if copy.acknowledged > _end(mine):
        epoch, serial = copy.acknowledged
        return f"node {answer.node} has heard that serial {serial} of epoch {epoch} was acknowledged, {here}"
    if copy.heard > mine.epoch and not claim.by_majority:
        return f"node {answer.node} has heard of a later master, of epoch {copy.heard}, {here}"
    return ""


def _extent(copy: calls.CandidateState) -> str:
    return f"epoch {copy.epoch} serial {copy.serial} job {copy.job}"


def described(answers: Sequence[Answer]) -> str:
    """Return the answer of each node as text for people."""
    return "; ".join(_description(answer) for answer in answers) or "there is no other node"


def _description(answer: Answer) -> str:
    parts = []
    if answer.master is not None:
        parts.append(f"takes {answer.master or 'nobody'} for the master")
    if answer.copy is not None:
        parts.append(f"holds {_extent(answer.copy)}" if answer.copy.serial else "holds no copy")
    if answer.why:
        parts.append(f"says: {answer.why}" if answer.reached else f"does not answer: {answer.why}")
    return f"{answer.node} {', '.join(parts)}"
