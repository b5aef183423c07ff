"""Places: which addresses of networks a set of changes gives up, and which it has afterwards; pure.

A place is a network's UUID with an address in canonical text. ``resting`` and ``shared`` ask.
"""

from collections.abc import Iterable

from gantry.model import instance, network
from gantry.state import snapshot as states

Place = tuple[str, str]


def moved(
    state: states.Snapshot, changes: Iterable[states.Change]
) -> tuple[dict[Place, states.Holder], dict[Place, states.Holder]]:
    """Return who had addresses that changes are about, as they are to be applied to ``state``, and who will have some.

    What a holder keeps is in both.
    """
    had: dict[Place, states.Holder] = {}
    has: dict[Place, states.Holder] = {}
    for change in changes:
        if change.kind in ("instances", "ports"):
            old = state.ports.get(change.key) if change.kind == "ports" else state.instances.get(change.key)
            new = change.value if isinstance(change, states.Put) else None
            had |= of(old) if old else {}
            has |= of(new) if isinstance(new, instance.Instance | network.Port) else {}
    return had, has


def of(holder: states.Holder) -> dict[Place, states.Holder]:
    """Return the places of one instance or port."""
    return {(one.network, one.ip): holder for one in holder.places() if one.network}
