"""When an administrator of the simulation copies the keys of the candidates to a node, and when not."""

import pytest

from gantry.sim import cluster, introduction, story


@pytest.mark.parametrize(
    ("lines", "copies"),
    [
        ({"node1": "k1", "node2": "k2", "node3": "k3"}, False),
        ({"node2": "k2", "node3": "k3", "x": "kx"}, False),  # the master is introduced by a majority of these
        ({"node2": "k2", "x": "kx"}, True),
        ({"node1": "an earlier key", "node2": "k2", "x": "kx"}, True),
        ({"node1": "k1", "x": "kx", "y": "ky"}, False),
        ({}, False),
    ],
)
def test_keys_are_copied_to_a_node_if_too_few_candidates_can_introduce_the_master(
    lines: dict[str, str], *, copies: bool
) -> None:
    async def scenario() -> None:
        await lab.build()
        present = lab.world.machine("node1").disk.read(introduction.PATH).decode()
        uuids = {node.name: uuid for uuid, node in lab.daemons["node1"].store.durable.nodes.items()}
        keys = dict(line.split("=", 1) for line in present.splitlines())
        known = {uuids.get(name, name): key for name, key in lines.items()}
        known = {uuid: keys[uuid] if key.startswith("k") and uuid in keys else key for uuid, key in known.items()}
        disk = lab.world.machine("node3").disk
        before = "".join(f"{uuid}={key}\n" for uuid, key in known.items())
        await disk.write(introduction.PATH, before.encode())
        assert await introduction.introduce(lab, run_story=story.Story(lab.world.clock)) is copies
        assert disk.read(introduction.PATH).decode() == (present if copies else before)

    with cluster.SimulatedCluster(seed=1, nodes=3) as lab:
        lab.run(scenario())
