"""Runs allocator programs on the master, which choose nodes for instances.

``operations.placement.iallocator`` writes their requests and reads their answers; this module finds a program in its
folders, passes the request in a file, and runs the program with a timeout. The file is removed afterwards.

See contracts/iallocator.md#program.
"""

import logging
import re
from collections.abc import Sequence

from gantry import errors
from gantry.runtime import interface

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 120.0
"""The maximum run time of a program."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_MAX_OUTPUT_LENGTH = 500


class Programs:
    """The allocator programs: the folders to search, first match wins, and the folder for requests."""

    def __init__(self, folders: Sequence[str] = (), scratch: str = "") -> None:
        self._folders = folders
        self._scratch = scratch

    async def run(
        self, runtime: interface.Runtime, name: str, request: bytes, *, arguments: Sequence[str] = ()
    ) -> bytes:
        """Return a program's answer to a request.

        Raises NotFoundError if there is no such program, EnvironmentFaultError if it fails or takes too long, or if the
        request cannot be written.
        """
        program = self._find(runtime, name)
        path = f"{self._scratch}/allocator-{runtime.random.uuid()}.json"
        try:
            await runtime.disk.write(path, request, mode=0o600, sync=False)
        except OSError as error:
            raise errors.EnvironmentFaultError(
                f"the request to allocator {name} cannot be written to {path}: {error.strerror or error}"
            ) from None
        try:
            done = await runtime.processes.run([program, path, *arguments], timeout=TIMEOUT_SECONDS)
        except TimeoutError:
            raise errors.EnvironmentFaultError(
                f"allocator {name} did not answer within {TIMEOUT_SECONDS:.0f} s"
            ) from None
        except OSError as error:
            raise errors.EnvironmentFaultError(
                f"allocator {program} cannot be run: {error.strerror or error}"
            ) from None
        finally:
            await _remove(runtime, path)
        if done.code:
            output = " ".join((done.stderr or done.stdout).decode(errors="replace").split())[:_MAX_OUTPUT_LENGTH]
            raise errors.EnvironmentFaultError(
                f"allocator {name} failed with exit code {done.code}: {output or 'no output'}"
            )
        return done.stdout

    def _find(self, runtime: interface.Runtime, name: str) -> str:
        paths = [f"{folder}/{name}" for folder in self._folders] if _NAME.fullmatch(name) else []
        program = next((path for path in paths if runtime.disk.exists(path)), "")
        if not program:
            raise errors.NotFoundError(
                f"no such allocator: {name}", hint=f"searched in {', '.join(self._folders) or 'no folder'}"
            )
        return program


async def _remove(runtime: interface.Runtime, path: str) -> None:
    """Remove a request, which the program may have done; the answer counts whether or not the disk can do it."""
    try:
        await runtime.disk.remove_all([path])
    except OSError as error:
        log.warning("the request to an allocator %s stays: %s", path, error.strerror or error)
