"""The master's addresses in a database that others use too: the switch, what others hold, what crashes leave."""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres
from tests.ipam.sql import lab as labs
from tests.ipam.sql.lab import Lab

from gantry import errors
from gantry.ipam import shared
from gantry.ipam.sql import engines, records, requests
from gantry.runtime import simulated


@pytest.fixture
def seed() -> int:
    return 5


@pytest.fixture
def world(seed: int) -> Iterator[simulated.World]:
    with simulated.World(seed=seed) as world:
        yield world


@pytest.fixture
def lab(world: simulated.World) -> Lab:
    found = Lab(world)
    world.run(found.start())
    return found


@pytest.fixture
def moved(lab: Lab, empty_url: str) -> Lab:
    """A cluster whose addresses are in the database."""
    lab.run(lab.switch("sql", empty_url))
    return lab


async def settled(lab: Lab, url: str) -> None:
    """Wait until state and database say the same."""
    await lab.until(lambda: {*labs.owners(url)} == lab.held())
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
    assert len(lab.held()) == 3 * 5 + 4
    assert jobs_with == {False, True}
    assert lab.state.the_cluster.ipam_driver == "sql"


def test_what_others_hold_is_passed_over(moved: Lab, empty_url: str) -> None:
    for ip in ("192.0.2.10", "192.0.2.11", "192.0.2.13"):
        labs.take(empty_url, ip)
    assert moved.run(moved.add_port(count=2)) == ["192.0.2.14", "192.0.2.15"]
    assert labs.owners(empty_url)["192.0.2.10"] == "somebody"
    with pytest.raises(
        errors.NotUniqueError, match=r"192\.0\.2\.11 of network lab is held by somebody in the database"
    ):
        moved.run(moved.add_port("192.0.2.11"))
    assert moved.held() == {"192.0.2.14", "192.0.2.15"}


def test_what_others_have_given_back_is_handed_out_again(moved: Lab, empty_url: str) -> None:
    others = labs.other(empty_url)
    taken = others.allocate_many(labs.SUBNET, 9, owner="server")
    with pytest.raises(errors.NoRoomError):
        moved.run(moved.add_port())
    others.deallocate(labs.SUBNET, taken[3])
    moved.run(asyncio.sleep(10))
    assert moved.run(moved.add_port()) == [taken[3]]
    others.deallocate(labs.SUBNET, taken[5])
    assert moved.run(moved.add_port(taken[5])) == [taken[5]]


@pytest.mark.parametrize("seed", range(6))
def test_two_clusters_and_a_server_on_one_database_never_have_one_address_twice(
    world: simulated.World, empty_url: str
) -> None:
    clusters = [Lab(world, *labs.first("192.0.2.10-192.0.2.69", uuid)) for uuid in ("c", "d")]
    others = labs.other(empty_url)

    async def use(lab: Lab) -> None:
        await lab.start()
        await lab.switch("sql", empty_url)
        for turn in range(20):
            (ip,) = await lab.add_port()
            if turn % 4 == 0:
                await lab.remove_port(ip)

    async def serve() -> list[str]:
        await clusters[0].until(lambda: clusters[0].state.the_cluster.ipam_driver == "sql")
        found = []
        for _ in range(15):
            found.append(others.allocate(labs.SUBNET, requests.AnyAddress()))
            await asyncio.sleep(clusters[0].latency.uniform(0, 0.3))
        return found

    async def scenario() -> list[str]:
        serving = asyncio.create_task(serve())
        await asyncio.gather(*map(use, clusters))
        found = await serving
        await clusters[0].until(lambda: len(labs.owners(empty_url)) == 45)
        return found

    served = world.run(scenario())
    one, two = (lab.held() for lab in clusters)
    assert len(one) == len(two) == len({*served}) == 15
    assert {*labs.owners(empty_url)} == one | two | {*served}
    for lab in clusters:
        with pytest.raises(errors.WrongStateError, match=r"others hold addresses of this cluster's subnets"):
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
        # What a restored database may lack is there again too.
        labs.other(empty_url).deallocate(labs.SUBNET, kept)
        await moved.restart()
        await settled(moved, empty_url)
        assert moved.held() == {kept}

    moved.run(scenario())


