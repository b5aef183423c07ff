"""Copies of the state on the master candidates: every frame goes to each of them, and a commit waits for enough copies.

``store.transaction`` publishes a frame that is on its own disk, then waits until enough candidates have it. One task
per candidate (``candidate``) follows the chain of frames. A rule (``needed_copies``) says how many are enough: a policy
of the cluster (explanation/replication.md) over the candidates.

- ``majority``: more than half of the candidates, the master included. ``all``: every candidate. A commit waits as long
  as that takes. After ``timeout`` seconds the master is *stalled*: the front ends answer NotMasterError to changes, and
  mark what they read.
- ``seed``: a majority too, but a candidate that does not answer within ``timeout`` seconds is not waited for, until it
  has caught up. The log has a warning when a candidate falls behind, and an error when more than half of them have
  (contracts/cluster-design.md#life-of-a-job).

A node that refuses this master, because it has seen or granted a higher epoch, leaves it in *doubt*:
``mastership.role`` finds out whether there is a newer master. The word of one node does not end a master that a
majority confirms. A master that was replaced and is no candidate any more is a stranger to the nodes, and they do not
look at its epoch: so it is in doubt too when the candidates that still know it are no majority.

A change of the candidates or of the policy is a change like any other. Its frame, and those that follow until it is
acknowledged, need enough copies by the rule before it and by the rule after it, so no acknowledged frame is missing in
every majority of either. By the rule before it, fewer copies are enough for a change that removes one candidate, or
leaves ``all`` (``Rule.copies_before``): such a change ends the wait for candidates that do not come back. The master
sends it although earlier frames wait for them, and all of these are acknowledged together.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence

from gantry import errors
from gantry.model import cluster_settings
from gantry.rpc import targets
from gantry.rpc.calls import reach
from gantry.runtime import interface
from gantry.state.candidates import candidate, copies, needed_copies
from gantry.state.journal.journal import Position

logger = logging.getLogger(__name__)

FAREWELL = 1.0
"""Seconds that a stopping daemon waits for candidates to receive frames that are under way."""

TIMEOUT = 5.0
"""Seconds that a commit waits for the candidates."""


Refusal = errors.FencedError | errors.UnknownCallerError
"""A node's refusal to obey this master."""


