"""The opcodes: one struct each, from which the front ends, the commands and the reference pages are generated.

``base`` has the common fields and types; the other modules have the opcodes by noun. This package exports all of them.
"""

from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import msgspec

from gantry import errors
from gantry.model.opcodes import disk, foreign, hints
from gantry.model.opcodes.access import AccessAdd, AccessRemove, TokenAdd, TokenRevoke, TokenRole
from gantry.model.opcodes.backup import BackupExport, BackupRemove
from gantry.model.opcodes.base import WHO, Dependency, Name, Opcode, Size, Tags
from gantry.model.opcodes.cluster import (
    ClusterDestroy,
    ClusterPostInit,
    ClusterRedistConf,
    ClusterRenewCrypto,
    ClusterRepairStrayGuests,
    ClusterSetParams,
    ClusterVerify,
    NodeAdd,
    NodeInvite,
    NodeQueryInvitations,
    NodeRemove,
    NodeRevokeInvitation,
    NodeSetParams,
    OsDiagnose,
    StrayGuestRepair,
    TagKind,
    TagsDel,
    TagsSearch,
    TagsSet,
    TestDelay,
)
from gantry.model.opcodes.disk import (
    ClusterRepairStorage,
    ClusterVerifyDisks,
    DiskChange,
    DiskMod,
    DiskRecreation,
    DiskSpec,
    GroupVerifyDisks,
    InstanceActivateDisks,
    InstanceDeactivateDisks,
    InstanceGrowDisk,
    InstanceRecreateDisks,
    InstanceReplaceDisks,
    NodeModifyStorage,
    NodeQueryStorage,
    NodeQueryvols,
    RepairNodeStorage,
)
from gantry.model.opcodes.group import GroupAdd, GroupAssignNodes, GroupRemove, GroupRename, GroupSetParams
from gantry.model.opcodes.instance import (
    InstanceConsole,
    InstanceCreate,
    InstanceQueryData,
    InstanceReboot,
    InstanceReinstall,
    InstanceRemove,
    InstanceRename,
    InstanceSetParams,
    InstanceShutdown,
    InstanceStartup,
    NicChange,
    NicMod,
    NicSpec,
)
from gantry.model.opcodes.move import (
    GroupEvacuate,
    InstanceChangeGroup,
    InstanceFailover,
    InstanceMigrate,
    InstanceMove,
    NodeEvacuate,
    NodeMigrate,
)
from gantry.model.opcodes.network import (
    NetworkAdd,
    NetworkConnect,
    NetworkDisconnect,
    NetworkRemove,
    NetworkRename,
    NetworkSetParams,
    PoolMod,
    PoolSpec,
    RangeSpec,
    SubnetMod,
    SubnetSpec,
)
from gantry.model.opcodes.port import Fixed, FixedSpec, PortAdd, PortRemove, PortSetParams, PortSpec
from gantry.model.opcodes.segment import (
    SegmentDefaultsSet,
    SegmentRangeAdd,
    SegmentRangeRemove,
    SegmentRangeSetParams,
    SegmentRangeSpec,
)
from gantry.model.opcodes.subnetpool import SubnetPoolAdd, SubnetPoolRemove, SubnetPoolSetParams
from gantry.model.opcodes.webhook import WebhookAdd, WebhookRemove, WebhookSetParams, WebhookTest

AnyOpcode = (
    AccessAdd
    | AccessRemove
    | ClusterDestroy
    | ClusterPostInit
    | ClusterRedistConf
    | ClusterRenewCrypto
    | ClusterSetParams
    | ClusterVerify
    | NodeAdd
    | NodeInvite
    | NodeQueryInvitations
    | NodeRemove
    | NodeRevokeInvitation
    | NodeSetParams
    | GroupAdd
    | GroupSetParams
    | GroupRename
    | GroupRemove
    | GroupAssignNodes
    | GroupEvacuate
    | NetworkAdd
    | NetworkSetParams
    | NetworkRename
    | NetworkRemove
    | NetworkConnect
    | NetworkDisconnect
    | PortAdd
    | PortSetParams
    | PortRemove
    | SubnetPoolAdd
    | SubnetPoolSetParams
    | SubnetPoolRemove
    | SegmentDefaultsSet
    | SegmentRangeAdd
    | SegmentRangeSetParams
    | SegmentRangeRemove
    | InstanceCreate
    | InstanceRemove
    | InstanceStartup
    | InstanceShutdown
    | InstanceReboot
    | InstanceConsole
    | InstanceReinstall
    | InstanceRename
    | InstanceChangeGroup
    | InstanceFailover
    | InstanceMigrate
    | InstanceMove
    | NodeEvacuate
    | NodeMigrate
    | BackupExport
    | BackupRemove
    | InstanceSetParams
    | InstanceQueryData
    | ClusterRepairStorage
    | ClusterRepairStrayGuests
    | StrayGuestRepair
    | ClusterVerifyDisks
    | GroupVerifyDisks
    | InstanceActivateDisks
    | InstanceDeactivateDisks
    | InstanceGrowDisk
    | InstanceRecreateDisks
    | InstanceReplaceDisks
    | NodeModifyStorage
    | NodeQueryStorage
    | NodeQueryvols
    | RepairNodeStorage
    | TagsSet
    | TagsDel
    | TagsSearch
    | OsDiagnose
    | TestDelay
    | TokenAdd
    | TokenRevoke
    | WebhookAdd
    | WebhookRemove
    | WebhookSetParams
    | WebhookTest
)

ALL: tuple[type[AnyOpcode], ...] = get_args(AnyOpcode)

_BY_NAME = {str(op.__struct_config__.tag): op for op in ALL}
_WORDS = {"yes": True, "no": False}


