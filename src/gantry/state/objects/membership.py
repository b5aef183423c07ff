"""Whether changes concern who belongs to the cluster, and who has a copy of its state. Pure.

``store.transaction`` ends such a change in a checkpoint: a journal that loses its end afterwards still knows whom to
ask.
"""

from collections.abc import Sequence

from gantry.model import cluster
from gantry.state.objects import snapshot


def changes(before: snapshot.Snapshot, touched: Sequence[snapshot.Change]) -> bool:
    """Return whether a node is added or removed, or becomes a master candidate or ceases to be one."""
    return any(_concerns(before, change) for change in touched if change.kind == "nodes")


def _concerns(before: snapshot.Snapshot, change: snapshot.Change) -> bool:
    old = before.nodes.get(change.key)
    new = change.value if isinstance(change, snapshot.Put) else None
    if old is None or not isinstance(new, cluster.Node):
        return True
    return (old.name, old.master_candidate, old.joining) != (new.name, new.master_candidate, new.joining)
