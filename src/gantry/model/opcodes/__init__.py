"""The opcodes: one struct each, the single declaration that every door, command and page is made from.

``base`` has what they share; the others are by noun. All are found here.
"""

from typing import get_args

import msgspec

from gantry import errors
from gantry.model.opcodes.base import Dependency, Name, Opcode, Size, Tags
from gantry.model.opcodes.cluster import (
    ClusterDestroy,
    ClusterPostInit,
    ClusterRedistConf,
    ClusterVerify,
    NodeAdd,
    NodeRemove,
    NodeSetParams,
    OsDiagnose,
    TagKind,
    TagsDel,
    TagsSet,
    TestDelay,
)
from gantry.model.opcodes.instance import (
    DiskSpec,
    InstanceConsole,
    InstanceCreate,
    InstanceQueryData,
    InstanceReboot,
    InstanceRemove,
    InstanceSetParams,
    InstanceShutdown,
    InstanceStartup,
    NicChange,
    NicMod,
    NicSpec,
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

AnyOpcode = (
    ClusterDestroy
    | ClusterPostInit
    | ClusterRedistConf
    | ClusterVerify
    | NodeAdd
    | NodeRemove
    | NodeSetParams
    | NetworkAdd
    | NetworkSetParams
    | NetworkRename
    | NetworkRemove
    | NetworkConnect
    | NetworkDisconnect
    | InstanceCreate
    | InstanceRemove
    | InstanceStartup
    | InstanceShutdown
    | InstanceReboot
    | InstanceConsole
    | InstanceSetParams
    | InstanceQueryData
    | TagsSet
    | TagsDel
    | OsDiagnose
    | TestDelay
)

ALL: tuple[type[Opcode], ...] = get_args(AnyOpcode)

_WORDS = {"yes": True, "no": False}


def _takes_truth(kind: object) -> bool:
    return kind is bool or bool in get_args(kind)


_TRUTHS = {
    str(op.__struct_config__.tag): {field.name for field in msgspec.structs.fields(op) if _takes_truth(field.type)}
    for op in ALL
}
"""The fields of each opcode, by its name on the wire, that take truth values."""


def decode(raw: object) -> AnyOpcode:
    """Parse one opcode from decoded JSON; numbers and truth values may be text (contract: value coercion).

    Raises InvalidError that names the field by its path.
    """
    try:
        op: AnyOpcode = msgspec.convert(_with_truths(raw), AnyOpcode, strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(
            f"opcode not valid: {error}", hint="see the reference of opcodes for its fields"
        ) from None
    return op


def _with_truths(raw: object) -> object:
    """Return an opcode with ``yes`` and ``no`` replaced where it takes a truth value; msgspec knows the other words."""
    if not isinstance(raw, dict):
        return raw
    truths = _TRUTHS.get(str(raw.get("OP_ID")), ())
    return {
        name: _WORDS.get(value, value) if name in truths and isinstance(value, str) else value
        for name, value in raw.items()
    }


def encode(op: Opcode) -> dict[str, object]:
    """Return the opcode as JSON data, with ``OP_ID`` and every parameter that differs from its default."""
    data: dict[str, object] = msgspec.to_builtins(op)
    return data


__all__ = [
    "ALL",
    "AnyOpcode",
    "ClusterDestroy",
    "ClusterPostInit",
    "ClusterRedistConf",
    "ClusterVerify",
    "Dependency",
    "DiskSpec",
    "InstanceConsole",
    "InstanceCreate",
    "InstanceQueryData",
    "InstanceReboot",
    "InstanceRemove",
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
    "NodeRemove",
    "NodeSetParams",
    "Opcode",
    "OsDiagnose",
    "PoolMod",
    "PoolSpec",
    "RangeSpec",
    "Size",
    "SubnetMod",
    "SubnetSpec",
    "TagKind",
    "Tags",
    "TagsDel",
    "TagsSet",
    "TestDelay",
    "decode",
    "encode",
]
