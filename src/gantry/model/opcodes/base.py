"""What all opcodes share: how they are named, written and checked, and the types of their fields.

The name on the wire is ``OP_`` and the class name in capitals (``InstanceCreate``: ``OP_INSTANCE_CREATE``), in the
key ``OP_ID``. Fields have the names, types and defaults that existing clients send
(contracts/opcodes.md#common-parameters); a field that no opcode knows is refused with its path. Texts in ``Meta`` are
shown to users by the doors and the reference.
"""

import functools
import re
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

# A dollar sign alone would let a newline at the end pass, and files have a name a line.
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+:@-]*$(?!\n)")]
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)")]
Size = Annotated[int | str, Meta(description="MiB, or a number with the unit m, g or t")]
Tag = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.+*/:@-]+$(?!\n)")]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=1024)]


def _tag(class_name: str) -> str:
    return "OP_" + re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).upper()


@functools.cache
def _id_of(opcode: type[msgspec.Struct]) -> str:
    return str(opcode.__struct_config__.tag)


class Dependency(msgspec.Struct, frozen=True, array_like=True):
    """A job that must have ended before; a negative id counts back in the same submission.

    See contracts/jobs.md#dependencies.
    """

    job: int
    statuses: tuple[Literal["canceled", "success", "error"], ...] = ()


class Opcode(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag_field="OP_ID",
    tag=_tag,
):
    """What every opcode takes; ``DESCRIBES`` names the field that its summary shows."""

    DESCRIBES: ClassVar[str] = ""

    dry_run: Annotated[bool, Meta(description="Show what would be done, without changing anything")] = False
    debug_level: Annotated[int, Meta(ge=0, le=9)] | None = None
    priority: Annotated[int, Meta(ge=-20, le=19, description="Priority; a smaller number runs first")] = 0
    depends: tuple[Dependency, ...] | None = None
    comment: Annotated[str, Meta(max_length=4096)] | None = None
    reason: tuple[tuple[str, str, int], ...] = ()

    @property
    def op_id(self) -> str:
        """Return the name on the wire."""
        return _id_of(type(self))

    @property
    def summary(self) -> str:
        """Return the short form that job lists show, ``INSTANCE_CREATE(inst1)``."""
        short = self.op_id.removeprefix("OP_")
        return f"{short}({getattr(self, self.DESCRIBES)})" if self.DESCRIBES else short
