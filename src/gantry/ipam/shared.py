"""Addresses in a database that others use too: other masters, and servers such as Neutron's (driver ``sql``).

The master still plans with its ledger, but the database decides who gets an address. Between a plan and its transaction
the processor calls ``secure``, which allocates all new addresses of the plan in the database, or none. If another owner
has an address, the ledger records that (``foreign``) and the unit makes a new plan. A task releases the addresses that
the database has and the state does not have (``unsettled``); if the database does not answer, that release is late, but
never wrong. After a start, the database is compared with the state (``sql.sharing.survey``) before any address is
secured.

Invariant: an address enters the database before it enters the state, and leaves the database after the durable state
has dropped it.

Life cycle: the master daemon creates the ``Shared`` and registers ``follow`` as an observer of the store; it calls
``start`` when its mastership is confirmed, ``close`` at its end. OP_CLUSTER_SET_PARAMS calls ``move_in`` and
``move_out`` while it locks all networks. While the state alone decides (``on`` is false), nothing here runs.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded, network_addresses, subscription, unsettled
from gantry.ipam.sql import engines, records, schema, sharing, statements
from gantry.runtime import interface
from gantry.state import snapshot as states

log = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 8
"""How many plans a unit makes when other owners have the addresses; each attempt learns twice as many of them."""

NEIGHBOURS_LEARNT = 64
"""How many allocations after a conflicting address the first attempt learns."""

SKIP_RANGE = 4096
"""How many numbers after a conflicting address a plan searches for another address, before it searches all."""

RETRY_SECONDS = 5.0
"""Back-off after a database did not answer, and interval between two readings of other owners' addresses."""

SUBNETS_PER_TRANSACTION = 100
"""How many subnets one transaction compares and corrects."""


OpenDatabase = Callable[[str], engines.Database]
"""Returns the database that a URL names (``engines.open_database``); simulations have a database of their own."""


class Store(unsettled.States, Protocol):
    """The state (``state.transaction.Store``)."""

    @property
    def deposed(self) -> bool:
        """Return whether a node has refused this master."""
        ...


