"""The fence in a database: a former master changes nothing there, however late its changes arrive."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests import postgres
from tests.ipam.sql import lab as labs
from tests.ipam.sql.lab import Lab

from gantry import errors
from gantry.ipam.sql import engines, fence, statements
from gantry.runtime import simulated
from gantry.state.journal import journal
from gantry.state.objects import snapshot as states

T = TypeVar("T")

FORMER, LATER = (fence.Master("gantry/c/", epoch, f"node{epoch}") for epoch in (1, 2))
REFUSED = r"this master, of epoch 1, .* in the database .*ipam.*: a later master, of epoch 2, has worked there"


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=5) as world:
        yield world


@pytest.fixture
def moved(world: simulated.World, empty_url: str) -> Lab:
    """A cluster whose addresses are in the database."""
    lab = Lab(world)
    world.run(lab.start())
    lab.run(lab.switch("sql", empty_url))
    return lab


@pytest.fixture
def heir(world: simulated.World) -> Lab:
    """The next master of that cluster; ``succeed`` gives it the state."""
    return Lab(world)


async def succeed(heir: Lab, former: Lab, state: states.Snapshot | None = None) -> None:
    """Start another master of the same cluster, with a state, or the durable state of the former one."""
    heir.kept.snapshot = heir.kept.durable = state or former.kept.durable
    heir.kept.position = journal.Position(epoch=2)
    heir.boot()
    await heir.start()


def hold(lab: Lab) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold a master's next transactions; return the event that one arrives, and the event that lets them continue."""
    arrived, go, block = asyncio.Event(), asyncio.Event(), lab.runtime.block

    async def late(work: Callable[[], T]) -> T:
        arrived.set()
        await go.wait()
        return await block(work)

    lab.runtime.block = late  # type: ignore[method-assign]
    return arrived, go


def run(url: str, script: str) -> None:
    database = engines.open_database(url)
    database.change(lambda db: db.script(script))
    database.close()