def test_a_commit_that_fails_gives_back(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        numbers = await moved.queue.submit_many([[labs.port()]])
        secured = moved.addresses.secure

        async def secure(*arguments: object, **more: object) -> bool:
            found = await secured(*arguments, **more)  # type: ignore[arg-type]
            assert len(labs.owners(empty_url)) == 1
            moved.kept.full = True
            return found

        moved.addresses.secure = secure  # type: ignore[method-assign]
        await moved.until(lambda: moved.kept.full)
        await moved.until(lambda: labs.owners(empty_url) == {})
        moved.kept.full = False
        await moved.wait(*(one for one in numbers if isinstance(one, int)))
        assert moved.held() == set()

    moved.run(scenario())


@pytest.mark.real
@pytest.mark.skipif(postgres.NEEDS[1].args[0], reason="PostgreSQL is not installed: make system")
def test_a_database_that_is_killed_gives_nothing_twice_and_loses_nothing(world: simulated.World) -> None:
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
    assert len(lab.held()) > 10


def test_a_database_that_is_gone_stops_what_needs_addresses_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
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
        given = await lab.add_port(count=3)
        if where == "import":
            monkeypatch.setattr(shared, "_settle", fail)
        else:
            compare = lab.addresses._compare

            async def compared(database: engines.Database) -> list[records.Allocation]:
                found = await compare(database)
                lab.kept.full = True
                return found

            monkeypatch.setattr(lab.addresses, "_compare", compared)
        (number,) = await lab.queue.submit_many([[labs.move(empty_url)]])
        await lab.until(lambda: not lab.addresses.on and lab.addresses._task is not None)
        lab.kept.full = False
        waiting = asyncio.create_task(lab.add_port())
        assert isinstance(number, int)
        assert await lab.wait(number) == ["error"]
        monkeypatch.undo()
        assert lab.state.the_cluster.ipam_driver == "embedded"
        given += await waiting
        await lab.until(lambda: labs.owners(empty_url) == {})
        assert lab.held() == {*given}
        await lab.switch("sql", empty_url)
        await settled(lab, empty_url)

    lab.run(scenario())


def test_another_url_of_the_same_database_moves_nothing(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        given = await moved.add_port(count=3)
        again = empty_url + "?sslmode=disable" if "postgresql" in empty_url else empty_url.replace("://", ":///")
        await moved.switch("sql", again)
        assert moved.state.the_cluster.ipam_database == again
        assert {*labs.owners(empty_url)} == {*given}
        given += await moved.add_port()
        await settled(moved, empty_url)
        assert moved.held() == {*given}

    moved.run(scenario())


def test_a_database_that_is_gone_for_good_is_left_by_force(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "away"
    folder.mkdir()

    async def scenario() -> None:
        await lab.switch("sql", f"sqlite://{folder}/ipam.db")
        given = await lab.add_port()
        shutil.rmtree(folder)
        await lab.restart()
        with pytest.raises(errors.EnvironmentFaultError):
            await lab.switch("embedded")
        await lab.switch("embedded", force=True)
        assert await lab.add_port() == ["192.0.2.11"]
        assert given == ["192.0.2.10"]

    lab.run(scenario())


def test_a_database_that_lost_what_it_had_gets_it_again(moved: Lab, empty_url: str) -> None:
    async def scenario() -> None:
        given = await moved.add_port(count=3)
        others = labs.other(empty_url)
        for ip in given:
            others.deallocate(labs.SUBNET, ip)
        others.remove_subnet(labs.SUBNET)
        given += await moved.add_port()
        await settled(moved, empty_url)
        assert moved.held() == {*given}

    moved.run(scenario())


def test_what_stands_against_a_database_is_told_before_anything_is_changed(lab: Lab, empty_url: str) -> None:
    async def refused(kind: type[errors.GantryError], message: str, url: str = "", driver: str = "sql") -> None:
        with pytest.raises(kind, match=message):
            await lab.switch(driver, url)
        assert not lab.addresses.on
        assert lab.state.the_cluster.ipam_driver == "embedded"

    async def scenario() -> None:
        (ip,) = await lab.add_port()
        await refused(errors.InvalidError, "needs a database")
        await refused(errors.InvalidError, "names no database", "mysql://here")
        await refused(errors.InvalidError, "has no database", empty_url, "embedded")
        await refused(errors.EnvironmentFaultError, "nowhere", "sqlite:///nowhere/at/all.db")
        await lab.switch("sql", empty_url)
        await lab.switch("embedded")
        labs.other(empty_url).add_subnet(labs.SUBNET, cidr="192.0.2.0/24", pools=())
        labs.take(empty_url, ip)
        await refused(errors.WrongStateError, rf"others hold addresses of this cluster .*: {ip} by somebody", empty_url)
        assert labs.owners(empty_url) == {ip: "somebody"}

    lab.run(scenario())
