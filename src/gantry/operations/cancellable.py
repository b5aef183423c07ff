"""Work on a node that takes as long as somebody else's program does, and ends when its job is canceled.

Scripts of other people hang: they ask for a password, wait for a mirror, or for a lock. Disks are large.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gantry import errors
from gantry.operations import base

Result = TypeVar("Result")

LOOK = 1.0
"""Seconds between two looks whether the job was canceled."""


async def run(environment: base.Environment, work: Awaitable[Result], stop: Callable[[], Awaitable[object]]) -> Result:
    """Return what comes of ``work``, which ``stop`` ends on the node; JobCanceledError when it had to."""
    with environment.stoppable() as canceled:
        running = asyncio.ensure_future(work)
        try:
            while not running.done():
                if canceled():
                    await stop()
                    await asyncio.wait([running])
                    raise errors.JobCanceledError
                await asyncio.wait([running], timeout=LOOK)
            return running.result()
        finally:
            running.cancel()
