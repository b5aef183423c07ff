"""A hundred rounds of cut, heal, cut again, under load: the master is cut off, and mostly replaced meanwhile."""

import os

import pytest
from tests.cluster import cut_cables
from tests.node import samples

pytestmark = [
    pytest.mark.skipif(not os.environ.get("GANTRY_LONG"), reason="takes an hour; make test-long runs it"),
    pytest.mark.timeout(3 * 3600),
    pytest.mark.skipif(not samples.HAS_NAMESPACES, reason="network namespaces need root and the ip command"),
]

ROUNDS = int(os.environ.get("GANTRY_ROUNDS", "100"))


def test_a_hundred_cuts_lose_nothing_acknowledged_and_give_nothing_twice() -> None:
    with cut_cables.cluster_of(3) as cluster:
        acknowledged = cut_cables.play(cluster, rounds=ROUNDS, seed=18)
        print(
            f"{ROUNDS} rounds: {len(acknowledged.jobs)} jobs and {len(acknowledged.created)} instances acknowledged, "
            f"{acknowledged.refused} requests refused, {acknowledged.in_doubt} not acknowledged"
        )
        cut_cables.check(cluster, acknowledged)
