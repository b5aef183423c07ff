"""The texts in calls, by what they may contain: decoding a call refuses any other, with the path of the field.

No component of a node has to expect a control character in a name, or a path that leads out of its folder. Every text
in the arguments of a call has one of these types or a pattern of its own, so it also has a maximum length.
"""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^(?!-)(?!\.\.?$(?!\n))[^\x00-\x1f\x7f/]*$(?!\n)")]
"""The name of an object, an interface or a file: no slash, not an option of a program; empty where there is none."""

Path = Annotated[
    str, msgspec.Meta(max_length=4096, pattern=r"^(?!-)(?!(?:[^\n]*/)?\.\.(?:/|$))[^\x00-\x1f\x7f]*$(?!\n)")
]
"""A path, absolute or below a folder that the node knows: without a part that leads upwards."""

Host = Annotated[
    str, msgspec.Meta(max_length=253, pattern=r"^(?![-.])(?!.*\.\.)(?!.*[^.]{64})[0-9A-Za-z.:%_-]*$(?!\n)")
]
"""An address or the name of a host."""

Token = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[\x21-\x7e]*$(?!\n)")]
"""A secret that one call passes to another: ASCII without spaces."""

Line = Annotated[str, msgspec.Meta(max_length=65536, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
"""A text without control characters."""

Text = Annotated[str, msgspec.Meta(max_length=1 << 20, pattern=r"^[^\x00]*$")]
"""The value of a parameter or a variable: programs may get it, so it has no NUL."""

Content = Annotated[str, msgspec.Meta(max_length=64 << 20)]
"""The content of a file."""
