"""A file that grows by one call after another, and stays open meanwhile.

The first append after a file was opened costs a second sync, for what an earlier process may have left unsynced.
"""

from gantry.runtime import file_interface, interface


class OpenFile:
    """At most one open file."""

    def __init__(self, disk: interface.Disk) -> None:
        self._disk = disk
        self._file: file_interface.AppendFile | None = None

    async def at(self, path: str) -> file_interface.AppendFile:
        """Return the file at ``path``, opened unless it is the open one; it is created if missing."""
        if self._file is None or not self._file.is_at(path):
            self.close()
            self._file = await self._disk.append_file(path)
        return self._file

    def close(self) -> None:
        """Close the file, if one is open."""
        if self._file is not None:
            self._file.close()
            self._file = None
