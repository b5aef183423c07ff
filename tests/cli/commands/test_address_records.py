"""The commands that tell of addresses, against a master of a few lines."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Fault, Gnt, Master, table

ROW: dict[str, Any] = {
    "address": "192.0.2.7",
    "instance": "web1",
    "from": 1_700_000_000.0,
    "to": None,
    "job": 7,
    "opcode": "OP_INSTANCE_CREATE",
    "user": "gnt:user",
    "reason": "customer 5; add",
    "end_job": None,
    "end_opcode": "",
}


def past(*rows: dict[str, Any], since: float | None = 1_600_000_000.0, **network: object) -> dict[str, object]:
    return {"since": since, "network": network or None, "rows": [{**ROW, **row} for row in rows]}


@pytest.fixture
def cluster(master: Master) -> Master:
    pool = {"start": "192.0.2.10", "end": "192.0.2.13", "name": "web", "free": 1, "utilization": 75.0, "map": "XXX."}
    subnets = [
        {"uuid": "s-1", "name": "lan", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "dhcp": True, "pools": [pool],
         "external": ["192.0.2.12"]},
        {"uuid": "s-2", "name": "", "cidr": "2001:db8::/64", "gateway": "", "dhcp": True, "pools": [], "external": []},
    ]  # fmt: skip
    network = table("name:N:text", "uuid:U:text", "subnets:S:other", rows=[["net1", "w-1", subnets]])
    nics = [["w-1", None, "w-1"], ["aa:0", "aa:1", "aa:2"], [["192.0.2.10"], [], ["192.0.2.11", "2001:db8::5"]]]
    columns = ("name:I:text", "nic.networks:N:other", "nic.macs:M:other", "nic.ips:A:other")
    instance = table(*columns, rows=[["web1", *nics]])
    master.answers["Query"] = lambda what, *_: network if what == "network" else instance
    return master


def test_the_history_is_asked_for_with_address_time_and_limit(gnt: Gnt, master: Master) -> None:
    master.answers["QueryNetworkHistory"] = past({})
    ran = gnt("gnt-network history --address 192.0.2.7 --at 1700000005 --limit 5 net1")
    assert ran.code == 0
    assert master.requests == [("QueryNetworkHistory", ["net1", "192.0.2.7", 1_700_000_005.0, 6])]
    heading, row = ran.out.splitlines()
    assert heading.split() == ["Address", "Instance", "From", "To", "Job", "Reason"]
    assert row.split()[:2] == ["192.0.2.7", "web1"]
    assert re.fullmatch(r"20\d\d-1\d-1\d \d\d:\d\d", " ".join(row.split()[2:4]))
    assert row.split()[4:] == ["-", "7", "customer", "5;", "add"]


def test_the_history_fits_into_100_columns_and_tells_more_when_asked(gnt: Gnt, master: Master) -> None:
    address, instance, end = "2001:db8:5:0:10::ffff", "web1.example.com", 1_700_000_060.0
    master.answers["QueryNetworkHistory"] = past({"address": address, "instance": instance, "to": end, "job": 12345})
    assert max(map(len, gnt("gnt-network history net1").out.splitlines())) <= 100
    row = gnt("gnt-network history --no-headers -o +opcode,user net1").out.split()
    assert row[-2:] == ["OP_INSTANCE_CREATE", "gnt:user"]
    assert re.fullmatch(r"\d\d:\d\d:20", row[5])


def test_the_history_has_the_columns_and_formats_of_a_list(gnt: Gnt, master: Master) -> None:
    master.answers["QueryNetworkHistory"] = past({"end_job": 9, "to": 1_700_000_060.0})
    ran = gnt("gnt-network history -o address,to,end_job,end_user --format json net1")
    assert json.loads(ran.out) == [{"address": "192.0.2.7", "to": 1_700_000_060.0, "end_job": 9, "end_user": None}]
    ran = gnt("gnt-network history --no-headers --separator , -o address,colour net1")
    assert (ran.code, ran.out) == (14, "192.0.2.7,??\n")


def test_a_history_that_is_cut_says_so(gnt: Gnt, master: Master) -> None:
    master.answers["QueryNetworkHistory"] = past({"instance": "a"}, {"instance": "b"}, {"instance": "c"})
    ran = gnt("gnt-network history --no-headers -o instance --limit 2 net1")
    assert (ran.out, "--limit" in ran.err) == ("b\nc\n", True)
    assert gnt("gnt-network history --limit 0 net1").code == 1


def test_a_time_before_the_records_is_reported_as_such(gnt: Gnt, master: Master) -> None:
    master.answers["QueryNetworkHistory"] = past()
    assert "There are no records of that time" in gnt("gnt-network history --at 1500000000 net1").err
    assert gnt("gnt-network history --at 1650000000 net1").err == ""


def test_info_of_a_time_shows_the_network_as_it_was(gnt: Gnt, master: Master) -> None:
    subnet = {"uuid": "s", "cidr": "192.0.2.0/24"}
    master.answers["QueryNetworkHistory"] = past({}, {"address": "192.0.2.8"}, name="old", uuid="w", subnets=[subnet])
    ran = gnt("gnt-network info --at 1700000005 net1")
    (info,) = yaml.safe_load(ran.out)
    assert info["Network name"] == "old"
    assert info["Subnets"] == [subnet]
    assert info["used by 1 instances"] == {"web1": ["192.0.2.7", "192.0.2.8"]}
    master.answers["QueryNetworkHistory"] = past()
    assert "network net1 did not exist at" in gnt("gnt-network info --at 1700000005 net1").err
    assert "is not known: the records begin at" in gnt("gnt-network info --at 1500000000 net1").err
    assert gnt("gnt-network info --at 1700000005").code == 1


def test_a_map_draws_the_pools_that_are_asked_for(gnt: Gnt, cluster: Master) -> None:
    ran = gnt("gnt-network map net1")
    assert ran.code == 0
    assert "pool web 192.0.2.10-192.0.2.13 of subnet 192.0.2.0/24 (lan): 4 addresses, 1 free, 75 % in use" in ran.out
    assert "  192.0.2.10  XXE.\n" in ran.out
    assert ". free  X in use" in ran.out
    assert "\x1b" not in ran.out
    for options in ("--subnet lan", "--subnet 192.0.2.0/24", "--subnet s-1", "--pool web"):
        assert gnt(f"gnt-network map {options} net1").out == ran.out


def test_a_map_of_what_is_not_there_says_what_is(gnt: Gnt, cluster: Master) -> None:
    assert (
        "has no subnet wan; its subnets: 192.0.2.0/24 (lan), 2001:db8::/64"
        in gnt("gnt-network map --subnet wan net1").err
    )
    assert "has no pool db" in gnt("gnt-network map --pool db net1").err
    assert "has no pool in subnet" in gnt("gnt-network map --subnet 2001:db8::/64 net1").err


def test_an_export_goes_to_a_file_or_to_the_screen(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    exported = gnt("gnt-network export-reservations net1").out
    assert "192.0.2.11,instance,web1,2,web\n" in exported
    path = tmp_path / "net1.csv"
    assert gnt(f"gnt-network export-reservations net1 {path}").out == ""
    assert path.read_text() == exported
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert gnt(f"gnt-network export-reservations net1 {link}").code == 0
    assert (link.is_symlink(), stat.S_IMODE(path.stat().st_mode)) == (True, 0o600)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "net1.csv"]
    assert gnt("gnt-network export-reservations net1 /dev/stdout").out == exported
    assert "cannot write" in gnt(f"gnt-network export-reservations net1 {tmp_path}/no/where").err


def test_an_import_reserves_what_is_missing_and_counts_the_rest(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("192.0.2.10-192.0.2.14,racks\n192.0.2.1\n")
    ran = gnt(f"gnt-network import-reservations net1 {path}")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("2 addresses reserved; skipped: 1 reserved externally already, 2 in use, 1 gateways\n")
    (op,) = cluster.ops
    assert (op["OP_ID"], op["network_name"], op["add_reserved_ips"]) == (
        "OP_NETWORK_SET_PARAMS",
        "net1",
        ["192.0.2.13-192.0.2.14"],
    )


def test_an_import_of_nothing_new_submits_no_job(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("192.0.2.12\n")
    ran = gnt(f"gnt-network import-reservations net1 {tmp_path}/in.csv")
    assert (ran.code, cluster.ops) == (0, [])
    assert ran.out.startswith("0 addresses reserved")


def test_a_dry_import_says_what_it_would_do(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    cluster.results["OP_NETWORK_SET_PARAMS"] = ["reserve 192.0.2.13 externally"]
    (tmp_path / "in.csv").write_text("192.0.2.13\n")
    ran = gnt(f"gnt-network import-reservations --dry-run net1 {tmp_path}/in.csv")
    assert cluster.ops[0]["dry_run"] is True
    assert ran.out.startswith("reserve 192.0.2.13 externally\n1 addresses to reserve; ")


def test_a_wrong_line_stops_the_import(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("192.0.2.13\n10.0.0.1\n")
    ran = gnt(f"gnt-network import-reservations net1 {tmp_path}/in.csv")
    assert (ran.code, cluster.ops) == (1, [])
    assert "in.csv, line 2: 10.0.0.1 is not in a subnet of network net1" in ran.err
    assert "nothing was reserved" in ran.err


def test_dnsmasq_gets_both_families_and_kea_one(gnt: Gnt, cluster: Master, tmp_path: Path) -> None:
    assert "dhcp-host=aa:2,192.0.2.11,[2001:db8::5],web1" in gnt("gnt-network dhcp --for dnsmasq net1").out
    assert "choose one with --family 4 or --family 6" in gnt("gnt-network dhcp --for kea net1").err
    path = tmp_path / "kea.json"
    assert gnt(f"gnt-network dhcp --for kea --family 6 --output {path} net1").out == ""
    assert '"ip-addresses"' in path.read_text()


def test_a_network_that_is_not_there_is_the_masters_to_refuse(gnt: Gnt, master: Master) -> None:
    def refuse(*_: object) -> None:
        raise Fault("OpPrereqError", "no such network: net9", "unknown_entity")

    master.answers["Query"] = refuse
    for command in ("map", "dhcp", "export-reservations"):
        ran = gnt(f"gnt-network {command} net9")
        assert (ran.code, "no such network: net9" in ran.err) == (1, True)


@pytest.mark.parametrize("words", ["80", "80,x", "1,2,3", ""])
def test_the_thresholds_of_a_cluster_are_two_numbers(words: str, gnt: Gnt) -> None:
    ran = gnt(f"gnt-cluster init --network-thresholds '{words}' lab")
    assert ran.code == 1
    assert "as in 80,95" in ran.err or "is not a number" in ran.err
