"""The watcher over a simulated cluster: if enabled, it marks failed nodes offline, and later online again."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from gantry import errors, security
from gantry.doors import watcher
from gantry.rpc import luxi
from gantry.runtime import simulated
from gantry.sim import cluster

MEMORY = "/gantry/lib/watcher.data"


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5, nodes=4) as simulated:
        simulated.run(simulated.build())
        yield simulated


def _watcher(
    lab: cluster.SimulatedCluster, caller: luxi.Client, *, offline_after: int = 0, repairs: bool = False
) -> watcher.Watcher:
    authority = f"{cluster.FOLDERS.certificates}/authority.pem"
    return watcher.Watcher(
        lab.master, MEMORY, master=caller, authority=authority, offline_after=offline_after, repairs=repairs
    )


async def rounds(lab: cluster.SimulatedCluster, count: int, *, offline_after: int) -> None:
    """Do rounds five minutes apart, so that the submitted jobs end between them."""
    for _ in range(count):
        caller = luxi.Client(lab.master.network, cluster.FOLDERS.luxi_socket)
        try:
            await _watcher(lab, caller, offline_after=offline_after).run()
        finally:
            await caller.close()
        await lab.world.clock.sleep(300)


class FullQueue(luxi.Client):
    """A client whose jobs are refused."""

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "SubmitJob":
            raise errors.QueueFullError("the queue is full")
        return await super().call(kind, method, *arguments)


async def offline(lab: cluster.SimulatedCluster) -> list[str]:
    answer = msgspec.convert(await lab.luxi("Query", "node", ["name", "offline"], None), dict[str, object])
    table = msgspec.convert(answer["data"], list[list[tuple[int, object]]])
    return [str(name) for (_, name), (_, flag) in table if flag]


async def jobs(lab: cluster.SimulatedCluster) -> list[object]:
    return [row[0] for row in msgspec.convert(await lab.luxi("QueryJobs", None, ["summary"]), list[list[object]])]


@pytest.mark.promise("cluster-94")
def test_a_node_that_fails_its_calls_is_marked_offline_and_online_again(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.kill("node4")
        await rounds(lab, 2, offline_after=3)
        assert await offline(lab) == []
        await rounds(lab, 1, offline_after=3)
        assert await offline(lab) == ["node4"]
        await rounds(lab, 6, offline_after=3)
        assert await offline(lab) == ["node4"]
        await lab.start_node("node4")
        await rounds(lab, 4, offline_after=3)
        assert await offline(lab) == []

    lab.run(scenario())


def test_by_default_the_watcher_marks_no_node_offline(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        before = await jobs(lab)
        lab.kill("node4")
        await rounds(lab, 5, offline_after=0)
        assert await jobs(lab) == before

    lab.run(scenario())


def test_an_answer_resets_the_count_of_rounds_without_answer(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for _ in range(3):
            lab.kill("node4")
            await rounds(lab, 1, offline_after=2)
            await lab.start_node("node4")
            await rounds(lab, 1, offline_after=2)
        assert await offline(lab) == []

    lab.run(scenario())


def test_a_node_that_an_administrator_marked_offline_stays_offline(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node4", "offline": True})
        await rounds(lab, 5, offline_after=1)
        assert await offline(lab) == ["node4"]

    lab.run(scenario())


def test_no_node_is_marked_offline_when_half_of_the_nodes_are_silent(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "replication": "seed"})
        before = await jobs(lab)
        for name in ("node3", "node4"):
            lab.world.network.partition("node1", name)
        await rounds(lab, 2, offline_after=1)
        assert await jobs(lab) == before
        assert "2 of 4 nodes do not answer: this node may be cut off" in caplog.text

    lab.run(scenario())


def test_marking_a_node_offline_is_tried_once(lab: cluster.SimulatedCluster) -> None:
    """The node has a primary instance, which must be moved to another node first."""

    async def scenario() -> None:
        vm = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "pnode": "node4"}
        await lab.done(vm)
        lab.kill("node4")
        await rounds(lab, 5, offline_after=1)
        assert await offline(lab) == []
        assert (await jobs(lab)).count("NODE_SET_PARAMS(node4)") == 1

    lab.run(scenario())


def test_whether_a_node_answers_again_is_checked_once_in_each_interval(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        lab.kill("node4")
        checks = 3
        await rounds(lab, 1 + int(checks * watcher.RETURN_INTERVAL_SECONDS / 300), offline_after=1)
        assert await offline(lab) == ["node4"]
        assert (await jobs(lab)).count("NODE_SET_PARAMS(node4)") == 1 + checks

    lab.run(scenario())


def test_a_check_of_the_volume_groups_gets_the_result_of_the_last_check(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        for _ in range(3):
            caller = luxi.Client(lab.master.network, cluster.FOLDERS.luxi_socket)
            try:
                await _watcher(lab, caller, repairs=True).run()
            finally:
                await caller.close()
            await lab.world.clock.sleep(300)
        assert sum("CLUSTER_REPAIR_STORAGE" in str(summary) for summary in await jobs(lab)) == 3
        kept = msgspec.json.decode(lab.master.disk.read(MEMORY), type=watcher.Memory)
        assert kept.whole
        assert kept.look

    lab.run(scenario())


def test_a_check_of_the_volume_groups_that_was_not_submitted_is_not_looked_for(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        caller = FullQueue(lab.master.network, cluster.FOLDERS.luxi_socket)
        try:
            await _watcher(lab, caller, repairs=True).run()
        finally:
            await caller.close()
        assert not lab.master.disk.exists(MEMORY)

    lab.run(scenario())


class Master:
    """A master whose node has a certificate that ends at a moment, and the stray guests of these names.

    Its instances, by their names, are down. It keeps the submitted jobs.
    """

    def __init__(self, end: float = 4e9, *, strays: Sequence[str] = (), down: Sequence[str] = ()) -> None:
        self.jobs: list[object] = []
        self._end, self._strays, self._down = end, strays, down

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        answers: dict[str, object] = {
            "QueryConfigValues": (None, False),
            "AutoArchiveJobs": (0, 0),
            "QueryJobs": [],
            "SubmitJob": 7,
        }
        if method == "SubmitJob":
            self.jobs.append(arguments)
        if method != "Query":
            return msgspec.convert(answers[method], kind)
        name, fields, _ = msgspec.convert(arguments, tuple[str, list[str], None])
        values = {"name": "node1", "certificate_end": self._end, "bootid": "b", "stray_guests": self._strays}
        if name == "node":
            return msgspec.convert({"data": [[(0, values[field]) for field in fields]]}, kind)
        return msgspec.convert({"data": [[(0, instance), (0, "ERROR_down")] for instance in self._down]}, kind)


class MasterWithOldJobs(Master):
    """A master that archives a number of jobs in a round; a number of others remain."""

    def __init__(self, archived: int, remaining: int) -> None:
        super().__init__()
        self._numbers = archived, remaining

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "AutoArchiveJobs":
            return msgspec.convert(self._numbers, kind)
        return await super().call(kind, method, *arguments)


@pytest.mark.parametrize(("archived", "remaining"), [(0, 0), (3, 0), (0, 5), (3, 5)])
def test_the_log_has_the_number_of_jobs_that_were_archived(
    caplog: pytest.LogCaptureFixture, archived: int, remaining: int
) -> None:
    caplog.set_level("INFO")
    with simulated.World(seed=1) as world:
        machine, master = world.machine("node1"), MasterWithOldJobs(archived, remaining)
        world.run(watcher.Watcher(machine, "/memory", master=master, authority="/none").run())
    lines = [message for message in caplog.messages if "archive" in message]
    expected = f"archived {archived} jobs; the next round archives {remaining} more"
    assert lines == ([expected] if archived or remaining else [])


class MasterAfterCheck(Master):
    """A master on which the last check of the volume groups, job 7, has this status and these results."""

    def __init__(self, status: str, results: Sequence[object]) -> None:
        super().__init__()
        self._check = status, results

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "QueryJobs" and arguments[0] == [7]:
            return msgspec.convert([self._check], kind)
        return await super().call(kind, method, *arguments)


@pytest.mark.promise("cluster-106")
@pytest.mark.parametrize(
    ("before", "status", "results", "whole_before"),
    [
        (True, "success", [False], False),
        (False, "success", [True], True),
        (True, "error", [["OpExecError", []]], True),
        (False, "error", [["OpExecError", []]], False),
    ],
)
def test_a_check_repairs_only_what_was_whole_at_the_last_check_that_succeeded(
    lab: cluster.SimulatedCluster, *, before: bool, status: str, results: list[object], whole_before: bool
) -> None:
    lab.run(lab.master.disk.write(MEMORY, msgspec.json.encode(watcher.Memory(whole=before, look=7))))
    master = MasterAfterCheck(status, results)
    lab.run(watcher.Watcher(lab.master, MEMORY, master=master, authority="/none", repairs=True).run())
    ops = msgspec.convert(master.jobs, list[tuple[list[dict[str, object]]]])
    assert [(op["OP_ID"], op["whole_before"]) for ((op,),) in ops] == [("OP_CLUSTER_REPAIR_STORAGE", whole_before)]


@pytest.mark.parametrize("status", ["queued", "waiting", "running"])
def test_a_check_of_the_volume_groups_that_has_not_ended_is_not_followed_by_another(status: str) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("node1")
        for whole in (True, False):
            before = watcher.Memory(whole=whole, look=7)
            world.run(machine.disk.write("/memory", msgspec.json.encode(before)))
            master = MasterAfterCheck(status, [])
            world.run(watcher.Watcher(machine, "/memory", master=master, authority="/none", repairs=True).run())
            assert master.jobs == []
            after = msgspec.json.decode(machine.disk.read("/memory"), type=watcher.Memory)
            assert (after.whole, after.look) == (whole, 7)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"look": "x"}', b"\xff"])
def test_a_damaged_memory_is_logged_and_written_again(caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    with simulated.World(seed=1) as world:
        machine, master = world.machine("node1"), Master(down=["vm1"])
        world.run(machine.disk.write("/memory", content))
        world.run(watcher.Watcher(machine, "/memory", master=master, authority="/none").run())
        written = msgspec.json.decode(machine.disk.read("/memory"), type=watcher.Memory)
    assert "/memory is damaged and will be rewritten" in caplog.text
    assert len(master.jobs) == 1
    assert written.instances["vm1"].count == 1


class RefusingMaster(Master):
    """A master that takes no jobs until ``takes_jobs`` is set."""

    takes_jobs = False

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "SubmitJob" and not self.takes_jobs:
            raise errors.QueueFullError("the queue is full")
        return await super().call(kind, method, *arguments)


def test_a_start_that_the_queue_refuses_is_not_an_attempt(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        machine, master = world.machine("node1"), RefusingMaster(down=["vm1"])
        for takes_jobs in (False, True):
            master.takes_jobs = takes_jobs
            for _ in range(2 * watcher.ATTEMPTS):
                world.run(watcher.Watcher(machine, "/memory", master=master, authority="/none").run())
                world.run(world.clock.sleep(300))
    assert len(master.jobs) == watcher.ATTEMPTS
    assert "damaged" not in caplog.text
    assert "the queue is full" in caplog.text


def test_an_instance_that_stays_down_is_started_a_few_times_and_again_when_that_is_long_ago(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def submitted(rounds: int) -> int:
        master = Master(down=["vm1"])
        for _ in range(rounds):
            world.run(watcher.Watcher(machine, "/memory", master=master, authority="/none").run())
            world.run(world.clock.sleep(300))
        return len(master.jobs)

    with simulated.World(seed=1) as world:
        machine = world.machine("node1")
        assert submitted(2 * watcher.ATTEMPTS) == watcher.ATTEMPTS
        # An instance that is given up is logged once.
        assert len([line for line in caplog.messages if "instance vm1 is given up after" in line]) == 1
        world.run(world.clock.sleep(watcher.MEMORY_SECONDS))
        assert submitted(2 * watcher.ATTEMPTS) == watcher.ATTEMPTS
        assert len([line for line in caplog.messages if "instance vm1 is given up after" in line]) == 2


def test_an_instance_whose_guest_runs_elsewhere_is_not_started(lab: cluster.SimulatedCluster) -> None:
    master = Master(strays=["vm1", "gone"], down=["vm1", "vm2"])
    lab.run(watcher.Watcher(lab.master, MEMORY, master=master, authority="/none").run())
    ops = msgspec.convert(master.jobs, list[tuple[list[dict[str, object]]]])
    assert [(op["OP_ID"], op["instance_name"]) for ((op,),) in ops] == [("OP_INSTANCE_STARTUP", "vm2")]


def test_only_nodes_that_have_stray_guests_are_reported(
    lab: cluster.SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    for strays in ([], ["vm1"]):
        caplog.clear()
        master = Master(strays=strays)
        lab.run(watcher.Watcher(lab.master, MEMORY, master=master, authority="/none").run())
        assert ("node node1 runs guests that it should not run" in caplog.text) is bool(strays)


@pytest.mark.parametrize(("days", "renewed"), [(59, True), (61, False), (-1, True)])
def test_a_certificate_is_renewed_sixty_days_before_its_end(
    lab: cluster.SimulatedCluster, days: int, *, renewed: bool
) -> None:
    master = Master(lab.master.clock.now() + days * 86400)
    lab.run(watcher.Watcher(lab.master, MEMORY, master=master, authority="/none").run())
    ops = msgspec.convert(master.jobs, list[tuple[list[dict[str, object]]]])
    expected_ops = [("OP_CLUSTER_RENEW_CRYPTO", ["node1"], True)] if renewed else []
    assert [(op["OP_ID"], op["nodes"], op["keep_keys"]) for ((op,),) in ops] == expected_ops


@pytest.mark.parametrize(("seconds", "renewed"), [(-60, True), (60, False)])
def test_the_authority_is_renewed_180_days_before_its_end(
    lab: cluster.SimulatedCluster, seconds: int, *, renewed: bool
) -> None:
    end = lab.master.clock.now() + 180 * 86400 + seconds
    authority = security.make_authority("one", end - security.AUTHORITY_DAYS * 86400)
    lab.run(lab.master.disk.write("/authority.pem", authority.certificates))
    master = Master()
    lab.run(watcher.Watcher(lab.master, MEMORY, master=master, authority="/authority.pem").run())
    ops = msgspec.convert(master.jobs, list[tuple[list[dict[str, object]]]])
    expected_ops = [("OP_CLUSTER_RENEW_CRYPTO", True)] if renewed else []
    assert [(op["OP_ID"], op["cluster_certificate"]) for ((op,),) in ops] == expected_ops
