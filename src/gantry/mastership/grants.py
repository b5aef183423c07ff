"""Collects the grants that make a confirmed node the only master of an epoch (explanation/state.md#epochs).

``role`` uses it after the vote. A node grants an epoch to one node only, and to none while another master has
the lease (explanation/replication.md#the-lease), so the collection may have to wait for the end of that lease. The
grants of master candidates are signed: those of a majority are the proof of the epoch (``proofs``).
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from gantry import errors, security
from gantry.lib_files import epoch as epoch_files
from gantry.mastership import contest, poll, vote
from gantry.rpc import calls
from gantry.runtime import interface, paths
from gantry.state.store import transaction

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""How long the collection may take, without the wait for a lease."""

BACK_OFF_SECONDS = 1.0
"""The longest time between two attempts."""

MOST_ABOVE = calls.EPOCH_STEP // 4
"""How far grants to other nodes can lift the epoch: whatever one node reports, the others must still believe it."""

HIGHEST = 10 ** (calls.EPOCH_DIGITS - 1)
"""No series of grants can have reached a higher epoch: a node that reports one is broken."""

Refusal = Callable[[vote.Verdict, Sequence[vote.Answer], Sequence[calls.LeaseState]], errors.WrongStateError]


class Grants:
    """The grants to this machine's node; ``own`` are its UUID and name.

    ``claim`` returns the claim to the role at that moment, ``refusal`` the error for a verdict. ``give_way`` gets the
    nodes' answers after a vain attempt, raises an error if another node is to become the master first, and returns
    whether others give way to this one. ``keep``
    gets an epoch and the signed grants of it.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        own: tuple[str, str],
        store: transaction.Store,
        nodes: poll.Poll,
        claim: Callable[[], vote.Claim],
        refusal: Refusal,
        give_way: Callable[[Sequence[vote.Answer]], bool],
        keep: Callable[[int, tuple[calls.Grant, ...]], None],
    ) -> None:
        self._runtime = runtime
        self._keep = keep
        self._certificates = folders.certificates
        self._path = f"{folders.lib}/promise"
        self._own_uuid, self._own_name = own
        self._store = store
        self._nodes = nodes
        self._claim = claim
        self._refusal = refusal
        self._give_way = give_way

    def _highest(self, answers: Sequence[vote.Answer]) -> int:
        return max(vote.highest_epoch(answers), self._store.epoch, self._own_grant().epoch)

    async def take(self, answers: Sequence[vote.Answer]) -> int:
        """Return an epoch above all that are known, without waiting for grants.

        The nodes are asked nevertheless: if enough of them grant the epoch, the master can prove it.
        """
        epoch = self._highest(answers) + 1
        await self._grant_self(epoch)
        self._keep(epoch, await self._signed([answer.node for answer in answers if answer.reached], epoch))
        return epoch

    async def sign_again(self, epoch: int) -> tuple[calls.Grant, ...]:
        """Return the signed grants of an epoch that nodes have granted, or obey, or grant now."""
        candidates = self._claim().candidates
        return await self._signed([node.name for node in self._nodes.other_nodes() if node.name in candidates], epoch)

    async def _signed(self, names: Sequence[str], epoch: int) -> tuple[calls.Grant, ...]:
        replies = await asyncio.gather(*(self._ask_grant(name, epoch, {}) for name in names))
        return self._signatures(epoch, replies)

    def _signatures(self, epoch: int, replies: Sequence[calls.GrantReply | None]) -> tuple[calls.Grant, ...]:
        """Return the signed grants among the replies, and that of this machine itself.

        Its node daemon grants nothing while the lock of the queue is held here.
        """
        disk, folder = self._runtime.disk, self._certificates
        certificate, key = disk.read(f"{folder}/node.pem"), disk.read(f"{folder}/node.key")
        signature = security.sign(key, calls.statement_of_epoch(epoch, self._own_uuid))
        own = calls.Grant(certificate=certificate.decode(), signature=signature)
        return (own, *(reply.grant for reply in replies if reply and reply.grant))

    async def win(self, answers: Sequence[vote.Answer]) -> int:
        """Return an epoch that a majority has granted to this node, and so to no other node.

        Two nodes that are confirmed at the same moment ask for the same epoch: both try again with a higher epoch.
        """
        clock = self._runtime.clock
        highest = self._highest(answers)
        highest_possible = highest + MOST_ABOVE
        stopped = self._stopped(answers)
        await self._wait_for_own_lease(stopped)
        until = clock.monotonic() + TIMEOUT_SECONDS
        leased_until = clock.monotonic() + calls.LEASE_SECONDS
        contested_until = clock.monotonic() + contest.LIMIT_SECONDS
        while True:
            epoch = highest + 1
            replies = await asyncio.gather(*(self._ask_grant(answer.node, epoch, stopped) for answer in answers))
            granting = [
                answer if reply and reply.granted else dataclasses.replace(answer, copy=None)
                for answer, reply in zip(answers, replies, strict=True)
            ]
            verdict = vote.decide(dataclasses.replace(self._claim(), taking_over=True), granting)
            leases = [reply.lease for reply in replies if reply and reply.lease]
            reported = [reply.epoch for reply in replies if reply]
            believed = [granted_epoch for granted_epoch in reported if granted_epoch <= highest_possible]
            highest = max([epoch, self._granted_by_majority(answers, replies), *believed])
            is_late = clock.monotonic() > until
            # A node that has granted a higher epoch would refuse this master's first record, so try above that. If it
            # names a higher epoch each time, it is broken: what a majority has granted is enough.
            is_enough = highest == epoch or (is_late and self._claim().by_majority)
            if verdict.outcome is vote.Outcome.CONFIRMED and is_enough:
                # Not earlier: a node without a majority must not block the existing master.
                await self._grant_self(epoch)
                self._keep(epoch, self._signatures(epoch, replies))
                return epoch
            if leases and clock.monotonic() < leased_until:
                until = clock.monotonic() + TIMEOUT_SECONDS
                await self._wait_for(max(leases, key=lambda lease: lease.seconds))
            elif is_late:
                raise self._refusal(verdict, granting, leases)
            if verdict.outcome is not vote.Outcome.CONFIRMED:
                are_rivals_waiting = self._give_way(await self._nodes.ask_all(ignore_offline=True))
                if are_rivals_waiting and clock.monotonic() < contested_until:
                    until = clock.monotonic() + TIMEOUT_SECONDS
            await clock.sleep(BACK_OFF_SECONDS * self._runtime.random.below(100) / 100)

    def _granted_by_majority(self, answers: Sequence[vote.Answer], replies: Sequence[calls.GrantReply | None]) -> int:
        """Return the epoch above which a majority of all nodes, and of the candidates, can still grant one.

        Below it they cannot, whoever made them grant so much; a minority that reports anything does not count.
        """
        candidates = self._claim().candidates
        everybody = [answer.node for answer in answers]
        reports = {
            answer.node: reply.epoch
            for answer, reply in zip(answers, replies, strict=True)
            if reply and reply.epoch <= HIGHEST
        }
        bounds = []
        for names in (everybody, [name for name in everybody if name in candidates]):
            epochs = sorted(reports[name] for name in names if name in reports)
            needed = (1 + len(names)) // 2  # beside this machine
            bounds.append(epochs[needed - 1] if 0 < needed <= len(epochs) else 0)
        return max(bounds)

    def _stopped(self, answers: Sequence[vote.Answer]) -> dict[str, int]:
        """Return the candidates where no master daemon runs, with the epoch up to which that is known.

        A node that can read its copy of the state holds the lock of the queue, which a master daemon would have.
        """
        return {answer.node: answer.copy.epoch for answer in answers if answer.copy and answer.copy.serial}

    async def _wait_for_own_lease(self, stopped: Mapping[str, int]) -> None:
        """Wait until this machine may have the role by the lease that its own node daemon granted to another node."""
        own = self._store.snapshot.nodes.get(self._own_uuid)
        state = await self._nodes.call(own, calls.LeaseStatus()) if own else None
        if not isinstance(state, calls.LeaseState):
            state = calls.LeaseState(node="another node", epoch=self._store.epoch, seconds=calls.LEASE_SECONDS)
        if state.node and state.seconds_to_wait(self._own_name, stopped=stopped):
            await self._wait_for(state)

    async def _wait_for(self, lease: calls.LeaseState) -> None:
        # A broken node may report any number.
        seconds = min(lease.seconds, calls.LEASE_SECONDS)
        log.info("waiting %.1f s for the end of the lease that %s may have", seconds, lease.node)
        await self._runtime.clock.sleep(seconds)

    async def _ask_grant(self, name: str, epoch: int, stopped: Mapping[str, int]) -> calls.GrantReply | None:
        copy = self._claim().copy
        request = calls.GrantEpoch(
            epoch=epoch, node=self._own_name, newest=(copy.epoch, copy.serial), stopped=dict(stopped)
        )
        node = next((node for node in self._nodes.other_nodes() if node.name == name), None)
        if node is None:
            # A running master that is confirmed again may have removed the node since the vote.
            return None
        answer = await self._nodes.call(node, request)
        return None if isinstance(answer, errors.GantryError) else answer

    def _own_grant(self) -> calls.GrantedEpoch:
        """Return this machine's last grant; its node daemon grants nothing while the queue's lock is held here."""
        disk = self._runtime.disk
        if not disk.exists(self._path):
            return calls.GrantedEpoch()
        try:
            return epoch_files.decode_grant(disk.read(self._path))
        except ValueError as error:
            log.error("%s is damaged and does not count: %s", self._path, error)
            return calls.GrantedEpoch()
        except OSError as error:
            raise self._unusable(error) from None

    async def _grant_self(self, epoch: int) -> None:
        grant = calls.GrantedEpoch(epoch=epoch, node=self._own_name)
        try:
            await self._runtime.disk.write(self._path, epoch_files.encode_grant(grant), mode=0o444)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> errors.StorageError:
        return errors.StorageError(
            f"{self._path} cannot be used: {error.strerror or error}",
            hint="this node can be the master only if it can store what it grants",
        )
