"""The decision whether to repair a volume group automatically (contracts/cluster-design.md#lvm-self-repair). Pure.

A periodic job checks all nodes and records whether all volume groups were complete at the last check. If a single disk
has just failed, the job removes the disk from its volume group. If the disk was already missing, or several disks fail
at once, an administrator must decide: a failed switch or disk shelf looks like many failed disks, which all return.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Action(Enum):
    """The result of comparing two checks of the volume groups."""

    NOTHING = "nothing"
    RECOVERED = "recovered"
    REPAIR = "repair"
    TOO_MANY = "too many"


@dataclass(frozen=True)
class Decision:
    """The action, its node, and whether to record that all volume groups are complete."""

    action: Action
    node: str = ""
    whole: bool = False


def decide(*, whole_before: bool, broken: Collection[str]) -> Decision:
    """Decide by the five cases of the design; ``broken`` are the nodes with an incomplete volume group.

    See contracts/cluster-design.md#lvm-self-repair.
    """
    if not broken:
        return Decision(Action.NOTHING if whole_before else Action.RECOVERED, whole=True)
    if not whole_before:
        return Decision(Action.NOTHING)
    if len(broken) > 1:
        return Decision(Action.TOO_MANY)
    (node,) = broken
    return Decision(Action.REPAIR, node=node)
