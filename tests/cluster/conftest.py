"""Clusters for the tests of this folder: one that they share, and one of their own for those that break it."""

from collections.abc import Iterator

import pytest
from tests.cluster import lab, wires


@pytest.fixture(scope="session")
def shared() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.add_network()
        yield cluster_lab


@pytest.fixture
def own() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_network()
        yield cluster_lab


@pytest.fixture
def wire(shared: lab.Lab) -> Iterator[wires.Wire]:
    """A cable without anything on it."""
    wire = wires.create_wire(shared)
    yield wire
    wire.remove()


@pytest.fixture
def lan(shared: lab.Lab) -> Iterator[wires.Wire]:
    """A cable with an IPv4 subnet, without a pool."""
    wire = wires.create_wire(shared, "--subnet cidr=192.0.2.0/24,gateway=192.0.2.1,name=lan")
    yield wire
    wire.remove()
