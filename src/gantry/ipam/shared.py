"""Addresses in a database that others use too: other masters, and servers such as Neutron's (driver ``sql``).

The master still plans with its ledger, but the database decides who gets an address. Between a plan and its transaction
the processor calls ``secure``, which allocates all new addresses of the plan in the database, or none. If another owner
has an address, the ledger records that (``conflicts``) and the unit makes a new plan. A task releases the addresses
that the database has and the state does not have (``unsettled``); if the database does not answer, or another master
may have the addresses, that release is late, but never wrong. After a start, the database is compared with the state
(``sql.sharing.survey``) before any address is secured.

Invariant: an address enters the database before it enters the state, and leaves the database after the durable state
has dropped it, on a majority of the master candidates, and while no former master may still have it
(``Store.may_be_superseded``). A master that has a successor there changes nothing there any more (``sql.fence``).

Life cycle: the master daemon creates the ``Shared`` and registers ``follow`` as an observer of the store; it calls
``start`` when its mastership is confirmed, ``close`` at its end. OP_CLUSTER_SET_PARAMS calls ``move_in`` and
``move_out`` while it locks all networks. While the state alone decides (``on`` is false), nothing here runs.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from gantry import errors
from gantry.ipam import conflicts, embedded, network_addresses, shared_work, subscription, unsettled
from gantry.ipam.sql import engines, fence, records, sharing, statements
from gantry.runtime import interface
from gantry.state.journal import journal
from gantry.state.objects import snapshot as states

log = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 8
"""How many plans a unit makes when other owners have the addresses; each attempt learns twice as many of them."""

NEIGHBOURS_LEARNT = 64
"""How many allocations after a conflicting address the first attempt learns."""

RETRY_SECONDS = 5.0
"""Back-off after a database did not answer, and interval between two readings of other owners' addresses."""

SUBNETS_PER_TRANSACTION = 100
"""How many subnets one transaction compares and corrects."""


OpenDatabase = Callable[[str], engines.Database]
"""Returns the database that a URL names (``engines.open_database``); simulations have a database of their own."""


