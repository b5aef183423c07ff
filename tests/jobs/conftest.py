from collections.abc import Iterator

import pytest
from tests.jobs.simulated_jobs import SimulatedJobs

from gantry.runtime import simulated


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as world:
        yield world


@pytest.fixture
def lab(world: simulated.World) -> SimulatedJobs:
    return SimulatedJobs(world)
