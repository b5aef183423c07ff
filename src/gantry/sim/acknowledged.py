"""What clients were told, and whether it may be forgotten: nothing of it, but for what nobody could keep.

An acknowledgement is looked up at once in the copies (``copies``): a job's number, or its end, that a client hears of
must be on stable storage of the machine that told it. It is *safe* as soon as more than half of the master and its
candidates have it, and more than half of those that were so when something was safe before: who is a candidate is a
change like any other, and may be lost itself as long as it is not safe. Safe is for ever: no two safe acknowledgements
may be in different histories, whoever is the master.

One that is not safe was given alone, after the time limit for candidates that do not answer, and the master must count
those as lost (``docs/explanation/guarantees.md``, "What is not"). It is forgiven if another machine has begun an epoch
without it since, and only then: who told it has it on its own disk, and must not begin one without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry.model import cluster as clusters
from gantry.sim import cluster, copies
from gantry.sim.story import Violation

KEPT = "no acknowledged change is lost"
ONE_MASTER = "at most one master writes"
ARCHIVED = "archived"
NOT_SILENT = "a change that only a minority holds is never acknowledged silently"


@dataclass(eq=False)
class Acknowledgement:
    """What ``master`` said: job ``number``, with the comment ``tag``, has this ``status``; ``frame`` has it too."""

    number: int
    tag: str
    status: str
    master: str
    frame: copies.Frame
    safe: bool = False

    def __str__(self) -> str:
        return f"job {self.number} ({self.tag}) is {self.status}, told by {self.master} in epoch {self.frame.epoch}"


class Acknowledgements:
    """All that clients were told, in order; an acknowledgement's index is its number."""

    def __init__(self, lab: cluster.SimulatedCluster, found: copies.Copies, *, candidates: Sequence[str]) -> None:
        self.all: list[Acknowledgement] = []
        self._lab = lab
        self._copies = found
        self._open: list[Acknowledgement] = []
        self._newest: Acknowledgement | None = None
        self._safe_keepers = list(candidates)

    def hear(self, master: str, number: int, tag: str, *, status: str) -> int:
        """Note what a client was told a moment ago; return the acknowledgement's number."""
        frame = self._copies.find(master, number, tag, status=status)
        if frame is None:
            raise Violation(
                KEPT,
                f"{status} of job {number} ({tag}) on stable storage of {master}, which has told a client of it",
                "its journal there does not have it",
            )
        one = Acknowledgement(number, tag, status, master, frame)
        self.all.append(one)
        self._open.append(one)
        ends = self._ends()
        self._settle(one, ends)
        if not one.safe:
            self._check_loud(one, ends)
        return len(self.all) - 1

    def hear_of_archive(self, master: str, number: int, tag: str) -> None:
        """Note that a client was told that a job is in the archive; that must be on the master's stable storage."""
        frame = self._copies.archiving(self._copies.end(master), number)
        if frame is None:
            raise Violation(
                KEPT, f"job {number} archived on stable storage of {master}", "its journal does not have it"
            )
        one = Acknowledgement(number, tag, ARCHIVED, master, frame)
        self.all.append(one)
        self._open.append(one)

    def look(self) -> None:
        """See what has become safe."""
        ends = self._ends()
        for one in list(self._open):
            self._settle(one, ends)

    def _ends(self) -> Mapping[str, str]:
        """Return where the copy of each machine ends at the moment."""
        return {name: self._copies.end(name) for name in self._lab.names}

    def _settle(self, one: Acknowledgement, ends: Mapping[str, str]) -> None:
        keepers = self._keepers(one)
        if not self._majority(one, keepers, ends) or not self._majority(one, self._safe_keepers, ends):
            return
        one.safe = True
        self._safe_keepers = keepers
        self._open.remove(one)
        newest = self._newest
        if newest is None or self._copies.follows(one.frame.digest, newest.frame.digest):
            self._newest = one
        elif not self._copies.follows(newest.frame.digest, one.frame.digest):
            raise Violation(ONE_MASTER, f"a history that has both: {newest}", f"{one}, in another history")

    def _keepers(self, one: Acknowledgement, *, durable: bool = False) -> list[str]:
        """Return who shall have an acknowledgement's frame: the master and its candidates; nobody if it has ended.

        They are those of its newest state, or with ``durable`` of the last one that is safe. What reaches more than
        half only later may be left aside all the same: another epoch may have begun meanwhile.
        """
        daemon = self._lab.daemons.get(one.master)
        if daemon is None:
            return []
        state = daemon.store.durable if durable else daemon.store.snapshot
        owner, keeping = state.the_cluster, (clusters.Role.CANDIDATE, clusters.Role.MASTER)
        return sorted(node.name for node in state.nodes.values() if node.role(owner) in keeping)

    def _majority(self, one: Acknowledgement, keepers: Sequence[str], ends: Mapping[str, str]) -> bool:
        holders = [name for name in keepers if self._copies.follows(ends[name], one.frame.digest)]
        return 2 * len(holders) > len(keepers)

    def _check_loud(self, one: Acknowledgement, ends: Mapping[str, str]) -> None:
        keepers = self._keepers(one)
        # Who is about to be a candidate no more counted when the change was acknowledged.
        if self._majority(one, keepers, ends) or self._majority(one, self._keepers(one, durable=True), ends):
            return
        daemon = self._lab.daemons.get(one.master)
        missing = {name for name in keepers if not self._copies.follows(ends[name], one.frame.digest)} - {one.master}
        # One that is given the whole state has no copy for a moment.
        replaced = {name for name in missing if not ends[name]}
        silent = missing - replaced - self._changed(one) - set(daemon.candidates.lagging() if daemon else missing)
        if silent:
            raise Violation(NOT_SILENT, f"a master that counts {', '.join(sorted(silent))} as lost", str(one))

    def _changed(self, one: Acknowledgement) -> set[str]:
        """Return the nodes that were changed after an acknowledgement's frame: they may be candidates since then."""
        daemon = self._lab.daemons.get(one.master)
        nodes = daemon.store.snapshot.nodes.values() if daemon else ()
        return {node.name for node in nodes if node.mtime >= one.frame.time}

    def check(self, master: str) -> None:
        """Compare with the history of the master that is left at the end."""
        self.look()
        end = self._copies.end(master)
        for one in self.all:
            if self._copies.follows(end, one.frame.digest) or self.is_forgiven(one):
                continue
            raise Violation(KEPT, f"what a client was told: {one}", f"the history of {master} does not have it")

    def is_forgiven(self, one: Acknowledgement) -> bool:
        """Tell whether an acknowledgement may be forgotten: never safe, and another machine has begun without it."""
        return not one.safe and any(self._is_replaced(one, name) for name in self._lab.names)

    def _is_replaced(self, one: Acknowledgement, name: str) -> bool:
        end = self._copies.end(name)
        if end not in self._copies.frames or self._copies.follows(end, one.frame.digest):
            return False
        return self._copies.successor(end, one.frame.digest) not in ("", one.master)

    def is_lost(self, number: int) -> bool:
        """Tell whether an acknowledgement is one that was forgiven."""
        return self.is_forgiven(self.all[number])
