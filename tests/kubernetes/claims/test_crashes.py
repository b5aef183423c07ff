"""Two controllers with stale caches, which stop and restart between any two requests, on a fake API server.

Invariants: no two claims have the same address in their status, among pools that share addresses, and no address in a
status changes. In the end, after few writes, every claim has an address with its UID, or the reason why not: its pool
is exhausted. Nothing of deleted claims is left. Users create, use and delete claims, create and delete addresses by
hand, grow and shrink pools, and write wrong values into a status.
"""

import contextlib
import datetime
import random
from collections.abc import Generator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz import budget
from tests.kubernetes.claims import server

from gantry.kubernetes.api import capi, ipam, meta
from gantry.kubernetes.claims import actions, cache, reconcile_claim

NAMES = ["a", "b", "c", "d", "e", "f"]
USER = "example.org/user"
OWN = ("allocations", "addresses", "total", "used", "free", "waiting", "conditions", "ipAddress")
"""Fields of a status that only our own definitions know."""


POOLS = {"pool-1": "pool-1", "pool-2": "pool-1", "pool-3": "pool-3"}
"""The pools and their prefixes: those of one prefix share their numbers."""
RANGES = [(1, 4), (1, 3), (2, 5), (3, 4)]
WEIGHTS = {
    "ask": 6,
    "give_up": 4,
    "use": 2,
    "take_by_hand": 1,
    "delete_address": 1,
    "resize": 1,
    "lie": 1,
    "strip": 1,
    "see": 8,
    "go_on": 12,
    "restart": 2,
    "land": 2,
}
DOES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]


