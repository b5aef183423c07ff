"""Hostile requests to each HTTP server through a real socket: a few in the gate, more in `make test-long`."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from tests.fuzz import doors, http, sockets, test_kubernetes, test_neutron, test_node, test_rapi

from gantry.runtime import http_interface

MESSAGES = 150
"""In the gate, for each server."""


@contextlib.contextmanager
def through_a_socket(
    start: Callable[[], AbstractContextManager[tuple[doors.Server, doors.Run]]],
) -> Iterator[tuple[doors.Server, doors.Run]]:
    """Start a server whose requests and answers go over the wire."""
    with sockets.Wire().serving() as wire, start() as (server, run), pytest.MonkeyPatch.context() as patch:
        assert isinstance(server, http.Door | test_node.FuzzedDaemon)
        answering = server.server if isinstance(server, http.Door) else server.agent
        answer: sockets.Answer = answering.answer

        async def ask(request: http_interface.Request) -> http_interface.Response:
            return await wire.ask(request, answer)

        patch.setattr(answering, "answer", ask)
        yield server, run


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("Kubernetes server", test_kubernetes.start),
        ("remote API", test_rapi.start),
        ("Neutron API", test_neutron.start),
        ("node daemon", test_node.start),
    ],
    ids=["kubernetes", "rapi", "neutron", "node"],
)
def test_hostile_requests_get_a_valid_answer_on_the_wire(
    name: str, start: doors.Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "COUNT", min(doors.COUNT // 10, 100_000) if doors.IS_LONG else MESSAGES)
    doors.check(f"{name}, through a socket", functools.partial(through_a_socket, start))
