"""The proof of an epoch: the signatures of a majority of the master candidates that granted it to its master.

A candidate signs each grant of an epoch (``cluster.GrantEpoch``), and the master brings the signatures to each
node before it commands the node (``ProveEpoch``). So no node has to believe an epoch because a call names it. See
explanation/state.md#epochs.
"""

from typing import ClassVar

from gantry.rpc.calls.base import Call, Epoch, Message
from gantry.rpc.calls.texts import Content, Line

TITLE = "gantry epoch"


class Grant(Message, frozen=True):
    """A candidate's grant of an epoch: its certificate in PEM, its signature of ``statement_of_epoch`` in hex."""

    certificate: Content
    signature: Line


def statement_of_epoch(epoch: int, uuid: str) -> bytes:
    """Return what a candidate signs that grants an epoch to the node with a UUID.

    >>> statement_of_epoch(7, "u1")
    b'gantry epoch\\n7\\nu1'
    """
    return "\n".join((TITLE, str(epoch), uuid)).encode()


class ProveEpoch(Call[None], frozen=True):
    """Show the proof that ``epoch`` belongs to the caller; UnprovenError if the node is not convinced.

    A node that is convinced obeys the caller in this epoch, and does not have to be shown the proof again.
    """

    FENCED: ClassVar[bool] = False  # the node does not obey the epoch yet; the signatures decide
    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = 5.0
    epoch: Epoch
    grants: tuple[Grant, ...]
