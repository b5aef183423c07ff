"""Addresses that a plan skips after a conflict with other owners of a shared database."""

from collections.abc import Iterator

import pytest
from tests.ipam import test_embedded as embedding

from gantry import errors
from gantry.ipam import conflicts, network_addresses, subscription
from gantry.ipam.sql import records
from gantry.runtime import simulated

BELOW = 3
"""How many addresses are skipped: what a random number is in these tests."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[simulated.SimulatedRuntime]:
    with simulated.World(seed=1) as world:
        machine = world.machine("master")
        monkeypatch.setattr(machine.random, "below", lambda _: BELOW)
        yield machine


def additions(*addresses: str) -> subscription.Additions:
    allocations = {("net", ip): records.Allocation("s", ip, "gantry/c/vm", ip) for ip in addresses}
    return subscription.Additions((), allocations)


def known(
    machine: simulated.SimulatedRuntime, addresses: tuple[str, ...], *near: str, requested: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the addresses that the ledger knows after a conflict, and the owner of each."""
    followed_state = embedding.FollowedState(embedding.net(embedding.subnet("192.0.2.0/24")))
    ledger = followed_state.ledger
    keys: list[network_addresses.NetworkAddress] = [("net", ip) for ip in requested]
    conflicts.Conflicts(machine, ledger).add(
        7, [records.Allocation("s", ip, "somebody", ip) for ip in near], additions(*addresses),
        followed_state.state, requested=keys, where="the database d", attempt=3,
    )  # fmt: skip
    return {ip: ledger.foreign.owner(("net", ip)) for _, ip in ledger.foreign.addresses()}


def test_addresses_after_the_conflicting_one_are_skipped_and_not_those_after_others_of_the_plan(
    machine: simulated.SimulatedRuntime,
) -> None:
    skipped = dict.fromkeys(("192.0.2.11", "192.0.2.12", "192.0.2.13"), "")
    assert known(machine, ("192.0.2.10", "192.0.2.50"), "192.0.2.10") == {"192.0.2.10": "somebody", **skipped}


def test_of_several_conflicting_addresses_the_skipped_ones_follow_the_last(machine: simulated.SimulatedRuntime) -> None:
    skipped = dict.fromkeys(("192.0.2.51", "192.0.2.52", "192.0.2.53"), "")
    owned = dict.fromkeys(("192.0.2.10", "192.0.2.50", "192.0.2.54"), "somebody")
    assert known(machine, ("192.0.2.50", "192.0.2.10"), *owned) == {**owned, **skipped}


@pytest.mark.parametrize(
    ("conflicting", "skipped"),
    [
        ("255.255.255.254", ["255.255.255.255"]), ("255.255.255.255", []),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffd",
         ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
    ],
)  # fmt: skip
def test_no_address_is_skipped_after_the_last_of_the_family(
    machine: simulated.SimulatedRuntime, conflicting: str, skipped: list[str]
) -> None:
    assert known(machine, (conflicting,), conflicting) == {conflicting: "somebody", **dict.fromkeys(skipped, "")}


def test_an_address_that_was_requested_is_refused_by_its_owner(machine: simulated.SimulatedRuntime) -> None:
    with pytest.raises(
        errors.NotUniqueError,
        match=r"address 192\.0\.2\.10 of network net1 is allocated to somebody in the database d; choose another",
    ):
        known(machine, ("192.0.2.10",), "192.0.2.10", requested=("192.0.2.10",))