class Candidates:
    """All candidates of one master; see the module's docstring."""

    def __init__(self, runtime: interface.Runtime, caller: candidate.Caller, *, timeout: float = TIMEOUT) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.caller = caller
        self.chain = candidate.Chain()
        self.refusal: errors.WrongStateError | None = None
        # Whether there is a newer master, and not only a grant to a node that may never become master.
        self.replaced = False
        self.refused = asyncio.Event()
        # A refusal by a node, until ``mastership.role`` has found out whether there is a newer master.
        self.doubt: Refusal | None = None
        self.doubted = asyncio.Event()
        # Set while too few candidates answer for the policy to allow a change.
        self.stalled = asyncio.Event()
        # The candidates that do not know this master's key.
        self._unknown_to: set[str] = set()
        self._stalls: dict[str, Callable[[], str]] = {}
        self.copy: Callable[[], Awaitable[copies.Copy]]
        self.journal = ""
        self.checkpoint: copies.Copy | None = None
        self.transfers = candidate.Transfers()
        # The epoch that nodes granted to this master: they refuse even old frames with a lower epoch.
        self.granted_epoch = 0
        self._host = runtime.host
        self._timeout = timeout
        self._candidates: dict[str, candidate.Candidate] = {}
        self._progress = candidate.Signal()
        # Wakes those who wait for the end of a rule.
        self.rules_in_force = candidate.Signal()
        self._rules: list[needed_copies.Rule] = [needed_copies.Rule(0, cluster_settings.Replication.SEED, frozenset())]
        # Whether the policy was ``seed`` at any time, so that a former master may continue alone.
        self._could_continue_alone = False
        self._closing = False
        # Epoch and serial of the newest frame that a majority of the candidates is known to hold.
        self.agreed: reach.Reach = reach.UNKNOWN

    def start(self, position: Position, copy: Callable[[], Awaitable[copies.Copy]], *, journal: str) -> None:
        """Begin at the end of the journal in the folder ``journal``; ``copy`` returns the whole durable state.

        ``store.transaction`` calls this.
        """
        self.chain.head = position
        self.copy = copy
        self.journal = journal

    def refresh(self, checkpoint: copies.Copy) -> None:
        """Bring a checkpoint that ends a section of the journal to the candidates, to one after another."""
        self.checkpoint = checkpoint
        self.chain.news.notify()

    def set_targets(
        self, candidates: Sequence[targets.Target], *, policy: cluster_settings.Replication, serial: int = 0
    ) -> None:
        """Set the candidates, without the master itself, and the policy, as of record ``serial``.

        Only for an opened store. A lower serial than before means that the records from there on were undone.
        """
        rule = needed_copies.Rule(serial, policy, frozenset(target.uuid for target in candidates))
        self._could_continue_alone |= policy.continues_alone
        self._rules = [earlier for earlier in self._rules if earlier.serial < serial]
        if not self._rules or (self._rules[-1].policy, self._rules[-1].members) != (rule.policy, rule.members):
            self._rules.append(rule)
        for target in candidates:
            known = self._candidates.get(target.uuid)
            if known is None or known.target != target:
                if known is not None:
                    known.task.cancel()
                self._candidates[target.uuid] = candidate.Candidate(self, target)
        self._remove_former()
        self._progress.notify()

    def give_up(self, lost: frozenset[str]) -> None:
        """Do not wait for the candidates with these UUIDs any more, for a master that starts without a vote.

        The record that makes them no candidates needs copies by the rule after it alone: what only they hold is lost.
        """
        self._rules = [dataclasses.replace(rule, members=rule.members - lost) for rule in self._rules]
        self._remove_former()
        self._progress.notify()

    def _remove_former(self) -> None:
        members = frozenset[str]().union(*(rule.members for rule in self._rules))
        for uuid in self._candidates.keys() - members:
            self._candidates.pop(uuid).task.cancel()

    @property
    def rules(self) -> Sequence[needed_copies.Rule]:
        """Return the rules in force: those for changes that are not acknowledged yet, and the one before them."""
        return self._rules

    def targets(self) -> list[targets.Target]:
        """Return all candidates of the rules in force."""
        return [member.target for member in self._candidates.values()]

    def positions(self) -> list[int | None]:
        """Return the last known serial of each candidate's copy, None for a copy whose end is not known to be here."""
        return [member.serial if member.follows else None for member in self._candidates.values()]

    def lagging(self) -> list[str]:
        """Return the names of the candidates that the log reported as lagging, in order."""
        return sorted(member.target.name for member in self._candidates.values() if member.lost)

    def behind(self) -> list[str]:
        """Return the names of the candidates that do not hold the newest frame."""
        return sorted(member.target.name for member in self._behind())

    def publish(self, line: bytes, position: Position, *, begins_section: bool = False) -> None:
        """Send a frame to all, in the background; ``position`` is its end. It may begin a section of the journal."""
        behind = any(not self._has_newest(member) for member in self._candidates.values())
        sent = candidate.Sent(line, self.chain.head.digest, position, begins_section)
        self.chain.add(sent, backlog=candidate.BACKLOG if behind else 0)

    async def acknowledged(self) -> bool:
        """Return True when as many candidates as the rules demand hold the newest frame.

        Return False while the master is stalled, if there is a change of the rules that was not sent yet: with it,
        fewer candidates may be enough. Raises WrongStateError if a candidate follows a newer master: then no change of
        this master is valid any more. NotMasterError when the daemon ends before that.
        """
        try:
            if not self._settled():
                async with asyncio.timeout(self._timeout):
                    await self._settling()
        except TimeoutError:
            for member in self._behind():
                self.lose(member, f"no answer within {self._timeout:g} s")
            if not await self._settled_after_stall():
                return False
        self.resume("copies")
        if self.refusal is not None:
            raise self.refusal
        if not self._has_enough():
            raise self.unacknowledged()
        if all(rule.is_majority(self._holders(rule)) for rule in self._needed()):
            self.agreed = self.chain.head.epoch, self.chain.head.serial
        serial = self._needed()[-1].serial
        former, self._rules = self._rules, [rule for rule in self._rules if rule.serial >= serial]
        self._remove_former()
        if self._rules != former:
            self.rules_in_force.notify()
        return True

    async def _settling(self) -> None:
        while not self._settled():
            await self._progress.wait()

    async def _settled_after_stall(self) -> bool:
        """Return True when the newest frame is settled, False if there is a change of the rules to send."""
        if not self._settled():
            self.stall("copies", self._missing_copies)
        while not self._settled():
            if self._rules[-1].serial > self.chain.head.serial:
                return False
            await self._progress.wait()
        return True

    def stall(self, cause: str, describe: Callable[[], str]) -> None:
        """Note that nothing can be changed for a cause; ``describe`` returns which candidates are missing."""
        if cause not in self._stalls:
            logger.error("%s: %s; nothing can be changed until they answer", self._host, describe())
        self._stalls[cause] = describe
        self.stalled.set()

    def resume(self, cause: str) -> None:
        """Note that a cause is over."""
        if self._stalls.pop(cause, None) and not self._stalls:
            self.stalled.clear()
            logger.info("enough master candidates answer again")

    async def settle(self) -> None:
        """Return when all candidates that keep up hold the newest frame: the next master may be any of them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                while self.refusal is None and any(not member.lost for member in self._behind()):
                    await self._progress.wait()

    def stop_waiting(self) -> None:
        """End the wait for candidates of a daemon that ends: what they do not hold soon stays unacknowledged."""
        asyncio.get_running_loop().call_later(FAREWELL, self._stop_waiting)

    def _stop_waiting(self) -> None:
        self._closing = True
        self._progress.notify()

    def check_ready(self) -> None:
        """Raise NotMasterError while changes cannot be acknowledged."""
        if self.stalled.is_set():
            raise errors.NotMasterError(
                f"{self._host} may not change the cluster at present: {self.missing()}",
                hint="nothing was changed; start these nodes, or repair their network, then repeat the command; "
                "if one does not come back: gnt-node modify --offline yes NODE",
            )

    def unacknowledged(self) -> errors.UnacknowledgedError:
        """Return the error for a change that is stored here, but not on enough candidates."""
        return errors.UnacknowledgedError(
            f"the change is stored on {self._host}, but not acknowledged: {self.missing()}",
            hint="it is valid if this node reaches them again before another node becomes the master: "
            "look at the cluster before you repeat the command",
        )

    def notice(self) -> str:
        """Return what clients have to know beside an answer: that it may be out of date, or may be lost."""
        if self.stalled.is_set():
            return f"what {self._host} answers may be out of date: {self.missing()}"
        rule = self._rules[-1]
        lost = self.lagging()
        if rule.policy.continues_alone and not rule.is_majority(len(rule.members) - len(lost)):
            return f"the newest changes are only on {self._host}, not on a majority: missing on {', '.join(lost)}"
        return ""

    @property
    def may_be_superseded(self) -> bool:
        """Return whether another master may run whose state differs from the durable state of this one.

        A later master may lack changes (``notice``); a former one that continues alone under ``seed`` has more.
        """
        return (
            self.refusal is not None
            or self.doubt is not None
            or bool(self.notice())
            or (self._could_continue_alone and self._has_former_epoch())
        )

    def _has_former_epoch(self) -> bool:
        """Return whether a candidate has no record of this master's epoch yet, so that a former master may run there.

        A node takes the first such record only after its own master daemon has ended.
        """
        return any(member.epoch < self.chain.head.epoch for member in self._candidates.values())

    def missing(self) -> str:
        """Return which candidates are missing, and how many are needed."""
        return next(iter(self._stalls.values()), self._missing_copies)()

    def _missing_copies(self) -> str:
        rule = self._needed()[-1]
        names = self.behind()
        return (
            f"{1 + self._holders(rule)} of {1 + len(rule.members)} master candidates hold the newest changes, "
            f"{rule.needed} are needed, "
            f"missing: {', '.join(names) or 'none'}"
        )

    def _needed(self) -> list[needed_copies.Rule]:
        """Return the rules for the newest frame, in order."""
        serial = self.chain.head.serial
        return [rule for rule in self._rules if rule.serial <= serial] or self._rules[:1]

    def _behind(self) -> list[candidate.Candidate]:
        return [member for member in self._candidates.values() if not self._has_newest(member)]

    def _holders(self, rule: needed_copies.Rule) -> int:
        return sum(uuid in rule.members and self._has_newest(member) for uuid, member in self._candidates.items())

    def _settled(self) -> bool:
        return self.refusal is not None or self._closing or self._has_enough()

    def _has_enough(self) -> bool:
        rules = self._needed()
        return all(map(self._is_met, rules, [*rules[1:], None]))

    def _is_met(self, rule: needed_copies.Rule, following: needed_copies.Rule | None) -> bool:
        enough = rule.copies_before(following) if following else None
        if following and enough and 1 + self._holders(following) >= enough:
            return True
        if 1 + self._holders(rule) >= rule.needed:
            return True
        behind = [member for member in self._behind() if member.target.uuid in rule.members]
        return rule.policy.continues_alone and self.doubt is None and all(member.lost for member in behind)

    def _has_newest(self, member: candidate.Candidate) -> bool:
        return member.digest == self.chain.head.digest

    def lose(self, member: candidate.Candidate, reason: str) -> None:
        """Note that a candidate does not keep up, until it has the newest frame again."""
        if member.lost:
            return
        member.lost = True
        logger.warning("master candidate %s does not hold the newest changes: %s", member.target.name, reason)
        lost = self.lagging()
        if 2 * len(lost) > len(self._candidates):
            logger.error(
                "more than half of the master candidates do not hold the newest changes (%s): "
                "if this node is lost now, these changes are lost",
                ", ".join(lost),
            )
        self._progress.notify()

    def answers(self, uuid: str) -> None:
        """Note that a candidate answers calls: if it lags, what it lacks is sent at once."""
        self._unknown_to.discard(uuid)
        if uuid in self._candidates:
            self._candidates[uuid].retry()

    def moved(self, member: candidate.Candidate) -> None:
        """Note that the end of a candidate's copy has changed."""
        self._unknown_to.discard(member.target.uuid)
        if member.lost and self._has_newest(member):
            member.lost = False
            logger.info("master candidate %s holds the newest changes again", member.target.name)
        self._progress.notify()

    def refuse_stranger(self, uuid: str, error: errors.UnknownCallerError) -> None:
        """Note that a candidate does not know this master, which nobody could introduce to it."""
        self._unknown_to.add(uuid)
        rule = self._rules[-1]
        if not rule.is_majority(len(rule.members - self._unknown_to)):
            self.refuse(error)

    def refuse(self, error: Refusal) -> None:
        """Note a refusal: there may be a newer master, or soon, if the node granted a higher epoch."""
        if self.refusal is None and self.doubt is None:
            logger.warning("a node refuses this master: %s", error.message)
            self.doubt = error
            self.doubted.set()

    def trust(self) -> None:
        """Note that a majority has confirmed this master after a node's refusal."""
        self.doubt = None
        self.doubted.clear()
        self._progress.notify()

    def depose(self, error: Refusal) -> None:
        """End this master, because a node's refusal was right, or cannot be refuted."""
        is_granted = isinstance(error, errors.NotGrantedError)
        self.replaced = self.replaced or not is_granted
        if self.refusal is not None:
            return
        self.refusal = errors.WrongStateError(
            f"this node {'has to be confirmed again' if is_granted else 'is not the master any more'}: {error.message}",
            hint="nothing can be changed here; gnt-cluster getmaster says which node is the master",
        )
        self.refused.set()
        logger.error("%s", self.refusal)
        self._progress.notify()

    async def close(self) -> None:
        """End the tasks."""
        tasks = [member.task for member in self._candidates.values()]
        self._candidates.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
