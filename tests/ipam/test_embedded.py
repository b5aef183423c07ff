"""The ledger beside the state, and the order in which addresses are allocated."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests import effort

from gantry import errors
from gantry.address import ranges, space
from gantry.ipam import driver, embedded
from gantry.model import cluster, instance, network
from gantry.state.objects import snapshot as states

ANY = driver.AnyAddress()
SERIALS = itertools.count()


def net(*subnets: network.Subnet, uuid: str = "net") -> network.Network:
    return network.Network(uuid=uuid, name=f"{uuid}1", subnets=subnets)


def subnet(cidr: str, *pools: str, gateway: str = "", external: tuple[str, ...] = ()) -> network.Subnet:
    """Return a subnet; a pool is a range, or a name and a range with an equals sign between."""
    created = [network.Pool(range=text.rpartition("=")[2], name=text.rpartition("=")[0]) for text in pools]
    uuid = f"{cidr} {next(SERIALS)}"
    return network.Subnet(uuid=uuid, cidr=cidr, pools=tuple(created), gateway=gateway, external=external)


def vm(name: str, *ips: str, network_uuid: str = "net") -> instance.Instance:
    nic = instance.Nic(uuid=f"x{name}", mac=f"mac of {name}", network=network_uuid, ip=ips)
    return instance.Instance(uuid=name, name=f"{name}.example", primary_node="n", hypervisor="fake", nics=(nic,))


def port(name: str, *ips: str, network_uuid: str = "net") -> network.Port:
    return network.Port(uuid=name, name="", network=network_uuid, mac=f"mac of {name}", ip=ips)


class FollowedState:
    """A state with a ledger that follows it."""

    def __init__(self, *networks: network.Network) -> None:
        node = cluster.Node(uuid="n", name="n", primary_ip="203.0.113.1")
        self.state = states.Snapshot()
        self.ledger = embedded.Ledger()
        self.change(states.Put(node), *(states.Put(network_uuid) for network_uuid in networks))

    def change(self, *changes: states.Change) -> None:
        before = self.state
        self.state = before.apply(changes, serial=before.serial + 1)
        self.ledger.follow(before, self.state, changes)

    def pick(self, *requests: driver.Request, network_uuid: str = "net") -> list[str]:
        picks = self.ledger.allocations(self.state)
        return [picks.allocate(self.state.networks[network_uuid], request) for request in requests]


def specific(text: str, *, force: bool = False) -> driver.SpecificAddress:
    return driver.SpecificAddress(ranges.parse_address(text), force)


class CountedText(str):
    """A text that counts how often a look-up reads it."""

    __slots__ = ()
    reads = 0

    def __hash__(self) -> int:
        type(self).reads += 1
        return super().__hash__()


@pytest.mark.promise("networks-39", "networks-53", "networks-54")
def test_the_first_free_address_comes_from_the_first_pool_of_the_first_subnet_with_room() -> None:
    followed_state = FollowedState(
        net(
            subnet("192.0.2.0/24", "192.0.2.10-192.0.2.12", "192.0.2.5", external=("192.0.2.11",)),
            subnet("2001:db8::/64", "2001:db8::10-2001:db8::11"),
        )
    )
    allocated: list[str] = []
    for number in range(5):
        (address,) = followed_state.pick(ANY)
        allocated.append(address)
        followed_state.change(states.Put(vm(f"v{number}", address)))
    assert allocated == ["192.0.2.10", "192.0.2.12", "192.0.2.5", "2001:db8::10", "2001:db8::11"]
    with pytest.raises(errors.NoRoomError, match="every pool of network net1 is full"):
        followed_state.pick(ANY)
    followed_state.change(states.Delete("instances", "v1"))
    assert followed_state.pick(ANY) == ["192.0.2.12"]


def test_the_cost_of_an_address_does_not_grow_with_those_of_its_plan() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/16", "10.0.0.0/16")))
    allocations, lan = followed_state.ledger.allocations(followed_state.state), followed_state.state.networks["net"]
    early = effort.lines(lambda: [allocations.allocate(lan, ANY) for _ in range(20)])
    addresses = [allocations.allocate(lan, ANY) for _ in range(2000)]
    assert len(set(addresses)) == 2000
    assert effort.lines(lambda: [allocations.allocate(lan, ANY) for _ in range(20)]) < 1.5 * early


def test_a_plan_allocates_an_address_again_that_it_has_released_itself() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/24", "10.0.0.1-10.0.0.4", "10.0.0.9")))
    allocations, lan = followed_state.ledger.allocations(followed_state.state), followed_state.state.networks["net"]
    assert [allocations.allocate(lan, ANY) for _ in range(3)] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    allocations.release(lan, "10.0.0.2")
    assert allocations.allocate(lan, specific("10.0.0.4")) == "10.0.0.4"
    assert [allocations.allocate(lan, ANY) for _ in range(2)] == ["10.0.0.2", "10.0.0.9"]


def test_a_change_that_keeps_the_addresses_of_an_owner_keeps_them_used() -> None:
    followed_state = FollowedState(net(subnet("192.0.2.0/24", "192.0.2.1-192.0.2.4")))
    first, second = vm("v", "192.0.2.1"), port("p", "192.0.2.2")
    followed_state.change(states.Put(first), states.Put(second))
    followed_state.change(
        states.Put(structs.replace(first, tags=("new",))), states.Put(structs.replace(second, name="new"))
    )
    assert followed_state.pick(ANY, ANY) == ["192.0.2.3", "192.0.2.4"]
    followed_state.change(states.Put(vm("v", "192.0.2.3")), states.Put(structs.replace(second, ip=("192.0.2.4",))))
    assert followed_state.pick(ANY, ANY) == ["192.0.2.1", "192.0.2.2"]


def test_owners_that_exchange_their_addresses_in_one_change_keep_them_used() -> None:
    followed_state = FollowedState(net(subnet("192.0.2.0/24", "192.0.2.1-192.0.2.3")))
    followed_state.change(states.Put(vm("v", "192.0.2.1")), states.Put(port("p", "192.0.2.2")))
    followed_state.change(
        states.Delete("instances", "v"), states.Put(port("p", "192.0.2.1")), states.Put(vm("w", "192.0.2.2"))
    )
    assert followed_state.pick(ANY) == ["192.0.2.3"]


@pytest.mark.promise("networks-40")
def test_only_the_first_allocation_of_a_subnet_reads_its_external_reservations() -> None:
    reservations = tuple(CountedText(f"192.0.2.{number}") for number in range(10, 20))
    followed_state = FollowedState(net(subnet("192.0.2.0/24", "192.0.2.10-192.0.2.100", external=reservations)))
    assert followed_state.pick(ANY) == ["192.0.2.20"]
    reads = CountedText.reads
    followed_state.change(states.Put(port("p", "192.0.2.20")))
    assert followed_state.pick(ANY) == ["192.0.2.21"]
    assert CountedText.reads == reads


def test_a_named_pool_allocates_its_first_free_address() -> None:
    followed_state = FollowedState(
        net(subnet("10.0.0.0/24", "10.0.0.2-10.0.0.9", "lan=10.0.0.20-10.0.0.21", "lan=10.0.0.30"))
    )
    assert followed_state.pick(*[driver.PoolAddress("lan")] * 3) == ["10.0.0.20", "10.0.0.21", "10.0.0.30"]
    with pytest.raises(errors.NoRoomError, match="pool lan of network net1 is full"):
        followed_state.pick(*[driver.PoolAddress("lan")] * 4)
    with pytest.raises(errors.NotFoundError, match="network net1 has no pool wan; its named pools are: lan"):
        followed_state.pick(driver.PoolAddress("wan"))


@pytest.mark.promise("networks-55")
def test_a_specific_address_is_looked_up_in_all_subnets_and_their_reservations() -> None:
    followed_state = FollowedState(
        net(subnet("10.0.0.0/24"), subnet("192.0.2.0/24", gateway="192.0.2.1", external=("192.0.2.50-192.0.2.59",)))
    )
    assert followed_state.pick(specific("192.0.2.7"), specific("10.0.0.7")) == ["192.0.2.7", "10.0.0.7"]
    with pytest.raises(errors.WrongStateError, match=r"192\.0\.2\.55 of network net1 is reserved"):
        followed_state.pick(specific("192.0.2.55"))
    assert followed_state.pick(specific("192.0.2.55", force=True)) == ["192.0.2.55"]
    followed_state.change(states.Put(vm("v", "10.0.0.7")))
    with pytest.raises(errors.NotUniqueError, match=r"10\.0\.0\.7 in network net1 is in use by instance v\.example"):
        followed_state.pick(specific("10.0.0.7", force=True))
    with pytest.raises(errors.InvalidError, match=r"outside every subnet of network net1 \(10\.0\.0\.0/24, 192"):
        followed_state.pick(specific("10.0.1.7"))


@pytest.mark.parametrize("text", ["192.0.2.0", "192.0.2.255", "192.0.2.1"])
def test_first_last_and_gateway_address_are_never_allocated(text: str) -> None:
    followed_state = FollowedState(net(subnet("192.0.2.0/24", "192.0.2.0/24", gateway="192.0.2.1")))
    with pytest.raises(errors.InvalidError, match=text):
        followed_state.pick(specific(text, force=True))
    everything = followed_state.pick(*[ANY] * 253)
    assert text not in everything
    assert len(set(everything)) == 253
    with pytest.raises(errors.NoRoomError):
        followed_state.pick(*[ANY] * 254)


@pytest.mark.parametrize(("cidr", "size"), [("10.0.0.0/31", 2), ("10.0.0.0/32", 1), ("2001:db8::/127", 2)])
def test_the_smallest_subnets_allocate_every_address(cidr: str, size: int) -> None:
    followed_state = FollowedState(net(subnet(cidr, cidr)))
    assert len(set(followed_state.pick(*[ANY] * size))) == size


def test_an_error_names_the_network_without_pools() -> None:
    with pytest.raises(errors.NoRoomError, match="network net1 has no pool; choose an address, or add a pool"):
        FollowedState(net(subnet("10.0.0.0/24"))).pick(ANY)


def test_the_picks_of_one_plan_are_never_equal() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/24", "a=10.0.0.1-10.0.0.9", "10.0.0.20-10.0.0.29")))
    picks = followed_state.pick(
        specific("10.0.0.1"), ANY, driver.PoolAddress("a"), specific("10.0.0.20"), *[ANY] * 6, ANY
    )
    assert len(set(picks)) == len(picks)
    assert picks[-1] == "10.0.0.21"
    with pytest.raises(errors.NotUniqueError, match=r"10\.0\.0\.1 of network net1 is requested twice"):
        followed_state.pick(ANY, specific("10.0.0.1"))
    assert followed_state.pick(ANY) == ["10.0.0.1"]


def test_a_subnet_request_allocates_from_the_pools_of_that_subnet_only() -> None:
    own, two = subnet("10.0.0.0/24", "10.0.0.1-10.0.0.9"), subnet("10.0.1.0/24", "10.0.1.1")
    followed_state = FollowedState(net(own, two, bare := subnet("10.0.2.0/24")))
    assert followed_state.pick(driver.SubnetAddress(two.uuid)) == ["10.0.1.1"]
    followed_state.change(states.Put(port("p", "10.0.1.1")))
    with pytest.raises(errors.NoRoomError, match=r"every pool of subnet 10\.0\.1\.0/24 of network net1 is full"):
        followed_state.pick(driver.SubnetAddress(two.uuid))
    with pytest.raises(errors.NoRoomError, match="has no pool"):
        followed_state.pick(driver.SubnetAddress(bare.uuid))


def test_a_gateway_address_is_allocated_to_a_request_for_a_gateway() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/24", "10.0.0.0/24", gateway="10.0.0.1")))
    gateway = ranges.parse_address("10.0.0.1")
    assert followed_state.pick(driver.SpecificAddress(gateway, gateway=True)) == ["10.0.0.1"]
    assert followed_state.pick(ANY) == ["10.0.0.2"]


def test_an_error_names_the_port_that_has_an_address() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/24", "10.0.0.0/24")))
    followed_state.change(states.Put(port("p", "10.0.0.1")))
    assert followed_state.pick(ANY) == ["10.0.0.2"]
    with pytest.raises(errors.NotUniqueError, match=r"address 10\.0\.0\.1 in network net1 is in use by port p"):
        followed_state.pick(specific("10.0.0.1"))


def test_addresses_of_owners_outside_of_the_cluster_stay_used_when_a_change_is_rolled_back() -> None:
    followed_state = FollowedState(net(subnet("10.0.0.0/24", "10.0.0.1-10.0.0.4")))
    followed_state.ledger.learn(("net", "10.0.0.1"), "somebody")
    followed_state.change(states.Put(port("p", "10.0.0.2")))
    followed_state.ledger.follow(followed_state.state, followed_state.state, ())
    assert followed_state.pick(ANY) == ["10.0.0.3"]
    followed_state.ledger.forget(("net", "10.0.0.1"))
    assert followed_state.pick(ANY) == ["10.0.0.1"]


def test_two_networks_may_have_the_same_addresses() -> None:
    followed_state = FollowedState(
        net(subnet("10.0.0.0/24", "10.0.0.1-10.0.0.9")), net(subnet("10.0.0.0/24", "10.0.0.1-10.0.0.9"), uuid="two")
    )
    followed_state.change(states.Put(vm("v", "10.0.0.1")))
    assert followed_state.pick(ANY) == ["10.0.0.2"]
    assert followed_state.pick(ANY, network_uuid="two") == ["10.0.0.1"]


def test_a_pool_shows_how_much_is_free_and_a_map() -> None:
    ipv4 = subnet("10.0.0.0/28", "10.0.0.0/28", gateway="10.0.0.1", external=("10.0.0.4-10.0.0.5",))
    followed_state = FollowedState(net(ipv4))
    followed_state.change(states.Put(vm("v", "10.0.0.9", "10.0.0.4")))
    view = followed_state.ledger.view(followed_state.state.networks["net"], ipv4, ipv4.pools[0])
    assert view == driver.PoolView(free=10, map="XX..XX...X.....X")
    huge = subnet("2001:db8::/64", "2001:db8::/64")
    assert followed_state.ledger.view(net(huge), huge, huge.pools[0]) == driver.PoolView(free=(1 << 64) - 1, map="")


NUMBERS = st.integers(0, 5)
HISTORY = st.lists(st.lists(st.tuples(NUMBERS, st.frozensets(st.integers(1, 14), max_size=3)), max_size=3), max_size=12)


@settings(deadline=None)
@given(HISTORY, st.integers(0, 12))
def test_the_ledger_follows_every_history_of_instances_and_ports(
    history: list[list[tuple[int, frozenset[int]]]], lost_at: int
) -> None:
    """Each transaction changes addresses, or removes owners without addresses; one transaction is rolled back."""
    followed_state = FollowedState(net(subnet("10.0.0.0/28", "10.0.0.0/28")))
    for index, transaction in enumerate(history):
        changes: list[states.Change] = []
        for number, ips in dict(transaction).items():
            kind, make = ("ports", port) if number % 2 else ("instances", vm)
            if ips:
                changes.append(states.Put(make(f"v{number}", *(f"10.0.0.{ip}" for ip in sorted(ips)))))
            elif f"v{number}" in followed_state.state.collection(kind):
                changes.append(states.Delete(kind, f"v{number}"))
        durable = followed_state.state
        try:
            followed_state.change(*changes)
        except errors.NotUniqueError:
            continue
        if index == lost_at:
            before, followed_state.state = followed_state.state, durable
            followed_state.ledger.follow(before, durable, ())
        used = {nic.ip for owner in followed_state.state.instances.values() for nic in owner.allocations()}
        used |= {nic.ip for owner in followed_state.state.ports.values() for nic in owner.allocations()}
        assert _used(followed_state.ledger.space("net", ranges.Family.IPV4)) == used
        free = sorted(set(range(1, 15)) - {int(ip.rpartition(".")[2]) for ip in used})
        if free:
            assert followed_state.pick(ANY) == [f"10.0.0.{free[0]}"]
        else:
            with pytest.raises(errors.NoRoomError):
                followed_state.pick(ANY)


def _used(numbers: space.Space) -> set[str]:
    first = ranges.parse_address("10.0.0.0").value
    return {f"10.0.0.{number}" for number in range(16) if numbers.is_used(first + number)}
