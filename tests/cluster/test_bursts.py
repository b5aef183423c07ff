"""The product's own clients at ten times their normal number, at one moment: all end well."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.cluster import lab

from gantry.cli import client
from gantry.cli.framework import submit
from gantry.rpc import luxi
from gantry.runtime.real import RealRuntime

COMMANDS = 2000
ENDED = {"success", "error", "canceled"}


@pytest.fixture(scope="module")
def three() -> Iterator[lab.Lab]:
    with lab.lab() as cluster:
        cluster.init()
        cluster.add_node()
        cluster.add_node()
        yield cluster


def _at_once(work: Callable[[int], None], number: int) -> list[str]:
    """Run work in a number of threads at one moment; return the errors."""
    failures: list[str] = []
    start = threading.Barrier(number)

    def run(index: int) -> None:
        start.wait()
        try:
            work(index)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def _create(number: int) -> list[dict[str, object]]:
    name, node = f"vm{number}.example", f"node{number % 3 + 1}"
    return [{"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "instance_name": name, "pnode": node}]


def _statuses(connection: lab.Luxi, numbers: Sequence[object]) -> Counter[object]:
    rows = connection.value("QueryJobs", numbers, ["status"])
    assert isinstance(rows, list)
    return Counter(row[0] for row in rows)


def _create_at_once(cluster: lab.Lab, indices: range) -> None:
    """Create instances, one job for each, all submitted in one message."""
    with cluster.luxi() as connection:
        answers = connection.value("SubmitManyJobs", [_create(number) for number in indices])
        assert isinstance(answers, list)
        numbers = [number for _, number in answers]
        lab.wait_until(lambda: set(_statuses(connection, numbers)) <= ENDED, "the end of all jobs", timeout=800)
        assert _statuses(connection, numbers) == {"success": len(indices)}


def test_300_instances_created_at_one_moment_on_one_node_all_end_well(three: lab.Lab) -> None:
    _create_at_once(three, range(0, 900, 3))


@pytest.mark.slow
@pytest.mark.parametrize("begin, end", [(1000, 2000), (10_000, 20_000)])
def test_thousands_of_instances_created_at_one_moment_on_three_nodes_all_end_well(
    three: lab.Lab, begin: int, end: int
) -> None:
    _create_at_once(three, range(begin, end))


@pytest.mark.slow
def test_2000_commands_at_one_moment_all_submit_their_jobs_and_see_them_end(three: lab.Lab) -> None:
    path = str(three.master / "run/master.sock")

    def command(_: int) -> None:
        master = client.Client(path)
        try:
            # Each waits for its job, so all of them have a connection at one time.
            job = master.submit([{"OP_ID": "OP_TEST_DELAY", "duration": 3}])
            assert submit.follow(master, job, log=None) == "success"
        finally:
            master.close()

    assert _at_once(command, COMMANDS) == []


@pytest.mark.slow
def test_2000_commands_at_one_moment_all_list_the_nodes(three: lab.Lab) -> None:
    path = str(three.master / "run/master.sock")

    def command(_: int) -> None:
        master = client.Client(path)
        try:
            rows = master.query("node", ["name", "mtotal"]).rows
            assert [status for row in rows for status, _ in row] == [0] * 6
        finally:
            master.close()

    assert _at_once(command, COMMANDS) == []


@pytest.mark.slow
def test_2000_requests_of_the_remote_api_at_one_moment_share_its_connections_to_the_master(three: lab.Lab) -> None:
    async def ask() -> list[dict[str, object]]:
        pool = luxi.Pool(RealRuntime().network, str(three.master / "run/master.sock"), remote=True)
        try:
            asking = (pool.call(dict[str, object], "QueryClusterInfo") for _ in range(COMMANDS))
            return await asyncio.gather(*asking)
        finally:
            await pool.close()

    assert {str(answer["name"]) for answer in asyncio.run(ask())} == {"lab.example"}


@pytest.mark.slow
def test_ten_watchers_at_one_moment_all_do_their_round(three: lab.Lab) -> None:
    def watch(_: int) -> None:
        three.run("gantry-watcher", "--root", three.master)

    assert _at_once(watch, 10) == []
