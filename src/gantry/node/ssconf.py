"""The files that every node keeps of the cluster: ssconf (contract: ssconf keys), and the cluster's own secrets.

    lib/ssconf/ssconf_<key>         mode 0444, one value or one a line
    lib/ssconf/epoch                that of the master who wrote them; one of a lower epoch is refused
    lib/certs/authority.*           mode 0600, on master candidates
    lib/users                       mode 0600, on master candidates

The master writes them through ``node.handlers``; names are checked, so that a call cannot write anywhere else.
"""

import re
from collections.abc import Mapping

from gantry import errors
from gantry.runtime import interface, paths

SIZE_LIMIT = 128 << 10
_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Files:
    """The cluster's files on one node."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths) -> None:
        self._disk = disk
        self._folder = folders.ssconf
        self._uploads = {
            "authority.key": f"{folders.certificates}/authority.key",
            "authority.pem": f"{folders.certificates}/authority.pem",
            "users": f"{folders.lib}/users",
        }

    def _path(self, key: str) -> str:
        return f"{self._folder}/ssconf_{key}"

    def read(self, key: str) -> str:
        """Return a value without its last newline, empty when the node does not know it."""
        path = self._path(key)
        return self._disk.read(path).decode().rstrip("\n") if self._disk.exists(path) else ""

    def epoch(self) -> int:
        """Return the epoch of the last master who wrote here, 0 before the first."""
        path = f"{self._folder}/epoch"
        text = self._disk.read(path).decode().strip() if self._disk.exists(path) else ""
        return int(text) if text.isdecimal() else 0

    async def write(self, values: Mapping[str, str], *, epoch: int = 0) -> None:
        """Replace the files of the keys given; InvalidError, WrongStateError before anything is written."""
        seen = self.epoch()
        if epoch and epoch < seen:
            raise errors.WrongStateError(
                f"epoch {epoch} has passed: a master of epoch {seen} has written the files of this node",
                hint="this master has been replaced; stop it",
            )
        for key, value in values.items():
            if not _KEY.fullmatch(key):
                raise errors.InvalidError(f"{key!r} is no ssconf key")
            if len(value.encode()) > SIZE_LIMIT:
                raise errors.InvalidError(f"the ssconf value of {key} is longer than {SIZE_LIMIT} bytes")
        await self._disk.make_directory(self._folder, mode=0o755)
        if epoch > seen:
            await self._disk.write(f"{self._folder}/epoch", b"%d\n" % epoch, mode=0o444)
        for key, value in values.items():
            await self._disk.write(self._path(key), value.rstrip("\n").encode() + b"\n", mode=0o444)

    def differences(self, wanted: Mapping[str, str]) -> list[str]:
        """Name the keys whose file differs from what the cluster expects."""
        return [f"ssconf_{key} is out of date" for key, value in wanted.items() if self.read(key) != value.rstrip("\n")]

    async def forget(self) -> None:
        """Remove all ssconf files and uploads."""
        await self._disk.remove_tree(self._folder)
        for path in self._uploads.values():
            if self._disk.exists(path):
                await self._disk.remove(path)

    async def forget_secrets(self) -> None:
        """Remove what only a master candidate keeps; the authority's certificate stays, callers are checked by it."""
        for name in ("authority.key", "users"):
            if self._disk.exists(self._uploads[name]):
                await self._disk.remove(self._uploads[name])

    async def upload(self, name: str, content: str) -> None:
        """Write one of the cluster's own files by its bare name; InvalidError for any other name."""
        if name not in self._uploads:
            raise errors.InvalidError(f"{name!r} is no file that a node takes", hint=", ".join(self._uploads))
        await self._disk.make_directory(self._uploads[name].rpartition("/")[0], mode=0o700)
        await self._disk.write(self._uploads[name], content.encode(), mode=0o600)
