"""The tracer of OpenTelemetry: spans go to a collector by OTLP over HTTP, in batches, from a thread.

The library's own environment variables count where an operator sets them: ``OTEL_EXPORTER_OTLP_HEADERS`` and
``OTEL_EXPORTER_OTLP_CERTIFICATE`` for a collector that wants to know who sends, ``OTEL_RESOURCE_ATTRIBUTES`` for more
about this process. A collector that is slow or away costs spans, never a request: a batch waits in a queue of
``QUEUE`` spans, and what does not fit is dropped.

See explanation/decisions/0073-the-trace-of-a-request.md.
"""

import contextlib
import contextvars
import hashlib
import logging
import threading
import uuid
from collections.abc import Iterator
from urllib import parse

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, export, id_generator, sampling
from opentelemetry.trace.propagation import tracecontext

from gantry.runtime import traces

log = logging.getLogger(__name__)

QUEUE = 4096
SEND_SECONDS = 2.0
"""How often spans are sent, unless a batch of 512 is complete before."""
TIMEOUT_SECONDS = 5.0
"""How long a batch may take; after that its spans are lost."""
REPORT_SECONDS = 60.0
"""Between two lines about a collector that does not answer."""
REASON_LENGTH = 200

_IDS: contextvars.ContextVar[tuple[int, int] | None] = contextvars.ContextVar("TRACE_AND_SPAN_ID", default=None)
_PROPAGATOR = tracecontext.TraceContextTextMapPropagator()
_KINDS = {
    traces.Kind.SERVER: trace.SpanKind.SERVER,
    traces.Kind.CLIENT: trace.SpanKind.CLIENT,
    traces.Kind.INTERNAL: trace.SpanKind.INTERNAL,
}


class _Ids(id_generator.RandomIdGenerator):
    """Ids for the first span of a trace that has them already; else random ones."""

    def generate_trace_id(self) -> int:
        """Return the id of a trace."""
        return ids[0] if (ids := _IDS.get()) else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the id of a span."""
        return ids[1] if (ids := _IDS.get()) else super().generate_span_id()


class _Complaints(logging.Handler):
    """Passes on what the library logs, once in ``REPORT_SECONDS``: it has a line for each batch that fails."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line if one is due."""
        if record.created - self._last >= REPORT_SECONDS:
            self._last = record.created
            log.warning("some traces are lost: %.*s", REASON_LENGTH, record.getMessage())


def _ids(identity: uuid.UUID) -> tuple[int, int]:
    """Return the ids of a trace and of its first span."""
    return identity.int, int.from_bytes(hashlib.sha256(identity.bytes).digest()[:8]) or 1


def _is_under_way() -> bool:
    """Return whether there is a present span; a task that outlives the work that began it still has that span."""
    return trace.get_current_span().is_recording()


class _Span:
    """``traces.Span`` over one of the library."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, attributes: traces.Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        """Mark the work as failed."""
        self._span.set_status(trace.StatusCode.ERROR, reason[:REASON_LENGTH])


class Tracer:
    """Sends the spans of a process to a collector; ``close`` sends what is left."""

    def __init__(self, service: str, version: str, host: str, url: str) -> None:
        """Begin to send to the collector at ``url``; a URL without a path gets that of OTLP for traces."""
        parts = parse.urlsplit(url)
        endpoint = url if parts.path.strip("/") else parse.urlunsplit(parts._replace(path="/v1/traces"))
        library = logging.getLogger("opentelemetry")
        library.propagate = False
        library.handlers = [_Complaints()]
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service, "service.version": version, "host.name": host}),
            # The collector chooses what it keeps; the fixed bits of a UUID would mislead the library's samplers.
            sampler=sampling.ALWAYS_ON,
            id_generator=_Ids(),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            export.BatchSpanProcessor(
                trace_exporter.OTLPSpanExporter(endpoint, timeout=TIMEOUT_SECONDS),
                max_queue_size=QUEUE,
                schedule_delay_millis=1000 * SEND_SECONDS,
            )
        )
        self._tracer = self._provider.get_tracer("gantry", version)

    def entry(
        self,
        name: str,
        attributes: traces.Attributes,
        *,
        kind: traces.Kind,
        identity: uuid.UUID | None,
        first: bool,
        parent: str,
    ) -> contextlib.AbstractContextManager[traces.Span]:
        """Begin a span for work that came from elsewhere."""
        around, ids = contexts.Context(), None
        if parent:
            around = _PROPAGATOR.extract({traces.HEADER: parent}, around)
        elif identity and first:
            ids = _ids(identity)
        elif identity:
            number, first_span = _ids(identity)
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            first_one = trace.SpanContext(number, first_span, is_remote=True, trace_flags=flags)
            around = trace.set_span_in_context(trace.NonRecordingSpan(first_one), around)
        return self._begun(name, attributes, kind, around, ids)

    def part(
        self, name: str, attributes: traces.Attributes, *, kind: traces.Kind
    ) -> contextlib.AbstractContextManager[traces.Span]:
        """Begin a span within the present one."""
        if not _is_under_way():
            return contextlib.nullcontext(traces.NO_SPAN)
        return self._begun(name, attributes, kind, contexts.get_current(), None)

    @contextlib.contextmanager
    def _begun(
        self,
        name: str,
        attributes: traces.Attributes,
        kind: traces.Kind,
        around: contexts.Context,
        ids: tuple[int, int] | None,
    ) -> Iterator[traces.Span]:
        token = _IDS.set(ids)
        try:
            span = self._tracer.start_span(name, around, _KINDS[kind], attributes)
        finally:
            _IDS.reset(token)
        begun = _Span(span)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield begun
            except BaseException as error:
                begun.note({"error.type": type(error).__name__})
                if isinstance(error, Exception):  # else its task was canceled
                    begun.fail(str(error))
                raise

    def header(self) -> dict[str, str]:
        """Return the header that names the present span."""
        carrier: dict[str, str] = {}
        if _is_under_way():
            _PROPAGATOR.inject(carrier)
        return carrier

    def close(self) -> None:
        """Send what is left, for ``TIMEOUT_SECONDS`` at most: the library would try for longer."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(TIMEOUT_SECONDS)
