from collections.abc import Iterator

import pytest
from tests.doors.neutron import talk

from gantry.daemons import remote
from gantry.sim import cluster


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as simulated:
        patch.setattr(cluster, "SEGMENTS", talk.SETTINGS.encode())
        simulated.run(simulated.build())
        simulated.run(simulated.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": True}))
        simulated.run(simulated.master.disk.write(cluster.FOLDERS.users, talk.USERS.encode()))
        yield simulated


@pytest.fixture(scope="module")
def client(lab: cluster.SimulatedCluster) -> talk.Talk:
    return talk.Talk(lab, remote.neutron_server(lab.master, cluster.FOLDERS))


@pytest.fixture
def clean(client: talk.Talk) -> Iterator[talk.Talk]:
    """A client of an API without objects."""
    client.clear()
    yield client
    client.clear()
