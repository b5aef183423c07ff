"""The Debian below the machines of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install import machines


@pytest.fixture(scope="session")
def debian() -> Iterator[Path]:
    """The Debian on which each machine begins, with the packages to install."""
    with machines.base() as below:
        yield below
