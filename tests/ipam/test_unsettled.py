"""When an address or a subnet is due in the shared database: the durable state agrees, and no running job uses it."""

from dataclasses import dataclass

import pytest
from tests.ipam import test_embedded as embedding

from gantry.ipam import embedded, subscription, unsettled
from gantry.state.objects import snapshot as states

SUBNET = embedding.subnet("10.0.0.0/28", "10.0.0.1-10.0.0.3")
OTHER_SUBNET = embedding.subnet("10.0.1.0/28", "10.0.1.1-10.0.1.3")


@dataclass
class Store:
    """A current and a durable state."""

    snapshot: states.Snapshot
    durable: states.Snapshot


class UnsettledState:
    """A state whose changes are noted; they become durable with ``keep``."""

    def __init__(self) -> None:
        first = embedding.FollowedState(embedding.net(SUBNET)).state
        self.store = Store(first, first)
        self.pending = unsettled.Unsettled(embedded.Ledger(), self.store)

    def change(self, *changes: states.Change) -> None:
        before = self.store.snapshot
        self.store.snapshot = before.apply(changes, serial=before.serial + 1)
        self.pending.note(before, changes)

    def keep(self) -> None:
        self.store.durable = self.store.snapshot

    def due(self) -> unsettled.Due:
        with self.pending.due() as due:
            return due


@pytest.fixture
def unsettled_state() -> UnsettledState:
    return UnsettledState()


def test_a_released_address_is_due_once_when_the_durable_state_does_not_have_it_either(
    unsettled_state: UnsettledState,
) -> None:
    unsettled_state.change(states.Put(embedding.vm("v", "10.0.0.1")))
    unsettled_state.keep()
    unsettled_state.change(states.Delete("instances", "v"))
    assert unsettled_state.due() == ({}, {})
    unsettled_state.keep()
    assert unsettled_state.due() == ({("net", "10.0.0.1"): SUBNET.uuid}, {})
    assert unsettled_state.due() == ({}, {})
    assert not unsettled_state.pending


def test_a_changed_subnet_is_due_once_when_the_durable_state_has_the_change(unsettled_state: UnsettledState) -> None:
    unsettled_state.change(states.Put(embedding.net(SUBNET, OTHER_SUBNET)))
    assert unsettled_state.due() == ({}, {})
    unsettled_state.keep()
    assert unsettled_state.due() == ({}, {OTHER_SUBNET.uuid: OTHER_SUBNET})
    assert unsettled_state.due() == ({}, {})
    assert not unsettled_state.pending


def test_a_subnet_is_due_after_the_job_that_secured_it_whether_or_not_it_came_to_be(
    unsettled_state: UnsettledState,
) -> None:
    changes = [states.Put(embedding.net(SUBNET, OTHER_SUBNET))]
    unsettled_state.pending.begin(7, subscription.additions(unsettled_state.store.snapshot, changes, mark="gantry/c/"))
    unsettled_state.change(*changes)
    unsettled_state.change(states.Put(embedding.net(SUBNET)))
    unsettled_state.keep()
    assert unsettled_state.due() == ({}, {})
    assert unsettled_state.pending
    unsettled_state.pending.end(7)
    assert unsettled_state.due() == ({}, {OTHER_SUBNET.uuid: None})
    unsettled_state.pending.begin(8, subscription.additions(unsettled_state.store.snapshot, changes, mark="gantry/c/"))
    assert unsettled_state.due() == ({}, {})
    unsettled_state.pending.end(8)
    assert unsettled_state.due() == ({}, {OTHER_SUBNET.uuid: None})


def test_what_could_not_be_done_stays_due(unsettled_state: UnsettledState) -> None:
    unsettled_state.change(states.Put(embedding.net(SUBNET, OTHER_SUBNET)), states.Put(embedding.vm("v", "10.0.0.1")))
    unsettled_state.change(states.Delete("instances", "v"))
    unsettled_state.keep()
    with pytest.raises(OSError), unsettled_state.pending.due():
        raise OSError
    assert unsettled_state.due() == ({("net", "10.0.0.1"): SUBNET.uuid}, {OTHER_SUBNET.uuid: OTHER_SUBNET})
