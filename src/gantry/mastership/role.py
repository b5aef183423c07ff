"""The master's role: the nodes confirm the master at each start, or a master candidate takes the role over.

The master daemon creates a ``Role`` over its store before it commits anything. It awaits ``confirm``, lets the store
connect to its candidates, awaits ``begin``, and then ``announce``, whose calls carry the epoch. ``poll`` asks all nodes
at once, ``vote`` decides, and ``grants`` makes the confirmed node the only one. While missing answers could change
the outcome, ``Role`` asks again, for up to ``VOTE_TIMEOUT_SECONDS``. First it fetches the records of others that
continue this node's journal (``newer_records``).

Then ``begin`` commits a record with an epoch above all epochs that any node has seen, which fences the former master.
Without a vote, it also marks the candidates offline that do not answer, if nothing could be acknowledged without them.
In a takeover, ``confirm`` first stops the old master's daemon if its node answers, and the same record names the new
master. The state of this node may name this node already: if a master ended before most nodes had heard of it, they do
not confirm it at its next start, and it must take the role over.

See contracts/cluster-design.md#confirmation-of-the-master.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.mastership import contest, grants, handover, membership, newer_records, poll, proofs, vote
from gantry.model import cluster, job
from gantry.operations import base
from gantry.rpc import calls, client
from gantry.rpc.calls import reach
from gantry.runtime import interface, paths
from gantry.state.candidates import replication
from gantry.state.objects import snapshot as states
from gantry.state.objects import ssconf
from gantry.state.store import transaction

log = logging.getLogger(__name__)

VOTE_TIMEOUT_SECONDS = 10.0
"""How long all rounds of a vote may take."""

BACK_OFF_SECONDS = 1.0
"""The time between two rounds."""

DOUBT_INTERVAL_SECONDS = 5.0
"""The time between two votes about refusals by nodes."""

BEGIN_TIMEOUT_SECONDS = 10.0
"""The time for the record of a confirmation in doubt to be acknowledged, before the nodes are asked again."""

STOP_TIMEOUT_SECONDS = 2.0
"""How long the old master's daemon has to end by itself."""

MAX_DISPLAYED_JOBS = 10
"""The number of jobs that a message names."""

OVERRIDE = "--no-voting --yes-do-it"


@dataclass(frozen=True)
class Request:
    """How to get the role: by takeover or confirmation, with or without a vote, with or without silent offline nodes.

    ``interrupts_jobs`` allows to replace a living master that runs jobs. ``gives_way`` lets another node that wants the
    role at the same moment have it (``contest``); after that, ``former`` is the UUID of the master to replace.
    """

    taking_over: bool = False
    voting: bool = True
    ignore_offline: bool = False
    interrupts_jobs: bool = False
    gives_way: bool = True
    former: str = ""


