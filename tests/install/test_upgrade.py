"""Three machines with a guest are brought to another version and back, by ``gnt-cluster upgrade``."""

import itertools
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.install import later_versions, machines
from tests.install import test_three_machines as three

pytestmark = [*machines.NEEDS, pytest.mark.timeout(3600)]

LATER, BROKEN = "0.3.0", "0.3.1"
REPOSITORY = "/srv/later-packages"
COMMAND_TIMEOUT_SECONDS = 900.0
CONFIRM_SECONDS = 90
"""For the version whose daemon does not start; then the node goes back."""
PING_SECONDS = 0.1
GAP_SECONDS = 1.0
"""The longest time without an answer of the guest."""
POLL_SECONDS = 1.0
READ = (
    "apt-get update -qq -o Dir::Etc::sourcelist=sources.list.d/later.list -o Dir::Etc::sourceparts=- "
    "-o APT::Get::List-Cleanup=0"
)
"""Reads the list of this repository alone: the machines do not reach the mirrors of Debian."""


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    """A repository with both later versions."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        # apt reads as a user of its own.
        target.chmod(0o755)
        later_versions.make(target, LATER)
        later_versions.make(target, BROKEN, later_versions.without_node_daemon)
        with (target / "Packages").open("w") as index:
            subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=target, check=True, stdout=index)
        yield target


@pytest.fixture(scope="module")
def site(debian: Path, repository: Path) -> Iterator[three.Site]:
    """The cluster of the page, whose machines know the repository."""
    with machines.site(debian, list(three.NODES)) as built:
        three.prepare(built)
        three.follow(built, three.section("## Install the packages", "## Where it is"))
        for machine in built.values():
            shutil.copytree(repository, machine.path(REPOSITORY))
            machine.write("/etc/apt/sources.list.d/later.list", f"deb [trusted=yes] file:{REPOSITORY} ./\n")
            machine.run(READ)
        yield built


class Command:
    """A run of ``gnt-cluster upgrade`` on the first machine."""

    numbers = itertools.count(1)

    def __init__(self, site: three.Site, words: str) -> None:
        self._machine = site["node1"]
        self._unit = f"command-{next(self.numbers)}"
        self.start = time.monotonic()
        script = f"gnt-cluster upgrade {words} >/root/{self._unit}.log 2>&1; echo $? >/root/{self._unit}.code"
        self._machine.run(f"systemd-run --quiet --unit {self._unit} bash -c '{script}'")

    def printed(self) -> str:
        return self._machine.run(f"cat /root/{self._unit}.log", check=False)

    def until_printed(self, words: str) -> None:
        limit = time.monotonic() + COMMAND_TIMEOUT_SECONDS
        while words not in self.printed():
            assert time.monotonic() < limit, self.printed()
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        self._machine.run(f"systemctl kill --signal KILL {self._unit}")

    def code(self) -> int:
        """Wait for the end; return the exit code."""
        limit = time.monotonic() + COMMAND_TIMEOUT_SECONDS
        while not (code := self._machine.run(f"cat /root/{self._unit}.code 2>/dev/null", check=False).strip()):
            assert time.monotonic() < limit, self.printed()
            time.sleep(POLL_SECONDS)
        return int(code)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start


class Ping:
    """Pings the guest from the third machine until the block ends; then ``gap`` is the longest time without answer."""

    def __init__(self, site: three.Site) -> None:
        self._machine = site["node3"]
        self.gap = 0.0

    def __enter__(self) -> "Ping":
        command = f"exec ping -n -D -i {PING_SECONDS} {three.GUEST[0]} >/root/ping.log"
        self._machine.run(f"systemd-run --quiet --unit pinging bash -c '{command}'")
        return self

    def __exit__(self, *_: object) -> None:
        self._machine.run("systemctl stop pinging")
        moments = [float(text) for text in re.findall(r"^\[([\d.]+)\] 64 bytes", self._log(), re.MULTILINE)]
        self.gap = max(later - earlier for earlier, later in itertools.pairwise(moments))

    def _log(self) -> str:
        return self._machine.run("cat /root/ping.log")


def versions(site: three.Site) -> set[str]:
    """Return the versions of all packages on all machines, and that of the master daemon."""
    installed = [machine.run("dpkg-query --show --showformat='${Version}\\n' 'gantry*'") for machine in site.values()]
    daemon = re.findall(r"Software version: (.+)", site["node1"].run("gnt-cluster version"))
    return {version for text in (*installed, *daemon) for version in text.split()}


def is_open(site: three.Site) -> bool:
    """Return whether the queue takes jobs."""
    return "unset" in site["node1"].run("gnt-cluster queue info")


@pytest.mark.parametrize("version", [LATER, later_versions.current])
def test_a_guest_does_not_notice_an_upgrade_or_a_downgrade(
    site: three.Site, version: str | Callable[[], str], figure: Callable[[str], None]
) -> None:
    target = version if isinstance(version, str) else version()
    guests = three.guests(site)
    assert any(guests)
    with Ping(site) as ping:
        command = Command(site, f"--to {target}")
        assert command.code() == 0, command.printed()
        seconds = command.seconds
    figure(f"three nodes to version {target}: {seconds:.0f} s; the guest's longest silence: {ping.gap:.2f} s")
    assert versions(site) == {target}
    assert three.guests(site) == guests
    assert is_open(site)
    assert ping.gap < GAP_SECONDS


def test_a_version_that_no_repository_has_is_refused(site: three.Site) -> None:
    command = Command(site, "--to 0.3.9")
    assert command.code() == 1
    assert "node2: node node2: no package repository of this node has gantry 0.3.9," in command.printed()
    assert is_open(site)


def test_a_node_whose_daemon_does_not_start_goes_back_by_itself(
    site: three.Site, figure: Callable[[str], None]
) -> None:
    guests = three.guests(site)
    command = Command(site, f"--to {BROKEN} --confirm-timeout {CONFIRM_SECONDS}")
    assert command.code() == 1
    figure(f"a version whose node daemon does not start is gone from all nodes after {command.seconds:.0f} s")
    assert f"node2: it went back to {later_versions.current()}" in command.printed()
    assert versions(site) == {later_versions.current()}
    assert three.guests(site) == guests
    assert is_open(site)


def test_a_command_that_was_killed_is_repeated(site: three.Site) -> None:
    command = Command(site, f"--to {LATER}")
    command.until_printed("node2: works with")
    command.kill()
    assert not is_open(site)
    repeated = Command(site, f"--to {LATER}")
    assert repeated.code() == 0, repeated.printed()
    assert "Continuing" in repeated.printed()
    assert versions(site) == {LATER}
    assert is_open(site)
