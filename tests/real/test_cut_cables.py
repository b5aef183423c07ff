"""A cut cable does not make two masters: a few rounds on real daemons; ``tests/long`` has a hundred."""

from collections.abc import Iterator

import pytest
from tests.cluster import cut_cables
from tests.node import samples
from tests.real import demonstration

pytestmark = [
    pytest.mark.real,
    demonstration.MINUTES,
    pytest.mark.skipif(not samples.HAS_NAMESPACES, reason="network namespaces need root and the ip command"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[cut_cables.Cluster]:
    with cut_cables.cluster_of(3) as three:
        yield three


@pytest.mark.round
def test_cut_and_healed_once_nothing_acknowledged_is_lost_and_nothing_is_given_twice(
    cluster: cut_cables.Cluster,
) -> None:
    cut_cables.check(cluster, cut_cables.play(cluster, rounds=1, seed=7))


def test_cut_and_healed_under_load_nothing_acknowledged_is_lost_and_nothing_is_given_twice(
    cluster: cut_cables.Cluster,
) -> None:
    acknowledged = cut_cables.play(cluster, rounds=4, seed=5)
    cut_cables.check(cluster, acknowledged)
    assert acknowledged.refused
