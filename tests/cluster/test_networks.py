"""Networks as a whole: the cable, how it is shown, what is stored of it."""

import json
import os
import re
import signal

import pytest
from tests.cluster import lab, test_refused_requests, wires


@pytest.mark.promise("networks-1", "networks-20")
def test_a_network_without_a_subnet_is_a_cable(shared: lab.Lab) -> None:
    shared.run("gnt-network", "add", "cable")
    shared.run("gnt-network", "connect", "-N", "mode=routed,link=main", "cable", "default")
    wire = wires.Wire(shared, "cable")
    assert wire.subnets == []
    assert wire.use("") == []
    assert wire.query("inst_list") == [wire.instances]
    assert "has no pool" in wire.not_given("ip=pool")
    assert "outside every subnet" in wire.not_given("ip=192.0.2.4")
    wire.remove()


@pytest.mark.promise("networks-8")
def test_a_nic_gets_mode_and_link_from_where_its_network_is_plugged_in(shared: lab.Lab) -> None:
    shared.run("gnt-network", "add", "plugged")
    shared.run("gnt-network", "connect", "-N", "mode=routed,link=77", "plugged", "default")
    wire = wires.Wire(shared, "plugged")
    assert wire.query("group_list") == [[["default", "routed", "77", ""]]]
    wire.use("")
    assert shared.rows("gnt-instance", "nic.modes,nic.links", wire.instances[0]) == [["routed", "77"]]
    shared.run("gnt-instance", "modify", "--no-hotplug", "--net", "0:modify,name=eth0", wire.instances[0])
    assert shared.rows("gnt-instance", "nic.modes,nic.links", wire.instances[0]) == [["routed", "77"]]
    wire.remove()


@pytest.mark.promise("networks-8")
def test_a_nic_that_is_put_into_a_network_gets_mode_and_link_of_that(shared: lab.Lab) -> None:
    shared.run("gnt-network", "add", "joined")
    shared.run("gnt-network", "connect", "-N", "mode=routed,link=78", "joined", "default")
    add = ("gnt-instance", "add", "-t", "diskless", "-n", "node1", "--no-start")
    shared.run(*add, "--net", "0:mode=routed,link=88", "moved.example")
    shared.run("gnt-instance", "modify", "--net", "0:modify,network=joined", "moved.example")
    assert shared.rows("gnt-instance", "nic.modes,nic.links", "moved.example") == [["routed", "78"]]
    wire = wires.Wire(shared, "joined")
    assert "cannot be set with network joined" in wire.not_given("link=88")
    shared.run("gnt-instance", "remove", "-f", "moved.example")
    wire.remove()


@pytest.mark.promise("networks-7")
def test_a_network_has_name_uuid_mac_prefix_and_tags(shared: lab.Lab) -> None:
    wire = wires.create_wire(shared, "-m aa:00:77 --tags web,blue")
    name, uuid, prefix, tags = wire.query("name", "uuid", "mac_prefix", "tags")
    assert (name, prefix, sorted(tags)) == (wire.name, "aa:00:77", ["blue", "web"])
    assert re.fullmatch("[0-9a-f-]{36}", uuid)
    wire.use("")
    ((mac,),) = shared.rows("gnt-instance", "nic.mac/0", wire.instances[0])
    assert mac.startswith("aa:00:77:")
    shared.run("gnt-network", "modify", "-m", "aa:00:78", uuid)
    shared.run("gnt-network", "add-tags", wire.name, "amber")
    shared.run("gnt-network", "remove-tags", wire.name, "web")
    assert shared.run("gnt-network", "list-tags", wire.name).stdout.split() == ["amber", "blue"]
    assert wire.query("mac_prefix", "uuid") == ["aa:00:78", uuid]
    wire.remove()


def test_a_network_gets_another_name_and_keeps_everything_else(lan: wires.Wire) -> None:
    uuid, subnets = lan.query("uuid", "subnets")
    assert lan.use("ip=192.0.2.9") == ["192.0.2.9"]
    lan.cluster.run("gnt-network", "rename", lan.name, "renamed")
    assert f"no such network: {lan.name}" in lan.cluster.refused("gnt-network", "info", lan.name)
    with test_refused_requests.unchanged(lan.cluster):
        assert "net1 exists already" in lan.cluster.refused("gnt-network", "rename", "renamed", "net1")
        lan.cluster.run("gnt-network", "rename", "--dry-run", "renamed", "other")
    lan.name = "renamed"
    assert lan.query("uuid", "subnets") == [uuid, subnets]
    assert lan.cluster.rows("gnt-instance", "nic.networks.names", lan.instances[0]) == [["renamed"]]


@pytest.mark.parametrize(("program", "name"), [("gnt-cluster", []), ("gnt-node", ["node1"])])
def test_objects_have_tags(shared: lab.Lab, program: str, name: list[str]) -> None:
    shared.run(program, "add-tags", *name, "web", "blue")
    assert shared.run(program, "list-tags", *name).stdout.split() == ["blue", "web"]
    assert "has no tag red" in shared.refused(program, "remove-tags", *name, "red", "web")
    shared.run(program, "remove-tags", *name, "blue", "web")
    assert shared.run(program, "list-tags", *name).stdout == ""


