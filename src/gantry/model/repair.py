"""When a volume group is repaired without anybody's asking (contracts/cluster-design.md#lvm-self-repair). Pure.

The clock's job looks at all nodes from time to time and remembers whether all volume groups were whole the last time.
A single disk that has just died is taken out of its group; a disk that was gone before, or several at once, are for
people: a switch or a shelf that is down looks like many dead disks, and all of them come back.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Deed(Enum):
    """What follows from two looks at the volume groups."""

    NOTHING = "nothing"
    RECOVERED = "recovered"
    REPAIR = "repair"
    TOO_MANY = "too many"


@dataclass(frozen=True)
class Decision:
    """What to do: the deed, the node it is done on, and whether to remember all groups as whole from now on."""

    deed: Deed
    node: str = ""
    whole: bool = False


def decide(*, whole_before: bool, broken: Collection[str]) -> Decision:
    """Decide by the five cases of the design; ``broken`` are the nodes that have an inconsistent volume group.

    See contracts/cluster-design.md#lvm-self-repair.
    """
    if not broken:
        return Decision(Deed.NOTHING if whole_before else Deed.RECOVERED, whole=True)
    if not whole_before:
        return Decision(Deed.NOTHING)
    if len(broken) > 1:
        return Decision(Deed.TOO_MANY)
    (node,) = broken
    return Decision(Deed.REPAIR, node=node)
