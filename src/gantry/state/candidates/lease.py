"""The master's lease: the right to command nodes, which a majority of the master candidates renews for a time.

A candidate that renews the lease helps no other node to become the master for ``calls.LEASE_SECONDS`` by its own clock.
The master counts ``RIGHT_SECONDS`` by its own clock, from the moment before it sent the call. So the right ends before
another node can have the role, even if one of the two clocks runs ``LEASE_SECONDS / RIGHT_SECONDS`` times as fast as
the other. Monotonic clocks count, so setting the time of day changes nothing.

The lease is renewed every ``IDLE_SECONDS``, and when a command needs it. ``hold`` returns when the master may command a
node: under the policy ``seed`` that is always so. Without a lease for ``replication.TIMEOUT`` seconds the master is
stalled (``replication``), whether it has something to change or not.

See explanation/replication.md#the-lease.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from gantry import errors
from gantry.rpc import calls, targets
from gantry.state.candidates import candidate, needed_copies, replication

logger = logging.getLogger(__name__)

RIGHT_SECONDS = 4.0
"""For how long the master may command nodes after a majority has renewed its lease."""

IDLE_SECONDS = 2.0
"""Time between two renewals."""

BACK_OFF_SECONDS = 0.5
"""Least time between two calls to one candidate, when a command waits for the lease."""

ANSWER_SECONDS = 2.0
"""How long a candidate has to answer a renewal."""

NEVER = float("-inf")


class Lease:
    """The lease of one master; ``node`` is its name, ``epoch`` returns its epoch, ``masters`` the candidates' keys."""

    def __init__(
        self,
        candidates: replication.Candidates,
        *,
        node: str,
        epoch: Callable[[], int],
        masters: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        self._candidates = candidates
        self._clock = candidates.clock
        self._node = node
        self._epoch = epoch
        self._masters = masters
        self._renewed: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._progress = candidate.Signal()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to renew the lease."""
        self._task = asyncio.create_task(self._run(), name="lease")

    async def close(self) -> None:
        """Stop; the lease ends by itself."""
        tasks = [*self._asking.values(), *filter(None, [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_held(self) -> bool:
        """Return whether the master may command nodes now."""
        return self.seconds() > 0

    def seconds(self) -> float:
        """Return for how long the master may command nodes from now on, if nobody renews the lease."""
        return self._until() - self._clock.monotonic()

    def _until(self) -> float:
        """Return when the right ends: a majority by every rule in force renewed the lease that late."""
        return min((self._end(rule) for rule in self._candidates.rules), default=float("inf"))

    def _end(self, rule: needed_copies.Rule) -> float:
        needed = (1 + len(rule.members)) // 2
        if rule.policy.continues_alone or not needed:
            return float("inf")
        renewed = sorted((self._renewed.get(uuid, NEVER) for uuid in rule.members), reverse=True)
        return renewed[needed - 1] + RIGHT_SECONDS

    async def hold(self) -> None:
        """Return when the master may command nodes; WrongStateError if another node has become the master."""
        while not self.is_held():
            if self._candidates.refusal is not None:
                raise self._candidates.refusal
            self._ask_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BACK_OFF_SECONDS):
                    await self._progress.wait()

    async def _run(self) -> None:
        begin = self._clock.monotonic()
        while True:
            if self._until() == float("inf"):  # the first lease is missed only from the moment when it is needed
                begin = self._clock.monotonic()
            self._ask_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._candidates.rules_in_force.wait()
            self._progress.notify()
            if max(begin, self._until() - RIGHT_SECONDS) + replication.TIMEOUT < self._clock.monotonic():
                self._candidates.stall("lease", self._missing)
            else:
                self._candidates.resume("lease")

    def _missing(self) -> str:
        """Describe the majority whose renewals ended first."""
        now = self._clock.monotonic()
        rule = min(self._candidates.rules, key=self._end)
        names = {target.uuid: target.name for target in self._candidates.targets()}
        late = [uuid for uuid in rule.members if self._renewed.get(uuid, NEVER) + RIGHT_SECONDS <= now]
        # While the daemon closes, the candidates of its rules have no names any more.
        silent = sorted(names.get(uuid, uuid) for uuid in late)
        count = 1 + len(rule.members)
        return (
            f"{count - len(silent)} of {count} master candidates obey this master, {count // 2 + 1} are needed, "
            f"missing: {', '.join(silent)}"
        )

    def _ask_all(self) -> None:
        if all(rule.policy.continues_alone for rule in self._candidates.rules):
            return
        now = self._clock.monotonic()
        for target in self._candidates.targets():
            is_due = self._asked.get(target.uuid, NEVER) + BACK_OFF_SECONDS <= now
            if is_due and target.uuid not in self._asking:
                self._asked[target.uuid] = now
                self._asking[target.uuid] = asyncio.create_task(self._ask(target), name=f"lease {target.name}")

    async def _ask(self, target: targets.Target) -> None:
        sent = self._clock.monotonic()
        call = calls.LeaseRenew(node=self._node, epoch=self._epoch(), masters=self._masters())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._candidates.caller.call(target, call)
            if self._renewed.get(target.uuid, NEVER) + RIGHT_SECONDS < sent:
                self._candidates.answers(target.uuid)
            self._renewed[target.uuid] = sent
            if self.is_held():
                self._candidates.resume("lease")
        except errors.FencedError as error:
            self._candidates.refuse(error)
        except errors.UnknownCallerError as error:
            self._candidates.refuse_stranger(target.uuid, error)
        except (errors.GantryError, TimeoutError) as error:
            logger.debug("master candidate %s did not renew the lease: %s", target.name, error)
        finally:
            del self._asking[target.uuid]
            self._progress.notify()