@pytest.mark.promise("networks-59", "networks-60")
def test_queries_tell_subnets_with_their_pools(lan: wires.Wire) -> None:
    lan.modify("--subnet add:cidr=2001:db8:f::/64,gateway=2001:db8:f::1,dhcp=true,name=six")
    lan.modify("--pool add:192.0.2.10-192.0.2.13,name=a --pool add:2001:db8:f::1-2001:db8:f::3 --pool add:192.0.2.20")
    lan.modify("--add-reserved-ips 192.0.2.13")
    lan.use("ip0=192.0.2.11,ip1=2001:db8:f::2")
    subnets = [{key: subnet[key] for key in ("cidr", "gateway", "dhcp", "name")} for subnet in lan.subnets]
    assert subnets == [
        {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "dhcp": False, "name": "lan"},
        {"cidr": "2001:db8:f::/64", "gateway": "2001:db8:f::1", "dhcp": True, "name": "six"},
    ]
    maps = [[(pool["start"], pool["end"], pool["map"]) for pool in subnet["pools"]] for subnet in lan.subnets]
    assert maps == [
        [("192.0.2.10", "192.0.2.13", ".X.X"), ("192.0.2.20", "192.0.2.20", ".")],
        [("2001:db8:f::1", "2001:db8:f::3", "XX.")],
    ]


