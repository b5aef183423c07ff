"""Two nodes for all tests of this folder: booting them takes longer than most tests.

Who uses them is in the group ``nodes``, which one process of a parallel run has for its own: they are booted once.
"""

from collections.abc import Iterator

import pytest
from tests.real.nodes import lab, storage

# Two that mirror their disks, a pair for striping and a pair of which one is pulled.
SIZES = (192, 128, 64, 64)


@pytest.fixture(scope="session")
def running() -> Iterator[lab.Lab]:
    with lab.up(2, disks=SIZES) as machines:
        with machines.entered():
            for node in machines.nodes:
                pairs = [f"{node.device(index)} {node.device(index + 1)}" for index in (0, 2)]
                for group, disks in zip((storage.GROUP, storage.LOST), pairs, strict=True):
                    node.sh(f"vgcreate -qq {group} {disks}")
        yield machines


@pytest.fixture
def nodes(running: lab.Lab) -> Iterator[lab.Lab]:
    with running.entered():
        yield running
