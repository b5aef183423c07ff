"""Names, order and modes of locks, and which modes conflict. Pure.

``jobs.lock_table`` keeps the owners. A level's metalock (``ALL_NAMES``) conflicts with all names of the level, even
future ones: a request for a name also declares at the metalock that it takes some name.
"""

from collections.abc import Mapping

from gantry.model import lock

CLUSTER_LOCK = "BGL"

Key = tuple[lock.Level, str]
Mask = int

# The modes as bits: the first two only at metalocks, by requests for some of the level's names.
SOME_SHARED, SOME_EXCLUSIVE, SHARED, EXCLUSIVE = 1, 2, 4, 8
_MODE = {lock.Mode.SHARED: SHARED, lock.Mode.EXCLUSIVE: EXCLUSIVE}
_SOME = {lock.Mode.SHARED: SOME_SHARED, lock.Mode.EXCLUSIVE: SOME_EXCLUSIVE}
_BARS_ONE = {
    SOME_SHARED: EXCLUSIVE,
    SOME_EXCLUSIVE: SHARED | EXCLUSIVE,
    SHARED: SOME_EXCLUSIVE | EXCLUSIVE,
    EXCLUSIVE: 15,
}
_COVERS_ONE = {SOME_SHARED: 1, SOME_EXCLUSIVE: 3, SHARED: 5, EXCLUSIVE: 15}


def _spread(table: Mapping[Mask, Mask]) -> tuple[Mask, ...]:
    return tuple(
        sum({bit for other, bits in table.items() if mask & other for bit in (1, 2, 4, 8) if bits & bit})
        for mask in range(16)
    )


BARS = _spread(_BARS_ONE)
"""By mask: the bits that conflict with it."""

COVERS = _spread(_COVERS_ONE)
"""By mask: the bits that an owner with this mask already has."""

_LEVEL_NAMES = {
    lock.Level.CLUSTER: "cluster",
    lock.Level.INSTANCE: "instance",
    lock.Level.GROUP: "nodegroup",
    lock.Level.NODE: "node",
    lock.Level.NETWORK: "network",
    lock.Level.CONFIG: "config",
}


def expand(lockset: lock.LockSet) -> dict[Key, Mask]:
    """Return the modes of each lock that a set takes, including the metalocks of its names."""
    needs: dict[Key, Mask] = {}
    for (level, name), mode in lockset.items():
        needs[level, name] = needs.get((level, name), 0) | _MODE[mode]
        if level is not lock.Level.CLUSTER and name != lock.ALL_NAMES:
            metalock = level, lock.ALL_NAMES
            needs[metalock] = needs.get(metalock, 0) | _SOME[mode]
    return needs


def order(key: Key) -> tuple[int, bool, str]:
    """Return a lock's sort key: by level, a level's metalock before its names, names alphabetically."""
    return key[0], key[1] != lock.ALL_NAMES, key[1]


def title(key: Key) -> str:
    """Return a lock's name as users see it, for a metalock ``instance/[lockset]``.

    See contracts/jobs.md#locks-as-clients-see-them.
    """
    return f"{_LEVEL_NAMES[key[0]]}/{'[lockset]' if key[1] == lock.ALL_NAMES else key[1]}"


def mode_of(mask: Mask) -> str | None:
    """Return a mask as a mode; None if it only declares that names of the level are taken."""
    return "exclusive" if mask & EXCLUSIVE else "shared" if mask & SHARED else None
