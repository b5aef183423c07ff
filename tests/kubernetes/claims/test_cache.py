"""The cache and pool spaces compared with a simple model, and the cost of an allocation."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz import budget
from tests.kubernetes.claims import server

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, cache, pool_space, reconcile_claim

SPECS = [
    ipam.PoolSpec(name_prefix="p", pools=(ipam.Range(start="10.0.0.1", end="10.0.0.9"),)),
    ipam.PoolSpec(name_prefix="p", prefix=30, pools=(ipam.Range(start="10.0.0.0", end="10.0.0.9"),)),
    ipam.PoolSpec(name_prefix="p", gateway="10.0.0.3", pools=(ipam.Range(subnet="10.0.0.0/28", end="10.0.0.9"),)),
    ipam.PoolSpec(
        name_prefix="p",
        excluded_addresses=("10.0.0.4-10.0.0.6",),
        pre_allocations={"x": "10.0.0.2", "y": "10.0.0.5"},
        pools=(ipam.Range(start="10.0.0.7", end="10.0.0.9"), ipam.Range(start="10.0.0.1", end="10.0.0.8")),
    ),
]
HOLDERS = [meta.Ref("", "", "", str(number)) for number in range(3)]
NUMBERS = [ranges.parse_address(f"10.0.0.{number}") for number in range(12)]


def plain_free(spec: ipam.PoolSpec, taken: set[ranges.Address]) -> list[str]:
    """Return the free addresses in order, by a scan of each range."""
    closed = {spec.gateway, *spec.pre_allocations.values()}
    for text in spec.excluded_addresses:
        family, run = ranges.parse_range(text)
        closed |= {ranges.format_address(family, number) for number in range(run.first, run.last + 1)}
    out: list[str] = []
    for pool_range in spec.pools:
        if pool_range.subnet:
            closed |= {"10.0.0.0", "10.0.0.15"}
        elif spec.prefix == 30:
            closed |= {f"10.0.0.{number}" for number in range(16) if number % 4 in (0, 3)}
        first, last = int((pool_range.start or "10.0.0.0").split(".")[3]), int(pool_range.end.split(".")[3])
        texts = [f"10.0.0.{number}" for number in range(first, last + 1)]
        out += [
            candidate
            for candidate in texts
            if candidate not in closed and candidate not in out and ranges.parse_address(candidate) not in taken
        ]
    return out


class RoomMachine(RuleBasedStateMachine):
    """The model is the set of owners of each address."""

    @initialize(spec=st.sampled_from(SPECS))
    def begin(self, spec: ipam.PoolSpec) -> None:
        self.spec, self.room = spec, pool_space.PoolSpace(spec)
        self.held: set[tuple[ranges.Address, meta.Ref]] = set()

    @rule(number=st.sampled_from(NUMBERS), holder=st.sampled_from(HOLDERS))
    def hold(self, number: ranges.Address, holder: meta.Ref) -> None:
        self.room.add_owner(number, holder)
        self.held.add((number, holder))

    @rule(number=st.sampled_from(NUMBERS), holder=st.sampled_from(HOLDERS))
    def allocate(self, number: ranges.Address, holder: meta.Ref) -> None:
        self.held.discard((number, holder))
        assert self.room.remove_owner(number, holder) == (number not in {address for address, _ in self.held})

    @rule(start=st.integers(0, 10**6))
    def draw(self, start: int) -> None:
        free = plain_free(self.spec, {address for address, _ in self.held})
        number = self.room.find_free(below=lambda size: start % size)
        assert str(number.address) in free if number else not free

    @invariant()
    def the_first_free_and_the_counts_are_those_of_the_model(self) -> None:
        if not hasattr(self, "room"):
            return
        free = plain_free(self.spec, {address for address, _ in self.held})
        number = self.room.find_free(below=None)
        assert (str(number.address) if number else None) == next(iter(free), None)
        assert self.room.counts()[2] == len(free)
        assert self.room.has_free == bool(free)


TestRoom = RoomMachine.TestCase
TestRoom.settings = settings(max_examples=budget.examples(60), stateful_step_count=30, deadline=None)


def test_an_older_version_of_an_object_changes_nothing() -> None:
    seen = cache.Cache()
    body = server.claim("a", uid="1", resourceVersion="7", labels={"new": "yes"})
    seen.put(server.struct(body))
    assert not seen.put(server.struct(server.claim("a", uid="1", resourceVersion="5")))
    claim = seen.claim(server.struct(body).ref)
    assert claim is not None
    assert claim.metadata.labels == {"new": "yes"}
    assert seen.put(server.struct(server.claim("a", uid="2", resourceVersion="5")))


def test_whatever_comes_first_the_numbers_in_use_are_the_same() -> None:
    bodies = [server.pool(), server.pool("pool-2", namePrefix="pool-1"), server.claim("a")]
    bodies += [server.address(f"x{number}", f"10.0.0.{number}", claim="a", of=f"pool-{number}") for number in (1, 2)]
    for seed in range(10):
        seen = cache.Cache()
        for body in random.Random(seed).sample(bodies, len(bodies)):
            seen.put(server.struct(body))
        for name in ("pool-1", "pool-2"):
            space = seen.space_of(ipam.pool_ref(server.SITE, name))
            assert space is not None
            assert sorted(map(str, space.owners)) == ["10.0.0.1", "10.0.0.2"]


def test_claims_that_are_served_at_the_same_time_get_different_numbers() -> None:
    seen, pool = cache.Cache(), ipam.pool_ref(server.SITE, "pool-1")
    seen.put(server.struct(server.kept_pool()))
    for name in "abcdef":
        seen.put(server.struct(server.claim(name, finalizers=[ipam.CLAIM_FINALIZER])))
    decisions = []
    while next_decision := reconcile_claim.step(seen, pool, now=server.BEGIN, below=lambda _: 0):
        decisions.append(next_decision)
    addresses = [step.address for decision in decisions for step in decision.steps if isinstance(step, actions.Create)]
    assert [address.spec.address for address in addresses] == [f"10.0.0.{number}" for number in range(1, 5)]
    # The last two wait; a number whose claim goes before its object is made is theirs.
    for decision in decisions:
        seen.finish(decision.claim)
    seen.remove(decisions[0].claim)
    again = reconcile_claim.step(seen, pool, now=server.BEGIN, below=lambda _: 0)
    assert again is not None
    (step,) = again.steps
    assert isinstance(step, actions.Create)
    assert (again.claim.name, step.address.spec.address) == ("e", "10.0.0.1")


def test_a_claim_that_is_being_served_is_not_handed_out_again_meanwhile() -> None:
    seen, pool = cache.Cache(), ipam.pool_ref(server.SITE, "pool-1")
    seen.put(server.struct(server.pool()))
    seen.put(server.struct(server.claim("a", resourceVersion="1")))
    assert reconcile_claim.step(seen, pool, now=server.BEGIN, below=lambda _: 0)
    seen.put(server.struct(server.claim("a", resourceVersion="2")))
    assert reconcile_claim.step(seen, pool, now=server.BEGIN, below=lambda _: 0) is None
    assert seen.finish(ipam_claim("a")) == {pool}
    assert reconcile_claim.step(seen, pool, now=server.BEGIN, below=lambda _: 0)


def ipam_claim(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def test_a_claim_that_waits_gives_up_what_was_booked_for_it() -> None:
    # Or it waits for itself: an event that was late made the number look taken after it was booked.
    known = cache.Cache()
    uid = {"uid": "u", "resourceVersion": "1"}
    bodies = {
        name: {**body, "metadata": {**server.metadata(body), **uid}}
        for name, body in {
            "pool": server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]),
            "claim": server.claim("one"),
            "old": server.address("pool-1-10-0-0-1", "10.0.0.1", claim="gone"),
        }.items()
    }
    pool, old = (server.struct(bodies[name]) for name in ("pool", "old"))
    for name in ("pool", "claim"):
        known.put(server.struct(bodies[name]))

    def step() -> reconcile_claim.Decision:
        while True:
            decision = reconcile_claim.step(known, pool.ref, now=server.BEGIN, below=lambda _: 0)
            assert decision
            if decision.claim.name == "one":
                return decision

    first = step()
    assert isinstance(first.steps[0], actions.Patch)
    known.finish(first.claim, again=True)
    known.put(old)
    waits = step()
    assert waits.claim.name == "one"
    claim = known.claim(waits.claim)
    assert claim
    assert known.assumed_address(claim) is None
    known.finish(waits.claim)
    assert pool.ref in known.remove(old.ref)
    assert isinstance(step().steps[0], actions.Patch)


def test_a_cluster_that_has_gone_is_waited_for_like_one_that_has_not_come() -> None:
    known = cache.Cache()
    cluster = server.struct(server.cluster("edge"))
    bodies = (server.pool(clusterName="edge"), server.claim("one"))
    known.put(cluster)
    for number, body in enumerate(bodies):
        known.put(server.struct({**body, "metadata": {**server.metadata(body), "uid": f"uid-{number}"}}))
    assert known.clusters.get(server.SITE, "edge") == cluster
    assert ipam.pool_ref(server.SITE, "pool-1") in known.remove(cluster.ref)
    assert known.clusters.get(server.SITE, "edge") is None
    assert known.remove(cluster.ref) == set()
