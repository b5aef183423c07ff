"""A master's functions on a database that has addresses of other owners."""

import pytest

from gantry import errors
from gantry.ipam.sql import driver, engines, records, requests, sharing

MARK = "gantry/c/"
OWN, OTHER = f"{MARK}vm", "somebody"


@pytest.fixture
def ipam(database: engines.Database) -> driver.Driver:
    ipam = driver.Driver(database, below=lambda _: 0)
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.10-10.0.0.19"])
    return ipam


def subnet(cidr: str, *pools: str) -> records.Subnet:
    return records.canonical_subnet("s", cidr, pools=pools, gateway="")


def describe(database: engines.Database, described: records.Subnet, *, join: bool = False) -> None:
    database.change(lambda db: sharing.describe(db, described, mark=MARK, join=join))


def test_an_owner_that_has_another_address_under_the_key_makes_the_database_busy(
    ipam: driver.Driver, database: engines.Database
) -> None:
    ipam.allocate("s", requests.SpecificAddress("10.0.0.10"), owner=OWN, key="k")
    new_allocation = records.Allocation("s", "10.0.0.11", OWN, "k")
    with pytest.raises(
        errors.BusyError,
        match=r"address 10\.0\.0\.11 of subnet s was allocated and released repeatedly during the request; try again",
    ):
        database.change(lambda db: sharing.secure(db, [new_allocation], mark=MARK, ahead=0))
    assert [each.address for each in ipam.allocations("s")] == ["10.0.0.10"]


@pytest.mark.parametrize(
    ("address", "cidr"), [("10.0.0.200", "10.0.0.0/25"), ("10.0.0.20", "2001:db8::/64"), ("10.0.0.20", "::/0")]
)
def test_a_subnet_keeps_its_cidr_while_another_owner_has_an_address_outside_of_the_new_one(
    ipam: driver.Driver, database: engines.Database, address: str, cidr: str
) -> None:
    ipam.allocate("s", requests.SpecificAddress(address), owner=OTHER, key="k")
    before = ipam.subnets()
    with pytest.raises(errors.WrongStateError) as raised:
        describe(database, subnet(cidr))
    assert str(raised.value) == (
        f"subnet s cannot change from 10.0.0.0/24 to {cidr} in the database: {address} is allocated to somebody; "
        "release that address first, or use another database"
    )
    assert ipam.subnets() == before


def test_a_subnet_gets_a_new_cidr_that_has_the_addresses_of_other_owners_whatever_the_own_ones_are(
    ipam: driver.Driver, database: engines.Database
) -> None:
    ipam.allocate("s", requests.SpecificAddress("10.0.0.127"), owner=OTHER, key="k")
    ipam.allocate("s", requests.SpecificAddress("10.0.0.200"), owner=OWN, key="k")
    changed = subnet("10.0.0.0/25", "10.0.0.20-10.0.0.29")
    describe(database, changed)
    assert ipam.subnets() == [changed]


@pytest.mark.parametrize("join", [False, True])
def test_new_pools_are_written_unless_a_subnet_with_that_cidr_is_joined(
    ipam: driver.Driver, database: engines.Database, join: bool
) -> None:
    before, changed = ipam.subnets(), subnet("10.0.0.0/24", "10.0.0.20-10.0.0.29")
    ipam.allocate("s", requests.SpecificAddress("10.0.0.200"), owner=OTHER, key="k")
    describe(database, changed, join=join)
    assert ipam.subnets() == (before if join else [changed])


def test_missing_allocations_are_written_but_those_that_another_owner_has_got_since_the_survey_are_returned(
    ipam: driver.Driver, database: engines.Database
) -> None:
    missing = [records.Allocation("s", f"10.0.0.{number}", OWN, f"nic{number}") for number in (11, 12)]
    surplus = records.Allocation("s", "10.0.0.14", f"{MARK}gone", "k")
    ipam.allocate("s", requests.SpecificAddress(surplus.address), owner=surplus.owner, key=surplus.key)
    for number in (12, 13):
        ipam.allocate("s", requests.SpecificAddress(f"10.0.0.{number}"), owner=OTHER, key=f"k{number}")
    part = sharing.Part(missing=missing, surplus=[surplus])
    lost = database.change(lambda db: sharing.settle(db, "s", part, mark=MARK))
    assert lost == [records.Allocation("s", "10.0.0.12", OTHER, "k12")]
    assert {each.address: each.owner for each in ipam.allocations("s")} == {
        "10.0.0.11": OWN,
        "10.0.0.12": OTHER,
        "10.0.0.13": OTHER,
    }