class Role:
    """The role of this machine, over the opened store."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        store: transaction.Store,
        nodes: client.Client,
        request: Request,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``report`` gets why the confirmation takes time."""
        self._report = report
        self._runtime = runtime
        self._folders = folders
        self._own = membership.read(runtime.disk, folders)
        self._store = store
        self._nodes = nodes
        self._request = request
        self._answers: list[vote.Answer] = []
        self._epoch = 0
        self._candidates: replication.Candidates | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._poll = poll.Poll(store, nodes, own_uuid=self._own.uuid)
        self._newer = newer_records.NewerRecords(store, self._poll, copy=self._copy)
        self._grants = grants.Grants(
            runtime,
            folders,
            own=(self._own.uuid, self._own.node),
            store=store,
            nodes=self._poll,
            claim=self._claim,
            refusal=self._refusal,
            give_way=self._give_way,
            keep=lambda epoch, grants: self._proofs.keep(epoch, grants),
        )
        self._proofs = proofs.Proofs(runtime.clock, nodes, sign_again=self._grants.sign_again)

    @property
    def node(self) -> str:
        """Return the name of this machine's node."""
        return self._own.node

    async def confirm(self) -> None:
        """Return when this machine has the role; WrongStateError has each node's answer, and what to do."""
        await self._learn_own_role()
        self._check_claim()
        try:
            self._answers = await self._confirm(before_stop=self._request.taking_over)
        except errors.WrongStateError:
            self._store.check_evidence()
            raise
        if self._request.taking_over:
            self._check_at_rest(self._answers)
            if await self._stop_old(self._answers):
                self._answers = await self._confirm()
        self._store.check_evidence()
        self._epoch = await self._win(self._answers)
        self._store.claim(self._epoch)

    async def _win(self, answers: Sequence[vote.Answer]) -> int:
        if self._request.voting:
            return await self._grants.win(answers)
        epoch = await self._grants.take(answers)
        await self._wait_for_loyal_nodes()
        return epoch

    async def _wait_for_loyal_nodes(self) -> None:
        """Wait until nodes obey a master without a proof: they have not heard of the former master for that long."""
        nodes = sorted(self._store.snapshot.nodes.values(), key=lambda node: node.name)
        states = await asyncio.gather(*(self._poll.call(node, calls.LeaseStatus()) for node in nodes))
        seconds = max((state.loyal_seconds for state in states if isinstance(state, calls.LeaseState)), default=0.0)
        if seconds > 0:
            seconds = min(seconds, calls.LEASE_SECONDS)  # a broken node may report any number
            self._report(f"waits {seconds:.0f} s: until then, nodes obey the former master alone")
            log.info("waiting %.1f s, for which nodes obey the former master alone", seconds)
            await self._runtime.clock.sleep(seconds)

    async def begin(self, give_up: Callable[[frozenset[str]], None] = lambda _: None) -> None:
        """Begin the epoch of this master, which the nodes have confirmed.

        Without a vote, ``give_up`` gets the UUIDs of the candidates that nobody waits for any more.
        """
        now, lost = self._runtime.clock.now(), list[cluster.Node]()
        if not self._request.voting:
            reached = {answer.node for answer in self._answers if answer.reached}
            lost = handover.lost_candidates(self._store.snapshot, self._own.uuid, reached)
        changes: list[states.Change] = [
            states.Put(base.changed(node, now, offline=True, master_candidate=False, lost_candidate=True))
            for node in lost
        ]
        if self._request.taking_over:
            changes += handover.changes(self._store.snapshot, self._own.uuid, now=now, lost=lost)
        if lost:
            give_up(frozenset(node.uuid for node in lost))
            text = (
                f"without a vote: {', '.join(node.name for node in lost)} did not answer, and are marked offline; "
                "changes that only they hold are lost"
            )
            log.warning("%s", text)
            self._report(text)
        epoch = await self._store.begin_epoch(changes, above=self._epoch - 1, who=f"node {self._own.node}")
        log.info("node %s is the master, epoch %d: %s", self._own.node, epoch, vote.described(self._answers))

    async def _learn_own_role(self) -> None:
        """Fetch newer records if the copy here names another master: its end, with the last takeover, may be lost."""
        if self._request.voting and not self._request.taking_over and not self._is_named():
            await self._catch_up(await self._poll.ask_all(ignore_offline=self._request.ignore_offline))

    def _is_named(self) -> bool:
        return self._store.snapshot.the_cluster.master_node == self._own.uuid

    def _check_claim(self) -> None:
        state = self._store.snapshot
        if self._request.taking_over:
            self._check_takeover(state)
        elif not self._is_named():
            raise errors.WrongStateError(
                f"node {self._own.node} is not the master: its copy of the state names {_master(state)} as the master",
                hint="start gantry-masterd on that node, or run gnt-cluster master-failover here",
            )

    def _check_takeover(self, state: states.Snapshot) -> None:
        """Refuse a node that is not a candidate; the queue's lock has refused a second master daemon before."""
        the_cluster = state.the_cluster
        node = state.nodes.get(self._own.uuid)
        if node is None or node.role(the_cluster) not in (cluster.Role.CANDIDATE, cluster.Role.MASTER):
            names = [other.name for other in state.nodes.values() if other.role(the_cluster) is cluster.Role.CANDIDATE]
            raise membership.not_candidate_error(self._own.node, sorted(names))

    async def _confirm(self, *, before_stop: bool = False) -> list[vote.Answer]:
        """Ask until the outcome is certain, and return the answers that confirmed this node.

        With ``before_stop`` the old master counts as confirming while its daemon holds the lock: it is stopped later.
        """
        clock = self._runtime.clock
        begin = clock.monotonic()
        while True:
            answers = await self._poll.ask_all(ignore_offline=self._request.ignore_offline)
            if not self._request.voting:
                log.warning("starting without a vote: this node's state is used as it is; %s", vote.described(answers))
                if lost := vote.lost_records(self._claim(), answers):
                    log.warning("without a vote: %s; they are lost", lost)
                    self._report(f"without a vote: {lost}; they are lost")
                return answers
            before = self._store.position
            await self._catch_up(answers)
            if self._store.position != before:
                # The fetched frames may have changed the nodes or the candidates.
                continue
            if self._request.former:
                contest.check_unchanged(self._store.snapshot, self._own.uuid, answers, former=self._request.former)
            answers = await self._newer.with_proof(answers)
            verdict = vote.decide(self._claim(), self._taken_for_granted(answers) if before_stop else answers)
            if verdict.outcome is vote.Outcome.CONFIRMED:
                return answers
            if verdict.outcome is vote.Outcome.REFUSED:
                raise self._refusal(verdict, answers)
            limit = contest.LIMIT_SECONDS if self._give_way(answers) else VOTE_TIMEOUT_SECONDS
            if clock.monotonic() > begin + limit:
                raise self._refusal(verdict, answers)
            reasons, replies = "; ".join(verdict.reasons), vote.described(answers)
            log.info("the vote is undecided, asking the nodes again: %s (%s)", reasons, replies)
            self._report(f"waits for the nodes' confirmation: {reasons} ({replies})")
            await clock.sleep(BACK_OFF_SECONDS)

    def _give_way(self, answers: Sequence[vote.Answer]) -> bool:
        """Raise GiveWayError if another node that wants the role comes first; return whether others give way to it."""
        state, request = self._store.snapshot, self._request
        if not (request.taking_over and request.gives_way):
            return False
        if rival := contest.first_rival(state, self._own.node, answers):
            raise contest.GiveWayError(
                f"node {rival} seems to become the master at the same moment ({vote.described(answers)})",
                hint="repeat the command when that has ended",
                former=request.former or state.the_cluster.master_node,
            )
        return contest.is_first_of_several(state, self._own.node, answers)

    def _copy(self) -> calls.CandidateState:
        position, state = self._store.position, self._store.durable
        if self._candidates is not None:
            # What was sent counts, acknowledged or not: a candidate may have it already.
            position, state = self._candidates.chain.head, self._store.snapshot
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
        the_cluster = state.the_cluster
        keeping = (cluster.Role.CANDIDATE, cluster.Role.MASTER)
        names = {node.name for node in state.nodes.values() if node.role(the_cluster) in keeping}
        by_majority = not state.replication_policy.continues_alone
        return vote.Claim(
            self._own.node,
            self._copy(),
            names,
            taking_over=self._request.taking_over,
            by_majority=by_majority,
            acknowledged=reach.read(self._runtime.disk, self._folders),
        )

    def _taken_for_granted(self, answers: Sequence[vote.Answer]) -> list[vote.Answer]:
        own = self._copy()
        return [
            dataclasses.replace(answer, copy=own)
            if answer.node == own.master and answer.reached and not answer.copy
            else answer
            for answer in answers
        ]

    def _refusal(
        self, verdict: vote.Verdict, answers: Sequence[vote.Answer], leases: Sequence[calls.LeaseState] = ()
    ) -> errors.WrongStateError:
        failover = "gnt-cluster master-failover"
        again = "" if self._request.taking_over else f"; or make this node the master with {failover}"
        program = failover if self._request.taking_over else "gantry-masterd"
        holders = sorted({lease.node for lease in leases})
        alive = f"{', '.join(holders)} has the lease and works as the master; " if holders else ""
        offline = ", ".join(answer.node for answer in answers if answer.offline and not answer.reached)
        option = f"; or, not counting {offline}, marked offline: {failover} --ignore-offline-nodes" if offline else ""
        message = (
            f"node {self._own.node} is not confirmed as the master: {alive}{'; '.join(verdict.reasons)} "
            f"({vote.described(answers)})"
        )
        if successors := [answer.node for answer in answers if vote.has_replaced(self._claim(), answer)]:
            return errors.WrongStateError(
                message,
                hint=f"let this node be a candidate again, on {successors[0]}: gnt-node modify --offline no "
                f"{self._own.node}; or, if {successors[0]} is not to be the master, switch it off and try again",
            )
        return errors.WrongStateError(
            message,
            hint=f"start the nodes that do not answer{again}{option}{self._recovery(answers)}; "
            f"if no other master runs and the state on this node is the newest: {program} {OVERRIDE}",
        )

    def _recovery(self, answers: Sequence[vote.Answer]) -> str:
        """Return what to do if acknowledged records are in no copy that answers."""
        if vote.lost_records(self._claim(), answers) is None:
            return ""
        return (
            "; install the copy of a node that has the missing records, gnt-cluster recover --from NODE; or, if they "
            "are gone for good, gnt-cluster recover --accept-loss"
        )

    async def _catch_up(self, answers: Sequence[vote.Answer]) -> None:
        """Fetch the frames with which others continue this journal: in a takeover, or if a majority names this node."""
        named = sum(answer.master == self._own.node for answer in answers) + 1
        if not self._request.taking_over and 2 * named <= len(answers) + 1:
            return
        await self._newer.fetch(answers)

    def _check_at_rest(self, answers: Sequence[vote.Answer]) -> None:
        """Refuse to abort the jobs of a living master: its locks end with it.

        See contracts/cluster-design.md#locks.
        """
        state = self._store.snapshot
        old = state.nodes.get(state.the_cluster.master_node)
        alive = any(old and answer.node == old.name and answer.reached and not answer.copy for answer in answers)
        running = sorted(entry.id for entry in state.jobs.values() if entry.status is job.Status.RUNNING)
        if old and alive and running and not self._request.interrupts_jobs:
            numbers = ", ".join(map(str, running[:MAX_DISPLAYED_JOBS]))
            more = " ..." if len(running) > MAX_DISPLAYED_JOBS else ""
            raise errors.WrongStateError(
                f"the master, {old.name}, is alive and runs jobs that would be aborted: {numbers}{more}",
                hint="wait until these jobs have ended (gnt-cluster queue drain refuses new jobs), or add --yes-do-it",
            )

    async def _stop_old(self, answers: Sequence[vote.Answer]) -> bool:
        """Stop the old master's daemon, unless it is this node's; return whether the nodes have to be asked again.

        If it cannot be stopped, the lease ends its right, but under the policy ``seed`` nothing does.
        """
        state = self._store.snapshot
        if state.the_cluster.master_node == self._own.uuid:
            return False
        old = state.nodes.get(state.the_cluster.master_node)
        if old is None or not any(answer.node == old.name and answer.reached for answer in answers):
            log.warning(
                "the old master, %s, does not answer; the nodes will refuse it by its epoch", old.name if old else "?"
            )
            return False
        call = calls.StopMaster(patience=STOP_TIMEOUT_SECONDS)
        stopped = await self._poll.call(old, call, timeout_seconds=4 * STOP_TIMEOUT_SECONDS)
        if isinstance(stopped, errors.GantryError):
            if self._request.voting and not self._claim().by_majority:
                raise stopped
            log.warning("the old master's daemon was not stopped: %s", stopped)
            self._report(f"the old master's daemon was not stopped: {stopped}")
            return self._request.voting
        return stopped

    async def announce(self) -> None:
        """Report the new master to all nodes that answer, before any client relies on it: the next vote asks the nodes.

        The calls carry the epoch, so these nodes refuse the old master from then on.
        """
        if not self._request.taking_over:
            return
        state = self._store.durable
        values = ssconf.master(state)
        silent = {answer.node for answer in self._answers if not answer.reached}
        nodes = sorted(state.nodes.values(), key=lambda node: node.name)
        reachable = [node for node in nodes if not node.offline and node.name not in silent]
        outcomes = await asyncio.gather(
            *(self._poll.call(node, calls.WriteSsconf(values=values)) for node in reachable)
        )
        for node, outcome in zip(reachable, outcomes, strict=True):
            if isinstance(outcome, errors.GantryError):
                log.warning("the new master was not reported to node %s: %s", node.name, outcome)

    async def keep(self, candidates: replication.Candidates) -> None:
        """Find out after each refusal by a node whether another node has become the master; runs until cancelled.

        If a majority grants this master a higher epoch, it continues with that epoch, and the node that refused obeys
        it again. If a newer master exists, or under the policy ``seed`` may exist, this master ends.
        """
        self._request, self._candidates = Request(), candidates
        try:
            await self._keep(candidates)
        finally:
            if self._beginning is not None:
                self._beginning.cancel()
                await asyncio.gather(self._beginning, return_exceptions=True)

    async def _keep(self, candidates: replication.Candidates) -> None:
        while True:
            await candidates.doubted.wait()
            error = candidates.doubt
            assert error is not None
            try:
                verdict = await self._confirm_again(error)
            except errors.WrongStateError as refusal:
                log.warning("%s", refusal)
                verdict = vote.Verdict(vote.Outcome.UNDECIDED)
            except errors.GantryError as failure:
                # For example a full disk: the next attempt may succeed.
                log.warning("this node could not confirm its role as the master: %s", failure)
                await self._runtime.clock.sleep(BACK_OFF_SECONDS)
                continue
            if verdict.outcome is vote.Outcome.CONFIRMED:
                candidates.trust()
                await self._runtime.clock.sleep(DOUBT_INTERVAL_SECONDS)
            elif verdict.outcome is vote.Outcome.REFUSED or self._ends_undecided(error):
                return candidates.depose(error)
            else:
                await self._runtime.clock.sleep(BACK_OFF_SECONDS)

    def _ends_undecided(self, error: replication.Refusal) -> bool:
        """Return whether a refusal that nobody refutes ends this master: under ``seed``, if it tells of an epoch."""
        return not self._claim().by_majority and isinstance(error, errors.FencedError)

    async def _confirm_again(self, error: replication.Refusal) -> vote.Verdict:
        """Begin a higher epoch if the nodes confirm this master, and return the verdict.

        Without a higher epoch that can be true, the node that refused is broken, and no epoch would satisfy it.
        """
        answers = await self._poll.ask_all(ignore_offline=self._request.ignore_offline)
        answers = await self._newer.with_proof(answers)
        verdict = vote.decide(dataclasses.replace(self._claim(), taking_over=True), answers)
        is_granted = isinstance(error, errors.NotGrantedError)
        if verdict.outcome is vote.Outcome.CONFIRMED and not is_granted and self._is_highest(answers):
            log.error("a node refuses this master, which a majority confirms: %s; %s", error, vote.described(answers))
        elif verdict.outcome is vote.Outcome.CONFIRMED:
            self._epoch = await self._win(answers)
            self._store.claim(self._epoch)
            self._answers = answers
            if not await self._begin_in_time():
                return vote.Verdict(vote.Outcome.UNDECIDED)
        return verdict

    async def _begin_in_time(self) -> bool:
        """Begin the granted epoch; return False if its record is not acknowledged in time.

        Another node may have become the master since the vote. So the nodes are asked again while the record waits,
        which cannot be undone. A record that waited may have a lower epoch than the granted one.
        """
        beginning = self._beginning = self._beginning or asyncio.create_task(self.begin(), name="begin")
        await asyncio.wait([beginning], timeout=BEGIN_TIMEOUT_SECONDS)
        if not beginning.done():
            return False
        self._beginning = None
        await beginning
        return self._store.epoch >= self._epoch

    def _is_highest(self, answers: Sequence[vote.Answer]) -> bool:
        return vote.highest_epoch(answers) <= self._store.epoch


def _master(state: states.Snapshot) -> str:
    node = state.nodes.get(state.the_cluster.master_node)
    return node.name if node else "a node that does not exist"
