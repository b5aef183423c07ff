"""Gantry's own Debian packages on a node, and their change to another version.

apt restarts the node daemon, so it runs outside of the daemon, in transient units of systemd:

    gantry-upgrade.service          installs the version that the master has named
    gantry-upgrade-back.timer       waits for the confirmation of the master, then starts:
    gantry-upgrade-back.service     installs the former version

So a version whose daemon does not start, or does not answer the master, does not stay. A reboot ends the timer: then
the master sees the installed version. Configuration files that the administrator has changed are kept. All arguments
are fixed, but for a version, which has the form of one (``calls.PackageVersion``), and names out of ``NAMES``.
"""

import contextlib
from collections.abc import Sequence

from gantry import errors
from gantry.node import call_table
from gantry.node.daemon import package_files
from gantry.rpc import calls
from gantry.runtime import commands, interface

SYSTEMD = "/run/systemd/system"
"""Exists while systemd is process 1 of the machine (sd_booted(3))."""
FORWARD, BACK = "gantry-upgrade", "gantry-upgrade-back"
DOWNLOAD_TIMEOUT_SECONDS = 75.0
"""For each of the two versions; a client of the master waits for three minutes."""
UPDATE_TIMEOUT_SECONDS = 20.0
FAULT_LINES = 12
"""How many lines of a failed change are reported."""
CHANGING = ("active", "activating", "reloading", "deactivating")

OPTIONS = (
    *("--yes", "--quiet", "--no-install-recommends", "--allow-downgrades"),
    *("--option", "Dpkg::Options::=--force-confdef", "--option", "Dpkg::Options::=--force-confold"),
    *("--option", "Dpkg::Use-Pty=0", "--option", "DPkg::Lock::Timeout=600"),
)
REPAIR = "-/usr/bin/dpkg --force-confdef --force-confold --configure --pending"
"""Runs first, as a change that was cut off leaves packages that apt refuses to build upon; it may fail."""