def _is_boolean(kind: object) -> bool:
    """Return whether a type is the boolean, or a union that contains it, with or without metadata."""
    if get_origin(kind) in (Annotated, Union, UnionType):
        return any(map(_is_boolean, get_args(kind)))
    return kind is bool


_BOOLEANS = {
    str(op.__struct_config__.tag): {field.name for field in msgspec.structs.fields(op) if _is_boolean(field.type)}
    for op in ALL
}
"""The boolean fields of each opcode, by its name on the wire."""

FOREIGN = {
    name: {field: about for field, about in fields.items() if field not in op.__struct_fields__}
    for op in ALL
    if (fields := foreign.FIELDS.get(name := str(op.__struct_config__.tag)))
}
"""The fields of other clients that the opcode itself does not have, by its name on the wire."""


def decode(raw: object) -> AnyOpcode:
    """Parse one opcode from decoded JSON; numbers and booleans may be text (contracts/opcodes.md#value-coercion).

    Raises InvalidError with the path of the invalid field, or with the feature that a field of other clients requests.
    """
    kind = _BY_NAME.get(str(raw.get("OP_ID"))) if isinstance(raw, dict) else None
    try:
        # For the union of all opcodes, msgspec examines the union in each call, which takes as long as a small job.
        op: AnyOpcode = msgspec.convert(_without_foreign(raw), kind or AnyOpcode, strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(
            f"opcode not valid: {errors.readable(hints.spelled(str(error)))}", hint=hints.hint(kind, str(error))
        ) from None
    return op


def _without_foreign(raw: object) -> object:
    """Return an opcode without the fields of other clients, and with ``yes`` and ``no`` as booleans.

    msgspec converts the other words for booleans.
    """
    if not isinstance(raw, dict):
        return raw
    name = str(raw.get("OP_ID"))
    booleans, foreign_fields = _BOOLEANS.get(name, ()), FOREIGN.get(name, {})
    for field, value in raw.items():
        if field in foreign_fields and foreign_fields[field].requests(value):
            raise errors.InvalidError(
                f"{name}: {field} is not supported: it requests {foreign_fields[field].about}", hint="omit the field"
            )
    raw_disks = raw.get("disks")
    disks = {"disks": [*map(disk.gathered, raw_disks)]} if isinstance(raw_disks, list) else {}
    return {
        field: _WORDS.get(value, value) if field in booleans and isinstance(value, str) else value
        for field, value in (raw | disks).items()
        if field not in foreign_fields
    }


def encode(op: Opcode) -> dict[str, object]:
    """Return the opcode as JSON data, with ``OP_ID`` and every parameter that differs from its default."""
    data: dict[str, object] = msgspec.to_builtins(op)
    return data


__all__ = [
    "ALL",
    "WHO",
    "AccessAdd",
    "AccessRemove",
    "AnyOpcode",
    "BackupExport",
    "BackupRemove",
    "ClusterDestroy",
    "ClusterPostInit",
    "ClusterRedistConf",
    "ClusterRenewCrypto",
    "ClusterRepairStorage",
    "ClusterRepairStrayGuests",
    "ClusterSetParams",
    "ClusterVerify",
    "ClusterVerifyDisks",
    "Dependency",
    "DiskChange",
    "DiskMod",
    "DiskRecreation",
    "DiskSpec",
    "Fixed",
    "FixedSpec",
    "GroupAdd",
    "GroupAssignNodes",
    "GroupEvacuate",
    "GroupRemove",
    "GroupRename",
    "GroupSetParams",
    "GroupVerifyDisks",
    "InstanceActivateDisks",
    "InstanceChangeGroup",
    "InstanceConsole",
    "InstanceCreate",
    "InstanceDeactivateDisks",
    "InstanceFailover",
    "InstanceGrowDisk",
    "InstanceMigrate",
    "InstanceMove",
    "InstanceQueryData",
    "InstanceReboot",
    "InstanceRecreateDisks",
    "InstanceReinstall",
    "InstanceRemove",
    "InstanceRename",
    "InstanceReplaceDisks",
    "InstanceSetParams",
    "InstanceShutdown",
    "InstanceStartup",
    "Name",
    "NetworkAdd",
    "NetworkConnect",
    "NetworkDisconnect",
    "NetworkRemove",
    "NetworkRename",
    "NetworkSetParams",
    "NicChange",
    "NicMod",
    "NicSpec",
    "NodeAdd",
    "NodeEvacuate",
    "NodeInvite",
    "NodeMigrate",
    "NodeModifyStorage",
    "NodeQueryInvitations",
    "NodeQueryStorage",
    "NodeQueryvols",
    "NodeRemove",
    "NodeRevokeInvitation",
    "NodeSetParams",
    "Opcode",
    "OsDiagnose",
    "PoolMod",
    "PoolSpec",
    "PortAdd",
    "PortRemove",
    "PortSetParams",
    "PortSpec",
    "RangeSpec",
    "RepairNodeStorage",
    "SegmentDefaultsSet",
    "SegmentRangeAdd",
    "SegmentRangeRemove",
    "SegmentRangeSetParams",
    "SegmentRangeSpec",
    "Size",
    "StrayGuestRepair",
    "SubnetMod",
    "SubnetPoolAdd",
    "SubnetPoolRemove",
    "SubnetPoolSetParams",
    "SubnetSpec",
    "TagKind",
    "Tags",
    "TagsDel",
    "TagsSearch",
    "TagsSet",
    "TestDelay",
    "TokenAdd",
    "TokenRevoke",
    "TokenRole",
    "WebhookAdd",
    "WebhookRemove",
    "WebhookSetParams",
    "WebhookTest",
    "decode",
    "encode",
]
