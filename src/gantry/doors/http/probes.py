"""Health and figures of a daemon on a port of their own, for what starts it, watches it, or draws its figures.

    /healthz, /livez    200: the daemon answers
    /readyz             200; or 503 with what keeps the daemon from its work
    /metrics            what it has counted since its start, and what its process uses

Nobody is asked for a password: the answers have numbers and the names of calls, but no object of the cluster.
"""

from collections.abc import Callable, Iterable

from prometheus_client import core, process_collector

from gantry.doors.http import exposition
from gantry.runtime import http_interface

PATHS = "/healthz, /livez, /readyz or /metrics"


class Probes:
    """Answers probes and scrapes; implements ``http_interface.Handler``.

    ``collect`` returns the daemon's own metrics, ``problem`` what keeps it from its work, or an empty text.
    """

    def __init__(self, collect: Callable[[], Iterable[core.Metric]], *, problem: Callable[[], str]) -> None:
        self._collect = collect
        self._problem = problem
        self._process = process_collector.ProcessCollector(registry=None)

    async def __call__(self, request: http_interface.Request) -> http_interface.Response:
        """Answer a request."""
        if request.method not in ("GET", "HEAD"):
            return _text(405, f"{request.method} is not supported, use GET")
        match request.path.partition("?")[0].rstrip("/"):
            case "/metrics":
                families = [*self._collect(), *self._process.collect()]
                return exposition.response(families, request.headers.get("accept", ""))
            case "/healthz" | "/livez":
                return _text(200, "ok")
            case "/readyz":
                problem = self._problem()
                return _text(503 if problem else 200, problem or "ok")
        return _text(404, f"not found, use {PATHS}")


def _text(status: int, text: str) -> http_interface.Response:
    return http_interface.Response(status, f"{text}\n".encode(), "text/plain; charset=utf-8")
