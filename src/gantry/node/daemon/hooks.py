"""The administrator's hook scripts on a node: executables that run before and after an opcode.

    etc/hooks/<path>-pre.d/     each script can reject the opcode by its exit code
    etc/hooks/<path>-post.d/    run after the opcode has succeeded

Scripts are selected as by run-parts: executable files whose names have only letters, digits, ``_`` and ``-``, one
after another in the order of their names. All of them run, even if one fails. Their environment is the one from the
master, the node's own ``GANETI_DATA_DIR`` and a fixed PATH, nothing else; their standard input is empty. All scripts of
a call share ``TIMEOUT_SECONDS``.

The call ``HooksRun`` runs them. Repeating the call runs the scripts again, which they must tolerate.

See contracts/hooks.md#directories.
"""

import re

from gantry import errors
from gantry.node.os import script_environment
from gantry.rpc import calls
from gantry.runtime import interface, paths

TIMEOUT_SECONDS = 600.0
"""For all scripts of a call together; below the call's timeout, so that the master learns which script hangs."""

OUTPUT_LIMIT = 4096
"""How many bytes of a script's output are kept, from its end."""

_PATH = re.compile(r"[a-z][a-z-]*")
_SCRIPT = re.compile(r"[A-Za-z0-9_-]+")


class Hooks:
    """The hook scripts of a node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._runtime = runtime
        self._folders = folders

    async def run(self, call: calls.HooksRun) -> tuple[calls.HookResult, ...]:
        """Run the scripts of a path and phase; InvalidError if the path is not a valid name."""
        if not _PATH.fullmatch(call.path):
            raise errors.InvalidError(f"{call.path!r} is not a valid hooks path", hint="use a name like instance-add")
        folder = f"{self._folders.hooks}/{call.path}-{call.phase}.d"
        if not self._runtime.disk.exists(folder):
            return ()
        environment = {**call.environment, "PATH": script_environment.PATH, "GANETI_DATA_DIR": self._folders.lib}
        end = self._runtime.clock.monotonic() + TIMEOUT_SECONDS
        results = []
        for name in self._runtime.disk.names(folder):
            remaining_seconds = end - self._runtime.clock.monotonic()
            if not self._is_script(folder, name):
                results.append(calls.HookResult(script=name, outcome="skipped"))
            elif remaining_seconds <= 0:
                output = f"not run: the scripts before it used up the timeout of {TIMEOUT_SECONDS:.0f} s"
                results.append(calls.HookResult(script=name, outcome="failed", output=output))
            else:
                results.append(await self._run(f"{folder}/{name}", environment, timeout=remaining_seconds))
        return tuple(results)

    def _is_script(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}"
        if not _SCRIPT.fullmatch(name) or not self._runtime.disk.exists(path):
            return False
        status = self._runtime.disk.status(path)
        return not status.is_directory and bool(status.mode & 0o111)

    async def _run(self, path: str, environment: dict[str, str], *, timeout: float) -> calls.HookResult:
        name = path.rpartition("/")[2]
        try:
            process = await self._runtime.processes.run([path], environment=environment, directory="/", timeout=timeout)
        except TimeoutError:
            return calls.HookResult(script=name, outcome="failed", output=f"timed out: killed after {timeout:.0f} s")
        except (OSError, ValueError) as error:
            # A value that an environment cannot contain must not bypass a script that would reject the opcode.
            return calls.HookResult(script=name, outcome="failed", output=f"cannot be run: {error}")
        output = (process.stdout + process.stderr).strip()
        kept = output[-OUTPUT_LIMIT:].decode(errors="replace")
        return calls.HookResult(
            script=name,
            outcome="failed" if process.code else "succeeded",
            output=f"... {kept}" if len(output) > OUTPUT_LIMIT else kept,
        )
