"""OS definitions: folders of scripts that install an operating system on an instance's disks.

    <one of paths.os_definitions>/<name>/
        ganeti_api_version      accepted versions, one a line
        create                  mandatory
        export import rename    optional; what needs a missing one is refused (contracts/os-interface.md#scripts)
        verify                  optional
        variants.list parameters.list hypervisors      optional; the last restricts the hypervisors

Of two definitions with one name the first on the search path counts. A definition with a ``problem`` is listed, and
refused when it is to be used. Scripts run with ``script_environment.os_script`` as their whole environment and nothing
on standard input; the end of what they write is kept in ``log/os/``. ``export`` and ``import`` are programs of a
stream, which ``backup`` runs: ``stage`` says how.
"""

import asyncio
import contextlib
import datetime
import os.path
from collections.abc import AsyncIterator, Mapping

from gantry import errors
from gantry.node import drivers
from gantry.node.os import guest_config, script_environment
from gantry.rpc import calls
from gantry.runtime import commands, interface, paths

API_VERSIONS = (20, 15, 10)
SCRIPTS = ("create", "export", "import", "rename", "verify")
LAST_LINES = 5
# bytes: of the output of a script that writes more, the end is kept
LOG_LIMIT = 1 << 20
# characters of those lines that an error shows
TOLD = 2000


