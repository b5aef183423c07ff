"""Many workers on one database: nothing twice, nothing lost, whoever stops where."""

import concurrent.futures
import multiprocessing
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests import postgres
from tests.ipam.sql import workers

from gantry import errors
from gantry.ipam.sql import driver, engines, requests, schema

ANY, NEXT = requests.AnyAddress(), requests.NextAddress()
WORKERS = 8


def at_once(works: Sequence[Callable[[], object]]) -> list[object]:
    """Run all in threads that begin together; return results, or the errors that were raised."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        together.wait(60)
        try:
            return work()
        except errors.GantryError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works, timeout=120))


@pytest.fixture
def ipam(database: engines.Database) -> driver.Driver:
    return driver.Driver(database, below=random.randrange)


def is_sound(ipam: driver.Driver) -> bool:
    return not ipam.check(each for subnet in ipam.subnets() for each in ipam.allocations(subnet.id))


@pytest.mark.promise("ipam-26")
def test_eight_processes_fill_a_subnet_to_the_last_address_without_a_double(url: str, ipam: driver.Driver) -> None:
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.0/24"])

    with concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        filled = [pool.submit(workers.fill, url, "s") for _ in range(WORKERS)]
        taken = [address for future in filled for address in future.result(120)[0]]

    assert len(taken) == len(set(taken)) == 254
    assert {each.address for each in ipam.allocations("s")} == set(taken)
    assert is_sound(ipam)


@pytest.mark.round
def test_workers_that_race_for_one_range_get_each_address_once(ipam: driver.Driver) -> None:
    for attempt in range(10):
        subnet = f"s{attempt}"
        ipam.add_subnet(subnet, cidr="10.0.0.0/29", pools=["10.0.0.1-10.0.0.3"])

        results = at_once([lambda s=subnet: ipam.allocate(s, NEXT)] * WORKERS)  # type: ignore[misc]

        assert {each for each in results if isinstance(each, str)} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
        assert [type(each) for each in results if not isinstance(each, str)] == [errors.NoRoomError] * (WORKERS - 3)
    assert is_sound(ipam)


def test_one_owner_that_asks_at_many_servers_gets_one_address(ipam: driver.Driver) -> None:
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.0/24"])
    for owner in "abcde":
        results = at_once([lambda o=owner: ipam.allocate("s", ANY, owner=o, key="0")] * WORKERS)  # type: ignore[misc]
        assert {str(each) for each in results} == {each.address for each in ipam.owned(owner)}
        assert len(ipam.owned(owner)) == 1
    assert is_sound(ipam)


def test_many_at_once_and_single_ones_do_not_meet(ipam: driver.Driver) -> None:
    ipam.add_subnet("s", cidr="10.0.0.0/23", pools=["10.0.0.0/23"])

    many, single = (lambda: ipam.allocate_many("s", 100)), (lambda: [ipam.allocate("s", ANY)])
    results = at_once([*[many] * 4, *[single] * 4])

    taken = [address for each in results if isinstance(each, list) for address in each]
    assert len(taken) == len(set(taken)) == 404
    assert is_sound(ipam)


@pytest.mark.promise("ipam-22")
def test_a_subnet_that_is_removed_while_addresses_are_taken_has_none_or_stays(ipam: driver.Driver) -> None:
    outcomes = set()
    for attempt in range(15):
        subnet = f"s{attempt}"
        ipam.add_subnet(subnet, cidr="10.0.0.0/24", pools=["10.0.0.8-10.0.0.9"])
        works = [
            lambda s=subnet: ipam.remove_subnet(s),
            lambda s=subnet: ipam.allocate(s, ANY),
            lambda s=subnet: ipam.allocate(s, requests.SpecificAddress("10.0.0.200")),
        ]
        removal, *taken = at_once(works)

        outcomes.add(type(removal))
        remaining = {each.address for each in ipam.allocations(subnet)}
        assert remaining == {each for each in taken if isinstance(each, str)}
        assert bool(remaining) == isinstance(removal, errors.WrongStateError)
    assert outcomes <= {type(None), errors.WrongStateError}
    assert is_sound(ipam)


@pytest.mark.promise("ipam-5", "ipam-31")
def test_pools_that_change_while_addresses_come_and_go_leave_nothing_behind(ipam: driver.Driver) -> None:
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.1-10.0.0.100"])
    pools = [["10.0.0.1-10.0.0.50"], ["10.0.0.20-10.0.0.120", "10.0.0.130-10.0.0.150"], ["10.0.0.1-10.0.0.100"]]

    def change() -> None:
        for number in range(12):
            ipam.update_subnet("s", cidr="10.0.0.0/24", pools=pools[number % 3])
            ipam.allocate_many("s", 0)

    def come_and_go(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(40):
            address = f"10.0.0.{drawn.randrange(1, 200)}"
            choices: list[requests.Request] = [ANY, NEXT, requests.SpecificAddress(address)]
            try:
                ipam.allocate("s", drawn.choice(choices))
            except (errors.NotUniqueError, errors.NoRoomError):
                ipam.deallocate("s", address)
            ipam.deallocate("s", address)

    results = at_once([change, *(lambda seed=seed: come_and_go(seed) for seed in range(3))])

    assert results == [None] * 4
    assert is_sound(ipam)


def test_a_worker_that_is_killed_before_its_commit_leaves_the_address_free(url: str, ipam: driver.Driver) -> None:
    ipam.add_subnet("s", cidr="10.0.0.0/30", pools=["10.0.0.0/30"])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ipam.sql.workers", url, "s"], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout
        address = worker.stdout.readline().strip()
        worker.kill()

    assert address == ipam.allocate("s", NEXT) == "10.0.0.1"
    assert is_sound(ipam)


@pytest.fixture(params=[pytest.param("", marks=postgres.NEEDS)])
def own_server(request: pytest.FixtureRequest) -> Iterator[postgres.Server]:
    with postgres.running() as running:
        yield running


def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(own_server: postgres.Server) -> None:
    database = engines.open_database(own_server.create("ipam"))
    schema.prepare(database)
    ipam = driver.Driver(database, below=random.randrange)
    ipam.add_subnet("s", cidr="10.0.0.0/8", pools=["10.0.0.0/8"])
    done = threading.Event()

    succeeded, lost = threading.Event(), threading.Event()

    def allocate() -> list[str | errors.GantryError]:
        results: list[str | errors.GantryError] = []
        while not done.is_set():
            try:
                results.append(ipam.allocate("s", ANY))
                succeeded.set()
            except errors.EnvironmentFaultError as error:
                results.append(error)
                lost.set()
                done.wait(0.01)
        return results

    def kill() -> None:
        try:
            for _ in range(3):
                succeeded.clear()
                lost.clear()
                assert succeeded.wait(60)
                own_server.stop(signal.SIGQUIT)
                assert lost.wait(60)
                own_server.start()
            succeeded.clear()
            assert succeeded.wait(60)
        finally:
            done.set()  # the others continue until then, whatever has become of the server

    _, *answers = at_once([kill, allocate, allocate, allocate, allocate])

    results = [each for answer in answers if isinstance(answer, list) for each in answer]
    acknowledged = [each for each in results if isinstance(each, str)]
    failed = [each for each in results if isinstance(each, errors.EnvironmentFaultError)]
    stored = {each.address for each in ipam.allocations("s")}
    assert len(results) == len(acknowledged) + len(failed)
    assert acknowledged
    assert failed
    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= stored
    unknown = [each for each in failed if "whose outcome is unknown" in each.message]
    assert len(stored) - len(acknowledged) <= len(unknown)
    assert is_sound(ipam)
    database.close()


class RecordingConnection:
    """A connection that records the text of each statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.statements: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def cursor(self) -> "RecordingCursor":
        return RecordingCursor(self._connection.cursor(), self.statements)


