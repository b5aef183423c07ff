"""Pools bound to a cluster's network: no address has two owners, wherever a controller stops."""

import datetime
import random
from collections.abc import Generator

import pytest
from tests.kubernetes.claims import bound, server

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta, schema
from gantry.kubernetes.claims import actions, cluster_reservations, reconcile_claim

NAMES = ["a", "b", "c", "d", "e"]
LATER = datetime.timedelta(seconds=reconcile_claim.GRACE_SECONDS + 1)


class BoundPool:
    """A server with a pool of four addresses bound to a network, and one controller."""

    def __init__(self, spec: schema.Json | None = None) -> None:
        self.server, self.cluster = server.Server(), bound.Cluster()
        self.server.create(bound.pool(spec=spec))
        self.controller = self.begin()

    def begin(self) -> bound.Controller:
        self.controller = bound.Controller(self.server, cluster=self.cluster)
        return self.controller

    def ask(self, *names: str) -> None:
        for name in names:
            self.server.create(server.claim(name))
        self.settle()

    def settle(self) -> None:
        self.controller.settle()

    def address_of(self, name: str) -> str:
        return server.address_of_claim(self.server, name)

    def error(self, name: str) -> str:
        return server.error(self.server, name)

    def delete(self, name: str) -> None:
        self.server.delete(claim_ref(name))
        self.settle()

    def ready(self) -> meta.Condition:
        pool = server.struct(self.server.get(ipam.pool_ref(server.SITE, "pool-1")))
        assert isinstance(pool, ipam.IPPool)
        return next(condition for condition in pool.status.conditions if condition.type == "Ready")


