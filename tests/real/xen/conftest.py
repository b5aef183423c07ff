"""One machine with Xen for the tests of this folder: it takes half a minute to boot, and works also while it idles."""

from collections.abc import Iterator

import pytest
from tests.real.nodes import lab
from tests.real.xen import host


@pytest.fixture(scope="module")
def running() -> Iterator[lab.Lab]:
    with lab.up(1, disks=(), kind=host.Host) as xen:
        yield xen


@pytest.fixture
def xen(running: lab.Lab) -> Iterator[lab.Lab]:
    with running.entered():
        yield running