class RecordingCursor:
    """A cursor of such a connection."""

    def __init__(self, cursor: Any, statements: list[str]) -> None:
        self._cursor = cursor
        self._statements = statements

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)

    def execute(self, statement: str, *values: object) -> object:
        self._statements.append(statement)
        return self._cursor.execute(statement, *values)


LOCKS = re.compile(r"\bFOR (NO KEY )?UPDATE|\bFOR (KEY )?SHARE|\bLOCK\b|advisory|SERIALIZABLE", re.IGNORECASE)


@pytest.mark.promise("ipam-15")
def test_an_address_is_found_without_a_lock(own_server: postgres.Server) -> None:
    url = own_server.create("unlocked")
    database = engines.open_database(url)
    schema.prepare(database)
    ipam = driver.Driver(database, below=random.randrange)
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.1-10.0.0.200"])
    ipam.allocate("s", NEXT)
    connection = workers.connect(url)
    recording: Any = RecordingConnection(connection)
    callers = ipam.on(engines.Borrowed(recording))
    for request in (ANY, NEXT):
        callers.allocate("s", request)
        assert recording.statements[0].lstrip().startswith("SELECT")
        assert [text for text in recording.statements if LOCKS.search(text)] == []
        recording.statements.clear()
    connection.close()
    database.close()