def claim_ref(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


@pytest.fixture
def bound_pool() -> BoundPool:
    return BoundPool()


def test_an_address_of_a_bound_pool_is_reserved_for_its_claim(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    assert bound_pool.address_of("a") == "10.0.0.1"
    assert bound_pool.cluster.owner("10.0.0.1") == "a"


def test_it_is_free_for_instances_again_when_the_claim_has_gone(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    assert not bound_pool.cluster.take("10.0.0.1", "vm1")
    bound_pool.delete("a")
    assert bound_pool.cluster.held == {}


def test_so_it_is_when_the_claim_is_deleted_before_a_new_controller_has_read_the_network(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    bound_pool.controller = bound.Controller(bound_pool.server, cluster=bound_pool.cluster, is_late=True)
    bound_pool.delete("a")
    assert bound_pool.cluster.owner("10.0.0.1") == "a"
    assert claim_ref("a") in bound_pool.server.objects
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.cluster.held == {}
    assert claim_ref("a") not in bound_pool.server.objects


def test_what_an_instance_has_is_given_to_no_claim(bound_pool: BoundPool) -> None:
    bound_pool.cluster.take("10.0.0.1", "vm1")
    bound_pool.controller.read()
    bound_pool.cluster.take("10.0.0.2", "vm2")  # since then
    bound_pool.ask("a")
    assert bound_pool.address_of("a") == "10.0.0.3"


def test_what_the_network_keeps_back_is_given_to_no_claim(bound_pool: BoundPool) -> None:
    bound_pool.cluster.external = ("10.0.0.0-10.0.0.2",)
    bound_pool.begin()
    bound_pool.ask("a")
    assert bound_pool.address_of("a") == "10.0.0.3"


def test_a_claim_that_asks_for_an_instances_address_hears_who_has_it_and_gets_it_later(bound_pool: BoundPool) -> None:
    bound_pool.cluster.take("10.0.0.2", "vm1")
    bound_pool.controller.read()
    bound_pool.server.create(server.claim("a", annotations={"ipAddress": "10.0.0.2"}))
    bound_pool.settle()
    assert "10.0.0.2 is in use by instance vm1" in bound_pool.error("a")
    bound_pool.cluster.allocate("10.0.0.2")
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.address_of("a") == "10.0.0.2"


def test_claims_wait_for_addresses_that_instances_have(bound_pool: BoundPool) -> None:
    for number in range(1, 5):
        bound_pool.cluster.take(f"10.0.0.{number}", f"vm{number}")
    bound_pool.ask("a")
    assert "Exhausted" in bound_pool.error("a")
    bound_pool.cluster.allocate("10.0.0.3")
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.address_of("a") == "10.0.0.3"


def test_claims_of_bound_pools_wait_with_the_reason_while_the_cluster_is_away_and_others_do_not(
    bound_pool: BoundPool,
) -> None:
    bound_pool.ask("a")
    bound_pool.cluster.is_away = True
    bound_pool.server.create(server.pool("plain", namePrefix="plain"))
    bound_pool.server.create(server.claim("c", "plain"))
    bound_pool.ask("b")
    assert "the cluster is unavailable" in bound_pool.error("b")
    assert bound_pool.ready().reason == "NetworkNotReady"
    assert bound_pool.address_of("a")
    assert bound_pool.address_of("c")
    writes = bound_pool.server.writes
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.server.writes == writes
    bound_pool.cluster.is_away = False
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.address_of("b") == "10.0.0.2"
    assert bound_pool.ready().status == "True"


def test_a_controller_that_begins_while_the_cluster_is_away_leaves_bound_claims_alone(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    bound_pool.cluster.is_away = True
    writes = bound_pool.server.writes
    bound_pool.begin()
    bound_pool.settle()
    assert bound_pool.address_of("a") == "10.0.0.1"
    assert bound_pool.error("a") == ""
    assert bound_pool.server.writes == writes + 1, "the status of the pool, and nothing else"


def test_without_a_cluster_nothing_is_given_out_of_a_bound_pool() -> None:
    world = server.Server()
    world.create(bound.pool())
    world.create(server.claim("a"))
    server.Controller(world).settle()
    assert "without --cluster" in server.error(world, "a")


@pytest.mark.parametrize(
    ("spec", "network", "reason"),
    [
        ({"pools": [{"start": "10.0.0.250", "end": "10.0.1.3"}]}, "net1", "10.0.1.0-10.0.1.3 is outside every subnet"),
        ({"pools": [{"subnet": "2001:db8::/64"}]}, "net1", "is outside every subnet of network net1 (10.0.0.0/24)"),
        ({}, "net2", "the cluster has no network net2"),
    ],
)
def test_a_pool_that_does_not_fit_its_network_says_why(spec: dict[str, object], network: str, reason: str) -> None:
    world, cluster = server.Server(), bound.Cluster()
    world.create(bound.pool(network=network, spec=spec))
    world.create(server.claim("a"))
    bound.Controller(world, cluster=cluster).settle()
    assert reason in server.error(world, "a")
    pool = server.struct(world.get(ipam.pool_ref(server.SITE, "pool-1")))
    assert isinstance(pool, ipam.IPPool)
    assert any(
        reason in condition.message and condition.reason == "NetworkNotReady" for condition in pool.status.conditions
    )
    assert cluster.held == {}


def test_an_address_made_by_hand_is_reserved_or_its_claim_hears_who_has_it(bound_pool: BoundPool) -> None:
    bound_pool.cluster.take("10.0.0.4", "vm1")
    bound_pool.controller.read()
    bound_pool.server.create(server.address("by-hand-3", "10.0.0.3", claim="a"))
    bound_pool.server.create(server.address("by-hand-4", "10.0.0.4", claim="b"))
    bound_pool.ask("a", "b")
    assert bound_pool.address_of("a") == "10.0.0.3"
    assert bound_pool.cluster.owner("10.0.0.3") == "a"
    assert "10.0.0.4 is in use by instance vm1" in bound_pool.error("b")
    bound_pool.cluster.allocate("10.0.0.4")
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.address_of("b") == "10.0.0.4"
    assert bound_pool.cluster.owner("10.0.0.4") == "b"


def test_an_address_made_by_hand_without_a_claim_is_reserved(bound_pool: BoundPool) -> None:
    bound_pool.server.create(server.address("by-hand-3", "10.0.0.3", claim="nobody"))
    bound_pool.settle()
    assert bound_pool.cluster.owner("10.0.0.3") == "nobody"


def test_what_a_pool_gave_out_before_it_was_bound_is_reserved() -> None:
    bound_pool = BoundPool()
    bound_pool.server.patch(ipam.pool_ref(server.SITE, "pool-1"), {"metadata": {"annotations": None}})
    bound_pool.settle()
    bound_pool.ask("a", "b")
    assert bound_pool.cluster.held == {}
    bound_pool.cluster.take("10.0.0.2", "vm1")
    bound_pool.server.patch(
        ipam.pool_ref(server.SITE, "pool-1"), {"metadata": {"annotations": {ipam.NETWORK_ANNOTATION: "net1"}}}
    )
    bound_pool.settle()
    bound_pool.controller.read()
    bound_pool.settle()
    assert bound_pool.cluster.owner("10.0.0.1") == "a"
    assert (bound_pool.address_of("b"), bound_pool.cluster.owner("10.0.0.2")) == ("10.0.0.2", "vm1"), (
        "a claim keeps its address"
    )


def test_a_reservation_of_a_claim_that_has_gone_is_given_up_after_a_while(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    (reservation,) = bound_pool.cluster.reservations()
    bound_pool.delete("a")
    bound_pool.cluster.reserve(reservation)
    bound_pool.begin()
    bound_pool.settle()
    bound_pool.controller.sweep()
    assert bound_pool.cluster.owner("10.0.0.1") == "a"
    bound_pool.server.now += LATER
    bound_pool.controller.sweep()
    assert bound_pool.cluster.held == {}


def test_a_reservation_stays_whose_pool_is_not_here_or_is_paused(bound_pool: BoundPool) -> None:
    elsewhere = cluster_reservations.Reservation(
        bound.UUID, ranges.parse_address("10.0.0.4"), claim_ref("x"), ipam.pool_ref(server.SITE, "moved")
    )
    paused = cluster_reservations.Reservation(
        bound.UUID, ranges.parse_address("10.0.0.3"), claim_ref("y"), ipam.pool_ref(server.SITE, "pool-1")
    )
    bound_pool.cluster.reserve(elsewhere)
    bound_pool.cluster.reserve(paused)
    bound_pool.server.patch(ipam.pool_ref(server.SITE, "pool-1"), {"metadata": {"annotations": {meta.PAUSED: ""}}})
    bound_pool.begin()
    bound_pool.controller.sweep()
    bound_pool.server.now += LATER
    bound_pool.controller.sweep()
    assert len(bound_pool.cluster.held) == 2


def test_a_pool_stays_until_its_reservations_are_given_up(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    (reservation,) = bound_pool.cluster.reservations()
    bound_pool.delete("a")
    bound_pool.cluster.reserve(reservation)
    bound_pool.begin()
    pool = ipam.pool_ref(server.SITE, "pool-1")
    bound_pool.server.delete(pool)
    bound_pool.settle()
    assert pool in bound_pool.server.objects
    bound_pool.controller.sweep()
    bound_pool.server.now += LATER
    bound_pool.controller.sweep()
    bound_pool.settle()
    assert pool not in bound_pool.server.objects


def test_an_old_view_in_which_an_address_has_gone_does_not_free_it(bound_pool: BoundPool) -> None:
    bound_pool.ask("a")
    bound_pool.cluster.subnets = ("10.9.0.0/24",)  # so that no other can be picked
    bound_pool.controller.read()
    bound_pool.settle()
    address = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1")
    bound_pool.controller.work |= bound_pool.controller.known.remove(address)
    bound_pool.settle()
    assert bound_pool.cluster.owner("10.0.0.1") == "a"
    assert bound_pool.address_of("a") == "10.0.0.1"


def test_a_random_pool_goes_on_with_what_was_reserved_before_the_crash() -> None:
    bound_pool = BoundPool({"allocationStrategy": "random"})
    bound_pool.server.create(server.claim("a"))
    bound_pool.controller.see()
    turns = bound_pool.controller.steps()
    while not bound_pool.cluster.held:
        next(turns)
    (kept,) = bound_pool.cluster.reservations()
    bound_pool.begin()
    bound_pool.controller.below = lambda count: (kept.address.value + 1) % count
    bound_pool.settle()
    assert bound_pool.address_of("a") == str(kept.address)
    assert bound_pool.cluster.reservations() == [kept]


class World:
    """Users that create and delete claims, instances, and a controller that stops between any two requests."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        strategy = self.random.choice([ipam.SEQUENTIAL, ipam.RANDOM])
        self.server, self.cluster = server.Server(), bound.Cluster()
        self.server.create(bound.pool(spec={"allocationStrategy": strategy}))
        # Another pool of the same numbers: only the ledger is between the two.
        self.server.create(bound.pool("pool-2", spec={"allocationStrategy": strategy}))
        self.controller = bound.Controller(self.server, cluster=self.cluster)
        self.running: Generator[None, None, None] | None = None

    def turn(self) -> None:
        does = [
            self.ask,
            self.give_up,
            self.start,
            self.stop,
            self.leave,
            self.see,
            self.go_on,
            self.read,
            self.restart,
            self.take_by_hand,
            self.delete_address,
        ]
        self.random.choices(does, weights=[6, 4, 3, 2, 1, 6, 14, 3, 2, 1, 1])[0]()
        self.server.now += datetime.timedelta(seconds=self.random.choice([0, 1, 60]))

    def ask(self) -> None:
        make = self.random.choice([server.claim, server.capi_claim])
        body = make(self.random.choice(NAMES), self.random.choice(["pool-1", "pool-2"]))
        if server.struct(body).ref not in self.server.objects:
            self.server.create(body)

    def give_up(self) -> None:
        claims = sorted(ref for ref in self.server.objects if "Claim" in ref.kind)
        if claims:
            self.server.delete(self.random.choice(claims))

    def start(self) -> None:
        self.cluster.take(f"10.0.0.{self.random.randint(1, 4)}", f"vm{self.random.randint(1, 9)}")

    def stop(self) -> None:
        addresses = [address for address, who in self.cluster.held.items() if isinstance(who, meta.Ref)]
        if addresses:
            del self.cluster.held[self.random.choice(sorted(addresses))]

    def leave(self) -> None:
        self.cluster.is_away = not self.cluster.is_away

    def see(self) -> None:
        self.controller.see(self.random.randint(1, 8))

    def read(self) -> None:
        self.controller.read()

    def go_on(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            turn = self.running = self.running or self.controller.steps()
            if next(turn, self) is self:
                self.running = None
                return

    def restart(self) -> None:
        self.controller = bound.Controller(self.server, cluster=self.cluster, seed=len(self.server.log))
        self.running = None

    def take_by_hand(self) -> None:
        text = f"10.0.0.{self.random.randint(1, 4)}"
        ref = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, f"by-hand-{text[-1]}")
        if ref not in self.server.objects:
            self.server.create(server.address(ref.name, text, claim=self.random.choice(NAMES)))
            self.restart()

    def delete_address(self) -> None:
        references = sorted(ref for ref in self.server.objects if ref.kind == "IPAddress")
        if references:
            self.server.delete(self.random.choice(references))

    def addresses(self) -> list[actions.Address]:
        objects = map(server.struct, self.server.objects.values())
        return [each for each in objects if isinstance(each, actions.Address)]

    def reported_addresses(self) -> dict[meta.Ref, str]:
        """Return the existing addresses in the status of claims."""
        names = {(address.claim, address.metadata.name): address.spec.address for address in self.addresses()}
        objects = map(server.struct, self.server.objects.values())
        claims = [each for each in objects if isinstance(each, actions.Claim) and not each.is_deleting]
        return {claim.ref: text for claim in claims if (text := names.get((claim.ref, claim.address_name)))}

    def check(self) -> None:
        """Each address in the status of a claim is reserved for that claim."""
        for ref, text in self.reported_addresses().items():
            owner = self.cluster.held.get(ranges.parse_address(text))
            assert isinstance(owner, cluster_reservations.Reservation), f"{ref} has {text}, the ledger says {owner}"
            assert owner.claim == ref

    def end(self) -> None:
        self.cluster.is_away = False
        self.server.now += LATER
        self.restart()
        self.controller.settle()
        self.controller.sweep()
        self.server.now += LATER
        self.controller.sweep()
        self.controller.read()
        self.controller.settle()
        self.check()
        reserved = {(reservation.claim, str(reservation.address)) for reservation in self.cluster.reservations()}
        assert reserved <= {(address.claim, address.spec.address) for address in self.addresses()}
        assert self.reported_addresses().items() <= reserved
        claims = {ref for ref in self.server.objects if "Claim" in ref.kind}
        # Who was given one by hand that another has, waits for that.
        assert (
            claims <= self.reported_addresses().keys() | {address.claim for address in self.addresses()}
            or len(self.cluster.held) == 4
        )


@pytest.mark.parametrize("seed", range(30))
def test_no_claim_gets_an_address_that_the_cluster_has_not_reserved_for_it(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.turn()
        world.check()
    world.end()
