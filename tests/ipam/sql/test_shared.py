"""The master's addresses in a shared database: moving in and out, addresses of other owners, crashes."""

import asyncio
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import structs
from tests import postgres
from tests.ipam.sql import lab as labs
from tests.ipam.sql.lab import Lab
from tests.state import build

from gantry import errors
from gantry.ipam import shared, shared_work, subscription
from gantry.ipam.sql import engines, fence, records, requests
from gantry.model import network
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states


@pytest.fixture
def seed() -> int:
    return 5


@pytest.fixture
def world(seed: int) -> Iterator[simulated.World]:
    with simulated.World(seed=seed) as world:
        yield world


@pytest.fixture
def lab(world: simulated.World) -> Lab:
    lab = Lab(world)
    world.run(lab.start())
    return lab


@pytest.fixture
def moved(lab: Lab, empty_url: str) -> Lab:
    """A cluster whose addresses are in the database."""
    lab.run(lab.switch("sql", empty_url))
    return lab


async def settled(lab: Lab, url: str) -> None:
    """Wait until state and database agree."""
    await lab.until(lambda: {*labs.owners(url)} == lab.allocated())
    assert all(owner.startswith("gantry/c/") for owner in labs.owners(url).values())


@pytest.mark.parametrize("seed", range(6))
def test_addresses_move_into_a_database_and_back_while_jobs_take_and_free_them(
    world: simulated.World, empty_url: str
) -> None:
    lab = Lab(world, *labs.first("192.0.2.10-192.0.2.69"))
    jobs_with: set[bool] = set()

    async def ports(worker: int) -> None:
        for turn in range(15):
            (ip,) = await lab.add_port()
            jobs_with.add(lab.addresses.on)
            await asyncio.sleep(lab.latency.uniform(0, 0.3))
            if (turn + worker) % 3:
                await lab.remove_port(ip)

    async def instances() -> None:
        for turn in range(8):
            await lab.add_instance(f"vm{turn}.example")
            if turn % 2:
                await lab.remove_instance(f"vm{turn}.example")

    async def there_and_back() -> None:
        for _ in range(3):
            await lab.switch("sql", empty_url)
            await asyncio.sleep(0.5)
            await lab.switch("embedded")
            assert labs.owners(empty_url) == {}
        await lab.switch("sql", empty_url)

    async def scenario() -> None:
        await lab.start()
        await asyncio.gather(ports(0), ports(1), ports(2), instances(), there_and_back())
        await settled(lab, empty_url)

    lab.run(scenario())
    assert len(lab.allocated()) == 3 * 5 + 4
    assert jobs_with == {False, True}
    assert lab.state.the_cluster.ipam_driver == "sql"


def test_addresses_of_other_owners_are_skipped(moved: Lab, empty_url: str) -> None:
    for ip in ("192.0.2.10", "192.0.2.11", "192.0.2.13"):
        labs.take(empty_url, ip)
    assert moved.run(moved.add_port(count=2)) == ["192.0.2.14", "192.0.2.15"]
    assert labs.owners(empty_url)["192.0.2.10"] == "somebody"
    with pytest.raises(
        errors.NotUniqueError, match=r"192\.0\.2\.11 of network lab is allocated to somebody in the database"
    ):
        moved.run(moved.add_port("192.0.2.11"))
    assert moved.allocated() == {"192.0.2.14", "192.0.2.15"}


def test_addresses_that_other_owners_release_are_allocated_again(moved: Lab, empty_url: str) -> None:
    server = labs.other(empty_url)
    taken = server.allocate_many(labs.SUBNET, 9, owner="server")
    with pytest.raises(errors.NoRoomError):
        moved.run(moved.add_port())
    server.deallocate(labs.SUBNET, taken[3])
    moved.run(asyncio.sleep(10))
    assert moved.run(moved.add_port()) == [taken[3]]
    server.deallocate(labs.SUBNET, taken[5])
    assert moved.run(moved.add_port(taken[5])) == [taken[5]]


