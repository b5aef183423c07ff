"""Copies of the state that a node has kept aside: what a master replaced or deleted may be what no other node has.

    lib/before-replacement-N/config.data, journal/, queue/      the copy, laid out as below ``lib``
    lib/before-replacement-N/end                                epoch and serial of its last record (``calls.reach``)
    lib/cut-records/<epoch>-<serial>.log                        frames that were cut off, up to this last record

A copy that ends with a record of the present master has nothing more than that master. Any other may: its node may have
acknowledged records that a master lacks whose disk went back, or that was started without a vote. ``replica`` keeps
such a copy before it is replaced (``arrival``) or deleted, and ``gnt-cluster recover --from FOLDER`` installs it. The
``MOST_COPIES`` newest copies stay, and of these at most ``MOST_BYTES``, but always the newest; so do the ``MOST_CUTS``
newest files of cut frames.
"""

import logging
import re

from gantry.lib_files import queue
from gantry.node.membership import frames, queue_files
from gantry.rpc.calls import reach
from gantry.runtime import interface, paths

logger = logging.getLogger(__name__)

MOST_COPIES = 3
MOST_BYTES = 1 << 30
MOST_CUTS = 8

_COPY = re.compile(r"before-replacement-([1-9][0-9]{0,8})")
_CUT = re.compile(r"([0-9]{1,10})-([0-9]{1,15})\.log")


class KeptCopies:
    """The copies that are kept aside on one node."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths) -> None:
        self._disk = disk
        self._folders = folders
        self._cuts = f"{folders.lib}/cut-records"

    def _paths(self) -> list[str]:
        """Return the folders of copies, the oldest first."""
        if not self._disk.exists(self._folders.lib):
            return []
        forms = filter(None, map(_COPY.fullmatch, self._disk.names(self._folders.lib)))
        return [f"{self._folders.lib}/{form[0]}" for form in sorted(forms, key=lambda form: int(form[1]))]

    async def begin(self, end: frames.Position, reason: str) -> str:
        """Make the folder for a copy that ends at ``end``, and return its path; older copies beyond the limits go."""
        # An attempt that failed before anything was moved leaves a folder without a copy.
        existing = [path for path in self._paths() if self._has_copy(path)]
        number = int(existing[-1].rpartition("-")[2]) + 1 if existing else 1
        folder = f"{self._folders.lib}/before-replacement-{number}"
        await self._disk.make_directory(f"{folder}/queue")
        await self._disk.write(f"{folder}/end", reach.encode((end.epoch, end.serial)))
        size = 0
        for count, path in enumerate(reversed(existing), 2):
            size += self._size(path)
            if count > MOST_COPIES or size > MOST_BYTES:
                logger.warning("%s is removed: newer copies are kept", path)
                await self._disk.remove_tree(path)
        logger.warning(
            "%s: the copy of the state, serial %d epoch %d, may have records that no other node has; it is kept in %s",
            reason,
            end.serial,
            end.epoch,
            folder,
        )
        return folder

    def _has_copy(self, folder: str) -> bool:
        return any(self._disk.exists(f"{folder}/{name}") for name in ("config.data", "journal"))

    def _size(self, folder: str) -> int:
        journal = f"{folder}/journal"
        sections = [f"{journal}/{name}" for name in self._disk.names(journal)] if self._disk.exists(journal) else []
        return sum(self._disk.status(path).size for path in sections)

    async def move(self, folder: str) -> None:
        """Move what is here of the node's copy into a folder, ``config.data`` first; the archive of the queue stays.

        The move can be repeated after a crash: the journal goes last.
        """
        if self._disk.exists(self._folders.config):
            await self._disk.rename({self._folders.config: f"{folder}/config.data"})
            await self._disk.sync(self._folders.lib)
        names = self._disk.names(self._folders.queue) if self._disk.exists(self._folders.queue) else []
        for batch in queue_files.batches([name for name in names if queue.FILE.fullmatch(name)]):
            await self._disk.rename({f"{self._folders.queue}/{name}": f"{folder}/queue/{name}" for name in batch})
        await self._disk.sync(self._folders.lib)
        if self._disk.exists(self._folders.journal):
            await self._disk.rename({self._folders.journal: f"{folder}/journal"})
            await self._disk.sync(self._folders.lib)
        else:
            await self._disk.make_directory(f"{folder}/journal")

    async def complete(self) -> None:
        """Complete a move that a crash interrupted: the newest copy that has no journal gets the one that is here."""
        # While ``recover`` installs another copy, the journal belongs to that.
        if self._disk.exists(self._folders.config) or self._disk.exists(self._folders.replacement):
            return
        for folder in self._paths()[-1:]:
            if self._disk.exists(f"{folder}/config.data") and not self._disk.exists(f"{folder}/journal"):
                await self.move(folder)

    async def keep_frames(self, lines: bytes, end: frames.Position) -> str:
        """Write frames that are about to be cut off to a file, and return its path; the oldest files beyond go."""
        await self._disk.make_directory(self._cuts)
        path = f"{self._cuts}/{end.epoch}-{end.serial}.log"
        await self._disk.write(path, lines)
        forms = filter(None, map(_CUT.fullmatch, self._disk.names(self._cuts)))
        names = [form[0] for form in sorted(forms, key=lambda form: (int(form[1]), int(form[2])))]
        await self._disk.remove_all([f"{self._cuts}/{name}" for name in names[:-MOST_CUTS]])
        return path

    def described(self) -> list[str]:
        """Return a line for each copy that is kept: what it reaches, how to use it, how to remove it."""
        return [self._described(folder) for folder in self._paths() if self._has_copy(folder)]

    def _described(self, folder: str) -> str:
        path = f"{folder}/end"
        ends = reach.decode(self._disk.read(path)) if self._disk.exists(path) else []
        extent = "".join(f", serial {serial} epoch {epoch}," for epoch, serial in ends)
        return (
            f"{folder} has a copy of the state{extent} that was replaced and may have changes that no other node has; "
            f"to go back to it: gnt-cluster recover --from {folder} on this node, while no master runs; if you do not "
            f"need it: rm -r {folder}"
        )
