"""``gantry-masterd recover --accept-loss`` on simulated machines: no number is given twice, no record is given up."""

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.lib_files import journal_end, journal_names
from gantry.mastership import identity, repair, survey
from gantry.rpc import client
from gantry.sim import cluster
from gantry.state.journal import end_mark, journal
from gantry.state.start import evidence, recovery

FOLDERS = cluster.FOLDERS


@pytest.fixture
def alone() -> Iterator[cluster.SimulatedCluster]:
    yield from _built(nodes=1)


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    yield from _built(nodes=3)


def _built(*, nodes: int) -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5, nodes=nodes) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def tag(*tags: str) -> cluster.Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": list(tags)}


async def accept_loss(lab: cluster.SimulatedCluster) -> repair.Accepted:
    """Do what ``gantry-masterd recover --accept-loss`` does on node1."""
    machine = lab.world.machine("node1")

    async def work() -> repair.Accepted:
        authority = identity.load(machine, FOLDERS)
        credentials = identity.Credentials(machine, FOLDERS, authority, secure=False)
        await credentials.renew()
        nodes = client.Client(machine.network, credentials.context)
        try:
            return await repair.accept_loss(machine, FOLDERS, nodes=nodes)
        finally:
            await nodes.close()

    return await machine.spawn(work())


async def lose_end(lab: cluster.SimulatedCluster) -> None:
    """End the master daemon of node1 and remove the newest section of its journal."""
    lab.kill_master("node1")
    disk = lab.world.machine("node1").disk
    newest = journal.sections(disk, FOLDERS.journal)[-1]
    await disk.remove(journal_names.path(FOLDERS.journal, newest))


async def done(lab: cluster.SimulatedCluster, *tags: str) -> int:
    """Set tags, and return the number of the job, as soon as it has ended."""
    number = await lab.submit(tag(*tags))
    assert (await lab.wait(number))[0] == "success"
    return number


async def tags(lab: cluster.SimulatedCluster) -> object:
    return await lab.luxi("QueryTags", "cluster", "")


def test_a_number_is_not_given_twice_even_if_only_the_mark_has_it(alone: cluster.SimulatedCluster) -> None:
    """The number was acknowledged, and queue/serial and the job's file were not written yet."""

    async def scenario() -> None:
        lost = await done(alone, "lost")
        await lose_end(alone)
        seen = evidence.read(alone.world.machine("node1").disk, FOLDERS)
        assert (max(seen.job_serial, seen.newest_job), seen.marked_job) == (lost - 1, lost)
        with pytest.raises(errors.ConfigurationError, match="the end of the journal is missing"):
            await alone.start_master("node1")
        accepted = await accept_loss(alone)
        assert (accepted.next_job, accepted.silent) == (lost + 1, ())
        await alone.start_master("node1")
        assert await tags(alone) == []
        assert await done(alone, "later") == lost + 1

    alone.run(scenario())


