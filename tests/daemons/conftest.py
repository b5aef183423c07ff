"""Daemons that run in the process of the tests."""

from collections.abc import Iterator

import pytest
from tests import loggers


@pytest.fixture(autouse=True)
def restored_loggers() -> Iterator[None]:
    """A daemon configures the loggers of its process, which tests of other files read."""
    with loggers.kept():
        yield
