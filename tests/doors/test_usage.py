"""The methods of LUXI about what nodes and instances use, by nodes that measure; simulated nodes do not."""

import asyncio
import types
from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from tests.doors.talk import failure

from gantry.doors.luxi import usage
from gantry.doors.luxi.services import Services
from gantry.rpc import calls, targets
from gantry.sim import cluster

VALUES = (1_800_000_000.0, 1.5, 20, 30, 40, 50, 60)
"""Time, processor, memory, read, written, received, sent."""


class MeasuringNodes:
    """Nodes with these values for themselves and for vm1; notes the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    async def fan_out(
        self, nodes: Sequence[targets.Target], call: calls.UsageNow
    ) -> list[targets.Answer[tuple[calls.Usage, ...]]]:
        self.calls += [(node.name, call) for node in nodes]
        measured: tuple[calls.Usage, ...] = (calls.Usage("", *VALUES), calls.Usage("vm1", *VALUES))
        return [targets.Answer(node, value=measured) for node in nodes] + [targets.Answer(node) for node in nodes]

    async def call(self, node: targets.Target, call: calls.UsageHistory) -> tuple[calls.Usage, ...]:
        self.calls.append((node.name, call))
        return (calls.Usage(call.name, *VALUES),)


@pytest.fixture
def nodes() -> MeasuringNodes:
    return MeasuringNodes()


@pytest.fixture
def services(lab: cluster.SimulatedCluster, nodes: MeasuringNodes) -> Services:
    state = lab.daemons[lab.leader].store.snapshot
    source = types.SimpleNamespace(nodes=nodes)
    return cast("Services", types.SimpleNamespace(view=lambda: None, snapshot=lambda: state, source=source))


def test_all_nodes_and_instances_have_the_newest_values_of_their_nodes(
    services: Services, nodes: MeasuringNodes
) -> None:
    used = [msgspec.structs.astuple(each) for each in asyncio.run(usage.now(services))]
    assert used == [("node1", "", *VALUES), ("node1", "vm1", *VALUES)]
    assert nodes.calls == [("node1", calls.UsageNow())]


@pytest.mark.parametrize(("kind", "name", "of"), [("node", "node1", ""), ("instance", "vm1", "vm1")])
def test_the_values_of_a_day_are_those_of_the_node_of_an_object(
    services: Services, nodes: MeasuringNodes, kind: str, name: str, of: str
) -> None:
    used = [msgspec.structs.astuple(each) for each in asyncio.run(usage.history(services, kind, name, 5.0))]
    assert used == [("node1", of, *VALUES)]
    assert nodes.calls == [("node1", calls.UsageHistory(name=of, since=5.0))]


def test_only_nodes_and_instances_are_measured(lab: cluster.SimulatedCluster) -> None:
    text = "nothing is known of what a network uses; the kinds are node, instance"
    assert failure(lab, "QueryUsageHistory", "network", "net1", 0) == ("OpPrereqError", text)
