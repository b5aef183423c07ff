"""Records that other nodes hold and this machine lacks, before it gets the role; ``role`` uses it.

A master that lost power may have sent frames that it had not yet written. If the journal of another node continues the
one here, the missing frames are fetched. If it does not, because both continued from an earlier record, the node proves
with its records that its copy is newer: its word alone would not be enough, as it may be broken (``vote``).
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence

from gantry import errors
from gantry.mastership import poll, vote
from gantry.rpc import calls
from gantry.state.journal import extension
from gantry.state.store import transaction

log = logging.getLogger(__name__)

FETCH_TIMEOUT_SECONDS = 30.0
"""For a part of a node's newer records, also over a slow cable."""


class NewerRecords:
    """The records of other nodes, for a store; ``copy`` returns the extent of the copy here at that moment."""

    def __init__(self, store: transaction.Store, nodes: poll.Poll, *, copy: Callable[[], calls.CandidateState]) -> None:
        self._store = store
        self._nodes = nodes
        self._copy = copy

    async def fetch(self, answers: Sequence[vote.Answer]) -> None:
        """Fetch the frames with which others continue the journal here."""
        ahead = [answer for answer in answers if self._is_newer(answer)]
        for answer in sorted(ahead, key=_position):
            while lines := await self._following(answer):
                try:
                    for line in lines:
                        await self._store.adopt(line.encode())
                except errors.ConfigurationError as error:
                    log.error("node %s sent records that do not continue the journal here: %s", answer.node, error)
                    break
                log.info(
                    "fetched newer records from node %s, up to serial %d", answer.node, self._store.position.serial
                )

    async def with_proof(self, answers: Sequence[vote.Answer]) -> list[vote.Answer]:
        """Return the answers, with newer copies as proven whose records follow the checkpoint here."""
        return [
            dataclasses.replace(answer, proven=await self._is_proven(answer)) if self._is_newer(answer) else answer
            for answer in answers
        ]

    def _is_newer(self, answer: vote.Answer) -> bool:
        return answer.copy is not None and vote.is_newer(answer.copy, self._copy())

    async def _is_proven(self, answer: vote.Answer) -> bool:
        end = self._store.checkpointer.last
        while lines := await self._following(answer, digest=end.digest, serial=end.serial):
            try:
                for line in lines:
                    _, end = extension.follow(end, line.encode())
            except errors.ConfigurationError as error:
                log.error("node %s sent records that are damaged: %s", answer.node, error)
                return False
        here = self._copy()
        return (end.epoch, end.serial) >= max(_position(answer), (here.epoch, here.serial + 1))

    async def _following(self, answer: vote.Answer, *, digest: str = "", serial: int = 0) -> tuple[str, ...]:
        """Return the next frames of a node after a position, by default the end of the journal here; empty if none."""
        node = next((node for node in self._nodes.other_nodes() if node.name == answer.node), None)
        if node is None:  # the records that were fetched meanwhile have removed it
            return ()
        end = self._store.position
        request = calls.JournalFetch(after=digest or end.digest, serial=serial or end.serial)
        lines = await self._nodes.call(node, request, timeout_seconds=FETCH_TIMEOUT_SECONDS)
        if isinstance(lines, errors.GantryError):
            log.warning("the newer records of node %s cannot be fetched: %s", answer.node, lines)
            return ()
        return lines


def _position(answer: vote.Answer) -> tuple[int, int]:
    return (answer.copy.epoch, answer.copy.serial) if answer.copy else (0, 0)
