"""What the driver promises, the same on both engines."""

import ipaddress

import pytest

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import availability, driver, engines, requests, statements
from gantry.ipam.sql.records import Allocation, Subnet

ANY, NEXT = requests.AnyAddress(), requests.NextAddress()
POOL = "10.0.0.10-10.0.0.19"


def zero(_limit: int) -> int:
    return 0


@pytest.fixture
def ipam(database: engines.Database) -> driver.Driver:
    created = driver.Driver(database, below=zero)
    created.add_subnet("s", cidr="10.0.0.0/24", pools=[POOL], gateway="10.0.0.1")
    return created


def ranges_of(database: engines.Database, subnet: str = "s") -> list[tuple[str, ...]]:
    return [tuple(row) for row in database.read(lambda db: db.all_rows("ranges", subnet=subnet))]


def fits(ipam: driver.Driver) -> bool:
    """Whether the ranges are the pools without the allocations."""
    return not ipam.check(each for subnet in ipam.subnets() for each in ipam.allocations(subnet.id))


def addresses(first: str, count: int) -> list[str]:
    return [str(ipaddress.ip_address(first) + step) for step in range(count)]


@pytest.mark.promise("ipam-7", "ipam-8")
def test_addresses_come_from_ranges_that_are_made_from_the_pools(
    ipam: driver.Driver, database: engines.Database
) -> None:
    assert ranges_of(database) == [(f"0a0000{n:02x}",) * 2 for n in range(10, 20)]

    assert ipam.allocate("s", ANY) == "10.0.0.10"

    assert ranges_of(database) == [(f"0a0000{n:02x}",) * 2 for n in range(11, 20)]
    assert fits(ipam)


def test_a_range_with_an_allocated_address_is_reported_and_nothing_is_allocated(
    ipam: driver.Driver, database: engines.Database
) -> None:
    assert ipam.allocate("s", ANY) == "10.0.0.10"
    damage = {"subnet": "s", "first": "0a00000a", "last": "0a00000a"}
    database.change(lambda db: db.many("add_range", [damage]))
    before = ranges_of(database)
    with pytest.raises(
        errors.ConfigurationError, match="availability ranges of subnet s contain allocated addresses"
    ) as raised:
        ipam.allocate_many("s", 10)
    assert raised.value.hint == driver.REPAIR_HINT
    assert ([each.address for each in ipam.allocations("s")], ranges_of(database)) == (["10.0.0.10"], before)


def test_all_addresses_of_the_pools_are_allocated_once_and_then_the_pools_are_full(ipam: driver.Driver) -> None:
    assert sorted(ipam.allocate("s", ANY) for _ in range(10)) == addresses("10.0.0.10", 10)

    with pytest.raises(errors.NoRoomError, match="the pools of subnet s have no free address; add a pool"):
        ipam.allocate("s", ANY)
    with pytest.raises(errors.NoRoomError):
        ipam.allocate("s", NEXT)


def test_workers_begin_at_different_positions(database: engines.Database) -> None:
    def last(limit: int) -> int:
        return limit - 1

    first, second = driver.Driver(database, below=zero), driver.Driver(database, below=last)
    first.add_subnet("big", cidr="10.0.0.0/16", pools=["10.0.0.0/16"])

    taken = [(first.allocate("big", ANY), second.allocate("big", ANY)) for _ in range(3)]

    assert taken == [("10.0.0.1", "10.0.252.1"), ("10.0.0.2", "10.0.252.2"), ("10.0.0.3", "10.0.252.3")]


def test_the_next_address_is_the_lowest_free_one_wherever_the_worker_is(ipam: driver.Driver) -> None:
    for _ in range(5):
        ipam.allocate("s", ANY)
    ipam.deallocate("s", "10.0.0.11")

    assert ipam.allocate("s", NEXT) == "10.0.0.11"
    assert ipam.allocate("s", NEXT) == "10.0.0.15"


def test_a_released_address_is_allocated_again(ipam: driver.Driver) -> None:
    taken = {ipam.allocate("s", ANY) for _ in range(10)}
    assert ipam.deallocate("s", "10.0.0.13")

    assert ipam.allocate("s", ANY) == "10.0.0.13"
    assert len(taken) == 10
    assert fits(ipam)


