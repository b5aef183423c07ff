import asyncio

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_end
from gantry.model import instance, network
from gantry.runtime import simulated
from gantry.state.files import checkpoint
from gantry.state.journal import end_mark, history, journal
from gantry.state.objects import snapshot
from gantry.state.start import recovery
from gantry.state.store import transaction


class File(msgspec.Struct):
    version: int
    serial_no: int
    ctime: float
    mtime: float
    cluster: dict[str, object]
    nodes: dict[str, dict[str, object]]
    nodegroups: dict[str, dict[str, object]]
    networks: dict[str, dict[str, object]]
    instances: dict[str, dict[str, object]]


def config(machine: simulated.SimulatedRuntime) -> File:
    return msgspec.json.decode(machine.disk.read(build.WHERE.config), type=File)


def test_config_data_is_one_readable_json_object_with_the_contracts_keys() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1, ip="10.0.0.1")), build.CAUSE))
        build.on(world, machine, store.close())
        file = config(machine)
        assert file.version == checkpoint.VERSION
        assert file.serial_no == 2
        assert file.ctime == 5.0
        assert file.cluster["name"] == "cl.example.com"
        assert set(file.nodes) == {"n0", "n1", "n2"}
        assert set(file.nodegroups) == {"g"}
        assert set(file.networks) == {"net"}
        assert set(file.instances) == {"i1"}
        assert len(machine.disk.read(build.WHERE.config).splitlines()) > 10
        assert machine.disk.status(build.WHERE.config).mode == 0o640


def test_ports_segment_ranges_and_subnet_pools_come_back_from_config_data() -> None:
    port = network.Port(
        uuid="p", name="vip", network="tagged", mac="aa:00:00:00:00:aa", ip=("10.0.0.2",), tags=("a=b",)
    )
    pool = network.SubnetPool(
        uuid="sp", name="", prefixes=("10.0.0.0/8",), default_prefixlen=24, min_prefixlen=8, max_prefixlen=32
    )
    ids = network.SegmentRange(uuid="r", name="", network_type="vxlan", minimum=1, maximum=(1 << 24) - 1)
    tagged = network.Network(
        uuid="tagged",
        name="net-2",
        label="net 2",
        segment=network.Segment(network_type="vxlan", segmentation_id=7),
        subnets=(
            network.Subnet(
                uuid="t",
                cidr="10.0.0.0/24",
                subnetpool="sp",
                pools=(network.Pool(range="10.0.0.2"),),
                host_routes=(network.HostRoute(destination="10.1.0.0/16", nexthop="10.0.0.1"),),
            ),
        ),
    )
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(pool, tagged, port, ids), build.CAUSE))
        before = build.content(store.durable)
        build.on(world, machine, store.close())
        again = build.opened(world, machine)
        assert build.content(again.durable) == before
        assert again.durable.networks["tagged"] == tagged


@pytest.mark.promise("cluster-70")
def test_only_values_that_differ_from_the_default_are_stored() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        vm = msgspec.structs.replace(build.vm(1), beparams={"maxmem": 256})
        build.on(world, machine, store.commit(build.put(vm), build.CAUSE))
        build.on(world, machine, store.close())
        stored = config(machine).instances["i1"]
        assert stored["beparams"] == {"maxmem": 256}
        assert "hvparams" not in stored
        none = machine.disk.read(build.WHERE.config).replace(b'"maxmem":256', b'"maxmem":null')
        with_line = none
        build.on(world, machine, machine.disk.write(build.WHERE.config, with_line))
        with pytest.raises(errors.ConfigurationError, match="the checksum does not fit"):
            build.opened(world, machine)
        build.on(world, machine, machine.disk.write(build.WHERE.config, build.marked(with_line)))
        with pytest.raises(errors.ConfigurationError, match="beparams"):
            build.opened(world, machine)


@pytest.mark.parametrize("version", [4_000_000, 10_010_000, 99_000_000])
def test_a_configuration_of_another_version_is_refused(version: int) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.new_store(world, machine)
        world.kill("one")
        data = b'{"version": %d}' % version
        build.on(world, machine, machine.disk.write(build.WHERE.config, data))
        with pytest.raises(errors.ConfigurationError, match=f"/g/lib/config.data has the format version {version}"):
            build.opened(world, machine)
        assert machine.disk.read(build.WHERE.config) == data