@pytest.mark.parametrize("seed", range(6))
def test_two_clusters_and_a_server_on_one_database_never_have_one_address_twice(
    world: simulated.World, empty_url: str
) -> None:
    clusters = [Lab(world, *labs.first("192.0.2.10-192.0.2.69", uuid)) for uuid in ("c", "d")]
    server = labs.other(empty_url)

    async def use(lab: Lab) -> None:
        await lab.start()
        await lab.switch("sql", empty_url)
        for turn in range(20):
            (ip,) = await lab.add_port()
            if turn % 4 == 0:
                await lab.remove_port(ip)

    async def serve() -> list[str]:
        await clusters[0].until(lambda: clusters[0].state.the_cluster.ipam_driver == "sql")
        addresses = []
        for _ in range(15):
            addresses.append(server.allocate(labs.SUBNET, requests.AnyAddress()))
            await asyncio.sleep(clusters[0].latency.uniform(0, 0.3))
        return addresses

    async def scenario() -> list[str]:
        serving = asyncio.create_task(serve())
        await asyncio.gather(*map(use, clusters))
        addresses = await serving
        await clusters[0].until(lambda: len(labs.owners(empty_url)) == 45)
        return addresses

    served = world.run(scenario())
    first, second = (lab.allocated() for lab in clusters)
    assert len(first) == len(second) == len({*served}) == 15
    assert {*labs.owners(empty_url)} == first | second | {*served}
    for lab in clusters:
        with pytest.raises(
            errors.WrongStateError, match=r"addresses of this cluster's subnets are allocated to other owners"
        ):
            lab.run(lab.switch("embedded"))
        assert lab.state.the_cluster.ipam_driver == "sql"


