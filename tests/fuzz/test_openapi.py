"""Requests that schemathesis draws from the OpenAPI descriptions of the HTTP servers: some fit, others do not.

Each operation gets the same share. A request costs some milliseconds here, so most of the hostile requests are drawn by
``hostile``; schemathesis knows the borders of a schema (lengths, patterns, formats) and finds what is just outside. The
descriptions themselves are valid, and name every route.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from tests.fuzz import doors, http, test_kubernetes, test_neutron, test_rapi
from tools.reference import neutron_openapi

from gantry.doors import rapi
from gantry.doors.rapi import openapi
from gantry.kubernetes.api import openapi as kubernetes_openapi
from gantry.kubernetes.apiserver import resources
from gantry.runtime import http_interface

EXAMPLES = max(2, doors.COUNT * 60 // 1_000_000)
"""Requests of each mode to an operation; 60 in ``make test-long``."""

STRIDE = 1 if EXAMPLES > 2 else 3
"""Every how many operations one is drawn for: a strategy costs more CPU than its requests."""

Operation = schemathesis.APIOperation[Any, Any, Any, Any]
Case = schemathesis.Case[Any]

Start = Callable[[], contextlib.AbstractContextManager[tuple[http.Door, Callable[..., http_interface.Response]]]]

DOORS: dict[str, tuple[Start, Callable[[], list[dict[str, object]]]]] = {
    "remote API": (cast("Start", test_rapi.start), lambda: [openapi.document()]),
    "Neutron API": (cast("Start", test_neutron.start), lambda: [neutron_openapi.document()]),
    "Kubernetes server": (
        cast("Start", test_kubernetes.start),
        lambda: [kubernetes_openapi.group(kinds, version) for _, version, kinds in resources.groups()],
    ),
}


def _operations(document: dict[str, object]) -> Iterator[Operation]:
    described = schemathesis.openapi.from_dict(document)
    described.validate()
    for each in described.get_all_operations():
        assert isinstance(each, Ok), each
        yield each.ok()


def _request(case: Case, login: dict[str, str]) -> http_interface.Request | None:
    """Return a case as it would be on the wire, None if no client could send it."""
    try:
        sent = requests.Request(**case.as_transport_kwargs(base_url="http://door.example")).prepare()
    except (ValueError, requests.RequestException):
        return None
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body
    if not sent.path_url.isascii() or not isinstance(body, bytes | None):
        return None
    headers = {name.lower(): str(value) for name, value in sent.headers.items()} | login
    return http_interface.Request(sent.method or "GET", sent.path_url[:8000], body or b"", headers)


def _hammer(door: http.Door, run: Callable[..., http_interface.Response], each: Operation, log: doors.Log) -> int:
    """Send requests of one operation, without a log-in and with one that may do everything; return their number."""
    count = 0
    login = dict(door.good.headers)

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=each.as_strategy(mode))
        def send(case: Case) -> None:
            nonlocal count
            for headers in (login, {}):
                request = _request(case, headers)
                if request is None:
                    continue
                answer = run(door.server.answer(request))
                count += 1
                assert answer.status < 500 or answer.status in door.allowed, (request, answer)
                assert not log.tracebacks, (request, log.tracebacks[0])

        # Schemathesis cannot draw what does not fit an operation that takes anything.
        with contextlib.suppress(Unsatisfiable):
            send()
    return count


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.slow
def test_no_described_request_causes_an_error_of_the_server(name: str) -> None:
    start, documents = DOORS[name]
    logging.getLogger("schemathesis").setLevel(logging.ERROR)
    with doors.logged() as log, start() as (door, run):
        operations = [each for document in documents() for each in _operations(document)]
        counts = [_hammer(door, run, each, log) for each in operations[::STRIDE]]
        run(door.check())
    doors.report(f"{name}: {sum(counts)} requests by schemathesis to {len(counts)} operations")
    assert min(counts) > 0


def test_the_description_has_every_route_and_no_other() -> None:
    described = {(each.method, each.path) for each in http.operations(openapi.document())}
    assert described == {(route.method, openapi.described_path(route)) for route in rapi.ROUTES}
