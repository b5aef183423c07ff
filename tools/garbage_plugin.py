"""The pytest plugin that spares the garbage collector what the collection of tests makes, which stays until the end.

That is about a million objects, and a tenth of a worker's time was spent on them.
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, and exempt what exists then from it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
