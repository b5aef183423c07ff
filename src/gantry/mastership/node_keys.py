"""The keys by which a master recognizes the nodes that it calls.

A node must present a certificate with a key that the state records for it. Before the master begins its epoch, its
state may be behind: its disk lost the end of the journal, or the machine was away while the keys of nodes were renewed.
Then it could not reach those that have the missing records. So until it begins, the keys of master candidates in its
machine's ssconf file count too, each for its own node.

The key of a joining node is recorded before the node is called. Earlier versions called it without: the record of a
node whose joining they did not complete has no key, and such a node is not trusted. A handshake may end after the
record of its node was deleted or moved. So until another node has the address, the recorded keys still count there.
"""

from collections.abc import Mapping, Sequence

from gantry.lib_files import ssconf as ssconf_file
from gantry.rpc import calls
from gantry.runtime import interface, paths
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction


class NodeKeys:
    """The keys of nodes by address in the state that it follows; ``begun`` is set when the master's epoch has begun."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths) -> None:
        self._disk = disk
        self._path = ssconf_file.path(folders.ssconf, ssconf_file.MASTERS)
        self._store: transaction.Store | None = None
        self._former: dict[str, tuple[str, ...]] = {}
        self.begun = False

    def follow(self, store: transaction.Store) -> None:
        """Use the state of the master's store from now on."""
        self._store = store
        store.observe(self._remember)

    def _remember(self, before: states.Snapshot, _: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Keep the keys of nodes that are replaced or deleted."""
        for change in changes:
            if change.kind == "nodes" and (node := before.nodes.get(change.key)) and node.certificate.keys:
                self._former[node.primary_ip] = node.certificate.keys

    def at(self, address: str) -> tuple[str, ...] | None:
        """Return the keys that the nodes at an address may have.

        None, for any key, at an address that had no node with a key since the start, and if one of its nodes has no
        recorded key and is not joining.
        """
        if self._store is None:
            return None
        state = self._store.snapshot
        nodes = [state.nodes[uuid] for uuid in sorted(state.nodes_at.get(address) or ())]
        if not nodes:
            return self._former.get(address)
        if not all(node.certificate.keys or node.joining for node in nodes):
            return None
        recorded = [key for node in nodes for key in node.certificate.keys]
        uuids = {node.uuid for node in nodes}
        newer = [] if self.begun else [key for key, uuid in self._stored().items() if uuid in uuids]
        return tuple(dict.fromkeys([*recorded, *newer]))

    def _stored(self) -> Mapping[str, str]:
        """Return the UUIDs of the master candidates in the ssconf file by their keys."""
        text = self._disk.read(self._path).decode(errors="replace") if self._disk.exists(self._path) else ""
        return calls.nodes_by_key(text)