class Store(unsettled.States, Protocol):
    """The state (``state.store.transaction.Store``)."""

    @property
    def position(self) -> journal.Position:
        """Return the end of the journal, which has the epoch of this master."""
        ...

    @property
    def may_be_superseded(self) -> bool:
        """Return whether another master may run whose state differs from the durable state of this one."""
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
        self._moving = False
        # This master as of the last comparison; with another epoch it has to record itself, and compare again.
        self._compared_as: fence.Master | None = None
        # Whether the last comparison left addresses that the state lacks.
        self._has_surplus = False
        self._surveyed_at = -RETRY_SECONDS
        self._compare_lock = asyncio.Lock()
        self._release_lock = asyncio.Lock()
        self._unsettled = unsettled.Unsettled(ledger, store)
        self._conflicts = conflicts.Conflicts(runtime, ledger)
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        """Return whether a database decides about allocations."""
        return self._database is not None

    @property
    def _mark(self) -> str:
        return f"{sharing.CLUSTERS}{self._store.snapshot.the_cluster.uuid}/"

    @property
    def _master(self) -> fence.Master:
        return fence.Master(self._mark, self._store.position.epoch, self._store.snapshot.the_cluster.master_node)

    def start(self) -> None:
        """Use the database that the state names, if any; compare it with the state as soon as it answers."""
        the_cluster = self._store.snapshot.the_cluster
        if the_cluster.ipam_driver == "sql":
            self._use(self._open(the_cluster.ipam_database))

    async def close(self) -> None:
        """End the task and close the idle connections."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for database in filter(None, (self._database, self._previous)):
            database.close()

    def _use(self, database: engines.Database | None) -> None:
        self._database, self._compared_as, self._has_surplus = database, None, False
        self._work.set()
        if database and self._task is None:
            self._task = asyncio.create_task(self._follow_up(), name="shared addresses")

    async def _do(self, work: Callable[[statements.Statements], T]) -> T:
        assert self._database
        try:
            return await self._runtime.block(functools.partial(self._master.change, self._database, work))
        except errors.NotFoundError:
            # Someone removed a subnet of this cluster, or restored an old database: compare all before the next try.
            self._compared_as = None
            raise

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
            await self._do(lambda db: shared_work.secure(db, additions, mark=mark, ahead=ahead))
        except sharing.HeldError as conflict:
            self._conflicts.add(
                job, conflict.near, additions, before, requested=requested, where=self._name, attempt=attempt
            )
            return False
        except errors.NotFoundError:
            return False
        for key in additions.addresses:
            self._ledger.forget(key)
        return True

    @property
    def _name(self) -> str:
        return self._database.name if self._database else "no database"

    def conflict_error(self) -> errors.GantryError:
        """Return the error for a job whose every plan conflicted with other owners."""
        return errors.BusyError(
            f"other owners allocated the chosen addresses first, {ATTEMPTS} times, in {self._name}", hint="try again"
        )

    async def forget_released(self, job: int) -> bool:
        """Forget why addresses are not free, after a plan found none free; return whether there were any.

        In this order: addresses that are skipped for this job, those that other owners have released, and those that
        are skipped for other jobs, which then may conflict once more.
        """
        if self._conflicts.free_skipped(job):
            return True
        released = await self._released()
        for key in released:
            self._ledger.forget(key)
        return bool(released) or self._conflicts.free_all_skipped()

    async def _released(self) -> list[network_addresses.NetworkAddress]:
        """Return the addresses that other owners have released; none if the database has been read just before."""
        known, now = self._ledger.foreign.addresses(), self._runtime.clock.monotonic()
        if self._database is None or not known or now - self._surveyed_at < RETRY_SECONDS:
            return []
        self._surveyed_at = now
        await self._get_ready()
        survey = await self._survey()
        allocated = self._by_network_address(survey.foreign)
        return [key for key in known if key not in allocated and not self._conflicts.is_skipped(key)]

    def done(self, job: int) -> None:
        """Compare what a job may have left in the database, after its holds have ended."""
        self._conflicts.free_skipped(job)
        self._unsettled.end(job)
        self._work.set()

    async def _follow_up(self) -> None:
        """Release addresses that are not in the state, until the daemon ends."""
        logged = False
        while True:
            unfinished = self._unsettled or (self._database and (self._has_surplus or not self._is_ready()))
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
        if self._database is None:
            return
        if self._has_surplus and not self._store.may_be_superseded:
            self._compared_as = None
        # A new master compares at once, whatever it may release: from then on its predecessor changes nothing.
        await self._get_ready()
        if self._store.may_be_superseded:
            return
        async with self._release_lock:
            mark = self._mark
            with self._unsettled.due() as (due, subnets):
                if self.on and (due or subnets):
                    await self._do(lambda db: shared_work.release_due(db, due, subnets, mark=mark))

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
        if self._is_ready():
            return
        async with self._compare_lock:
            if self._database is None or self._is_ready():
                return
            # Another master may have what the state lacks: the task compares again when there is no other.
            has_surplus, master = self._store.may_be_superseded, self._master
            for allocation in await self._compare(self._database, master, release=not has_surplus):
                log.error("address %s of subnet %s is in the state, but allocated to %s in %s",
                          allocation.address, allocation.subnet,
                          subscription.owner_text(allocation.owner), self._name)  # fmt: skip
            self._compared_as, self._has_surplus = master, has_surplus
            log.info("the addresses of the cluster are in %s", self._name)

    def _is_ready(self) -> bool:
        return self._compared_as == self._master

    async def _compare(
        self, database: engines.Database, master: fence.Master, *, release: bool = True, force: bool = False
    ) -> list[records.Allocation]:
        """Record the master, make a database match the state, and learn other owners' addresses.

        Return those that the state has too. Without ``release``, the cluster's addresses that the state lacks stay in
        the database. With ``force``, a later master may have worked on it before.
        """
        expected = await self._expected()
        enter = functools.partial(master.record, force=force)
        survey = await self._runtime.block(lambda: shared_work.survey(database, expected, enter))
        for part in () if release else survey.parts.values():
            part.surplus.clear()
        conflicting, parts = survey.conflicts, [*survey.parts.items()]
        for start in range(0, len(parts), SUBNETS_PER_TRANSACTION):
            work = functools.partial(
                shared_work.settle, parts=parts[start : start + SUBNETS_PER_TRANSACTION], mark=expected.mark
            )
            conflicting += await self._runtime.block(functools.partial(master.change, database, work))
        for key, owner in self._by_network_address(survey.foreign).items():
            self._ledger.learn(key, owner)
        return conflicting

    def _by_network_address(
        self, allocations: Iterable[records.Allocation]
    ) -> dict[network_addresses.NetworkAddress, str]:
        networks = self._store.snapshot.subnet_network
        return {(networks[each.subnet], each.address): each.owner for each in allocations if each.subnet in networks}

    async def check(self, url: str, *, force: bool = False) -> None:
        """Create a database's tables, and raise the error that ``move_in`` would raise; write no address."""
        database, expected, master = self._open(url), await self._expected(), self._master
        enter = functools.partial(master.check, force=force)
        try:
            survey = await self._runtime.block(lambda: shared_work.survey(database, expected, enter))
        finally:
            database.close()
        subscription.check_conflicts(survey.conflicts, database.name)

    async def move_in(self, url: str, *, force: bool) -> None:
        """Write all addresses into a database, which decides from now on; call ``abandon`` or ``settle`` afterwards.

        WrongStateError if a later master has worked on the database, except with ``force``.
        """
        database, master = self._open(url), self._master
        async with self._compare_lock:
            self._previous, self._moving = self._database, True
            # From here on, plans are secured in this database, and wait until it is ready.
            self._use(database)
            subscription.check_conflicts(await self._compare(database, master, force=force), database.name)
            self._compared_as = master

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
            master, subnets = self._master, [*self._store.snapshot.subnet_network]
            for start in range(0, len(subnets), SUBNETS_PER_TRANSACTION):
                work = functools.partial(
                    sharing.clear, subnets=subnets[start : start + SUBNETS_PER_TRANSACTION], mark=master.mark
                )
                await self._runtime.block(functools.partial(master.change, former, work))
        if former:
            former.close()
