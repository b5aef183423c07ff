"""The registry of all logical units by opcode, for the master daemon."""

from typing import cast

from gantry.jobs import processor
from gantry.operations.access import rules as access_rules
from gantry.operations.access import tokens
from gantry.operations.backup import export
from gantry.operations.cluster import lifetime, redist_conf, renew_crypto, set_params, tags, test_delay, verify
from gantry.operations.disk import activate, grow, recreate, replace
from gantry.operations.group import change_group, group
from gantry.operations.instance import create, power, query_data, reconcile, reinstall, rename
from gantry.operations.instance import set_params as instance_set_params
from gantry.operations.move import failover, migration, move
from gantry.operations.network import connect, network, subnetpool
from gantry.operations.node import add_remove, evacuate, invite, repair_volume_group, storage
from gantry.operations.node import set_params as node_set_params
from gantry.operations.os import diagnose
from gantry.operations.port import port
from gantry.operations.segment import defaults as segment_defaults
from gantry.operations.segment import segment_range
from gantry.operations.webhook import webhook

_UNITS = (
    access_rules.AccessAdd,
    access_rules.AccessRemove,
    tokens.TokenAdd,
    tokens.TokenRevoke,
    verify.ClusterVerify,
    activate.InstanceActivateDisks,
    activate.InstanceDeactivateDisks,
    grow.InstanceGrowDisk,
    recreate.InstanceRecreateDisks,
    repair_volume_group.ClusterRepairStorage,
    reconcile.ClusterRepairStrayGuests,
    reconcile.StrayGuestRepair,
    replace.InstanceReplaceDisks,
    storage.ClusterVerifyDisks,
    storage.GroupVerifyDisks,
    storage.NodeModifyStorage,
    storage.NodeQueryStorage,
    storage.NodeQueryvols,
    storage.RepairNodeStorage,
    lifetime.ClusterDestroy,
    lifetime.ClusterPostInit,
    create.InstanceCreate,
    test_delay.TestDelay,
    change_group.GroupEvacuate,
    change_group.InstanceChangeGroup,
    evacuate.NodeEvacuate,
    evacuate.NodeMigrate,
    failover.InstanceFailover,
    migration.InstanceMigrate,
    move.InstanceMove,
    export.BackupExport,
    export.BackupRemove,
    group.GroupAdd,
    group.GroupAssignNodes,
    group.GroupRemove,
    group.GroupRename,
    group.GroupSetParams,
    power.InstanceConsole,
    query_data.InstanceQueryData,
    power.InstanceReboot,
    power.InstanceRemove,
    power.InstanceShutdown,
    power.InstanceStartup,
    instance_set_params.InstanceSetParams,
    network.NetworkAdd,
    connect.NetworkConnect,
    connect.NetworkDisconnect,
    network.NetworkRemove,
    network.NetworkRename,
    network.NetworkSetParams,
    port.PortAdd,
    port.PortRemove,
    port.PortSetParams,
    subnetpool.SubnetPoolAdd,
    subnetpool.SubnetPoolRemove,
    subnetpool.SubnetPoolSetParams,
    add_remove.NodeAdd,
    add_remove.NodeRemove,
    invite.NodeInvite,
    invite.NodeQueryInvitations,
    invite.NodeRevokeInvitation,
    node_set_params.NodeSetParams,
    segment_range.SegmentRangeAdd,
    segment_range.SegmentRangeRemove,
    segment_defaults.SegmentDefaultsSet,
    segment_range.SegmentRangeSetParams,
    redist_conf.ClusterRedistConf,
    renew_crypto.ClusterRenewCrypto,
    reinstall.InstanceReinstall,
    rename.InstanceRename,
    set_params.ClusterSetParams,
    diagnose.OsDiagnose,
    tags.TagsDel,
    tags.TagsSearch,
    tags.TagsSet,
    webhook.WebhookAdd,
    webhook.WebhookRemove,
    webhook.WebhookSetParams,
    webhook.WebhookTest,
)

# The units have different opcode types, so their only common type is that of the registry.
REGISTRY = cast("processor.Registry", {unit.OPCODE: unit for unit in _UNITS})
