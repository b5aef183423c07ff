"""Networks, pools and NICs in config.data; values that are stored twice there are compared."""

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver, embedded
from gantry.model import network
from gantry.runtime import simulated
from gantry.state.files import checkpoint
from gantry.state.objects import snapshot
from gantry.state.store import transaction

SUBNET = network.Subnet(
    uuid="s4",
    cidr="10.0.0.0/24",
    name="front",
    gateway="10.0.0.1",
    dhcp=True,
    pools=(network.Pool(range="10.0.0.10-10.0.0.15", name="pool1"), network.Pool(range="10.0.0.100")),
    external=("10.0.0.14-10.0.0.20", "10.0.0.50"),
)
BARE = network.Subnet(uuid="s6", cidr="2001:db8::/64")
WIDE = network.Subnet(
    uuid="s7", cidr="2001:db8:1::/64", pools=(network.Pool(range="2001:db8:1::-2001:db8:1:0:ffff:ffff:ffff:ffff"),)
)
NET = network.Network(uuid="net", name="net1", mac_prefix="aa:00:01", tags=("a",), subnets=(SUBNET, BARE, WIDE))
USED = ("10.0.0.10", "10.0.0.11", "10.0.0.13", "10.0.0.200", "2001:db8::5")


class Pool(msgspec.Struct, forbid_unknown_fields=True):
    range: str
    reservations: list[str]
    name: str = ""


class Subnet(msgspec.Struct, forbid_unknown_fields=True):
    uuid: str
    cidr: str
    name: str = ""
    gateway: str = ""
    dhcp: bool = False
    pools: list[Pool] = []
    external: list[str] = []


class Network(msgspec.Struct, forbid_unknown_fields=True):
    uuid: str
    name: str
    serial_no: int
    mac_prefix: str
    tags: list[str]
    subnets: list[Subnet]


class Nic(msgspec.Struct):
    uuid: str
    ip: list[str]
    network: str


class Instance(msgspec.Struct):
    serial_no: int
    nics: list[Nic]


class File(msgspec.Struct):
    networks: dict[str, Network]
    instances: dict[str, Instance]


def filled(world: simulated.World) -> tuple[simulated.SimulatedRuntime, transaction.Store]:
    machine = world.machine("one")
    store = build.new_store(world, machine)
    vms = [build.vm(number, ip=ip) for number, ip in enumerate(USED)]
    build.on(world, machine, store.commit(build.put(NET, *vms), build.CAUSE))
    return machine, store


@pytest.fixture(scope="module")
def written() -> bytes:
    with simulated.World(seed=1) as world:
        machine, store = filled(world)
        build.on(world, machine, store.close())
        return machine.disk.read(build.WHERE.config)


@pytest.fixture(scope="module")
def net(written: bytes) -> Network:
    return msgspec.json.decode(written, type=File).networks["net"]


@pytest.mark.promise("networks-50")
@pytest.mark.parametrize("gone", ["reservations", "ext_reservations"])
def test_a_stored_subnet_has_no_bit_strings_beside_its_pools(written: bytes, gone: str) -> None:
    own = b'"cidr":"10.0.0.0/24"'
    assert own in written
    older = written.replace(own, own + f',"{gone}":"0"'.encode(), 1)
    with pytest.raises(errors.ConfigurationError, match=f"unknown field `{gone}`"):
        checkpoint.decode(build.marked(older), path="")


@pytest.mark.promise("networks-50")
def test_a_stored_subnet_has_pools_with_their_reservations_and_external_ranges(net: Network) -> None:
    first = net.subnets[0]
    assert first.pools[0] == Pool("10.0.0.10-10.0.0.15", ["10.0.0.10-10.0.0.11", "10.0.0.13"], "pool1")
    assert first.external == ["10.0.0.14-10.0.0.20", "10.0.0.50"]


@pytest.mark.promise("networks-71")
def test_a_stored_network_has_no_layer_3_of_its_own(written: bytes, net: Network) -> None:
    assert (net.name, net.mac_prefix, net.tags) == ("net1", "aa:00:01", ["a"])
    assert len(net.subnets) == 3
    bare = written.replace(b'"mac_prefix":"aa:00:01"', b'"mac_prefix":"aa:00:01","gateway":"10.0.0.1"')
    with pytest.raises(errors.ConfigurationError, match="unknown field `gateway`"):
        checkpoint.decode(build.marked(bare), path="")


@pytest.mark.promise("networks-70")
def test_a_stored_subnet_needs_only_its_cidr(net: Network) -> None:
    first, bare, _ = net.subnets
    assert (first.uuid, first.name, first.cidr, first.gateway) == ("s4", "front", "10.0.0.0/24", "10.0.0.1")
    assert (first.dhcp, len(first.pools), len(first.external)) == (True, 2, 2)
    assert bare == Subnet("s6", "2001:db8::/64", dhcp=False)


