"""The ledger of a reader who sees a part of the state."""

import pytest
from tests.ipam import test_embedded as embedding
from tests.ipam import test_quarantine as quarantining
from tests.ipam import test_segments as segmenting

from gantry.address import ranges
from gantry.ipam import embedded, partial
from gantry.model import instance
from gantry.state.objects import snapshot as states

IPV4, IPV6 = ranges.Family.IPV4, ranges.Family.IPV6


def used(ledger: embedded.Ledger, network_uuid: str, cidr: str) -> list[str]:
    """Return the used addresses of a part of a network."""
    family, run = ranges.parse_range(cidr)
    runs = ledger.space(network_uuid, family).used_runs(run)
    return [str(ranges.Address(family, number)) for part in runs for number in range(part.first, part.last + 1)]


@pytest.fixture
def followed_state() -> embedding.FollowedState:
    """A state of two networks, in which the instance ``own`` is visible to the reader, and ``hidden`` is not."""
    followed = embedding.FollowedState(
        embedding.net(embedding.subnet("10.0.0.0/24", "10.0.0.1-10.0.0.9"), embedding.subnet("2001:db8::/64")),
        embedding.net(embedding.subnet("10.0.0.0/24", "10.0.0.1-10.0.0.9"), uuid="two"),
    )
    nics = (
        instance.Nic(uuid="n1", mac="m1", network="net", ip=("10.0.0.3", "2001:db8::1")),
        instance.Nic(uuid="n2", mac="m2", network="two", ip=("10.0.0.8",)),
    )
    own = instance.Instance(uuid="own", name="own.example", primary_node="n", hypervisor="fake", nics=nics)
    hidden = embedding.vm("hidden", "10.0.0.4", "2001:db8::2")
    followed.change(states.Put(own), states.Put(hidden), states.Put(embedding.port("p", "10.0.0.5")))
    return followed


def part_of(followed: embedding.FollowedState) -> states.Snapshot:
    hidden = states.Delete("instances", "hidden"), states.Delete("ports", "p")
    return followed.state.apply(hidden, serial=followed.state.serial + 1)


def test_in_a_network_that_is_seen_in_part_only_the_addresses_of_visible_instances_are_used(
    followed_state: embedding.FollowedState,
) -> None:
    ledger = partial.PartialLedger(followed_state.ledger, part_of(followed_state), networks=(), segments=False)
    for _ in range(2):
        assert used(ledger, "net", "10.0.0.0/24") == ["10.0.0.3"]
        assert used(ledger, "net", "2001:db8::/120") == ["2001:db8::1"]
        assert used(ledger, "net", "::a00:0/120") == []
        assert used(ledger, "two", "10.0.0.0/24") == ["10.0.0.8"]
        assert used(ledger, "unknown", "10.0.0.0/24") == []
    assert ledger.space("net", IPV4) is ledger.space("net", IPV4)
    assert ledger.space("net", IPV4) is not ledger.space("net", IPV6)


def test_a_network_that_is_seen_whole_has_the_used_addresses_of_the_ledger(
    followed_state: embedding.FollowedState,
) -> None:
    ledger = partial.PartialLedger(followed_state.ledger, part_of(followed_state), networks={"net"}, segments=False)
    assert used(ledger, "net", "10.0.0.0/24") == ["10.0.0.3", "10.0.0.4", "10.0.0.5"]
    assert used(ledger, "net", "2001:db8::/120") == ["2001:db8::1", "2001:db8::2"]
    assert used(ledger, "two", "10.0.0.0/24") == ["10.0.0.8"]


def test_the_free_addresses_of_a_pool_are_those_that_the_reader_knows(followed_state: embedding.FollowedState) -> None:
    net = followed_state.state.networks["net"]
    subnet, pool = net.subnets[0], net.subnets[0].pools[0]
    views = [
        partial.PartialLedger(followed_state.ledger, part_of(followed_state), networks=whole, segments=False).view(
            net, subnet, pool
        )
        for whole in ((), ("net",))
    ]
    assert [(view.free, view.map) for view in views] == [(8, "..X......"), (6, "..XXX....")]


def test_no_record_of_the_quarantine_is_in_the_ledger_of_a_part() -> None:
    quarantined_state = quarantining.QuarantinedState()
    quarantined_state.commit(states.Put(embedding.vm("v", "10.0.0.1")))
    quarantined_state.commit(states.Delete("instances", "v"))
    assert [record.ip for record in quarantined_state.ledger.quarantined("net")] == ["10.0.0.1"]
    ledger = partial.PartialLedger(quarantined_state.ledger, quarantined_state.state, networks={"net"}, segments=False)
    assert not ledger.quarantined("net")


def test_the_used_segments_are_in_the_ledger_of_a_part_that_has_all_ranges() -> None:
    whole = embedded.Ledger()
    vlans = segmenting.make_range("r", 100, 109)
    state = segmenting.START.apply([states.Put(segmenting.ON), states.Put(vlans)], serial=2)
    whole.follow(state, state, ())
    ledgers = [partial.PartialLedger(whole, state, networks=(), segments=seen) for seen in (True, False)]
    assert [ledger.segments is whole.segments for ledger in ledgers] == [True, False]
