"""Traces: spans of the work for one request, from the front end to the nodes; off, unless the daemon installs a tracer.

A span is a piece of work with a name, a begin, an end and attributes; spans in a span are its children. Work for others
begins with ``entry``: a request of a client, a call of the master, a job. Within it ``part`` is a span of one piece;
outside of any, and after its end, it is nothing, so that work in the background makes no spans. ``header`` takes the
trace along to a node.

The trace of a request has the id of the request (``request_ids``), if that is a UUID behind a prefix, as front ends
make them, and the first span of such a trace has an id that follows from it. So each daemon knows where its spans
belong, whenever it works for the request, and a person finds the trace by the id in an answer or in a log.

Names and attributes follow OpenTelemetry's conventions where those have one; attributes of Gantry begin with
``gantry.``. They have no secrets: of a URL only the path, of a program only its name.
"""

import contextlib
import enum
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

HEADER = "traceparent"
"""The header of a call to a node that names the span it belongs to (W3C Trace Context, section 3.2)."""

UUID_LENGTH = 36

Value = str | bool | int | float
Attributes = Mapping[str, Value]


class Kind(enum.Enum):
    """The side of a span: work for a client or another daemon, a question to another daemon, or work within this."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


class Span(Protocol):
    """A span while its work lasts."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def fail(self, reason: str) -> None:
        """Mark the work as failed."""
        ...


class Tracer(Protocol):
    """Records spans, and sends them somewhere."""

    def entry(
        self, name: str, attributes: Attributes, *, kind: Kind, identity: uuid.UUID | None, first: bool, parent: str
    ) -> AbstractContextManager[Span]:
        """Begin a span for work that came from elsewhere, as the function ``entry``, for a trace with this identity."""
        ...

    def part(self, name: str, attributes: Attributes, *, kind: Kind) -> AbstractContextManager[Span]:
        """Begin a span within the present one; record nothing if there is none."""
        ...

    def header(self) -> dict[str, str]:
        """Return the header that names the present span, empty if there is none."""
        ...


class _NoSpan:
    """What callers have while nothing is recorded."""

    def note(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, reason: str) -> None:
        """Do nothing."""


NO_SPAN: Span = _NoSpan()
_NOTHING = contextlib.nullcontext(NO_SPAN)


class _Process:
    """What records the spans of this process, if anything does."""

    tracer: Tracer | None = None


@contextlib.contextmanager
def installed(tracer: Tracer) -> Iterator[None]:
    """Let a tracer record the spans of this process while the block runs."""
    _Process.tracer = tracer
    try:
        yield
    finally:
        _Process.tracer = None


def entry(
    name: str,
    attributes: Attributes | None = None,
    *,
    request: str = "",
    kind: Kind = Kind.SERVER,
    first: bool = False,
    parent: str = "",
) -> AbstractContextManager[Span]:
    """Begin a span for work that came from elsewhere.

    ``request`` is the id of the request: the span is the first of its trace with ``first``, else a child of the first.
    ``parent`` is the value of ``HEADER`` in a call and counts before it. Without both, the span begins a new trace.
    """
    if _Process.tracer is None:
        return _NOTHING
    own = {"gantry.request": request} if request else {}
    return _Process.tracer.entry(
        name, {**own, **(attributes or {})}, kind=kind, identity=_identity(request), first=first, parent=parent
    )


def part(
    name: str, attributes: Attributes | None = None, *, kind: Kind = Kind.INTERNAL
) -> AbstractContextManager[Span]:
    """Begin a span within the present one, for a piece of its work."""
    return _Process.tracer.part(name, attributes or {}, kind=kind) if _Process.tracer else _NOTHING


def header() -> dict[str, str]:
    """Return the header for a call of the present task, empty outside of any span."""
    return _Process.tracer.header() if _Process.tracer else {}


def _identity(request: str) -> uuid.UUID | None:
    """Return the UUID in the id of a request.

    >>> _identity("req-6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001")
    UUID('6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001')
    >>> _identity("job-17")
    """
    text = request[-UUID_LENGTH:]
    try:
        identity = uuid.UUID(text) if len(text) == UUID_LENGTH else None
    except ValueError:
        return None
    return identity if identity and identity.int else None
