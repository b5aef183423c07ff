from collections.abc import Iterator

import pytest
from tests import loggers
from tests.doors import talk

from gantry.doors import luxi
from gantry.sim import cluster


@pytest.fixture(autouse=True)
def restored_loggers() -> Iterator[None]:
    """A daemon that runs here configures the loggers of its process, which tests of other files read."""
    with loggers.kept():
        yield


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as simulated:
        patch.setattr(luxi, "MESSAGE_LIMIT", talk.LIMIT)
        simulated.run(simulated.build())
        simulated.run(simulated.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"}))
        simulated.run(
            simulated.done(
                {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False}
            )
        )
        simulated.run(simulated.done({"OP_ID": "OP_WEBHOOK_ADD", "name": "hook", "url": "https://hooks.example/in"}))
        yield simulated