def test_a_crash_between_securing_and_commit_leaves_no_address_behind(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        (kept,) = await moved.add_port()
        secured, reached = moved.addresses.secure, asyncio.Event()

        async def secure(*arguments: object, **more: object) -> bool:
            await secured(*arguments, **more)  # type: ignore[arg-type]
            reached.set()
            return bool(await asyncio.Event().wait())

        moved.addresses.secure = secure  # type: ignore[method-assign]
        await moved.queue.submit_many([[labs.port()]])
        await reached.wait()
        assert len(labs.owners(empty_url)) == 2
        # A restored database may lack an address of the state: the start adds that address again.
        labs.other(empty_url).deallocate(labs.SUBNET, kept)
        await moved.restart()
        await settled(moved, empty_url)
        assert moved.allocated() == {kept}

    moved.run(scenario())


def test_a_commit_that_fails_releases_the_addresses(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        secured = moved.addresses.secure

        async def secure(*arguments: object, **more: object) -> bool:
            secured_now = await secured(*arguments, **more)  # type: ignore[arg-type]
            assert len(labs.owners(empty_url)) == 1
            moved.kept.full = True
            return secured_now

        moved.addresses.secure = secure  # type: ignore[method-assign]
        numbers = await moved.queue.submit_many([[labs.port()]])
        await moved.until(lambda: moved.kept.full)
        await moved.until(lambda: labs.owners(empty_url) == {})
        moved.kept.full = False
        await moved.wait(*(number for number in numbers if isinstance(number, int)))
        assert moved.allocated() == set()

    moved.run(scenario())


def test_a_master_that_may_be_superseded_releases_nothing_until_a_majority_has_its_state(
    moved: Lab, empty_url: str
) -> None:
    async def scenario() -> None:
        (ip,) = await moved.add_port()
        moved.kept.may_be_superseded = True
        await moved.remove_port(ip)
        await asyncio.sleep(60)
        assert (moved.allocated(), set(labs.owners(empty_url))) == (set(), {ip})
        # The master itself can allocate the address again.
        assert await moved.add_port(ip) == [ip]
        await moved.remove_port(ip)
        moved.kept.may_be_superseded = False
        await settled(moved, empty_url)
        assert labs.owners(empty_url) == {}

    moved.run(scenario())


def test_a_comparison_by_a_master_that_may_be_superseded_only_adds_addresses(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        (kept,) = await moved.add_port()
        labs.other(empty_url).deallocate(labs.SUBNET, kept)
        labs.take(empty_url, "192.0.2.18", "gantry/c/another")
        moved.kept.may_be_superseded = True
        await moved.restart()
        (added,) = await moved.add_port()
        await asyncio.sleep(60)
        assert set(labs.owners(empty_url)) == {kept, added, "192.0.2.18"}
        moved.kept.may_be_superseded = False
        await settled(moved, empty_url)
        assert set(labs.owners(empty_url)) == {kept, added}

    moved.run(scenario())


@pytest.mark.real
@pytest.mark.skipif(postgres.NEEDS[1].args[0], reason="PostgreSQL is not installed: make system")
@pytest.mark.round
def test_a_killed_database_allocates_nothing_twice_and_loses_nothing(world: simulated.World) -> None:
    lab = Lab(world, *labs.first("192.0.2.10-192.0.2.99"))
    refused: list[errors.GantryError] = []

    async def use(worker: int) -> None:
        for turn in range(15):
            try:
                (ip,) = await lab.add_port()
                if (turn + worker) % 2:
                    await lab.remove_port(ip)
            except errors.GantryError as error:
                refused.append(error)
            await asyncio.sleep(lab.latency.uniform(0, 0.5))

    async def kill(server: postgres.Server) -> None:
        await asyncio.sleep(1)
        server.stop(signal.SIGQUIT)
        await asyncio.sleep(1.5)
        server.start()

    async def scenario(server: postgres.Server) -> None:
        url = server.create("addresses")
        await lab.start()
        await lab.switch("sql", url)
        await asyncio.gather(*map(use, range(4)), kill(server))
        await settled(lab, url)

    with postgres.running() as server:
        world.run(scenario(server))
    assert refused
    assert all("cannot be reached" in error.message for error in refused)
    assert len(lab.allocated()) > 10


def test_a_missing_database_stops_only_jobs_that_need_addresses(lab: Lab, tmp_path: Path) -> None:
    folder, hidden = tmp_path / "away", tmp_path / "hidden"
    url = f"sqlite://{folder}/ipam.db"
    folder.mkdir()

    async def scenario() -> None:
        await lab.switch("sql", url)
        (ip,) = await lab.add_port()
        folder.rename(hidden)
        await lab.restart()
        with pytest.raises(errors.EnvironmentFaultError, match=r"away/ipam\.db"):
            await lab.add_port()
        await lab.remove_port(ip)
        await lab.job({"OP_ID": "OP_TEST_DELAY", "duration": 0})
        hidden.rename(folder)
        await lab.until(lambda: labs.owners(url) == {})
        assert await lab.add_port() == ["192.0.2.10"]

    lab.run(scenario())


@pytest.mark.parametrize("where", ["import", "commit"])
def test_a_move_that_fails_leaves_the_state_in_charge_with_everything_in_place(
    lab: Lab, empty_url: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise errors.EnvironmentFaultError("the database is gone")

    async def scenario() -> None:
        addresses = await lab.add_port(count=3)
        if where == "import":
            monkeypatch.setattr(shared_work, "settle", fail)
        else:
            compare = lab.addresses._compare

            async def compared(
                database: engines.Database, master: fence.Master, *, force: bool
            ) -> list[records.Allocation]:
                conflicts = await compare(database, master, force=force)
                lab.kept.full = True
                return conflicts

            monkeypatch.setattr(lab.addresses, "_compare", compared)
        (number,) = await lab.queue.submit_many([[labs.move(empty_url)]])
        await lab.until(lambda: not lab.addresses.on and lab.addresses._task is not None)
        lab.kept.full = False
        waiting = asyncio.create_task(lab.add_port())
        assert isinstance(number, int)
        assert await lab.wait(number) == ["error"]
        monkeypatch.undo()
        assert lab.state.the_cluster.ipam_driver == "embedded"
        addresses += await waiting
        await lab.until(lambda: labs.owners(empty_url) == {})
        assert lab.allocated() == {*addresses}
        await lab.switch("sql", empty_url)
        await settled(lab, empty_url)

    lab.run(scenario())


def test_another_url_of_the_same_database_moves_nothing(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        addresses = await moved.add_port(count=3)
        again = empty_url + "?sslmode=disable" if "postgresql" in empty_url else empty_url.replace("://", ":///")
        await moved.switch("sql", again)
        assert moved.state.the_cluster.ipam_database == again
        assert {*labs.owners(empty_url)} == {*addresses}
        addresses += await moved.add_port()
        await settled(moved, empty_url)
        assert moved.allocated() == {*addresses}

    moved.run(scenario())


def test_a_lost_database_can_be_left_by_force(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "away"
    folder.mkdir()

    async def scenario() -> None:
        await lab.switch("sql", f"sqlite://{folder}/ipam.db")
        addresses = await lab.add_port()
        shutil.rmtree(folder)
        await lab.restart()
        with pytest.raises(errors.EnvironmentFaultError):
            await lab.switch("embedded")
        await lab.switch("embedded", force=True)
        assert await lab.add_port() == ["192.0.2.11"]
        assert addresses == ["192.0.2.10"]

    lab.run(scenario())


def test_a_database_that_lost_its_content_gets_it_again(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        addresses = await moved.add_port(count=3)
        server = labs.other(empty_url)
        for ip in addresses:
            server.deallocate(labs.SUBNET, ip)
        server.remove_subnet(labs.SUBNET)
        addresses += await moved.add_port()
        await settled(moved, empty_url)
        assert moved.allocated() == {*addresses}

    moved.run(scenario())


def test_an_unsuitable_database_is_refused_before_any_change(lab: Lab, empty_url: str) -> None:
    async def refused(kind: type[errors.GantryError], message: str, url: str = "", driver: str = "sql") -> None:
        with pytest.raises(kind, match=message):
            await lab.switch(driver, url)
        assert not lab.addresses.on
        assert lab.state.the_cluster.ipam_driver == "embedded"

    async def scenario() -> None:
        (ip,) = await lab.add_port()
        await refused(errors.InvalidError, "needs a database")
        await refused(errors.InvalidError, "is not the URL of a database", "mysql://here")
        await refused(errors.InvalidError, "IPAM driver embedded does not use a database", empty_url, "embedded")
        await refused(errors.EnvironmentFaultError, "nowhere", "sqlite:///nowhere/at/all.db")
        await lab.switch("sql", empty_url)
        await lab.switch("embedded")
        labs.other(empty_url).add_subnet(labs.SUBNET, cidr="192.0.2.0/24", pools=())
        labs.take(empty_url, ip)
        await refused(
            errors.WrongStateError,
            rf"addresses of this cluster are allocated to other owners .*: {ip} to somebody",
            empty_url,
        )
        assert labs.owners(empty_url) == {ip: "somebody"}

    lab.run(scenario())


def test_a_job_whose_addresses_other_owners_always_allocate_first_fails_and_keeps_none(
    world: simulated.World, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(world, *labs.first("192.0.2.10-192.0.2.250"))
    plans: list[str] = []

    async def scenario() -> None:
        await lab.start()
        await lab.switch("sql", empty_url)
        secure = lab.addresses.secure

        async def raced(job: int, before: states.Snapshot, changes: Sequence[states.Change], *, attempt: int) -> bool:
            for _, ip in subscription.additions(before, changes, mark="").addresses:
                plans.append(ip)
                labs.take(empty_url, ip)
            return await secure(job, before, changes, attempt=attempt)

        with monkeypatch.context() as patch:
            patch.setattr(lab.addresses, "secure", raced)
            with pytest.raises(errors.BusyError, match="other owners allocated the chosen addresses first, 8 times"):
                await lab.add_port()
        assert lab.allocated() == set()
        assert labs.owners(empty_url) == dict.fromkeys(plans, "somebody")
        assert len(set(plans)) == shared.ATTEMPTS
        (ip,) = await lab.add_port()
        assert ip not in plans

    lab.run(scenario())


def port(ip: str) -> states.Change:
    """Return the change that adds a port."""
    return states.Put(network.Port(uuid=f"port {ip}", name="", network=labs.NET, mac=f"mac of {ip}", ip=(ip,)))


def test_the_addresses_that_are_skipped_follow_the_one_that_another_owner_has(
    moved: Lab, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs.take(empty_url, "192.0.2.15")
    monkeypatch.setattr(moved.runtime.random, "below", lambda _: 3)

    async def scenario() -> None:
        assert not await moved.addresses.secure(99, moved.state, [port("192.0.2.15")], attempt=3)
        known = [ip for _, ip in moved.ledger.foreign.addresses()]
        assert sorted(known) == ["192.0.2.15", "192.0.2.16", "192.0.2.17", "192.0.2.18"]
        moved.addresses.done(99)
        assert [ip for _, ip in moved.ledger.foreign.addresses()] == ["192.0.2.15"]

    moved.run(scenario())


def test_while_the_state_alone_decides_every_plan_has_its_addresses(lab: Lab) -> None:
    assert lab.run(lab.addresses.secure(99, lab.state, [port("192.0.2.15")], attempt=0))
    assert not lab.addresses.on


def test_what_other_owners_had_in_a_database_is_free_when_the_cluster_leaves_it(moved: Lab, empty_url: str) -> None:
    labs.take(empty_url, "192.0.2.10")

    async def scenario() -> None:
        assert await moved.add_port("192.0.2.13") == ["192.0.2.13"]
        assert "192.0.2.10" not in await moved.add_port()
        assert (labs.NET, "192.0.2.10") in moved.ledger.foreign
        labs.other(empty_url).deallocate(labs.SUBNET, "192.0.2.10", owner="somebody")
        await moved.switch("embedded")
        assert moved.ledger.foreign.addresses() == []
        assert await moved.add_port() == ["192.0.2.10"]

    moved.run(scenario())


def test_a_job_that_finds_no_other_address_gets_those_that_it_has_skipped(
    moved: Lab, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs.take(empty_url, "192.0.2.15")
    monkeypatch.setattr(moved.runtime.random, "below", lambda _: 3)

    async def scenario() -> None:
        assert not await moved.addresses.secure(99, moved.state, [port("192.0.2.15")], attempt=3)
        assert await moved.addresses.forget_released(99)
        assert [ip for _, ip in moved.ledger.foreign.addresses()] == ["192.0.2.15"]
        assert not await moved.addresses.forget_released(99)

    moved.run(scenario())


def test_a_job_does_not_fail_for_lack_of_addresses_that_another_job_only_skips(
    moved: Lab, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (10, 11, 13, 14, 15):
        labs.take(empty_url, f"192.0.2.{number}")
    monkeypatch.setattr(moved.runtime.random, "below", lambda _: 4)

    async def scenario() -> None:
        assert not await moved.addresses.secure(98, moved.state, [port("192.0.2.15")], attempt=3)
        await moved.addresses.forget_released(97)
        labs.take(empty_url, "192.0.2.16")
        assert not await moved.addresses.secure(98, moved.state, [port("192.0.2.16")], attempt=3)
        # The database was read a moment ago, and is not read again for a while.
        assert await moved.add_port() == ["192.0.2.17"]

    moved.run(scenario())


def test_a_job_gets_the_addresses_that_another_job_skips_only_if_no_owner_has_released_any(
    moved: Lab, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs.take(empty_url, "192.0.2.15")
    monkeypatch.setattr(moved.runtime.random, "below", lambda _: 3)
    skipped = ["192.0.2.16", "192.0.2.17", "192.0.2.18"]

    def known() -> list[str]:
        return sorted(ip for _, ip in moved.ledger.foreign.addresses())

    async def scenario() -> None:
        assert not await moved.addresses.secure(98, moved.state, [port("192.0.2.15")], attempt=3)
        labs.other(empty_url).deallocate(labs.SUBNET, "192.0.2.15")
        assert known() == ["192.0.2.15", *skipped]
        assert await moved.addresses.forget_released(99)
        assert known() == skipped
        assert await moved.addresses.forget_released(99)
        assert known() == []
        assert not await moved.addresses.forget_released(99)

    moved.run(scenario())


def test_the_owner_of_a_skipped_address_stays_known_when_the_job_has_ended(
    moved: Lab, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs.take(empty_url, "192.0.2.14")
    labs.take(empty_url, "192.0.2.15")
    monkeypatch.setattr(moved.runtime.random, "below", lambda _: 1)

    async def scenario() -> None:
        assert not await moved.addresses.secure(98, moved.state, [port("192.0.2.15")], attempt=3)
        labs.take(empty_url, "192.0.2.16")
        assert not await moved.addresses.secure(99, moved.state, [port("192.0.2.14")], attempt=3)
        moved.addresses.done(98)
        moved.addresses.done(99)
        foreign = moved.ledger.foreign
        assert {ip: foreign.owner((net, ip)) for net, ip in foreign.addresses()} == {
            f"192.0.2.{number}": "somebody" for number in (14, 15, 16)
        }

    moved.run(scenario())


def test_an_address_is_not_secured_in_a_database_that_lost_its_subnet(moved: Lab, empty_url: str) -> None:
    labs.other(empty_url).remove_subnet(labs.SUBNET)

    async def scenario() -> None:
        assert not await moved.addresses.secure(99, moved.state, [port("192.0.2.15")], attempt=0)
        assert labs.owners(empty_url) == {}
        assert await moved.addresses.secure(99, moved.state, [port("192.0.2.15")], attempt=1)
        assert [*labs.owners(empty_url)] == ["192.0.2.15"]

    moved.run(scenario())


def test_the_database_follows_a_change_of_the_pools_and_the_removal_of_a_subnet(moved: Lab, empty_url: str) -> None:
    lab = labs.net("192.0.2.20-192.0.2.29")

    async def change(net: network.Network) -> None:
        await moved.kept.submit([states.Put(net)], build.CAUSE)
        moved.addresses.done(99)

    async def scenario() -> None:
        await change(lab)
        pools = ("192.0.2.20-192.0.2.29",)
        await moved.until(lambda: [each.pools for each in labs.other(empty_url).subnets()] == [pools])
        await change(structs.replace(lab, subnets=()))
        await moved.until(lambda: labs.other(empty_url).subnets() == [])

    moved.run(scenario())


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections to SQLite files that are opened."""
    opened: list[sqlite3.Connection] = []
    connect = engines.Sqlite.connect

    def noted(kind: engines.Sqlite) -> engines.Connection:
        connection = connect(kind)
        assert isinstance(connection, sqlite3.Connection)
        opened.append(connection)
        return connection

    monkeypatch.setattr(engines.Sqlite, "connect", noted)
    return opened


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.cursor()
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_database_that_is_checked_or_left_has_no_open_connections(
    lab: Lab, tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    async def scenario() -> None:
        await lab.addresses.check(f"sqlite://{tmp_path}/checked.db")
        assert [*map(is_open, connections)] == [False]
        await lab.switch("sql", f"sqlite://{tmp_path}/first.db")
        of_first = [*filter(is_open, connections)]
        assert of_first
        await lab.switch("sql", f"sqlite://{tmp_path}/second.db")
        assert not [*filter(is_open, of_first)]
        assert [*filter(is_open, connections)]
        await lab.switch("embedded")
        assert not [*filter(is_open, connections)]

    lab.run(scenario())
