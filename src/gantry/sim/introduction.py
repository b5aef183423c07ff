"""An administrator makes the master known to a node that refuses it, as how-to/certificates.md says.

A node that was away while the candidates changed believes a majority of those that it knows. If fewer are candidates
still, nobody can introduce the master, and the file with the keys is copied from another node.
"""

from gantry.lib_files import ssconf
from gantry.sim import cluster, story

PATH = ssconf.path(cluster.FOLDERS.ssconf, ssconf.MASTERS)


async def copy_keys(lab: cluster.SimulatedCluster, name: str, *, run_story: story.Story) -> None:
    """Copy the keys of the candidates from the leader's machine to a node."""
    run_story.tell(name, "gets the keys of the candidates by hand")
    keys = lab.world.machine(lab.leader).disk.read(PATH)
    await lab.world.machine(name).disk.write(PATH, keys, mode=0o444)


async def introduce(lab: cluster.SimulatedCluster, *, run_story: story.Story) -> bool:
    """Copy the keys to each node that nobody can introduce the one master to; return whether there was any."""
    masters = lab.masters()
    if len(masters) != 1:
        return False
    state = lab.daemons[masters[0]].store.durable
    strangers = [
        node.name for node in state.nodes.values() if not node.offline and _is_lost(lab, node.name, masters[0])
    ]
    for name in strangers:
        await copy_keys(lab, name, run_story=run_story)
    return bool(strangers)


def _is_lost(lab: cluster.SimulatedCluster, name: str, master: str) -> bool:
    """Return whether a node knows neither the master nor a majority of candidates that are candidates still."""
    known, present = _keys(lab, name), _keys(lab, master)
    own = lab.daemons[master].store.durable.the_cluster.master_node
    return bool(known) and present[own] != known.get(own) and 2 * len(known.items() & present.items()) <= len(known)


def _keys(lab: cluster.SimulatedCluster, name: str) -> dict[str, str]:
    """Return the keys of the candidates that a machine knows, by the UUIDs of their nodes."""
    disk = lab.world.machine(name).disk
    lines = disk.read(PATH).decode().splitlines() if disk.exists(PATH) else []
    return dict(line.split("=", 1) for line in lines)
