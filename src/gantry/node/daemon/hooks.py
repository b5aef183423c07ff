"""The administrator's hook scripts on one node: executables that run before and after operations.

    etc/hooks/<path>-pre.d/     may refuse the operation, each by its exit code
    etc/hooks/<path>-post.d/    hear that it is done

Which of them run follows run-parts: executable files whose names have letters, digits, ``_`` and ``-`` only, one after
the other by name. All run, even when one fails. They get the environment that the master made, the node's own
``GANETI_DATA_DIR`` and a fixed PATH, nothing else, and nothing on standard input; all of a call share ``PATIENCE``.

The call ``HooksRun`` leads here. Repeating it runs the scripts again: they have to stand that.

See contracts/hooks.md#directories.
"""

import re

from gantry import errors
from gantry.node.os import script_environment
from gantry.rpc import calls
from gantry.runtime import interface, paths

PATIENCE = 600.0
"""Seconds for all scripts of a call: below its time limit, so that the master hears of a script that hangs."""

OUTPUT_LIMIT = 4096
"""Bytes of output that are kept, the last ones."""

_PATH = re.compile(r"[a-z][a-z-]*")
_SCRIPT = re.compile(r"[A-Za-z0-9_-]+")


class Hooks:
    """The hook scripts of one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._runtime = runtime
        self._folders = folders

    async def run(self, call: calls.HooksRun) -> tuple[calls.HookResult, ...]:
        """Run the scripts of a path and phase; InvalidError for a path that is none."""
        if not _PATH.fullmatch(call.path):
            raise errors.InvalidError(f"{call.path!r} is no path of hooks", hint="such as instance-add")
        folder = f"{self._folders.hooks}/{call.path}-{call.phase}.d"
        if not self._runtime.disk.exists(folder):
            return ()
        environment = {**call.environment, "PATH": script_environment.PATH, "GANETI_DATA_DIR": self._folders.lib}
        end = self._runtime.clock.monotonic() + PATIENCE
        found = []
        for name in self._runtime.disk.names(folder):
            left = end - self._runtime.clock.monotonic()
            if not self._is_script(folder, name):
                found.append(calls.HookResult(script=name, outcome="skipped"))
            elif left <= 0:
                output = f"was not run: those before it took {PATIENCE:.0f} s"
                found.append(calls.HookResult(script=name, outcome="failed", output=output))
            else:
                found.append(await self._run(f"{folder}/{name}", environment, timeout=left))
        return tuple(found)

    def _is_script(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}"
        if not _SCRIPT.fullmatch(name) or not self._runtime.disk.exists(path):
            return False
        status = self._runtime.disk.status(path)
        return not status.is_directory and bool(status.mode & 0o111)

    async def _run(self, path: str, environment: dict[str, str], *, timeout: float) -> calls.HookResult:
        name = path.rpartition("/")[2]
        try:
            done = await self._runtime.processes.run([path], environment=environment, directory="/", timeout=timeout)
        except TimeoutError:
            return calls.HookResult(script=name, outcome="failed", output=f"was stopped after {timeout:.0f} s")
        except (OSError, ValueError) as error:
            # A value that no environment can hold must not get round a script that would refuse it.
            return calls.HookResult(script=name, outcome="failed", output=f"cannot be run: {error}")
        output = (done.stdout + done.stderr).strip()
        kept = output[-OUTPUT_LIMIT:].decode(errors="replace")
        return calls.HookResult(
            script=name,
            outcome="failed" if done.code else "succeeded",
            output=f"... {kept}" if len(output) > OUTPUT_LIMIT else kept,
        )
