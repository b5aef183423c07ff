"""OS definitions: folders of scripts that install an operating system on an instance's disks.

    <one of paths.os_definitions>/<name>/
        ganeti_api_version      supported versions, one per line
        create                  mandatory
        export import rename    optional; a job that needs a missing one fails (contracts/os-interface.md#scripts)
        verify                  optional
        variants.list parameters.list hypervisors      optional; the last restricts the hypervisors

Of several definitions with the same name, the first on the search path is used. A definition with a ``problem`` is
listed, but cannot be used. Scripts run with ``script_environment.os_script`` as their whole environment and with an
empty standard input; the end of their output is kept in ``log/os/``. ``export`` and ``import`` are programs of a
stream, which ``backup`` runs according to ``stage``. A script that writes to disks is tracked: if the node daemon is
killed, the next one ends the script before it answers calls.
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
from gantry.runtime import commands, interface, paths, retention

API_VERSIONS = (20, 15, 10)
SCRIPTS = ("create", "export", "import", "rename", "verify")
LAST_LINES = 5
LOG_LIMIT = 1 << 20
"""How many bytes of a script's output are kept, from its end."""
LOGS = 1000
"""How many log files of scripts a node keeps; it removes the oldest."""

MAX_ERROR_LENGTH = 2000
"""How many characters of a script's output an error message contains, from its end."""


