"""The descriptions of the fields of opcodes, which the fields' declarations have in ``Meta``.

The table of the commands' options (``tools/opcode_fields.py``), the reference and tests read them.
"""

from msgspec import inspect


def of(kind: inspect.Type) -> str:
    """Return the description of a field of this type, its own or that of a member of a union; empty without one.

    >>> from typing import Annotated
    >>> from msgspec import Meta
    >>> of(inspect.type_info(Annotated[str, Meta(description="Name of the node")] | None))
    'Name of the node'
    """
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=schema):
            return str((schema or {}).get("description", "")) or of(inner)
        case inspect.UnionType(types=members):
            return next(filter(None, map(of, members)), "")
    return ""