def test_a_number_is_not_given_twice_after_a_mark_of_an_earlier_version(alone: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lost = await done(alone, "lost")
        await lose_end(alone)
        disk = alone.world.machine("node1").disk
        mark = end_mark.read(disk, FOLDERS.journal_end)
        assert mark is not None
        await disk.write(FOLDERS.journal_end, journal_end.encode(dataclasses.replace(mark, last_job=None)))
        assert (await accept_loss(alone)).next_job == lost + evidence.UNKNOWN_JOBS

    alone.run(scenario())


@pytest.mark.parametrize("visit", range(1, 22))
def test_a_crash_at_any_write_while_the_loss_is_accepted_lets_no_number_be_given_twice(
    alone: cluster.SimulatedCluster, visit: int
) -> None:
    async def scenario() -> None:
        lost = await done(alone, "lost")
        await lose_end(alone)
        alone.end_at("node1", visit)
        with contextlib.suppress(asyncio.CancelledError):
            await accept_loss(alone)
        alone.crash("node1")
        await alone.start_node("node1")
        try:
            await alone.start_master("node1")
        except errors.ConfigurationError:
            await accept_loss(alone)
            await alone.start_master("node1")
        assert await done(alone, "later") > lost

    alone.run(scenario())


@pytest.mark.parametrize("restarts", [0, 2])
def test_old_files_of_a_single_machine_are_noticed_and_its_epoch_and_jobs_go_on_above_all_that_it_knows(
    alone: cluster.SimulatedCluster, restarts: int
) -> None:
    """The files of the state and its end mark are restored; what the node daemon keeps is not."""

    async def scenario() -> None:
        disk = alone.world.machine("node1").disk
        await alone.stop_master("node1")
        parts = (FOLDERS.config, f"{FOLDERS.journal}/", f"{FOLDERS.queue}/", FOLDERS.journal_end)
        old = {path: content for path, (_, content) in disk.image().items() if path.startswith(parts) and content}
        for _ in range(restarts):
            await alone.start_master("node1")
            await alone.stop_master("node1")
        await alone.start_master("node1")
        lost, epoch = await done(alone, "lost"), alone.daemons["node1"].store.epoch
        await alone.world.clock.sleep(5)
        alone.kill("node1")
        for folder in (FOLDERS.journal, FOLDERS.queue):
            await disk.remove_tree(folder)
            await disk.make_directory(folder)
        for path, content in old.items():
            await disk.write(path, content)
        await alone.start_node("node1")
        with pytest.raises(
            errors.ConfigurationError, match=f"epoch says that a master of epoch {epoch} ran"
        ) as refusal:
            await alone.start_master("node1")
        assert "acknowledged says that serial" in str(refusal.value)
        accepted = await accept_loss(alone)
        assert accepted.next_job > lost
        await alone.start_master("node1")
        assert alone.daemons["node1"].store.epoch > epoch

    alone.run(scenario())


def test_a_loss_is_not_accepted_while_a_node_that_answers_has_the_records(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await done(lab, "kept")
        await lose_end(lab)
        lab.kill("node2")
        with pytest.raises(errors.WrongStateError, match="node node3 holds a newer one, serial") as refusal:
            await accept_loss(lab)
        assert "gnt-cluster recover --from node3" in str(refusal.value)
        await lab.start_node("node2")
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]

    lab.run(scenario())


def test_an_accepted_loss_names_the_silent_nodes_and_numbers_go_on_above_all_that_answer(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        lost = await done(lab, "lost")
        await lose_end(lab)
        lab.kill("node2")
        lab.kill("node3")
        accepted = await accept_loss(lab)
        assert [line.split()[0] for line in accepted.silent] == ["node2", "node3"]
        assert accepted.next_job == lost + 1
        assert any("journal-end says" in line for line in accepted.losses)

    lab.run(scenario())


def test_numbers_go_on_above_an_accepted_loss_whoever_becomes_the_master(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lost = await done(lab, "lost")
        await lose_end(lab)
        for node in ("node2", "node3"):
            lab.kill(node)
        await accept_loss(lab)
        for node in ("node2", "node3"):
            await lab.start_node(node)
        await lab.start_master("node1")
        await lab.world.clock.sleep(30)
        await lab.failover("node2")
        assert await tags(lab) == []
        assert await done(lab, "later") > lost

    lab.run(scenario())


def test_a_node_with_a_job_number_that_no_cluster_reaches_counts_as_silent(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lost = await done(lab, "lost")
        await lose_end(lab)
        lab.kill("node3")
        disk = lab.world.machine("node2").disk
        damaged = re.sub(rb'"last_job":\d+', b'"last_job":%d' % (survey.HIGHEST_JOB + 1), disk.read(FOLDERS.config))
        await disk.write(FOLDERS.config, damaged)
        accepted = await accept_loss(lab)
        assert "node2 (it reports job 100000000001" in accepted.silent[0]
        assert accepted.next_job == lost + 1

    lab.run(scenario())


def test_a_node_that_is_no_candidate_does_not_keep_a_loss_from_being_accepted(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "master_candidate": False, "force": True}
        await lab.wait(await lab.submit(op))
        await done(lab, "lost")
        await lose_end(lab)
        source, disk = lab.world.machine("node2").disk, lab.world.machine("node3").disk
        names = [f"journal/{name}" for name in source.names(FOLDERS.journal)]
        await disk.make_directory(FOLDERS.journal)
        for name in ("config.data", *names):
            await disk.write(f"{FOLDERS.lib}/{name}", source.read(f"{FOLDERS.lib}/{name}"))
        with pytest.raises(errors.WrongStateError, match="node node2 holds a newer one"):
            await accept_loss(lab)
        lab.kill("node2")
        accepted = await accept_loss(lab)
        assert [line.split()[0] for line in accepted.silent] == ["node2"]
        assert "node node3 holds a newer one, serial" in caplog.text

    lab.run(scenario())


def test_a_copy_that_went_back_goes_on_only_when_the_loss_is_accepted_and_gives_no_job_number_twice(
    lab: cluster.SimulatedCluster,
) -> None:
    """The files here lack nothing that they tell of themselves; another node has heard of more."""

    async def scenario() -> None:
        machine = lab.world.machine("node1")
        image = machine.disk.image()
        old = {path: content for path, (_, content) in image.items() if path.startswith(f"{FOLDERS.lib}/")}
        lab.kill("node2")
        lost = await done(lab, "lost")
        await lab.world.clock.sleep(5)
        lab.kill("node3")
        lab.kill("node1")
        await machine.disk.remove_tree(FOLDERS.lib)
        await machine.disk.make_directory(FOLDERS.lib)
        for path, content in sorted(old.items()):
            await (machine.disk.make_directory(path) if content is None else machine.disk.write(path, content))
        await lab.start_node("node2")
        with pytest.raises(errors.WrongStateError, match="were acknowledged, as node1 has heard"):
            await lab.start_master("node1")
        accepted = await accept_loss(lab)
        assert "were acknowledged, as node1 has heard" in " ".join(accepted.losses)
        assert accepted.next_job > lost
        await lab.start_master("node1")
        assert await tags(lab) == []
        assert await done(lab, "later") > lost

    lab.run(scenario())


def test_nothing_is_accepted_while_another_node_is_the_master(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await done(lab, "kept")
        await lose_end(lab)
        lab.kill("node1")
        await lab.failover("node2")
        with pytest.raises(errors.WrongStateError, match="a master daemon runs on node2"):
            await accept_loss(lab)

    lab.run(scenario())


def test_the_epoch_goes_on_above_all_that_nodes_have_heard_of(lab: cluster.SimulatedCluster) -> None:
    """Node3 obeyed node2 as a later master, whose records are lost with it."""

    async def scenario() -> None:
        await done(lab, "kept")
        await lose_end(lab)
        lab.kill("node1")
        await lab.failover("node2")
        later_epoch = lab.daemons["node2"].store.epoch
        lab.kill_master("node2")
        lab.kill("node2")
        disk = lab.world.machine("node3").disk
        await disk.remove(FOLDERS.config)
        await accept_loss(lab)
        end = (await recovery.recover(lab.world.machine("node1"), FOLDERS)).replay.end
        assert end.epoch > later_epoch

    lab.run(scenario())


def test_a_state_that_lacks_nothing_is_left_alone(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await done(lab, "kept")
        lab.kill_master("node1")
        with pytest.raises(errors.WrongStateError, match="no record is missing"):
            await accept_loss(lab)
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]

    lab.run(scenario())