def test_a_second_release_does_nothing(ipam: driver.Driver) -> None:
    ipam.allocate("s", ANY)

    assert [ipam.deallocate("s", "10.0.0.10") for _ in range(2)] == [True, False]
    assert not ipam.deallocate("unknown", "10.0.0.10")
    assert fits(ipam)


def test_with_an_owner_only_that_owners_address_is_released(ipam: driver.Driver) -> None:
    address = ipam.allocate("s", ANY, owner="port1")

    assert not ipam.deallocate("s", address, owner="port2")
    assert ipam.allocation("s", address) == Allocation("s", address, "port1")
    assert ipam.deallocate("s", address, owner="port1")
    assert ipam.allocation("s", address) is None


@pytest.mark.promise("ipam-10")
def test_a_specific_address_may_lie_outside_the_pools(ipam: driver.Driver) -> None:
    assert ipam.allocate("s", requests.SpecificAddress("10.0.0.200")) == "10.0.0.200"
    assert ipam.deallocate("s", "10.0.0.200")
    assert ipam.allocate("s", requests.SpecificAddress("10.0.0.200")) == "10.0.0.200"
    assert fits(ipam)


def test_with_pools_only_a_specific_address_has_to_be_in_a_pool(ipam: driver.Driver) -> None:
    assert ipam.allocate("s", requests.SpecificAddress("10.0.0.15", pools_only=True)) == "10.0.0.15"

    with pytest.raises(errors.InvalidError, match=r"no pool of subnet s contains 10\.0\.0\.200"):
        ipam.allocate("s", requests.SpecificAddress("10.0.0.200", pools_only=True))


@pytest.mark.parametrize("address", ["10.0.1.1", "2001:db8::1"])
def test_a_specific_address_outside_the_subnet_is_refused(ipam: driver.Driver, address: str) -> None:
    with pytest.raises(errors.InvalidError, match="is outside the subnet 10"):
        ipam.allocate("s", requests.SpecificAddress(address))


@pytest.mark.parametrize("requested", addresses("10.0.0.10", 10))
def test_a_specific_address_is_cut_out_of_its_range(ipam: driver.Driver, requested: str) -> None:
    ipam.allocate("s", requests.SpecificAddress(requested))

    assert fits(ipam)
    other_addresses = [ipam.allocate("s", NEXT) for _ in range(9)]
    assert other_addresses == [address for address in addresses("10.0.0.10", 10) if address != requested]


def test_an_address_that_is_taken_is_refused_and_the_holder_named(ipam: driver.Driver) -> None:
    for requested in ("10.0.0.12", "10.0.0.99"):
        ipam.allocate("s", requests.SpecificAddress(requested), owner="port1", key=requested)
        with pytest.raises(
            errors.NotUniqueError, match=f"address {requested} of subnet s is already allocated to port1"
        ):
            ipam.allocate("s", requests.SpecificAddress(requested), owner="port2")
        with pytest.raises(
            errors.NotUniqueError, match=f"address {requested} of subnet s is already allocated to port1"
        ):
            ipam.allocate("s", requests.SpecificAddress(requested))


@pytest.mark.parametrize("request_", [ANY, NEXT, requests.SpecificAddress("10.0.0.17")])
def test_the_same_owner_and_key_get_the_same_address(ipam: driver.Driver, request_: requests.Request) -> None:
    first = ipam.allocate("s", request_, owner="port1", key="0")

    assert ipam.allocate("s", request_, owner="port1", key="0") == first
    assert ipam.owned("port1") == [Allocation("s", first, "port1", "0")]
    assert fits(ipam)


def test_another_key_is_another_address(ipam: driver.Driver) -> None:
    first, second = (ipam.allocate("s", ANY, owner="port1", key=key) for key in ("0", "1"))

    assert first != second
    assert [each.address for each in ipam.owned("port1")] == [first, second]


