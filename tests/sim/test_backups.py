"""Old backups of master candidates are restored: of one, of two, of all (explanation/guarantees.md)."""

from collections.abc import Iterator, Mapping

import pytest

from gantry import errors
from gantry.daemons import master
from gantry.mastership import identity, retrieval, role
from gantry.rpc import client
from gantry.sim import cluster

LIB = cluster.FOLDERS.lib
TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}

Files = Mapping[str, bytes | None]


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """Make a cluster of five nodes, of which the first three are candidates."""
    with cluster.SimulatedCluster(seed=4, nodes=5) as simulated:
        simulated.run(simulated.build(candidate_pool_size=3))
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def tag(*tags: str) -> cluster.Opcode:
    return {**TAG, "tags": list(tags)}


async def tags(lab: cluster.SimulatedCluster) -> object:
    return await lab.luxi("QueryTags", "cluster", "")


def backup(lab: cluster.SimulatedCluster, name: str) -> Files:
    """Return the files of a machine's cluster folder; a folder has None."""
    image = lab.world.machine(name).disk.image()
    return {path: content for path, (_, content) in image.items() if path.startswith(f"{LIB}/")}


async def restore(lab: cluster.SimulatedCluster, name: str, files: Files) -> None:
    """Replace the cluster's folder on a machine whose daemons do not run, and start its node daemon."""
    disk = lab.world.machine(name).disk
    await disk.remove_tree(LIB)
    for path, content in sorted(files.items()):
        folder = path if content is None else path.rpartition("/")[0]
        await disk.make_directory(folder)
        if content is not None:
            await disk.write(path, content)
    await lab.start_node(name)


async def restored(lab: cluster.SimulatedCluster, *names: str) -> None:
    """Let the cluster work on after a backup, and restore the backup on these machines, whose daemons end."""
    await lab.done(tag("old"))
    await lab.world.clock.sleep(5)
    files = {name: backup(lab, name) for name in names}
    await lab.done(tag("new"))
    await lab.world.clock.sleep(5)
    for name in names:
        lab.kill(name)
    for name in names:
        await restore(lab, name, files[name])


