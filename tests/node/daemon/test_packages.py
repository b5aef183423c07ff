"""The packages of a node, on a simulated machine whose apt, dpkg and systemd do what a test has them do."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import msgspec
import pytest

from gantry import errors
from gantry.node import call_table
from gantry.node.daemon import packages
from gantry.rpc import calls
from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes

FORMER, LATER = "1.0", "1.1~rc1-2"
INSTALLED = ("gantry-common", "gantry-node")
STOP_TIMER = ["systemctl", "stop", "gantry-upgrade-back.timer"]


@dataclass
class Debian:
    """A machine with packages: what is installed, what its repository has, and the units that were started.

    ``units_at_stop`` are the units that have changed by the time that systemd stops one.
    """

    machine: simulated.SimulatedRuntime
    installed: dict[str, str] = field(default_factory=lambda: dict.fromkeys(INSTALLED, FORMER))
    offered: set[str] = field(default_factory=lambda: {FORMER, LATER})
    published: set[str] = field(default_factory=set)
    status: str = "installed"
    download_code: int = 0
    units: dict[str, str] = field(default_factory=dict)
    units_at_stop: dict[str, str] = field(default_factory=dict)
    ran: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("dpkg-query", "apt-get", "apt-cache", "systemd-run", "systemctl", "journalctl"):
            self.machine.processes.programs[name] = self._run
        self.node = packages.Packages(self.machine)
        self.table = call_table.Table()
        self.node.add_to(self.table)

    async def start(self) -> None:
        """Do what the node daemon does when it starts."""
        await self.machine.disk.make_directory(packages.SYSTEMD)
        await self.node.remember()

    async def answer(self, call: calls.Call[object]) -> object:
        return await self.table.answer(call.procedure(), msgspec.json.encode(call))

    def started(self, unit: str) -> list[list[str]]:
        return [words for words in self.ran if words[0] == "systemd-run" and f"--unit={unit}" in words]

    async def _run(self, call: processes.Invocation) -> commands.Completed:
        words = list(call.arguments)
        self.ran.append(words)
        await asyncio.sleep(0.01)
        answers = {
            "dpkg-query": self._query,
            "apt-cache": self._cache,
            "apt-get": self._get,
            "systemctl": self._systemctl,
        }
        code, text = answers[words[0]](words) if words[0] in answers else (0, "dpkg: error: no space left on device\n")
        return commands.Completed(code, text.encode(), b"")

    def _query(self, words: list[str]) -> tuple[int, str]:
        rows = [f"{name}\t{version}\t{self.status}" for name, version in self.installed.items()]
        return 1, "\n".join([*rows, "gantry-kube\t0.9\tconfig-files"])

    def _cache(self, words: list[str]) -> tuple[int, str]:
        if words[1] == "show":
            return 0, "Package: gantry-common\nGantry-Protocol: 1-2\nGantry-State: 10000000\n\nPackage: other\n"
        return 0, "\n".join(f"{name} | {version} | file:/srv ./" for name in words[2:] for version in self.offered)

    def _get(self, words: list[str]) -> tuple[int, str]:
        if "update" in words:
            self.offered |= self.published
            return 0, ""
        return self.download_code, "E: Unmet dependencies."

    def _systemctl(self, words: list[str]) -> tuple[int, str]:
        if words[1] == "stop":
            self.units |= self.units_at_stop
        states = [f"Id={unit}\nActiveState={self.units.get(unit, 'inactive')}" for unit in words[4:]]
        return 0, "\n\n".join(states)


Scenario = Callable[[Debian], Coroutine[object, object, None]]


def run(scenario: Scenario) -> None:
    with simulated.World(seed=1) as world:
        debian = Debian(world.machine("node1"))

        async def whole() -> None:
            await debian.start()
            await scenario(debian)

        world.run(whole())


def test_the_status_has_the_installed_version_and_that_of_the_daemons_start() -> None:
    async def scenario(debian: Debian) -> None:
        assert await debian.answer(calls.PackagesStatus()) == calls.PackagesReport(installed=FORMER, started=FORMER)
        debian.installed = dict.fromkeys(INSTALLED, LATER)
        debian.units = {"gantry-upgrade.service": "active", "gantry-upgrade-back.timer": "active"}
        assert await debian.answer(calls.PackagesStatus()) == calls.PackagesReport(
            installed=LATER, started=FORMER, busy=True, unconfirmed=True
        )

    run(scenario)


def test_a_failed_change_is_reported_with_its_last_lines() -> None:
    async def scenario(debian: Debian) -> None:
        debian.units = {"gantry-upgrade.service": "failed"}
        report = await debian.answer(calls.PackagesStatus())
        assert isinstance(report, calls.PackagesReport)
        assert report.fault == "dpkg: error: no space left on device"

    run(scenario)


def test_packages_of_several_versions_are_no_version() -> None:
    async def scenario(debian: Debian) -> None:
        debian.installed["gantry-node"] = LATER
        report = await debian.answer(calls.PackagesStatus())
        assert isinstance(report, calls.PackagesReport)
        assert (report.installed, report.fault) == ("", f"gantry-common {FORMER}, gantry-node {LATER}")
        with pytest.raises(errors.WrongStateError, match="not all of one version"):
            await debian.answer(calls.PackagesCheck(version=LATER))

    run(scenario)


def test_a_machine_without_packages_has_no_version_and_changes_none() -> None:
    async def scenario(debian: Debian) -> None:
        del debian.machine.processes.programs["dpkg-query"]
        del debian.machine.processes.programs["systemctl"]
        await debian.node.remember()
        assert await debian.answer(calls.PackagesStatus()) == calls.PackagesReport()
        with pytest.raises(errors.EnvironmentFaultError, match="not installed from Debian packages"):
            await debian.answer(calls.PackagesInstall(version=LATER, confirm_seconds=300))

    run(scenario)


def test_both_versions_are_downloaded_before_anything_begins() -> None:
    async def scenario(debian: Debian) -> None:
        offer = await debian.answer(calls.PackagesCheck(version=LATER))
        assert offer == calls.PackagesOffer(protocol="1-2", state=10_000_000)
        downloads = [words for words in debian.ran if "--download-only" in words]
        assert [words[-2:] for words in downloads] == [
            [f"gantry-common={LATER}", f"gantry-node={LATER}"],
            [f"gantry-common={FORMER}", f"gantry-node={FORMER}"],
        ]

    run(scenario)


def test_a_version_published_since_is_found_and_a_missing_one_is_named() -> None:
    async def scenario(debian: Debian) -> None:
        debian.offered, debian.published = {FORMER}, {LATER}
        await debian.answer(calls.PackagesCheck(version=LATER))
        debian.offered = {LATER}
        with pytest.raises(errors.EnvironmentFaultError, match=rf"has gantry-common {FORMER}, gantry-node {FORMER};"):
            await debian.answer(calls.PackagesCheck(version=LATER))

    run(scenario)


def test_packages_that_apt_cannot_install_are_refused_in_its_words() -> None:
    async def scenario(debian: Debian) -> None:
        debian.download_code = 100
        with pytest.raises(errors.EnvironmentFaultError, match="Unmet dependencies"):
            await debian.answer(calls.PackagesCheck(version=LATER))

    run(scenario)


def test_apt_runs_in_a_unit_of_its_own_and_the_way_back_is_set_before() -> None:
    async def scenario(debian: Debian) -> None:
        await debian.answer(calls.PackagesInstall(version=LATER, confirm_seconds=90))
        (back,), (forward,) = debian.started("gantry-upgrade-back"), debian.started("gantry-upgrade")
        assert debian.ran.index(back) < debian.ran.index(forward)
        assert "--on-active=90s" in back
        assert back[-2:] == [f"gantry-common={FORMER}", f"gantry-node={FORMER}"]
        assert forward[-2:] == [f"gantry-common={LATER}", f"gantry-node={LATER}"]
        assert "--setenv=DEBIAN_FRONTEND=noninteractive" in forward
        assert {"--allow-downgrades", "Dpkg::Options::=--force-confold"} <= set(forward)

    run(scenario)


def test_the_way_back_itself_sets_no_way_back() -> None:
    async def scenario(debian: Debian) -> None:
        await debian.answer(calls.PackagesInstall(version=LATER, confirm_seconds=0))
        assert not debian.started("gantry-upgrade-back")
        assert STOP_TIMER in debian.ran

    run(scenario)


def test_an_installed_version_is_not_installed_again_and_a_change_is_not_disturbed() -> None:
    async def scenario(debian: Debian) -> None:
        await debian.answer(calls.PackagesInstall(version=FORMER, confirm_seconds=300))
        assert not debian.started("gantry-upgrade")
        debian.units = {"gantry-upgrade-back.service": "activating"}
        with pytest.raises(errors.BusyError, match="changing already"):
            await debian.answer(calls.PackagesInstall(version=LATER, confirm_seconds=300))

    run(scenario)


def test_only_a_version_that_the_daemon_runs_is_confirmed() -> None:
    async def scenario(debian: Debian) -> None:
        with pytest.raises(errors.WrongStateError, match="cannot be confirmed"):
            await debian.answer(calls.PackagesConfirm(version=LATER))
        debian.installed = dict.fromkeys(INSTALLED, LATER)
        with pytest.raises(errors.WrongStateError, match=f"the node daemon was started with {FORMER}"):
            await debian.answer(calls.PackagesConfirm(version=LATER))
        assert STOP_TIMER not in debian.ran
        await debian.node.remember()
        await debian.answer(calls.PackagesConfirm(version=LATER))
        assert STOP_TIMER in debian.ran

    run(scenario)


def test_a_version_is_not_confirmed_if_its_timer_ends_meanwhile() -> None:
    async def scenario(debian: Debian) -> None:
        debian.units_at_stop = {"gantry-upgrade-back.service": "activating"}
        with pytest.raises(errors.BusyError, match="the packages of this node are changing"):
            await debian.answer(calls.PackagesConfirm(version=FORMER))

    run(scenario)


@pytest.mark.parametrize("version", ["", "-o", "--x=1", "1.0 gantry", "1.0;id", "1.0\n", "$(id)", "a1", "1/2", "1.0=2"])
def test_what_is_no_version_of_a_package_is_refused_before_any_program_runs(version: str) -> None:
    async def scenario(debian: Debian) -> None:
        debian.ran.clear()
        with pytest.raises(errors.ProtocolError):
            await debian.answer(calls.PackagesInstall(version=version, confirm_seconds=300))
        assert not debian.ran

    run(scenario)