class Packages:
    """The packages of this machine; ``remember`` is called when the daemon starts."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._started = ""

    def add_to(self, table: call_table.Table) -> None:
        """Add the calls about packages."""
        table.add(calls.PackagesStatus, self._status)
        table.add(calls.PackagesCheck, self._check)
        table.add(calls.PackagesInstall, self._install)
        table.add(calls.PackagesConfirm, self._confirm)

    async def remember(self) -> None:
        """Remember which version is installed while this daemon starts: its code is of that version."""
        # A dpkg that hangs must not keep the daemon from starting.
        with contextlib.suppress(OSError):
            self._started = package_files.unpacked(await self._installed())

    async def _status(self, call: calls.PackagesStatus) -> calls.PackagesReport:
        present = await self._installed()
        states = await self._unit_states()
        failed = next((name for name in (FORWARD, BACK) if states.get(f"{name}.service") == "failed"), "")
        return calls.PackagesReport(
            installed=package_files.version(present),
            started=self._started,
            busy=_is_changing(states),
            unconfirmed=states.get(f"{BACK}.timer") == "active",
            fault=await self._output(failed) if failed else package_files.fault(present),
        )

    async def _check(self, call: calls.PackagesCheck) -> calls.PackagesOffer:
        former, names = await self._whole()
        if await self._missing(names, (call.version, former)):
            # The version may have been published after the lists were fetched. A mirror that does not answer is no
            # obstacle: what counts is whether the packages can be downloaded.
            with contextlib.suppress(TimeoutError):
                await self._run("apt-get", "--quiet", "update", timeout=UPDATE_TIMEOUT_SECONDS)
        if missing := await self._missing(names, (call.version, former)):
            raise errors.EnvironmentFaultError(
                f"no package repository of this node has {', '.join(missing)}",
                hint="put the packages of both versions, the new one and the installed one, into a repository of this "
                "machine, and run apt-get update there",
            )
        for version, words in ((call.version, ()), (former, ("--reinstall",))):
            await self._download(package_files.arguments(names, version), words)
        description = await self._run("apt-cache", "show", f"gantry-common={call.version}")
        fields = package_files.fields(description.stdout.decode(errors="replace"))
        state = fields.get("Gantry-State", "0")
        return calls.PackagesOffer(
            protocol=fields.get("Gantry-Protocol", ""), state=int(state) if state.isdecimal() else 0
        )

    async def _install(self, call: calls.PackagesInstall) -> None:
        present = await self._installed()
        names = sorted(package.name for package in present)
        self._check_possible(names)
        if _is_changing(await self._unit_states()):
            raise errors.BusyError("the packages of this node are changing already", hint="wait for the end of that")
        former = package_files.version(present)
        await self._systemctl("stop", f"{BACK}.timer")
        await self._systemctl("reset-failed", f"{FORWARD}.service", f"{BACK}.service")
        if former == call.version:
            return
        if call.confirm_seconds and former:
            wait = (f"--on-active={call.confirm_seconds}s", "--timer-property=AccuracySec=1s")
            await self._launch(BACK, f"the former packages of Gantry, {former}", names, former, wait=wait)
        await self._launch(FORWARD, f"the packages of Gantry {call.version}", names, call.version)

    async def _confirm(self, call: calls.PackagesConfirm) -> None:
        # Of a version that cannot be confirmed, the timer must continue to run.
        await self._check_confirmable(call.version)
        await self._systemctl("stop", f"{BACK}.timer")
        # The timer may have ended just before: then the node installs its former version.
        await self._check_confirmable(call.version)

    async def _check_confirmable(self, version: str) -> None:
        installed = package_files.version(await self._installed())
        if _is_changing(await self._unit_states()):
            raise errors.BusyError("the packages of this node are changing", hint="wait for the end of that")
        if not installed == self._started == version:
            raise errors.WrongStateError(
                f"{version} cannot be confirmed: the installed version is {installed or 'unknown'}, and the node "
                f"daemon was started with {self._started or 'an unknown one'}"
            )

    def _check_possible(self, names: Sequence[str]) -> None:
        if not names:
            raise errors.EnvironmentFaultError(
                "Gantry was not installed from Debian packages on this node", hint="upgrade it as it was installed"
            )
        if not self._runtime.disk.exists(SYSTEMD):
            raise errors.EnvironmentFaultError(
                "systemd does not run this node, so apt cannot run outside of the node daemon",
                hint="upgrade its packages by hand",
            )

    async def _whole(self) -> tuple[str, list[str]]:
        """Return the version and the names of the packages that are there; an error if they are of several versions."""
        present = await self._installed()
        names = sorted(package.name for package in present)
        self._check_possible(names)
        version = package_files.version(present)
        if not version:
            raise errors.WrongStateError(
                f"the packages of this node are not all of one version: {package_files.fault(present)}",
                hint="run dpkg --configure --pending and apt-get --fix-broken install there",
            )
        return version, names

    async def _installed(self) -> tuple[package_files.Package, ...]:
        """Return Gantry's packages on this machine, none if it has no packages at all."""
        try:
            done = await self._run("dpkg-query", "--show", f"--showformat={package_files.FORMAT}", *package_files.NAMES)
        except FileNotFoundError:
            return ()
        return package_files.parse(done.stdout.decode(errors="replace"))

    async def _missing(self, names: Sequence[str], versions: Sequence[str]) -> list[str]:
        """Return which packages, each with a version, no repository has."""
        listed = await self._run("apt-cache", "madison", *names)
        offered = package_files.offered(listed.stdout.decode(errors="replace"))
        pairs = [(name, version) for version in versions for name in names]
        return [f"{name} {version}" for name, version in pairs if (name, version) not in offered]

    async def _download(self, packages: Sequence[str], words: Sequence[str]) -> None:
        apt = ("apt-get", *OPTIONS, "--download-only", *words, "install", *packages)
        try:
            done = await self._run(*apt, timeout=DOWNLOAD_TIMEOUT_SECONDS)
        except TimeoutError:
            raise errors.EnvironmentFaultError(
                f"apt did not download {' '.join(packages)} within {DOWNLOAD_TIMEOUT_SECONDS:.0f} s",
                hint="repeat the command: apt continues where it was",
            ) from None
        if done.code:
            reason = _last_lines(done.stderr or done.stdout)
            raise errors.EnvironmentFaultError(
                f"apt cannot install {' '.join(packages)}: {reason}", hint="run the same apt-get install on that node"
            )

    async def _launch(
        self, unit: str, what: str, names: Sequence[str], version: str, *, wait: Sequence[str] = ()
    ) -> None:
        """Start a unit that installs a version, or its timer."""
        command = [
            *("systemd-run", "--quiet", f"--unit={unit}", f"--description=Install {what}", *wait),
            *(
                "--setenv=DEBIAN_FRONTEND=noninteractive",
                "--setenv=LC_ALL=C.UTF-8",
                f"--property=ExecStartPre={REPAIR}",
            ),
            *("--", "/usr/bin/apt-get", *OPTIONS, "install", *package_files.arguments(names, version)),
        ]
        done = await self._run(*command)
        if done.code:
            raise errors.EnvironmentFaultError(f"systemd did not start {unit}: {_last_lines(done.stderr)}")

    async def _unit_states(self) -> dict[str, str]:
        units = (f"{FORWARD}.service", f"{BACK}.service", f"{BACK}.timer")
        try:
            done = await self._run("systemctl", "show", "--property=Id", "--property=ActiveState", *units)
        except FileNotFoundError:
            return {}
        blocks = [package_files.properties(block) for block in done.stdout.decode(errors="replace").split("\n\n")]
        return {block.get("Id", ""): block.get("ActiveState", "") for block in blocks}

    async def _output(self, unit: str) -> str:
        """Return the last lines that a unit has written."""
        words = (f"--unit={unit}.service", f"--lines={FAULT_LINES}", "--output=cat", "--quiet")
        done = await self._run("journalctl", *words)
        return _last_lines(done.stdout) or f"{unit}.service has failed"

    async def _systemctl(self, *words: str) -> None:
        """Run systemctl; a unit that does not exist is no error."""
        await self._run("systemctl", *words)

    async def _run(self, *arguments: str, timeout: float = 60.0) -> commands.Completed:
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        return await self._runtime.processes.run(arguments, environment=environment, directory="/", timeout=timeout)


def _is_changing(states: dict[str, str]) -> bool:
    return any(states.get(f"{unit}.service") in CHANGING for unit in (FORWARD, BACK))


def _last_lines(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-FAULT_LINES:])
