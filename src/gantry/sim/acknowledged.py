"""The acknowledgements that clients received, and the check that none of them is lost without a permitted reason.

When a client learns a job's number or its end, that must be on stable storage of the master that answered; the check
looks it up in the copies at once (``copies``). An acknowledgement is *safe* when more than half of the master and its
candidates have it, and more than half of those at the previous safe acknowledgement: a change of the candidates is a
change like any other, and may itself be lost until it is safe. Safe is permanent: no two safe acknowledgements may be
in different histories, whichever machine is the master.

Under the policies ``majority`` and ``all`` an acknowledgement is *firm* from the beginning: it is never lost, all are
in one history, and no job number is given twice.

Under the policy ``seed`` a master gives an unsafe acknowledgement after the timeout for candidates that do not answer,
and it must count those as lost (``docs/explanation/guarantees.md``, "What is not"). Such an acknowledgement may be lost
only if another machine has begun an epoch without it since; the master itself has it on disk, and must not begin an
epoch without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry.model import cluster as clusters
from gantry.sim import cluster, copies
from gantry.sim.story import Violation

ENOUGH = "a change is acknowledged only when as many candidates hold it as the policy demands"
NUMBERS = "no job number is given twice"
KEPT = "no acknowledged change is lost"
ONE_MASTER = "at most one master writes"
ARCHIVED = "archived"
NOT_SILENT = "a change that only a minority holds is never acknowledged silently"


@dataclass(eq=False)
class Acknowledgement:
    """An answer of ``master``: job ``number`` with comment ``tag`` has this ``status``, which ``frame`` records."""

    number: int
    tag: str
    status: str
    master: str
    frame: copies.Frame
    safe: bool = False
    firm: bool = False
    """Whether the policy, ``majority`` or ``all``, promises that it is never lost."""

    def __str__(self) -> str:
        epoch = self.frame.epoch
        return f"job {self.number} ({self.tag}) is {self.status}, acknowledged by {self.master} in epoch {epoch}"


class Acknowledgements:
    """All acknowledgements, in order; an acknowledgement's index is its number."""

    def __init__(
        self, lab: cluster.SimulatedCluster, found_copies: copies.Copies, *, candidates: Sequence[str]
    ) -> None:
        self.all: list[Acknowledgement] = []
        self._lab = lab
        self._copies = found_copies
        self._open: list[Acknowledgement] = []
        self._newest: Acknowledgement | None = None
        self._safe_keepers = list(candidates)
        self._firm: Acknowledgement | None = None
        self._marks: dict[int, str] = {}

    def record(self, master: str, number: int, tag: str, *, status: str) -> int:
        """Record an acknowledgement that a client has just received; return its number."""
        frame = self._copies.find(master, number, tag, status=status)
        if frame is None:
            raise Violation(
                KEPT,
                f"{status} of job {number} ({tag}) on stable storage of {master}, which has acknowledged it",
                "its journal there does not have it",
            )
        ack = Acknowledgement(number, tag, status, master, frame, firm=self._is_firm(master))
        self.all.append(ack)
        self._open.append(ack)
        ends = self._ends()
        self._settle(ack, ends)
        if ack.firm:
            self._check_firm(ack)
        if not ack.safe:
            self._check_loud(ack, ends)
        return len(self.all) - 1

    def record_archiving(self, master: str, number: int, tag: str) -> None:
        """Record the acknowledgement that a job was archived, which must be on the master's stable storage.

        A former master may have given the number to the job with this tag; then another job was archived.
        """
        if not self._copies.has(master, number, tag):
            return
        frame = self._copies.archiving(self._copies.end(master), number)
        if frame is None:
            raise Violation(
                KEPT, f"job {number} archived on stable storage of {master}", "its journal does not have it"
            )
        ack = Acknowledgement(number, tag, ARCHIVED, master, frame, firm=self._is_firm(master))
        self.all.append(ack)
        self._open.append(ack)

    def update(self) -> None:
        """Find acknowledgements that have become safe."""
        ends = self._ends()
        for ack in list(self._open):
            self._settle(ack, ends)

    def _ends(self) -> Mapping[str, str]:
        """Return the chain hash at which each machine's copy ends now."""
        return {name: self._copies.end(name) for name in self._lab.names}

    def _settle(self, ack: Acknowledgement, ends: Mapping[str, str]) -> None:
        keepers = self._keepers(ack)
        if not self._majority(ack, keepers, ends) or not self._majority(ack, self._safe_keepers, ends):
            return
        ack.safe = True
        self._safe_keepers = keepers
        self._open.remove(ack)
        newest = self._newest
        if newest is None or self._copies.follows(ack.frame.digest, newest.frame.digest):
            self._newest = ack
        elif not self._copies.follows(newest.frame.digest, ack.frame.digest):
            raise Violation(ONE_MASTER, f"a history that has both: {newest}", f"{ack}, in another history")

    def _is_firm(self, master: str) -> bool:
        """Return whether all policies in force promise that nothing acknowledged is lost."""
        daemon = self._lab.daemons.get(master)
        rules = daemon.candidates.rules if daemon else ()
        return bool(rules) and not any(rule.policy.continues_alone for rule in rules)

    def _check_firm(self, ack: Acknowledgement) -> None:
        """Check that all firm acknowledgements are in one history, and that none has the number of another job."""
        mark = self._marks.setdefault(ack.number, ack.tag)
        if mark != ack.tag:
            raise Violation(NUMBERS, f"job {ack.number} is {mark}", str(ack))
        newest = self._firm
        if newest is None or self._copies.follows(ack.frame.digest, newest.frame.digest):
            self._firm = ack
        elif not self._copies.follows(newest.frame.digest, ack.frame.digest):
            raise Violation(ONE_MASTER, f"a history that has both: {newest}", f"{ack}, in another history")

    def _keepers(self, ack: Acknowledgement, *, durable: bool = False) -> list[str]:
        """Return the nodes that must have an acknowledgement: the master and its candidates, if the master runs.

        They are taken from its current state, or with ``durable`` from its durable state. A frame that reaches more
        than half of them only later may still be lost, because another epoch may have begun meanwhile.
        """
        daemon = self._lab.daemons.get(ack.master)
        if daemon is None:
            return []
        state = daemon.store.durable if durable else daemon.store.snapshot
        owner, keeping = state.the_cluster, (clusters.Role.CANDIDATE, clusters.Role.MASTER)
        return sorted(node.name for node in state.nodes.values() if node.role(owner) in keeping)

    def _majority(self, ack: Acknowledgement, keepers: Sequence[str], ends: Mapping[str, str]) -> bool:
        holders = [name for name in keepers if self._copies.follows(ends[name], ack.frame.digest)]
        return 2 * len(holders) > len(keepers)

    def _check_loud(self, ack: Acknowledgement, ends: Mapping[str, str]) -> None:
        keepers = self._keepers(ack)
        # A node that is being demoted was still a candidate when the change was acknowledged.
        if self._majority(ack, keepers, ends) or self._majority(ack, self._keepers(ack, durable=True), ends):
            return
        daemon = self._lab.daemons.get(ack.master)
        missing = {name for name in keepers if not self._copies.follows(ends[name], ack.frame.digest)} - {ack.master}
        # A candidate that receives the whole state has no copy for a moment.
        replaced = {name for name in missing if not ends[name]}
        if ack.firm and 2 * len(missing - replaced - self._changed(ack)) >= len(keepers):
            raise Violation(
                ENOUGH, f"more than half of {', '.join(keepers)} with it", f"{ack}; {missing} do not have it"
            )
        silent = missing - replaced - self._changed(ack) - set(daemon.candidates.lagging() if daemon else missing)
        if silent:
            raise Violation(NOT_SILENT, f"a master that counts {', '.join(sorted(silent))} as lost", str(ack))

    def _changed(self, ack: Acknowledgement) -> set[str]:
        """Return the nodes that were changed after the acknowledgement; they may be candidates only since then."""
        daemon = self._lab.daemons.get(ack.master)
        nodes = daemon.store.snapshot.nodes.values() if daemon else ()
        return {node.name for node in nodes if node.mtime >= ack.frame.time}

    def check(self, master: str) -> None:
        """Check that the final master's history has each acknowledgement that may not be lost; raises Violation."""
        self.update()
        end = self._copies.end(master)
        for ack in self.all:
            if self._copies.follows(end, ack.frame.digest) or self.may_be_lost(ack):
                continue
            raise Violation(KEPT, f"the acknowledged change: {ack}", f"the history of {master} does not have it")

    def may_be_lost(self, ack: Acknowledgement) -> bool:
        """Return whether an acknowledgement may be lost: not firm, never safe, and another machine's epoch lacks it."""
        return not (ack.firm or ack.safe) and any(self._is_replaced(ack, name) for name in self._lab.names)

    def _is_replaced(self, ack: Acknowledgement, name: str) -> bool:
        end = self._copies.end(name)
        if end not in self._copies.frames or self._copies.follows(end, ack.frame.digest):
            return False
        return self._copies.successor(end, ack.frame.digest) not in ("", ack.master)

    def is_number_lost(self, number: int) -> bool:
        """Return whether the acknowledgement with this number may be lost."""
        return self.may_be_lost(self.all[number])
