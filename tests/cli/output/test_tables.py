import csv
import io
import json

import pytest
import yaml
from tests import effort

from gantry.cli import client
from gantry.cli.output import tables

FIELDS = [
    client.Field("name", "Node", "text", ""),
    client.Field("mfree", "MFree", "unit", ""),
    client.Field("pinst_cnt", "Pinst", "number", ""),
    client.Field("offline", "Offline", "bool", ""),
    client.Field("tags", "Tags", "other", ""),
]
TABLE = client.Table(
    FIELDS,
    [
        [(0, "node1"), (0, 512), (0, 3), (0, False), (0, ["a", "b"])],
        [(0, "node10"), (0, 3072), (0, 12), (0, True), (0, [])],
        [(0, "n2"), (2, None), (3, None), (4, None), (1, None)],
    ],
)


def test_a_table_aligns_numbers_to_the_right() -> None:
    assert tables.render(TABLE, tables.Style()).splitlines() == [
        "Node    MFree  Pinst  Offline  Tags",
        "node1    512M      3  N        a,b",
        "node10   3.0G     12  Y",
        "n2          ?      -  *        ??",
    ]


def test_words_say_why_a_value_is_missing() -> None:
    last = tables.render(TABLE, tables.Style(verbose=True)).splitlines()[-1]
    assert last.split() == ["n2", "(nodata)", "(unavail)", "(offline)", "(unknown)"]


def test_a_separator_leaves_no_padding_and_no_units() -> None:
    text = tables.render(TABLE, tables.Style(separator="|", headers=False))
    assert text.splitlines() == ["node1|512|3|N|a,b", "node10|3072|12|Y|", "n2|?|-|*|??"]


@pytest.mark.parametrize(("units", "memory"), [("h", "3.0G"), ("m", "3072"), ("g", "3.0"), ("t", "0.0")])
def test_units_may_be_chosen(units: str, memory: str) -> None:
    text = tables.render(TABLE, tables.Style(separator=",", headers=False, units=units))
    assert text.splitlines()[1].split(",")[1] == memory


def test_programs_get_names_and_nulls() -> None:
    records = [
        {"name": "node1", "mfree": 512, "pinst_cnt": 3, "offline": False, "tags": ["a", "b"]},
        {"name": "node10", "mfree": 3072, "pinst_cnt": 12, "offline": True, "tags": []},
        {"name": "n2", "mfree": None, "pinst_cnt": None, "offline": None, "tags": None},
    ]
    assert json.loads(tables.render(TABLE, tables.Style(format="json"))) == records
    assert yaml.safe_load(tables.render(TABLE, tables.Style(format="yaml"))) == records


def test_csv_quotes_what_needs_it() -> None:
    rows = list(csv.reader(io.StringIO(tables.render(TABLE, tables.Style(format="csv")))))
    assert rows[0] == ["name", "mfree", "pinst_cnt", "offline", "tags"]
    assert rows[1] == ["node1", "512", "3", "N", "a,b"]
    assert rows[3] == ["n2", "", "", "", ""]


@pytest.mark.parametrize("style", tables.FORMATS)
def test_no_rows_are_no_problem(style: str) -> None:
    text = tables.render(client.Table(FIELDS, []), tables.Style(format=style))
    assert "node1" not in text
    if style == "json":
        assert json.loads(text) == []


def test_a_thousand_rows_take_little_work() -> None:
    rows = [[(0, f"instance{i}"), (0, i), (0, i), (0, True), (0, ["x"])] for i in range(1000)]
    # The time that is promised is measured by the benchmarks.
    assert effort.lines(lambda: tables.render(client.Table(FIELDS, rows), tables.Style())) < 200 * len(rows)
