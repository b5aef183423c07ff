"""NICs of a real virtual machine, changed while it runs: its own console says what it sees."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import leftovers
from tests.real import demonstration
from tests.real.demonstration import FIXED, IPV4, IPV6, NAME, Demo

from gantry.node.network import segment_bridges

pytestmark = demonstration.NEEDS

SCRIPT = """#!/bin/sh
cp /proc/$$/environ "{seen}"
ip link set dev "$INTERFACE" master "$BRIDGE" up
"""
LINKS = "ip -o link | grep -c ether | sed s/^/cards:/"


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with demonstration.up("gp") as demo:
        yield demo


def modify(demo: Demo, *changes: str) -> None:
    demo.gnt("gnt-instance", "modify", *(word for change in changes for word in ("--net", change)), NAME)


def nics(demo: Demo, field: str) -> list[str]:
    return demo.gnt("gnt-instance", "list", "--no-headers", "-o", field, NAME).strip().split(",")


def remembered(demo: Demo) -> list[list[str]]:
    """Return the addresses of each NIC in the record of the running guest."""
    return [nic["ip"] for nic in json.loads((demo.guest / "record").read_text())["nics"]]


@pytest.mark.promise("networks-6", "networks-66", "cluster-140", "cluster-141")
def test_a_nic_with_two_addresses_comes_and_goes_while_the_guest_runs(demo: Demo) -> None:
    modify(demo, "-1:add,ip0=demo4,ip1=2001:db8:d::77,network=demo")
    added = nics(demo, "nic.macs")[1]
    demo.console("cat /sys/class/net/*/address", until=added)
    demo.console(LINKS, until="cards:2")
    assert remembered(demo) == [[IPV4, IPV6, FIXED], ["198.51.100.11", "2001:db8:d::77"]]
    demo.console(f"ip link set eth1 up; ip addr add 198.51.100.11/24 dev eth1; {LINKS}", until="cards:2")
    demo.wait("198.51.100.11")
    modify(demo, "add:mac=auto")
    demo.console(LINKS, until="cards:3")
    modify(demo, "remove")
    modify(demo, "1:remove")
    demo.console(LINKS, until="cards:1")
    demo.wait("198.51.100.11", answer=False)
    assert remembered(demo) == [[IPV4, IPV6, FIXED]]
    demo.wait(IPV4)


@pytest.mark.promise("networks-65")
def test_addresses_change_while_the_guest_runs_and_the_interface_script_receives_them(demo: Demo) -> None:
    seen, script = demo.node / "seen", demo.node / "etc/kvm-vif-bridge"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT.format(seen=seen))
    script.chmod(0o755)
    modify(demo, "0:modify,ip1=198.51.100.100", "0:modify,ip2=none")
    variables = set(seen.read_text().split("\0"))
    assert {f"IP={IPV4}", f"IP:0={IPV4}", "IP:1=198.51.100.100", "IP_1=198.51.100.100", "ACTION=up"} <= variables
    assert not any(variable.startswith("IP:2=") for variable in variables)
    assert remembered(demo) == [[IPV4, "198.51.100.100"]]
    demo.wait(IPV4)


def test_a_card_with_another_mac_address_takes_the_place_of_the_old_one(demo: Demo) -> None:
    modify(demo, "0:mac=aa:00:00:77:88:99")
    demo.console("cat /sys/class/net/*/address", until="aa:00:00:77:88:99")
    demo.console(LINKS, until="cards:1")


def ip(demo: Demo, node: int, *words: str) -> str:
    command = ["ip", "-n", f"{demo.prefix}{node}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_nic_in_a_segment_comes_and_goes_with_all_that_its_node_made_for_it(demo: Demo) -> None:
    (demo.node / "etc/kvm-vif-bridge").unlink(missing_ok=True)
    demo.gnt("gnt-network", "add", "--type", "vxlan", "--segment", "7001", "tunnel")
    demo.gnt("gnt-network", "connect", "-N", "mode=bridged,link=br0", "tunnel", "default")
    assert "ERROR" not in demo.gnt("gnt-cluster", "verify")
    before = ip(demo, 2, "-brief", "link")
    modify(demo, "add:network=tunnel")
    demo.console("cat /sys/class/net/eth1/mtu", until="1450")
    demo.console("ip link set eth1 up && ip addr add 10.9.0.1/24 dev eth1 && echo do''ne", until="done")
    # Another node's end of the segment, made by hand.
    wire = [
        "type",
        "vxlan",
        "id",
        "7001",
        "dev",
        "br0",
        "group",
        segment_bridges.group(7001, "inet"),
        "dstport",
        "4789",
    ]
    ip(demo, 3, "link", "add", "peer", *wire)
    ip(demo, 3, "address", "add", "10.9.0.3/24", "dev", "peer")
    ip(demo, 3, "link", "set", "peer", "up")
    demo.wait("10.9.0.1")
    ip(demo, 3, "link", "delete", "peer")
    modify(demo, "-1:remove")
    assert ip(demo, 2, "-brief", "link") == before
    demo.gnt("gnt-network", "disconnect", "tunnel")
    demo.gnt("gnt-network", "remove", "tunnel")


def _daemon(space: str) -> tuple[int, list[str]]:
    """Return the process of the daemon in a namespace, and its command line."""
    daemons: dict[int, tuple[int, list[str]]] = {}
    for pid in leftovers.inside(space):
        with contextlib.suppress(OSError):  # others come and go
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
            if any("gantry-noded" in word for word in command):
                daemons[pid] = (parent, command)
    # Whom it has just forked is called as it is, until it runs a program of its own.
    (daemon,) = [(pid, command) for pid, (parent, command) in daemons.items() if parent not in daemons]
    return daemon


def restart_daemon(demo: Demo) -> None:
    """Kill the daemon of the guest's node and start another one in its place."""
    pid, command = _daemon(f"{demo.prefix}2")
    os.kill(pid, signal.SIGKILL)
    # It ends with the namespace, when the demonstration is taken down.
    demo.on(2, "setsid", "--fork", "sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *command)
    deadline = time.monotonic() + 60
    while "Y" not in demo.gnt("gnt-instance", "list", "--no-headers", "-o", "oper_state", NAME):
        assert time.monotonic() < deadline, "the daemon does not answer"
        time.sleep(0.2)


def test_a_restarted_daemon_unplugs_a_nic_that_was_plugged_in_before(demo: Demo) -> None:
    modify(demo, "add:ip=demo4,network=demo")
    demo.console(LINKS, until="cards:2")
    restart_daemon(demo)
    modify(demo, "1:remove")
    demo.console(LINKS, until="cards:1")
