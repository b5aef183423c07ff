"""A collector of traces, as OpenTelemetry's: it takes OTLP over HTTP, and has the spans in the order of their ends."""

import contextlib
import http.server
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True)
class Span:
    """A span as it arrived; ids are hexadecimal. ``of_elsewhere`` is whether its parent is of another process.

    ``process`` has the attributes of the process that sent it, ``reason`` is why its work failed.
    """

    service: str
    name: str
    trace: str
    id: str
    parent: str
    failed: bool
    of_elsewhere: bool
    attributes: dict[str, object]
    process: dict[str, object]
    kind: str
    reason: str


@dataclass
class Collector:
    """What arrived at ``url``; ``accepts`` is whether the collector takes what it gets."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    accepts: bool = True

    def of(self, trace: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace]

    def take(self, body: bytes) -> None:
        request = trace_service_pb2.ExportTraceServiceRequest()
        request.ParseFromString(body)
        for process in request.resource_spans:
            own = _attributes(process.resource.attributes)
            for scope in process.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Span(
                            str(own["service.name"]),
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.status.code == span.status.STATUS_CODE_ERROR,
                            bool(span.flags & trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK),
                            _attributes(span.attributes),
                            own,
                            trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                            span.status.message,
                        )
                    )


def _attributes(pairs: Iterable[common_pb2.KeyValue]) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


@contextlib.contextmanager
def listening() -> Iterator[Collector]:
    """Run a collector on a free port of the loopback interface."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            if collector.accepts:
                collector.take(body)
            self.send_response(200 if collector.accepts else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
