"""The proofs of the epochs of this master, which it brings to the nodes (explanation/state.md#epochs).

``grants`` collects the signed grants, and this module keeps them while the master runs. ``rpc.client`` asks for
the proof of an epoch before its first call to a node. When a node is not convinced, because the master candidates or
their certificates have changed since, the candidates sign again.
"""

import logging
from collections.abc import Awaitable, Callable

from gantry import errors
from gantry.rpc import calls, client, targets
from gantry.runtime import interface

log = logging.getLogger(__name__)

MOST_EPOCHS = 4
"""How many epochs are kept: the present one, and those that begin while calls of an earlier one are under way."""

RENEWAL_SECONDS = 10.0
"""The time between two renewals of a proof."""


class Proofs:
    """The proofs of this master; ``sign_again`` returns the grants of an epoch that the candidates sign now."""

    def __init__(
        self,
        clock: interface.Clock,
        nodes: client.Client,
        *,
        sign_again: Callable[[int], Awaitable[tuple[calls.Grant, ...]]],
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._sign_again = sign_again
        self._proofs: dict[int, calls.ProveEpoch] = {}
        self._renewed = float("-inf")
        nodes.prove(self.bring)

    def keep(self, epoch: int, grants: tuple[calls.Grant, ...]) -> None:
        """Keep the proof of an epoch."""
        self._proofs.pop(epoch, None)
        self._proofs[epoch] = calls.ProveEpoch(epoch=epoch, grants=grants)
        while len(self._proofs) > MOST_EPOCHS:
            del self._proofs[next(iter(self._proofs))]

    async def bring(self, target: targets.Target, epoch: int) -> bool:
        """Show a node the proof of an epoch; return whether it is convinced.

        Errors are those of a call, except those of a node that refuses the proof.
        """
        proof = self._proofs.get(epoch)
        if proof is None:
            return False
        try:
            if await self._show(target, proof):
                return True
            await self._renew(epoch)
            renewed = self._proofs.get(epoch, proof)
            return renewed is not proof and await self._show(target, renewed)
        except errors.ProtocolError as error:  # a node that is just joining, or of an earlier version, has no such call
            log.info("%s", error)
            return False

    async def _show(self, target: targets.Target, proof: calls.ProveEpoch) -> bool:
        try:
            await self._nodes.attempt(target, proof)
        except errors.UnprovenError as error:
            log.info("%s", error)
            return False
        return True

    async def _renew(self, epoch: int) -> None:
        now = self._clock.monotonic()
        if self._renewed + RENEWAL_SECONDS > now:
            return
        self._renewed = now
        self.keep(epoch, await self._sign_again(epoch))
