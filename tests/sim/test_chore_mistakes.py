"""Plausible mistakes in operations that only chores reach: each is found by the promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

from collections.abc import Iterator

import msgspec
import pytest
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry.model import access, instance, lock, network, opcodes
from gantry.operations import base
from gantry.operations.access import sight
from gantry.operations.backup import restore
from gantry.operations.disk import changes, recreate
from gantry.operations.instance import rename
from gantry.operations.network import attached_ports, prefix_allocator
from gantry.operations.node import invite
from gantry.sim import deputy, invariants, outcome, work_locks
from gantry.sim.chores import exports, lost_disks, ports, reading_rules, renames, rights
from gantry.state.objects import snapshot as states


def existing_disks_are_recreated(patch: pytest.MonkeyPatch) -> None:
    async def check(*arguments: object) -> None:
        """Take every disk for lost."""

    patch.setattr(recreate.InstanceRecreateDisks, "_check_lost", check)


def checksums_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    def check(export: restore.Source, index: int, digest: str) -> None:
        """Accept every dump."""

    patch.setattr(restore, "_check", check)


def an_imported_instance_gets_other_addresses(patch: pytest.MonkeyPatch) -> None:
    def nic(spec: opcodes.NicSpec, *, same: bool) -> opcodes.NicSpec:
        return msgspec.structs.replace(spec, mac="auto", ip=None)

    patch.setattr(restore, "_nic", nic)


def running_instances_are_renamed(patch: pytest.MonkeyPatch) -> None:
    async def inspect(self: rename.InstanceRename, snapshot: states.Snapshot) -> rename.LogicalIds:
        vm = snapshot.instance(self.op.instance_name)
        target = snapshot.target(snapshot.nodes[vm.primary_node])
        return tuple([await self._new_id(target, disk, index) for index, disk in enumerate(vm.disks)])

    patch.setattr(rename.InstanceRename, "inspect", inspect)


def an_attached_disk_brings_no_locks_of_its_nodes(patch: pytest.MonkeyPatch) -> None:
    original = changes.locks

    def locks(snapshot: states.Snapshot, vm: instance.Instance, edits: list[opcodes.DiskChange]) -> lock.LockSet:
        return {key: mode for key, mode in original(snapshot, vm, edits).items() if key[0] is not lock.Level.NODE}

    patch.setattr(changes, "locks", locks)


def rules_are_not_compared_with_the_object(patch: pytest.MonkeyPatch) -> None:
    def rule(find: access.Find, names: Iterator[str], need: access.Need) -> access.Rule | None:
        return access.Rule(uuid="r", name="user:x", role=access.Role.ADMIN, scope=access.Scope.CLUSTER)

    patch.setattr(access, "deciding_rule", rule)


def an_administrator_by_rule_is_not_one(patch: pytest.MonkeyPatch) -> None:
    grants = {**access.GRANTS, access.Role.ADMIN: access.GRANTS[access.Role.OPERATOR]}
    patch.setattr(access, "GRANTS", grants)


def a_token_allows_everything(patch: pytest.MonkeyPatch) -> None:
    def decide(
        find: access.Find, subject: access.Subject, need: access.Need, *, token: access.Token | None = None
    ) -> access.Decision:
        return access.Decision(is_allowed=True)

    original = access.decide

    def lenient(
        find: access.Find, subject: access.Subject, need: access.Need, *, token: access.Token | None = None
    ) -> access.Decision:
        return (decide if subject.token else original)(find, subject, need, token=token)

    patch.setattr(access, "decide", lenient)


def subnets_of_a_pool_do_not_know_each_other(patch: pytest.MonkeyPatch) -> None:
    def allocated(snapshot: states.Snapshot, net: network.Network, pool: network.SubnetPool) -> list[object]:
        return []

    patch.setattr(prefix_allocator, "_allocated", allocated)


def a_port_loses_its_addresses_with_its_nic(patch: pytest.MonkeyPatch) -> None:
    original = attached_ports._released

    def released(nic: instance.Nic, now: float) -> network.Port:
        return msgspec.structs.replace(original(nic, now), ip=())

    patch.setattr(attached_ports, "_released", released)


def a_revoked_invitation_stays_open(patch: pytest.MonkeyPatch) -> None:
    def plan(self: invite.NodeRevokeInvitation, snapshot: states.Snapshot, facts: None) -> base.Plan:
        return base.Plan()

    patch.setattr(invite.NodeRevokeInvitation, "plan", plan)


def every_reader_sees_everything(patch: pytest.MonkeyPatch) -> None:
    def of(state: states.Snapshot, subject: access.Subject | None) -> None:
        """Return no limit of what a subject sees."""

    patch.setattr(sight, "of", of)


CHORE_MISTAKES: dict[Patch, tuple[int, str]] = {
    existing_disks_are_recreated: (4, lost_disks.EXISTING),
    checksums_are_not_compared: (55, exports.UNDAMAGED),
    an_imported_instance_gets_other_addresses: (94, exports.SAME),
    running_instances_are_renamed: (24, renames.REFUSED),
    an_attached_disk_brings_no_locks_of_its_nodes: (103, work_locks.NEEDED),
    rules_are_not_compared_with_the_object: (13, rights.FORBIDDEN),
    an_administrator_by_rule_is_not_one: (13, deputy.ALLOWED),
    a_token_allows_everything: (13, rights.TOKEN),
    subnets_of_a_pool_do_not_know_each_other: (5, invariants.CUT),
    a_port_loses_its_addresses_with_its_nic: (5, ports.KEPT),
    a_revoked_invitation_stays_open: (2, outcome.FACTS),
    every_reader_sees_everything: (5, reading_rules.PROMISE),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", CHORE_MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = CHORE_MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)
