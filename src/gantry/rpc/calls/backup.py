"""The calls that keep exports on a node, and that carry bulk data between two nodes.

An export is a folder of a node: a description (``config.ini``, written by the master) and a dump per disk. A dump is
transferred as a stream between two nodes: the master opens the stream at the receiver (``StreamOpen``), starts the
sender (``StreamSend``), asks the receiver meanwhile how much has arrived (``StreamProgress``), and then for the result
(``StreamClose``).
"""

from typing import ClassVar

from gantry.rpc.calls.base import FAST, NORMAL, Call, Message
from gantry.rpc.calls.instance import Disk, Instance
from gantry.rpc.calls.texts import Content, Host, Name, Token

DAY = 86400.0
"""Seconds: the longest time that the transfer of a disk may take."""


class StreamEnd(Message, frozen=True):
    """One end of a stream: the file ``dump`` of the export ``export``, or else ``disk``.

    What goes over the stream is compressed as ``compress`` says, by the end that is a disk. Its data is read and
    written as it is, or where ``scripted`` by the export and import scripts of the OS of ``instance``. ``disk`` may be
    a snapshot; its index is that of the disk of the instance.
    """

    export: Name = ""
    dump: Name = ""
    instance: Instance | None = None
    disk: Disk | None = None
    scripted: bool = False
    compress: Name = "none"
    debug: int = 0


class Streamed(Message, frozen=True):
    """What went over a stream: bytes, and their SHA-256 in hex, which the end that received them knows."""

    size: int
    digest: str = ""


class StreamOpen(Call[int], frozen=True):
    """Listen for a stream and return the port; the sender authenticates with the secret ``token``."""

    token: Token
    end: StreamEnd


class StreamSend(Call[Streamed], frozen=True):
    """Send a stream to its listening receiver, and return when it has arrived; raises ExecutionError."""

    LIMIT: ClassVar[float] = DAY
    token: Token
    host: Host
    port: int
    end: StreamEnd


class StreamClose(Call[Streamed], frozen=True):
    """Wait for the end of a received stream and forget it; raises ExecutionError with the error of this node."""

    LIMIT: ClassVar[float] = NORMAL
    token: Token


class StreamProgress(Call[int], frozen=True):
    """Return how many bytes of a stream the receiver has received; raises NotFoundError."""

    LIMIT: ClassVar[float] = FAST
    token: Token


class StreamCancel(Call[str], frozen=True):
    """Abort a stream at its sender or receiver.

    The result names the program of the receiver that had failed before, and why.
    """

    token: Token


class ExportFinalize(Call[None], frozen=True):
    """Create an export of the received dumps, in place of an older one; ``description`` is its ``config.ini``."""

    LIMIT: ClassVar[float] = FAST
    export: Name
    description: Content


class ExportDiscard(Call[None], frozen=True):
    """Remove the dumps of an export that is not finished."""

    LIMIT: ClassVar[float] = FAST
    export: Name


class ExportInfo(Call[str], frozen=True):
    """Return the description of an export; raises NotFoundError."""

    READS: ClassVar[bool] = True
    export: Name


class ExportDumpList(Call[tuple[str, ...]], frozen=True):
    """List the dumps of an export, by name."""

    READS: ClassVar[bool] = True
    export: Name


class ExportVerify(Call[dict[str, str]], frozen=True):
    """Compute the SHA-256 of dumps, in hex; a dump that is not there has none."""

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = DAY
    export: Name
    dumps: tuple[Name, ...]


class ExportList(Call[tuple[str, ...]], frozen=True):
    """List the exports of a node, by name."""

    READS: ClassVar[bool] = True


class ExportRemove(Call[bool], frozen=True):
    """Remove an export; False when there is none."""

    LIMIT: ClassVar[float] = FAST
    export: Name
