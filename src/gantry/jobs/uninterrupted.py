"""Work that continues when its caller is canceled."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


async def finish(work: Coroutine[None, None, Result]) -> Result:
    """Finish the work even if the caller is canceled because its client disconnected."""
    task = asyncio.ensure_future(work)
    # The store logs its exception; retrieve it here so that asyncio does not warn.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)
