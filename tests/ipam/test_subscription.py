"""A state and its changes as records of a shared database."""

import pytest
from msgspec import structs
from tests.ipam import test_embedded as embedding

from gantry.ipam import subscription
from gantry.ipam.sql import records
from gantry.model import network
from gantry.state.objects import snapshot as states

MARK = "gantry/c/"
NET = network.Network(
    uuid="net",
    name="lab",
    subnets=(
        network.Subnet(uuid="s4", cidr="192.0.2.0/24", pools=(network.Pool(range="192.0.2.10-192.0.2.19"),)),
        network.Subnet(uuid="s6", cidr="2001:db8::/64"),
    ),
)


@pytest.mark.parametrize(
    ("ip", "subnet"),
    [
        ("192.0.2.0", "s4"), ("192.0.2.255", "s4"), ("192.0.3.0", ""), ("2001:db8::1", "s6"), ("2001:db8:0:1::", ""),
        ("::c000:201", ""),
    ],
)  # fmt: skip
def test_an_address_is_in_the_subnet_that_contains_it(ip: str, subnet: str) -> None:
    assert subscription.subnet_of(NET, ip) == subnet
    assert subscription.subnet_of(None, ip) == ""


def test_an_address_outside_of_every_subnet_is_not_for_the_database() -> None:
    state = embedding.FollowedState(NET).state
    change = states.Put(embedding.vm("v", "192.0.2.10", "198.51.100.1"))
    assert subscription.additions(state, [change], mark=MARK) == subscription.Additions(
        [], {("net", "192.0.2.10"): records.Allocation("s4", "192.0.2.10", "gantry/c/v", "192.0.2.10")}
    )


@pytest.mark.parametrize("is_new", [True, False])
def test_an_address_in_a_subnet_of_the_same_plan_is_for_the_database(is_new: bool) -> None:
    state = embedding.FollowedState(*([] if is_new else [structs.replace(NET, subnets=NET.subnets[1:])])).state
    changes = [states.Put(NET), states.Put(embedding.vm("v", "192.0.2.10"))]
    added = subscription.additions(state, changes, mark=MARK)
    assert added.addresses == {
        ("net", "192.0.2.10"): records.Allocation("s4", "192.0.2.10", "gantry/c/v", "192.0.2.10")
    }
    assert added.subnets == list(map(subscription.record_of, NET.subnets if is_new else NET.subnets[:1]))


def test_addresses_that_only_a_job_holds_are_expected_with_the_mark_as_their_owner() -> None:
    followed_state = embedding.FollowedState(NET)
    followed_state.change(states.Put(embedding.vm("v", "192.0.2.10")), states.Put(embedding.port("p", "2001:db8::1")))
    held_addresses = [("net", "192.0.2.10"), ("net", "192.0.2.11"), ("net", "198.51.100.1"), ("gone", "192.0.2.12")]
    content = subscription.content([followed_state.state] * 2, held_addresses, mark=MARK)
    only_held = records.Allocation("s4", "192.0.2.11", MARK, "192.0.2.11")
    assert content.held == {("net", "192.0.2.11"): only_held}
    assert content.expected.mark == MARK
    assert [*content.expected.subnets] == ["s4", "s6"]
    assert content.expected.allocations == {
        ("s4", "c000020a"): records.Allocation("s4", "192.0.2.10", "gantry/c/v", "192.0.2.10"),
        ("s6", f"20010db8{1:024x}"): records.Allocation("s6", "2001:db8::1", "gantry/c/p", "2001:db8::1"),
        ("s4", "c000020b"): only_held,
    }
