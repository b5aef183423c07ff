"""``gantry-masterd recover --from NODE`` on simulated machines: what is installed, and what is refused."""

from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.lib_files import frame, journal_end, journal_names
from gantry.mastership import identity, retrieval
from gantry.rpc import client
from gantry.sim import cluster
from gantry.state.files import checkpoint
from gantry.state.journal import end_mark, journal, record
from gantry.state.objects import snapshot
from gantry.state.start import recovery

FOLDERS = cluster.FOLDERS
TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


def tag(*tags: str) -> cluster.Opcode:
    return {**TAG, "tags": list(tags)}


async def retrieve(lab: cluster.SimulatedCluster, node: str, **options: object) -> retrieval.Result:
    """Do what ``gantry-masterd recover --from`` does on node1."""
    machine = lab.world.machine("node1")

    async def work() -> retrieval.Result:
        authority = identity.load(machine, FOLDERS)
        credentials = identity.Credentials(machine, FOLDERS, authority, secure=False)
        await credentials.renew()
        nodes = client.Client(machine.network, credentials.context)
        try:
            request = retrieval.Request(node, **options)  # type: ignore[arg-type]
            return await retrieval.retrieve(machine, FOLDERS, request, nodes=nodes)
        finally:
            await nodes.close()

    return await machine.spawn(work())


async def lose_end(lab: cluster.SimulatedCluster, *, name: str = "node1") -> None:
    """Remove the newest section of a machine's journal."""
    disk = lab.world.machine(name).disk
    newest = journal.sections(disk, FOLDERS.journal)[-1]
    await disk.remove(journal_names.path(FOLDERS.journal, newest))


async def tags(lab: cluster.SimulatedCluster) -> object:
    return await lab.luxi("QueryTags", "cluster", "")


def image(lab: cluster.SimulatedCluster) -> dict[str, bytes | None]:
    """Return the files of the state on node1, without the lock."""
    files = lab.world.machine("node1").disk.image()
    apart = (f"{FOLDERS.queue}/lock", f"{FOLDERS.certificates}/master")
    return {path: content for path, (_, content) in files.items() if not path.startswith(apart)}


def test_the_copy_of_a_candidate_replaces_a_damaged_state(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill_master("node1")
        disk = lab.world.machine("node1").disk
        await disk.write(FOLDERS.config, b"{}")
        result = await retrieve(lab, "node2")
        assert result.previous == f"{FOLDERS.lib}/before-recovery-1"
        assert disk.read(f"{result.previous}/config.data") == b"{}"
        assert result.losses == ()
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]
        await lab.done(tag("later"))
        await lab.world.clock.sleep(10)
        assert lab.daemons["node1"].candidates.lagging() == []

    lab.run(scenario())


def test_a_master_that_knows_only_itself_gets_the_whole_cluster_back(lab: cluster.SimulatedCluster) -> None:
    """Without a checkpoint since init, the journal that is left tells of one node; ssconf has the others."""

    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill_master("node1")
        machine = lab.world.machine("node1")
        first = journal_names.path(FOLDERS.journal, 1)
        line = machine.disk.read(first).splitlines(keepends=True)[0]
        await machine.disk.remove_tree(FOLDERS.journal)
        await machine.disk.make_directory(FOLDERS.journal)
        await machine.disk.write(first, line)
        await machine.disk.write(FOLDERS.config, _config_after(line))
        with pytest.raises(errors.ConfigurationError, match=r"ssconf names node2, node3") as refusal:
            await lab.start_master("node1")
        assert "gnt-cluster recover --from NODE, with one of node2, node3" in str(refusal.value)
        await retrieve(lab, "node3")
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]
        assert len(lab.daemons["node1"].store.snapshot.nodes) == 3

    lab.run(scenario())


def _config_after(line: bytes) -> bytes:
    """Return the checkpoint that ``init`` wrote after its only frame."""
    (only,) = frame.scan(line)
    changes = record.decode(only.records[0]).changes
    state = snapshot.Snapshot().apply(changes, serial=1)
    return checkpoint.encode(state, journal.Position(1, frame.digest(line), 0), now=1.0)


def test_a_copy_that_is_not_newer_is_refused_and_nothing_is_changed(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill_master("node1")
        await lab.world.clock.sleep(2)  # until the nodes have done what the master has sent them
        before = image(lab)
        with pytest.raises(errors.WrongStateError, match=r"and the copy here, at serial \d+ epoch 1, is not older"):
            await retrieve(lab, "node2")
        assert image(lab) == before
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]

    lab.run(scenario())


