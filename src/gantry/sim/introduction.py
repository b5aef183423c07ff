"""An administrator makes the master known to a node that refuses it, as how-to/certificates.md says.

A node that was away while the candidates changed believes a majority of those that it knows. If fewer are candidates
still, nobody can introduce the master, and the file with the keys is copied from another node.
"""

from collections.abc import Iterable

from gantry.lib_files import ssconf as ssconf_file
from gantry.sim import cluster, story
from gantry.state.objects import ssconf

PATH = ssconf_file.path(cluster.FOLDERS.ssconf, ssconf_file.MASTERS)


async def copy_keys(lab: cluster.SimulatedCluster, name: str, *, source: str, run_story: story.Story) -> None:
    """Copy the keys of the candidates from a machine to a node."""
    run_story.tell(name, "gets the keys of the candidates by hand")
    keys = lab.world.machine(source).disk.read(PATH)
    await lab.world.machine(name).disk.write(PATH, keys, mode=0o444)


async def introduce(lab: cluster.SimulatedCluster, *, run_story: story.Story) -> bool:
    """Copy the keys to each node that nobody can introduce the one master to; return whether there was any."""
    masters = lab.masters()
    if len(masters) != 1:
        return False
    state = lab.daemons[masters[0]].store.durable
    present = _parsed(ssconf.masters(state))
    names = [node.name for node in state.nodes.values() if not node.offline]
    sources = [name for name in names if _keys(lab, name) == present]
    own = state.the_cluster.master_node
    strangers = [name for name in names if _is_lost(_keys(lab, name), present, own)] if sources else []
    for name in strangers:
        await copy_keys(lab, name, source=sources[0], run_story=run_story)
    return bool(strangers)


def _is_lost(known: dict[str, str], present: dict[str, str], own: str) -> bool:
    """Return whether a node knows neither the key of the master nor a majority of keys that are the present ones."""
    return bool(known) and present.get(own) != known.get(own) and 2 * len(known.items() & present.items()) <= len(known)


def _keys(lab: cluster.SimulatedCluster, name: str) -> dict[str, str]:
    """Return the keys of the candidates that a machine knows, by the UUIDs of their nodes."""
    disk = lab.world.machine(name).disk
    return _parsed(disk.read(PATH).decode().splitlines() if disk.exists(PATH) else [])


def _parsed(lines: Iterable[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines)
