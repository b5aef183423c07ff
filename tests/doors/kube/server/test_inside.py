"""The way to a server from its own process."""

from gantry.doors.kube.server import inside
from gantry.runtime import interface


async def test_a_refused_stream_has_the_refusal_as_its_only_piece() -> None:
    async def refuse(request: interface.HttpRequest) -> interface.HttpResponse:
        return interface.HttpResponse(410, f"{request.method} {request.path}".encode())

    answer = await inside.Inside(refuse).stream("", 0, "/a?b=c", timeout=1)
    assert answer.pieces
    assert (answer.status, [piece async for piece in answer.pieces]) == (410, [b"GET /a?b=c"])


async def test_requests_come_as_they_were_sent() -> None:
    async def echo(request: interface.HttpRequest) -> interface.HttpResponse:
        return interface.HttpResponse(200, request.body, headers=request.headers)

    answer = await inside.Inside(echo).post("", 0, "/", b"{}", timeout=1, headers={"accept": "a"})
    assert (answer.body, answer.headers) == (b"{}", {"accept": "a"})
