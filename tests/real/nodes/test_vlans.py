"""Guests in VLANs of two nodes whose kernels can: one has a bridge that tells VLANs apart, one a card for them."""

import shlex
import subprocess
from collections.abc import Iterator
from concurrent import futures

import pytest
from tests.cluster import lab as commands
from tests.real import cables, machines
from tests.real.nodes import guests, lab
from tests.real.nodes.lab import Lab, Node

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = lab.NEEDS

RED, BLUE = (
    calls.Segment(network_type="vlan", segmentation_id=number, physical_network="physnet1") for number in (101, 102)
)
FIRST_IP, SECOND_IP, PLAIN_IP = "10.9.0.1", "10.9.0.2", "192.0.2.77"
SYSTEM = f"{paths.Paths.below(lab.ROOT).shared_file_storage}/guests/{cables.DISK}"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Lab]:
    with lab.up(2, disks=(), kind=guests.Host) as running_lab, running_lab.entered():
        system = f"{running_lab.folder}/system"
        cables.make_system(system)
        for node in running_lab.nodes:
            node.sh(f"mkdir -p {SYSTEM.rpartition('/')[0]}; cp {guests.HOST}{system} {SYSTEM}")
        second = running_lab.nodes[1]
        second.sh(f"ip link set eth0 nomaster; ip link delete br0; ip address add {second.address}/24 dev eth0")
        yield running_lab


def vm(name: str, nics: list[calls.Nic], *addresses: str) -> calls.Instance:
    kernel = f"{guests.HOST}{machines.GUEST}"
    return cables.guest(name, nics, addresses, system=SYSTEM, kernel=kernel, accel="auto")


def says(node: Node, name: str, command_and_output: tuple[str, str]) -> None:
    """Type a command into a guest until it prints the expected text."""
    command, until = command_and_output
    socket = f"{lab.ROOT}/run/instances/{name}/serial"
    script = f"{guests.HOST}{cables.ASK}"
    words = cables.ask(command, until=until, socket=socket, python="python3", script=script, timeout=guests.TIMEOUT)
    node.sh(shlex.join(words), timeout=2 * guests.TIMEOUT)


def in_vlans(node: Node) -> dict[str, list[str]]:
    """Return the VLANs of each port of the node's bridges."""
    vlans: dict[str, list[str]] = {}
    for line in node.sh("bridge vlan show").splitlines()[1:]:
        name, *words = line.split() if not line[:1].isspace() else (list(vlans)[-1], *line.split())
        vlans.setdefault(name, []).append(" ".join(words))
    return vlans


def devices(node: Node) -> set[str]:
    return {line.split()[1].rstrip(":") for line in node.sh("ip -oneline link").splitlines()}


def answers(address: str) -> bool:
    return subprocess.run(["ping", "-c1", "-W1", address], capture_output=True, check=False).returncode == 0


def test_guests_of_a_vlan_reach_each_other_over_a_bridge_here_and_a_card_there(nodes: Lab) -> None:
    first, second = nodes.nodes
    red = cables.card(1, link="br0", segment=RED, index=1)
    with pytest.raises(errors.EnvironmentFaultError, match="bridge br0 of node node1 is not VLAN-aware"):
        nodes.call(first, calls.NicValidate(nics=(red,)))
    first.sh("ip link set dev br0 type bridge vlan_filtering 1")
    with pytest.raises(
        errors.EnvironmentFaultError, match=r"no uplink of bridge br0 .* bridge vlan add dev eth0 vid 101"
    ):
        nodes.call(first, calls.NicValidate(nics=(red,)))
    first.sh("bridge vlan add dev eth0 vid 2-4094")
    before = [devices(node) for node in nodes.nodes]

    first_vm = vm("one", [cables.card(3, link="br0"), red], PLAIN_IP, FIRST_IP)
    second_vm = vm("two", [cables.card(2, link="eth0", segment=RED)], SECOND_IP)
    with futures.ThreadPoolExecutor() as both:
        starts = [(first, first_vm), (second, second_vm)]
        list(both.map(lambda pair: nodes.call(pair[0], calls.InstanceStart(instance=pair[1])), starts))
    says(first, "one", cables.reaches(SECOND_IP, size=1472))
    commands.wait_until(lambda: answers(PLAIN_IP), "the answer of a guest outside of all VLANs")
    taps = {name: vlans for name, vlans in in_vlans(first).items() if name.startswith("gnt")}
    assert sorted(taps.values()) == [["1 PVID Egress Untagged"], ["101 PVID Egress Untagged"]]

    blue = cables.card(2, link="eth0", segment=BLUE)
    assert nodes.call(second, calls.NicUpdate(instance=second_vm, nic=blue))
    says(first, "one", cables.misses(SECOND_IP))
    assert [name.split("-")[0] for name in sorted(devices(second) - before[1]) if "gnt" not in name] == [
        "gbv102", "gpv102",
    ]  # fmt: skip
    moved = cables.card(1, link="br0", segment=BLUE, index=1)
    assert nodes.call(first, calls.NicUpdate(instance=first_vm, nic=moved))
    says(first, "one", cables.reaches(SECOND_IP))

    trunk = cables.card(1, link="br0", vlan=":101:102", index=1)
    assert nodes.call(first, calls.NicUpdate(instance=first_vm, nic=trunk))
    says(first, "one", cables.misses(SECOND_IP))
    assert ["101", "102"] in in_vlans(first).values()
    assert nodes.call(first, calls.NicUpdate(instance=first_vm, nic=moved))

    for node, each in ((first, first_vm), (second, second_vm)):
        nodes.call(node, calls.InstanceShutdown(instance=each, timeout=0))
    assert [devices(node) for node in nodes.nodes] == before
    assert not [name for name in in_vlans(first) if name.startswith("gnt")]
