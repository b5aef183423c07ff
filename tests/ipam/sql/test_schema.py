"""Tables: made by the steps in order, which are the schema; changed while older programs still run."""

import concurrent.futures
import contextlib
import re
import sqlite3
from pathlib import Path

import pytest
from tests import postgres

from gantry import errors
from gantry.ipam.sql import driver, engines, program, requests, schema, statements

TABLES = [
    "gantry_allocations",
    "gantry_masters",
    "gantry_migrations",
    "gantry_pools",
    "gantry_ranges",
    "gantry_subnets",
]
OF_SQLITE = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'gantry%' ORDER BY name"
OF_POSTGRESQL = (
    "SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default FROM"
    " information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, column_name",
    "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace ORDER BY conname",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname",
)


def structure(url: str, request: pytest.FixtureRequest) -> list[list[object]]:
    """All that a database says of its tables."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite://"))) as connection:
            return [[re.sub(r"\s+", " ", str(cell)) for cell in row] for row in connection.execute(OF_SQLITE)]
    server: postgres.Server = request.getfixturevalue("server")
    return [list(row) for query in OF_POSTGRESQL for row in server.run(url.rpartition("/")[2], query)]


@pytest.fixture
def another_url(request: pytest.FixtureRequest, empty_url: str) -> str:
    if empty_url.startswith("sqlite"):
        return empty_url.replace(".db", "2.db")
    server: postgres.Server = request.getfixturevalue("server")
    return server.create("other_" + empty_url.rpartition("/")[2])


@pytest.mark.promise("ipam-6")
@pytest.mark.round
def test_all_steps_in_order_make_the_schema(empty_url: str, another_url: str, request: pytest.FixtureRequest) -> None:
    stepwise, whole = engines.open_database(empty_url), engines.open_database(another_url)

    assert schema.prepare(stepwise) == schema.steps()
    whole.change(lambda db: db.script(statements.resource("schema.sql")))

    assert structure(empty_url, request) == structure(another_url, request)
    assert {table for table in TABLES if table in str(structure(empty_url, request))} == set(TABLES)


def test_a_second_prepare_changes_nothing(url: str) -> None:
    database = engines.open_database(url)
    assert schema.prepare(database) == schema.finish(database) == []
    schema.check(database)


def test_many_processes_prepare_one_database_at_once(empty_url: str) -> None:
    databases = [engines.open_database(empty_url) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        applied = list(pool.map(schema.prepare, databases, timeout=60))

    assert sorted(applied) == [*[[]] * 7, schema.steps()]


def test_a_check_refuses_a_database_without_tables_and_accepts_a_prepared_one(
    empty_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ipam = driver.Driver(engines.open_database(empty_url), below=lambda _: 0)
    with pytest.raises(errors.ConfigurationError, match="gantry-ipam prepare"):
        ipam.allocate("s", requests.AnyAddress())
    assert program.main(["check", empty_url]) == 2
    assert (
        "lacks the migration steps 0001-before-tables, 0002-before-masters; "
        "create or upgrade its tables: gantry-ipam prepare" in capsys.readouterr().err
    )

    assert [program.main([action, empty_url]) for action in ("prepare", "finish", "check")] == [0, 0, 0]
    assert capsys.readouterr().out.splitlines()[-1].endswith(" can be used by this version")
    assert ipam.subnets() == []


class Release:
    """A release with more steps than this one: each is its name and its SQL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: dict[str, str]) -> None:
        known, read = schema.steps(), statements.resource
        more = {f"{name}.sql": text for name, text in steps.items()}
        monkeypatch.setattr(schema, "steps", lambda: sorted([*known, *steps]))
        monkeypatch.setattr(statements, "resource", lambda *path: more.get(path[-1]) or read(*path))


ADD = "ALTER TABLE gantry_subnets ADD COLUMN remark TEXT NOT NULL DEFAULT '';\n"
DROP = "ALTER TABLE gantry_subnets DROP COLUMN remark;\n"


def test_an_older_program_works_on_between_the_steps_before_and_those_after(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = engines.open_database(url)
    ipam = driver.Driver(database, below=lambda _: 0)
    with monkeypatch.context() as newer:
        Release(newer, {"0003-before-remark": ADD, "0004-after-remark": DROP})
        with pytest.raises(errors.ConfigurationError, match="lacks the migration steps 0003-before-remark"):
            schema.check(database)
        assert schema.prepare(database) == ["0003-before-remark"]
        schema.check(database)

    schema.check(database)
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.0/24"])
    assert ipam.allocate("s", requests.AnyAddress()) == "10.0.0.1"

    with monkeypatch.context() as newer:
        Release(newer, {"0003-before-remark": ADD, "0004-after-remark": DROP})
        assert schema.finish(database) == ["0004-after-remark"]
    for refused in (schema.check, schema.prepare):
        with pytest.raises(
            errors.ConfigurationError, match="upgraded by a newer program, with the steps 0004-after-remark"
        ):
            refused(database)


def test_an_upgrade_is_finished_before_the_next_one_begins(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = engines.open_database(url)
    Release(monkeypatch, {"0003-after-remark": ADD, "0004-before-remark": DROP})

    with pytest.raises(errors.ConfigurationError, match="is not finished: steps 0003-after-remark are missing"):
        schema.prepare(database)
    assert schema.finish(database) == ["0003-after-remark", "0004-before-remark"]


def test_steps_are_numbered_and_say_when_they_are_applied() -> None:
    assert [step for step in schema.steps() if not re.fullmatch(r"\d{4}-(before|after)-[a-z-]+", step)] == []
    assert [int(step[:4]) for step in schema.steps()] == list(range(1, len(schema.steps()) + 1))


@pytest.mark.promise("ipam-39")
def test_the_developers_page_tells_what_each_table_holds() -> None:
    page = Path("docs/explanation/sql-ipam.md").read_text()
    tables = re.findall(r"^CREATE TABLE (\w+)", statements.resource("schema.sql"), re.MULTILINE)
    assert sorted(tables) == TABLES
    assert [table for table in tables if f"| `{table}` |" not in page] == []
