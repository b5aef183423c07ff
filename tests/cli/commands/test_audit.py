"""``gantry audit``, against a master of a few lines."""

import csv
import io
import json
from typing import Any

from tests.cli.conftest import Gnt, Master


def entry(**more: Any) -> dict[str, Any]:
    change = {"kind": "instance", "key": "u-1", "name": "web1", "what": "changed", "more_fields": 0}
    fields = [
        {"path": "beparams.maxmem", "before": None, "after": 512},
        {"path": "tags", "before": ["a"], "after": []},
        {"path": "os", "before": "debian", "after": ""},
    ]
    return {
        "serial": 4, "time": 1_700_000_000.0, "job": 7, "user": "alice", "door": "rapi", "peer": "192.0.2.7",
        "named": "", "right": "operator on instance:web1", "what": "INSTANCE_SET_PARAMS(web1)", "status": "success",
        "reason": "", "changes": [{**change, "fields": fields}], "ops": [{"OP_ID": "OP_INSTANCE_SET_PARAMS"}], **more,
    }  # fmt: skip


def answer(*entries: object, since: object = None) -> dict[str, object]:
    return {"entries": entries, "since": since or {"serial": 1, "time": 1.0}}


def test_a_row_says_who_did_what_from_where_by_which_right_and_what_changed(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAudit"] = answer(entry())
    ran = gnt("gantry audit --who alice --object web1 --no-headers --separator '|'")
    assert master.requests == [
        ("QueryAudit", [{"user": "alice", "object": "web1", "since": None, "until": None, "limit": 101}])
    ]
    cells = ran.out.strip().split("|")
    assert cells[1:-1] == [
        "7", "alice", "192.0.2.7", "operator on instance:web1", "INSTANCE_SET_PARAMS(web1)", "success",
    ]  # fmt: skip
    assert cells[-1] == 'instance web1 changed (beparams.maxmem - -> 512; tags ["a"] -> []; os debian -> "")'


def test_the_cluster_and_processes_of_the_master_have_no_address(gnt: Gnt, master: Master) -> None:
    own, local = entry(user="", door="", peer="", right=""), entry(user="root", door="luxi", peer="")
    master.answers["QueryAudit"] = answer(own, local)
    rows = gnt("gantry audit --no-headers --separator '|' -o user,from,right").out.splitlines()
    assert rows == ["(cluster)|-|-", "root|(master)|operator on instance:web1"]


def test_the_formats_for_programs_have_everything(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAudit"] = answer(entry())
    (record,) = json.loads(gnt("gantry audit --format json -o +ops,door").out)
    assert record["changes"] == entry()["changes"]
    assert (record["ops"], record["door"]) == (entry()["ops"], "rapi")
    (row,) = csv.DictReader(io.StringIO(gnt("gantry audit --format csv").out))
    assert row["changes"].startswith("instance web1 changed (beparams.maxmem - -> 512;")


def test_what_is_not_known_is_said(gnt: Gnt, master: Master) -> None:
    changes = [
        {**entry()["changes"][0], "fields": None},
        {**entry()["changes"][0], "fields": [], "name": "", "what": "removed"},
        {**entry()["changes"][0], "fields": [{"path": "a", "before": 1, "after": 2}], "more_fields": 3},
    ]
    master.answers["QueryAudit"] = answer(entry(changes=changes))
    (line,) = gnt("gantry audit --no-headers -o changes").out.splitlines()
    assert line == (
        "instance web1 changed (the journal does not have it as it was before), instance u-1 removed, "
        "instance web1 changed (a 1 -> 2; 3 more)"
    )


def test_missing_entries_are_said(gnt: Gnt, master: Master) -> None:
    since = {"serial": 4, "time": 1_700_000_000.0}
    master.answers["QueryAudit"] = answer(entry(), since=since)
    assert gnt("gantry audit").err.startswith("Earlier entries are not kept: the journal begins at 2023-11-14 ")
    assert gnt("gantry audit --since 1700000000").err == ""
    master.answers["QueryAudit"] = answer(entry(job=6), entry())
    ran = gnt("gantry audit --limit 1 --no-headers -o job")
    assert (ran.out, ran.err) == ("7\n", "Only the last 1 are shown; --limit shows more\n")


def test_bad_options_are_refused_before_the_master_is_reached(gnt: Gnt, master: Master) -> None:
    for option in ("--limit 0", "--limit 10001", "--since yesterday", "--until x"):
        assert gnt(f"gantry audit {option}").code == 1
    assert master.requests == []
    master.answers["QueryAudit"] = answer(entry())
    assert "unknown" in gnt("gantry audit -o color").err
