from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kubernetes.apiserver import api


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[api.Api]:
    async with api.api(tmp_path) as client:
        yield client
