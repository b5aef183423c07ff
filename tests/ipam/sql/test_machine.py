"""Random steps against a plain set: the driver hands out what is free, and nothing else, whatever came before."""

import ipaddress
import itertools
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from gantry import errors
from gantry.ipam.sql import checks, driver, engines, requests
from gantry.ipam.sql.records import Allocation

NET = ipaddress.ip_network("10.0.0.0/27")
HOSTS = [str(address) for address in NET.hosts()]
POOLS = st.sets(st.sampled_from(HOSTS)).map(sorted)
ADDRESS = st.sampled_from(HOSTS)
_subnets = itertools.count()


class Machine(RuleBasedStateMachine):
    """One subnet with two workers; ``taken`` and ``pools`` are what it must be like."""

    database: engines.Database

    def __init__(self) -> None:
        super().__init__()
        below = random.Random(1).randrange
        self.workers = [driver.Driver(self.database, below=below) for _ in range(2)]
        self.subnet = f"s{next(_subnets)}"
        self.pools = set(HOSTS)
        self.taken: dict[str, str] = {}
        self.workers[0].add_subnet(self.subnet, cidr=str(NET), pools=[f"{HOSTS[0]}-{HOSTS[-1]}"])

    @property
    def free(self) -> set[str]:
        return self.pools - self.taken.keys()

    @rule(worker=st.integers(0, 1), lowest=st.booleans())
    def allocate(self, worker: int, lowest: bool) -> None:
        request = requests.NextAddress() if lowest else requests.AnyAddress()
        try:
            address = self.workers[worker].allocate(self.subnet, request)
        except errors.NoRoomError:
            assert not self.free
            return
        assert address in self.free
        assert not lowest or address == min(self.free, key=HOSTS.index)
        self.taken[address] = ""

    @rule(worker=st.integers(0, 1), owner=st.sampled_from("ab"))
    def allocate_for_an_owner(self, worker: int, owner: str) -> None:
        owned = {address for address, name in self.taken.items() if name == owner}
        try:
            address = self.workers[worker].allocate(self.subnet, requests.AnyAddress(), owner=owner)
        except errors.NoRoomError:
            assert not self.free
            assert not owned
            return
        assert address in (owned or self.free)
        self.taken[address] = owner

    @rule(address=ADDRESS, pools_only=st.booleans())
    def allocate_specific(self, address: str, pools_only: bool) -> None:
        request = requests.SpecificAddress(address, pools_only=pools_only)
        try:
            self.workers[0].allocate(self.subnet, request)
        except errors.NotUniqueError:
            assert address in self.taken
        except errors.InvalidError:
            assert pools_only
            assert address not in self.pools
        else:
            assert address not in self.taken
            self.taken[address] = ""

    @rule(worker=st.integers(0, 1), count=st.integers(1, 20))
    def allocate_many(self, worker: int, count: int) -> None:
        try:
            taken = self.workers[worker].allocate_many(self.subnet, count)
        except errors.NoRoomError:
            assert len(self.free) < count
            return
        assert len(set(taken)) == count
        assert set(taken) <= self.free
        self.taken |= dict.fromkeys(taken, "")

    @rule(address=ADDRESS)
    def deallocate(self, address: str) -> None:
        assert self.workers[1].deallocate(self.subnet, address) == (address in self.taken)
        self.taken.pop(address, None)

    @rule(pools=POOLS)
    def change_pools(self, pools: list[str]) -> None:
        self.pools = set(pools)
        self.workers[0].update_subnet(self.subnet, cidr=str(NET), pools=pools)

    @rule(lost=st.sets(ADDRESS), unknown=st.sets(ADDRESS))
    def repair(self, lost: set[str], unknown: set[str]) -> None:
        truth = (self.taken.keys() - lost) | unknown
        other_subnets = [a for a in self.elsewhere() if a.subnet != self.subnet]
        difference = self.workers[0].check([*other_subnets, *(Allocation(self.subnet, address) for address in truth)])
        assert {each.address for each in difference.missing} == truth - self.taken.keys()
        assert {each.address for each in difference.surplus} == self.taken.keys() - truth
        assert difference.common(difference) == difference
        self.workers[0].repair(difference)
        self.taken = {address: self.taken.get(address, "") for address in truth}

    def elsewhere(self) -> list[Allocation]:
        known = self.workers[0].subnets()
        return [each for subnet in known for each in self.workers[0].allocations(subnet.id)]

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        stored = self.workers[0].allocations(self.subnet)
        assert {each.address: each.owner for each in stored} == self.taken
        assert self.subnet not in self.workers[0].check([]).ranges

    def teardown(self) -> None:
        self.workers[0].repair(checks.Difference(surplus=tuple(self.workers[0].allocations(self.subnet))))
        self.workers[0].remove_subnet(self.subnet)


@pytest.mark.promise("ipam-19", "ipam-24")
def test_the_driver_is_like_a_plain_set(database: engines.Database) -> None:
    class Here(Machine):
        pass

    Here.database = database
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
