from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kubernetes.contract import backends, namespace


@pytest.fixture
async def entrance(backend: backends.Backend, tmp_path: Path) -> backends.Entrance:
    return await backends.entrance(backend, tmp_path)


@pytest.fixture
async def kube(entrance: backends.Entrance) -> AsyncIterator[namespace.Namespace]:
    """The server, and a namespace for the test."""
    async with namespace.temporary(entrance) as namespaced:
        yield namespaced
