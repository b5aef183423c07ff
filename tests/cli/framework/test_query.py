import json
from typing import Any

import pytest
from tests.cli.conftest import Fault, Gnt, Master, table

ONE_INSTANCE = table("name:Instance:text", "oper_ram:Memory:unit", rows=[["web1", 512]])


def query_arguments(gnt: Gnt, master: Master, line: str) -> list[Any]:
    master.answers["Query"] = ONE_INSTANCE
    ran = gnt(line)
    assert ran.code == 0, ran.err
    method, arguments = master.requests[-1]
    assert method == "Query"
    return arguments


@pytest.mark.parametrize(
    ("line", "what", "columns"),
    [
        ("gnt-instance list", "instance", "name hypervisor os pnode status oper_ram"),
        ("gnt-node list", "node", "name dtotal dfree mtotal mnode mfree pinst_cnt sinst_cnt"),
        ("gnt-network list", "network", "name network gateway mac_prefix group_list tags cidrs"),
        ("gnt-job list --no-headers", "job", "id status summary"),
        ("gnt-debug locks", "lock", "name mode owner pending waits"),
        ("gnt-instance list -o name,ip", "instance", "name ip"),
        ("gnt-instance list -o +ip", "instance", "name hypervisor os pnode status oper_ram ip"),
        ("gnt-job list --archived --separator=,", "job", "id status summary archived"),
        ("gnt-job list --archived -o id", "job", "id archived"),
    ],
)
def test_lists_have_the_known_columns(gnt: Gnt, master: Master, line: str, what: str, columns: str) -> None:
    assert query_arguments(gnt, master, line) == [what, columns.split(), None]


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ("web1 web2", ["|", ["=", "name", "web1"], ["=", "name", "web2"]]),
        ("'web*'", ["|", ["=~", "name", r"^web.*(\..*)?$"]]),
        ("-F admin_up", ["?", "admin_up"]),
        ("'status == \"running\"'", ["==", "status", "running"]),
    ],
)
def test_arguments_are_names_patterns_or_a_filter(gnt: Gnt, master: Master, arguments: str, where: object) -> None:
    assert query_arguments(gnt, master, f"gnt-instance list {arguments}")[2] == where


def test_jobs_are_chosen_by_state_and_number(gnt: Gnt, master: Master) -> None:
    states = ["|", ["=", "status", "queued"], ["=", "status", "waiting"]]
    assert query_arguments(gnt, master, "gnt-job list --no-headers --pending")[2] == states
    assert query_arguments(gnt, master, "gnt-job list --no-headers --pending 5")[2] == [
        "&",
        states,
        ["|", ["=", "id", 5]],
    ]
    assert gnt("gnt-job list five").code == 1


def test_a_list_is_a_table_or_for_programs(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = ONE_INSTANCE
    assert gnt("gnt-instance list").out == "Instance  Memory\nweb1        512M\n"
    assert gnt("gnt-instance list --no-headers --separator :").out == "web1:512\n"
    assert gnt("gnt-instance list --units g --no-headers").out == "web1  0.5\n"
    assert json.loads(gnt("gnt-instance list --format json").out) == [{"name": "web1", "oper_ram": 512}]
    assert gnt("gnt-instance list --format yaml").out == "- name: web1\n  oper_ram: 512\n"
    assert gnt("gnt-instance list --format csv").out == "name,oper_ram\nweb1,512\n"


def test_an_unknown_column_is_shown_and_ends_with_14(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = table("name:Instance:text", "colour:colour:unknown", rows=[["web1", (1, None)]])
    ran = gnt("gnt-instance list -o name,colour")
    assert ran.code == 14
    assert ran.out.splitlines()[1].split() == ["web1", "??"]
    assert ran.err == "Warning: unknown fields: colour; list-fields shows the known fields\n"
    fields = [{"name": "nmae", "title": "nmae", "kind": "unknown", "doc": "did you mean name?"}]
    master.answers["Query"] = {"fields": fields, "data": [[(1, None)]]}
    assert gnt("gnt-instance list -o nmae").err == "Warning: unknown fields: nmae; did you mean name?\n"


def test_an_unknown_name_ends_with_1(gnt: Gnt, master: Master) -> None:
    def refuse(*_: object) -> None:
        raise Fault("OpPrereqError", "there is no instance web9", "unknown_entity")

    master.answers["Query"] = refuse
    assert gnt("gnt-instance list web9").code == 1


def test_list_fields_tells_what_a_list_can_show(gnt: Gnt, master: Master) -> None:
    master.answers["QueryFields"] = table("name:Instance:text", "ip:IP:text", rows=[])
    ran = gnt("gnt-instance list-fields name ip")
    assert ran.out.splitlines() == ["Name  Type  Title     Description", "name  text  Instance", "ip    text  IP"]
    assert master.requests[-1] == ("QueryFields", ["instance", ["name", "ip"]])


def test_locks_show_who_waits_for_whom(gnt: Gnt, master: Master) -> None:
    row: list[object] = ["node/n1", "exclusive", ["job 5"], [["shared", ["job 6", "job 7"]]]]
    columns = ("name:Name:text", "mode:Mode:text", "owner:Owner:other", "pending:Pending:other")
    master.answers["Query"] = table(*columns, rows=[row, ["cluster/BGL", (3, None), (3, None), []]])
    ran = gnt("gnt-debug locks --no-headers --separator '|'")
    assert ran.out.splitlines() == ["node/n1|exclusive|job 5|shared:job 6/job 7", "cluster/BGL|-|-|-"]