def test_an_owner_has_no_second_address_under_one_key(ipam: driver.Driver) -> None:
    ipam.allocate("s", ANY, owner="port1", key="0")

    with pytest.raises(errors.NotUniqueError, match="port1 already has another address of subnet s under key '0'"):
        ipam.allocate("s", requests.SpecificAddress("10.0.0.17"), owner="port1", key="0")
    assert len(ipam.allocations("s")) == 1
    assert fits(ipam)


def test_allocations_are_listed_by_address_and_by_owner(ipam: driver.Driver) -> None:
    ipam.add_subnet("t", cidr="2001:db8::/64", pools=["2001:db8::/64"])
    ipam.allocate("s", requests.SpecificAddress("10.0.0.12"), owner="port1")
    ipam.allocate("s", requests.SpecificAddress("10.0.0.3"), owner="port2")
    ipam.allocate("t", NEXT, owner="port1")

    assert ipam.allocations("s") == [Allocation("s", "10.0.0.3", "port2"), Allocation("s", "10.0.0.12", "port1")]
    assert ipam.owned("port1") == [Allocation("s", "10.0.0.12", "port1"), Allocation("t", "2001:db8::1", "port1")]
    assert ipam.owned("") == ipam.allocations("unknown") == []


@pytest.mark.parametrize(
    "cidr", ["10.0.0.0/8", "10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32", "2001:db8::/64", "2001:db8::/126", "::/0"]
)
def test_subnets_of_all_sizes_hand_out_addresses(database: engines.Database, cidr: str) -> None:
    ipam = driver.Driver(database, below=zero)
    created = ipam.add_subnet("s", cidr=cidr, pools=[cidr])

    net = ipaddress.ip_network(cidr)
    taken = [ipam.allocate("s", NEXT) for _ in range(min(3, len(list(zip(range(3), net.hosts(), strict=False)))))]

    assert taken == [str(host) for host, _ in zip(net.hosts(), range(3), strict=False)]
    assert ipam.subnet("s") == created
    assert len(ranges_of(database)) <= availability.PARTS
    assert fits(ipam)


def test_the_gateway_and_the_ends_of_a_subnet_are_never_handed_out_from_a_pool(database: engines.Database) -> None:
    ipam = driver.Driver(database, below=zero)
    created = ipam.add_subnet("s", cidr="10.0.0.0/29", pools=["10.0.0.0/29"], gateway="10.0.0.3")

    assert (
        created
        == ipam.subnet("s")
        == Subnet("s", "10.0.0.0/29", "10.0.0.3", ("10.0.0.1-10.0.0.2", "10.0.0.4-10.0.0.6"))
    )
    ipam.allocate("s", requests.SpecificAddress("10.0.0.3"))
    ipam.deallocate("s", "10.0.0.3")
    assert [ipam.allocate("s", NEXT)[-1] for _ in range(5)] == ["1", "2", "4", "5", "6"]


def test_an_automatic_address_is_that_of_the_prefix_and_the_mac(
    database: engines.Database, ipam: driver.Driver
) -> None:
    ipam.add_subnet("t", cidr="2001:db8::/64", pools=["2001:db8::2-2001:db8::ffff"])
    automatic = requests.AutomaticAddress("00:16:3e:33:44:55")

    assert ipam.allocate("t", automatic) == "2001:db8::216:3eff:fe33:4455"
    with pytest.raises(errors.NotUniqueError):
        ipam.allocate("t", automatic)
    with pytest.raises(errors.InvalidError, match="cannot configure their own addresses"):
        ipam.allocate("s", automatic)


def test_a_delegated_prefix_changes_the_cidr_in_place(database: engines.Database) -> None:
    ipam = driver.Driver(database, below=zero)
    ipam.add_subnet("pd", cidr="::/64", pools=["::2-::ffff:ffff:ffff:ffff"], gateway="::1")
    old = ipam.allocate("pd", requests.AutomaticAddress("00:16:3e:33:44:55"))

    ipam.update_subnet("pd", cidr="2001:db8::/64", pools=["2001:db8::2-2001:db8::9"], gateway="2001:db8::1")

    assert ipam.allocate("pd", requests.AutomaticAddress("00:16:3e:33:44:55")) == "2001:db8::216:3eff:fe33:4455"
    assert ipam.allocate("pd", NEXT) == "2001:db8::2"
    assert ipam.deallocate("pd", old)
    assert fits(ipam)


