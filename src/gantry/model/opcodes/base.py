"""The base of all opcodes: names, serialization, checks, and common types of fields.

The name on the wire, in the key ``OP_ID``, is ``OP_`` and the class name in capitals (``InstanceCreate``:
``OP_INSTANCE_CREATE``). Fields have the names, types and defaults of existing clients
(contracts/opcodes.md#common-parameters); the error about an unknown field has its path. Texts in ``Meta`` appear in
help texts, error messages and the reference.
"""

import functools
import re
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

# A dollar sign alone would allow a newline at the end, but files have one name per line.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+:@-]*$(?!\n)"
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)"
_TAG = r"^[A-Za-z0-9_.+*/:@-]+$(?!\n)"
USER = r"^[^\s:]+$(?!\n)"
TOKEN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)"
LABEL = r"^[a-z0-9][a-z0-9._-]*$(?!\n)"
EVENT = r"^[a-z]+(\.[a-z]+)?$(?!\n)"
TOKEN_ID = r"^[A-Za-z0-9]{10}$(?!\n)"
WHO = r"^(user|group):(oidc:)?[^\s:]+$(?!\n)"
SPELLINGS = {
    WHO: "user:NAME or group:NAME",
    USER: "the name of a user, without spaces and colons",
    TOKEN: "the name of a token (letters, digits and . _ -, a letter or digit first)",
    LABEL: "a name of small letters, digits and . _ -, with a letter or digit first",
    EVENT: "KIND or KIND.CHANGE, as instance or job.error",
    TOKEN_ID: "ten letters and digits",
    _NAME: "a name (letters, digits and _ . + : @ -, a letter or digit first)",
    _UUID: "a UUID in lower case, with its four dashes",
    _TAG: "a tag (letters, digits and _ . + * / : @ -)",
}
"""What text these patterns allow, in words for error messages."""

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=_NAME)]
Uuid = Annotated[str, Meta(pattern=_UUID)]
Size = Annotated[int | str, Meta(description="MiB, or a number with the unit m, g or t")]
Tag = Annotated[str, Meta(min_length=1, max_length=128, pattern=_TAG)]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=1024)]
Allocator = Annotated[str, Meta(max_length=255)]


def _tag(class_name: str) -> str:
    return "OP_" + re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).upper()


@functools.cache
def _id_of(opcode: type[msgspec.Struct]) -> str:
    return str(opcode.__struct_config__.tag)


class Dependency(msgspec.Struct, frozen=True, array_like=True):
    """A job that must end before this job starts; a negative id counts back in the same submission.

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
    """The fields of every opcode; ``DESCRIBES`` names the field for the summary."""

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
        """Return the summary for job lists, such as ``INSTANCE_CREATE(inst1)``."""
        short = self.op_id.removeprefix("OP_")
        return f"{short}({getattr(self, self.DESCRIBES)})" if self.DESCRIBES else short
