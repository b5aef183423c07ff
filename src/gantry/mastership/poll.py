"""Asks the nodes of the cluster who is the master and how far their copies reach; ``role`` decides from that.

All nodes are asked at once, also those that are marked offline, each for at most ``ROUND_TIMEOUT_SECONDS``.
"""

import asyncio
import dataclasses
from typing import TypeVar

from gantry import errors
from gantry.mastership import vote
from gantry.model import cluster
from gantry.rpc import calls, client, targets
from gantry.state.store import transaction

Result = TypeVar("Result")

ROUND_TIMEOUT_SECONDS = 2.0
"""How long a round waits for the answers of the nodes."""


class Poll:
    """Asks the nodes in the state of ``store``, except for the node ``own_uuid`` of this machine."""

    def __init__(self, store: transaction.Store, nodes: client.Client, *, own_uuid: str) -> None:
        self._store = store
        self._nodes = nodes
        self._own_uuid = own_uuid

    def other_nodes(self) -> list[cluster.Node]:
        """Return all nodes that have a vote, by name, without the own node."""
        nodes = self._store.snapshot.nodes.values()
        nodes_to_ask = (node for node in nodes if node.uuid != self._own_uuid and not node.joining)
        return sorted(nodes_to_ask, key=lambda node: node.name)

    async def ask_all(self, *, ignore_offline: bool) -> list[vote.Answer]:
        """Return an answer for each node; without silent nodes that are marked offline, if they are to be ignored."""
        answers = await asyncio.gather(*map(self._ask, self.other_nodes()))
        answers = vote.without_impossible(self._store.epoch, answers)
        return [answer for answer in answers if not (ignore_offline and answer.offline and not answer.reached)]

    async def _ask(self, node: cluster.Node) -> vote.Answer:
        # Without an introduction, which may take longer than a round, and would hide that the node disowns the asker.
        name, copy = await asyncio.gather(
            self.call(node, calls.MasterName(), introducing=False),
            self.call(node, calls.CandidateStatus(), introducing=False),
        )
        faults = [answer.message for answer in (name, copy) if isinstance(answer, errors.GantryError)]
        obeyed = [answer.obeyed for answer in (name, copy) if isinstance(answer, errors.UnknownCallerError)]
        return vote.Answer(
            node.name,
            master=name if isinstance(name, str) else None,
            copy=copy if isinstance(copy, calls.CandidateState) else None,
            why=faults[0] if faults else "",
            offline=node.offline,
            locked=isinstance(copy, errors.WrongStateError),
            disowns=len(obeyed) == 2,
            own_epoch=max((epoch for epoch, owner in obeyed if owner == node.uuid), default=0),
        )

    async def call(
        self,
        node: cluster.Node,
        call: calls.Call[Result],
        *,
        timeout_seconds: float = ROUND_TIMEOUT_SECONDS,
        introducing: bool = True,
    ) -> Result | errors.GantryError:
        """Call a node, whatever its flags; return a failure as an error."""
        make = self._nodes.call if introducing else self._nodes.attempt
        try:
            async with asyncio.timeout(timeout_seconds):
                return await make(self.target(node), call)
        except errors.GantryError as error:
            return error
        except TimeoutError:
            return errors.RemoteError(f"no answer within {timeout_seconds:g} s")

    def target(self, node: cluster.Node) -> targets.Target:
        """Return the target of a node, whatever its flags."""
        return dataclasses.replace(self._store.snapshot.target(node), offline=False)
