from collections.abc import Iterator

import pytest
from tests.doors import talk

from gantry.doors import luxi
from gantry.sim import cluster


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as made:
        patch.setattr(luxi, "MESSAGE_LIMIT", talk.LIMIT)
        made.run(made.build())
        made.run(made.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"}))
        made.run(
            made.done(
                {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False}
            )
        )
        yield made
