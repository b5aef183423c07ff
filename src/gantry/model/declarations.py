"""The type of a parameter's declaration; ``parameters``, ``templates``, ``kvm`` and ``xen`` declare parameters."""

from dataclasses import dataclass

from gantry.model import base

LARGEST = 1 << 40
"""The largest number that a parameter may have; as memory in MiB, an exbibyte."""


@dataclass(frozen=True)
class Parameter:
    """A parameter, which has the type of its default and may be limited by choices, minimum and maximum.

    With ``several``, the value is any number of choices separated by colons; with ``letters``, it consists of these
    letters; with ``punctuation``, of ASCII letters, digits and these characters. A ``cluster_wide`` parameter cannot be
    set for an instance.
    """

    default: base.Value
    text: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int = LARGEST
    several: bool = False
    letters: str = ""
    punctuation: str = ""
    cluster_wide: bool = False
