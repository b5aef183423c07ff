"""The opcodes: one struct each, the single declaration that every door, command and page is made from.

``base`` has what they share; the others are by noun. All are found here.
"""

import re
from typing import get_args

import msgspec

from gantry import errors
from gantry.model.opcodes import complaint, disk, foreign
from gantry.model.opcodes.backup import BackupExport, BackupRemove
from gantry.model.opcodes.base import Dependency, Name, Opcode, Size, Tags
from gantry.model.opcodes.cluster import (
    ClusterDestroy,
    ClusterPostInit,
    ClusterRedistConf,
    ClusterSetParams,
    ClusterVerify,
    NodeAdd,
    NodeRemove,
    NodeSetParams,
    OsDiagnose,
    TagKind,
    TagsDel,
    TagsSearch,
    TagsSet,
    TestDelay,
)
from gantry.model.opcodes.disk import (
    ClusterRepairStorage,
    ClusterVerifyDisks,
    DiskAnew,
    DiskChange,
    DiskMod,
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
    SegmentRangeAdd,
    SegmentRangeRemove,
    SegmentRangeSetParams,
    SegmentRangeSpec,
)
from gantry.model.opcodes.subnetpool import SubnetPoolAdd, SubnetPoolRemove, SubnetPoolSetParams

AnyOpcode = (
    ClusterDestroy
    | ClusterPostInit
    | ClusterRedistConf
    | ClusterSetParams
    | ClusterVerify
    | NodeAdd
    | NodeRemove
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
)

ALL: tuple[type[AnyOpcode], ...] = get_args(AnyOpcode)

_BY_NAME = {str(op.__struct_config__.tag): op for op in ALL}
_WORDS = {"yes": True, "no": False}


def _takes_truth(kind: object) -> bool:
    return kind is bool or bool in get_args(kind)


_TRUTHS = {
    str(op.__struct_config__.tag): {field.name for field in msgspec.structs.fields(op) if _takes_truth(field.type)}
    for op in ALL
}
"""The fields of each opcode, by its name on the wire, that take truth values."""

FOREIGN = {
    name: {field: about for field, about in others.items() if field not in op.__struct_fields__}
    for op in ALL
    if (others := foreign.FIELDS.get(name := str(op.__struct_config__.tag)))
}
"""The fields of other clients that an opcode does not have itself."""


def decode(raw: object) -> AnyOpcode:
    """Parse one opcode from decoded JSON; numbers and truth values may be text (contracts/opcodes.md#value-coercion).

    Raises InvalidError that names the field by its path, or what a field of other clients asks for in vain.
    """
    kind = _BY_NAME.get(str(raw.get("OP_ID"))) if isinstance(raw, dict) else None
    try:
        # msgspec looks through a union anew at each call, which for all opcodes takes as long as a small job.
        op: AnyOpcode = msgspec.convert(_as_ours(raw), kind or AnyOpcode, strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(
            f"opcode not valid: {_NAMED.sub(_A_NAME, str(error))}", hint=complaint.hint(kind, str(error))
        ) from None
    return op


_NAMED = re.compile(r"`str` matching regex '\^\[A-Za-z0-9\]\S*'")
_A_NAME = "a name (letters, digits and _ . + : @ -, a letter or digit first)"


def _as_ours(raw: object) -> object:
    """Return an opcode without the fields of other clients, and with ``yes`` and ``no`` for truth values replaced.

    The other words msgspec knows.
    """
    if not isinstance(raw, dict):
        return raw
    name = str(raw.get("OP_ID"))
    truths, others = _TRUTHS.get(name, ()), FOREIGN.get(name, {})
    for field, value in raw.items():
        if field in others and others[field].asks(value):
            raise errors.InvalidError(
                f"{name} cannot do what {field} asks for: {others[field].about}", hint="leave the field out"
            )
    disks = {"disks": [*map(disk.gathered, given)]} if isinstance(given := raw.get("disks"), list) else {}
    return {
        field: _WORDS.get(value, value) if field in truths and isinstance(value, str) else value
        for field, value in (raw | disks).items()
        if field not in others
    }


def encode(op: Opcode) -> dict[str, object]:
    """Return the opcode as JSON data, with ``OP_ID`` and every parameter that differs from its default."""
    data: dict[str, object] = msgspec.to_builtins(op)
    return data


__all__ = [
    "ALL",
    "AnyOpcode",
    "BackupExport",
    "BackupRemove",
    "ClusterDestroy",
    "ClusterPostInit",
    "ClusterRedistConf",
    "ClusterRepairStorage",
    "ClusterSetParams",
    "ClusterVerify",
    "ClusterVerifyDisks",
    "Dependency",
    "DiskAnew",
    "DiskChange",
    "DiskMod",
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
    "NodeMigrate",
    "NodeModifyStorage",
    "NodeQueryStorage",
    "NodeQueryvols",
    "NodeRemove",
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
    "SegmentRangeAdd",
    "SegmentRangeRemove",
    "SegmentRangeSetParams",
    "SegmentRangeSpec",
    "Size",
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
    "decode",
    "encode",
]
