from typing import Any

import pytest
import yaml
from tests.cli.conftest import Gnt, Master, table


def added(gnt: Gnt, master: Master, options: str) -> dict[str, Any]:
    ran = gnt(f"gnt-network add --submit {options} net1")
    assert ran.code == 0, ran.err
    return master.ops[-1]


@pytest.mark.promise("networks-23")
def test_subnets_are_options_like_nics(gnt: Gnt, master: Master) -> None:
    lan, six = "cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan", "cidr=2001:db8::/64,pool,no_dhcp"
    op = added(gnt, master, f"--subnet {lan} --subnet {six}")
    assert op["subnets"] == [
        {"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dhcp": True, "name": "lan"},
        {"cidr": "2001:db8::/64", "pool": True, "dhcp": False},
    ]


@pytest.mark.promise("networks-23")
@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add:cidr=10.0.0.0/24,pool,no_dhcp", {"action": "add", "cidr": "10.0.0.0/24", "pool": True, "dhcp": False}),
        ("lan:modify,-gateway", {"action": "modify", "ident": "lan", "gateway": "none"}),
        ("lan:modify,dhcp,name=a\\,b", {"action": "modify", "ident": "lan", "dhcp": True, "name": "a,b"}),
        ("10.0.0.0/24:modify,name=none", {"action": "modify", "ident": "10.0.0.0/24", "name": "none"}),
        ("2001:db8::/64:remove", {"action": "remove", "ident": "2001:db8::/64"}),
    ],
)
def test_a_change_of_a_subnet_is_written_like_that_of_a_nic(
    gnt: Gnt, master: Master, text: str, change: dict[str, object]
) -> None:
    ran = gnt(f"gnt-network modify --submit --subnet '{text}' net1")
    assert ran.code == 0, ran.err
    assert master.ops[-1]["subnets"] == [change]


@pytest.mark.promise("networks-41")
def test_pools_are_options_of_their_own(gnt: Gnt, master: Master) -> None:
    op = added(gnt, master, "--pool add:192.0.2.10-192.0.2.100,name=pool1 --pool 10.0.0.100 --pool 10.0.0.0/27")
    assert op["pools"] == [
        {"range": "192.0.2.10-192.0.2.100", "name": "pool1"},
        {"range": "10.0.0.100"},
        {"range": "10.0.0.0/27"},
    ]


def test_a_network_may_have_no_subnet_at_all(gnt: Gnt, master: Master) -> None:
    op = added(gnt, master, "")
    assert not op.keys() & {"subnets", "pools", "network", "network6"}


def test_the_older_form_reaches_the_opcode(gnt: Gnt, master: Master) -> None:
    op = added(
        gnt,
        master,
        "--network 192.0.2.0/24 --gateway 192.0.2.1 --network6 2001:db8::/64 --gateway6 2001:db8::1 -m aa:00:01 "
        "--add-reserved-ips 192.0.2.5,192.0.2.8-192.0.2.9 --tags blue",
    )
    expected = {
        "network": "192.0.2.0/24",
        "gateway": "192.0.2.1",
        "network6": "2001:db8::/64",
        "gateway6": "2001:db8::1",
        "mac_prefix": "aa:00:01",
        "add_reserved_ips": ["192.0.2.5", "192.0.2.8-192.0.2.9"],
        "tags": ["blue"],
    }
    assert op | expected == op


@pytest.fixture
def cluster(master: Master) -> Master:
    master.answers["QueryClusterInfo"] = {"nicparams": {"default": {"mode": "bridged", "link": "br0", "vlan": ""}}}
    master.answers["Query"] = table("name:Group:text", rows=[["default"], ["rack2"]])
    return master


