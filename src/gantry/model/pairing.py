"""The choice of the two nodes with an instance's mirrored disks after a failover to any node. Pure.

P1 and S1 are the current primary and secondary node, P2 and S2 the new ones. The user chooses P2. S2 is either P1 or S1
and keeps its copy of the disks, from which P2 receives its own copy. ``operations.move.failover`` ends the old pairing,
creates the new pairing, and starts the instance as soon as P2 receives data.

See contracts/cluster-design.md#failover-to-any-node.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from gantry import errors

Keep = Literal["primary", "secondary"]

GOOD = "UpToDate"
RECEIVING = "SyncTarget"
CONNECTED = ("Connected", "SyncSource", "SyncTarget", "PausedSyncT", "PausedSyncS")
MEETING = ("Unconnected", "WFConnection", "WFReportParams", "WFBitMapS", "WFBitMapT", "WFSyncUUID")
"""States of a connection that is being established: neither node knows yet which copy is newer."""


@dataclass(frozen=True)
class Pairing:
    """The new primary and secondary node, by UUID; ``gone`` is the node that loses its copy, empty for a swap.

    ``migratable`` means that the instance could move without a stop, which requires that P1 keeps its copy.
    """

    primary: str
    secondary: str
    gone: str = ""
    migratable: bool = False

    @property
    def swapped(self) -> bool:
        """Return whether both nodes keep their copies: the secondary node becomes the primary node."""
        return not self.gone


def decide(
    *, primary: str, secondary: str, target: str, failed: Collection[str] = (), keep: Keep | None = None
) -> Pairing:
    """Choose S2 by the cases of the design; without ``keep`` the secondary node keeps its copy, unless it failed.

    Raises WrongStateError if the only good copy is on a node that ``failed``, or that ``keep`` excludes.

    See contracts/cluster-design.md#failover-to-any-node.
    """
    if target == primary:
        raise errors.WrongStateError("the target is already the primary node")
    if target in failed:
        raise errors.WrongStateError("the target node does not work")
    if target == secondary:
        return Pairing(primary=secondary, secondary=primary, migratable=primary not in failed)
    both = primary in failed, secondary in failed
    if both == (True, True):
        raise errors.WrongStateError("neither of the two nodes with its disks works")
    forced: Keep | None = "secondary" if both[0] else "primary" if both[1] else None
    if forced and keep and keep != forced:
        raise errors.WrongStateError(f"its {keep} node does not work, so the other node must keep its copy")
    kept = forced or keep or "secondary"
    if kept == "secondary":
        return Pairing(primary=target, secondary=secondary, gone=primary)
    return Pairing(primary=target, secondary=primary, gone=secondary, migratable=True)


def problem(local: str | None, *, connection: str = CONNECTED[0], lenient: bool = False) -> str:
    """Return why a copy of a disk cannot be kept, empty if it can; ``local`` is its state, None without a copy.

    ``connection`` is the state of its connection to a working primary node: an unconnected copy may lack recent writes.
    ``lenient`` accepts a copy that was complete once and is now out of date.
    """
    if local is None:
        return "there is no copy"
    if connection not in CONNECTED and not lenient:
        return f"the copy is not connected to the primary copy ({connection or 'no connection'})"
    if local == GOOD or (lenient and local in ("Consistent", "Outdated")):
        return ""
    return f"the copy is {local}, not {GOOD}"


def may_be_promoted(*, connection: str, local: str, peer: str) -> bool:
    """Return whether P2 can become primary: P2 receives data from S2, or its copy is complete."""
    return peer == GOOD and (connection == RECEIVING or (connection in CONNECTED and local == GOOD))
