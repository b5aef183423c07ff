from collections.abc import Iterator

import pytest
from tests.jobs.house import House

from gantry.runtime import simulated


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as world:
        yield world


@pytest.fixture
def house(world: simulated.World) -> House:
    return House(world)
