"""The master's role: it is confirmed by the nodes at each start, or taken over.

The master daemon makes a ``Role`` over its store, before anything is committed, awaits ``confirm``, lets the store
reach its candidates, and awaits ``begin``, and then ``announce`` with calls that carry the epoch. All nodes are
asked at once, those that are offline too, each for at most ``ROUND`` seconds; ``vote`` decides. While missing answers
could still turn the outcome they are asked again, for ``PATIENCE`` seconds. A copy here that lacks the last frames of
one and the same history gets them first: a master that lost its power may have sent what it had not yet written.

Then comes the record with an epoch above all that was seen, which fences the master before. Taking over, the old
master's daemon is ended first where its node answers, and the same record names the new master. That may be who the
state here names already: a master that ended before most nodes had heard of it is not confirmed by them any more.

See contracts/cluster-design.md#confirmation-of-the-master.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gantry import errors
from gantry.daemons import vote
from gantry.model import cluster, job
from gantry.operations import base
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state import snapshot as states
from gantry.state import ssconf, transaction

log = logging.getLogger(__name__)

Result = TypeVar("Result")

ROUND = 2.0
PATIENCE = 10.0
PAUSE = 1.0
"""Seconds: for the answers of one round, for all rounds, between two."""

STOP_PATIENCE = 2.0
"""Seconds that an old master's daemon has to end by itself."""

SHOWN = 10
"""How many jobs a message names."""

OVERRIDE = "--no-voting --yes-do-it"


@dataclass(frozen=True)
class Wish:
    """How the role is wanted: taken over or only confirmed; without a vote; without offline nodes that are silent.

    ``breaking_off`` is that a master which is alive may be replaced though it runs jobs.
    """

    taking_over: bool = False
    voting: bool = True
    ignore_offline: bool = False
    breaking_off: bool = False


class _Member(msgspec.Struct, frozen=True):
    node: str
    uuid: str


def _member(disk: interface.Disk, folders: paths.Paths) -> _Member:
    """Return who this machine is in its cluster, as its node daemon wrote it down when it joined."""
    try:
        return msgspec.json.decode(disk.read(f"{folders.certificates}/member.json"), type=_Member)
    except FileNotFoundError:
        raise errors.ConfigurationError(
            "this machine is not part of a cluster", hint="gnt-node add on a master takes it into one"
        ) from None


