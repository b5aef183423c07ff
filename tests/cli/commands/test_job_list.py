"""The columns that ``gnt-job list`` has for a person, and those that scripts read."""

import json
from typing import Any

import pytest
from tests.cli.conftest import Gnt, Master

NOW = 1_000_000
LONG = "x" * 80
JOBS: list[dict[str, Any]] = [
    {"status": "success", "age": 200_000, "user": "gnt-node", "error": None},
    {"status": "error", "age": 7300, "user": "monitor", "error": "no room"},
    {"status": "error", "age": 150, "user": None, "error": LONG},
    {"status": "running", "age": 5, "user": "watcher", "error": None},
]


def _matches(where: Any, row: dict[str, Any]) -> bool:
    match where:
        case None:
            return True
        case ["|", *parts]:
            return any(_matches(part, row) for part in parts)
        case ["&", *parts]:
            return all(_matches(part, row) for part in parts)
    operator, field, value = where
    assert operator == "="
    return bool(row[field] == value)


@pytest.fixture(autouse=True)
def _jobs(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {
            "id": number,
            "status": job["status"],
            "summary": f"DELAY({number})",
            "received_ts": [NOW - job["age"], 0],
            "user": job["user"],
            "error": job["error"],
        }
        for number, job in enumerate(JOBS, 1)
    ]

    def query(_: str, fields: list[str], where: object) -> dict[str, object]:
        heads = [{"name": name, "title": name.title(), "kind": "text"} for name in fields]
        cells = [
            [[3 if row[name] is None else 0, row[name]] for name in fields] for row in rows if _matches(where, row)
        ]
        return {"fields": heads, "data": cells}

    master.answers["Query"] = query
    monkeypatch.setattr("gantry.cli.commands.job_list.time.time", lambda: float(NOW))


def cells(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.splitlines()]


def test_the_columns_for_a_person_are_behind_those_of_scripts(gnt: Gnt) -> None:
    lines = gnt("gnt-job list").out.splitlines()
    assert lines[0].split() == ["Id", "Status", "Summary", "User", "Age", "Error"]
    assert lines[1].split() == ["1", "success", "DELAY(1)", "gnt-node", "2", "d", "-"]
    assert lines[2].split() == ["2", "error", "DELAY(2)", "monitor", "2", "h", "no", "room"]
    assert lines[3].split() == ["3", "error", "DELAY(3)", "-", "2", "m", "x" * 57 + "..."]
    assert lines[4].split() == ["4", "running", "DELAY(4)", "watcher", "5", "s", "-"]


@pytest.mark.parametrize("options", ["--no-headers", "--separator=|", "--no-headers --separator=|", "--format csv"])
def test_scripts_get_the_columns_that_they_know(gnt: Gnt, master: Master, options: str) -> None:
    assert "DELAY(4)" in gnt(f"gnt-job list {options}").out
    assert [arguments[1] for _, arguments in master.requests] == [["id", "status", "summary"]]


def test_columns_can_be_chosen_and_stand_where_they_are_named(gnt: Gnt) -> None:
    ran = gnt("gnt-job list --no-headers --separator=| -o age,id,error,user 2")
    assert cells(ran.out) == [["2 h", "2", "no room", "monitor"]]
    assert cells(gnt("gnt-job list --separator=| -o +age --error").out)[1] == ["2", "error", "DELAY(2)", "2 h"]
    assert json.loads(gnt("gnt-job list --format json -o id,error 2").out) == [{"id": 2, "error": "no room"}]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("--newest 2", ["3", "4"]),
        ("--newest 9", ["1", "2", "3", "4"]),
        ("--newest 1 --error", ["3"]),
        ("--newest 1 1 2", ["2"]),
        ("--newest 3 --pending", []),
    ],
)
def test_the_newest_jobs_are_listed_last(gnt: Gnt, options: str, ids: list[str]) -> None:
    ran = gnt(f"gnt-job list --no-headers -o id {options}")
    assert ran.code == 0
    assert ran.out.split() == ids


def test_the_newest_of_nothing_is_refused(gnt: Gnt) -> None:
    assert "--newest must be at least 1" in gnt("gnt-job list --newest 0").err


def test_the_master_is_asked_for_the_columns_of_the_table_alone(gnt: Gnt, master: Master) -> None:
    gnt("gnt-job list")
    gnt("gnt-job list --newest 3")
    assert [arguments[1] for _, arguments in master.requests] == [
        ["id", "status", "summary", "user", "received_ts", "error"],
        ["id"],
        ["id", "status", "summary", "user", "received_ts", "error"],
    ]


def test_the_fields_include_the_columns_for_a_person(gnt: Gnt, master: Master) -> None:
    master.answers["QueryFields"] = lambda _, names: {
        "fields": [{"name": name, "title": name, "kind": "text"} for name in names or ["id", "status"]]
    }
    listed = [line.split()[0] for line in gnt("gnt-job list-fields --no-headers").out.splitlines()]
    assert listed == ["id", "status", "age"]
    assert [line.split()[0] for line in gnt("gnt-job list-fields --no-headers age").out.splitlines()] == ["age"]
    assert [line.split()[0] for line in gnt("gnt-job list-fields --no-headers id age").out.splitlines()] == [
        "id",
        "age",
    ]


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0, "0 s"), (119, "119 s"), (120, "2 m"), (7199, "119 m"), (7200, "2 h"), (172799, "47 h"), (172800, "2 d")],
)
def test_an_age_is_in_its_largest_unit(gnt: Gnt, monkeypatch: pytest.MonkeyPatch, seconds: int, age: str) -> None:
    submitted = NOW - JOBS[3]["age"]
    monkeypatch.setattr("gantry.cli.commands.job_list.time.time", lambda: float(submitted + seconds))
    assert gnt("gnt-job list --no-headers -o age 4").out == f"{age}\n"