def test_a_copy_that_lacks_records_names_who_has_them_until_the_loss_is_accepted(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill("node2")
        last_job = await lab.submit(tag("newer"))
        assert (await lab.wait(last_job))[0] == "success"
        await lab.world.clock.sleep(2)
        lab.kill_master("node1")
        await lab.start_node("node2")
        await lose_end(lab)
        before = image(lab)
        with pytest.raises(errors.WrongStateError) as refusal:
            await retrieve(lab, "node2")
        assert "node node3 holds a newer one, serial" in str(refusal.value)
        assert f"{FOLDERS.journal_end} says serial" in str(refusal.value)
        assert image(lab) == before
        lab.kill("node3")
        result = await retrieve(lab, "node2", accepts_loss=True)
        assert result.next_job > last_job
        assert any("journal-end says" in line for line in result.losses)
        state = (await recovery.recover(lab.world.machine("node1"), FOLDERS)).state
        assert state.last_job >= last_job
        assert state.the_cluster.tags == ("kept",)

    lab.run(scenario())


def test_a_damaged_copy_is_refused_and_nothing_is_changed(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill_master("node1")
        await lose_end(lab)
        disk = lab.world.machine("node2").disk
        oldest = journal_names.path(FOLDERS.journal, journal.sections(disk, FOLDERS.journal)[0])
        data = disk.read(oldest)
        await disk.write(oldest, data[:100] + bytes([data[100] ^ 1]) + data[101:])
        before = image(lab)
        with pytest.raises(errors.ConfigurationError, match="checksum does not fit"):
            await retrieve(lab, "node2")
        assert image(lab) == before
        await retrieve(lab, "node3")
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]

    lab.run(scenario())


def test_an_older_copy_is_installed_if_the_loss_is_accepted_and_no_number_is_given_twice(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill("node2")
        last_job = await lab.submit(tag("newer"))
        assert (await lab.wait(last_job))[0] == "success"
        lab.kill("node3")
        lab.kill_master("node1")
        epoch = (await recovery.recover(lab.world.machine("node1"), FOLDERS)).replay.end.epoch
        await lab.start_node("node2")
        result = await retrieve(lab, "node2", accepts_loss=True)
        assert result.next_job == last_job + 1
        assert result.end.epoch > epoch
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]
        assert await lab.submit(tag("later")) == last_job + 1

    lab.run(scenario())


def test_numbers_continue_above_what_a_node_knows_whose_newer_copy_is_given_up(lab: cluster.SimulatedCluster) -> None:
    """Node1 has lost all files that know the last job and the epoch, and node3 has them."""

    async def scenario() -> None:
        await lab.done(tag("kept"))
        lab.kill("node2")
        await lab.stop_master("node1")
        await lab.start_master("node1")
        last_job = await lab.submit(tag("newer"))
        assert (await lab.wait(last_job))[0] == "success"
        epoch = lab.daemons["node1"].store.epoch
        lab.kill_master("node1")
        await lab.start_node("node2")
        disk = lab.world.machine("node1").disk
        for name in [name for name in disk.names(FOLDERS.queue) if name.startswith("job-") or name == "serial"]:
            await disk.remove(f"{FOLDERS.queue}/{name}")
        for path in (FOLDERS.config, f"{FOLDERS.lib}/epoch", f"{FOLDERS.lib}/promise"):
            await disk.remove(path)
        mark = end_mark.at(journal.Position(1, "a" * 64, 0), 0)
        await disk.write(FOLDERS.journal_end, journal_end.encode(mark))
        result = await retrieve(lab, "node2", accepts_loss=True)
        assert [line for line in result.losses if "node node3 holds a newer one" in line]
        assert result.next_job == last_job + 1
        assert result.end.epoch > epoch
        await lab.start_master("node1")
        assert await tags(lab) == ["kept"]

    lab.run(scenario())


def test_nothing_is_replaced_while_a_master_daemon_runs_here_or_elsewhere(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done(tag("kept"))
        with pytest.raises(errors.WrongStateError, match=r"process .* holds"):
            await retrieve(lab, "node2")
        lab.kill_master("node1")
        await lab.failover("node2")
        for name in ("node2", "node3"):
            with pytest.raises(errors.WrongStateError, match="a master daemon runs on node2"):
                await retrieve(lab, name)
        assert lab.masters() == ["node2"]

    lab.run(scenario())


@pytest.mark.parametrize(
    ("node", "kind", "text"),
    [
        ("node9", errors.NotFoundError, "no such node: node9"),
        ("node1", errors.InvalidError, "node1 is this machine"),
    ],
)
def test_a_node_that_has_no_copy_for_this_machine_is_refused(
    lab: cluster.SimulatedCluster, node: str, kind: type[errors.GantryError], text: str
) -> None:
    async def scenario() -> None:
        lab.kill_master("node1")
        with pytest.raises(kind, match=text):
            await retrieve(lab, node)

    lab.run(scenario())


def test_a_node_that_is_silent_or_has_no_copy_is_refused(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.kill_master("node1")
        lab.kill("node2")
        with pytest.raises(errors.RemoteError):
            await retrieve(lab, "node2")
        disk = lab.world.machine("node3").disk
        await disk.remove(FOLDERS.config)
        with pytest.raises(errors.WrongStateError, match="node node3 has no copy of the state"):
            await retrieve(lab, "node3")

    lab.run(scenario())
