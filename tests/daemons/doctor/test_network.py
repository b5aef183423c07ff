"""Name, addresses, bridges and ports of a machine, as the doctor sees them."""

import pytest
from tests.daemons.doctor.conftest import Examined

from gantry.daemons.doctor import network


@pytest.mark.parametrize("name", ["localhost", "(none)"])
def test_a_name_that_every_machine_has_is_an_error(machine: Examined, name: str) -> None:
    machine.runtime.host = name
    expected = f"the host name is {name!r}, which is the same on every machine"
    assert machine.seen(network.host_name) == [("error", expected)]


def test_a_name_that_cannot_be_resolved_is_a_warning(machine: Examined) -> None:
    machine.install("getent", code=2)
    assert machine.seen(network.host_name) == [("warning", "the host name n1 cannot be resolved")]


# A machine with IPv6 alone gets addresses of IPv4 in the form of IPv6.
@pytest.mark.parametrize("address", ["127.0.1.1", "::ffff:127.0.1.1"])
def test_a_name_that_resolves_to_loopback_is_a_warning(machine: Examined, address: str) -> None:
    machine.addresses("192.0.2.1")
    machine.install("getent", f"{address} STREAM n1\n{address} DGRAM\n")
    (result,) = machine.examine(network.host_name)
    expected = "the host name n1 resolves to 127.0.1.1, which other nodes cannot reach"
    assert (result.level, result.message) == ("warning", expected)
    assert "/etc/hosts" in result.remedy


def test_a_name_of_another_machine_is_an_error(machine: Examined) -> None:
    machine.addresses("192.0.2.7")
    machine.install("getent", "192.0.2.1 STREAM n1\n")
    (result,) = machine.examine(network.host_name)
    assert (result.level, "not an address of this machine" in result.message) == ("error", True)


def test_a_name_that_resolves_to_an_address_of_the_machine_is_fine(machine: Examined) -> None:
    machine.addresses("192.0.2.1", "2001:db8::1")
    machine.install("getent", "2001:db8::1 STREAM n1\n192.0.2.1 STREAM\n")
    assert machine.seen(network.host_name) == [("ok", "n1 resolves to 192.0.2.1, 2001:db8::1")]


def test_a_node_that_its_cluster_does_not_have_is_an_error(machine: Examined) -> None:
    machine.addresses("192.0.2.1")
    machine.join()
    machine.ssconf(node_list="n2\n")
    expected = "cluster cl has no node n1, but this machine still has its files"
    assert machine.seen(network.identity) == [("error", expected)]


def test_a_copy_of_a_node_is_an_error(machine: Examined) -> None:
    machine.addresses("192.0.2.9")
    machine.join()
    (result,) = machine.examine(network.identity)
    assert result.message == "this machine has the files of node n1, but not its address 192.0.2.1"
    assert "two nodes must not have one name" in result.remedy


def test_a_node_with_its_address_is_fine_and_a_machine_without_a_cluster_is_not_checked(machine: Examined) -> None:
    machine.addresses("192.0.2.1")
    assert not machine.seen(network.identity)
    machine.join()
    assert machine.seen(network.identity) == [("ok", "node n1 of cluster cl, address 192.0.2.1")]


def test_a_machine_with_ipv6_only_needs_a_daemon_that_listens_on_it(machine: Examined) -> None:
    machine.addresses("2001:db8::1")
    assert machine.seen(network.address_family) == [("ok", "2001:db8::1")]
    machine.write("/etc/gantry/node.toml", 'bind = "0.0.0.0"\n')
    (result,) = machine.examine(network.address_family)
    assert (result.level, result.remedy) == ("error", "remove bind from /etc/gantry/node.toml")


def test_a_machine_without_an_address_is_an_error(machine: Examined) -> None:
    machine.addresses()
    assert machine.seen(network.address_family) == [("error", "this machine has no address except loopback")]


def test_bridges_of_the_networks_of_the_own_group_must_exist(machine: Examined) -> None:
    machine.join()
    machine.ssconf(nodegroup_links="g1 bridge br0\ng1 bridge br1\ng1 bridge eth1\ng1 device eth2\ng2 bridge br9\n")
    machine.write("/sys/class/net/br0/bridge/bridge_id")
    machine.write("/sys/class/net/eth1/address")
    machine.write("/sys/class/net/eth2/address")
    assert machine.seen(network.bridges) == [
        ("ok", "the bridge br0 exists"),
        ("error", "there is no bridge br1, to which a network of this node's group is connected"),
        ("error", "the device eth1, to which a network is connected, is not a bridge"),
        ("ok", "the device eth2 exists"),
    ]


LISTENING = "LISTEN 0 128 0.0.0.0:{} 0.0.0.0:* {}\n"


def test_a_port_of_another_program_is_an_error(machine: Examined) -> None:
    machine.install("ss", LISTENING.format(1811, 'users:(("nginx",pid=7,fd=3))') + LISTENING.format(22, ""))
    assert machine.seen(network.ports) == [
        ("error", "port 1811 of gantry-noded is in use by nginx (process 7)"),
        ("ok", "port 5080 is free"),
    ]


def test_a_port_of_our_own_daemon_is_fine(machine: Examined) -> None:
    machine.install("ss", LISTENING.format(1811, 'users:(("gantry-noded",pid=7,fd=3))'))
    assert machine.seen(network.ports)[0] == ("ok", "port 1811 is used by gantry-noded")


def test_the_port_is_that_of_the_file(machine: Examined) -> None:
    machine.write("/etc/gantry/node.toml", "port = 2000\n")
    machine.install("ss", LISTENING.format("[::]:2000".rpartition(":")[2], 'users:(("nginx",pid=7,fd=3))'))
    assert machine.seen(network.ports)[0] == ("error", "port 2000 of gantry-noded is in use by nginx (process 7)")


def test_without_the_program_that_lists_ports_the_check_says_so(machine: Examined) -> None:
    (result,) = machine.examine(network.ports)
    assert (result.level, result.remedy) == ("warning", "install ss: apt install iproute2")