class Shared:
    """The addresses of a master's cluster in a shared database."""

    def __init__(
        self,
        runtime: interface.Runtime,
        ledger: embedded.Ledger,
        store: Store,
        *,
        open_database: OpenDatabase = engines.open_database,
    ) -> None:
        self._runtime = runtime
        self._open = open_database
        self._ledger = ledger
        self._store = store
        self._database: engines.Database | None = None
        self._previous: engines.Database | None = None
        self._moving = self._ready = False
        self._surveyed_at = -RETRY_SECONDS
        self._compare_lock = asyncio.Lock()
        self._release_lock = asyncio.Lock()
        self._unsettled = unsettled.Unsettled(ledger, store)
        self._skipped: dict[int, list[network_addresses.NetworkAddress]] = {}
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        """Return whether a database decides about allocations."""
        return self._database is not None

    @property
    def _mark(self) -> str:
        return f"{sharing.CLUSTERS}{self._store.snapshot.the_cluster.uuid}/"

    def start(self) -> None:
        """Use the database that the state names, if any; compare it with the state as soon as it answers."""
        owner = self._store.snapshot.the_cluster
        if owner.ipam_driver == "sql":
            self._use(self._open(owner.ipam_database))

    async def close(self) -> None:
        """End the task and close the idle connections."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for database in filter(None, (self._database, self._previous)):
            database.close()

    def _use(self, database: engines.Database | None) -> None:
        self._database, self._ready = database, False
        self._work.set()
        if database and self._task is None:
            self._task = asyncio.create_task(self._follow_up(), name="shared addresses")

    async def _do(self, work: Callable[[statements.Statements], T]) -> T:
        assert self._database
        return await self._runtime.block(functools.partial(self._database.change, work))

    async def _survey(self) -> sharing.Survey:
        expected, database = await self._expected(), self._database
        assert database
        return await self._runtime.block(lambda: database.read(lambda db: sharing.survey(db, expected)))

    def follow(self, before: states.Snapshot, after: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Record the addresses that a change of the state releases."""
        del after
        if self._database is not None:
            self._unsettled.note(before, changes)

    async def secure(
        self, job: int, before: states.Snapshot, changes: Sequence[states.Change], *, attempt: int
    ) -> bool:
        """Allocate a plan's new addresses, which the job holds, in the database, and write its subnets there.

        Return False, with nothing allocated, if other owners have some of the addresses (the ledger then knows these),
        or others have changed the database. NotUniqueError if the ledger knew the other owner before: then the plan's
        request named the address. Errors of the database.
        """
        additions = subscription.additions(before, changes, mark=self._mark)
        if not additions:
            return True
        # The ledger knew these when the plan was made, in this turn of the event loop, so no pool allocated them.
        requested = {key for key in additions.addresses if key in self._ledger.foreign}
        await self._get_ready()
        if self._database is None:
            return True
        self._unsettled.begin(job, additions)
        if not self._unsettled.leaving.keys().isdisjoint(additions.addresses):
            async with self._release_lock:
                pass
        mark, ahead = self._mark, NEIGHBOURS_LEARNT << attempt
        try:
            await self._do(lambda db: _secure(db, additions, mark=mark, ahead=ahead))
        except sharing.HeldError as conflict:
            self._learn(conflict, additions, before, requested=requested)
            self._skip_addresses(job, conflict.near, additions, attempt=attempt)
            return False
        except errors.NotFoundError:
            # Someone removed a subnet of this cluster, or restored an old database: compare all before the next try.
            self._ready = False
            return False
        for key in additions.addresses:
            self._ledger.forget(key)
        return True

    def _learn(
        self,
        conflict: sharing.HeldError,
        additions: subscription.Additions,
        before: states.Snapshot,
        *,
        requested: Collection[network_addresses.NetworkAddress],
    ) -> None:
        networks = {each.subnet: network_uuid for (network_uuid, _), each in additions.addresses.items()}
        for allocation in conflict.near:
            key = networks[allocation.subnet], allocation.address
            if key in requested:
                raise errors.NotUniqueError(
                    f"address {allocation.address} of network {before.networks[key[0]].name} is allocated to "
                    f"{subscription.owner_text(allocation.owner)} in {self._name}",
                    hint="choose another address",
                )
            if key not in before.addresses:
                self._ledger.learn(key, allocation.owner)

    def _skip_addresses(
        self, job: int, near: Iterable[records.Allocation], additions: subscription.Additions, *, attempt: int
    ) -> None:
        """Mark a few addresses after the conflicting ones as used, until the job ends or no other address is free.

        Two masters that always allocate the first free address would compete for every address, and one would lose
        each time.
        """
        conflicts = {(each.subnet, each.address) for each in near}
        keys = [key for key, each in additions.addresses.items() if (each.subnet, each.address) in conflicts]
        network_uuid, address = max(
            ((network_uuid, ranges.parse_address(ip)) for network_uuid, ip in keys), key=lambda pair: pair[1].value
        )
        numbers, number = self._ledger.space(network_uuid, address.family), address.value
        end = min(number + SKIP_RANGE, (1 << address.family.bits) - 1)
        for _ in range(self._runtime.random.below(1 << attempt)):
            free_number = numbers.next_free(number + 1, end) if number < end else None
            if free_number is None:
                break
            number, key = free_number, (network_uuid, str(ranges.Address(address.family, free_number)))
            self._ledger.learn(key, "")
            self._skipped.setdefault(job, []).append(key)

    def _free_skipped(self, job: int) -> bool:
        """Free the addresses that ``_skip_addresses`` marked for a job; return whether there were any."""
        keys = self._skipped.pop(job, ())
        for key in keys:
            self._ledger.forget(key)
        return bool(keys)

    @property
    def _name(self) -> str:
        return self._database.name if self._database else "no database"

    def conflict_error(self) -> errors.GantryError:
        """Return the error for a job whose every plan conflicted with other owners."""
        return errors.BusyError(
            f"other owners allocated the chosen addresses first, {ATTEMPTS} times, in {self._name}", hint="try again"
        )

    async def forget_released(self, job: int) -> bool:
        """Forget addresses that other owners have released, after a plan found none free; return whether any were."""
        if self._free_skipped(job):
            return True
        known, now = self._ledger.foreign.addresses(), self._runtime.clock.monotonic()
        if self._database is None or not known or now - self._surveyed_at < RETRY_SECONDS:
            return False
        self._surveyed_at = now
        await self._get_ready()
        survey = await self._survey()
        allocated = self._by_network_address(survey.foreign)
        released = [key for key in known if key not in allocated]
        for key in released:
            self._ledger.forget(key)
        return bool(released)

    def done(self, job: int) -> None:
        """Compare what a job may have left in the database, after its holds have ended."""
        self._free_skipped(job)
        self._unsettled.end(job)
        self._work.set()

    async def _follow_up(self) -> None:
        """Release addresses that are not in the state, until the daemon ends."""
        logged = False
        while True:
            unfinished = self._unsettled or (self._database and not self._ready)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if unfinished else None):
                    await self._work.wait()
            self._work.clear()
            try:
                await self._release_due()
            except errors.GantryError as error:
                if not logged:
                    log.error("addresses cannot be released in the shared database yet: %s", error)
                logged = True
                # The end of each job wakes this task; the back-off spares a database that is down.
                await self._runtime.clock.sleep(RETRY_SECONDS)
            else:
                logged = False

    async def _release_due(self) -> None:
        if self._database is None or self._store.deposed:
            return
        await self._get_ready()
        async with self._release_lock:
            mark = self._mark
            with self._unsettled.due() as (due, subnets):
                if self.on and (due or subnets):
                    await self._do(lambda db: _release_due(db, due, subnets, mark=mark))

    async def _expected(self) -> sharing.Expected:
        """Return the content that the database should have; allocations that jobs hold are kept, and compared later."""
        state, held_addresses, mark = (
            (self._store.durable, self._store.snapshot),
            self._ledger.held_addresses(),
            self._mark,
        )
        content = await self._runtime.block(lambda: subscription.content(state, held_addresses, mark=mark))
        self._unsettled.add(content.held)
        return content.expected

    async def _get_ready(self) -> None:
        """Compare the database with the state, once."""
        if self._ready:
            return
        async with self._compare_lock:
            if self._database is None or self._is_ready():
                return
            for allocation in await self._compare(self._database):
                log.error("address %s of subnet %s is in the state, but allocated to %s in %s",
                          allocation.address, allocation.subnet,
                          subscription.owner_text(allocation.owner), self._name)  # fmt: skip
            self._ready = True
            log.info("the addresses of the cluster are in %s", self._name)

    def _is_ready(self) -> bool:
        return self._ready

    async def _compare(self, database: engines.Database) -> list[records.Allocation]:
        """Make a database match the state, and learn other owners' addresses; return those that the state has too."""
        expected = await self._expected()
        survey = await self._runtime.block(lambda: _survey(database, expected))
        conflicts, parts = survey.conflicts, [*survey.parts.items()]
        for start in range(0, len(parts), SUBNETS_PER_TRANSACTION):
            work = functools.partial(_settle, parts=parts[start : start + SUBNETS_PER_TRANSACTION], mark=expected.mark)
            conflicts += await self._runtime.block(functools.partial(database.change, work))
        for key, owner in self._by_network_address(survey.foreign).items():
            self._ledger.learn(key, owner)
        return conflicts

    def _by_network_address(
        self, allocations: Iterable[records.Allocation]
    ) -> dict[network_addresses.NetworkAddress, str]:
        networks = self._store.snapshot.subnet_network
        return {(networks[each.subnet], each.address): each.owner for each in allocations if each.subnet in networks}

    async def check(self, url: str) -> None:
        """Create a database's tables, and raise the error that prevents its use; write no address."""
        database, expected = self._open(url), await self._expected()
        try:
            survey = await self._runtime.block(lambda: _survey(database, expected))
        finally:
            database.close()
        subscription.check_conflicts(survey.conflicts, database.name)

    async def move_in(self, url: str) -> None:
        """Write all addresses into a database, which decides from now on; call ``abandon`` or ``settle`` afterwards."""
        database = self._open(url)
        async with self._compare_lock:
            self._previous, self._moving = self._database, True
            # From here on, plans are secured in this database, and wait until it is ready.
            self._use(database)
            subscription.check_conflicts(await self._compare(database), database.name)
            self._ready = True

    async def abandon(self) -> None:
        """Undo ``move_in``: use the former database or the state alone again, and remove what ``move_in`` wrote.

        If the addresses were in another database before, they stay in the new one too: both may be the same database,
        under different URLs.
        """
        if not self._moving:
            return
        former, previous, self._previous, self._moving = self._database, self._previous, None, False
        await self._leave(former, previous, clear=previous is None)

    async def settle(self) -> None:
        """Complete ``move_in`` after the state names the database."""
        if self._previous:
            self._previous.close()
        self._previous, self._moving = None, False

    async def check_alone(self) -> None:
        """Raise WrongStateError if other owners have addresses that the state alone could allocate again."""
        await self._get_ready()
        survey = await self._survey()
        subscription.check_alone([*survey.conflicts, *survey.foreign], self._name)

    async def move_out(self) -> None:
        """Let the state alone decide, and remove all addresses from the database."""
        await self._leave(self._database, None, clear=True)

    async def _leave(self, former: engines.Database | None, database: engines.Database | None, *, clear: bool) -> None:
        self._use(database)
        self._unsettled.clear()
        for key in self._ledger.foreign.addresses():
            self._ledger.forget(key)
        if former and clear:
            mark, subnets = self._mark, [*self._store.snapshot.subnet_network]
            for start in range(0, len(subnets), SUBNETS_PER_TRANSACTION):
                work = functools.partial(
                    sharing.clear, subnets=subnets[start : start + SUBNETS_PER_TRANSACTION], mark=mark
                )
                await self._runtime.block(functools.partial(former.change, work))
        if former:
            former.close()


def _secure(db: statements.Statements, additions: subscription.Additions, *, mark: str, ahead: int) -> None:
    for subnet in additions.subnets:
        sharing.describe(db, subnet, mark=mark)
    sharing.secure(db, additions.addresses.values(), mark=mark, ahead=ahead)


def _release_due(
    db: statements.Statements,
    due: dict[network_addresses.NetworkAddress, str],
    subnets: dict[str, subscription.Known],
    *,
    mark: str,
) -> None:
    sharing.release(db, [(subnet, ip) for (_, ip), subnet in due.items()], mark=mark)
    for subnet, known in subnets.items():
        if known is None:
            sharing.drop(db, subnet)
        else:
            sharing.describe(db, subscription.record_of(known), mark=mark)


def _survey(database: engines.Database, expected: sharing.Expected) -> sharing.Survey:
    schema.prepare(database)
    return database.read(lambda db: sharing.survey(db, expected))


def _settle(
    db: statements.Statements, *, parts: Iterable[tuple[str, sharing.Part]], mark: str
) -> list[records.Allocation]:
    return [each for subnet, part in parts for each in sharing.settle(db, subnet, part, mark=mark)]
