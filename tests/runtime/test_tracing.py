"""Spans of a process, as a collector gets them, and a collector that is away."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from tests import collector, ports

from gantry.runtime import traces
from gantry.runtime.real import tracing

REQUEST = "req-6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001"
TRACE = "6f0d3c3e3f6e4d9c8f536b6c1f6a0001"


@pytest.fixture
def received() -> Iterator[collector.Collector]:
    with collector.listening() as listening:
        yield listening


def record(url: str, service: str = "gantry-test") -> tracing.Tracer:
    return tracing.Tracer(service, "1.0", "node1", url)


def test_a_span_of_another_process_is_a_child_of_the_first_of_its_request(received: collector.Collector) -> None:
    for service, first in (("master", False), ("door", True)):
        tracer = record(received.url, service)
        with traces.installed(tracer), traces.entry(service, request=REQUEST, first=first):
            pass
        tracer.close()
    master, door = received.spans
    assert [span.trace for span in received.spans] == [TRACE, TRACE]
    assert (door.parent, master.parent) == ("", door.id)
    assert (door.of_elsewhere, master.of_elsewhere) == (False, True)
    assert (door.service, door.attributes) == ("door", {"gantry.request": REQUEST})


def test_a_call_goes_on_in_the_process_that_gets_its_header(received: collector.Collector) -> None:
    tracer = record(received.url)
    with traces.installed(tracer):
        with traces.entry("job"), traces.part("call", {"server.address": "node1"}, kind=traces.Kind.CLIENT):
            sent = traces.header()
        with traces.entry("call", parent=sent[traces.HEADER]):
            pass
    tracer.close()
    call, job, served = received.spans
    assert (job.parent, call.parent, served.parent) == ("", job.id, call.id)
    assert (call.of_elsewhere, served.of_elsewhere) == (False, True)
    assert {span.trace for span in received.spans} == {job.trace}
    assert call.attributes == {"server.address": "node1"}


@pytest.mark.parametrize("header", ["", "00-0-0-01", "x" * 10_000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_header_that_names_no_span_begins_a_trace(received: collector.Collector, header: str) -> None:
    tracer = record(received.url)
    with traces.installed(tracer), traces.entry("call", parent=header):
        pass
    tracer.close()
    (span,) = received.spans
    assert span.parent == ""
    assert int(span.trace, 16)


def test_what_fails_is_marked_with_its_error_and_what_is_canceled_is_not(received: collector.Collector) -> None:
    tracer = record(received.url)
    with traces.installed(tracer), traces.entry("job"):
        with pytest.raises(ValueError, match="no such disk"), traces.part("failed"):
            raise ValueError("no such disk")
        with pytest.raises(asyncio.CancelledError), traces.part("canceled"):
            raise asyncio.CancelledError
        with traces.part("refused") as span:
            span.fail("no room")
    tracer.close()
    failed, canceled, refused, job = received.spans
    assert [span.failed for span in (failed, canceled, refused, job)] == [True, False, True, False]
    assert failed.attributes["error.type"] == "ValueError"
    assert canceled.attributes["error.type"] == "CancelledError"


def test_each_trace_is_sent_whatever_the_environment_says(
    received: collector.Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.1")
    tracer = record(received.url)
    with traces.installed(tracer), traces.entry("door", request=REQUEST, first=True):
        pass
    tracer.close()
    assert [span.trace for span in received.spans] == [TRACE]


def test_work_outside_of_any_span_makes_none(received: collector.Collector) -> None:
    tracer = record(received.url)
    with traces.installed(tracer), traces.part("ping") as span:
        span.note({"number": 1})
        assert traces.header() == {}
    tracer.close()
    assert received.spans == []


async def test_a_task_that_outlives_its_request_adds_nothing_to_its_trace(received: collector.Collector) -> None:
    may_go_on = asyncio.Event()

    async def keep_up() -> dict[str, str]:
        await may_go_on.wait()
        with traces.part("call"):
            return traces.header()

    tracer = record(received.url)
    with traces.installed(tracer):
        with traces.entry("job"):
            task = asyncio.create_task(keep_up())
        may_go_on.set()
        assert await task == {}
    tracer.close()
    assert [span.name for span in received.spans] == ["job"]


def test_without_a_tracer_nothing_is_recorded() -> None:
    with traces.entry("job", request=REQUEST, first=True) as job, traces.part("call"):
        job.note({"number": 1})
        assert traces.header() == {}


@pytest.mark.parametrize("away", [True, False])
def test_a_collector_that_takes_nothing_costs_spans_and_one_line(
    received: collector.Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, *, away: bool
) -> None:
    monkeypatch.setattr(tracing, "TIMEOUT_SECONDS", 0.5)
    received.accepts = False
    tracer = record(f"http://127.0.0.1:{ports.free()}" if away else received.url)
    with caplog.at_level(logging.WARNING, logger=tracing.__name__), traces.installed(tracer):
        for number in range(3 * tracing.QUEUE):
            with traces.entry(f"job {number}"):
                pass
        tracer.close()
    lines = [entry.message for entry in caplog.records if entry.name == tracing.__name__]
    assert len(lines) == 1
    assert lines[0].startswith("some traces are lost: ")
    assert received.spans == []


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_a_span_has_its_kind_its_attributes_and_those_of_its_process(received: collector.Collector, path: str) -> None:
    tracer = record(received.url + path)
    with traces.installed(tracer), traces.entry("job", {"number": 1}) as job:
        job.note({"disks": 2})
        with traces.part("call", kind=traces.Kind.CLIENT), traces.part("work"):
            pass
        job.fail("x" * 300)
    tracer.close()
    assert [(span.name, span.kind) for span in received.spans] == [
        ("work", "INTERNAL"),
        ("call", "CLIENT"),
        ("job", "SERVER"),
    ]
    work, _, ended = received.spans
    assert (ended.attributes, ended.reason) == ({"number": 1, "disks": 2}, "x" * tracing.REASON_LENGTH)
    own = {"service.name": "gantry-test", "service.version": "1.0", "host.name": "node1"}
    assert work.process.items() >= own.items()


def test_after_a_minute_it_is_logged_again_that_traces_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    tracer = record(f"http://127.0.0.1:{ports.free()}")
    library = logging.getLogger("opentelemetry")
    with caplog.at_level(logging.WARNING, logger=tracing.__name__):
        for level, moment in (("INFO", 999.0), ("WARNING", 1000.0), ("ERROR", 1059.0), ("WARNING", 1060.0)):
            number = getattr(logging, level)
            library.handle(
                logging.makeLogRecord({"levelno": number, "created": moment, "msg": f"{moment:.0f}" + "x" * 300})
            )
    tracer.close()
    assert [entry.message for entry in caplog.records if entry.name == tracing.__name__] == [
        f"some traces are lost: {moment}" + "x" * (tracing.REASON_LENGTH - 4) for moment in (1000, 1060)
    ]
