"""What a daemon changes of the loggers when it runs in the process of the tests, and the way back."""

import contextlib
import logging
from collections.abc import Iterator

CHANGED = ("", "gantry", "gantry.access", "aiohttp", "asyncio")


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Restore levels and handlers after the block; the root logger keeps the handlers that pytest gives it."""
    loggers = [logging.getLogger(name) for name in CHANGED]
    before = [(logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.propagate = propagate
            if logger.name != "root":
                logger.handlers = handlers
