"""A node leaves its cluster while none of its other calls is at work.

A call that writes a file of the cluster while the node removes them would make the removal fail, or leave its file
behind: such as the copies that nodes get after each change, for which no job waits.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator

from gantry import errors

ALONE_SECONDS = 20.0
"""How long a departure waits for the calls at work; those that write the cluster's files take less."""


class Departure:
    """The calls at work on a node, and whether it leaves its cluster."""

    def __init__(self) -> None:
        self._at_work = 0
        self._alone = asyncio.Event()
        self._alone.set()
        self._turn = asyncio.Lock()

    @contextlib.contextmanager
    def work(self) -> Generator[None, None, None]:
        """Count a call as at work; WrongStateError while the node leaves."""
        if self._turn.locked():
            raise errors.WrongStateError("this node is leaving its cluster")
        self._at_work += 1
        self._alone.clear()
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._alone.set()

    @contextlib.asynccontextmanager
    async def leave(self) -> AsyncGenerator[None, None]:
        """Be the only call at work during the block, after those that have begun; one departure at a time."""
        async with self._turn:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_SECONDS):
                    await self._alone.wait()
            yield
