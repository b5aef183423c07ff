"""``gnt-network address``, against a master of a few lines."""

import json
from typing import Any

from tests.cli.conftest import Gnt, Master

ROW: dict[str, Any] = {
    "address": "192.0.2.20",
    "network": "net1",
    "state": "in use",
    "kind": "instance",
    "owner": "web1",
    "nic": 0,
    "mac": "aa:00:00:00:00:01",
    "subnet": "192.0.2.0/24",
    "pool": "",
    "from": 1_700_000_000.0,
    "to": None,
    "job": 7,
    "opcode": "OP_INSTANCE_CREATE",
    "user": "gnt:user",
    "reason": "order 17",
}


def answer(*rows: dict[str, Any], **more: Any) -> dict[str, object]:
    return {"since": 1_600_000_000.0, "rows": [{**ROW, **row} for row in rows], "complete": True, "dated": True, **more}


def test_the_owner_is_shown_with_the_job_and_its_user(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAddress"] = answer({})
    ran = gnt("gnt-network address 192.0.2.20")
    assert (ran.code, ran.err) == (0, "")
    assert master.requests == [("QueryAddress", ["192.0.2.20", None, False, 1000])]
    heading, row = ran.out.splitlines()
    assert heading.split() == ["Address", "Network", "State", "Kind", "Owner", "Pool", "From", "To", "Job", "User"]
    assert row.split()[:6] == ["192.0.2.20", "net1", "in", "use", "instance", "web1"]
    assert row.split()[-3:] == ["-", "7", "gnt:user"]


def test_a_time_and_the_whole_history_are_asked_for(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAddress"] = answer({})
    assert gnt("gnt-network address --at 1700000005 --limit 5 192.0.2.20").code == 0
    assert gnt("gnt-network address --history web1").code == 0
    assert master.requests == [
        ("QueryAddress", ["192.0.2.20", 1_700_000_005.0, False, 5]),
        ("QueryAddress", ["web1", None, True, 1000]),
    ]
    assert "exclude each other" in gnt("gnt-network address --at -1h --history web1").err
    assert gnt("gnt-network address --limit 0 web1").code == 1


def test_programs_get_json_csv_and_their_own_columns(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAddress"] = answer({})
    ran = gnt("gnt-network address --format json -o address,from,end_job,nic 192.0.2.20")
    assert json.loads(ran.out) == [{"address": "192.0.2.20", "from": 1_700_000_000.0, "end_job": None, "nic": 0}]
    ran = gnt("gnt-network address --format csv -o address,owner 192.0.2.20")
    assert ran.out.splitlines() == ["address,owner", "192.0.2.20,web1"]
    ran = gnt("gnt-network address --no-headers --separator , -o owner,colour 192.0.2.20")
    assert (ran.code, ran.out) == (14, "web1,??\n")


def test_what_the_rows_do_not_show_is_said(gnt: Gnt, master: Master) -> None:
    master.answers["QueryAddress"] = answer({}, complete=False, dated=False)
    err = gnt("gnt-network address 192.0.2.0/24").err
    assert "Only the first 1 rows are shown; --limit shows more" in err
    assert "From, job and user are shown for at most 100 rows" in err
    master.answers["QueryAddress"] = answer()
    err = gnt("gnt-network address --at 1700000005 192.0.2.20").err
    assert err == "No instance or port had 192.0.2.20 at that time\n"
    assert "There are no records of that time" in gnt("gnt-network address --at 1500000000 192.0.2.20").err
    err = gnt("gnt-network address --history 192.0.2.20").err
    assert err == "No instance or port had 192.0.2.20 since the records begin\n"
    assert gnt("gnt-network address 10.0.0.0/8").err == "No address of 10.0.0.0/8 is in use or reserved\n"
