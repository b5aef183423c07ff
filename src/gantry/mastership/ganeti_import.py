"""``gantry-masterd import``: creates a cluster from the files of a cluster of Ganeti, on one of its machines.

``gnt-cluster import`` calls it with a JSON document on standard input. Everything is converted or nothing
(``state.upgrade``); then the machine becomes the master as with ``init``. The other nodes keep their records and join
one by one with ``gnt-node add --readd``: Ganeti has no authority that Gantry's nodes trust. Until then they have no
vote, and the master is the only candidate. Every instance is down, because nobody knows here whether its guest still
runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gantry import errors
from gantry.mastership import bootstrap
from gantry.model import cluster, instance
from gantry.operations import base
from gantry.runtime import interface, paths
from gantry.state.objects import snapshot
from gantry.state.upgrade import files


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file to import, and which of its nodes this machine is: by default its master."""

    path: str
    node_name: str = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1811
    dry_run: bool = False


@dataclass(frozen=True)
class Plan:
    """The first objects of the cluster, and what the administrator has to know."""

    objects: tuple[snapshot.Stored, ...]
    master: cluster.Node
    lines: tuple[str, ...]


def decode(data: bytes) -> Source:
    """Decode the document; InvalidError."""
    try:
        return msgspec.json.decode(data, type=Source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidError(f"what to import is not valid: {errors.readable(str(error))}") from None


def plan(old: files.Old, source: Source, *, now: float) -> Plan:
    """Return the cluster whose master is this machine; raises NotFoundError if its node is not there."""
    owner = next(value for value in old.objects if isinstance(value, cluster.Cluster))
    nodes = [value for value in old.objects if isinstance(value, cluster.Node)]
    master = _find(nodes, source.node_name, recorded=owner.master_node)
    running = [
        value.name
        for value in old.objects
        if isinstance(value, instance.Instance) and value.admin_state is instance.AdminState.UP
    ]
    objects = tuple(_imported(value, master.uuid, port=source.port, now=now) for value in old.objects)
    new_master = next(value for value in objects if isinstance(value, cluster.Node) and value.uuid == master.uuid)
    return Plan(objects, new_master, (*_lines(owner, nodes, old, master), *_about_running(running)))


def _find(nodes: Iterable[cluster.Node], name: str, *, recorded: str) -> cluster.Node:
    """Return the node of this machine, by its name or the first part of its name."""
    known = list(nodes)
    matching = [node for node in known if (node.name == name if name else node.uuid == recorded)] or [
        node for node in known if node.name.partition(".")[0] == name
    ]
    if len(matching) != 1:
        raise errors.NotFoundError(
            f"the configuration has no node {name}",
            hint=f"its nodes are {', '.join(sorted(node.name for node in known))}",
        )
    return matching[0]


def _imported(value: snapshot.Stored, master: str, *, port: int, now: float) -> snapshot.Stored:
    """Return an object as it is in the new cluster, of which only the master is there."""
    match value:
        case cluster.Cluster():
            return base.changed(value, now, master_node=master)
        case cluster.Node() if value.uuid == master:
            return base.changed(value, now, port=port, master_candidate=True, offline=False, drained=False)
        case cluster.Node():
            return base.changed(value, now, port=port, master_candidate=False, joining=True)
        case instance.Instance(admin_state=instance.AdminState.UP):
            return base.changed(value, now, admin_state=instance.AdminState.DOWN)
    return value


def _lines(
    the_cluster: cluster.Cluster, nodes: list[cluster.Node], old: files.Old, master: cluster.Node
) -> Iterable[str]:
    instances = sum(isinstance(value, instance.Instance) for value in old.objects)
    size = f"{len(nodes)} nodes, {instances} instances"
    yield f"cluster {the_cluster.name} of version {old.version}: {size}; its master becomes {master.name}"
    if old.last_job:
        yield f"job numbers continue after {old.last_job}"
    yield from old.notes


def _about_running(names: list[str]) -> list[str]:
    if not names:
        return []
    listed = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"down until you start them, in case Ganeti's guests still run: {listed}"]


async def run(
    runtime: interface.Runtime, folders: paths.Paths, source: Source, *, secure: bool = True
) -> tuple[str, ...]:
    """Create the cluster, or only check; return the lines to print. Errors: those of ``files`` and ``bootstrap``."""
    bootstrap.check_new(runtime, folders)
    old = files.read(runtime.disk, source.path, storage=folders.file_storage)
    imported = plan(old, source, now=runtime.clock.now())
    if not source.dry_run:
        await bootstrap.establish(
            runtime,
            folders,
            imported.objects,
            node=imported.master,
            reason=f"imported from version {old.version} of Ganeti's configuration",
            last_job=old.last_job,
            secure=secure,
        )
    return imported.lines
