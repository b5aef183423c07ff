"""A node's record of the lease that it granted."""

import pytest
from tests.state import build

from gantry.node.membership import lease
from gantry.rpc import calls
from gantry.runtime import simulated

PATH = f"{build.WHERE.lib}/lease"


@pytest.mark.parametrize("content", [b"", bytes(range(256)), b'{"node":"a","epoch":%s}' % (b"9" * 4002), None])
def test_a_lease_that_cannot_be_read_belongs_to_an_unknown_node_until_it_ends(content: bytes | None) -> None:
    """None is a folder in the place of the file."""
    with simulated.World(seed=1) as world:
        machine = world.machine("one")

        async def damaged() -> lease.Lease:
            await machine.disk.make_directory(build.WHERE.lib)
            await (machine.disk.make_directory(PATH) if content is None else machine.disk.write(PATH, content))
            return lease.Lease(machine, build.WHERE)

        granted = build.on(world, machine, damaged())
        assert granted.status().node == "a node that cannot be read"
        assert granted.seconds_to_wait("node2", stopped={"node1": 99}) == pytest.approx(calls.LEASE_SECONDS)
        world.run(machine.clock.sleep(calls.LEASE_SECONDS))
        assert granted.seconds_to_wait("node2", stopped={}) == 0