def test_a_release_that_arrives_late_does_not_take_an_address_from_the_next_master(
    moved: Lab, heir: Lab, empty_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        (ip,) = await moved.add_port()
        arrived, go = hold(moved)
        await moved.remove_port(ip)
        await arrived.wait()
        await succeed(heir, moved)
        assert await heir.add_port(ip) == [ip]
        owners = labs.owners(empty_url)
        go.set()
        await asyncio.sleep(60)
        assert labs.owners(empty_url) == owners == {ip: f"gantry/c/{heir.state.addresses[labs.NET, ip].port}"}
        with pytest.raises(errors.WrongStateError, match=REFUSED):
            await moved.add_port()
        assert (moved.allocated(), labs.owners(empty_url)) == (set(), owners)

    moved.run(scenario())
    assert caplog.text.count("addresses cannot be released in the shared database yet") == 1


def test_a_former_master_secures_nothing_after_its_successor_has_compared(
    moved: Lab, heir: Lab, empty_url: str
) -> None:
    async def scenario() -> None:
        state = moved.kept.durable
        secured = await moved.add_port()
        arrived, go = hold(moved)
        late = asyncio.create_task(moved.add_port())
        await arrived.wait()
        assert {*labs.owners(empty_url)} == {*secured}
        heir.kept.may_be_superseded = True
        await succeed(heir, moved, state=state)
        (ip,) = await heir.add_port("192.0.2.15")
        go.set()
        with pytest.raises(errors.WrongStateError, match=REFUSED):
            await late
        assert {*labs.owners(empty_url)} == {*secured, ip}

    moved.run(scenario())


def test_a_master_goes_on_with_another_epoch_after_it_has_compared_again(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        (kept,) = await moved.add_port()
        moved.kept.position = journal.Position(epoch=3)
        (added,) = await moved.add_port()
        await moved.remove_port(kept)
        await moved.until(lambda: {*labs.owners(empty_url)} == {added})

    moved.run(scenario())
    with pytest.raises(errors.WrongStateError, match="of epoch 3"):
        LATER.record(engines.open_database(empty_url))


OLD_COPY = "DELETE FROM gantry_masters;\nDELETE FROM gantry_allocations;\n"
EARLIER_VERSION = "DROP TABLE gantry_masters;\nDELETE FROM gantry_migrations WHERE name = '0002-before-masters';\n"


def test_a_restored_database_is_compared_before_the_next_address(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        (kept,) = await moved.add_port()
        run(empty_url, OLD_COPY)
        (added,) = await moved.add_port()
        assert {*labs.owners(empty_url)} == {kept, added}

    moved.run(scenario())


def test_a_database_of_an_earlier_version_gets_the_fence_when_a_master_starts(moved: Lab, empty_url: str) -> None:
    run(empty_url, EARLIER_VERSION)

    async def scenario() -> None:
        await moved.restart()
        assert await moved.add_port() == ["192.0.2.10"]

    moved.run(scenario())
    with pytest.raises(errors.WrongStateError):
        fence.Master("gantry/c/", 0, "node0").record(engines.open_database(empty_url))


def test_a_restored_cluster_is_refused_until_an_administrator_lets_it_take_the_database_over(
    moved: Lab, heir: Lab, empty_url: str
) -> None:
    async def scenario() -> None:
        await succeed(heir, moved)
        await heir.add_port(count=3)
        await moved.restart()
        with pytest.raises(errors.WrongStateError, match=REFUSED + r".*--ipam-driver sql --ipam-database URL --force"):
            await moved.add_port()
        await moved.switch("sql", empty_url, force=True)
        (ip,) = await moved.add_port()
        await moved.until(lambda: {*labs.owners(empty_url)} == {ip})

    moved.run(scenario())


def test_a_database_with_a_later_master_is_refused_before_anything_moves(moved: Lab, heir: Lab, empty_url: str) -> None:
    restored = heir
    restored.kept.position = journal.Position(epoch=0)

    async def scenario() -> None:
        (ip,) = await moved.add_port()
        await restored.start()
        with pytest.raises(errors.WrongStateError, match=r"of epoch 0.* of epoch 1"):
            await restored.switch("sql", empty_url)
        assert (restored.addresses.on, restored.state.the_cluster.ipam_driver) == (False, "embedded")
        assert {*labs.owners(empty_url)} == {ip}

    moved.run(scenario())


@pytest.mark.parametrize("leaves", ["by a job", "by an undone job"])
def test_a_former_master_that_leaves_the_database_takes_nothing_along(
    moved: Lab, heir: Lab, empty_url: str, leaves: str
) -> None:
    async def scenario() -> None:
        if leaves == "by an undone job":
            await moved.switch("embedded")
            await moved.addresses.move_in(empty_url, force=False)
        await succeed(heir, moved)
        if not heir.addresses.on:
            await heir.switch("sql", empty_url)
        (ip,) = await heir.add_port()
        if leaves == "by a job":
            await moved.switch("embedded", force=True)
        else:
            with pytest.raises(errors.WrongStateError, match=REFUSED):
                await moved.addresses.abandon()
        assert not moved.addresses.on
        assert {*labs.owners(empty_url)} == {ip}

    moved.run(scenario())


def test_a_master_is_recorded_after_the_changes_that_have_begun_and_refuses_those_that_follow(
    database: engines.Database, second: engines.Database
) -> None:
    FORMER.record(database)
    begun, end = threading.Event(), threading.Event()
    order: list[str] = []

    def work(db: statements.Statements) -> None:
        begun.set()
        end.wait(60)
        db.run("add_subnet", subnet="s", cidr="192.0.2.0/24", gateway="")
        order.append("changed")

    def succeeds() -> None:
        LATER.record(second)
        order.append("recorded")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        change = pool.submit(FORMER.change, database, work)
        assert begun.wait(60)
        record = pool.submit(succeeds)
        time.sleep(0.2)
        end.set()
        change.result(60)
        record.result(60)
    assert order == ["changed", "recorded"]
    with pytest.raises(errors.WrongStateError, match=REFUSED):
        FORMER.change(database, lambda db: db.run("remove_subnet", subnet="s"))
    with pytest.raises(errors.WrongStateError, match=REFUSED):
        FORMER.record(database)
    assert second.read(lambda db: [row[0] for row in db.all_rows("subnets")]) == ["s"]


@pytest.mark.parametrize("recorded", [None, fence.Master("gantry/d/", 1, "node1")])
def test_a_master_that_is_not_recorded_changes_nothing(
    database: engines.Database, recorded: fence.Master | None
) -> None:
    if recorded:
        recorded.record(database)
    with pytest.raises(fence.UnrecordedError, match="of epoch 1, on record"):
        FORMER.change(database, lambda db: db.run("add_subnet", subnet="s", cidr="192.0.2.0/24", gateway=""))
    assert not database.read(lambda db: db.all_rows("subnets"))


def test_of_two_masters_with_one_epoch_the_first_one_is_recorded(database: engines.Database) -> None:
    LATER.record(database)
    LATER.record(database)
    LATER.check(database)
    twin = fence.Master(LATER.mark, LATER.epoch, "node1")
    for refused in (twin.record, twin.check):
        with pytest.raises(errors.WrongStateError, match="on the node with UUID node2"):
            refused(database)


ON_POSTGRESQL = pytest.mark.parametrize("empty_url", [pytest.param("postgresql", marks=postgres.NEEDS)], indirect=True)


@ON_POSTGRESQL
def test_changes_of_one_master_do_not_wait_for_each_other(database: engines.Database) -> None:
    FORMER.record(database)
    both = threading.Barrier(2)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for change in [pool.submit(FORMER.change, database, lambda _: both.wait(10)) for _ in range(2)]:
            change.result(20)


@ON_POSTGRESQL
def test_a_master_that_stands_still_in_a_transaction_does_not_stop_its_successor(
    database: engines.Database, second: engines.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = statements.texts(statements.Dialect.POSTGRESQL)
    assert "'30s'" in texts["share_master"]
    monkeypatch.setitem(texts, "share_master", texts["share_master"].replace("'30s'", "'200ms'"))
    FORMER.record(database)
    begun, end = threading.Event(), threading.Event()

    def work(db: statements.Statements) -> None:
        begun.set()
        assert end.wait(20)
        db.run("add_subnet", subnet="s", cidr="192.0.2.0/24", gateway="")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        change = pool.submit(FORMER.change, database, work)
        assert begun.wait(60)
        LATER.record(second)
        end.set()
        with pytest.raises(errors.WrongStateError, match=REFUSED):
            change.result(20)
    assert not second.read(lambda db: db.all_rows("subnets"))
