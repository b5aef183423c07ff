from collections.abc import Iterator

import pytest
from tests.kubernetes.controllers import api

from gantry.runtime import simulated


@pytest.fixture
def site() -> Iterator[api.Site]:
    with simulated.World(seed=7) as world:
        new_site = api.Site(world)
        world.run(new_site.open())
        yield new_site
