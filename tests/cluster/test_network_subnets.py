"""Subnets: added, changed and removed by the commands that people type."""

import re
from pathlib import Path

import pytest
from tests.cluster import lab, wires


@pytest.mark.promise("networks-2")
def test_a_network_may_have_ipv6_only(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=2001:db8:6::/64,gateway=2001:db8:6::1 --pool add:2001:db8:6::10-2001:db8:6::1f")
    assert wire.query("network", "network6", "gateway6") == [None, "2001:db8:6::/64", "2001:db8:6::1"]
    assert wire.use("ip=pool") == ["2001:db8:6::10"]
    assert wire.use("ip=2001:db8:6::77") == ["2001:db8:6::77"]
    new_wire = wires.create_wire(wire.cluster, "--subnet cidr=2001:db8:7::/64,pool")
    assert new_wire.use("ip=pool") == ["2001:db8:7::1"]
    new_wire.remove()


@pytest.mark.promise("networks-21")
def test_a_cable_in_use_gets_subnets_later(wire: wires.Wire) -> None:
    assert wire.use("") == []
    wire.modify("--subnet add:cidr=192.0.2.0/24")
    assert wire.use("ip=192.0.2.4") == ["192.0.2.4"]


@pytest.mark.promise("networks-3")
def test_a_network_needs_no_pool(lan: wires.Wire) -> None:
    assert lan.use("ip=192.0.2.4") == ["192.0.2.4"]
    assert f"network {lan.name} has no pool" in lan.not_given("ip=pool")
    assert (lan.pools, lan.query("free_count", "reserved_count")) == ([], [0, 0])


@pytest.mark.promise("networks-4")
def test_an_ipv6_pool_may_be_all_of_a_subnet(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=2001:db8:4::/64,gateway=2001:db8:4::,pool")
    assert [wire.use("ip=pool"), wire.use("ip=pool")] == [["2001:db8:4::1"], ["2001:db8:4::2"]]
    assert wire.query("free_count") == [(1 << 64) - 3]
    assert wire.info()["Subnets"][0]["pools"][0]["reserved"] == ["2001:db8:4::-2001:db8:4::2"]


@pytest.mark.promise("networks-9")
def test_a_network_has_any_number_of_subnets(wire: wires.Wire) -> None:
    cidrs = ["192.0.2.0/25", "192.0.2.128/25", "198.51.100.0/24", "2001:db8:1::/64", "2001:db8:2::/64"]
    wire.modify(" ".join(f"--subnet add:cidr={cidr}" for cidr in cidrs))
    assert [subnet["cidr"] for subnet in wire.subnets] == cidrs
    ips = ["192.0.2.5", "192.0.2.200", "198.51.100.9", "2001:db8:1::9", "2001:db8:2::9"]
    assert wire.use(",".join(f"ip{index}={ip}" for index, ip in enumerate(ips))) == ips
    assert "subnets 198.51.100.0/24 and 198.51.100.64/26 overlap" in wire.refused("--subnet add:cidr=198.51.100.64/26")


@pytest.mark.promise("networks-24")
def test_subnets_are_apart_and_everything_lies_in_one(lan: wires.Wire) -> None:
    assert "overlap" in lan.refused("--subnet add:cidr=192.0.0.0/16")
    assert "overlap" in lan.refused("--subnet add:cidr=10.0.0.0/24 --subnet add:cidr=10.0.0.0/25")
    assert "outside every subnet" in lan.not_given("ip=192.0.3.1")
    assert "outside every subnet" in lan.refused("--add-reserved-ips 192.0.3.1")
    assert f"no address of 192.0.3.1 is reserved externally in network {lan.name}" in lan.refused(
        "--remove-reserved-ips 192.0.3.1"
    )
    assert "outside every subnet" in lan.refused("--pool add:192.0.3.1-192.0.3.9")


@pytest.mark.promise("networks-10")
def test_a_gateway_is_optional(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=192.0.2.0/29,name=private,pool")
    assert wire.query("network", "gateway") == ["192.0.2.0/29", None]
    assert wire.use("ip=pool") == ["192.0.2.1"]
    wire.modify("--subnet private:modify,gateway=192.0.2.2")
    assert wire.use("ip=pool") == ["192.0.2.3"]
    wire.modify("--subnet private:modify,gateway=none")
    assert wire.query("gateway") == [None]
    assert wire.use("ip=pool") == ["192.0.2.2"]


@pytest.mark.promise("networks-22", "networks-70")
def test_a_subnet_needs_a_cidr_and_nothing_else(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=192.0.2.0/24")
    wire.modify("--subnet add:cidr=2001:db8:7::/64,gateway=2001:db8:7::1,dhcp=yes,name=six,pool")
    wire.modify("--add-reserved-ips 2001:db8:7::5")
    plain, full = wire.subnets
    bare = {"cidr": "192.0.2.0/24", "name": "", "gateway": "", "dhcp": False, "pools": [], "external": []}
    assert plain | bare == plain
    ipv6 = {"cidr": "2001:db8:7::/64", "name": "six", "gateway": "2001:db8:7::1", "dhcp": True}
    assert full | ipv6 | {"external": ["2001:db8:7::5"]} == full
    assert len(full["pools"]) == 1
    assert len({plain["uuid"], full["uuid"]}) == 2
    assert "--subnet: the subnet has no cidr" in wire.refused("--subnet add:name=x")


@pytest.mark.promise("networks-23")
def test_the_option_for_subnets_has_the_form_of_that_for_nics(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=192.0.2.0/24,name=a --subnet a:modify,name=b,dhcp=yes --subnet add:cidr=10.0.0.0/8")
    assert [(subnet["cidr"], subnet["name"], subnet["dhcp"]) for subnet in wire.subnets] == [
        ("192.0.2.0/24", "b", True),
        ("10.0.0.0/8", "", False),
    ]
    wire.modify("--subnet b:remove")
    assert [subnet["cidr"] for subnet in wire.subnets] == ["10.0.0.0/8"]


@pytest.mark.promise("networks-26", "networks-27")
def test_the_seeds_own_commands_add_subnets(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true")
    wire.modify("--subnet add:cidr=2001::/64,gateway=2001::1,dhcp=true")
    assert [(subnet["cidr"], subnet["gateway"], subnet["dhcp"]) for subnet in wire.subnets] == [
        ("10.0.0.0/24", "10.0.0.1", True),
        ("2001::/64", "2001::1", True),
    ]


@pytest.mark.promise("networks-28", "networks-29")
def test_a_subnet_is_named_by_cidr_name_or_uuid(wire: wires.Wire) -> None:
    wire.modify(
        "--subnet add:cidr=192.0.2.0/24,name=lan --subnet add:cidr=2001:db8:3::/64 --subnet add:cidr=10.0.0.0/8"
    )
    uuid = wire.subnets[2]["uuid"]
    assert "has no subnet wan; its subnets: 192.0.2.0/24 (lan), " in wire.refused("--subnet wan:remove")
    assert "has no subnet 192.0.2.0/25" in wire.refused("--subnet 192.0.2.0/25:remove")
    wire.modify("--subnet 2001:DB8:3:0::/64:remove")
    assert [subnet["cidr"] for subnet in wire.subnets] == ["192.0.2.0/24", "10.0.0.0/8"]
    wire.modify(f"--subnet {uuid}:remove")
    wire.modify("--subnet lan:remove")
    assert wire.subnets == []


def test_an_identifier_that_fits_two_subnets_is_refused(lan: wires.Wire) -> None:
    uuid = lan.subnets[0]["uuid"]
    lan.modify(f"--subnet add:cidr=10.0.0.0/24,name={uuid}")
    assert f"subnet {uuid} of network {lan.name} is ambiguous" in lan.refused(f"--subnet {uuid}:remove")
    lan.modify("--subnet 10.0.0.0/24:remove")


@pytest.mark.promise("networks-30")
def test_a_subnet_in_use_is_not_removed(lan: wires.Wire) -> None:
    lan.use("ip=192.0.2.9")
    output = lan.refused("--subnet lan:remove")
    assert f"in use by instance {lan.instances[0]} (192.0.2.9)" in output
    lan.free(lan.instances[0])
    lan.modify("--subnet lan:remove")
    assert lan.subnets == []


@pytest.mark.promise("networks-31")
def test_one_subnet_of_each_family_has_dhcp(wire: wires.Wire) -> None:
    wire.modify("--subnet add:cidr=192.0.2.0/25,dhcp=yes,name=a --subnet add:cidr=192.0.2.128/25,name=b")
    wire.modify("--subnet add:cidr=2001:db8:8::/64,dhcp=yes")
    assert "subnets 192.0.2.0/25 and 192.0.2.128/25 both have dhcp" in wire.refused("--subnet b:modify,dhcp=yes")
    assert "both have dhcp" in wire.refused("--subnet add:cidr=2001:db8:9::/64,dhcp=yes")
    wire.modify("--subnet a:modify,dhcp=no --subnet b:modify,dhcp=yes")
    assert [subnet["dhcp"] for subnet in wire.subnets] == [False, True, True]


@pytest.mark.promise("networks-32")
def test_name_and_dhcp_of_a_subnet_are_changed(lan: wires.Wire) -> None:
    lan.modify("--subnet 192.0.2.0/24:modify,dhcp=true")
    assert [(subnet["name"], subnet["dhcp"]) for subnet in lan.subnets] == [("lan", True)]
    lan.modify("--subnet lan:modify,dhcp=false,name=foo")
    assert [(subnet["name"], subnet["dhcp"]) for subnet in lan.subnets] == [("foo", False)]
    assert "has no subnet lan" in lan.refused("--subnet lan:modify,dhcp=true")


def _ports(*files: str) -> set[int]:
    lines = [line.split() for file in files for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]]
    return {int(words[1].rpartition(":")[2], 16) for words in lines}


@pytest.mark.promise("networks-33")
def test_scripts_get_the_dhcp_flag_and_no_service_runs(lan: wires.Wire) -> None:
    before = _ports("udp", "udp6")
    lan.modify("--subnet lan:modify,dhcp=true")
    name = "leased.example"
    nics = f"ip=192.0.2.5,network={lan.name}"
    lan.cluster.run("gnt-instance", "add", *lab.instance_arguments(nics=nics), name)
    lan.instances.append(name)
    environments = [path.read_text() for path in lab.files(lan.cluster.master) if path.suffix == ".env"]
    variables = "\n".join(text for text in environments if name in text)
    assert re.search(r"^NIC_0_NETWORK_DHCP.*=True$", variables, flags=re.MULTILINE), variables
    assert not (_ports("udp", "udp6") - before) & {67, 547}


@pytest.mark.promise("networks-34")
def test_cidr_and_gateway_are_changed_by_the_seeds_own_commands(lan: wires.Wire) -> None:
    lan.modify("--subnet lan:modify,cidr=192.0.2.0/22")
    assert lan.query("network", "gateway") == ["192.0.0.0/22", "192.0.2.1"]
    assert lan.use("ip=192.0.3.7") == ["192.0.3.7"]
    lan.free(lan.instances[0])
    lan.modify("--subnet lan:modify,gateway=none")
    lan.modify("--subnet lan:modify,cidr=192.0.2.32/28")
    lan.modify("--subnet lan:modify,gateway=192.0.2.40")
    assert lan.query("network", "gateway") == ["192.0.2.32/28", "192.0.2.40"]
    assert "192.0.2.40 is the gateway" in lan.not_given("ip=192.0.2.40")
    assert "outside every subnet" in lan.not_given("ip=192.0.2.5")


@pytest.mark.promise("networks-35")
def test_a_subnet_does_not_grow_over_another(lan: wires.Wire) -> None:
    lan.modify("--subnet add:cidr=192.0.3.0/24")
    assert "subnets 192.0.3.0/24 and 192.0.2.0/23 overlap" in lan.refused("--subnet lan:modify,cidr=192.0.2.0/23")
    lan.modify("--subnet 192.0.3.0/24:remove")
    lan.modify("--subnet lan:modify,cidr=192.0.2.0/23")


@pytest.mark.promise("networks-36")
def test_a_subnet_shrinks_only_by_unused_addresses(lan: wires.Wire) -> None:
    lan.modify("--pool add:192.0.2.10-192.0.2.200,name=web --add-reserved-ips 192.0.2.150-192.0.2.160")
    lan.use("ip=192.0.2.180")
    shrink = "--subnet lan:modify,cidr=192.0.2.0/25"
    assert f"in use by instance {lan.instances[0]} (192.0.2.180)" in lan.refused(shrink)
    lan.free(lan.instances[0])
    assert (
        "192.0.2.150-192.0.2.160 is reserved externally; remove it first: --remove-reserved-ips 192.0.2.150-192.0.2.160"
        in lan.refused(shrink)
    )
    lan.modify("--remove-reserved-ips 192.0.2.150-192.0.2.160")
    lan.use("ip=192.0.2.100")
    lan.modify(shrink)
    assert lan.pools == [("192.0.2.10", "192.0.2.127", "web")]
    assert "192.0.2.180 is outside every subnet" in lan.not_given("ip=192.0.2.180")
