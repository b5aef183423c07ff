import os
import subprocess

import pytest
from msgspec import structs
from tests.node import samples

from gantry.node.os import script_environment
from gantry.rpc import calls
from gantry.runtime import paths

FOLDERS = paths.Paths.below("/r")


def environment(*nics: calls.Nic, reinstall: bool = False, debug: int = 1) -> dict[str, str]:
    disks = (samples.disk(FOLDERS, size=512), samples.disk(FOLDERS, size=64, index=1))
    vm = samples.instance(disks=disks, nics=nics)
    disk_paths = {disk.uuid: f"/disks/{disk.index}" for disk in disks}
    return script_environment.os_script(vm, disk_paths, api_version=20, debug=debug, reinstall=reinstall)


def test_an_os_script_gets_the_instance_and_its_os() -> None:
    variables = environment(samples.nic())
    expected = {
        "OS_API_VERSION": "20",
        "INSTANCE_NAME": "vm1",
        "INSTANCE_OS": "busybox+small",
        "OS_NAME": "busybox",
        "OS_VARIANT": "small",
        "HYPERVISOR": "kvm",
        "DEBUG_LEVEL": "1",
        "DISK_COUNT": "2",
        "NIC_COUNT": "1",
        "INSTANCE_PRIMARY_NODE": "node1",
        "INSTANCE_SECONDARY_NODES": "node2 node3",
        "INSTANCE_BE_MAXMEM": "16",
        "INSTANCE_BE_AUTO_BALANCE": "True",
        "INSTANCE_HV_KERNEL_ARGS": "ro",
        "OSP_MIRROR": "http://deb",
    }
    assert expected.items() <= variables.items()
    assert "INSTANCE_REINSTALL" not in variables
    assert environment(reinstall=True)["INSTANCE_REINSTALL"] == "1"


@pytest.mark.promise("cluster-118")
@pytest.mark.parametrize("debug", [0, 1])
def test_an_os_script_gets_the_debug_level_of_its_operation(debug: int) -> None:
    assert environment(debug=debug)["DEBUG_LEVEL"] == str(debug)


def test_an_os_script_gets_the_variables_of_each_disk() -> None:
    variables = environment()
    expected = {
        "DISK_0_PATH": "/disks/0",
        "DISK_0_SIZE": "512",
        "DISK_0_ACCESS": "rw",
        "DISK_0_ACCESS_LETTER": "W",
        "DISK_0_FRONTEND_TYPE": "paravirtual",
        "DISK_0_BACKEND_TYPE": "file:loop",
        "DISK_1_PATH": "/disks/1",
    }
    assert expected.items() <= variables.items()


LINK = {"MAC": "aa:00:00:00:00:00", "MODE": "bridged", "LINK": "br0", "BRIDGE": "br0"}
CABLE = {
    "NETWORK_NAME": "net1",
    "NETWORK_UUID": "f00d",
    "NETWORK_MAC_PREFIX": "aa:00:01",
    "NETWORK_TAGS": "blue green",
}
SUBNET = {"NETWORK_SUBNET": "192.0.2.0/24", "NETWORK_GATEWAY": "192.0.2.1"}
SUBNET6 = {"NETWORK_SUBNET6": "2001:db8::/64", "NETWORK_GATEWAY6": "2001:db8::1"}
PLAIN = samples.ADDRESSES[0]
SIX = calls.Address(ip="2001:db8::7", subnet="2001:db8::/64", gateway="2001:db8::1")
SUBNETS = (
    calls.Subnet(cidr="192.0.2.0/24", gateway="192.0.2.1"),
    calls.Subnet(cidr="2001:db8::/64", gateway="2001:db8::1"),
)


def plugged(*addresses: calls.Address, subnets: tuple[calls.Subnet, ...] = ()) -> calls.Nic:
    nic = samples.nic(addresses=addresses)
    assert nic.network
    return structs.replace(nic, network=structs.replace(nic.network, subnets=subnets))