def test_a_configuration_that_is_no_json_or_does_not_fit_together_is_refused() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.new_store(world, machine)
        world.kill("one")
        whole = machine.disk.read(build.WHERE.config)
        for damaged in (whole[:-30], whole.replace(b'"group":"g"', b'"group":"x"')):
            build.on(world, machine, machine.disk.write(build.WHERE.config, damaged))
            with pytest.raises(errors.ConfigurationError, match=r"damaged: /g/lib/config\.data"):
                build.opened(world, machine)


def stopped(world: simulated.World, *values: snapshot.Stored) -> simulated.SimulatedRuntime:
    """Return a machine with the files of a daemon that stored some objects and ended."""
    machine = world.machine("one")
    store = build.new_store(world, machine)
    build.on(world, machine, store.commit(build.put(*values), build.CAUSE))
    build.on(world, machine, store.close())
    return machine


def test_what_is_edited_by_hand_and_said_to_be_counts_and_is_recorded() -> None:
    with simulated.World(seed=1) as world:
        machine = stopped(world, build.vm(1), build.queued(1))
        written = machine.disk.read(build.WHERE.config)
        edited = build.marked(written.replace(b'"name":"inst1"', b'"name":"renamed"'))
        build.on(world, machine, machine.disk.write(build.WHERE.config, edited))
        store = build.opened(world, machine)
        assert store.snapshot.instances["i1"].name == "renamed"
        assert store.durable_serial == 3
        build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
        world.run(asyncio.sleep(1))
        world.crash("one")
        assert b'"checksum": "edited"' not in machine.disk.read(build.WHERE.config)
        again = build.opened(world, machine)
        assert set(again.snapshot.names.values()) >= {"i1", "i2"}
        assert again.durable_serial == 4
        noted = [record for record in history.records(machine.disk, build.WHERE.journal) if record.serial == 3]
        assert [record.cause.reason for record in noted] == ["config.data was edited by hand"]
        assert history.check(machine.disk, build.WHERE.journal, most=1 << 30).problem == ""


@pytest.mark.parametrize(
    ("edit", "external"),
    [
        (b"10.0.0.100-10.0.0.109", ("10.0.0.21", "10.0.0.100-10.0.0.109")),
        (b"10.0.0.15-10.0.0.30", ("10.0.0.15-10.0.0.30",)),
        (b'10.0.0.9", "10.0.0.21', ("10.0.0.9", "10.0.0.21")),
    ],
)
def test_external_reservations_that_are_edited_by_hand_are_put_in_order_and_apart(
    edit: bytes, external: tuple[str, ...]
) -> None:
    with simulated.World(seed=1) as world:
        subnet = msgspec.structs.replace(build.NET.subnets[0], external=("10.0.0.20", "10.0.0.21"))
        machine = stopped(world, msgspec.structs.replace(build.NET, subnets=(subnet,)))
        written = machine.disk.read(build.WHERE.config)
        edited = build.marked(written.replace(b'"10.0.0.20"', b'"%s"' % edit))
        build.on(world, machine, machine.disk.write(build.WHERE.config, edited))
        net = build.opened(world, machine).durable.networks["net"]
        assert net.subnets[0].external == external
        (noted,) = history.records(machine.disk, build.WHERE.journal, after=2)
        assert snapshot.Put(net) in noted.changes


@pytest.mark.parametrize("without", ["checksum", "end", "middle", "beginning"])
def test_a_file_of_which_a_part_is_missing_never_passes_for_an_edit(without: str) -> None:
    with simulated.World(seed=1) as world:
        machine = stopped(world, *map(build.vm, range(20)))
        written = machine.disk.read(build.WHERE.config)
        lines = written.splitlines(keepends=True)
        damaged = {
            "checksum": b"".join([lines[0], *lines[2:]]),
            "end": build.marked(written)[:-200],
            "middle": b"".join(lines[:12] + lines[15:]),
            "beginning": b"{\n" + b"".join(lines[3:]),
        }
        build.on(world, machine, machine.disk.write(build.WHERE.config, damaged[without]))
        with pytest.raises(errors.ConfigurationError, match=r"damaged: /g/lib/config\.data"):
            build.opened(world, machine)


