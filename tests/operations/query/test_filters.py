"""Filters of queries: prefix lists as clients send them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry import errors
from gantry.model import fields
from gantry.operations.query import cells, filters

ROW: dict[str, object] = {
    "name": "node1.example.com",
    "offline": False,
    "mfree": 2048,
    "tags": ["blue", "green"],
    "received_ts": (1000, 500_000),
    "os": "debian+small",
    "empty": "",
    "nothing": None,
    "silent": cells.Missing.NO_DATA,
    "absent": cells.Missing.UNAVAILABLE,
}


def passes(raw: object) -> bool:
    return filters.compile_filter(raw)(lambda name: ROW[name])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, True),
        (["=", "mfree", 2048], True),
        (["==", "mfree", 2048.0], True),
        (["=", "mfree", "2048"], False),
        (["!=", "mfree", 2048], False),
        (["!=", "os", "plain"], True),
        (["<", "mfree", 4096], True),
        ([">", "mfree", 2048], False),
        ([">=", "mfree", 2048], True),
        (["<=", "mfree", 2047.5], False),
        (["<", "os", "zebra"], True),
        (["<", "os", 5], False),
        (["<", "mfree", "zebra"], False),
        (["=", "offline", False], True),
        (["=", "offline", True], False),
        (["?", "offline"], False),
        (["?", "mfree"], True),
        (["?", "empty"], False),
        (["?", "nothing"], False),
        (["=~", "os", "^debian"], True),
        (["=~", "os", "small$"], True),
        (["=~", "os", "^small"], False),
        (["=~", "mfree", "^20"], True),
        (["=[]", "tags", "blue"], True),
        (["=[]", "tags", "red"], False),
        (["=[]", "os", "d"], False),
        (["=", "received_ts", 1000.5], True),
        ([">", "received_ts", 1000], True),
        (["!", ["=", "mfree", 2048]], False),
        (["&", ["?", "mfree"], ["=", "os", "debian+small"]], True),
        (["&", ["?", "mfree"], ["?", "offline"]], False),
        (["&"], True),
        (["|", ["?", "offline"], ["?", "mfree"]], True),
        (["|"], False),
        (["|", ["=", "os", "plain"], ["==", "os", "debian+small"]], True),
        (["|", ["=", "os", "plain"], ["=", "os", "other"]], False),
        (["|", ["=", "os", "plain"], ["=", "mfree", 2048]], True),
        (["|", ["=", "os", "plain"], ["=", "tags", "plain"]], False),
        (["|", ["=", "tags", "blue"], ["=", "tags", "red"]], False),
        (["&", None, ["|", None]], True),
    ],
)
def test_the_operators(raw: object, expected: bool) -> None:
    assert passes(raw) is expected


def test_a_choice_of_a_thousand_names_looks_once_at_each_row() -> None:
    looked: list[str] = []

    def row(name: str) -> cells.Cell:
        looked.append(name)
        return "n999.example"

    test = filters.compile_filter(["|", *(["=", "name", f"n{number}"] for number in range(1000))])
    assert test(row)
    assert looked == ["name"]


@pytest.mark.parametrize("operator", ["=", "=="])
def test_host_names_are_compared_in_short_too(operator: str) -> None:
    assert passes([operator, "name", "node1"])
    assert passes([operator, "name", "node1.example.com"])
    assert not passes([operator, "name", "node"])
    assert not passes([operator, "os", "debian"])
    assert not passes(["!=", "name", "node1"])
    assert passes(["!=", "name", "node2"])


@pytest.mark.parametrize("name", ["silent", "absent", "nothing"])
@pytest.mark.parametrize("operator", ["=", "==", "<", ">", "<=", ">=", "=~", "=[]"])
def test_a_value_that_is_missing_equals_nothing(operator: str, name: str) -> None:
    for value in ("x", "", "None", 0):
        assert not passes([operator, name, value])
        assert passes(["!", [operator, name, value]])
        assert passes(["!=", name, value])
    assert not passes(["|", [operator, name, "x"], [operator, name, "y"]])
    assert not passes(["?", name])
    assert passes(["!", ["?", name]])


def test_a_host_name_that_is_missing_equals_nothing_either() -> None:
    for operator, expected in (("=", False), ("!=", True)):
        assert filters.compile_filter([operator, "pnode", "x"])(lambda _: cells.Missing.NO_DATA) is expected


LISTS: dict[str, object] = {
    "nic.ips": [["192.0.2.10", "2001:db8::5"], [], ["192.0.2.20"]],
    "nic.macs": ["aa:00:00:12:34:56", None],
    "nic.ip/0": ["192.0.2.10", "2001:db8::5"],
    "nic.ip/1": [],
    "disk.sizes": [1024, 64],
    "address_list": [["192.0.2.10", "web1", 0], ["192.0.2.11", "web2", None]],
    "subnets": [{"cidr": "192.0.2.0/24", "pools": [{"name": "front"}]}],
    "hvparams": {"acpi": True},
}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (["=[]", "nic.ips", "192.0.2.20"], True),
        (["=[]", "nic.ips", "192.0.2.2"], False),
        (["=[]", "nic.ips", "2001:DB8:0:0::5"], True),
        (["=[]", "nic.macs", "AA:00:00:12:34:56"], True),
        (["=[]", "nic.macs", "None"], False),
        (["=[]", "disk.sizes", 64], True),
        (["=[]", "address_list", "web2"], True),
        (["=[]", "address_list", "192.0.2.12"], False),
        (["=[]", "subnets", "192.0.2.0/24"], True),
        (["=[]", "subnets", "front"], True),
        (["=[]", "hvparams", "acpi"], False),
        (["=~", "nic.ips", r"^192\.0\.2\.20$"], True),
        (["=~", "nic.ips", "^None$"], False),
        (["=~", "nic.macs", "None"], False),
        (["=", "nic.ip/0", "192.0.2.10"], True),
        (["=", "nic.ip/0", "2001:db8:0::5"], True),
        (["=", "nic.ip/0", "9.9.9.9"], False),
        (["!=", "nic.ip/0", "192.0.2.10"], False),
        (["!=", "nic.ip/0", "9.9.9.9"], True),
        (["!=", "nic.ip/1", "9.9.9.9"], True),
        (["=", "nic.ip/1", "9.9.9.9"], False),
        (["=~", "nic.ip/0", "^192"], True),
        (["=[]", "nic.ip/0", "192.0.2.10"], True),
        (["|", ["=", "nic.ip/0", "9.9.9.9"], ["=", "nic.ip/0", "192.0.2.10"]], True),
    ],
)
def test_a_list_contains_what_its_rows_contain(raw: object, expected: bool) -> None:
    assert filters.compile_filter(raw)(lambda name: LISTS[name]) is expected


def check(what: str, raw: object) -> None:
    filters.check(raw, {field.name: field for field in fields.lookup(what, sorted(filters.fields_of(raw)))})


@pytest.mark.parametrize(
    ("what", "raw", "problem"),
    [
        ("instance", ["=", "nic.ips", "A"], 'cannot compare nic.ips = "A": nic.ips is a list of texts; write "A" in'),
        ("instance", ["!", ["!=", "tags", "a"]], "tags is a list of texts"),
        ("instance", ["&", ["?", "admin_up"], ["=[]", "name", "a"]], '"a" in name: name is text; write name == "a"'),
        ("instance", ["=[]", "tags", 5], "5 in tags: tags is a list of texts"),
        ("instance", ["=[]", "disk.sizes", "64"], "disk.sizes is a list of numbers; write NUMBER in disk.sizes"),
        ("instance", ["=", "be/maxmem", "128"], "be/maxmem is a number; write be/maxmem == NUMBER, without quotes"),
        ("instance", ["=[]", "be/maxmem", 128], "be/maxmem is a number"),
        ("instance", ["!=", "os", 5], "os is text"),
        ("instance", ["=", "admin_up", "yes"], "admin_up is true or false; write admin_up, or not admin_up"),
        ("instance", ["=", "admin_up", 5], "admin_up is true or false"),
        ("instance", ["<", "admin_up", 1], "admin_up is true or false"),
        ("instance", ["=[]", "hvparams", "acpi"], "hvparams is a set of parameters; compare the field of one"),
        ("instance", ["=", "nic.ip/0", 5], "nic.ip/0 is the addresses of a NIC"),
        ("node", ["|", ["?", "offline"], [">", "mfree", "many"]], "mfree is a number"),
        ("job", ["<", "received_ts", "x"], "received_ts is a time"),
        ("network", ["=", "subnets", "10.1.0.0/28"], "subnets is a list"),
    ],
)
def test_a_comparison_that_can_never_be_true_is_refused(what: str, raw: object, problem: str) -> None:
    with pytest.raises(errors.FilterError, match=re.escape(problem)):
        check(what, raw)


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("instance", None),
        ("instance", ["=[]", "nic.ips", "A"]),
        ("instance", ["=[]", "disk.sizes", 64]),
        ("instance", ["=~", "tags", "A"]),
        ("instance", ["?", "tags"]),
        ("instance", ["=", "nic.ip/0", "A"]),
        ("instance", ["=[]", "nic.ip/0", "A"]),
        ("instance", ["=", "admin_up", True]),
        ("instance", ["!=", "admin_up", 0]),
        ("instance", ["<", "os", "A"]),
        ("instance", [">=", "oper_ram", 2.5]),
        ("instance", ["=", "beparam/maxmem", 128]),
        ("network", ["=", "gateway", "A"]),
        ("network", ["=[]", "address_list", "A"]),
        ("network", ["=[]", "address_list", 0]),
        ("job", [">", "received_ts", 5.5]),
        ("node", ["=", "ctime", 1]),
    ],
)
def test_a_comparison_that_can_be_true_is_not(what: str, raw: object) -> None:
    check(what, raw)


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "name",
        7,
        {"=": 1},
        ["="],
        ["=", "name"],
        ["=", 5, "name"],
        ["=", "name", None],
        ["=", "name", ["a"]],
        ["=", "name", "a", "b"],
        ["%", "name", 1],
        ["!"],
        ["!", ["?", "a"], ["?", "b"]],
        ["?", 5],
        ["?"],
        ["&", "name"],
        ["|", ["=", "name"]],
        [["=", "name", "x"]],
        ["=~", "name", "("],
        ["=~", "name", "(" * 5000 + ")" * 5000],
    ],
)
def test_what_is_no_filter_is_refused(raw: object) -> None:
    with pytest.raises(errors.FilterError):
        filters.compile_filter(raw)


def nested(depth: int) -> object:
    raw: object = ["?", "mfree"]
    for _ in range(depth):
        raw = ["!", raw]
    return raw


def test_the_depth_is_limited() -> None:
    assert passes(nested(filters.DEPTH_LIMIT)) is True
    for depth in (filters.DEPTH_LIMIT + 1, 900):
        with pytest.raises(errors.FilterError, match="nested deeper than 32"):
            filters.compile_filter(nested(depth))


VALUES = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none())
OPERATORS = st.sampled_from(["=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]", "?", "!", "&", "|", ""]) | st.text()
NAMES = st.sampled_from(sorted(ROW))
RAW = st.recursive(
    st.lists(VALUES, max_size=3) | st.tuples(OPERATORS, NAMES, VALUES).map(list) | VALUES,
    lambda inner: st.tuples(OPERATORS, inner, inner).map(list) | st.tuples(OPERATORS, inner).map(list),
    max_leaves=8,
)


@settings(deadline=None, max_examples=500)
@given(RAW)
def test_whatever_comes_is_answered_or_refused(raw: object) -> None:
    try:
        test = filters.compile_filter(raw)
    except errors.FilterError:
        return
    looked_at = set()

    def look(name: str) -> object:
        looked_at.add(name)
        return ROW.get(name)

    assert test(look) in (True, False)
    assert looked_at <= filters.fields_of(raw)
    filters.names_of(raw, "name")


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (["=", "name", "a"], ["a"]),
        (["|", ["=", "name", "b"], ["==", "name", "a"]], ["b", "a"]),
        (["|", ["=", "name", "b"], ["|", ["=", "name", "a"], ["=", "name", "b"]]], ["b", "a", "b"]),
        (["|", ["=", "name", "b"], ["=", "os", "a"]], None),
        (["&", ["=", "name", "b"]], None),
        (["!=", "name", "b"], None),
        (["|"], None),
        (None, None),
        ("name", None),
    ],
)
def test_a_choice_of_names_is_a_list_of_names(raw: object, names: list[str] | None) -> None:
    assert filters.names_of(raw, "name") == names


def test_the_fields_that_a_filter_looks_at() -> None:
    raw = ["&", ["=", "a", 1], ["!", ["|", ["?", "b"], ["=~", "c", "x"]]]]
    assert filters.fields_of(raw) == {"a", "b", "c"}
    assert filters.fields_of(None) == set()
