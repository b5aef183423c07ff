"""The rights that each opcode needs, on which of its objects: one row of ``NEEDS`` for each opcode.

What gives its user more than the object is a matter of the cluster's administrators: options that switch a check off,
hypervisor parameters that name things of a node, existing volumes and files, bridges and VLANs, exports, tags that have
rules. So the rows list what a right includes, and each other field, also one that an opcode gets later, needs
``administer``. See explanation/decisions/0065-rights-are-rules-on-objects.md.

``check`` compares the needs with the rules. A name that does not exist raises NotFoundError.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from gantry.model import access, opcodes
from gantry.operations.access import of_instances, of_networks, rights, scopes
from gantry.operations.access.rights import Finder, Needs, Right
from gantry.state.objects import snapshot as states

Op = TypeVar("Op", bound=opcodes.Opcode)


def _nothing(snapshot: states.Snapshot, op: opcodes.Opcode) -> Needs:
    del snapshot, op
    yield from ()


def _cluster(snapshot: states.Snapshot, op: opcodes.Opcode) -> Needs:
    del snapshot
    yield rights.administer(f"submit {op.op_id}")


def _wire(snapshot: states.Snapshot, op: opcodes.Opcode) -> Needs:
    yield rights.wire(f"submit {op.op_id}")
    if isinstance(op, opcodes.NetworkAdd):
        yield from rights.of_tags(snapshot, op.tags)


def _tokens(snapshot: states.Snapshot, op: opcodes.TokenAdd | opcodes.TokenRevoke) -> Needs:
    for role in op.roles if isinstance(op, opcodes.TokenAdd) else ():
        # Unknown names are refused here, where those of invisible objects are unknown.
        scopes.parse(snapshot, role.on)
    yield rights.tokens_of(op.user, f"{'create' if isinstance(op, opcodes.TokenAdd) else 'revoke'} tokens of {op.user}")
    yield from rights.beyond(op, "user", "name", "id", "secret_hash", "extent", "roles", "until")


def _row(kind: type[Op], find: Callable[[states.Snapshot, Op], Needs]) -> tuple[type[opcodes.Opcode], Finder]:
    # ``of`` calls the finder with opcodes of this class alone.
    return kind, cast("Finder", find)


NEEDS: Mapping[type[opcodes.Opcode], Finder] = {
    # What only reads.
    opcodes.InstanceQueryData: _nothing,
    opcodes.NodeQueryInvitations: _nothing,
    opcodes.NodeQueryStorage: _nothing,
    opcodes.NodeQueryvols: _nothing,
    opcodes.OsDiagnose: _nothing,
    opcodes.TagsSearch: _nothing,
    # Instances.
    opcodes.InstanceConsole: of_instances.about(Right.OPERATE),
    opcodes.InstanceReboot: of_instances.about(
        Right.OPERATE, "reboot_type", "shutdown_timeout", more=("ignore_secondaries",)
    ),
    opcodes.InstanceShutdown: of_instances.about(Right.OPERATE, "timeout", "no_remember", more=("force",)),
    opcodes.InstanceActivateDisks: of_instances.about(Right.MANAGE, "ignore_size", "wait_for_sync"),
    opcodes.InstanceDeactivateDisks: of_instances.about(Right.MANAGE, "force"),
    opcodes.InstanceGrowDisk: of_instances.about(Right.MANAGE, "disk", "amount", "absolute", "wait_for_sync"),
    opcodes.InstanceReinstall: of_instances.about(
        Right.MANAGE, "os_type", "osparams", "osparams_private", "osparams_secret"
    ),
    opcodes.InstanceRemove: of_instances.about(Right.MANAGE, "ignore_failures", "shutdown_timeout"),
    opcodes.InstanceRename: of_instances.about(Right.MANAGE, "new_name"),
    **dict(
        (
            _row(opcodes.InstanceStartup, of_instances.startup),
            _row(opcodes.InstanceCreate, of_instances.create),
            _row(opcodes.InstanceSetParams, of_instances.set_instance),
            _row(opcodes.InstanceFailover, of_instances.failover),
            _row(opcodes.InstanceMigrate, of_instances.migrate),
            _row(opcodes.InstanceMove, of_instances.move),
            _row(opcodes.InstanceChangeGroup, of_instances.change_group),
            _row(opcodes.InstanceRecreateDisks, of_instances.recreate_disks),
            _row(opcodes.InstanceReplaceDisks, of_instances.replace_disks),
            _row(opcodes.NodeEvacuate, of_instances.evacuate_node),
            _row(opcodes.NodeMigrate, of_instances.migrate_node),
            _row(opcodes.GroupEvacuate, of_instances.evacuate_group),
            _row(opcodes.GroupVerifyDisks, of_instances.verify_group),
            _row(opcodes.TagsSet, of_networks.tagging),
            _row(opcodes.TagsDel, of_networks.tagging),
            _row(opcodes.NetworkSetParams, of_networks.set_network),
            _row(opcodes.NetworkRename, of_networks.rename_network),
            _row(opcodes.NetworkRemove, of_networks.remove_network),
            _row(opcodes.PortAdd, of_networks.add_ports),
            _row(opcodes.PortSetParams, of_networks.of_port),
            _row(opcodes.PortRemove, of_networks.of_port),
            _row(opcodes.TokenAdd, _tokens),
            _row(opcodes.TokenRevoke, _tokens),
        )
    ),
    # Networks as a whole.
    **dict.fromkeys(
        (
            opcodes.NetworkAdd,
            opcodes.NetworkConnect,
            opcodes.NetworkDisconnect,
            opcodes.SegmentDefaultsSet,
            opcodes.SegmentRangeAdd,
            opcodes.SegmentRangeRemove,
            opcodes.SegmentRangeSetParams,
            opcodes.SubnetPoolAdd,
            opcodes.SubnetPoolRemove,
            opcodes.SubnetPoolSetParams,
        ),
        _wire,
    ),
    # The cluster; exports have no owner, and belong to whichever instance has their name.
    **dict.fromkeys(
        (
            opcodes.AccessAdd,
            opcodes.AccessRemove,
            opcodes.BackupExport,
            opcodes.BackupRemove,
            opcodes.ClusterDestroy,
            opcodes.ClusterPostInit,
            opcodes.ClusterRedistConf,
            opcodes.ClusterRenewCrypto,
            opcodes.ClusterRepairStorage,
            opcodes.ClusterRepairStrayGuests,
            opcodes.ClusterSetParams,
            opcodes.ClusterVerify,
            opcodes.ClusterVerifyDisks,
            opcodes.GroupAdd,
            opcodes.GroupAssignNodes,
            opcodes.GroupRemove,
            opcodes.GroupRename,
            opcodes.GroupSetParams,
            opcodes.NodeAdd,
            opcodes.NodeInvite,
            opcodes.NodeModifyStorage,
            opcodes.NodeRemove,
            opcodes.NodeRevokeInvitation,
            opcodes.NodeSetParams,
            opcodes.RepairNodeStorage,
            opcodes.StrayGuestRepair,
            opcodes.TestDelay,
            opcodes.WebhookAdd,
            opcodes.WebhookRemove,
            opcodes.WebhookSetParams,
            opcodes.WebhookTest,
        ),
        _cluster,
    ),
}
"""The finder of each opcode's needs."""


def only_reads(op: opcodes.Opcode) -> bool:
    """Return whether an opcode only reads, and so needs nothing."""
    return NEEDS.get(type(op), _cluster) is _nothing


def of(snapshot: states.Snapshot, op: opcodes.Opcode) -> list[access.Need]:
    """Return what an opcode needs in a state; NotFoundError or InvalidError if it names an object that does not exist.

    An opcode without a row needs an administrator.
    """
    return list(NEEDS.get(type(op), _cluster)(snapshot, op))
