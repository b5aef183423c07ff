"""Two of three candidates are lost, and an administrator makes the third the master without a vote.

One of the two loses its power first, so that the other, the master, acknowledges nothing that the third has not. Then
the master loses its power too. The forced master marks both offline and acknowledges changes alone. Then both are back
at the same moment: by their own copies they are two of three candidates, and must not become the master without the
changes. If the authority was replaced while they were off, their files are removed before they run again, as
how-to/certificates.md says. At the end both are candidates again (how-to/master.md). Meanwhile there are no other
faults: they could take away the last copy.
"""

import contextlib

from gantry import errors
from gantry.model import cluster_settings
from gantry.sim import cluster, introduction, story
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import nodes, settings

POLICY = cluster_settings.Replication.MAJORITY
RETURNS = "a candidate that was given up without a vote can be one again"
ATTEMPTS = 20
CHANGES = 2
"""The number of changes that the forced master acknowledges alone."""
APART_SECONDS = 40.0
"""For the lost candidates to start, and to try to make one of them the master."""


async def play(stage: stages.Stage) -> None:
    """Play all acts; Unplayable as soon as one before the forced start does not succeed, Violation after that."""
    lab, known = stage.lab, stage.clients.facts
    former = stage.master_of(POLICY)
    peers = [name for name in stage.up(former) if stage.has_copy(name)]
    if len(peers) != 2:
        raise stages.Unplayable(f"{len(peers)} other candidates, not 2")
    last = stage.choose(peers, "candidate")
    (silent,) = {*peers} - {last}
    with stage.faults.no_others():
        with contextlib.ExitStack() as off:
            off.callback(stage.faults.turn_off(silent, prepare=lambda: _prepare(stage, silent)))
            await stage.must(settings.tag_cluster("before"))
            keys = [(nodes.KIND, name) for name in (former, silent)]
            if not known.claim(keys):
                raise stages.Unplayable("another client is about to change one of the candidates")
            off.callback(stage.faults.turn_off(former, prepare=lambda: _prepare(stage, former)))
            await stage.faults.take_over(last, voting=False)
            if lab.masters() != [last]:
                raise stages.Unplayable(f"{last} is not the master")
            for node in lab.daemons[last].store.snapshot.nodes.values():
                if node.offline and (nodes.KIND, node.name) in keys:
                    known.thing((nodes.KIND, node.name)).fields.update(offline=True, drained=False)
            with contextlib.suppress(stages.Unplayable):  # another client may be about to tag the cluster
                for number in range(CHANGES):
                    await stage.must(settings.tag_cluster(f"alone{number}"))
        await stage.sleep(APART_SECONDS)
        for name in (former, silent):
            await _readmit(stage, name)


async def _readmit(stage: stages.Stage, name: str) -> None:
    """Make a candidate that was given up one again; Violation if that fails, as there is no other fault."""
    key, known = (nodes.KIND, name), stage.clients.facts
    for attempt in range(ATTEMPTS):
        if attempt == ATTEMPTS // 2:  # its key may have been renewed, and no majority vouches for a forced master
            await introduction.copy_keys(stage.lab, name, source=stage.lab.leader, run_story=stage.story)
        with contextlib.suppress(OSError, errors.GantryError):  # another client may have drained the queue
            await stage.clients.ask("SetDrainFlag", False, on=stage.lab.leader)
        known.release([key])
        if _trusts_master(stage, name):
            await stage.carry_out(nodes.mark_offline(name, offline=False))
        else:
            await _add_again(stage, name)
        if known.get(key, "offline") is False:
            return
        if not known.claim([key]):
            raise story.Violation(RETURNS, f"node {name}: offline no", "its client did not finish")
        await stage.sleep(stages.POLL_SECONDS)
    raise story.Violation(RETURNS, f"node {name}: offline no", f"no success in {ATTEMPTS} attempts")


def _trusts_master(stage: stages.Stage, name: str) -> bool:
    """Return whether a node trusts the authority of the leader; not if that was replaced, or if its files are gone."""
    path = f"{cluster.FOLDERS.certificates}/authority.pem"
    disks = [stage.lab.world.machine(each).disk for each in (name, stage.lab.leader)]
    return not disks[1].exists(path) or (disks[0].exists(path) and disks[0].read(path) == disks[1].read(path))


async def _prepare(stage: stages.Stage, name: str) -> None:
    """Remove the files of a machine that would not hear of the master, before it runs again."""
    if not _trusts_master(stage, name):
        await _remove_files(stage, name)


async def _remove_files(stage: stages.Stage, name: str) -> None:
    stage.story.tell(name, "its files are removed")
    await stage.lab.world.machine(name).disk.remove_tree(cluster.FOLDERS.lib)


async def _add_again(stage: stages.Stage, name: str) -> None:
    """Remove the files of a node, and add it again, as how-to/certificates.md says of a replaced authority."""
    lab = stage.lab
    lab.kill(name)
    await _remove_files(stage, name)
    await lab.start_node(name)
    disk = lab.world.machine(name).disk
    token = f"{cluster.FOLDERS.lib}/join-token"
    await stage.wait_for(lambda: disk.exists(token), f"{name} has no join token", seconds=APART_SECONDS)
    await stage.carry_out(nodes.add_again(name, lab.address(name), disk.read(token).decode()))