def test_a_network_is_connected_to_the_groups_named(gnt: Gnt, cluster: Master) -> None:
    assert gnt("gnt-network connect -N mode=routed,link=100,vlan=5 net1 rack2").code == 0
    ran = gnt("gnt-network connect -N mode=routed,link=100,vlan=5 net1 rack2")
    assert ran.out == "Connected network net1 to node group rack2: mode routed, link 100, vlan 5\n"
    op, _ = cluster.ops
    del op["reason"]
    assert op == {
        "OP_ID": "OP_NETWORK_CONNECT",
        "network_name": "net1",
        "group_name": "rack2",
        "network_mode": "routed",
        "network_link": "100",
        "network_vlan": "5",
    }


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (
            "default bridged br0",
            "no such node group: bridged, br0; nothing was connected; mode and link are an option: "
            "gnt-network connect -N mode=bridged,link=br0 net1 default",
        ),
        ("default rack9", "no such node group: rack9; nothing was connected; the node groups are: default, rack2"),
    ],
)
def test_a_group_that_is_missing_refuses_the_whole_connection(
    gnt: Gnt, cluster: Master, groups: str, problem: str
) -> None:
    ran = gnt(f"gnt-network connect net1 {groups}")
    assert ran.code == 1
    assert problem in ran.err
    assert cluster.ops == []


def test_without_groups_it_is_connected_to_all_with_the_clusters_defaults(gnt: Gnt, cluster: Master) -> None:
    assert gnt("gnt-network connect net1").code == 0
    assert [(op["group_name"], op["network_mode"], op["network_link"]) for op in cluster.ops] == [
        ("default", "bridged", "br0"),
        ("rack2", "bridged", "br0"),
    ]


