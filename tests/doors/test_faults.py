"""A bug in a front end: the client gets the id of its request, and the log the cause."""

import logging

import pytest
from tests import collector

from gantry.doors import http
from gantry.runtime import http_interface, limits, repeated_logs, simulated, traces
from gantry.runtime.real import tracing


class Broken:
    """An application in which each request is a bug."""

    id_header = ("X-Request-Id", "req-")

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        raise KeyError("limit")

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        raise ZeroDivisionError("by a bug")

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        return http_interface.Response(error.status, str(error).encode())


def test_a_bug_is_answered_with_the_id_of_the_request_and_logged_a_few_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = http_interface.Request("GET", "/2/info", b"", {})
    with simulated.World(seed=1) as world:
        server = http.Server(world.machine("node1"), Broken())
        answers = [world.run(server.answer(request)) for _ in range(repeated_logs.BURST + 3)]
    names = [answer.headers["X-Request-Id"] for answer in answers]
    assert len(set(names)) == len(names)
    for answer, name in zip(answers, names, strict=True):
        assert name.startswith("req-")
        text = f"request {name} failed; see the log of the remote API"
        assert (answer.status, answer.body.decode()) == (500, text)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in logged] == [f"request {each} failed" for each in names[: len(logged)]]
    assert len(logged) == repeated_logs.BURST
    assert "ZeroDivisionError: by a bug" in caplog.text


def test_a_bug_before_the_body_of_a_request_is_read_refuses_the_request(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        server = http.Server(world.machine("node1"), Broken())
        answer = world.run(server.admit(http_interface.Request("PUT", "/2/modify", b"", {})))
    assert not isinstance(answer, limits.Admission)
    assert (answer.status, answer.body) == (
        500,
        f"request {answer.headers['X-Request-Id']} failed; see the log of the remote API".encode(),
    )
    assert "KeyError: 'limit'" in caplog.text


def test_no_client_is_known_by_a_certificate() -> None:
    with simulated.World(seed=1) as world:
        assert http.Server(world.machine("node1"), Broken()).knows(b"any certificate") is False


class Plain(Broken):
    """An application that answers with the status which the path names."""

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        return http_interface.Response(int(raw.path[1:4]), b"")


@pytest.mark.parametrize(("status", "failed"), [(200, False), (404, False), (499, False), (500, True), (503, True)])
def test_the_span_of_a_request_fails_by_a_fault_of_the_server_and_not_by_one_of_the_client(
    status: int, *, failed: bool
) -> None:
    request = http_interface.Request("BREW", f"/{status}/{'x' * 2000}?token=secret", b"", {}, peer="192.0.2.1")
    with simulated.World(seed=1) as world, collector.listening() as received:
        tracer = tracing.Tracer("api", "1.0", "node1", received.url)
        with traces.installed(tracer):
            answer = world.run(http.Server(world.machine("node1"), Plain(), api="remote").answer(request))
        tracer.close()
    (span,) = received.spans
    assert (span.name, span.failed) == ("remote other", failed)
    assert span.attributes["gantry.request"] == answer.headers["X-Request-Id"]
    assert span.attributes["url.path"] == request.path.partition("?")[0][: http.LOGGED_CHARACTERS]
    assert span.attributes["http.response.status_code"] == status
    assert (span.attributes["http.request.method"], span.attributes["client.address"]) == ("other", "192.0.2.1")
