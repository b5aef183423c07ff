"""OS definitions: folders of scripts that install an operating system on an instance's disks.

    <one of paths.os_definitions>/<name>/
        ganeti_api_version      accepted versions, one a line
        create                  mandatory
        export import rename    optional; what needs a missing one is refused (cluster seed "The Scripts")
        verify                  optional
        variants.list parameters.list hypervisors      optional; the last restricts the hypervisors

Of two definitions with one name the first on the search path counts. A definition with a ``problem`` is listed, and
refused when it is to be used. Scripts run with ``variables.os_script`` as their whole environment and nothing on
standard input; what they write is kept in ``log/os/``.
"""

import datetime
from collections.abc import Mapping

from gantry import errors
from gantry.node import drivers, variables
from gantry.rpc import calls
from gantry.runtime import interface, paths

API_VERSIONS = (20, 15, 10)
SCRIPTS = ("create", "export", "import", "rename", "verify")
LAST_LINES = 5


class Definitions:
    """The OS definitions of one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, registry: drivers.Registry) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._registry = registry

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
        parameters = [line.partition(" ") for line in self._lines(f"{path}/parameters.list")]
        return calls.OsScript(
            name=name,
            path=path,
            problem=self._problem(path, versions, scripts=scripts),
            variants=tuple(self._lines(f"{path}/variants.list")),
            parameters=tuple((parameter, text.strip()) for parameter, _, text in parameters),
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
        found = self._usable(instance)
        async with self._registry.exposed(instance.disks) as where:
            return await self._create(found, instance, where, reinstall=reinstall, debug=debug)

    async def _create(
        self,
        found: calls.OsScript,
        instance: calls.Instance,
        where: Mapping[str, str],
        *,
        reinstall: bool,
        debug: int,
    ) -> str:
        environment = variables.os_script(
            instance,
            where,
            api_version=max(set(API_VERSIONS) & set(found.api_versions)),
            debug=debug,
            reinstall=reinstall,
        )
        log = await self._log("add", instance)
        try:
            done = await self._runtime.processes.run(
                [f"{found.path}/create"], environment=environment, directory=found.path, timeout=calls.OsAdd.LIMIT
            )
        except TimeoutError:
            raise errors.ExecutionError(
                f"the create script of OS {found.name} for {instance.name} took longer than {calls.OsAdd.LIMIT:.0f} s"
            ) from None
        output = done.stdout + done.stderr
        await self._disk.write(log, output, sync=False)
        if done.code != 0:
            lines = output.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise errors.ExecutionError(
                f"the create script of OS {found.name} for {instance.name} failed with exit code {done.code}: "
                + "; ".join(lines),
                hint=f"all that it wrote is in {log} on node {self._registry.node}",
            )
        return log

    async def _log(self, kind: str, instance: calls.Instance) -> str:
        folder = f"{self._folders.log}/os"
        await self._disk.make_directory(folder)
        moment = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        return f"{folder}/{kind}-{instance.os}-{instance.name}-{moment:%Y-%m-%d_%H-%M-%S}.log"
