import os
import subprocess

from tests.node import samples

from gantry.node import variables
from gantry.rpc import calls
from gantry.runtime import paths

FOLDERS = paths.Paths.below("/r")


def environment(*nics: calls.Nic, reinstall: bool = False) -> dict[str, str]:
    disks = (samples.disk(FOLDERS, size=512), samples.disk(FOLDERS, size=64, index=1))
    vm = samples.instance(disks=disks, nics=nics)
    places = {disk.uuid: f"/disks/{disk.index}" for disk in disks}
    return variables.os_script(vm, places, api_version=20, debug=1, reinstall=reinstall)


def test_an_os_script_is_told_what_it_installs() -> None:
    told = environment(samples.nic())
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
    assert expected.items() <= told.items()
    assert "INSTANCE_REINSTALL" not in told
    assert environment(reinstall=True)["INSTANCE_REINSTALL"] == "1"


def test_an_os_script_is_told_of_each_disk() -> None:
    told = environment()
    expected = {
        "DISK_0_PATH": "/disks/0",
        "DISK_0_SIZE": "512",
        "DISK_0_ACCESS": "rw",
        "DISK_0_FRONTEND_TYPE": "paravirtual",
        "DISK_0_BACKEND_TYPE": "file:loop",
        "DISK_1_PATH": "/disks/1",
    }
    assert expected.items() <= told.items()


def test_a_nic_with_one_address_is_told_of_under_the_names_of_always() -> None:
    told = environment(samples.nic(addresses=samples.ADDRESSES[:1]))
    expected = {
        "NIC_0_MAC": "aa:00:00:00:00:00",
        "NIC_0_IP": "192.0.2.7",
        "NIC_0_MODE": "bridged",
        "NIC_0_LINK": "br0",
        "NIC_0_BRIDGE": "br0",
        "NIC_0_FRONTEND_TYPE": "paravirtual",
        "NIC_0_NETWORK_NAME": "net1",
        "NIC_0_NETWORK_SUBNET": "192.0.2.0/24",
        "NIC_0_NETWORK_GATEWAY": "192.0.2.1",
        "NIC_0_NETWORK_MAC_PREFIX": "aa:00:01",
        "NIC_0_NETWORK_TAGS": "blue green",
    }
    assert expected.items() <= told.items()
    assert "NIC_0_NETWORK_SUBNET6" not in told


def test_a_nic_with_several_addresses_is_told_of_under_both_spellings() -> None:
    told = environment(samples.nic())
    expected = {
        "NIC_0_IP": "192.0.2.7",
        "NIC_0_IP_COUNT": "3",
        "NIC_0_IP_0": "192.0.2.7",
        "NIC_0_IP_0_SUBNET": "192.0.2.0/24",
        "NIC_0_IP_0_GATEWAY": "192.0.2.1",
        "NIC_0_IP_0_DHCP": "False",
        "NIC_0_IP_1": "2001:db8::7",
        "NIC_0_IP_1_DHCP": "True",
        "NIC_0_IP_2": "198.51.100.9",
        "NIC_0_IP:1": "2001:db8::7",
        "NIC_0_NETWORK_SUBNET:1": "2001:db8::/64",
        "NIC_0_NETWORK_GATEWAY:1": "2001:db8::1",
        "NIC_0_NETWORK_DHCP:1": "True",
        "NIC_0_NETWORK_SUBNET:2": "198.51.100.0/24",
        "NIC_0_NETWORK_SUBNET": "192.0.2.0/24",
        "NIC_0_NETWORK_SUBNET6": "2001:db8::/64",
        "NIC_0_NETWORK_GATEWAY6": "2001:db8::1",
    }
    assert expected.items() <= told.items()
    assert "NIC_0_IP_2_GATEWAY" not in told


def test_a_nic_script_is_told_of_its_interface_and_all_addresses() -> None:
    plugged = samples.nic()
    told = variables.nic(samples.instance(), plugged, interface="gnt0", action="up")
    expected = {
        "INSTANCE": "vm1",
        "INTERFACE": "gnt0",
        "INTERFACE_INDEX": "0",
        "MAC": "aa:00:00:00:00:00",
        "MODE": "bridged",
        "LINK": "br0",
        "BRIDGE": "br0",
        "IP": "192.0.2.7",
        "IP:1": "2001:db8::7",
        "NETWORK_SUBNET:1": "2001:db8::/64",
        "NETWORK_GATEWAY:1": "2001:db8::1",
        "NETWORK_DHCP:0": "False",
        "IP_1": "2001:db8::7",
        "NETWORK_SUBNET_1": "2001:db8::/64",
        "NETWORK_UUID": "f00d",
        "ACTION": "up",
    }
    assert expected.items() <= told.items()


def test_a_routed_nic_has_no_bridge() -> None:
    told = variables.nic(samples.instance(), samples.nic(mode="routed", link="100"), interface="gnt0", action="up")
    assert told["LINK"] == "100"
    assert "BRIDGE" not in told


def test_a_shell_reads_every_name_without_a_colon() -> None:
    told = environment(samples.nic())
    names = [name for name in told if ":" not in name]
    script = "".join(f'printf "%s\\0" "${{{name}}}"; ' for name in names)
    done = subprocess.run(["/bin/sh", "-c", script], env=told, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [told[name] for name in names]
    assert os.environ.get("NIC_COUNT") is None
