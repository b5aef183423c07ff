"""How a parameter is declared; ``parameters``, ``kvm`` and ``xen`` hold the declarations, ``parameters`` uses them."""

from dataclasses import dataclass

from gantry.model import base

LARGEST = 1 << 40
"""No number is larger: an exbibyte, where it is memory in MiB."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its default fixes its type; ``choices``, ``minimum`` and ``maximum`` bound it where they are set.

    With ``several`` the value is any number of the choices, with colons between them; with ``letters`` it is made of
    these. A ``cluster_wide`` one cannot be set for an instance.
    """

    default: base.Value
    text: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int = LARGEST
    several: bool = False
    letters: str = ""
    cluster_wide: bool = False
