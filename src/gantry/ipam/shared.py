"""Addresses in a database that others use too: other masters, and servers such as Neutron's (driver ``sql``).

The master goes on to plan with its ledger; the database has the last word on who has an address. Between a plan and
its transaction the processor has what the plan newly takes secured there, all of it or nothing; an address that
somebody else holds is learnt (``foreign``) and the unit plans anew. A task gives back what the database has and the
state has not, or not any more (``unsettled``); a database that does not answer makes that late, never wrong. After a
start the two are compared (``sql.sharing.survey``), before anything is secured.

Invariant: an address that the state has is in the database before it is in the state, and leaves it after it has left
the state for good.

Life cycle: made by the master daemon, which registers ``follow`` as an observer of the store; ``start`` when it is
confirmed, ``close`` at its end. ``move_in`` and ``move_out`` are the work of OP_CLUSTER_SET_PARAMS, which holds all
networks meanwhile. While the state alone keeps the addresses (``on`` is false) nothing here runs.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded, places, subscription, unsettled
from gantry.ipam.sql import engines, records, schema, sharing, statements
from gantry.runtime import interface
from gantry.state import snapshot as states

log = logging.getLogger(__name__)

T = TypeVar("T")

TRIES = 8
"""How often a unit plans because others have what it picked; what is learnt each time doubles."""

AHEAD = 64
"""How many allocations behind an address that others hold are learnt at the first try."""

ASIDE = 4096
"""How far behind an address that was lost a plan looks for another one, before it looks everywhere."""

RETRY = 5.0
"""Seconds until a database that did not answer is asked again, and between two looks at what others hold."""

CHUNK = 100
"""How many subnets one transaction compares and mends."""


class Store(unsettled.States, Protocol):
    """The state (``state.transaction.Store``)."""

    @property
    def deposed(self) -> bool:
        """Tell whether a node has refused this master."""
        ...


class Shared:
    """What the master does in a database with the addresses of its cluster."""

    def __init__(self, runtime: interface.Runtime, ledger: embedded.Ledger, store: Store) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._store = store
        self._database: engines.Database | None = None
        self._before: engines.Database | None = None
        self._moving = self._ready = False
        self._looked = -RETRY
        self._opening = asyncio.Lock()
        self._releasing = asyncio.Lock()
        self._open = unsettled.Unsettled(ledger, store)
        self._aside: dict[int, list[places.Place]] = {}
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        """Tell whether a database has the last word."""
        return self._database is not None

    @property
    def _mark(self) -> str:
        return f"{sharing.CLUSTERS}{self._store.snapshot.the_cluster.uuid}/"

    def start(self) -> None:
        """Use the database that the state names, if it names one; it is compared as soon as it answers."""
        owner = self._store.snapshot.the_cluster
        if owner.ipam_driver == "sql":
            self._use(engines.open_database(owner.ipam_database))

    async def close(self) -> None:
        """End the task and the connections that are not at work."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for database in filter(None, (self._database, self._before)):
            database.close()

    def _use(self, database: engines.Database | None) -> None:
        self._database, self._ready = database, False
        self._work.set()
        if database and self._task is None:
            self._task = asyncio.create_task(self._follow_up(), name="shared addresses")

    async def _do(self, work: Callable[[statements.Statements], T]) -> T:
        assert self._database
        return await self._runtime.block(functools.partial(self._database.change, work))

    async def _look(self) -> sharing.Survey:
        truth, database = await self._truth(), self._database
        assert database
        return await self._runtime.block(lambda: database.read(lambda db: sharing.survey(db, truth)))

    def follow(self, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Note what a change of the state gives up."""
        del after
        if self._database is not None:
            self._open.note(before, changes)

    async def secure(
        self, job: int, before: states.Snapshot, changes: Sequence[states.Change], *, attempt: int
    ) -> bool:
        """Have the database take what a plan newly takes, which is held for the job, and describe its subnets.

        False if others hold some of it, and the ledger knows now, or have changed the database: nothing was taken.
        Raises NotUniqueError for one of which that was known, so that it was asked for by name, and what the database
        cannot do.
        """
        asked = subscription.asked(before, changes, mark=self._mark)
        if not asked:
            return True
        # What was known when the plan was made, in this turn of the loop, no pool has given.
        named = {place for place in asked.addresses if place in self._ledger.foreign}
        await self._get_ready()
        if self._database is None:
            return True
        self._open.begin(job, asked)
        if not self._open.leaving.keys().isdisjoint(asked.addresses):
            async with self._releasing:
                pass
        mark, ahead = self._mark, AHEAD << attempt
        try:
            await self._do(lambda db: _secure(db, asked, mark=mark, ahead=ahead))
        except sharing.HeldError as held:
            self._learn(held, asked, before, named=named)
            self._step_aside(job, held.near, asked, attempt=attempt)
            return False
        except errors.NotFoundError:
            # Somebody has removed a subnet of ours, or restored an old database: all is compared before the next try.
            self._ready = False
            return False
        for place in asked.addresses:
            self._ledger.forget(place)
        return True

    def _learn(
        self,
        held: sharing.HeldError,
        asked: subscription.Asked,
        before: states.Snapshot,
        *,
        named: Collection[places.Place],
    ) -> None:
        cables = {one.subnet: cable for (cable, _), one in asked.addresses.items()}
        for one in held.near:
            place = cables[one.subnet], one.address
            if place in named:
                raise errors.NotUniqueError(
                    f"address {one.address} of network {before.networks[place[0]].name} is held by "
                    f"{subscription.called(one.owner)} in {self._name}",
                    hint="choose another one",
                )
            if place not in before.addresses:
                self._ledger.learn(place, one.owner)

    def _step_aside(
        self, job: int, near: Iterable[records.Allocation], asked: subscription.Asked, *, attempt: int
    ) -> None:
        """Keep pools from a few addresses behind those that were lost, until the job ends or nothing else is free.

        Two masters that both pick the first free one would meet at every address, and one of them lose each time.
        """
        lost = {(one.subnet, one.address) for one in near}
        places_lost = [place for place, one in asked.addresses.items() if (one.subnet, one.address) in lost]
        cable, address = max(
            ((cable, ranges.parse_address(ip)) for cable, ip in places_lost), key=lambda one: one[1].value
        )
        numbers, number = self._ledger.space(cable, address.family), address.value
        end = min(number + ASIDE, (1 << address.family.bits) - 1)
        for _ in range(self._runtime.random.below(1 << attempt)):
            found = numbers.next_free(number + 1, end) if number < end else None
            if found is None:
                break
            number, free = found, (cable, str(ranges.Address(address.family, found)))
            self._ledger.learn(free, "")
            self._aside.setdefault(job, []).append(free)

    def _come_back(self, job: int) -> bool:
        """Let pools hand out what ``_step_aside`` kept them from; tell whether there was any."""
        left = self._aside.pop(job, ())
        for place in left:
            self._ledger.forget(place)
        return bool(left)

    @property
    def _name(self) -> str:
        return self._database.name if self._database else "no database"

    def used_up(self) -> errors.GantryError:
        """Return the error for a plan that others were in the way of, again and again."""
        return errors.BusyError(
            f"others were quicker at the addresses that were picked, {TRIES} times, in {self._name}", hint="try again"
        )

    async def look_again(self, job: int) -> bool:
        """Forget what others have given back, when a plan of a job found no room; tell whether there was any."""
        if self._come_back(job):
            return True
        known, now = self._ledger.foreign.places(), self._runtime.clock.monotonic()
        if self._database is None or not known or now - self._looked < RETRY:
            return False
        self._looked = now
        await self._get_ready()
        found = await self._look()
        still = self._places_of(found.others)
        gone = [place for place in known if place not in still]
        for place in gone:
            self._ledger.forget(place)
        return bool(gone)

    def done(self, job: int) -> None:
        """Look at what a job has left behind, when nothing is held for it any more."""
        self._come_back(job)
        self._open.end(job)
        self._work.set()

    async def _follow_up(self) -> None:
        """Give back what is not in the state, for as long as the daemon lives."""
        silent = False
        while True:
            waits = self._open or (self._database and not self._ready)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY if waits else None):
                    await self._work.wait()
            self._work.clear()
            try:
                await self._give_back()
            except errors.GantryError as error:
                if not silent:
                    log.error("addresses wait for their database: %s", error)
                silent = True
                # Each job that ends wakes this: a database that is down is not asked at each.
                await self._runtime.clock.sleep(RETRY)
            else:
                silent = False

    async def _give_back(self) -> None:
        if self._database is None or self._store.deposed:
            return
        await self._get_ready()
        async with self._releasing:
            mark = self._mark
            with self._open.due() as (due, subnets):
                if self.on and (due or subnets):
                    await self._do(lambda db: _give_back(db, due, subnets, mark=mark))

    async def _truth(self) -> sharing.Truth:
        """Return what the state says; what is held for running jobs stays as it is, and is looked at later."""
        state, held, mark = (self._store.durable, self._store.snapshot), self._ledger.holdings(), self._mark
        found = await self._runtime.block(lambda: subscription.truth(state, held, mark=mark))
        self._open.look_at(found.held)
        return found.truth

    async def _get_ready(self) -> None:
        """Compare the database with the state, once."""
        if self._ready:
            return
        async with self._opening:
            if self._database is None or self._is_ready():
                return
            for one in await self._compare(self._database):
                log.error("address %s of subnet %s is in the state, but held by %s in %s",
                          one.address, one.subnet, subscription.called(one.owner), self._name)  # fmt: skip
            self._ready = True
            log.info("addresses are in %s", self._name)

    def _is_ready(self) -> bool:
        return self._ready

    async def _compare(self, database: engines.Database) -> list[records.Allocation]:
        """Bring a database to what the state says; return what others hold of that, and learn what else they hold."""
        truth = await self._truth()
        found = await self._runtime.block(lambda: _survey(database, truth))
        doubles, parts = found.doubles, [*found.parts.items()]
        for start in range(0, len(parts), CHUNK):
            work = functools.partial(_settle, parts=parts[start : start + CHUNK], mark=truth.mark)
            doubles += await self._runtime.block(functools.partial(database.change, work))
        for place, owner in self._places_of(found.others).items():
            self._ledger.learn(place, owner)
        return doubles

    def _places_of(self, allocations: Iterable[records.Allocation]) -> dict[places.Place, str]:
        cables = self._store.snapshot.subnet_network
        return {(cables[one.subnet], one.address): one.owner for one in allocations if one.subnet in cables}

    async def check(self, url: str) -> None:
        """Raise what stands against a database, before anything of ours is in it; its tables are made."""
        database, truth = engines.open_database(url), await self._truth()
        try:
            found = await self._runtime.block(lambda: _survey(database, truth))
        finally:
            database.close()
        subscription.check_doubles(found.doubles, database.name)

    async def move_in(self, url: str) -> None:
        """Put all addresses into a database that has the last word from now on; ``abandon`` or ``settle`` follows."""
        database = engines.open_database(url)
        async with self._opening:
            self._before, self._moving = self._database, True
            # From here on plans are secured there, and wait until it is ready.
            self._use(database)
            subscription.check_doubles(await self._compare(database), database.name)
            self._ready = True

    async def abandon(self) -> None:
        """Take ``move_in`` back: who had the last word has it again, and what was put into the database goes.

        What was in another database stays in this one: both may be the same, by another way.
        """
        if not self._moving:
            return
        left, old, self._before, self._moving = self._database, self._before, None, False
        await self._leave(left, old, clear=old is None)

    async def settle(self) -> None:
        """End ``move_in``, when the state names the database."""
        if self._before:
            self._before.close()
        self._before, self._moving = None, False

    async def check_alone(self) -> None:
        """Raise WrongStateError if others hold addresses of our subnets, which the state alone would hand out again."""
        await self._get_ready()
        found = await self._look()
        subscription.check_alone([*found.doubles, *found.others], self._name)

    async def move_out(self) -> None:
        """Let the state alone have the last word, and take all addresses out of the database."""
        await self._leave(self._database, None, clear=True)

    async def _leave(self, left: engines.Database | None, old: engines.Database | None, *, clear: bool) -> None:
        self._use(old)
        self._open.clear()
        for place in self._ledger.foreign.places():
            self._ledger.forget(place)
        if left and clear:
            mark, subnets = self._mark, [*self._store.snapshot.subnet_network]
            for start in range(0, len(subnets), CHUNK):
                work = functools.partial(sharing.clear, subnets=subnets[start : start + CHUNK], mark=mark)
                await self._runtime.block(functools.partial(left.change, work))
        if left:
            left.close()


def _secure(db: statements.Statements, asked: subscription.Asked, *, mark: str, ahead: int) -> None:
    for subnet in asked.subnets:
        sharing.describe(db, subnet, mark=mark)
    sharing.secure(db, asked.addresses.values(), mark=mark, ahead=ahead)


def _give_back(
    db: statements.Statements,
    due: dict[places.Place, str],
    subnets: dict[str, subscription.Known],
    *,
    mark: str,
) -> None:
    sharing.release(db, [(subnet, ip) for (_, ip), subnet in due.items()], mark=mark)
    for subnet, known in subnets.items():
        if known is None:
            sharing.drop(db, subnet)
        else:
            sharing.describe(db, subscription.described(known), mark=mark)


def _survey(database: engines.Database, truth: sharing.Truth) -> sharing.Survey:
    schema.prepare(database)
    return database.read(lambda db: sharing.survey(db, truth))


def _settle(
    db: statements.Statements, *, parts: Iterable[tuple[str, sharing.Part]], mark: str
) -> list[records.Allocation]:
    return [one for subnet, part in parts for one in sharing.settle(db, subnet, part, mark=mark)]
