"""What an attempt means, and how long the next one waits."""

import asyncio
import random
from collections.abc import Mapping

import pytest

from gantry.doors.webhooks import attempts
from gantry.model import urls
from gantry.runtime import http_interface, simulated


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("120", 120.0), ("999999999", 3600.0), ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0), ("", None), ("-1", None),
        ("soon", None), ("1.5", None), ("٣", None), ("1" * 400, None), ("Thu, 99 Jan 1970 00:02:00 GMT", None),
    ],
)  # fmt: skip
def test_a_header_retry_after_is_read_in_both_forms_and_limited(text: str, seconds: float | None) -> None:
    assert attempts.retry_after(text, 100.0) == seconds


class Source:
    def below(self, limit: int) -> int:
        return random.Random(limit).randrange(limit)

    def uuid(self) -> str:
        raise NotImplementedError

    def token(self, size: int) -> bytes:
        raise NotImplementedError


def test_the_back_off_of_a_receiver_that_is_down_for_years_is_limited() -> None:
    failed = attempts.Outcome(attempts.Result.FAILED, "status 500")
    waits = [attempts.wait_seconds(Source(), failures, failed) for failures in (1, 2, 9, 10_000_000)]
    assert waits == sorted(waits)
    assert 0.5 <= waits[0] <= 1
    assert attempts.MAX_BACK_OFF_SECONDS / 2 <= waits[-1] <= attempts.MAX_BACK_OFF_SECONDS
    postponed = attempts.Outcome(attempts.Result.FAILED, "status 429", 1000.0)
    assert attempts.wait_seconds(Source(), 1, postponed) == 1000.0


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, "accepted"), (202, "accepted"), (204, "accepted"), (301, "failed"), (304, "failed"), (307, "failed"),
        (400, "failed"), (401, "failed"), (404, "failed"), (410, "gone"), (429, "failed"), (500, "failed"),
    ],
)  # fmt: skip
def test_only_2xx_accepts_and_a_redirect_is_not_followed(status: int, result: str) -> None:
    with simulated.World(1) as world:
        machine = world.machine("here")
        paths: list[str] = []

        async def answer(request: http_interface.Request) -> http_interface.Response:
            paths.append(request.path)
            return http_interface.Response(status, b"", headers={"Location": "http://localhost:8000/elsewhere"})

        assert world.run(_attempted(machine, answer)).result.value == result
        assert paths == ["/in"]


async def _attempted(machine: simulated.SimulatedRuntime, answer: http_interface.Handler) -> attempts.Outcome:
    """Return the outcome of an attempt at a receiver that answers like this."""
    server = await machine.network.serve_http("localhost", 8000, answer, tls=None, body_limit=1000)
    client = machine.network.http_client(tls=None)
    url = urls.Url.parse("http://localhost:8000/in", "it")
    outcome = await attempts.attempt(client, url, headers={}, body=b"{}", now=0.0)
    await client.close()
    await server.close()
    return outcome


@pytest.mark.parametrize(("size", "seconds"), [(16 << 10, 77.0), ((16 << 10) + 1, None)])
def test_a_receiver_may_explain_its_refusal_in_a_body_of_16_kib(size: int, seconds: float | None) -> None:
    with simulated.World(1) as world:
        machine = world.machine("here")

        async def answer(request: http_interface.Request) -> http_interface.Response:
            return http_interface.Response(429, b"x" * size, headers={"Retry-After": "77"})

        expected = attempts.Outcome(attempts.Result.FAILED, "status 429", seconds)
        assert world.run(_attempted(machine, answer)) == expected


class Broken(http_interface.Client):
    """A client whose error names the URL, as some do."""

    async def close(self) -> None:
        pass

    async def stream(
        self, host: str, port: int, path: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> http_interface.Response:
        raise NotImplementedError

    async def request(self, method: str, host: str, port: int, path: str, **_: object) -> http_interface.Response:
        raise OSError(f"cannot POST https://{host}:{port}{path}\x1b[0m by HTTP/1.1")


@pytest.mark.parametrize("path", ["/T0/B1?key=sesame", "/"])
def test_an_error_with_the_url_in_it_is_blanked_and_the_rest_of_it_is_not(path: str) -> None:
    url = urls.Url.parse(f"https://hooks.example:8443{path}", "it")
    outcome = asyncio.run(attempts.attempt(Broken(), url, headers={}, body=b"", now=0.0))
    assert outcome.reason == "the connection failed: cannot POST (blanked)[0m by HTTP/1.1"
