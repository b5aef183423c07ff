"""A record: one committed transaction, and its form in the journal.

A record is a JSON object ``{"serial", "time", "epoch", "cause", "changes"}``; a change is ``["put", kind, object]`` or
``["delete", kind, key]``. The serial of a record is one above that of the record before.
``store.transaction`` makes records and encodes each once; ``frame`` packs them; recovery and history read them back.
"""

from collections.abc import Container

import msgspec

from gantry import errors
from gantry.lib_files import frame
from gantry.model import access
from gantry.rpc import calls
from gantry.state.objects import snapshot

HAND_EDIT = "config.data was edited by hand"
"""The reason of a record with the objects of an edited ``config.data``; it does not remove those that are not there."""

ACCEPTED_LOSS = "records were lost, and the loss was accepted"
"""How the reason begins of the record after which the next job has a higher number, which the record does not have."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something changed: number of the job (0: no job), name of the opcode, its user, and the reason.

    A change without a job, such as that of the queue's drain flag, has its ``submitter``, and the ``right`` that
    allowed it; of a job, the job has them.
    """

    job: int = 0
    opcode: str = ""
    user: str = ""
    reason: str = ""
    submitter: access.Subject | None = None
    right: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction; ``time`` is in seconds since the epoch, ``epoch`` counts the confirmations of a master."""

    serial: int
    time: float
    epoch: int
    cause: Cause
    changes: tuple[snapshot.Change, ...]

    @property
    def is_partial(self) -> bool:
        """Return whether its changes alone do not lead from the state before it to the state after it."""
        by_hand = not self.cause.job and not self.cause.opcode and not self.cause.user
        return by_hand and (self.cause.reason == HAND_EDIT or self.cause.reason.startswith(ACCEPTED_LOSS))


class _Stored(msgspec.Struct, frozen=True):
    serial: calls.Count
    time: float
    epoch: calls.Epoch
    cause: Cause
    changes: tuple[tuple[str, str, msgspec.Raw], ...]


_ENCODER = msgspec.json.Encoder()
_RECORD = msgspec.json.Decoder(_Stored)
_KEY = msgspec.json.Decoder(str)
_OBJECT = {kind.collection: msgspec.json.Decoder(kind.type) for kind in snapshot.KINDS.values()}


def encode(record: Record) -> bytes:
    """Return the record as JSON, on one line."""
    changes = [
        ("put", change.kind, change.value) if isinstance(change, snapshot.Put) else ("delete", change.kind, change.key)
        for change in record.changes
    ]
    return _ENCODER.encode(
        {
            "serial": record.serial,
            "time": record.time,
            "epoch": record.epoch,
            "cause": record.cause,
            "changes": changes,
        }
    )


def encode_checked(record: Record) -> bytes:
    """Return what ``encode`` does; raises InternalError if it could not be read back, as the next start has to."""
    encoded = encode(record)
    try:
        decode(encoded)
    except errors.ConfigurationError as error:
        raise errors.InternalError(f"the change cannot be stored, and nothing was changed: {error}") from None
    return encoded


def decode(raw: bytes | msgspec.Raw, *, kinds: Container[str] | None = None) -> Record:
    """Read a record; raises ConfigurationError for anything that this version cannot read.

    With ``kinds``, changes of other kinds are skipped without decoding.
    """
    try:
        stored = _RECORD.decode(raw)
        return Record(
            serial=stored.serial,
            time=stored.time,
            epoch=stored.epoch,
            cause=stored.cause,
            changes=tuple(_change(*change) for change in stored.changes if kinds is None or change[1] in kinds),
        )
    except (*frame.UNREADABLE, KeyError) as error:
        raise errors.ConfigurationError(f"not a record that this version can read: {error}") from None


def _change(verb: str, kind: str, value: msgspec.Raw) -> snapshot.Change:
    if verb == "put":
        return snapshot.Put(_OBJECT[kind].decode(value))
    if verb == "delete" and kind in _OBJECT:
        return snapshot.Delete(kind, _KEY.decode(value))
    raise KeyError(f"{verb} {kind}")
