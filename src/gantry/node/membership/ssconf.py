"""The files about the cluster on every node: ssconf, and the cluster's own secrets.

    lib/ssconf/ssconf_<key>         mode 0444, a value, or a value per line
    lib/certs/authority.*           mode 0600, on master candidates
    lib/users, lib/rapi.pem         mode 0600, on master candidates

The master writes them through ``node.daemon.handlers``; names are checked, so that a call cannot write other files.

See contracts/configuration.md#ssconf.
"""

import re
from collections.abc import Iterable, Mapping

from gantry import errors
from gantry.lib_files import ssconf as ssconf_file
from gantry.rpc import calls
from gantry.runtime import interface, paths

SIZE_LIMIT = 8 << 20
"""The maximum length of a value in bytes: the names of some hundred thousand instances."""

OF_MASTERS = ("master.pem", "master.key", "next.pem", "next-authority.key")
"""What a master keeps with its certificates; the last two are the next authority (``mastership.identity``)."""

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Files:
    """The cluster's files on a node."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths) -> None:
        self._disk = disk
        self._folder = folders.ssconf
        self._certificates = folders.certificates
        self._issued = folders.issued_remote_certificate
        self._uploads = {
            "authority.key": f"{folders.certificates}/authority.key",
            "authority.pem": f"{folders.certificates}/authority.pem",
            "rapi.pem": f"{folders.lib}/rapi.pem",
            "users": folders.users,
        }

    def _path(self, key: str) -> str:
        return ssconf_file.path(self._folder, key)

    def read(self, key: str) -> str:
        """Return a value without its last newline; empty if the node does not have it."""
        path = self._path(key)
        return self._disk.read(path).decode().rstrip("\n") if self._disk.exists(path) else ""

    async def write(self, values: Mapping[str, str]) -> None:
        """Replace the files of some keys; InvalidError before anything is written."""
        for key, value in values.items():
            if len(value.encode()) > SIZE_LIMIT:
                raise errors.InvalidError(f"the ssconf value of {key} is longer than {SIZE_LIMIT} bytes")
        await self._begin(values)
        for key, value in values.items():
            await self._write(key, value)

    async def replace(self, key: str, value: str) -> None:
        """Replace the file of a key unless it has the value already."""
        if self.read(key) != value:
            await self.write({key: value})

    async def update(self, call: calls.UpdateSsconf) -> tuple[str, ...]:
        """Change lines of values; return the keys whose value then has not the expected digest. Errors as ``write``.

        A value is not written unless it has the expected digest.
        """
        await self._begin(call.digests)
        outdated = []
        for key in self._differing(call.digests):
            change = call.lines.get(key, calls.LineChange())
            lines = set(self.read(key).splitlines()).difference(change.removed).union(change.added)
            value = "\n".join(sorted(lines))
            if calls.digest_of(value) == call.digests[key]:
                await self._write(key, value)
            else:
                outdated.append(key)
        return tuple(outdated)

    async def _begin(self, keys: Iterable[str]) -> None:
        for key in keys:
            if not _KEY.fullmatch(key):
                raise errors.InvalidError(f"{key!r} is not a valid ssconf key")
        await self._disk.make_directory(self._folder, mode=0o755)

    async def _write(self, key: str, value: str) -> None:
        await self._disk.write(self._path(key), value.rstrip("\n").encode() + b"\n", mode=0o444)

    def _differing(self, digests: Mapping[str, str]) -> list[str]:
        """Return the keys whose file is missing or has another value."""
        return [
            key
            for key, digest in digests.items()
            if not self._disk.exists(self._path(key)) or calls.digest_of(self.read(key)) != digest
        ]

    def differences(self, digests: Mapping[str, str]) -> list[str]:
        """Return a complaint for each key whose file has not the digest that the cluster expects."""
        return [f"ssconf_{key} is out of date" for key in self._differing(digests)]

    async def forget(self) -> None:
        """Remove all ssconf files and uploads, except the authority's certificate.

        Callers are verified with that one until the node's own certificate is removed too, so a call that failed half
        way can be repeated.
        """
        await self._disk.remove_tree(self._folder)
        uploads = [path for name, path in self._uploads.items() if name != "authority.pem"]
        for path in (*uploads, self._issued):
            if self._disk.exists(path):
                await self._disk.remove(path)

    async def forget_secrets(self) -> None:
        """Remove the files of a master candidate; keep the authority's certificate, which verifies callers."""
        uploads = [self._uploads[name] for name in ("authority.key", "rapi.pem", "users")]
        own = [f"{self._certificates}/{name}" for name in OF_MASTERS]
        for path in (*uploads, *own, self._issued):
            if self._disk.exists(path):
                await self._disk.remove(path)

    def has(self, name: str, content: str) -> bool:
        """Return whether a file of the cluster, by its name without folder, has a content already."""
        path = self._uploads.get(name, "")
        return bool(path) and self._disk.exists(path) and self._disk.read(path) == content.encode()

    async def upload(self, name: str, content: str) -> None:
        """Write a file of the cluster by its name without folder; InvalidError for a name that is not in the list."""
        if name not in self._uploads:
            raise errors.InvalidError(
                f"{name!r} is not the name of a cluster file", hint=f"use one of {', '.join(self._uploads)}"
            )
        await self._disk.make_directory(self._uploads[name].rpartition("/")[0], mode=0o700)
        await self._disk.write(self._uploads[name], content.encode(), mode=0o600)
