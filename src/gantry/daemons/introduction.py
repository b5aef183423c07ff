"""Introduces a new master to a node that was away while the master candidates changed, and does not know its key.

A master candidate that the node knows vouches for the keys of the present candidates (``calls.Vouch``), and the master
brings its word to the node (``calls.MastersStore``). ``rpc.client`` calls this when a node refuses the master as a
stranger. Without such a candidate the node stays away, until an administrator copies the file with the keys from
another node (how-to/certificates.md). See explanation/security.md#keys-that-the-cluster-records.
"""

import logging
from collections.abc import Callable

from gantry import errors
from gantry.model import cluster
from gantry.rpc import calls, client, targets
from gantry.state import snapshot, ssconf

log = logging.getLogger(__name__)


class Introduction:
    """Introduces the master of a cluster; ``state`` returns the acknowledged state."""

    def __init__(self, nodes: client.Client, state: Callable[[], snapshot.Snapshot]) -> None:
        self._nodes = nodes
        self._state = state

    async def introduce(self, target: targets.Target) -> bool:
        """Return whether the node knows the master's key now."""
        state = self._state()
        owner = state.the_cluster
        nodes = sorted(state.nodes.values(), key=lambda node: node.name)
        masters = tuple(ssconf.masters(state))
        for node in nodes:
            if node.role(owner) not in (cluster.Role.CANDIDATE, cluster.Role.MASTER) or node.uuid == target.uuid:
                continue
            for earlier in range(calls.EARLIER_KEYS + 1):
                request = calls.Vouch(uuid=target.uuid, masters=masters, earlier=earlier)
                try:
                    voucher = await self._nodes.attempt(state.target(node), request)
                except errors.GantryError as error:
                    log.info("candidate %s cannot introduce this master to %s: %s", node.name, target.name, error)
                    break
                try:
                    await self._nodes.attempt(target, calls.MastersStore(masters=masters, voucher=voucher))
                except errors.ProtocolError as error:
                    # The node may know an earlier key of the candidate.
                    log.info("%s does not believe candidate %s: %s", target.name, node.name, error)
                except errors.GantryError as error:
                    log.info("%s does not take the word of candidate %s: %s", target.name, node.name, error)
                    break
                else:
                    log.info("candidate %s has introduced this master to %s", node.name, target.name)
                    return True
        return False
