"""The port for probes and figures of a daemon that speaks no HTTP to users."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import core, parser
from prometheus_client.openmetrics import parser as openmetrics

from gantry.doors.http import exposition, probes
from gantry.runtime import http_interface, measures

CALLS = measures.Measure("gantry_test_calls", measures.Kind.COUNTER, ("call",), "Calls.")


def ask(path: str, *, method: str = "GET", problem: str = "", **headers: str) -> http_interface.Response:
    counts = measures.Measures()
    counts.count(CALLS, "version", amount=3)
    handler = probes.Probes(lambda: map(exposition.measured, counts.families()), problem=lambda: problem)
    return asyncio.run(handler(http_interface.Request(method, path, b"", headers)))


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/healthz/", "/livez?verbose"])
def test_a_daemon_that_answers_is_healthy_even_if_something_keeps_it_from_its_work(path: str) -> None:
    answer = ask(path, problem="waits for a majority")
    assert (answer.status, answer.body) == (200, b"ok\n")


def test_a_daemon_is_ready_if_nothing_keeps_it_from_its_work() -> None:
    assert ask("/readyz").status == 200
    answer = ask("/readyz", problem="waits for a majority")
    assert (answer.status, answer.body) == (503, b"waits for a majority\n")


def test_a_scrape_has_what_was_counted_and_what_the_process_uses() -> None:
    text = ask("/metrics").body.decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    (sample,) = families["gantry_test_calls"].samples
    assert (sample.labels, sample.value) == ({"call": "version"}, 3)
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_open_fds"].samples[0].value > 0


def test_a_scrape_is_in_openmetrics_for_a_client_that_asks_for_it() -> None:
    answer = ask("/metrics", accept="application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert answer.content_type.startswith("application/openmetrics-text")
    parse: Callable[[str], Iterable[core.Metric]] = openmetrics.text_string_to_metric_families
    names = {family.name for family in parse(answer.body.decode())}
    assert {"gantry_test_calls", "process_open_fds"} <= names


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/2/info", 404), ("POST", "/metrics", 405)]
)
def test_anything_else_is_refused_with_what_there_is(method: str, path: str, status: int) -> None:
    assert ask(path, method=method).status == status
