"""Three bare machines become a cluster by the words of how-to/install.md, and survive what happens to machines."""

import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import pytest
from tests.docs import pages
from tests.install import machines

pytestmark = machines.NEEDS

PAGE = pages.DOCS / "how-to/install.md"
NODES = ("node1", "node2", "node3")
COMMANDS = 10
"""How many commands the page takes from bare machines to a guest that answers."""
GUEST = "192.0.2.100", "2001:db8::1:0"
LOOKS = re.compile("ping |gnt-instance list |gnt-cluster verify")
"""Commands that are repeated until they show what the page says: a guest boots."""
STARTS = 3
DEADLINE_SECONDS = 180.0
POLL_SECONDS = 1.0

Site = dict[str, machines.Machine]


def section(first: str, last: str = "") -> list[pages.File | pages.Command]:
    """Return the steps of the page from one heading to another, or to its end."""
    lines = PAGE.read_text().splitlines()
    begin, end = lines.index(first), lines.index(last) if last else len(lines)
    return [step for step in pages.steps(PAGE) if begin < step.line < end]


def prepare(site: Site) -> None:
    """Give the machines the files that the page requires, each with its own addresses."""
    for number, machine in enumerate(site.values(), 1):
        for step in section("## What you need", "## Install the packages"):
            assert isinstance(step, pages.File)
            text = step.text.replace("enp1s0", "host0").replace("192.0.2.1/", f"192.0.2.{number}/")
            machine.write(step.path, text.replace("db8::1/", f"db8::{number}/"))
        machine.boot()
        machine.run("systemctl enable --quiet --now systemd-networkd")


def follow(site: Site, steps: list[pages.File | pages.Command]) -> None:
    """Type the commands, and compare what they print with the page."""
    printed = ""
    for step in steps:
        assert isinstance(step, pages.Command)
        # The page abridges a token that the last command has printed.
        typed = next((line for line in printed.splitlines() if pages.matches(step.text, line)), step.text)
        if step.node == pages.ALL:
            everywhere(site, typed)
        else:
            printed = typing(site[f"node{step.node}"], step, typed)


def everywhere(site: Site, command: str) -> None:
    """Run a command on all machines at once."""
    with futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda machine: machine.run(command), site.values()))


def typing(machine: machines.Machine, step: pages.Command, typed: str) -> str:
    """Run a command until it prints what the page shows; return what it printed."""
    limit = time.monotonic() + DEADLINE_SECONDS
    while True:
        printed = machine.run(typed, check=not LOOKS.match(typed))
        if not step.shown or pages.matches(step.shown, printed):
            return printed
        assert LOOKS.match(typed), f"line {step.line}: {typed}\n--- shown\n{step.shown}\n--- printed\n{printed}"
        assert time.monotonic() < limit, f"line {step.line}: {typed}\n--- printed\n{printed}"
        time.sleep(POLL_SECONDS)


@pytest.fixture(scope="module")
def founded(debian: Path) -> Iterator[tuple[Site, float]]:
    """The cluster of the page with its guest, and how many seconds the page took."""
    with machines.site(debian, list(NODES)) as three:
        prepare(three)
        begin = time.monotonic()
        follow(three, section("## Install the packages", "## Where it is"))
        yield three, time.monotonic() - begin


@pytest.fixture
def site(founded: tuple[Site, float]) -> Site:
    return founded[0]


def answers(machine: machines.Machine) -> bool:
    return all("1 received" in machine.run(f"ping -c 1 -W 1 {address}", check=False) for address in GUEST)


def until_the_guest_answers(site: Site) -> None:
    """Wait for the guest; the watcher, which systemd starts every five minutes, is started at once."""
    limit = time.monotonic() + DEADLINE_SECONDS
    while not answers(site["node3"]):
        assert time.monotonic() < limit, site["node1"].run("gnt-instance list; gnt-cluster verify", check=False)
        site["node1"].run("systemctl start gantry-watcher", check=False)
        time.sleep(POLL_SECONDS)


def test_the_page_takes_ten_commands() -> None:
    # The last one only looks.
    assert len(section("## Install the packages", "## Where it is")[:-1]) <= COMMANDS


def test_the_page_leads_to_a_guest_that_answers(founded: tuple[Site, float], figure: Callable[[str], None]) -> None:
    site, seconds = founded
    assert answers(site["node3"])
    figure(f"from three bare machines to a guest that answers, by the page: {seconds:.0f} s")


@pytest.mark.parametrize("service", ["gantry-noded", "gantry-masterd", "gantry-rapi"])
def test_the_memory_of_an_idle_daemon_is_measured(site: Site, service: str, figure: Callable[[str], None]) -> None:
    process = site["node1"].run(f"systemctl show --property MainPID --value {service}").strip()
    memory = site["node1"].run(f"cat /proc/{process}/smaps_rollup")
    resident, anonymous = (
        int(re.findall(rf"^{name}: +(\d+)", memory, re.MULTILINE)[0]) for name in ("Rss", "Anonymous")
    )
    figure(f"{service}: {resident / 1024:.0f} MiB resident, of which {anonymous / 1024:.0f} MiB are its own")


def ready_after(machine: machines.Machine, service: str) -> float:
    """Return how many seconds after its start a daemon that starts again has said READY=1."""
    machine.run(f"systemctl restart {service}")
    start, ready = (
        int(machine.run(f"systemctl show --property {name}TimestampMonotonic --value {service}"))
        for name in ("ExecMainStart", "ActiveEnter")
    )
    return (ready - start) / 1e6


@pytest.mark.parametrize("service", ["gantry-noded", "gantry-masterd"])
def test_the_start_of_a_daemon_is_measured(site: Site, service: str, figure: Callable[[str], None]) -> None:
    seconds = [ready_after(site["node1"], service) for _ in range(STARTS)]
    figure(f"{service}: {statistics.median(seconds):.2f} s from its start to READY=1, median of {STARTS}")


def test_the_cluster_has_no_fault(site: Site) -> None:
    follow(site, section("## After a reboot or a power failure", "## Remove it"))


def guests(site: Site) -> list[str]:
    """Return the processes of the guests on each machine, and when they started."""
    return [machine.run("ps -C qemu-system-x86_64 -o pid=,lstart=", check=False) for machine in site.values()]


def test_an_upgrade_of_its_packages_leaves_a_guest_alone(site: Site) -> None:
    before = guests(site)
    assert any(before)
    everywhere(site, "apt-get install -qq --yes --reinstall gantry-node")
    assert guests(site) == before


@pytest.mark.parametrize("name", NODES)
def test_a_node_reboots(site: Site, name: str) -> None:
    site[name].power_off()
    site[name].boot()
    until_the_guest_answers(site)


def test_all_nodes_reboot(site: Site) -> None:
    for machine in site.values():
        machine.power_off()
    for machine in site.values():
        machine.boot()
    until_the_guest_answers(site)


def test_the_master_loses_its_power(site: Site) -> None:
    site["node1"].run("gnt-instance add-tags web1.example kept")
    site["node1"].cut_power()
    assert answers(site["node3"])
    site["node1"].boot()
    until_the_guest_answers(site)
    assert "kept" in site["node1"].run("gnt-instance list-tags web1.example")


def test_a_node_goes_and_its_packages_too(site: Site) -> None:
    site["node1"].run("gnt-node remove node3")
    follow(site, section("## Remove it"))
    assert site["node3"].run("ls /usr/lib/gantry /lib/systemd/system/gantry*", check=False).count("No such file") == 2
    assert answers(site["node1"])
