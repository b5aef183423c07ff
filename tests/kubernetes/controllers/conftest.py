from collections.abc import Iterator

import pytest
from tests.kubernetes.controllers import api

from gantry.runtime import simulated


@pytest.fixture
def kube() -> Iterator[api.SimulatedKubernetes]:
    with simulated.World(seed=7) as world:
        kube = api.SimulatedKubernetes(world)
        world.run(kube.open())
        yield kube
