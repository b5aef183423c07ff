"""What other machines read from a replica (``replica``): all of its files.

``replica`` holds the queue's lock meanwhile, so the files do not change.
"""

from collections.abc import Iterator, Mapping

from gantry.lib_files import queue
from gantry.rpc import calls
from gantry.runtime import interface, paths

PART_BYTES = 1 << 20
"""The maximum number of bytes of files in an answer."""

Sections = Mapping[str, int]
"""The paths of a replica's sections, in order, with the number of bytes that count."""


def part(disk: interface.Disk, folders: paths.Paths, sections: Sections, call: calls.CopyFetch) -> calls.CopyPart:
    """Return the part of the files that ``call`` asks for, at most ``PART_BYTES``."""
    pieces: list[calls.CopyPiece] = []
    free, offset = PART_BYTES, call.offset
    for name in _names(disk, folders, sections):
        if name < call.name:
            continue
        start = offset if name == call.name else 0
        path = f"{folders.lib}/{name}"
        content = disk.read(path)[: sections.get(path)][start:]
        pieces.append(calls.CopyPiece(name=name, offset=start, content=content[:free]))
        if len(content) >= free:
            return calls.CopyPart(pieces=tuple(pieces), following=(name, start + free))
        free -= len(content)
    return calls.CopyPart(pieces=tuple(pieces))


def _names(disk: interface.Disk, folders: paths.Paths, sections: Sections) -> list[str]:
    """Return the names of the files below ``lib``, sorted."""
    names = ["config.data", *(path.removeprefix(f"{folders.lib}/") for path in sections)]
    names += [f"queue/{name}" for name in disk.names(folders.queue) if queue.FILE.fullmatch(name)]
    names += [f"queue/{name}" for name in _archived(disk, folders)]
    return sorted(names)


def _archived(disk: interface.Disk, folders: paths.Paths) -> Iterator[str]:
    folder = f"{folders.queue}/archive"
    for number in disk.names(folder) if disk.exists(folder) else []:
        for name in disk.names(f"{folder}/{number}"):
            if queue.ARCHIVED_FILE.fullmatch(f"archive/{number}/{name}"):
                yield f"archive/{number}/{name}"