@pytest.mark.promise("networks-68")
def test_a_stored_range_is_a_string_that_reads_as_one(net: Network) -> None:
    texts = [pool.range for subnet in net.subnets for pool in subnet.pools]
    texts += [text for subnet in net.subnets for text in subnet.external]
    texts += [text for subnet in net.subnets for pool in subnet.pools for text in pool.reservations]
    runs = [ranges.parse_range(text) for text in texts]
    assert [ranges.format_range(*run) for run in runs] == texts
    assert [run.size for _, run in runs] == [6, 1, 1 << 64, 7, 1, 2, 1]


@pytest.mark.promise("networks-69")
def test_a_stored_pool_has_range_reservations_and_name(written: bytes, net: Network) -> None:
    named, single = net.subnets[0].pools
    assert (named.name, named.reservations) == ("pool1", ["10.0.0.10-10.0.0.11", "10.0.0.13"])
    assert (single.range, single.name, single.reservations) == ("10.0.0.100", "", [])
    (wide,) = net.subnets[2].pools
    assert wide.reservations == []
    # Runs, not a character per address.
    assert len(written) < 6000


@pytest.mark.promise("networks-72")
def test_a_stored_nic_has_its_addresses_in_a_list_and_its_network() -> None:
    with simulated.World(seed=1) as world:
        machine, store = filled(world)
        vm = build.vm(9, ip="10.0.0.15")
        nic = msgspec.structs.replace(vm.nics[0], ip=("10.0.0.15", "2001:db8::15"))
        build.on(world, machine, store.commit(build.put(msgspec.structs.replace(vm, nics=(nic,))), build.CAUSE))
        build.on(world, machine, store.close())
        stored = msgspec.json.decode(machine.disk.read(build.WHERE.config), type=File).instances["i9"]
        assert stored.nics == [Nic("x9", ["10.0.0.15", "2001:db8::15"], "net")]
        assert build.opened(world, machine).snapshot.instances["i9"].nics == (nic,)


def test_the_serial_number_of_an_object_is_written_from_the_first(net: Network, written: bytes) -> None:
    assert net.serial_no == 1
    assert {instance.serial_no for instance in msgspec.json.decode(written, type=File).instances.values()} == {1}


@pytest.mark.promise("networks-57")
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'["10.0.0.10-10.0.0.11","10.0.0.13"]', b'["10.0.0.10-10.0.0.11"]', "use 10.0.0.10-10.0.0.11, 10.0.0.13"),
        (b'"ip":["10.0.0.13"]', b'"ip":["10.0.0.12"]', "has the reservations 10.0.0.10-10.0.0.11, 10.0.0.13, but"),
        (b'"ip":["10.0.0.13"]', b'"ip":[]', "but NICs and ports use 10.0.0.10-10.0.0.11;"),
        (b'"reservations":[]', b'"reservations":["10.0.0.100"]', "10.0.0.100 of network .* and ports use none"),
        (b'"ip":["10.0.0.13"]', b'"ip":["10.0.0.x"]', "is not an IP address"),
        (b'"range":"10.0.0.100"', b'"range":"10.0.0.100-"', "is not an address range"),
    ],
)
def test_reservations_that_are_not_what_the_nics_use_are_refused(
    written: bytes, old: bytes, new: bytes, why: str
) -> None:
    assert old in written
    with pytest.raises(errors.ConfigurationError, match=why) as refused:
        checkpoint.decode(build.marked(written.replace(old, new, 1)), path="config.data")
    assert "the stored state is damaged: config.data" in str(refused.value)


def test_reservations_that_are_taken_out_are_made_from_the_nics(written: bytes) -> None:
    edited = written.replace(b',"reservations":["10.0.0.10-10.0.0.11","10.0.0.13"]', b"")
    read_back = checkpoint.decode(build.marked(edited), path="")
    assert read_back.objects == checkpoint.decode(written, path="").objects


@pytest.mark.promise("networks-57")
def test_maps_stay_in_memory_and_follow_the_state_from_change_to_change() -> None:
    with simulated.World(seed=1) as world:
        machine, store = filled(world)
        build.on(world, machine, store.close())
        store = build.opened(world, machine)
        ledger = embedded.Ledger()
        ledger.follow(store.snapshot, store.snapshot, ())
        store.observe(ledger.follow)
        kept = ledger.space("net", ranges.Family.IPV4)
        assert ledger.view(NET, SUBNET, SUBNET.pools[0]).map == "XX.XXX"
        build.on(world, machine, store.commit([snapshot.Delete("instances", "i1")], build.CAUSE))
        build.on(world, machine, store.commit(build.put(build.vm(7, ip="10.0.0.12")), build.CAUSE))
        assert ledger.space("net", ranges.Family.IPV4) is kept
        assert ledger.view(NET, SUBNET, SUBNET.pools[0]).map == "X.XXXX"
        assert ledger.allocations(store.snapshot).allocate(NET, driver.PoolAddress("pool1")) == "10.0.0.11"
