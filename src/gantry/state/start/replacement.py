"""A whole copy of the state, from another machine, that replaces the state on this machine.

    lib/replacement/config.data, journal/, queue/    the copy, laid out as below ``lib``
    lib/replacement/previous                         the name of the folder for the replaced files; the copy is complete
    lib/before-recovery-N/                           the replaced files, for the administrator

``mastership.retrieval`` writes the copy, has it checked, and installs it, all with the queue's lock held. The move of
the old ``config.data`` is the moment from which the copy counts: before it, a crash leaves the old state, and the next
start removes the copy. After it, the next start completes the installation, whose steps can be repeated
(``recovery``). In between there is no ``config.data``, so the node daemon reports no copy. The archive of the queue is
extended and not replaced; ``journal-end`` stays, because it tells of the past of this machine.
"""

import dataclasses
import re
from collections.abc import Sequence

from gantry import errors
from gantry.lib_files import journal_names, queue
from gantry.rpc import calls
from gantry.runtime import interface, paths
from gantry.state.journal import history

BEFORE = "before-recovery-"

_NAME = re.compile(
    rf"config\.data|journal/{journal_names.NAME.pattern}|queue/({queue.ARCHIVED_FILE.pattern}|{queue.FILE.pattern})"
)


class Replacement:
    """The copy on a machine that is to replace the state there."""

    def __init__(self, disk: interface.Disk, where: paths.Paths) -> None:
        self._disk = disk
        self._where = where
        self._folder = where.replacement
        self._marker = f"{self._folder}/previous"

    @property
    def where(self) -> paths.Paths:
        """Return the paths below which the copy can be opened like a state."""
        return dataclasses.replace(self._where, lib=self._folder)

    async def begin(self) -> None:
        """Remove what an earlier attempt left, and make the folders of the copy."""
        await self._disk.remove_tree(self._folder)
        for folder in ("journal", "queue"):
            await self._disk.make_directory(f"{self._folder}/{folder}")

    async def copy_from(self, folder: str) -> None:
        """Copy a state that was kept aside, in a folder of this machine; NotFoundError if there is none."""
        if not self._disk.exists(f"{folder}/config.data"):
            raise errors.NotFoundError(
                f"folder {folder} has no copy of the state: config.data is missing",
                hint="gnt-cluster verify lists the copies that nodes have kept",
            )
        await self.begin()
        for prefix in ("", "journal/", "queue/"):
            path = f"{folder}/{prefix}".rstrip("/")
            for name in self._disk.names(path) if self._disk.exists(path) else []:
                if _NAME.fullmatch(f"{prefix}{name}"):
                    content = self._disk.read(f"{path}/{name}")
                    await self.write([calls.CopyPiece(name=f"{prefix}{name}", offset=0, content=content)])
        await self._disk.sync(self._folder)

    async def write(self, pieces: Sequence[calls.CopyPiece]) -> None:
        """Write pieces of files, unsynced; ProtocolError for a name that no copy has."""
        for piece in pieces:
            if not _NAME.fullmatch(piece.name):
                raise errors.ProtocolError(f"{piece.name!r} is not a file of the state")
        for folder in {piece.name.rpartition("/")[0] for piece in pieces}:
            await self._disk.make_directory(f"{self._folder}/{folder}".rstrip("/"))
        files = {f"{self._folder}/{piece.name}": piece.content for piece in pieces if not piece.offset}
        for error in (await self._disk.write_all(files)).values():
            raise error
        for piece in pieces:
            if piece.offset:
                await self._append(f"{self._folder}/{piece.name}", piece)

    async def _append(self, path: str, piece: calls.CopyPiece) -> None:
        file = await self._disk.append_file(path)
        try:
            if file.size != piece.offset:
                raise errors.ProtocolError(f"a piece of {piece.name} does not follow the one before it")
            await file.append(piece.content)
        finally:
            file.close()

    def check_history(self) -> None:
        """Check every byte and the chain of the copy's journal; ConfigurationError."""
        size = sum(self._disk.status(path).size for path in self._paths("journal"))
        problem = history.check(self._disk, f"{self._folder}/journal", most=size).problem
        if problem:
            raise errors.ConfigurationError(problem, hint="take the copy of another master candidate")

    def _paths(self, folder: str) -> list[str]:
        return [f"{self._folder}/{folder}/{name}" for name in self._disk.names(f"{self._folder}/{folder}")]

    async def install(self, *, highest_job: int) -> str:
        """Replace the state by the copy, and return the folder of the replaced files.

        ``highest_job`` is the highest job number that is known here; ``queue/serial`` will say it if it is higher than
        the copy's.
        """
        serial = f"{self._folder}/queue/serial"
        number = int(self._disk.read(serial)) if self._disk.exists(serial) else 0
        await self._disk.write(serial, b"%d\n" % max(number, highest_job))
        previous = self._next_folder()
        await self._disk.make_directory(f"{self._where.lib}/{previous}/queue")
        # Parts of a checkpoint that the node daemon received for the old copy.
        await self._disk.remove_tree(self._where.incoming)
        await self._disk.sync(self._where.lib)
        await self._disk.write(self._marker, previous.encode())
        if self._disk.exists(self._where.config):
            await self._move(self._where.config, f"{self._where.lib}/{previous}/config.data")
        await self._complete(previous)
        return f"{self._where.lib}/{previous}"

    def _next_folder(self) -> str:
        names = [name.removeprefix(BEFORE) for name in self._disk.names(self._where.lib) if name.startswith(BEFORE)]
        return f"{BEFORE}{max((int(number) for number in names if number.isdecimal()), default=0) + 1}"

    async def recover(self) -> None:
        """Complete an installation that was interrupted, or remove a copy that was not installed."""
        if not self._disk.exists(self._folder):
            return
        counts = self._disk.exists(self._marker) and self._disk.exists(f"{self._folder}/config.data")
        if counts and not self._disk.exists(self._where.config):
            await self._complete(self._disk.read(self._marker).decode())
        else:
            await self._disk.remove_tree(self._folder)

    async def _complete(self, previous: str) -> None:
        """Move the old files away and the new files to their places, ``config.data`` last."""
        journal, new_queue = f"{self._folder}/journal", f"{self._folder}/queue"
        old = f"{self._where.lib}/{previous}"
        if self._disk.exists(journal):
            names = [name for name in self._disk.names(self._where.queue) if queue.FILE.fullmatch(name)]
            await self._disk.rename({f"{self._where.queue}/{name}": f"{old}/queue/{name}" for name in names})
            await self._disk.sync(self._where.lib)
            if self._disk.exists(self._where.journal):
                await self._move(self._where.journal, f"{old}/journal")
            await self._move(journal, self._where.journal)
        await self._move_queue(new_queue)
        await self._disk.sync(self._where.lib)
        await self._move(f"{self._folder}/config.data", self._where.config)
        await self._disk.remove_tree(self._folder)

    async def _move_queue(self, folder: str) -> None:
        archive = f"{folder}/archive"
        names = [name for name in self._disk.names(folder) if name != "archive"]
        for number in self._disk.names(archive) if self._disk.exists(archive) else []:
            await self._disk.make_directory(f"{self._where.queue}/archive/{number}")
            names += [f"archive/{number}/{name}" for name in self._disk.names(f"{archive}/{number}")]
        await self._disk.rename({f"{folder}/{name}": f"{self._where.queue}/{name}" for name in names})

    async def _move(self, old: str, new: str) -> None:
        await self._disk.rename({old: new})
        await self._disk.sync(self._where.lib)
