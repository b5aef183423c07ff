"""Introduces a new master to a node that was away while the master candidates changed, and does not know its key.

Each master candidate vouches for the keys of the present candidates (``calls.Vouch``), and the master brings their
words to the node (``calls.MastersStore``), which believes a majority of the candidates that it knows. ``rpc.client``
calls this when a node refuses the master as a stranger. Without such a majority the node stays away, until an
administrator copies the file with the keys from another node (how-to/certificates.md). See
explanation/security.md#keys-that-the-cluster-records.
"""

import logging
from collections.abc import Callable

from gantry import errors
from gantry.model import cluster
from gantry.rpc import calls, client, targets
from gantry.state.objects import snapshot, ssconf

log = logging.getLogger(__name__)

MOST_CHARACTERS = 1 << 14
"""Of a certificate: the words of all candidates must fit into the call of a stranger."""


class Introduction:
    """Introduces the master of a cluster; ``state`` returns the acknowledged state."""

    def __init__(self, nodes: client.Client, state: Callable[[], snapshot.Snapshot]) -> None:
        self._nodes = nodes
        self._state = state

    async def introduce(self, target: targets.Target) -> bool:
        """Return whether the node knows the master's key now.

        It may know an earlier key of each candidate, so all are asked for a word by their present keys first, then by
        those before.
        """
        state = self._state()
        candidates = [node for node in self._candidates(state) if node.uuid != target.uuid]
        masters = tuple(ssconf.masters(state))
        vouchers: list[calls.Voucher] = []
        for earlier in range(calls.EARLIER_KEYS + 1):
            request = calls.Vouch(uuid=target.uuid, masters=masters, earlier=earlier)
            for node in list(candidates):
                try:
                    voucher = await self._nodes.attempt(state.target(node), request)
                    if len(voucher.certificate) > MOST_CHARACTERS:
                        raise errors.RemoteError(f"the certificate has {len(voucher.certificate)} characters")
                except errors.GantryError as error:
                    log.info("candidate %s cannot introduce this master to %s: %s", node.name, target.name, error)
                    candidates.remove(node)
                    continue
                vouchers.append(voucher)
                call = calls.MastersStore(masters=masters, voucher=voucher, vouchers=tuple(vouchers))
                try:
                    await self._nodes.attempt(target, call)
                except (errors.ProtocolError, errors.UnprovenError) as error:
                    log.info("%s does not believe candidate %s: %s", target.name, node.name, error)
                except errors.GantryError as error:
                    log.info("%s does not take the word of candidate %s: %s", target.name, node.name, error)
                    return False
                else:
                    log.info("%d words of candidates have introduced this master to %s", len(vouchers), target.name)
                    return True
        return False

    def _candidates(self, state: snapshot.Snapshot) -> list[cluster.Node]:
        owner, roles = state.the_cluster, (cluster.Role.CANDIDATE, cluster.Role.MASTER)
        nodes = sorted(state.nodes.values(), key=lambda node: node.name)
        return [node for node in nodes if node.role(owner) in roles]
