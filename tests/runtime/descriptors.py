"""A process that has no file descriptor left, for a test."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def exhausted() -> Iterator[None]:
    """Let the process open no file meanwhile; one that it closes leaves its descriptor to the next."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(2)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