def test_a_restored_candidate_gets_what_it_lacks_and_can_take_the_role_over(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await restored(lab, "node3")
        await lab.world.clock.sleep(60)
        await lab.done(tag("newer"))
        await lab.world.clock.sleep(1)
        assert lab.daemons["node1"].candidates.lagging() == []
        lab.crash("node1")
        await lab.failover("node3")
        assert await tags(lab) == ["new", "newer", "old"]

    lab.run(scenario())


def test_a_restored_candidate_that_takes_the_role_over_at_once_fetches_what_it_lacks(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        await lab.done(tag("old"))
        await lab.world.clock.sleep(5)
        files = backup(lab, "node3")
        await lab.done(tag("new"))
        lab.crash("node1")
        lab.kill("node3")
        await restore(lab, "node3", files)
        await lab.failover("node3")
        assert await tags(lab) == ["new", "old"]

    lab.run(scenario())


def test_a_restored_candidate_helps_no_old_master_to_lose_what_the_third_proves_to_have() -> None:
    """The old master wrote a record that was never acknowledged, so it cannot fetch what was acknowledged instead."""

    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build()
        await lab.done(tag("old"))
        await lab.world.clock.sleep(5)
        files = backup(lab, "node3")
        other_nodes = [name for name in lab.names if name != "node1"]
        for name in other_nodes:
            lab.world.network.partition("node1", name)
        with pytest.raises(errors.NotMasterError):
            await lab.done(tag("never"))
        lab.kill("node1")
        await lab.failover("node2")
        await lab.done(tag("new"))
        await lab.world.clock.sleep(5)
        lab.kill("node3")
        await restore(lab, "node3", files)
        lab.kill_master("node2")
        for name in other_nodes:
            lab.world.network.heal("node1", name)
        await lab.start_node("node1")
        with pytest.raises(errors.WrongStateError, match="node node2 holds a newer copy"):
            await lab.failover("node1")
        await lab.failover("node2")
        assert await tags(lab) == ["new", "old"]

    with cluster.SimulatedCluster(seed=4) as three:
        three.run(scenario(three))


def test_a_restored_master_fetches_what_it_lacks(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await restored(lab, "node1")
        await lab.start_master("node1")
        assert await tags(lab) == ["new", "old"]

    lab.run(scenario())


@pytest.mark.parametrize("names", [("node1", "node2"), ("node2", "node3")])
def test_of_two_restored_candidates_either_gets_what_the_third_has(
    lab: cluster.SimulatedCluster, names: tuple[str, str]
) -> None:
    async def scenario() -> None:
        await restored(lab, *names)
        if "node1" in names:
            await lab.start_master("node1")
        else:
            lab.kill_master("node1")
            await lab.failover("node2")
        assert await tags(lab) == ["new", "old"]
        await lab.world.clock.sleep(60)
        assert lab.daemons[lab.leader].candidates.lagging() == []

    lab.run(scenario())


def test_all_candidates_restored_are_noticed_by_two_nodes_that_obeyed_a_later_master(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        names = ("node1", "node2", "node3")
        await lab.done(tag("old"))
        await lab.world.clock.sleep(5)
        files = {name: backup(lab, name) for name in names}
        lab.kill_master("node1")
        await lab.failover("node2")
        await lab.done(tag("new"))
        await lab.world.clock.sleep(40)
        for name in names:
            lab.kill(name)
        for name in names:
            await restore(lab, name, files[name])
        with pytest.raises(errors.WrongStateError, match="node4, node5 have heard of a later master, of epoch 2, and"):
            await lab.start_master("node1")
        with pytest.raises(errors.WrongStateError, match="may be restored from a backup"):
            await lab.failover("node3")

    lab.run(scenario())


async def acknowledged_by_two(lab: cluster.SimulatedCluster) -> None:
    """Restore node1 of two candidates that acknowledged changes; the other one, node3, is silent; node2 was down."""
    await lab.done(tag("old"))
    await lab.world.clock.sleep(5)
    files = backup(lab, "node1")
    lab.kill("node2")
    for number in range(5):
        await lab.done(tag(f"new-{number}"))
    await lab.world.clock.sleep(5)
    lab.kill("node3")
    lab.kill("node1")
    await restore(lab, "node1", files)
    await lab.start_node("node2")


NEW = [f"new-{number}" for number in range(5)]


@pytest.mark.parametrize("reboot", [False, True])
def test_a_candidate_whose_disk_went_back_does_not_make_up_a_majority(
    lab: cluster.SimulatedCluster, reboot: bool
) -> None:
    """The regular nodes have heard of what the two candidates acknowledged."""

    async def scenario() -> None:
        await acknowledged_by_two(lab)
        if reboot:
            lab.crash("node1")
            await lab.start_node("node1")
        text = r"records \d+ to \d+ of epoch 1 were acknowledged, as (node1, )?node4, node5 have heard"
        with pytest.raises(errors.WrongStateError, match=text) as refusal:
            await lab.start_master("node1")
        assert "gnt-cluster recover --accept-loss" in str(refusal.value)
        with pytest.raises(errors.WrongStateError, match=text):
            await lab.failover("node2")
        await lab.start_node("node3")
        await lab.start_master("node1")
        assert await tags(lab) == [*NEW, "old"]

    lab.run(scenario())


def test_in_a_cluster_without_other_nodes_the_memory_of_the_machine_itself_is_a_witness() -> None:
    async def scenario(lab: cluster.SimulatedCluster) -> None:
        await lab.build()
        await acknowledged_by_two(lab)
        with pytest.raises(
            errors.WrongStateError, match=r"were acknowledged, as node1 has heard, and the copy of node1"
        ):
            await lab.start_master("node1")
        await lab.start_node("node3")
        await lab.failover("node3")
        assert await tags(lab) == [*NEW, "old"]

    with cluster.SimulatedCluster(seed=4) as three:
        three.run(scenario(three))


def test_a_start_without_a_vote_says_which_acknowledged_records_are_lost(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await acknowledged_by_two(lab)
        reports: list[str] = []
        machine = lab.world.machine("node1")
        daemon = master.Master(
            machine, cluster.FOLDERS, secure=False, request=role.Request(voting=False), report=reports.append
        )
        await machine.spawn(daemon.start())
        await machine.spawn(daemon.close())
        assert any("of epoch 1 were acknowledged" in text and text.endswith("they are lost") for text in reports)

    lab.run(scenario())


async def verified(lab: cluster.SimulatedCluster) -> tuple[object, str]:
    """Return the result of a verification, and its log."""
    number = await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY"})
    _, results = await lab.wait(number)
    return results[0], str(await lab.luxi("QueryJobs", [number], ["oplog"]))


async def recover_from(lab: cluster.SimulatedCluster, name: str, source: str) -> retrieval.Result:
    """Do what ``gantry-masterd recover --from SOURCE --accept-loss`` does on a machine."""
    machine = lab.world.machine(name)

    async def work() -> retrieval.Result:
        authority = identity.load(machine, cluster.FOLDERS)
        credentials = identity.Credentials(machine, cluster.FOLDERS, authority, secure=False)
        await credentials.renew()
        nodes = client.Client(machine.network, credentials.context)
        try:
            request = retrieval.Request(source, accepts_loss=True)
            return await retrieval.retrieve(machine, cluster.FOLDERS, request, nodes=nodes)
        finally:
            await nodes.close()

    return await machine.spawn(work())


def test_the_only_copy_of_a_change_is_kept_aside_reported_and_can_be_installed(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A start without a vote has lost the changes; the silent candidate that has them returns."""

    async def scenario() -> None:
        await acknowledged_by_two(lab)
        await lab.start_master("node1", role.Request(voting=False))
        await lab.done(tag("after"))
        folder = f"{LIB}/before-replacement-1"
        assert folder not in (await verified(lab))[1]
        await lab.start_node("node3")
        await lab.world.clock.sleep(60)
        assert lab.daemons["node1"].candidates.lagging() == []
        assert any(folder in entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING")
        is_good, log = await verified(lab)
        assert is_good is True
        assert f"WARNING: node node3: {folder} has a copy of the state, serial" in log
        assert f"gnt-cluster recover --from {folder}" in log
        assert await tags(lab) == ["after", "old"]
        await lab.stop_master("node1")
        await recover_from(lab, "node3", folder)
        await lab.failover("node3")
        assert await tags(lab) == [*NEW, "old"]

    lab.run(scenario())