def test_without_groups_it_is_disconnected_from_those_that_have_it(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = table("group_list:G:other", rows=[[[["default", "bridged", "br0", ""]]]])
    assert gnt("gnt-network disconnect net1").code == 0
    assert [op["group_name"] for op in master.ops] == ["default"]
    master.answers["Query"] = table("group_list:G:other", rows=[[[]]])
    assert "not connected" in gnt("gnt-network disconnect net1").err


def test_an_unknown_nic_parameter_is_refused(gnt: Gnt, cluster: Master) -> None:
    ran = gnt("gnt-network connect -N color=red net1")
    assert ran.code == 1
    assert "unknown key color; valid keys: mode, link, vlan" in ran.err


def test_the_list_shows_where_a_network_is_plugged_in(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = table(
        "name:Network:text",
        "group_list:GroupList:other",
        "subnets:Subnets:other",
        rows=[["net1", [["default", "bridged", "br0", ""], ["g2", "routed", "100", "5"]], [{"cidr": "10.0.0.0/24"}]]],
    )
    ran = gnt("gnt-network list -o name,group_list,subnets --no-headers --separator '|'")
    assert ran.out == "net1|default (bridged, br0), g2 (routed, 100, 5)|10.0.0.0/24\n"


def test_info_shows_pools_maps_and_users_as_yaml(gnt: Gnt, master: Master) -> None:
    pool = {
        "start": "192.0.2.10", "end": "192.0.2.99", "size": 90, "name": "web", "free": 89, "map": "X" + "." * 89,
        "runs": ["192.0.2.10"], "runs_complete": True,
    }  # fmt: skip
    big = {"start": "2001:db8::", "end": "2001:db8::ffff", "size": 65536, "free": 65533, "map": "X" * 65536}
    runs = {"runs": ["2001:db8::5", "2001:db8::7-2001:db8::8"], "runs_complete": False}
    subnet = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pools": [pool], "external": ["192.0.2.50"]}
    values: dict[str, object] = {
        "name": "net1",
        "uuid": "w-1",
        "network": "192.0.2.0/24",
        "free_count": 89,
        "reserved_count": 1,
        "map": pool["map"],
        "external_reservations": "192.0.2.50",
        "group_list": [["default", "bridged", "br0", ""]],
        "inst_list": ["plain", "web1"],
        "address_list": [["192.0.2.10", "web1", 0], ["192.0.2.11", "web1", 0], ["2001:db8::5", "web1", 2]],
        "port_list": [["p-1", "", "", ["192.0.2.12"]], ["p-2", "vip", "network:dhcp", []]],
        "subnets": [subnet, {"cidr": "2001:db8::/64", "pools": [{**big, **runs}], "external": []}],
    }
    master.answers["Query"] = table(*(f"{name}:T:other" for name in values), rows=[list(values.values())])
    ran = gnt("gnt-network info net1")
    (info,) = yaml.safe_load(ran.out)
    assert info["Size"] == 90
    assert info["Free"] == "89 (98.89%)"
    assert info["Usage map"] == {0: "X" + "." * 63, 64: "." * 26}
    assert info["externally reserved IPs"] == ["192.0.2.50"]
    assert info["connected to node groups"] == [{"group": "default", "mode": "bridged", "link": "br0"}]
    assert info["used by 2 instances"] == {"plain": [], "web1": ["0:192.0.2.10,192.0.2.11", "2:2001:db8::5"]}
    assert info["addresses in use"] == {
        "192.0.2.10": "web1, NIC 0",
        "192.0.2.11": "web1, NIC 0",
        "2001:db8::5": "web1, NIC 2",
    }
    assert info["ports"] == [
        {"port": "p-1", "addresses": ["192.0.2.12"]},
        {"port": "vip", "device owner": "network:dhcp", "addresses": []},
    ]
    small, large = (subnet_info["pools"][0] for subnet_info in info["Subnets"])
    assert small["range"] == "192.0.2.10-192.0.2.99"
    assert small["map"] == {0: "X" + "." * 63, 64: "." * 26}
    assert "map" not in large
    assert large["reserved"] == ["2001:db8::5", "2001:db8::7-2001:db8::8", "and more"]


def changed(gnt: Gnt, master: Master, options: str) -> dict[str, Any]:
    ran = gnt(f"gnt-network modify {options} net1")
    assert ran.code == 0, ran.err
    op = dict(master.ops[-1])
    assert op["OP_ID"] == "OP_NETWORK_SET_PARAMS"
    assert op["network_name"] == "net1"
    return op


def test_actions_on_subnets_and_pools_reach_the_opcode_in_their_order(gnt: Gnt, master: Master) -> None:
    op = changed(
        gnt,
        master,
        "--pool remove:192.0.2.20-192.0.2.50 --subnet lan:remove --subnet add:cidr=10.0.0.0/27,pool "
        "--pool add:subnet=wan,name=w",
    )
    assert op["subnets"] == [
        {"action": "remove", "ident": "lan"},
        {"action": "add", "cidr": "10.0.0.0/27", "pool": True},
    ]
    assert op["pools"] == [
        {"action": "remove", "range": "192.0.2.20-192.0.2.50"},
        {"action": "add", "subnet": "wan", "name": "w"},
    ]
    assert not op.keys() & {"conflicts_check", "force"}


def test_the_other_options_of_a_change_reach_the_opcode(gnt: Gnt, master: Master) -> None:
    op = changed(
        gnt,
        master,
        "--gateway 192.0.2.2 --network6 none --gateway6 none -m aa:00:02 --no-conflicts-check --force "
        "--add-reserved-ips 192.0.2.20-192.0.2.50,192.0.2.77 --remove-reserved-ips 192.0.2.5",
    )
    expected = {
        "gateway": "192.0.2.2",
        "network6": "none",
        "gateway6": "none",
        "mac_prefix": "aa:00:02",
        "add_reserved_ips": ["192.0.2.20-192.0.2.50", "192.0.2.77"],
        "remove_reserved_ips": ["192.0.2.5"],
        "conflicts_check": False,
        "force": True,
    }
    assert op | expected == op


def test_a_network_is_renamed(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-network rename net1 lan").code == 0
    op = {"OP_ID": "OP_NETWORK_RENAME", "network_name": "net1", "new_name": "lan"}
    assert master.ops[0] | op == master.ops[0]
    assert gnt("gnt-network rename net1").code == 2


def test_removing_says_whether_by_force(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-network remove -f net1").code == 0
    assert master.ops[0] | {"OP_ID": "OP_NETWORK_REMOVE", "network_name": "net1", "force": True} == master.ops[0]