class World:
    """A server, users, and two controllers with arbitrarily stale caches."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        strategy = self.random.choice([ipam.SEQUENTIAL, ipam.RANDOM])
        self.server = server.Server(pruned=self.random.choice([(), OWN]))
        ahead = {"a": "10.0.0.2"} if self.random.random() < 0.5 else {}
        self.server.create(server.pool(allocationStrategy=strategy, preAllocations=ahead))
        self.server.create(server.pool("pool-2", namePrefix="pool-1", allocationStrategy=strategy))
        self.server.create(server.pool("pool-3", pools=[{"start": "10.0.0.3", "end": "10.0.0.5"}]))
        self.controllers = [server.Controller(self.server, seed=1), server.Controller(self.server, seed=2)]
        self.running: list[Generator[None, None, None] | None] = [None, None]
        self.told: dict[str, str] = {}
        self.late: list[actions.Action] = []
        self.lies: dict[meta.Ref, str] = {}

    def turn(self, name: str) -> None:
        does = {
            "ask": self.ask,
            "give_up": self.give_up,
            "use": self.use,
            "take_by_hand": self.take_by_hand,
            "delete_address": self.delete_address,
            "resize": self.resize,
            "lie": self.lie,
            "strip": self.strip,
            "see": self.see,
            "go_on": self.go_on,
            "restart": self.restart,
            "land": self.land,
        }
        does[name]()
        self.server.now += datetime.timedelta(seconds=self.random.choice([0, 1, 60]))

    def ask(self) -> None:
        make = self.random.choice([server.claim, server.capi_claim])
        body = make(self.random.choice(NAMES), self.random.choice(list(POOLS)))
        if server.struct(body).ref not in self.server.objects:
            self.server.create(body)

    def some_claim(self) -> meta.Ref | None:
        claims = sorted(ref for ref in self.server.objects if "Claim" in ref.kind)
        return self.random.choice(claims) if claims else None

    def give_up(self) -> None:
        ref = self.some_claim()
        if ref:
            self.server.delete(ref)

    def use(self) -> None:
        ref = self.some_claim()
        if ref:
            seen = server.struct(self.server.objects[ref])
            finalizers = [finalizer for finalizer in seen.metadata.finalizers if finalizer != USER]
            if USER not in seen.metadata.finalizers and not seen.is_deleting:
                finalizers.append(USER)
            self.server.patch(ref, {"metadata": {"finalizers": finalizers}})

    def take_by_hand(self) -> None:
        text = f"10.0.0.{self.random.randint(1, 4)}"
        ref = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, f"by-hand-{text[-1]}")
        if ref in self.server.objects:
            self.server.delete(ref)
        elif text not in {address.spec.address for address in self.addresses()}:
            self.server.create(server.address(ref.name, text, claim=f"hand-{text[-1]}"))
            # Its name makes no conflict: it is honoured by those who see it before they pick.
            self.restart(0)
            self.restart(1)

    def delete_address(self) -> None:
        addresses = self.addresses()
        if addresses:
            self.server.delete(self.random.choice(addresses).ref)

    def resize(self) -> None:
        first, last = self.random.choice(RANGES)
        ranges = [{"start": f"10.0.0.{first}", "end": f"10.0.0.{last}"}]
        self.server.patch(ipam.pool_ref(server.SITE, self.random.choice(list(POOLS))), {"spec": {"pools": ranges}})

    def lie(self) -> None:
        """Write an address, existing or not, into the status of a claim, as a user."""
        ref = self.some_claim()
        if ref:
            name = self.random.choice(
                [*(address.metadata.name for address in self.addresses()), "pool-1-10-0-0-3", "x/../y"]
            )
            field = "address" if ref.group == ipam.GROUP else "addressRef"
            self.server.patch(ref, {"status": {field: {"name": name}}}, subresource="status")
            self.lies[ref] = name
            uid = server.metadata(self.server.objects[ref])["uid"]
            self.told.pop(f"{ref} {uid}", None)

    def strip(self) -> None:
        """Remove a claim in spite of its finalizers, as a server may if both are requested at the same time."""
        ref = self.some_claim()
        if ref:
            self.server.patch(ref, {"metadata": {"finalizers": []}})
            if ref in self.server.objects:
                self.server.delete(ref)

    def see(self) -> None:
        self.random.choice(self.controllers).see(self.random.randint(1, 8))

    def go_on(self) -> None:
        which = self.random.randrange(2)
        for _ in range(self.random.randint(1, 12)):
            turn = self.running[which] or self.controllers[which].steps()
            self.running[which] = turn
            if next(turn, self) is self:
                self.running[which] = None
                return

    def restart(self, which: int | None = None) -> None:
        which = self.random.randrange(2) if which is None else which
        sent = self.controllers[which].sending
        # Its last request may be on its way still.
        if sent and self.random.random() < 0.5 and not self.is_hindered(sent, self.controllers[which].known):
            self.late.append(sent)
        self.controllers[which] = server.Controller(self.server, seed=len(self.server.log))
        self.running[which] = None

    def is_hindered(self, action: actions.Action, known: cache.Cache) -> bool:
        if not isinstance(action, actions.Patch | actions.Delete):
            return False
        gone = action.current is not None and action.current.ref not in self.server.objects
        return gone or self.server.obstacle(action, known) is not None

    def land(self) -> None:
        if not self.late:
            return
        action = self.late.pop(self.random.randrange(len(self.late)))
        with contextlib.suppress(server.RefusedError):
            if isinstance(action, actions.Create):
                self.server.create(action.address.to_json())
            elif isinstance(action, actions.Patch):
                self.server.patch(action.ref, action.body, subresource=action.subresource)
            elif isinstance(action, actions.Delete):
                self.server.delete(action.ref, action.uid)

    def addresses(self) -> list[ipam.IPAddress | capi.IPAddress]:
        objects = map(server.struct, self.server.objects.values())
        return [each_claim for each_claim in objects if isinstance(each_claim, ipam.IPAddress | capi.IPAddress)]

    def bound(self) -> dict[meta.Ref, ipam.IPAddress | capi.IPAddress]:
        by_name = {(address.claim, address.metadata.name): address for address in self.addresses()}
        objects = map(server.struct, self.server.objects.values())
        claims = [
            each_claim
            for each_claim in objects
            if isinstance(each_claim, ipam.IPClaim | capi.IPAddressClaim) and each_claim.address_name
        ]
        truthful = [claim for claim in claims if self.lies.get(claim.ref) != claim.address_name]
        named = [(each_claim, by_name.get((each_claim.ref, each_claim.address_name))) for each_claim in truthful]
        assert all(its_address or each_claim.is_deleting for each_claim, its_address in named), (
            "a claim has an address that is not there"
        )
        return {each_claim.ref: its_address for each_claim, its_address in named if its_address}

    def check(self) -> None:
        now = self.bound()
        numbers = [(POOLS[address.pool.name], address.spec.address) for address in now.values()]
        assert len(numbers) == len(set(numbers)), "an address was given twice"
        keys = {
            f"{ref} {server.metadata(self.server.objects[ref])['uid']}": each_claim for ref, each_claim in now.items()
        }
        texts = {key: each_claim.spec.address for key, each_claim in keys.items()}
        assert all(self.told.get(key, text) == text for key, text in texts.items()), "a claim changed its address"
        self.told |= texts

    def end(self) -> None:
        while self.late:
            self.land()
        for ref, body in list(self.server.objects.items()):
            if USER in server.struct(body).metadata.finalizers:
                finalizers = [finalizer for finalizer in server.struct(body).metadata.finalizers if finalizer != USER]
                self.server.patch(ref, {"metadata": {"finalizers": finalizers}})
        self.server.now += datetime.timedelta(seconds=reconcile_claim.GRACE_SECONDS + 1)
        began, many = self.server.writes, len(self.server.objects)
        server.Controller(self.server).settle()
        assert self.server.writes - began <= 8 * many, "it takes more writes than there is work"
        self.lies.clear()
        self.check()
        claims = {ref for ref in self.server.objects if "Claim" in ref.kind}
        assert not any(server.struct(self.server.objects[ref]).is_deleting for ref in claims)
        assert all(
            address.claim in claims or address.metadata.name.startswith("by-hand") for address in self.addresses()
        )
        bound = self.bound()
        for ref in claims - set(bound):
            assert self.is_full(ref), ref
        for ref, address in bound.items():
            uids = {owner.uid for owner in address.metadata.owner_references}
            assert not address.metadata.finalizers or server.metadata(self.server.objects[ref])["uid"] in uids
        before = self.server.writes
        server.Controller(self.server).settle()
        assert self.server.writes == before, "a controller that begins with everything done writes"

    def is_full(self, ref: meta.Ref) -> bool:
        """Return whether a claim waits for a valid reason, as in its status: none free, or not its own address."""
        claim = server.struct(self.server.objects[ref])
        assert isinstance(claim, ipam.IPClaim | capi.IPAddressClaim)
        pool = server.struct(self.server.get(claim.pool))
        assert isinstance(pool, ipam.IPPool)
        assert claim.status.error_message if isinstance(claim, ipam.IPClaim) else claim.ready.message
        owners = {
            address.spec.address for address in self.addresses() if POOLS[address.pool.name] == POOLS[claim.pool.name]
        }
        ahead = pool.spec.pre_allocations
        (pool_range,) = pool.spec.pools
        first, last = (int(text.rpartition(".")[2]) for text in (pool_range.start, pool_range.end))
        ranged = {f"10.0.0.{number}" for number in range(first, last + 1)}
        if ref.name in ahead:
            return ahead[ref.name] in owners or ahead[ref.name] not in ranged
        return ranged <= owners | set(ahead.values())


class Crashes(RuleBasedStateMachine):
    """The world, turn by turn."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = World(seed)

    @rule(name=st.sampled_from(DOES))
    def turn(self, name: str) -> None:
        self.world.turn(name)

    @invariant()
    def no_address_has_two_owners_and_no_claim_loses_its_address(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=budget.examples(40), stateful_step_count=120, deadline=None)
