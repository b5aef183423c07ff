"""Which two nodes have an instance's mirrored disks after a failover to any node. Pure.

P1 and S1 are the primary and secondary node now, P2 and S2 those to come. P2 is the node that the
user chooses; S2 is the one of P1 and S1 that keeps its copy, from which P2 gets one of its own.
``operations.move.failover`` tears the old pairing down, makes the new one, and starts the instance as soon as P2
receives.

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
"""Connections on their way: neither node knows yet whose copy is the newer one."""


@dataclass(frozen=True)
class Pairing:
    """What becomes of both copies; nodes by UUID. ``gone`` is the node whose copy is given up, empty for a swap.

    ``migratable`` is whether the instance could move without being stopped: only where P1 stays.
    """

    primary: str
    secondary: str
    gone: str = ""
    migratable: bool = False

    @property
    def swapped(self) -> bool:
        """Tell whether nothing is copied: the secondary node becomes the primary one."""
        return not self.gone


def decide(
    *, primary: str, secondary: str, target: str, failed: Collection[str] = (), keep: Keep | None = None
) -> Pairing:
    """Choose S2 by the cases of the design; without a wish the secondary stays, unless it failed.

    Raises WrongStateError when the only good copy is on a node that ``failed``, or was not to be kept.

    See contracts/cluster-design.md#failover-to-any-node.
    """
    if target == primary:
        raise errors.WrongStateError("it is its primary node already")
    if target in failed:
        raise errors.WrongStateError("the target does not work")
    if target == secondary:
        return Pairing(primary=secondary, secondary=primary, migratable=primary not in failed)
    both = primary in failed, secondary in failed
    if both == (True, True):
        raise errors.WrongStateError("neither of the nodes that have its disks works")
    forced: Keep | None = "secondary" if both[0] else "primary" if both[1] else None
    if forced and keep and keep != forced:
        raise errors.WrongStateError(f"its {keep} node does not work, so that the other one has to keep its copy")
    kept = forced or keep or "secondary"
    if kept == "secondary":
        return Pairing(primary=target, secondary=secondary, gone=primary)
    return Pairing(primary=target, secondary=primary, gone=secondary, migratable=True)


def problem(local: str | None, *, connection: str = CONNECTED[0], lenient: bool = False) -> str:
    """Say why a copy cannot be the one that is kept; ``local`` is its state, None where there is none.

    ``connection`` is its to a primary node that works: without one it may have missed what was written there. A copy
    that was complete once and has fallen behind is taken by the ``lenient``.
    """
    if local is None:
        return "there is no copy"
    if connection not in CONNECTED and not lenient:
        return f"the copy is not connected to the one that is written to ({connection or 'no connection'})"
    if local == GOOD or (lenient and local in ("Consistent", "Outdated")):
        return ""
    return f"the copy is {local}, not {GOOD}"


def may_be_promoted(*, connection: str, local: str, peer: str) -> bool:
    """Tell whether P2 can take the primary role: it receives from S2, or has all already."""
    return peer == GOOD and (connection == RECEIVING or (connection in CONNECTED and local == GOOD))