@pytest.mark.promise("networks-83")
@pytest.mark.parametrize(
    ("nic", "expected"),
    [
        (plugged(PLAIN, subnets=SUBNETS), LINK | CABLE | SUBNET | SUBNET6 | {"IP": "192.0.2.7"}),
        (plugged(PLAIN, subnets=SUBNETS[:1]), LINK | CABLE | SUBNET | {"IP": "192.0.2.7"}),
        (plugged(subnets=SUBNETS), LINK | CABLE | SUBNET | SUBNET6),
        (plugged(), LINK | CABLE),
        (structs.replace(plugged(), network=None), LINK),
        (plugged(SIX, subnets=SUBNETS[1:]), LINK | CABLE | SUBNET6 | {"IP": "2001:db8::7"}),
    ],
    ids=["one address, two subnets", "one address, one subnet", "no address", "layer 2", "no network", "IPv6"],
)
def test_a_nic_with_at_most_one_address_has_only_the_variables_of_existing_scripts(
    nic: calls.Nic, expected: dict[str, str]
) -> None:
    variables = environment(nic)
    own = {name: value for name, value in variables.items() if name.startswith("NIC_0_")}
    card = {"UUID": nic.uuid, "FRONTEND_TYPE": "paravirtual"}
    assert own == {f"NIC_0_{name}": value for name, value in (expected | card).items()}
    interface = script_environment.nic(samples.instance(), nic, interface="gnt0", action="up")
    assert interface == expected | {
        "ACTION": "up",
        "INSTANCE": "vm1",
        "INTERFACE": "gnt0",
        "INTERFACE_INDEX": "0",
        "INTERFACE_UUID": nic.uuid,
        "PATH": "/sbin:/bin:/usr/sbin:/usr/bin",
        "TAGS": "",
        "VLAN": "",
    }


SEVERAL = {
    "IP:0": "192.0.2.7",
    "IP:1": "2001:db8::7",
    "IP:2": "198.51.100.9",
    "NETWORK_SUBNET:0": "192.0.2.0/24",
    "NETWORK_SUBNET:1": "2001:db8::/64",
    "NETWORK_SUBNET:2": "198.51.100.0/24",
    "NETWORK_GATEWAY:0": "192.0.2.1",
    "NETWORK_GATEWAY:1": "2001:db8::1",
    "NETWORK_DHCP:0": "False",
    "NETWORK_DHCP:1": "True",
    "NETWORK_DHCP:2": "False",
}


def test_a_nic_with_several_addresses_has_variables_in_both_spellings() -> None:
    for_shells = {name.replace(":", "_"): value for name, value in SEVERAL.items()}
    more = SEVERAL | for_shells | {"IP_COUNT": "3"}
    always = LINK | CABLE | SUBNET | SUBNET6 | {"IP": "192.0.2.7"}
    variables = environment(samples.nic())
    assert (always | more).items() <= {name.removeprefix("NIC_0_"): value for name, value in variables.items()}.items()
    interface = script_environment.nic(samples.instance(), samples.nic(), interface="gnt0", action="up")
    assert (always | more).items() <= interface.items()
    assert {name for name in interface if name.endswith((":2", "_2"))} == {name for name in more if "2" in name[-1]}


def test_a_gateway_goes_with_its_own_subnet() -> None:
    bare = calls.Address(ip="198.51.100.9", subnet="198.51.100.0/24")
    variables = environment(samples.nic(addresses=(bare, PLAIN)))
    assert variables["NIC_0_NETWORK_SUBNET"] == "198.51.100.0/24"
    assert "NIC_0_NETWORK_GATEWAY" not in variables


def test_an_address_of_a_dhcp_subnet_is_marked_even_if_it_is_the_only_one() -> None:
    variables = environment(samples.nic(addresses=(structs.replace(PLAIN, dhcp=True),)))
    assert (variables["NIC_0_IP"], variables["NIC_0_NETWORK_DHCP:0"], variables["NIC_0_NETWORK_DHCP_0"]) == (
        "192.0.2.7",
        "True",
        "True",
    )
    interface = script_environment.nic(
        samples.instance(), samples.nic(addresses=samples.ADDRESSES[1:2]), interface="gnt0", action="up"
    )
    assert interface["NETWORK_DHCP:0"] == "True"


def test_parameters_have_variables_under_their_own_names_and_in_capitals() -> None:
    variables = environment()
    assert variables["INSTANCE_BE_maxmem"] == variables["INSTANCE_BE_MAXMEM"] == "16"


def test_a_routed_nic_has_no_bridge() -> None:
    variables = script_environment.nic(
        samples.instance(), samples.nic(mode="routed", link="100"), interface="gnt0", action="up"
    )
    assert variables["LINK"] == "100"
    assert "BRIDGE" not in variables


def test_a_shell_reads_every_name_without_a_colon() -> None:
    variables = environment(samples.nic())
    names = [name for name in variables if ":" not in name]
    script = "".join(f'printf "%s\\0" "${{{name}}}"; ' for name in names)
    done = subprocess.run(["/bin/sh", "-c", script], env=variables, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [variables[name] for name in names]
    assert os.environ.get("NIC_COUNT") is None