class Definitions:
    """The OS definitions of one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, registry: drivers.Registry) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._registry = registry
        self._running: dict[str, asyncio.Task[commands.Completed]] = {}

    def diagnose(self) -> tuple[calls.OsScript, ...]:
        """List all definitions, by name, those with problems among them."""
        found: dict[str, calls.OsScript] = {}
        for folder in self._folders.os_definitions:
            names = self._disk.names(folder) if self._disk.exists(folder) else []
            for name in names:
                path = f"{folder}/{name}"
                if name not in found and self._disk.status(path).is_directory:
                    found[name] = self._read(name, path)
        return tuple(found[name] for name in sorted(found))

    def find(self, name: str) -> calls.OsScript:
        """Return a definition by its name without variant; NotFoundError."""
        for folder in self._folders.os_definitions:
            path = f"{folder}/{name}"
            if name and "/" not in name and not name.startswith(".") and self._disk.exists(path):
                return self._read(name, path)
        raise errors.NotFoundError(
            f"node {self._registry.node} has no OS definition {name}",
            hint=f"put it into {' or '.join(self._folders.os_definitions)}; gnt-os list shows those there are",
        )

    def _read(self, name: str, path: str) -> calls.OsScript:
        versions = self._lines(f"{path}/ganeti_api_version")
        scripts = tuple(script for script in SCRIPTS if self._disk.exists(f"{path}/{script}"))
        parameters = [(*line.split(maxsplit=1), "") for line in self._lines(f"{path}/parameters.list")]
        return calls.OsScript(
            name=name,
            path=path,
            problem=self._problem(path, versions, scripts=scripts),
            variants=tuple(self._lines(f"{path}/variants.list")),
            parameters=tuple((name, text) for name, text, *_ in parameters),
            api_versions=tuple(int(version) for version in versions if version.isdecimal()),
            hypervisors=tuple(self._lines(f"{path}/hypervisors")),
            scripts=scripts,
        )

    def _lines(self, path: str) -> list[str]:
        if not self._disk.exists(path):
            return []
        lines = [line.strip() for line in self._disk.read(path).decode(errors="replace").splitlines()]
        return [line for line in lines if line and not line.startswith("#")]

    def _problem(self, path: str, versions: list[str], *, scripts: tuple[str, ...]) -> str:
        if not {str(version) for version in API_VERSIONS} & set(versions):
            return f"ganeti_api_version names none of {', '.join(map(str, API_VERSIONS))}"
        if "create" not in scripts:
            return "the script create is missing"
        for script in scripts:
            status = self._disk.status(f"{path}/{script}")
            if status.is_directory or not status.mode & 0o111:
                return f"the script {script} is not executable"
        return ""

    def _usable(self, instance: calls.Instance) -> calls.OsScript:
        """Return the definition that an instance asks for, if it can be used; InvalidError and WrongStateError.

        Whether it has the variant is the master's to check, which may be told to do without (``force_variant``).
        """
        name = instance.os.partition("+")[0]
        found = self.find(name)
        if found.problem:
            raise errors.WrongStateError(f"OS definition {name} in {found.path} is not valid: {found.problem}")
        if found.hypervisors and instance.hypervisor not in found.hypervisors:
            raise errors.InvalidError(
                f"OS definition {name} does not support hypervisor {instance.hypervisor}",
                hint=f"it supports {', '.join(found.hypervisors)}",
            )
        return found

    async def create(self, instance: calls.Instance, *, reinstall: bool, debug: int) -> str:
        """Run the create script and return the path of its log; ExecutionError with its last lines."""
        more = {"INSTANCE_REINSTALL": "1"} if reinstall else {}
        return await self._over_disks(instance, "create", kind="add", debug=debug, more=more)

    async def rename(self, instance: calls.Instance, *, old: str, debug: int) -> str:
        """Run the rename script and return the path of its log; WrongStateError when there is none."""
        return await self._over_disks(instance, "rename", kind="rename", debug=debug, more={"OLD_INSTANCE_NAME": old})

    async def verify(self, instance: calls.Instance) -> None:
        """Have the verify script, where there is one, look at the OS parameters; InvalidError with what it said."""
        found = self._usable(instance)
        if "verify" not in found.scripts or _version(found) < API_VERSIONS[0]:
            return
        bare = script_environment.os_script(
            _without_devices(instance), {}, api_version=_version(found), debug=0, reinstall=False
        )
        try:
            done = await self._runtime.processes.run(
                [f"{found.path}/verify", "parameters"],
                environment=bare,
                directory=found.path,
                timeout=calls.OsVerify.LIMIT,
            )
        except TimeoutError:
            raise self._slow(found, "verify", instance.name, limit=calls.OsVerify.LIMIT) from None
        if done.code:
            raise errors.InvalidError(
                f"OS {found.name} refuses its parameters: {last_lines(done.stdout + done.stderr)}"
            )

    def stage(
        self,
        instance: calls.Instance,
        script: str,
        where: Mapping[str, str],
        *,
        disk: calls.Disk,
        device: str,
        debug: int,
    ) -> commands.Stage:
        """Return how the script ``export`` or ``import`` is run for one disk; WrongStateError when there is none.

        ``device`` is what it reads or writes, which may be a snapshot; ``where`` are the paths of all disks.
        """
        found = self._with_script(instance, script)
        told = script_environment.os_script(instance, where, api_version=_version(found), debug=debug, reinstall=False)
        word = script.upper()
        told |= {f"{word}_DEVICE": device, f"{word}_DISK_PATH": device, f"{word}_INDEX": str(disk.index)}
        return commands.Stage([f"{found.path}/{script}"], environment=told, directory=found.path)

    def _with_script(self, instance: calls.Instance, script: str) -> calls.OsScript:
        found = self._usable(instance)
        if script not in found.scripts:
            raise errors.WrongStateError(f"OS definition {found.name} in {found.path} has no script {script}")
        return found

    async def _over_disks(
        self, instance: calls.Instance, script: str, *, kind: str, debug: int, more: Mapping[str, str]
    ) -> str:
        """Run a script over all disks; ``kind`` is what its log is called."""
        found = self._with_script(instance, script)
        async with self._registry.exposed(instance.disks) as where, self._seed(instance) as folder:
            told = script_environment.os_script(
                instance, where, api_version=_version(found), debug=debug, reinstall=False
            )
            return await self._run(
                found, script, instance, kind=kind, environment=told | {"INSTANCE_SEED": folder, **more}
            )

    @contextlib.asynccontextmanager
    async def _seed(self, instance: calls.Instance) -> AsyncIterator[str]:
        """Write what the system has to know of itself to a folder, which is there as long as the script runs."""
        folder = f"{self._folders.run}/seeds/{instance.uuid}"
        try:
            for name, content in guest_config.files(instance).items():
                path = f"{folder}/{name}"
                await self._disk.make_directory(os.path.dirname(path), mode=0o700)
                await self._disk.write(path, content.encode(), mode=0o600, sync=False)
            yield folder
        finally:
            await self._disk.remove_tree(folder)

    async def _run(
        self, found: calls.OsScript, script: str, instance: calls.Instance, *, kind: str, environment: Mapping[str, str]
    ) -> str:
        started = self._runtime.processes.run(
            [f"{found.path}/{script}"], environment=environment, directory=found.path, timeout=calls.OsAdd.LIMIT
        )
        running = self._running[instance.uuid] = asyncio.ensure_future(started)
        try:
            await asyncio.wait([running])
        finally:
            running.cancel()
            del self._running[instance.uuid]
        if running.cancelled():
            raise errors.ExecutionError(f"the {script} script of OS {found.name} for {instance.name} was killed")
        try:
            done = running.result()
        except TimeoutError:
            raise self._slow(found, script, instance.name, limit=calls.OsAdd.LIMIT) from None
        output = done.stdout + done.stderr
        log = await self.log(kind, instance, output)
        if done.code != 0:
            raise errors.ExecutionError(
                f"the {script} script of OS {found.name} for {instance.name} failed with exit code {done.code}: "
                + last_lines(output),
                hint=f"all that it wrote is in {log} on node {self._registry.node}",
            )
        return log

    async def cancel(self, uuid: str) -> None:
        """Kill the script that runs over the disks of an instance, with all that it has started."""
        if running := self._running.get(uuid):
            running.cancel()
            await asyncio.wait([running])

    def _slow(self, found: calls.OsScript, script: str, instance: str, *, limit: float) -> errors.ExecutionError:
        return errors.ExecutionError(
            f"the {script} script of OS {found.name} for {instance} took longer than {limit:.0f} s and was killed"
        )

    async def log(self, kind: str, instance: calls.Instance, output: bytes) -> str:
        """Keep the end of what a script wrote and return where."""
        folder = f"{self._folders.log}/os"
        await self._disk.make_directory(folder)
        moment = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        path = f"{folder}/{kind}-{instance.os}-{instance.name}-{moment:%Y-%m-%d_%H-%M-%S}.log"
        if len(output) > LOG_LIMIT:
            output = b"(%d bytes before this are lost)\n" % (len(output) - LOG_LIMIT) + output[-LOG_LIMIT:]
        await self._disk.write(path, output, sync=False)
        return path


def last_lines(output: bytes) -> str:
    """Return the last lines of a program's output in one line, of bounded length, without what moves a terminal."""
    lines = output[-LOG_LIMIT:].decode(errors="replace").strip().splitlines()[-LAST_LINES:]
    return "".join(sign if sign.isprintable() else "?" for sign in "; ".join(lines)[-TOLD:])


def _version(found: calls.OsScript) -> int:
    return max(set(API_VERSIONS) & set(found.api_versions))


def _without_devices(instance: calls.Instance) -> calls.Instance:
    return calls.Instance(
        name=instance.name,
        uuid=instance.uuid,
        hypervisor=instance.hypervisor,
        os=instance.os,
        hvparams=instance.hvparams,
        beparams=instance.beparams,
        osparams=instance.osparams,
    )
