"""A node's folders on a real, short path; a network namespace with a bridge."""

import os
import tempfile
from collections.abc import Iterator

import pytest
from tests.node import samples

from gantry.runtime import paths


@pytest.fixture
def folders() -> Iterator[paths.Paths]:
    with tempfile.TemporaryDirectory(prefix="g") as root:  # short: a socket's path ends at 107 bytes
        folders = paths.Paths.below(root)
        for folder in (folders.lib, folders.run, folders.log, folders.etc, folders.srv):
            os.mkdir(folder)
        yield folders


@pytest.fixture
def namespace() -> Iterator[str]:
    if not samples.HAS_NAMESPACES:
        pytest.skip("network namespaces need root and the ip command")
    with samples.namespace() as name:
        yield name