@pytest.mark.promise("ipam-9", "ipam-18")
def test_ranges_are_recalculated_only_at_a_request_for_an_address_after_pools_have_changed(
    ipam: driver.Driver, database: engines.Database
) -> None:
    ipam.allocate("s", NEXT)
    ipam.allocate("s", requests.SpecificAddress("10.0.0.21"))
    ipam.update_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.10-10.0.0.11", "10.0.0.20-10.0.0.22"])
    assert ranges_of(database) == []

    ipam.deallocate("s", "10.0.0.10")
    assert [ipam.allocate("s", NEXT) for _ in range(2)] == ["10.0.0.10", "10.0.0.11"]
    assert ranges_of(database) == [("0a000014",) * 2, ("0a000016",) * 2]
    assert [ipam.allocate("s", ANY) for _ in range(2)] == ["10.0.0.20", "10.0.0.22"]
    with pytest.raises(errors.NoRoomError):
        ipam.allocate("s", ANY)


@pytest.mark.promise("ipam-9", "ipam-18")
def test_ranges_follow_allocations_and_releases_and_are_recalculated_once_after_a_change_of_pools(
    ipam: driver.Driver, database: engines.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, recalculated, free = ranges_of(database), list[str](), availability.free

    def counted(db: statements.Statements, subnet: str, family: ranges.Family) -> list[ranges.Range]:
        recalculated.append(subnet)
        return free(db, subnet, family)

    monkeypatch.setattr(availability, "free", counted)
    for _ in range(2):
        taken = [ipam.allocate("s", request) for request in (ANY, NEXT, requests.SpecificAddress("10.0.0.15"))]
        taken += ipam.allocate_many("s", 2)
        stored = {f"{int(ipaddress.ip_address(address)):08x}" for address in taken}
        assert ranges_of(database) == [each for each in whole if each[0] not in stored]
        for address in taken:
            ipam.deallocate("s", address)
        assert ranges_of(database) == whole
    assert recalculated == []
    ipam.update_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.20-10.0.0.22"])
    assert [ipam.allocate("s", NEXT) for _ in range(2)] == ["10.0.0.20", "10.0.0.21"]
    assert recalculated == ["s"]


def test_what_is_allocated_stays_when_pools_shrink(ipam: driver.Driver) -> None:
    address = ipam.allocate("s", NEXT)
    ipam.update_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.100-10.0.0.101"])

    assert ipam.allocations("s") == [Allocation("s", address)]
    assert ipam.deallocate("s", address)
    assert {ipam.allocate("s", ANY) for _ in range(2)} == {"10.0.0.100", "10.0.0.101"}


def test_an_update_that_changes_nothing_writes_nothing(ipam: driver.Driver, database: engines.Database) -> None:
    before = ranges_of(database)

    ipam.update_subnet("s", cidr="10.0.0.0/24", pools=[POOL], gateway="10.0.0.1")

    assert ranges_of(database) == before != []


@pytest.mark.promise("ipam-22")
def test_a_subnet_is_removed_only_when_nothing_is_allocated(ipam: driver.Driver, database: engines.Database) -> None:
    address = ipam.allocate("s", ANY, owner="port1")
    with pytest.raises(
        errors.WrongStateError, match=f"subnet s has allocated addresses, such as {address}, allocated to port1"
    ):
        ipam.remove_subnet("s")
    assert ipam.allocate("s", ANY) != address

    for each in ipam.allocations("s"):
        ipam.deallocate("s", each.address)
    ipam.remove_subnet("s")

    assert ranges_of(database) == []
    for gone in (lambda: ipam.subnet("s"), lambda: ipam.remove_subnet("s"), lambda: ipam.allocate("s", ANY)):
        with pytest.raises(errors.NotFoundError, match="subnet s does not exist"):
            gone()


def test_an_unknown_subnet_is_reported(ipam: driver.Driver) -> None:
    with pytest.raises(errors.ExistsError):
        ipam.add_subnet("s", cidr="10.0.0.0/24", pools=[])
    for call in (
        lambda: ipam.allocate("no", requests.SpecificAddress("10.0.0.1")),
        lambda: ipam.allocate_many("no", 2),
        lambda: ipam.update_subnet("no", cidr="10.0.0.0/24", pools=[]),
    ):
        with pytest.raises(errors.NotFoundError, match="subnet no does not exist"):
            call()


@pytest.mark.parametrize(
    ("pools", "gateway", "message"),
    [
        (["10.0.1.1-10.0.1.9"], "", "not inside"),
        (["2001:db8::1-2001:db8::9"], "", "not inside"),
        (["10.0.0.9-10.0.0.1"], "", "backwards"),
        (["10.0.0.1-10.0.0.9", "10.0.0.9-10.0.0.12"], "", "overlap"),
        (["nonsense"], "", "not an address range"),
        ([], "2001:db8::1", "another address family"),
    ],
)
def test_pools_that_do_not_fit_are_refused(ipam: driver.Driver, pools: list[str], gateway: str, message: str) -> None:
    with pytest.raises(errors.InvalidError, match=message):
        ipam.add_subnet("t", cidr="10.0.0.0/24", pools=pools, gateway=gateway)
    with pytest.raises(errors.InvalidError, match=message):
        ipam.update_subnet("s", cidr="10.0.0.0/24", pools=pools, gateway=gateway)


def test_many_addresses_are_allocated_at_once_or_none(ipam: driver.Driver) -> None:
    ipam.allocate("s", requests.SpecificAddress("10.0.0.14"))

    with pytest.raises(
        errors.NoRoomError, match="the pools of subnet s have 9 free addresses, but the request is for 10"
    ):
        ipam.allocate_many("s", 10)
    assert fits(ipam)

    taken = ipam.allocate_many("s", 5, owner="port1")
    assert sorted(taken) == [each.address for each in ipam.owned("port1")]
    assert fits(ipam)
    assert len(ipam.allocate_many("s", 4)) == 4
    assert ipam.allocate_many("s", 0) == []
    assert len(ipam.allocations("s")) == 10


def test_many_addresses_go_on_where_the_worker_is_and_wrap_round(database: engines.Database) -> None:
    ipam = driver.Driver(database, below=lambda limit: limit - 1)
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.0/24"])

    assert ipam.allocate_many("s", 4) == ["10.0.0.253", "10.0.0.254", "10.0.0.1", "10.0.0.2"]
    assert len(set(ipam.allocate_many("s", 250))) == 250
    assert fits(ipam)


def test_subnets_with_the_same_addresses_do_not_know_each_other(ipam: driver.Driver) -> None:
    ipam.add_subnet("t", cidr="10.0.0.0/24", pools=[POOL])

    assert ipam.allocate("s", NEXT) == ipam.allocate("t", NEXT)


def test_a_range_that_has_an_address_which_is_taken_does_no_harm(
    ipam: driver.Driver, database: engines.Database
) -> None:
    database.change(lambda db: db.run("enter", subnet="s", address="0a00000a", owner="", key=""))
    assert ipam.check(ipam.allocations("s")).ranges == ("s",)

    assert ipam.allocate("s", NEXT) == "10.0.0.11"
    assert fits(ipam)


@pytest.mark.parametrize("hours", [1, -1])
def test_no_result_depends_on_a_clock(ipam: driver.Driver, database: engines.Database, hours: int) -> None:
    shifted = (
        "UPDATE gantry_allocations SET made = {}",
        f"datetime(made, '{hours} hours')" if database.name.endswith(".db") else f"made + interval '{hours} hours'",
    )
    for _ in range(4):
        ipam.allocate("s", NEXT)
        database.change(lambda db: db.script(shifted[0].format(shifted[1])))
    ipam.deallocate("s", "10.0.0.11")

    assert [ipam.allocate("s", NEXT) for _ in range(2)] == ["10.0.0.11", "10.0.0.14"]
    assert fits(ipam)
