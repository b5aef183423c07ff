"""The two engines: every test that asks for ``url`` runs on a fresh database of each."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres

from gantry.ipam.sql import engines, schema

ENGINES = ["sqlite", pytest.param("postgresql", marks=postgres.NEEDS)]

_number = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    with postgres.running() as running:
        yield running


@pytest.fixture(params=ENGINES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/ipam.db"
    server: postgres.Server = request.getfixturevalue("server")
    return server.create(f"ipam{next(_number)}")


@pytest.fixture
def url(empty_url: str) -> str:
    """The URL of a database with the driver's tables."""
    database = engines.open_database(empty_url)
    schema.prepare(database)
    database.close()
    return empty_url


@pytest.fixture
def database(url: str) -> Iterator[engines.Database]:
    opened = engines.open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def second(url: str) -> Iterator[engines.Database]:
    """The same database for another process."""
    opened = engines.open_database(url)
    yield opened
    opened.close()