def test_a_map_that_is_too_long_is_listed_as_runs(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=10.0.0.0/15,gateway=10.0.0.9,pool --add-reserved-ips 10.0.0.100-10.0.0.199")
    wire.use("ip0=pool,ip1=10.1.0.5")
    (pool,) = wire.subnets[0]["pools"]
    runs = ["10.0.0.0-10.0.0.1", "10.0.0.9", "10.0.0.100-10.0.0.199", "10.1.0.5", "10.1.255.255"]
    assert (pool["map"], pool["runs"], pool["runs_complete"], pool["size"]) == (None, runs, True, 131072)
    assert wire.query("map") == [None]
    assert wire.info()["Subnets"][0]["pools"][0]["reserved"] == runs


@pytest.mark.promise("networks-80", "networks-81")
def test_the_older_fields_are_of_the_first_pool_and_the_first_subnets(wire: wires.Wire) -> None:
    older = ("network", "gateway", "network6", "gateway6", "map")
    assert wire.query(*older) == [None] * 5
    wire.modify("--subnet add:cidr=192.0.2.0/25,gateway=192.0.2.1 --subnet add:cidr=2001:db8:a::/64")
    wire.modify("--subnet add:cidr=198.51.100.0/24,gateway=198.51.100.1")
    wire.modify("--subnet add:cidr=2001:db8:b::/64,gateway=2001:db8:b::1")
    wire.modify("--pool add:198.51.100.1-198.51.100.4 --pool add:192.0.2.10-192.0.2.12 --pool add:192.0.2.1-192.0.2.2")
    wire.use("ip=192.0.2.11")
    assert wire.query(*older) == ["192.0.2.0/25", "192.0.2.1", "2001:db8:a::/64", None, ".X."]


@pytest.mark.promise("networks-78")
def test_the_older_options_make_a_subnet_with_a_pool_over_all_of_it(shared: lab.Lab) -> None:
    wire = wires.create_wire(shared, "--network 192.0.2.0/29 --gateway 192.0.2.1 --network6 2001:db8:c::/126")
    assert wire.pools == [("192.0.2.0", "192.0.2.7", ""), ("2001:db8:c::", "2001:db8:c::3", "")]
    assert wire.query("network", "gateway", "network6", "map") == [
        *("192.0.2.0/29", "192.0.2.1", "2001:db8:c::/126"),
        "XX.....X",
    ]
    assert wire.use("ip=pool") == ["192.0.2.2"]
    wire.modify("--gateway 192.0.2.6 --gateway6 2001:db8:c::1 -m aa:00:05 --network6 2001:db8:c::/64")
    values = wire.query("gateway", "network6", "gateway6", "mac_prefix")
    assert values == ["192.0.2.6", "2001:db8:c::/64", "2001:db8:c::1", "aa:00:05"]
    wire.remove()


@pytest.mark.promise("networks-79")
def test_without_the_older_options_subnets_and_pools_are_asked_for(shared: lab.Lab) -> None:
    wire = wires.create_wire(shared, "--subnet cidr=192.0.2.0/29,name=lan")
    assert (len(wire.subnets), wire.pools) == (1, [])
    assert "has no pool" in wire.not_given("ip=pool")
    wire.modify("--pool add:subnet=lan")
    assert wire.use("ip=pool") == ["192.0.2.1"]
    wire.remove()


def test_info_tells_who_has_what(lan: wires.Wire) -> None:
    lan.modify("--subnet add:cidr=2001:db8:e::/64 --pool add:192.0.2.10-192.0.2.99,name=web")
    lan.modify("--add-reserved-ips 192.0.2.20-192.0.2.29")
    lan.use("ip0=pool,ip1=2001:db8:e::9", "--net", f"1:network={lan.name},ip=pool")
    lan.use("ip=192.0.2.200")
    first, second = lan.instances
    values = lan.info()
    assert values["addresses in use"] == {
        "192.0.2.10": f"{first}, NIC 0",
        "192.0.2.11": f"{first}, NIC 1",
        "192.0.2.200": f"{second}, NIC 0",
        "2001:db8:e::9": f"{first}, NIC 0",
    }
    users = {first: ["0:192.0.2.10,2001:db8:e::9", "1:192.0.2.11"], second: ["0:192.0.2.200"]}
    assert values["used by 2 instances"] == users
    (pool,) = values["Subnets"][0]["pools"]
    assert (pool["range"], pool["name"], pool["free"]) == ("192.0.2.10-192.0.2.99", "web", 78)
    assert pool["map"] == {0: "XX" + "." * 8 + "X" * 10 + "." * 44, 64: "." * 26}
    assert values["externally reserved IPs"] == values["Subnets"][0]["externally reserved"] == ["192.0.2.20-192.0.2.29"]
    assert values["connected to node groups"] == [{"group": "default", "mode": "routed", "link": "main"}]


@pytest.mark.promise("networks-50", "networks-71")
def test_stored_are_subnets_with_ranges_and_no_maps(own: lab.Lab) -> None:
    wire = wires.Wire(own, "net1")
    wire.modify("--pool lan4:modify,name=web --add-reserved-ips 192.0.2.20-192.0.2.29,192.0.2.40")
    wire.modify("--subnet 192.0.2.0/24:modify,name=lan,dhcp=true -m aa:00:06")
    own.run("gnt-network", "add-tags", "net1", "blue")
    assert wire.use("ip=pool") == ["192.0.2.10"]
    before = wire.query("subnets", "map", "free_count")
    os.kill(own.master_pid(), signal.SIGTERM)
    config = own.master / "lib/config.data"
    lab.wait_until(lambda: "192.0.2.40" in config.read_text(), "the checkpoint")
    (stored,) = json.loads(config.read_text())["networks"].values()
    assert stored.keys() - {"uuid", "serial_no", "ctime", "mtime"} == {"name", "mac_prefix", "tags", "subnets"}
    first, second = stored["subnets"]
    counted = {"serial_no", "ctime", "mtime"}
    assert {name: value for name, value in first.items() if name not in counted} == {
        "uuid": first["uuid"],
        "cidr": "192.0.2.0/24",
        "name": "lan",
        "gateway": "192.0.2.1",
        "dhcp": True,
        "pools": [{"range": "192.0.2.10-192.0.2.13", "name": "web", "reservations": ["192.0.2.10"]}],
        "external": ["192.0.2.20-192.0.2.29", "192.0.2.40"],
    }
    assert second.keys() - counted == {"uuid", "cidr", "pools"}
    own.start_master()
    assert wire.query("subnets", "map", "free_count") == before


def test_every_change_of_a_network_says_what_changed(shared: lab.Lab) -> None:
    def message_of(*arguments: str) -> list[str]:
        return shared.run("gnt-network", *arguments).stdout.splitlines()

    assert message_of("add", "--subnet", "10.7.0.0/24", "--add-reserved-ips", "10.7.0.30-40", "talk") == [
        "Created network talk",
        " - add subnet 10.7.0.0/24",
        " - reserve 10.7.0.30-10.7.0.40 externally",
    ]
    changed = message_of("modify", "--pool", "add:10.7.0.50-60,name=web", "-m", "aa:00:07", "talk")
    assert changed[0] == "Modified network talk"
    assert " - MAC prefix becomes aa:00:07" in changed
    assert any("10.7.0.50-10.7.0.60" in line for line in changed)
    assert message_of("modify", "-m", "aa:00:07", "talk") == [
        "nothing changes: network talk already has these settings"
    ]
    connected = message_of("connect", "-N", "mode=routed,link=main", "talk", "default")
    assert connected == ["Connected network talk to node group default: mode routed, link main"]
    assert message_of("disconnect", "talk", "default") == ["Disconnected network talk from node group default"]
    assert message_of("rename", "talk", "talk2") == ["Renamed network talk to talk2"]
    assert message_of("modify", "--dry-run", "-m", "aa:00:08", "talk2")[0] == "change network talk2"
    assert shared.rows("gnt-network", "name,cidrs,pools", "talk2") == [["talk2", "10.7.0.0/24", "10.7.0.50-10.7.0.60"]]
    assert message_of("list", "--no-headers", "--separator", "|", "talk2")[0].endswith("|10.7.0.0/24")
    assert message_of("remove", "-f", "talk2") == ["Removed network talk2"]
