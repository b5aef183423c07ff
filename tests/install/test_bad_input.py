"""What goes wrong on a machine where Gantry is installed: each fault names its remedy, and nothing is lost."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.install import machines

pytestmark = machines.NEEDS

ADDRESS, SECOND = "2001:db8::9", "2001:db8::a"
INIT = f"gnt-cluster init --primary-ip {ADDRESS} --enabled-hypervisors fake lab.example"
DEADLINE_SECONDS = 30.0
POLL_SECONDS = 0.2
SETTINGS = "/etc/gantry/node.toml"


@pytest.fixture(scope="module")
def site(debian: Path) -> Iterator[dict[str, machines.Machine]]:
    """Two machines that have addresses of IPv6 alone, called ``node`` and ``second``."""
    with machines.site(debian, ["node", "second"]) as both:
        for machine, address in zip(both.values(), (ADDRESS, SECOND), strict=True):
            machine.boot()
            machine.run(f"ip link set host0 up && ip address add {address}/64 dev host0 nodad")
        both["node"].run(machines.INSTALL)
        yield both


@pytest.fixture
def machine(site: dict[str, machines.Machine]) -> machines.Machine:
    """The machine where everything for one node is installed."""
    return site["node"]


def until(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + DEADLINE_SECONDS
    while not condition() and time.monotonic() < limit:
        time.sleep(POLL_SECONDS)
    return condition()


def active(machine: machines.Machine) -> bool:
    """Return whether the node daemon serves."""
    return machine.run("systemctl is-active gantry-noded", check=False).strip() == "active"


def logged(machine: machines.Machine, words: str) -> bool:
    return words in machine.run("journalctl --unit gantry-noded --output cat")


def test_an_upgrade_that_ended_between_unpacking_and_configuring_is_finished(machine: machines.Machine) -> None:
    machine.run(f"dpkg --unpack {machines.FOLDER}/gantry{{,-api,-client,-common,-master,-node}}_*.deb")
    assert "unpacked" in machine.run("dpkg --status gantry-node")
    machine.run("dpkg --configure --pending")
    assert until(lambda: active(machine))


def test_a_setting_with_a_typing_error_is_named_and_the_daemon_goes_on(machine: machines.Machine) -> None:
    fault = f"{SETTINGS}:1: 'prot' is not a setting of gantry-noded"
    before = machine.run(f"cat {SETTINGS}")
    machine.write(SETTINGS, f"prot = 1811\n{before}")
    machine.run("systemctl reload gantry-noded")
    assert until(lambda: logged(machine, fault))
    assert active(machine)
    assert fault in machine.run("gantry-node --check", check=False)
    machine.run("systemctl restart gantry-noded", check=False)
    assert not active(machine)
    machine.write(SETTINGS, before)
    assert until(lambda: active(machine))


def test_a_port_in_use_is_named_and_the_daemon_starts_once_it_is_free(machine: machines.Machine) -> None:
    machine.run("systemctl stop gantry-noded")
    machine.run("systemd-run --quiet --unit squatter socat TCP6-LISTEN:1811,fork,reuseaddr /dev/null")
    try:
        machine.run("systemctl start gantry-noded", check=False)
        assert until(lambda: logged(machine, "1811): address already in use; ss -ltnp shows"))
        assert not active(machine)
        assert "1811" in machine.run("gantry doctor", check=False)
    finally:
        machine.run("systemctl stop squatter")
    assert until(lambda: active(machine))


def test_a_machine_called_localhost_makes_no_cluster(machine: machines.Machine) -> None:
    machine.run("hostname localhost")
    refused = machine.run(INIT, check=False)
    machine.run("hostname node")
    assert "localhost is what every machine is called" in refused
    assert "hostnamectl set-hostname" in refused
    machine.run("test ! -e /var/lib/gantry/config.data")


def test_a_full_disk_makes_no_cluster(machine: machines.Machine) -> None:
    machine.run("systemctl stop gantry-noded && mount -t tmpfs -o size=256k tmpfs /var/lib/gantry")
    machine.run("systemctl start gantry-noded && dd if=/dev/zero of=/var/lib/gantry/full 2>/dev/null", check=False)
    refused = machine.run(INIT, check=False)
    assert "No space left on device" in refused
    machine.run("rm /var/lib/gantry/full")
    machine.run("systemctl stop gantry-noded gantry-masterd && umount /var/lib/gantry && systemctl start gantry-noded")


def test_a_machine_with_ipv6_alone_becomes_a_cluster_once(machine: machines.Machine) -> None:
    assert "is up" in machine.run(INIT)
    assert "already" in machine.run(INIT, check=False)
    assert ADDRESS in machine.run("gnt-node list -o name,pip")


def test_packages_that_were_removed_find_the_state_of_their_cluster(machine: machines.Machine) -> None:
    machine.run("gnt-cluster add-tags kept && apt-get remove -qq --yes 'gantry*'")
    machine.run("test ! -e /usr/bin/gnt-cluster")
    machine.run(machines.INSTALL)
    assert until(lambda: "kept" in machine.run("gnt-cluster list-tags", check=False))


def invite(master: machines.Machine, name: str) -> str:
    """Return the line for the machine that is to become a node."""
    printed = master.run(f"gnt-node add {name}").splitlines()
    return next(line for line in printed if line.startswith("gantry-node join "))


def test_a_machine_of_another_cluster_stays_there(site: dict[str, machines.Machine]) -> None:
    site["second"].run(machines.INSTALL)
    site["second"].run(INIT.replace(ADDRESS, SECOND).replace("lab", "other"))
    refused = site["second"].run(invite(site["node"], "second"), check=False)
    assert "this machine already is node second of cluster other.example" in refused
    assert "gnt-node remove second on that cluster's master" in refused
    assert site["node"].run("gnt-node list --no-headers -o name").split() == ["node"]
    assert "other.example" in site["second"].run("gnt-cluster info")
    site["second"].run("gnt-cluster destroy --yes-do-it")


def test_two_machines_cannot_have_one_name(site: dict[str, machines.Machine]) -> None:
    assert "node node is already part of the cluster" in site["node"].run("gnt-node add node", check=False)
    line = invite(site["node"], "second")
    site["second"].run("hostname node")
    refused = site["second"].run(line, check=False)
    assert "the token is for second, but this machine is called node" in refused
    assert "add --name second" in refused
    site["second"].run("hostname second")
    assert "this machine is now second of cluster lab.example" in site["second"].run(line)


def test_a_bridge_that_a_machine_lacks_is_named(site: dict[str, machines.Machine]) -> None:
    site["node"].run("gnt-network add --subnet cidr=192.0.2.0/24 --pool 192.0.2.100-192.0.2.199,name=lan4 lan")
    site["node"].run("gnt-network connect -N mode=bridged,link=br0 lan default")
    missing = "there is no bridge br0, to which a network of this node's group is connected"
    assert until(lambda: missing in site["second"].run("gantry doctor", check=False))
    assert "ip link add br0 type bridge" in site["second"].run("gantry doctor", check=False)
    site["second"].run("ip link add br0 type bridge")
    assert "the bridge br0 exists" in site["second"].run("gantry doctor", check=False)
