from collections.abc import Iterator

import pytest
from tests.kubernetes import server_process
from tests.kubernetes.contract import backends
from tests.kubernetes.real import server


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=server.NEEDS)])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[backends.Backend]:
    """One server for all tests of a process; each test has a namespace of its own."""
    if request.param == "real":
        with server.running() as real:
            yield real
        return
    with server_process.running(tmp_path_factory.mktemp("kube")) as embedded:
        yield embedded
