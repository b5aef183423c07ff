"""The programs on the master that say where instances go, as far as they are programs.

``operations.placement.iallocator`` knows what is said to them and what they answer; here one is found in its folders,
given its request in a file, and run within a time limit. The file is gone afterwards.

See contracts/iallocator.md#program.
"""

import re
from collections.abc import Sequence

from gantry import errors
from gantry.runtime import interface

LIMIT = 120.0
"""Seconds that a program may take."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_SAID = 500


class Programs:
    """The allocator programs: the folders that are searched, first match wins, and where requests are put."""

    def __init__(self, folders: Sequence[str] = (), scratch: str = "") -> None:
        self._folders = folders
        self._scratch = scratch

    async def run(
        self, runtime: interface.Runtime, name: str, request: bytes, *, arguments: Sequence[str] = ()
    ) -> bytes:
        """Return what a program answers to a request.

        Raises NotFoundError when there is no such program, EnvironmentFaultError when it fails or takes too long.
        """
        program = self._find(runtime, name)
        path = f"{self._scratch}/allocator-{runtime.random.uuid()}.json"
        await runtime.disk.write(path, request, mode=0o600, sync=False)
        try:
            done = await runtime.processes.run([program, path, *arguments], timeout=LIMIT)
        except TimeoutError:
            raise errors.EnvironmentFaultError(f"allocator {name} did not answer within {LIMIT:.0f} s") from None
        except OSError as error:
            raise errors.EnvironmentFaultError(
                f"allocator {program} cannot be run: {error.strerror or error}"
            ) from None
        finally:
            await runtime.disk.remove(path)
        if done.code:
            said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())[:_SAID]
            raise errors.EnvironmentFaultError(f"allocator {name} ended with code {done.code}: {said or 'no word'}")
        return done.stdout

    def _find(self, runtime: interface.Runtime, name: str) -> str:
        places = [f"{folder}/{name}" for folder in self._folders] if _NAME.fullmatch(name) else []
        found = next((path for path in places if runtime.disk.exists(path)), "")
        if not found:
            raise errors.NotFoundError(
                f"there is no allocator {name}", hint=f"looked for in {', '.join(self._folders) or 'no folder'}"
            )
        return found
