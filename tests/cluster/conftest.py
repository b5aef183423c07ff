"""Clusters for the tests of this folder: one that they share, and one of their own for those that break it."""

from collections.abc import Iterator

import pytest
from tests.cluster import lab


@pytest.fixture(scope="session")
def shared() -> Iterator[lab.Lab]:
    with lab.lab() as made:
        made.init()
        made.add_node()
        made.add_network()
        yield made


@pytest.fixture
def own() -> Iterator[lab.Lab]:
    with lab.lab() as made:
        made.init()
        made.add_network()
        yield made
