"""The keys by which a master recognizes the nodes that it calls.

A node must present a certificate with a key that the state records for it. Before the master begins its epoch, its
state may be behind: its disk lost the end of the journal, or the machine was away while the keys of nodes were renewed.
Then it could not reach those that have the missing records. So until it begins, the keys of master candidates in its
machine's ssconf file count too, each for its own node.
"""

from collections.abc import Mapping

from gantry.rpc import calls
from gantry.runtime import interface, paths
from gantry.state import transaction

MASTERS = "master_candidates_certs"


class NodeKeys:
    """The keys of nodes by address; ``store`` is the master's, and ``begun`` is set when its epoch has begun."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths) -> None:
        self._disk = disk
        self._path = f"{folders.ssconf}/ssconf_{MASTERS}"
        self.store: transaction.Store | None = None
        self.begun = False

    def at(self, address: str) -> tuple[str, ...]:
        """Return the keys that the nodes at an address may have; empty, for any key, if one has no recorded key."""
        if self.store is None:
            return ()
        state = self.store.snapshot
        nodes = [state.nodes[uuid] for uuid in sorted(state.nodes_at.get(address) or ())]
        if not all(node.certificate.keys for node in nodes):
            return ()
        recorded = [key for node in nodes for key in node.certificate.keys]
        uuids = {node.uuid for node in nodes}
        newer = [] if self.begun else [key for key, uuid in self._stored().items() if uuid in uuids]
        return tuple(dict.fromkeys([*recorded, *newer]))

    def _stored(self) -> Mapping[str, str]:
        """Return the UUIDs of the master candidates in the ssconf file by their keys."""
        text = self._disk.read(self._path).decode(errors="replace") if self._disk.exists(self._path) else ""
        return calls.nodes_by_key(text)
