"""Writes the table of opcode fields from which commands build options: ``python -m tools.opcode_fields``.

The structs in ``model/opcodes`` declare the fields. The commands may import the standard library only, so
``cli/framework/opcode_fields.py`` has the declarations that their options need as plain tuples. ``make golden``
rewrites that module, and a test compares it with the structs.
"""

from pathlib import Path

from msgspec import inspect as types

from gantry.model import cluster_settings, opcodes, parameters
from tools import descriptions

TARGET = Path(__file__).parents[1] / "src/gantry/cli/framework/opcode_fields.py"
HEAD = '''"""The fields of all opcodes, for the options of commands: kind, help text, default, bounds, choices.

``PARAMETERS`` has what options of parameters accept first; ``SETTINGS`` the settings of the cluster.

Made by tools/opcode_fields.py from ``model/opcodes`` and ``model/cluster_settings``; ``make golden`` rewrites it.
"""

from typing import NamedTuple


class Field(NamedTuple):
    """A field of an opcode; ``kind`` is flag, number, text, choice, texts or structure."""

    kind: str
    help: str
    default: object = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


class Setting(NamedTuple):
    """A setting of the cluster: the names of its option, what the option says, and the line of ``gnt-cluster info``.

    ``kind`` is switch, number, seconds, percentages, parameters or text; ``reported_as`` is the key in the answer of
    QueryClusterInfo. A setting without names is set by another option, one without a label is in no line.
    """

    names: tuple[str, ...]
    metavar: str
    kind: str
    help: str
    label: str
    reported_as: str


Row = tuple[str, str, object, int | None, int | None, tuple[str, ...]]


def field(opcode: str, name: str) -> Field:
    """Return a field by the opcode's name on the wire (``OP_INSTANCE_CREATE``) and its own."""
    return Field(*FIELDS[opcode][name])


# ruff: noqa: E501
# fmt: off
PARAMETERS: dict[str, tuple[str, ...]] = {parameters}
SETTINGS: dict[str, Setting] = {settings}
FIELDS: dict[str, dict[str, Row]] = {
'''
KINDS = {types.BoolType: "flag", types.IntType: "number", types.StrType: "text", types.LiteralType: "choice"}


def _plain(kind: types.Type) -> types.Type:
    """Return a type without metadata and without null; a union of several other types is returned unchanged."""
    match kind:
        case types.Metadata(type=inner):
            return _plain(inner)
        case types.UnionType(types=several):
            values = [member for member in several if not isinstance(member, types.NoneType)]
            return _plain(values[0]) if len(values) == 1 else kind
    return kind


def _kind(kind: types.Type) -> str:
    if isinstance(kind, types.VarTupleType) and isinstance(_plain(kind.item_type), types.StrType):
        return "texts"
    return KINDS.get(type(kind), "structure")


def row(field: types.Field) -> tuple[object, ...]:
    """Return the row of one field."""
    plain = _plain(field.type)
    default = field.default if isinstance(field.default, bool | int | str) else None
    minimum = plain.ge if isinstance(plain, types.IntType) else None
    maximum = plain.le if isinstance(plain, types.IntType) else None
    choices = tuple(map(str, plain.values)) if isinstance(plain, types.LiteralType) else ()
    return _kind(plain), descriptions.of(field.type), default, minimum, maximum, choices


def names_of_parameters() -> dict[str, tuple[str, ...]]:
    """Return what options of parameters accept before the sign of equality: names, and hypervisors with a colon."""
    kinds = {
        "backend": {*parameters.BACKEND, "memory"},
        "nic": parameters.NIC,
        "node": parameters.NODE,
        "hypervisor": {name for known in parameters.HYPERVISORS.values() for name in known},
    }
    names = {f"{kind}-parameter": tuple(f"{name}=" for name in sorted(known)) for kind, known in kinds.items()}
    return names | {"by-hypervisor-parameter": tuple(f"{name}:" for name in sorted(parameters.HYPERVISORS))}


def _setting_kind(setting: cluster_settings.AnySetting) -> str:
    kinds = {bool: "switch", int: "number", tuple: "percentages", dict: "parameters", str: "text"}
    return "seconds" if setting.metavar == "TIME" else kinds[type(setting.default)]


def settings() -> dict[str, tuple[object, ...]]:
    """Return the row of each setting of the cluster."""
    return {
        name: (
            (setting.letter, setting.option) if setting.letter else (setting.option,) if setting.option else (),
            setting.metavar,
            _setting_kind(setting),
            setting.option_text or setting.text,
            setting.label,
            setting.reported_as or name,
        )
        for name, setting in cluster_settings.ALL.items()
    }


def text() -> str:
    """Return the text of the module."""
    rows = [f"    {name!r}: Setting{row!r}," for name, row in settings().items()]
    head = HEAD.rstrip("\n").replace("{parameters}", repr(names_of_parameters()))
    lines = [head.replace("{settings}", "\n".join(["{", *rows, "}"]))]
    for opcode in opcodes.ALL:
        info = types.type_info(opcode)
        assert isinstance(info, types.StructType)
        lines.append(f"    {str(opcode.__struct_config__.tag)!r}: {{")
        own = [field for field in info.fields if field.name not in opcodes.Opcode.__struct_fields__]
        lines += [f"        {field.encode_name!r}: {row(field)!r}," for field in own]
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    TARGET.write_text(text())
