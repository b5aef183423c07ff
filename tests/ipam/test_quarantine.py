"""The hold time: after its release an address is in quarantine for all but its last owner, also for a new master."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ipam import test_embedded as embedding

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver, embedded, quarantine
from gantry.model import cluster, network
from gantry.state.objects import snapshot as states

ANY = driver.AnyAddress()
HOLD = 60


class QuarantinedState(embedding.FollowedState):
    """A state of a cluster with a hold time, changed as ``jobs.processor`` does it, and a clock."""

    def __init__(self, hold: int = HOLD, pool: str = "10.0.0.1-10.0.0.3") -> None:
        self.time = 1000.0
        super().__init__(embedding.net(embedding.subnet("10.0.0.0/28", pool)))
        self.ledger = embedded.Ledger(lambda: self.time)
        self.ledger.follow(self.state, self.state, ())
        self.change(states.Put(cluster.Cluster(uuid="c", name="c", master_node="n", ipam_hold_time=hold)))

    def commit(self, *changes: states.Change, undo: bool = False) -> None:
        self.change(*changes, *self.ledger.quarantine.changes(self.state, changes, undo=undo))

    def free(self) -> int:
        net = self.state.networks["net"]
        return self.ledger.view(net, net.subnets[0], net.subnets[0].pools[0]).free

    def pick_for(self, owner: str, request: driver.Request) -> str:
        return self.ledger.allocations(self.state, owner=owner).allocate(self.state.networks["net"], request)


def test_a_released_address_is_in_quarantine_for_the_hold_time_and_free_then() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    quarantined_state.time += HOLD - 1
    assert (quarantined_state.pick(ANY), quarantined_state.free()) == (["10.0.0.2"], 2)
    with pytest.raises(
        errors.BusyError,
        match=r"10\.0\.0\.1 of network net1 was released by instance v\.example and is in quarantine for another 1 s",
    ):
        quarantined_state.pick(embedding.specific("10.0.0.1"))
    assert quarantined_state.pick(embedding.specific("10.0.0.1", force=True)) == ["10.0.0.1"]
    quarantined_state.time += 1
    assert (quarantined_state.free(), quarantined_state.pick(ANY)) == (3, ["10.0.0.1"])
    assert quarantined_state.pick(embedding.specific("10.0.0.1")) == ["10.0.0.1"]


def test_an_address_that_a_port_released_is_in_quarantine_for_all_but_that_port() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.port("p", "10.0.0.1", "10.0.0.2")))
    quarantined_state.commit(states.Put(embedding.port("p", "10.0.0.2")))
    assert quarantined_state.pick(ANY) == ["10.0.0.3"]
    with pytest.raises(
        errors.BusyError, match=r"10\.0\.0\.1 of network net1 was released by port p and is in quarantine"
    ):
        quarantined_state.pick(embedding.specific("10.0.0.1"))
    assert quarantined_state.pick_for("p", embedding.specific("10.0.0.1")) == "10.0.0.1"
    quarantined_state.commit(states.Put(embedding.port("p", "10.0.0.1", "10.0.0.2")))
    assert not list(quarantined_state.state.resting)


def test_without_a_hold_time_nothing_is_in_quarantine() -> None:
    quarantined_state = QuarantinedState(hold=0)
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    assert quarantined_state.pick(ANY) == ["10.0.0.1"]
    assert not list(quarantined_state.state.resting)


def test_an_instance_can_reallocate_its_own_address_at_any_time() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1", "10.0.0.2")))
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.2")))
    assert quarantined_state.pick_for("v", embedding.specific("10.0.0.1")) == "10.0.0.1"
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.2", "10.0.0.1")))
    assert not list(quarantined_state.state.resting)
    quarantined_state.time += HOLD
    assert quarantined_state.pick(ANY) == ["10.0.0.3"]


def test_a_failed_job_leaves_nothing_in_quarantine() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")), undo=True)
    assert not list(quarantined_state.state.resting)
    quarantined_state.commit(states.Delete("instances", "v"), undo=True)
    assert quarantined_state.pick(ANY) == ["10.0.0.1"]


def test_a_new_master_knows_the_quarantined_addresses() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    quarantined_state.ledger = embedded.Ledger(lambda: quarantined_state.time)
    quarantined_state.ledger.follow(quarantined_state.state, quarantined_state.state, ())
    assert quarantined_state.pick(ANY) == ["10.0.0.2"]
    quarantined_state.time += HOLD
    assert quarantined_state.pick(ANY) == ["10.0.0.1"]


def test_an_address_that_is_allocated_after_its_quarantine_stays_used_although_its_record_is_not_deleted() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    quarantined_state.time += HOLD
    quarantined_state.change(states.Put(embedding.port("p", "10.0.0.1")))
    assert quarantined_state.state.resting
    assert quarantined_state.pick(ANY) == ["10.0.0.2"]


def test_a_pool_of_quarantined_addresses_is_full_until_the_first_quarantine_ends() -> None:
    quarantined_state = QuarantinedState()
    for number in range(3):
        quarantined_state.commit(states.Put(embedding.vm(f"v{number}", *quarantined_state.pick(ANY))))
    for number in (1, 0, 2):
        quarantined_state.time += 1
        quarantined_state.commit(states.Delete("instances", f"v{number}"))
    with pytest.raises(errors.NoRoomError, match=r"is full: 10\.0\.0\.1-10\.0\.0\.3"):
        quarantined_state.pick(ANY)
    quarantined_state.time += HOLD - 2
    assert quarantined_state.pick(ANY) == ["10.0.0.2"]


def test_later_transactions_delete_expired_records() -> None:
    quarantined_state = QuarantinedState(pool="10.0.0.1-10.0.0.14")
    for number in range(10):
        quarantined_state.commit(states.Put(embedding.vm(f"v{number}", f"10.0.0.{number + 1}")))
    for number in range(10):
        quarantined_state.commit(states.Delete("instances", f"v{number}"))
    assert len(quarantined_state.state.resting) == 10 < quarantine.MAX_EXPIRED
    quarantined_state.time += HOLD
    quarantined_state.commit(states.Put(embedding.vm("w", *quarantined_state.pick(ANY))))
    assert not list(quarantined_state.state.resting)


MOVES = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, HOLD)), max_size=40)


@settings(deadline=None)
@given(MOVES, st.integers(0, 40))
def test_no_address_is_allocated_again_before_its_quarantine_ends(
    moves: list[tuple[int, bool, int]], restart: int
) -> None:
    quarantined_state = QuarantinedState(pool="10.0.0.1-10.0.0.5")
    allocated: dict[str, str] = {}
    freed: dict[str, float] = {}
    for step, (number, takes, seconds) in enumerate(moves):
        name = f"v{number}"
        quarantined_state.time += seconds
        if step == restart:
            quarantined_state.ledger = embedded.Ledger(lambda: quarantined_state.time)
            quarantined_state.ledger.follow(quarantined_state.state, quarantined_state.state, ())
        if takes and name not in allocated:
            usable = [f"10.0.0.{n}" for n in range(1, 6) if f"10.0.0.{n}" not in allocated.values()]
            usable = [ip for ip in usable if freed.get(ip, -HOLD) + HOLD <= quarantined_state.time]
            assert quarantined_state.free() == len(usable)
            if usable:
                allocated[name] = quarantined_state.pick(ANY)[0]
                assert allocated[name] == usable[0]
                quarantined_state.commit(states.Put(embedding.vm(name, allocated[name])))
        elif not takes and name in allocated:
            freed[allocated.pop(name)] = quarantined_state.time
            quarantined_state.commit(states.Delete("instances", name))
        quarantined = {record.ip for record in quarantined_state.state.resting.values()}
        assert not quarantined & set(allocated.values())
        assert _used(quarantined_state) == {
            *allocated.values(),
            *(ip for ip, at in freed.items() if at + HOLD > quarantined_state.time),
        }


def _used(quarantined_state: QuarantinedState) -> set[str]:
    first = ranges.parse_address("10.0.0.0").value
    numbers = quarantined_state.ledger.space("net", ranges.Family.IPV4)
    return {f"10.0.0.{number}" for number in range(16) if numbers.is_used(first + number)}


def test_the_key_of_a_record_is_network_and_address() -> None:
    record = network.Quarantine(network="net", ip="10.0.0.1", until=5.0, instance="v", name="v.example")
    assert states.Put(record).key == "net/10.0.0.1"


def test_nothing_is_in_quarantine_when_a_port_becomes_a_nic_and_returns() -> None:
    quarantined_state = QuarantinedState()
    quarantined_state.commit(states.Put(embedding.port("p", "10.0.0.1")))
    quarantined_state.commit(states.Delete("ports", "p"), states.Put(embedding.vm("v", "10.0.0.1")))
    assert not quarantined_state.ledger.quarantine.records("net")
    quarantined_state.commit(states.Delete("instances", "v"), states.Put(embedding.port("p", "10.0.0.1")))
    assert not quarantined_state.ledger.quarantine.records("net")
    quarantined_state.commit(states.Delete("ports", "p"))
    assert [record.ip for record in quarantined_state.ledger.quarantine.records("net")] == ["10.0.0.1"]