class Definitions:
    """The OS definitions of a node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, registry: drivers.Registry) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._registry = registry
        self._underway: dict[str, asyncio.Task[str]] = {}
        self._running: dict[str, asyncio.Task[commands.Completed]] = {}

    def diagnose(self) -> tuple[calls.OsScript, ...]:
        """Return all definitions, sorted by name, including those with problems."""
        definitions: dict[str, calls.OsScript] = {}
        for folder in self._folders.os_definitions:
            names = self._disk.names(folder) if self._disk.exists(folder) else []
            for name in names:
                path = f"{folder}/{name}"
                if name not in definitions and self._disk.status(path).is_directory:
                    definitions[name] = self._read(name, path)
        return tuple(definitions[name] for name in sorted(definitions))

    def find(self, name: str) -> calls.OsScript:
        """Return a definition by its name without a variant; NotFoundError."""
        for folder in self._folders.os_definitions:
            path = f"{folder}/{name}"
            if name and "/" not in name and not name.startswith(".") and self._disk.exists(path):
                return self._read(name, path)
        raise errors.NotFoundError(
            f"node {self._registry.node} has no OS definition {name}",
            hint=f"install it in {' or '.join(self._folders.os_definitions)}, or choose one from gnt-os list",
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
            return f"ganeti_api_version has none of the supported versions {', '.join(map(str, API_VERSIONS))}"
        if "create" not in scripts:
            return "the script create is missing"
        for script in scripts:
            status = self._disk.status(f"{path}/{script}")
            if status.is_directory or not status.mode & 0o111:
                return f"the script {script} is not executable"
        return ""

    def _usable(self, instance: calls.Instance) -> calls.OsScript:
        """Return the definition of an instance's OS; InvalidError or WrongStateError if it cannot be used.

        The master checks the variant, unless the opcode has ``force_variant``.
        """
        name = instance.os.partition("+")[0]
        definition = self.find(name)
        if definition.problem:
            raise errors.WrongStateError(
                f"OS definition {name} in {definition.path} on node {self._registry.node} is not valid: "
                + definition.problem
            )
        if definition.hypervisors and instance.hypervisor not in definition.hypervisors:
            raise errors.InvalidError(
                f"OS definition {name} does not support hypervisor {instance.hypervisor}",
                hint=f"it supports {', '.join(definition.hypervisors)}",
            )
        return definition

    async def create(self, instance: calls.Instance, *, reinstall: bool, debug: int) -> str:
        """Run the create script and return the path of its log; ExecutionError with its last lines if it fails."""
        variables = {"INSTANCE_REINSTALL": "1"} if reinstall else {}
        return await self._run_with_disks(instance, "create", log_kind="add", debug=debug, variables=variables)

    async def rename(self, instance: calls.Instance, *, old: str, debug: int) -> str:
        """Run the rename script and return the path of its log; WrongStateError if the definition has none."""
        variables = {"OLD_INSTANCE_NAME": old}
        return await self._run_with_disks(instance, "rename", log_kind="rename", debug=debug, variables=variables)

    async def verify(self, instance: calls.Instance) -> None:
        """Check the OS parameters with the verify script, if there is one; InvalidError with its message."""
        definition = self._usable(instance)
        if "verify" not in definition.scripts or _version(definition) < API_VERSIONS[0]:
            return
        environment = script_environment.os_script(
            _without_devices(instance), {}, api_version=_version(definition), debug=0, reinstall=False
        )
        try:
            done = await self._runtime.processes.run(
                [f"{definition.path}/verify", "parameters"],
                environment=environment,
                directory=definition.path,
                timeout=calls.OsVerify.LIMIT,
            )
        except TimeoutError:
            raise self._timed_out(definition, "verify", instance.name, limit=calls.OsVerify.LIMIT) from None
        if done.code:
            raise errors.InvalidError(
                f"OS {definition.name} rejects its parameters: {last_lines(done.stdout + done.stderr)}"
            )

    def stage(
        self,
        instance: calls.Instance,
        script: str,
        disk_paths: Mapping[str, str],
        *,
        disk: calls.Disk,
        device: str,
        debug: int,
    ) -> commands.Stage:
        """Return the stage of a stream that runs ``export`` or ``import`` for a disk; WrongStateError without script.

        The script reads or writes ``device``, which may be a snapshot; ``disk_paths`` are those of all disks, by UUID.
        """
        definition = self._with_script(instance, script)
        environment = script_environment.os_script(
            instance, disk_paths, api_version=_version(definition), debug=debug, reinstall=False
        )
        prefix = script.upper()
        environment |= {f"{prefix}_DEVICE": device, f"{prefix}_DISK_PATH": device, f"{prefix}_INDEX": str(disk.index)}
        return commands.Stage(
            [f"{definition.path}/{script}"], environment=environment, directory=definition.path, tracked=True
        )

    def _with_script(self, instance: calls.Instance, script: str) -> calls.OsScript:
        definition = self._usable(instance)
        if script not in definition.scripts:
            raise errors.WrongStateError(
                f"OS definition {definition.name} in {definition.path} on node {self._registry.node} "
                f"has no script {script}"
            )
        return definition

    async def _run_with_disks(
        self, instance: calls.Instance, script: str, *, log_kind: str, debug: int, variables: Mapping[str, str]
    ) -> str:
        """Run a script with access to all disks; the name of its log begins with ``log_kind``.

        A call that arrives twice waits for the work that is underway: two scripts would write to one disk.
        """
        work = self._underway.get(instance.uuid)
        if work is None:
            begun = self._with_disks(instance, script, log_kind=log_kind, debug=debug, variables=variables)
            work = self._underway[instance.uuid] = asyncio.ensure_future(begun)
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
            await asyncio.wait([work])
            self._underway.pop(instance.uuid, None)
        if work.cancelled():
            raise errors.ExecutionError(f"the work of the {script} script for {instance.name} was cancelled")
        return work.result()

    async def _with_disks(
        self, instance: calls.Instance, script: str, *, log_kind: str, debug: int, variables: Mapping[str, str]
    ) -> str:
        definition = self._with_script(instance, script)
        async with self._registry.exposed(instance.disks) as disk_paths, self._seed(instance) as folder:
            environment = script_environment.os_script(
                instance, disk_paths, api_version=_version(definition), debug=debug, reinstall=False
            )
            environment |= {"INSTANCE_SEED": folder, **variables}
            return await self._run(definition, script, instance, log_kind=log_kind, environment=environment)

    @contextlib.asynccontextmanager
    async def _seed(self, instance: calls.Instance) -> AsyncIterator[str]:
        """Write the guest's configuration to a folder, which exists while the script runs."""
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
        self,
        definition: calls.OsScript,
        script: str,
        instance: calls.Instance,
        *,
        log_kind: str,
        environment: Mapping[str, str],
    ) -> str:
        script_run = self._runtime.processes.run(
            [f"{definition.path}/{script}"],
            environment=environment,
            directory=definition.path,
            timeout=calls.OsAdd.LIMIT,
            tracked=True,
        )
        running = self._running[instance.uuid] = asyncio.ensure_future(script_run)
        try:
            await asyncio.wait([running])
        finally:
            running.cancel()
            await asyncio.wait([running])
            del self._running[instance.uuid]
        if running.cancelled():
            raise errors.ExecutionError(
                f"the {script} script of OS {definition.name} for {instance.name} was cancelled"
            )
        try:
            done = running.result()
        except TimeoutError:
            raise self._timed_out(definition, script, instance.name, limit=calls.OsAdd.LIMIT) from None
        output = done.stdout + done.stderr
        log = await self.log(log_kind, instance, output)
        if done.code != 0:
            raise errors.ExecutionError(
                f"the {script} script of OS {definition.name} for {instance.name} failed with exit code {done.code}: "
                + last_lines(output),
                hint=f"its whole output is in {log} on node {self._registry.node}",
            )
        return log

    async def cancel(self, uuid: str) -> None:
        """Kill the script that runs for an instance, with all processes that it has started."""
        if running := self._running.get(uuid):
            running.cancel()
            await asyncio.wait([running])

    def _timed_out(
        self, definition: calls.OsScript, script: str, instance: str, *, limit: float
    ) -> errors.ExecutionError:
        return errors.ExecutionError(
            f"the {script} script of OS {definition.name} for {instance} timed out after {limit:.0f} s and was killed"
        )

    async def log(self, kind: str, instance: calls.Instance, output: bytes) -> str:
        """Write a script's output, or its end if it is long, to a log file and return the file's path."""
        folder = f"{self._folders.log}/os"
        await self._disk.make_directory(folder)
        moment = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        path = f"{folder}/{kind}-{instance.os}-{instance.name}-{moment:%Y-%m-%d_%H-%M-%S}.log"
        if len(output) > LOG_LIMIT:
            output = b"(the first %d bytes are omitted)\n" % (len(output) - LOG_LIMIT) + output[-LOG_LIMIT:]
        await retention.keep_newest(self._disk, folder, most=LOGS)
        await self._disk.write(path, output, sync=False)
        return path


def last_lines(output: bytes) -> str:
    """Return the last lines of a program's output in one line of limited length, without control characters."""
    lines = output[-LOG_LIMIT:].decode(errors="replace").strip().splitlines()[-LAST_LINES:]
    text = "; ".join(lines)[-MAX_ERROR_LENGTH:]
    return "".join(character if character.isprintable() else "?" for character in text)


def _version(definition: calls.OsScript) -> int:
    return max(set(API_VERSIONS) & set(definition.api_versions))


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
