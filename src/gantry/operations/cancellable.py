"""Wait for work on a node that may take long, and stop the work there when its job is canceled.

Scripts of an OS or of an administrator may hang: for a password, a mirror or a lock. Copying a large disk takes long.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gantry import errors
from gantry.operations import base

Result = TypeVar("Result")

POLL_INTERVAL_SECONDS = 1.0
"""Interval between two checks whether the job was canceled."""


async def run(
    environment: base.Environment,
    work: Awaitable[Result],
    stop: Callable[[], Awaitable[object]],
    *,
    look: Callable[[], Awaitable[None]] | None = None,
) -> Result:
    """Return the result of ``work``; if the job is canceled, call ``stop`` to end it on the node: JobCanceledError.

    ``look`` is called about once in ``POLL_INTERVAL_SECONDS`` until the work has ended, never twice at a time.
    """
    with environment.stoppable() as canceled:
        running = asyncio.ensure_future(work)
        looking: asyncio.Future[None] | None = None
        try:
            while not running.done():
                if canceled():
                    await stop()
                    await asyncio.wait([running])
                    raise errors.JobCanceledError
                await asyncio.wait([running], timeout=POLL_INTERVAL_SECONDS)
                if look and not running.done() and (looking is None or looking.done()):
                    looking = asyncio.ensure_future(look())
            return running.result()
        finally:
            running.cancel()
            if looking:
                looking.cancel()