def test_an_edit_that_breaks_a_rule_of_the_state_is_refused() -> None:
    with simulated.World(seed=1) as world:
        machine = stopped(world, build.vm(1), build.vm(2))
        written = machine.disk.read(build.WHERE.config)
        edited = build.marked(written.replace(b'"name":"inst1"', b'"name":"inst2"'))
        build.on(world, machine, machine.disk.write(build.WHERE.config, edited))
        with pytest.raises(errors.ConfigurationError, match="instance inst2 exists already"):
            build.opened(world, machine)


def test_an_edit_of_a_state_that_lost_the_end_of_its_journal_is_refused_before_it_is_recorded() -> None:
    with simulated.World(seed=1) as world:
        machine = stopped(world, build.vm(1))
        older = machine.disk.read(build.WHERE.config)
        for segment in machine.disk.names(build.WHERE.journal):
            build.on(world, machine, machine.disk.remove(f"{build.WHERE.journal}/{segment}"))
        later = journal_end.encode(end_mark.at(journal.Position(serial=9, digest="a" * 64, epoch=1)))
        build.on(world, machine, machine.disk.write(build.WHERE.journal_end, later))
        build.on(world, machine, machine.disk.write(build.WHERE.config, build.marked(older)))
        with pytest.raises(errors.ConfigurationError, match="the end of the journal is missing"):
            build.on(world, machine, transaction.Store.open(machine, build.WHERE, behind=recovery.Behind.COMPLETED))
        assert machine.disk.read(build.WHERE.config) == build.marked(older)
        assert machine.disk.names(build.WHERE.journal) == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_disk_without_an_instance_survives_a_restart_and_keeps_its_numbers(clean: bool) -> None:
    mirror = instance.Mirror(minors={"n1": 3, "n2": 4}, port=11007, secret="s")
    disk = instance.Disk(uuid="d", dev_type="drbd", size=8, name="data", mirror=mirror)
    loose = instance.DetachedDisk(disk=disk, nodes=("n1", "n2"), instance="inst1")
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(loose), build.CAUSE))
        if clean:
            build.on(world, machine, store.close())
            assert b'"disks": {' in machine.disk.read(build.WHERE.config)
        else:
            world.kill("one")
            machine = world.machine("one")
        state = build.opened(world, machine).snapshot
        assert dict(state.disks.items()) == {"d": loose}
        assert {*state.disks_on["n1"]} == {*state.disks_on["n2"]} == {"d"}
        taken = msgspec.structs.replace(build.vm(1), primary_node="n1", disks=(disk,))
        with pytest.raises(errors.NotUniqueError, match="in use by disk d, which has no instance"):
            state.apply(build.put(taken), serial=state.serial + 1)
        back = state.apply([*build.put(taken), snapshot.Delete("disks", "d")], serial=state.serial + 1)
        assert (dict(back.disks.items()), dict(back.disks_on.items())) == ({}, {})
        assert back.numbers[instance.Number("n1", 3)] == "i1"


@pytest.mark.parametrize("collection", ["nodegroups", "nodes", "networks", "instances"])
def test_a_file_without_a_collection_that_every_version_has_is_damaged(collection: str) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, build.new_store(world, machine).close())
        content = msgspec.json.decode(machine.disk.read(build.WHERE.config), type=dict[str, msgspec.Raw])
    content = {"checksum": msgspec.Raw(b'"edited"')} | {k: v for k, v in content.items() if k != "checksum"}
    assert checkpoint.decode(msgspec.json.encode(content), path="config.data").edited
    del content[collection]
    with pytest.raises(errors.ConfigurationError, match=f"missing required field `{collection}`"):
        checkpoint.decode(msgspec.json.encode(content), path="config.data")