def check_candidate(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Refuse to take over where there is no candidate's copy; WrongStateError that lists the candidates."""
    disk = runtime.disk
    own = _member(disk, folders)
    if not disk.exists(folders.config) or not disk.exists(f"{folders.certificates}/authority.key"):
        path = f"{folders.ssconf}/ssconf_master_candidates"
        raise _no_candidate(own.node, disk.read(path).decode().split() if disk.exists(path) else [])


def _no_candidate(node: str, names: Sequence[str]) -> errors.WrongStateError:
    return errors.WrongStateError(
        f"node {node} is no master candidate and holds no copy of the state",
        hint=f"run the command on a master candidate: {', '.join(names) or '(none is known here)'}",
    )


def handover(state: states.Snapshot, new: str, *, now: float) -> list[states.Change]:
    """Return the changes that make the node with UUID ``new`` the master, and the old master a candidate."""
    owner = state.the_cluster
    nodes = [state.nodes[uuid] for uuid in (owner.master_node, new) if uuid in state.nodes]
    flagged = [base.changed(node, now, master_candidate=True) for node in nodes if not node.master_candidate]
    return [states.Put(base.changed(owner, now, master_node=new)), *map(states.Put, flagged)]


class Role:
    """The role of this machine, over the opened store."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        store: transaction.Store,
        nodes: client.Client,
        wish: Wish,
    ) -> None:
        self._runtime = runtime
        self._folders = folders
        self._own = _member(runtime.disk, folders)
        self._store = store
        self._nodes = nodes
        self._wish = wish
        self._answers: list[vote.Answer] = []
        self._epoch = 0

    async def confirm(self) -> None:
        """Return when the role is this machine's; WrongStateError says who said what, and what to do."""
        self._check_claim()
        self._answers = await self._confirm(before_stop=self._wish.taking_over)
        if self._wish.taking_over:
            self._check_at_rest(self._answers)
            if await self._stop_old(self._answers):
                self._answers = await self._confirm()
        self._epoch = await self._win_epoch(self._answers)
        self._store.claim(self._epoch)

    async def begin(self) -> None:
        """Begin the epoch of the master that was confirmed."""
        changes: Sequence[states.Change] = ()
        if self._wish.taking_over:
            changes = handover(self._store.snapshot, self._own.uuid, now=self._runtime.clock.now())
        epoch = await self._store.begin_epoch(changes, above=self._epoch - 1, who=f"node {self._own.node}")
        log.info("node %s is the master, epoch %d: %s", self._own.node, epoch, vote.described(self._answers))

    def _check_claim(self) -> None:
        state = self._store.snapshot
        if self._wish.taking_over:
            self._check_takeover(state)
        elif state.the_cluster.master_node != self._own.uuid:
            raise errors.WrongStateError(
                f"node {self._own.node} is not the master: by the state that is here it is {_master(state)}",
                hint="start gantry-masterd there, or run gnt-cluster master-failover here",
            )

    def _check_takeover(self, state: states.Snapshot) -> None:
        """Refuse who keeps no copy; a master that runs here has refused before, by the queue's lock."""
        owner = state.the_cluster
        node = state.nodes.get(self._own.uuid)
        if node is None or node.role(owner) not in (cluster.Role.CANDIDATE, cluster.Role.MASTER):
            can = [one.name for one in state.nodes.values() if one.role(owner) is cluster.Role.CANDIDATE]
            raise _no_candidate(self._own.node, sorted(can))

    async def _confirm(self, *, before_stop: bool = False) -> list[vote.Answer]:
        """Ask until the outcome is certain, and return the answers of the confirmation.

        ``before_stop`` takes the old master's word for granted while its daemon is in the way: it will be ended.
        """
        clock = self._runtime.clock
        until = clock.monotonic() + PATIENCE
        while True:
            answers = await self._ask_all()
            if not self._wish.voting:
                log.warning("no vote is held: what is here is taken for right; %s", vote.described(answers))
                return answers
            before = self._store.position
            await self._catch_up(answers)
            if self._store.position != before:
                # What came may say that there are other nodes, or other candidates.
                continue
            verdict = vote.decide(self._claim(), self._taken_for_granted(answers) if before_stop else answers)
            if verdict.outcome is vote.Outcome.CONFIRMED:
                return answers
            if verdict.outcome is vote.Outcome.REFUSED or clock.monotonic() > until:
                raise self._refusal(verdict, answers)
            log.info("asking again: %s", "; ".join(verdict.reasons))
            await clock.sleep(PAUSE)

    async def _win_epoch(self, answers: Sequence[vote.Answer]) -> int:
        """Return an epoch that enough nodes have promised to this one, and so to nobody else.

        Whoever is confirmed at the same moment asks for the same one: both try again, with a higher one each time.
        """
        clock = self._runtime.clock
        until = clock.monotonic() + PATIENCE
        highest = max(vote.highest_epoch(answers), self._store.epoch, self._own_promise().epoch)
        while True:
            epoch = highest + 1
            if not self._wish.voting:
                await self._promise_self(epoch)
                return epoch
            promises = await asyncio.gather(*(self._ask_promise(answer.node, epoch) for answer in answers))
            granted = [
                answer if promise and promise.granted else dataclasses.replace(answer, copy=None)
                for answer, promise in zip(answers, promises, strict=True)
            ]
            verdict = vote.decide(dataclasses.replace(self._claim(), taking_over=True), granted)
            highest = max([epoch, *(promise.epoch for promise in promises if promise)])
            # One that has promised more would take no record from us, and end us with the first.
            if verdict.outcome is vote.Outcome.CONFIRMED and highest == epoch:
                # Not before: who gets nowhere must not stand in the way of the master that there is.
                await self._promise_self(epoch)
                return epoch
            if clock.monotonic() > until:
                raise self._refusal(verdict, granted)
            await clock.sleep(PAUSE * self._runtime.random.below(100) / 100)

    async def _ask_promise(self, name: str, epoch: int) -> calls.Promise | None:
        position = self._store.position
        wanted = calls.MasterPromise(epoch=epoch, node=self._own.node, newest=(position.epoch, position.serial))
        nodes = {node.name: node for node in self._others()}
        answer = await self._call(nodes[name], wanted)
        return None if isinstance(answer, errors.GantryError) else answer

    def _own_promise(self) -> calls.Promised:
        """Return what this machine's node daemon has promised: it does not while the queue's lock is held here."""
        disk, path = self._runtime.disk, f"{self._folders.lib}/promise"
        return msgspec.json.decode(disk.read(path), type=calls.Promised) if disk.exists(path) else calls.Promised()

    async def _promise_self(self, epoch: int) -> None:
        promise = calls.Promised(epoch=epoch, node=self._own.node)
        await self._runtime.disk.write(f"{self._folders.lib}/promise", msgspec.json.encode(promise), mode=0o444)

    def _copy(self) -> calls.CandidateState:
        position, state = self._store.position, self._store.durable
        return calls.CandidateState(
            serial=position.serial,
            digest=position.digest,
            epoch=position.epoch,
            job=state.last_job,
            master=_master(state),
        )

    def _claim(self) -> vote.Claim:
        self._check_claim()
        state = self._store.snapshot
        owner = state.the_cluster
        keeping = (cluster.Role.CANDIDATE, cluster.Role.MASTER)
        names = {node.name for node in state.nodes.values() if node.role(owner) in keeping}
        return vote.Claim(self._own.node, self._copy(), names, taking_over=self._wish.taking_over)

    def _taken_for_granted(self, answers: Sequence[vote.Answer]) -> list[vote.Answer]:
        own = self._copy()
        return [
            dataclasses.replace(one, copy=own) if one.node == own.master and one.reached and not one.copy else one
            for one in answers
        ]

    def _refusal(self, verdict: vote.Verdict, answers: Sequence[vote.Answer]) -> errors.WrongStateError:
        failover = "gnt-cluster master-failover"
        again = "" if self._wish.taking_over else f"; {failover} has them take this one for the master"
        program = failover if self._wish.taking_over else "gantry-masterd"
        return errors.WrongStateError(
            f"node {self._own.node} is not confirmed as the master: {'; '.join(verdict.reasons)} "
            f"({vote.described(answers)})",
            hint=f"bring the nodes up that do not answer{again}; "
            f"if no other master runs and the state here is the right one: {program} {OVERRIDE}",
        )

    def _others(self) -> list[cluster.Node]:
        nodes = self._store.snapshot.nodes.values()
        asked = (node for node in nodes if node.uuid != self._own.uuid and not node.joining)
        return sorted(asked, key=lambda node: node.name)

    async def _ask_all(self) -> list[vote.Answer]:
        answers = await asyncio.gather(*map(self._ask, self._others()))
        ignored = self._wish.ignore_offline
        return [answer for answer in answers if not (ignored and answer.offline and not answer.reached)]

    async def _ask(self, node: cluster.Node) -> vote.Answer:
        name, copy = await asyncio.gather(
            self._call(node, calls.MasterName()), self._call(node, calls.CandidateStatus())
        )
        faults = [answer.message for answer in (name, copy) if isinstance(answer, errors.GantryError)]
        return vote.Answer(
            node.name,
            master=name if isinstance(name, str) else None,
            copy=copy if isinstance(copy, calls.CandidateState) else None,
            why=faults[0] if faults else "",
            offline=node.offline,
        )

    async def _call(self, node: cluster.Node, call: calls.Call[Result]) -> Result | errors.GantryError:
        """Call a node, whatever its flags, for a short time."""
        try:
            async with asyncio.timeout(ROUND):
                return await self._nodes.call(self._target(node), call)
        except errors.GantryError as error:
            return error
        except TimeoutError:
            return errors.RemoteError(f"no answer within {ROUND:g} s")

    def _target(self, node: cluster.Node) -> targets.Target:
        return dataclasses.replace(self._store.snapshot.target(node), offline=False)

    async def _catch_up(self, answers: Sequence[vote.Answer]) -> None:
        """Take in the frames that others have behind ours, unless another node is taken for the master."""
        named = sum(answer.master == self._own.node for answer in answers) + 1
        if not self._wish.taking_over and 2 * named <= len(answers) + 1:
            return
        ahead = [answer for answer in answers if answer.copy and vote.is_newer(answer.copy, self._copy())]
        nodes = {node.name: node for node in self._others()}
        for answer in sorted(ahead, key=lambda one: (one.copy.epoch, one.copy.serial) if one.copy else (0, 0)):
            while lines := await self._call(nodes[answer.node], calls.JournalFetch(after=self._store.position.digest)):
                if isinstance(lines, errors.GantryError):
                    log.warning("what node %s has more is not to be had: %s", answer.node, lines)
                    break
                for line in lines:
                    await self._store.adopt(line.encode())
                log.info("node %s had more, up to serial %d", answer.node, self._store.position.serial)

    def _check_at_rest(self, answers: Sequence[vote.Answer]) -> None:
        """Refuse to break off what a living master runs: locks are its own and end with it.

        See contracts/cluster-design.md#locks.
        """
        state = self._store.snapshot
        old = state.nodes.get(state.the_cluster.master_node)
        alive = any(old and answer.node == old.name and answer.reached and not answer.copy for answer in answers)
        running = sorted(one.id for one in state.jobs.values() if one.status is job.Status.RUNNING)
        if old and alive and running and not self._wish.breaking_off:
            raise errors.WrongStateError(
                f"the master, {old.name}, is alive and runs jobs that would be broken off: "
                f"{', '.join(map(str, running[:SHOWN]))}{' ...' if len(running) > SHOWN else ''}",
                hint="wait until they have ended (gnt-cluster queue drain keeps new ones out), or add --yes-do-it",
            )

    async def _stop_old(self, answers: Sequence[vote.Answer]) -> bool:
        """End the old master's daemon; tell whether one was ended. None is, where that is this machine."""
        state = self._store.snapshot
        if state.the_cluster.master_node == self._own.uuid:
            return False
        old = state.nodes.get(state.the_cluster.master_node)
        if old is None or not any(answer.node == old.name and answer.reached for answer in answers):
            log.warning("the old master, %s, does not answer: it is fenced by the epoch", old.name if old else "?")
            return False
        try:
            return await self._nodes.call(self._target(old), calls.StopMaster(patience=STOP_PATIENCE))
        except errors.GantryError as error:
            if self._wish.voting:
                raise
            log.warning("the old master was not stopped: %s", error)
            return False

    async def announce(self) -> None:
        """Tell the nodes that answer of a new master, before anybody relies on it: the next vote asks them.

        The calls carry the epoch, so the old master is kept out from here on.
        """
        if not self._wish.taking_over:
            return
        values = ssconf.master(self._store.snapshot)
        silent = {answer.node for answer in self._answers if not answer.reached}
        nodes = sorted(self._store.snapshot.nodes.values(), key=lambda node: node.name)
        everybody = [node for node in nodes if not node.offline and node.name not in silent]
        told = await asyncio.gather(*(self._call(node, calls.WriteSsconf(values=values)) for node in everybody))
        for node, outcome in zip(everybody, told, strict=True):
            if isinstance(outcome, errors.GantryError):
                log.warning("node %s was not told of the new master: %s", node.name, outcome)


def _master(state: states.Snapshot) -> str:
    node = state.nodes.get(state.the_cluster.master_node)
    return node.name if node else "a node that does not exist"
