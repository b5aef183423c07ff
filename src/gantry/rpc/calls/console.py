"""The call that opens a console of an instance for a program elsewhere, as the remote API with a browser behind it.

The node connects to the console and waits for one client with the secret ``token``, to which it passes the console's
bytes in frames (``runtime.frames``); the client's bytes come as they are. The word at the end is one of ``ENDED`` and
``TAKEN``, the latter with the name of a user after a space.
"""

from typing import Literal

from gantry.rpc.calls.base import Call, Message
from gantry.rpc.calls.texts import Line, Name, Token

ConsoleKind = Literal["serial", "vnc"]

ENDED = "ended"
"""The guest's side has closed the console: the guest has stopped, or has moved to another node."""
TAKEN = "taken"
"""Another user has taken the console over."""


class ConsoleEntrance(Message, frozen=True):
    """The port where the node waits for the client; 0 if ``user`` has the console, which only one may have."""

    port: int = 0
    user: str = ""


class ConsoleOpen(Call[ConsoleEntrance], frozen=True):
    """Open a console of a running instance for ``user``, with ``takes_over`` even if another user has it.

    Raises WrongStateError if the instance does not run or has no console of this kind, NotUniqueError if a program that
    the node daemon has not connected has the console, BusyError if the node has too many of them.
    """

    token: Token
    hypervisor: Name
    instance: Name
    kind: ConsoleKind
    user: Line
    takes_over: bool = False
