"""Health of the remote API, for whatever starts it, watches it or sends it requests: GET /healthz and GET /readyz.

    /healthz    200: this daemon answers requests
    /readyz     200: the master daemon answers it, too; otherwise 503, with the reason

Neither needs a user, and neither says anything about the cluster. The master is asked at most once in a second.
"""

import asyncio
from collections.abc import Sequence

from gantry import errors
from gantry.rpc import luxi
from gantry.runtime import http_interface

HEALTHY, READY = ("healthz",), ("readyz",)
PATHS: Sequence[tuple[str, ...]] = (HEALTHY, READY)

TIMEOUT_SECONDS = 5.0
"""Seconds that an answer waits for the master."""
REMEMBERED_SECONDS = 1.0
"""For how long an answer of the master counts for the requests that follow."""


class Health:
    """Answers the probes."""

    def __init__(self, master: luxi.Caller) -> None:
        self._master = master
        self._asked: asyncio.Task[str] | None = None
        self._at = 0.0

    async def response(self, path: tuple[str, ...]) -> http_interface.Response:
        """Return the answer to a probe."""
        problem = "" if path == HEALTHY else await self._problem()
        text = f"{problem or 'ok'}\n".encode()
        return http_interface.Response(503 if problem else 200, text, "text/plain; charset=utf-8")

    async def _problem(self) -> str:
        """Return why the master cannot be used, empty if it can; requests at one time share a question."""
        now = asyncio.get_running_loop().time()
        if self._asked is None or (self._asked.done() and now > self._at + REMEMBERED_SECONDS):
            self._asked, self._at = asyncio.create_task(self._ask(), name="readiness"), now
        return await asyncio.shield(self._asked)

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._master.call(list[object], "QueryConfigValues", ["master_node"])
        except TimeoutError:
            return f"the master daemon did not answer in {TIMEOUT_SECONDS:g} s"
        except errors.GantryError:
            return "the master daemon does not answer"
        return ""
