"""The files of a cluster of Ganeti: what is read of them, and what is refused."""

import pytest
from tests.state import build
from tests.state.upgrade import samples

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver, embedded
from gantry.model import instance, network
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.upgrade import files

FOLDER = "/old"
CONFIG = f"{FOLDER}/config.data"
QUEUE = {
    "serial": b"12345\n",
    "version": b"1\n",
    "job-9999": b'{"id":9999,"ops":[{"input":{"OP_ID":"OP_INSTANCE_MIGRATE"},"status":"success"}]}',
    "job-12345": b'{"id":12345,"ops":[{"input":{"OP_ID":"OP_TEST_DELAY","duration":1},"status":"queued"}]}',
}


def machine_with(world: simulated.World, content: dict[str, bytes]) -> simulated.SimulatedRuntime:
    machine = world.machine("one")

    async def write() -> None:
        for name, data in content.items():
            await machine.disk.make_directory(f"{FOLDER}/{name}".rpartition("/")[0])
            await machine.disk.write(f"{FOLDER}/{name}", data)

    build.on(world, machine, write())
    return machine


def read(data: bytes = samples.V3, queue: dict[str, bytes] | None = None) -> files.Old:
    with simulated.World(seed=1) as world:
        queued = {f"queue/{name}": content for name, content in (QUEUE if queue is None else queue).items()}
        machine = machine_with(world, {"config.data": data, **queued})
        return files.read(machine.disk, CONFIG, storage=build.WHERE.file_storage)


def test_the_configuration_is_converted_with_remarks() -> None:
    old = read()
    names = {value.name for value in old.objects if isinstance(value, instance.Instance)}
    assert names == {"web.example.com", "db.example.com", "probe.example.com"}
    assert old.version == 3000000
    assert "reserved, but no NIC has it" in "\n".join(old.notes)


@pytest.mark.promise("networks-77")
def test_the_pool_of_a_converted_network_hands_out_nothing_that_was_taken() -> None:
    state = states.Snapshot().apply([states.Put(value) for value in read().objects], serial=1)
    ledger = embedded.Ledger()
    ledger.follow(state, state, ())
    public = state.network("public")
    assert public.subnets[0].pools == (network.Pool(range="192.0.2.0-192.0.2.15"),)
    picks = ledger.allocations(state)
    addresses = [picks.allocate(public, driver.AnyAddress(ranges.Family.IPV4)) for _ in range(4)]
    assert addresses == ["192.0.2.8", "192.0.2.12", "192.0.2.13", "192.0.2.14"]
    with pytest.raises(errors.NoRoomError):
        picks.allocate(public, driver.AnyAddress())


def test_jobs_that_had_not_ended_are_named_and_the_last_number_counts() -> None:
    old = read()
    assert old.last_job == 12345
    assert "jobs that had not ended, and do not run here: 12345" in old.notes
    assert read(queue={}).last_job == 0


@pytest.mark.parametrize("name", ["job-500", "archive/0/job-500"])
def test_the_last_number_is_known_though_the_file_with_it_is_lost(name: str) -> None:
    assert read(queue={name: b"no JSON"}).last_job == 500


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            samples.V3.replace(b'"hypervisor": "fake"', b'"hypervisor": "lxc"'),
            "lxc does not exist here: instance probe",
        ),
        (samples.V3.replace(b'"ip": "192.0.2.7"', b'"ip": "192.0.2.4"'), "cannot be upgraded: address 192.0.2.4"),
        (b"{}", "/old/config.data is not a configuration of Ganeti 2.0 to 3.1"),
        (b"\0", "/old/config.data is not a configuration of Ganeti 2.0 to 3.1"),
    ],
)
def test_what_cannot_be_converted_is_refused(data: bytes, message: str) -> None:
    with pytest.raises((errors.ConfigurationError, errors.InvalidError)) as refused:
        read(data)
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with simulated.World(seed=1) as world, pytest.raises(errors.InvalidError, match=r"cannot read /old/config\.data"):
        files.read(world.machine("one").disk, CONFIG, storage="/storage")


def test_a_master_does_not_open_a_configuration_of_ganeti() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, machine.disk.make_directory(build.WHERE.lib))
        build.on(world, machine, machine.disk.write(build.WHERE.config, samples.V3))
        with pytest.raises(errors.ConfigurationError, match="gnt-cluster import FILE makes a cluster from it"):
            build.opened(world, machine)
        assert machine.disk.read(build.WHERE.config) == samples.V3
