"""A master that opens an old cluster's files: what it writes, and what it leaves alone."""

import asyncio

import msgspec
import pytest
from tests.state import build
from tests.state.upgrade import samples

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver, embedded
from gantry.model import network
from gantry.runtime import simulated
from gantry.state import checkpoint, history, transaction

BACKUP = f"{build.WHERE.config}.3000000.bak"
QUEUE = {
    "serial": b"12345\n",
    "version": b"1\n",
    "job-9999": b'{"id":9999,"ops":[{"input":{"OP_ID":"OP_INSTANCE_MIGRATE"},"status":"success"}]}',
    "job-12345": b'{"id":12345,"ops":[{"input":{"OP_ID":"OP_TEST_DELAY","duration":1},"status":"queued"}]}',
}


def old_cluster(
    world: simulated.World, *, data: bytes = samples.V3, queue: dict[str, bytes] | None = None
) -> simulated.SimulatedRuntime:
    machine = world.machine("one")

    async def write() -> None:
        for folder in (build.WHERE.lib, build.WHERE.queue):
            await machine.disk.make_directory(folder)
        await machine.disk.write(build.WHERE.config, data)
        for name, content in (QUEUE if queue is None else queue).items():
            await machine.disk.write(f"{build.WHERE.queue}/{name}", content)

    build.on(world, machine, write())
    return machine


def test_an_old_configuration_is_upgraded_when_it_is_opened_and_kept_beside(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world)
        store = build.opened(world, machine)
        names = {vm.name for vm in store.snapshot.instances.values()}
        assert names == {"web.example.com", "db.example.com", "probe.example.com"}
        assert store.snapshot.serial == 7625
        assert machine.disk.read(BACKUP) == samples.V3
        assert checkpoint.decode(machine.disk.read(build.WHERE.config), path="").position.serial == 7625
        assert "upgraded from version 3000000" in caplog.text
        assert "reserved, but no NIC has it" in caplog.text
        before = build.content(store.snapshot)
        build.on(world, machine, store.close())
        caplog.clear()
        again = build.opened(world, machine)
        assert build.content(again.snapshot) == before
        assert "upgrade" not in caplog.text


def test_what_is_changed_after_an_upgrade_survives_a_crash() -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world)
        store = build.opened(world, machine)
        vm = msgspec.structs.replace(store.snapshot.instance("web.example.com"), tags=("new",))
        build.on(world, machine, store.commit(build.put(vm), build.CAUSE))
        world.crash("one")
        assert build.opened(world, machine).snapshot.instance("web.example.com").tags == ("new",)


@pytest.mark.promise("networks-77")
def test_the_pool_of_an_upgraded_network_hands_out_nothing_that_was_taken() -> None:
    with simulated.World(seed=1) as world:
        store = build.opened(world, old_cluster(world))
        ledger = embedded.Ledger()
        ledger.follow(store.snapshot, store.snapshot, ())
        public = store.snapshot.network("public")
        assert public.subnets[0].pools == (network.Pool(range="192.0.2.0-192.0.2.15"),)
        picks = ledger.allocations(store.snapshot)
        addresses = [picks.allocate(public, driver.AnyAddress(ranges.Family.IPV4)) for _ in range(4)]
        assert addresses == ["192.0.2.8", "192.0.2.12", "192.0.2.13", "192.0.2.14"]
        with pytest.raises(errors.NoRoomError):
            picks.allocate(public, driver.AnyAddress())


def test_history_begins_with_the_upgrade() -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world)
        build.opened(world, machine)
        first, *more = history.records(machine.disk, build.WHERE.journal)
        assert (first.serial, first.cause.reason, more) == (7625, "upgraded from version 3000000", [])
        assert len(first.changes) == 11


def test_jobs_of_the_old_queue_go_to_the_archive_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world)
        store = build.opened(world, machine)
        assert len(store.snapshot.jobs) == 0
        assert machine.disk.read(f"{build.WHERE.queue}/archive/0/job-9999") == QUEUE["job-9999"]
        assert machine.disk.read(f"{build.WHERE.queue}/archive/1/job-12345") == QUEUE["job-12345"]
        assert "jobs that had not ended, and do not run here: 12345" in caplog.text
        assert store.snapshot.last_job == 12345


@pytest.mark.parametrize("name", ["job-500", "archive/0/job-500"])
def test_no_job_number_is_given_out_again_though_the_file_with_the_last_is_lost(name: str) -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world, queue={})
        build.on(world, machine, machine.disk.make_directory(f"{build.WHERE.queue}/archive/0"))
        build.on(world, machine, machine.disk.write(f"{build.WHERE.queue}/{name}", b"no JSON"))
        assert build.opened(world, machine).snapshot.last_job == 500
        assert machine.disk.read(f"{build.WHERE.queue}/archive/0/job-500") == b"no JSON"


def test_a_refused_configuration_leaves_every_file_as_it_is() -> None:
    with simulated.World(seed=1) as world:
        data = samples.V3.replace(b'"hypervisor": "fake"', b'"hypervisor": "lxc"')
        machine = old_cluster(world, data=data)
        with pytest.raises(errors.ConfigurationError, match="hypervisor lxc does not exist here: instance probe"):
            build.opened(world, machine)
        assert machine.disk.read(build.WHERE.config) == data
        assert not machine.disk.exists(BACKUP)
        assert not machine.disk.exists(build.WHERE.journal)
        assert machine.disk.read(f"{build.WHERE.queue}/job-9999") == QUEUE["job-9999"]


def test_addresses_that_two_instances_have_are_refused() -> None:
    with simulated.World(seed=1) as world:
        machine = old_cluster(world, data=samples.V3.replace(b'"ip": "192.0.2.7"', b'"ip": "192.0.2.4"'))
        with pytest.raises(errors.ConfigurationError, match=r"cannot be upgraded: address 192\.0\.2\.4.* in use"):
            build.opened(world, machine)
        assert not machine.disk.exists(BACKUP)


def test_an_old_configuration_over_the_journal_of_another_cluster_is_refused() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.new_store(world, machine)
        world.kill("one")
        build.on(world, machine, machine.disk.write(build.WHERE.config, samples.V3))
        with pytest.raises(errors.ConfigurationError, match="journal has a journal, which belongs to another"):
            build.opened(world, machine)
        assert machine.disk.read(build.WHERE.config) == samples.V3


def test_the_machine_may_die_at_any_point_of_an_upgrade() -> None:
    with simulated.World(seed=0) as world:
        whole = build.content(build.opened(world, old_cluster(world)).snapshot)
    for step in range(30):
        with simulated.World(seed=step) as world:
            machine = old_cluster(world)
            machine.disk.delay = (0.001, 0.001)
            machine.spawn(transaction.Store.open(machine, build.WHERE))
            world.run(asyncio.sleep(0.0005 + step * 0.001))
            world.crash("one")
            store = build.opened(world, machine)
            assert build.content(store.snapshot) == whole
            assert machine.disk.read(BACKUP) == samples.V3
            build.on(world, machine, store.close())
            names = [name for name in machine.disk.names(build.WHERE.queue) if name.startswith("job-")]
            assert names == []
            assert machine.disk.names(f"{build.WHERE.queue}/archive") == ["0", "1"]
