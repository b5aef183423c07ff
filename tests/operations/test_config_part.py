"""The locks of units that change one part of the configuration: which of them may run at the same time."""

import pytest
from tests.operations import build

from gantry.model import lock, opcodes

TOKENS = (
    opcodes.TokenAdd(user="ann", name="t", id="x", secret_hash="h", extent="everything"),
    opcodes.TokenRevoke(user="ann"),
)
RULES = (
    opcodes.AccessAdd(who="ann", role="viewer", on="cluster"),
    opcodes.AccessRemove(who="ann"),
)
WEBHOOKS = (
    opcodes.WebhookAdd(name="hook", url="https://hooks.example/"),
    opcodes.WebhookSetParams(name="hook"),
    opcodes.WebhookRemove(name="hook"),
    opcodes.WebhookTest(name="hook"),
)
CLUSTER = (
    opcodes.SegmentDefaultsSet(),
    opcodes.TagsSet(kind="cluster", tags=("x",)),
)


def _locks(op: opcodes.Opcode) -> lock.LockSet:
    lab = build.MemoryCluster()
    return lab.unit(op).locks(lab.state)


@pytest.mark.parametrize("part", [TOKENS, RULES, WEBHOOKS, CLUSTER], ids=["tokens", "rules", "webhooks", "cluster"])
def test_changes_of_a_part_exclude_each_other(part: tuple[opcodes.Opcode, ...]) -> None:
    (locks,) = {tuple(_locks(op).items()) for op in part}
    assert [mode for _, mode in locks] == [lock.Mode.EXCLUSIVE]


def test_changes_of_different_parts_do_not_exclude_each_other() -> None:
    parts = [{name for op in part for name in _locks(op)} for part in (TOKENS, RULES, WEBHOOKS, CLUSTER)]
    assert len(set.union(*parts)) == len(parts)
