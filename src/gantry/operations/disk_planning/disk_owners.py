"""Owners of stored disks: which disk a file or a logical volume of a node belongs to. Pure.

A request may name a file or volume, to adopt it or to create a disk in its place, that is a disk already: of a stopped
or running instance, or a detached disk. ``check`` refuses it and names that disk. A file or volume that is not in the
state still belongs to the disk whose UUID its name begins with: its copy on another node, its snapshots, its image that
is being made (``.new-UUID``). A node reports the other names of a file with links, which are checked too. Only its
driver knows whether a program uses a volume.
"""

from collections.abc import Iterable, Iterator

from gantry import errors
from gantry.model import instance, templates
from gantry.state.objects import snapshot as states

Location = tuple[str, str, tuple[str, ...]]
"""Where a disk is: a node UUID, empty for storage that all nodes share; the disk type; the logical id."""


def locations(disk: instance.Disk, nodes: Iterable[str]) -> Iterator[Location]:
    """Yield the locations of a disk that is on these nodes (UUIDs); those of its volumes if it is mirrored."""
    for part in disk.children or (disk,):
        for node in nodes:
            yield _location(part, node)


def check(
    snapshot: states.Snapshot,
    disk: instance.Disk,
    index: int,
    *,
    node: str,
    source: tuple[str, ...],
    link: str = "",
) -> None:
    """Raise NotUniqueError if the file or volume that a disk is to use on a node belongs to another disk.

    ``source`` is its logical id, in the form of the disk's type. ``link`` is the path in the request if that is another
    name of the file.
    """
    requested = _location(disk, node, source)
    for title, other, nodes in _disks(snapshot):
        if other.uuid != disk.uuid and (requested in locations(other, nodes) or _uuid_in(source) == other.uuid):
            raise errors.NotUniqueError(
                f"disk {index}: {link or ('/'.join(source) if disk.dev_type == 'plain' else source[-1])} on node "
                f"{snapshot.nodes[node].name} is {f'a link to {source[-1]}, ' if link else ''}{title}",
                hint="choose a file or volume that no instance has; gnt-instance modify --disk detach releases a disk",
            )


def check_distinct(sources: Iterable[tuple[int, tuple[str, ...]]]) -> None:
    """Refuse a source that two disks of one request name; raises InvalidError."""
    seen: dict[tuple[str, ...], int] = {}
    for index, source in sources:
        if source in seen:
            raise errors.InvalidError(
                f"disks {seen[source]} and {index} name the same source {source[-1]}", hint="name each source once"
            )
        seen[source] = index


def _disks(snapshot: states.Snapshot) -> Iterator[tuple[str, instance.Disk, tuple[str, ...]]]:
    """Yield all disks, each with a text that names it and the UUIDs of its nodes."""
    for vm in snapshot.instances.values():
        for index, disk in enumerate(vm.disks):
            yield f"disk {index} of instance {vm.name}", disk, vm.nodes
    for detached in snapshot.disks.values():
        yield f"detached disk {detached.uuid}, last of instance {detached.instance}", detached.disk, detached.nodes


def _location(disk: instance.Disk, node: str, source: tuple[str, ...] = ()) -> Location:
    shared = disk.dev_type in templates.SHARED
    # Both types of files may have one folder, which a node then shares.
    kind = "file" if disk.dev_type in templates.ALWAYS_ACTIVE else disk.dev_type
    logical_id = source or disk.logical_id
    return "" if shared else node, kind, logical_id[1:] if kind == "file" else logical_id


def _uuid_in(source: tuple[str, ...]) -> str:
    """Return the first part of the name of a file or volume, which is the UUID of the disk that it was made for."""
    return source[-1].rpartition("/")[2].removeprefix(".new-").partition(".")[0]
