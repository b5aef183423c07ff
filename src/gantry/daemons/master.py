"""gantry-masterd: the only daemon that changes the cluster's state and commands its nodes.

``gantry-masterd init`` creates a cluster (``mastership.bootstrap``), ``gantry-masterd`` runs it, ``gantry-masterd
failover`` runs it on a master candidate that takes the role over, and ``gantry-masterd recover`` repairs its state
(``mastership.repair``). Life cycle: load the certificates, take the queue's lock and recover the state, get the nodes'
confirmation and begin a new epoch (``mastership.role``), read the default segment ranges, wire queue, processor, nodes
and LUXI, serve until a signal, the destruction of the cluster or a newer master, then stop in reverse order. A stop
aborts running jobs; the next start marks them as failed. If a node has granted the role to another node, which may
never begin, the daemon starts from the beginning.

See contracts/cluster-design.md#daemons.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import logging
import sys
from collections.abc import Callable, Sequence

from gantry import errors
from gantry.daemons import (
    health_port,
    logs,
    master_status,
    remote_files,
    trace_option,
    units,
)
from gantry.daemons.options import (
    config_file,
    limit_options,
    master_options,
)
from gantry.doors import luxi
from gantry.ipam import embedded, shared
from gantry.ipam.sql import engines
from gantry.jobs import allocators, brief, ended, environment, lock_table, locks, processor, queue, reads, records
from gantry.mastership import (
    bootstrap,
    contest,
    distribution,
    ganeti_import,
    identity,
    introduction,
    membership,
    node_keys,
    repair,
    role,
    witnesses,
)
from gantry.model import job, opcodes, webhook
from gantry.operations import base
from gantry.operations.query import engine, lock
from gantry.operations.segment import ranges_file
from gantry.rpc import client, liveness, silence
from gantry.rpc.calls import reach
from gantry.runtime import interface, limits, measures, paths
from gantry.runtime.real import RealRuntime, open_files, systemd
from gantry.state.candidates import lease, replication
from gantry.state.journal import history, record
from gantry.state.objects import snapshot, ssconf
from gantry.state.start import recovery
from gantry.state.store import audit, events, pruning, transaction

log = logging.getLogger(__name__)

command_line = master_options.command_line
CONFIGURATION = master_options.CONFIGURATION

COLLECT_EVERY = 50_000
"""New objects between two runs of the garbage collector: one answer may create that many."""

CLOSING_DELAY_SECONDS = 2.0
"""How long clients can still read why the daemon ends: the cluster was destroyed, or a newer master runs."""


class Master:
    """A master daemon: call ``start``, then ``live`` or ``close``; ``secure`` as in ``mastership.identity``.

    ``open_database`` returns the database that a URL names, which a cluster may share (``ipam.shared``). ``report``
    gets what the daemon waits for before it has the role, in a line.

    ``destroyed`` is set when the cluster was destroyed, ``candidates.refused`` when another node has become the master.
    ``counts`` is what this daemon counts.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        secure: bool = True,
        request: role.Request = role.Request(),  # noqa: B008 - it is immutable
        open_database: shared.OpenDatabase = engines.open_database,
        allowed: limits.UnixLimits | None = None,
        report: master_status.Report = master_status.no_report,
    ) -> None:
        self._allowed = allowed
        self._report = report
        self._runtime = runtime
        self._open_database = open_database
        self._folders = folders
        self._secure = secure
        self._closing = contextlib.AsyncExitStack()
        self._request = request
        self.counts = measures.Measures()
        self.destroyed = asyncio.Event()

    async def start(self) -> None:
        """Recover the state, wire all parts, and listen; a failure closes again all that was opened."""
        try:
            await self._start()
        except BaseException:  # a canceled start leaves nothing open either
            await self.close()
            raise

    async def _start(self) -> None:
        runtime, folders = self._runtime, self._folders
        if self._request.taking_over:
            membership.check_candidate(runtime, folders)
        authority = identity.load(runtime, folders)
        keys = node_keys.NodeKeys(runtime.disk, folders)
        self.credentials = identity.Credentials(runtime, folders, authority, keys=keys.at, secure=self._secure)
        await self.credentials.renew()
        self.nodes = client.Client(
            runtime.network, self.credentials.context, run=runtime.random.uuid(), counts=self.counts
        )
        authority.credentials_changed = self._renew_credentials
        self._closing.push_async_callback(self.nodes.close)
        self.silent = silence.Silence(self.nodes, runtime.clock)
        self._closing.push_async_callback(self.silent.close)
        self.reading = liveness.Reader(self.nodes, self.silent)
        self.candidates = candidates = replication.Candidates(runtime, self.nodes)
        self.store = await transaction.Store.open(
            runtime, folders, candidates=candidates, behind=recovery.Behind.COMPLETED, counts=self.counts
        )
        self.store.follow(ended.Ended(self.counts).follow)
        keys.follow(self.store)
        self._closing.push_async_callback(self.store.close)
        own = role.Role(
            runtime, folders, store=self.store, nodes=self.nodes, request=self._request, report=self._report
        )
        await own.confirm()
        ledger = embedded.Ledger(runtime.clock.now)
        ledger.follow(self.store.snapshot, self.store.snapshot, ())
        self.store.observe(ledger.follow)
        self.addresses = shared.Shared(runtime, ledger, self.store, open_database=self._open_database)
        self.store.observe(self.addresses.follow)
        self.distribution = distribution.Distribution(self.nodes, candidates, lambda: self.store.durable)
        self.store.observe(self.distribution.observe)
        self.store.follow(self.distribution.follow)
        self.store.follow(self._watch_for_the_end)
        await own.begin(candidates.give_up)
        keys.begun = True
        self.lease = lease.Lease(
            candidates,
            node=own.node,
            epoch=lambda: self.store.epoch,
            masters=lambda: tuple(ssconf.masters(self.store.durable)),
        )
        self._closing.push_async_callback(self.lease.close)
        self.lease.start()
        introducing = introduction.Introduction(self.nodes, lambda: self.store.durable)
        self.nodes.fence(
            lambda: self.store.position.epoch,
            candidates.refuse,
            permitted=self.lease.hold,
            right=self.lease.seconds,
            introduce=introducing.introduce,
            acknowledged=lambda: candidates.agreed,
        )
        all_nodes = witnesses.Witnesses(runtime.clock, self.nodes, candidates, lambda: self.store.snapshot)
        self.store.follow(all_nodes.follow)
        self._tasks = [
            asyncio.create_task(own.keep(candidates), name="role"),
            asyncio.create_task(self.credentials.keep(), name="credentials"),
            asyncio.create_task(all_nodes.keep(), name="witnesses"),
        ]
        self._closing.push_async_callback(self._end_tasks)
        await own.announce()
        await ranges_file.refresh(runtime, folders, self.store)
        self._closing.push_async_callback(self.addresses.close)
        self.addresses.start()
        self.past = history.History(runtime, folders, lambda: self.store.durable)
        self.pruning = pruning.Pruning(
            runtime, folders, store=self.store, past=self.past, candidates=candidates, caller=self.nodes
        )
        self._closing.push_async_callback(self.pruning.close)
        self.pruning.start()
        self._wire_queue(authority, ledger)
        self._closing.push_async_callback(self.distribution.close)
        self.distribution.start(self.store.snapshot)
        self._closing.push_async_callback(self.queue.close)
        await self.queue.start()
        self._closing.push_async_callback(self.door.close)
        await self.door.open()
        log.info("master of cluster %s is up", self.store.snapshot.the_cluster.name)

    def _wire_queue(self, authority: identity.Authority, ledger: embedded.Ledger) -> None:
        runtime = self._runtime
        past = self.past
        nodes_of_jobs = client.Queued(self.nodes, self.silent)
        self._closing.push_async_callback(nodes_of_jobs.close)
        services = environment.Services(
            nodes=nodes_of_jobs,
            ledger=ledger,
            authority=authority,
            runtime=runtime,
            past=past,
            submit=lambda many, submitter: self.queue.submit_many(many, submitter=submitter),
            addresses=self.addresses,
            programs=allocators.Programs(self._folders.allocators, self._folders.run),
            has_hooks=lambda name: runtime.disk.exists(f"{self._folders.hooks}/{name}"),
        )
        book = records.Records(self.store, runtime.clock)
        manager = self.locks = locks.LockManager(counts=self.counts)
        runner = processor.Processor(book, manager, units=units.REGISTRY, services=services)
        past_jobs = self.store.archive
        at_once = brief.Brief(book, manager, units=units.REGISTRY, services=services)
        self.queue = queue.Queue(book, runner, runtime, archived=past_jobs.job, in_one_step=at_once)
        of_reads = dataclasses.replace(services, nodes=self.reading)
        self.reads = reads.Reads(self.store, units=units.REGISTRY, services=of_reads)
        self._closing.push_async_callback(self.reads.close)
        source = engine.Source(
            snapshot=lambda: self.store.durable,
            ledger=ledger,
            nodes=self.reading,
            jobs=self.queue.jobs,
            archived_job=past_jobs.job,
            archived_numbers=past_jobs.numbers,
            locks=lambda: [_lock_row(usage) for usage in manager.owners_and_waiters()],
            journal_begin=self._journal_begin,
        )
        services_of_door = luxi.Services(
            queue=self.queue,
            reads=self.reads,
            source=source,
            nodes=self.nodes,
            snapshot=lambda: self.store.durable,
            history=past,
            events=events.Events(self.store, past),
            audit=audit.Audit(self.store, past),
            candidates=self.candidates,
            counts=self.counts,
            authorities=lambda: authority.certificates,
            secret=lambda: runtime.random.token(32).hex(),
            pause_watcher=self._pause_watcher,
            note=self._note,
            store_positions=self._store_positions,
            folders=self._folders,
            now=runtime.clock.now,
        )
        self.door = luxi.Door(runtime, services_of_door, allowed=self._allowed)

    async def _journal_begin(self) -> int:
        return (await self.past.start()).serial

    async def _pause_watcher(self, until: float | None, cause: transaction.Cause) -> None:
        """Record until when the watcher pauses, in seconds since 1970; it survives a change of the master."""
        now = self._runtime.clock.now()
        if until is not None and until < now:
            raise errors.InvalidError(f"the watcher cannot be paused until {until:.0f}, which has passed")
        owner = base.changed(self.store.snapshot.the_cluster, now, watcher_pause=until)
        await self.store.commit([snapshot.Put(owner)], cause)

    async def _note(self, cause: transaction.Cause) -> None:
        """Record that something was done which changes no object of the state."""
        await self.store.commit((), cause)

    async def _store_positions(self, positions: Sequence[webhook.Position]) -> None:
        """Record how far the receivers of webhooks are; they survive a change of the master."""
        reason = "positions of webhooks"
        await self.store.commit([snapshot.Put(each) for each in positions], transaction.Cause(reason=reason))

    def _watch_for_the_end(self, journal_record: record.Record, _: snapshot.Snapshot) -> None:
        """Set ``destroyed`` when the success of the job that destroys the cluster is acknowledged."""
        for change in journal_record.changes:
            value = change.value if isinstance(change, snapshot.Put) else None
            last = value.ops[-1].input if isinstance(value, job.Job) and value.status is job.Status.SUCCESS else None
            if isinstance(last, opcodes.ClusterDestroy) and not last.dry_run:
                self.destroyed.set()

    async def _renew_credentials(self) -> None:
        await self.credentials.renew()
        await self.nodes.reconnect(self.credentials.context)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop listening, stop the queue, and close the state, in this order."""
        await self._closing.aclose()

    async def live(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set or the cluster is destroyed; WrongStateError when a node refuses this master."""
        waiting = [asyncio.create_task(event.wait()) for event in (stop, self.destroyed, self.candidates.refused)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        destroyed = self.destroyed.is_set()
        if destroyed or self.candidates.refusal is not None:
            await self._runtime.clock.sleep(CLOSING_DELAY_SECONDS)
        await self.close()
        if destroyed:
            await self.forget()
        if self.candidates.refusal is not None:
            raise self.candidates.refusal
        log.info("master has stopped")

    async def forget(self) -> None:
        """Remove the files that a destroyed cluster leaves on its master."""
        disk, folders = self._runtime.disk, self._folders
        # A node that has left has removed its certificates, and made others for the next cluster that it joins.
        has_left = not disk.exists(f"{folders.certificates}/node.pem")
        for folder in (folders.journal, folders.queue, *(() if has_left else (folders.certificates,))):
            await disk.remove_tree(folder)
        past = (folders.config, folders.journal_end, *reach.files(folders))
        for path in (*past, folders.issued_remote_certificate):
            if disk.exists(path):
                await disk.remove(path)


def _lock_row(usage: lock_table.Usage) -> lock.Row:
    owners = [f"job/{owner}" for owner in usage.owners]
    pending = [(mode, [f"job/{owner}" for owner in waiting]) for mode, waiting in usage.pending]
    waits = [(f"job/{waiter}", [(f"job/{owner}", why) for owner, why in owners_]) for waiter, owners_ in usage.waits]
    return usage.name, usage.mode, owners or None, pending, waits


async def serve(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    request: role.Request,
    stop: asyncio.Event,
    up: Callable[[Master], None],
    secure: bool = True,
    open_database: shared.OpenDatabase = engines.open_database,
    allowed: limits.UnixLimits | None = None,
    report: master_status.Report = master_status.no_report,
) -> None:
    """Run the master until ``Master.live`` ends; call ``up`` each time the master has started to listen.

    A node that refuses this master because of a grant to another node does not know a newer master. If that node
    got too few grants, it never becomes the master. So this daemon starts over, and the vote decides. It also starts
    over after it has given way to another node that wants the role at the same moment (``mastership.contest``).
    """
    until = runtime.clock.monotonic() + contest.LIMIT_SECONDS
    while True:
        master = Master(
            runtime,
            folders,
            secure=secure,
            request=request,
            open_database=open_database,
            allowed=allowed,
            report=report,
        )
        try:
            await master.start()
        except contest.GiveWayError as error:
            report(f"lets another node go first: {error.message}")
            await runtime.clock.sleep(contest.wait_seconds(runtime.random))
            if stop.is_set():
                raise
            is_over = runtime.clock.monotonic() > until
            request = dataclasses.replace(request, gives_way=not is_over, former=error.former)
            continue
        up(master)
        try:
            return await master.live(stop)
        except errors.WrongStateError as error:
            if master.candidates.replaced or stop.is_set():
                raise
            log.warning("asking the nodes for confirmation again: %s", error.message)
        request = role.Request()


async def _serve(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> None:
    """Run the master until a signal stops it."""
    stop, request = asyncio.Event(), master_options.request(options)
    following: list[asyncio.Task[None]] = []
    watched = _Watched()
    with systemd.Service() as service:

        def report(text: str) -> None:
            watched.waits_for(text)
            service.status(text)

        def up(master: Master) -> None:
            if request.taking_over:
                # The command that started this daemon no longer reads its output.
                logs.leave_screen()
            watched.is_up(master)
            service.on_signal(stop.set)
            service.ready()
            for task in following:
                task.cancel()
            status = master_status.follow(runtime.clock, master.store, master.candidates, report=service.status)
            shared_files = remote_files.keep(runtime, folders, master.store)
            following[:] = [asyncio.create_task(work) for work in (status, shared_files)]

        async with health_port.opened(runtime, options, watched.families, problem=watched.problem):
            await serve(
                runtime,
                folders,
                request=request,
                stop=stop,
                up=up,
                allowed=limit_options.unix_limits(options),
                report=report,
            )


class _Watched:
    """What the health port says of the masters that this daemon runs, one after the other."""

    def __init__(self) -> None:
        self._master: Master | None = None
        self._waits_for = "starts"

    def waits_for(self, text: str) -> None:
        """Note what the daemon waits for before it has the role."""
        self._master, self._waits_for = None, text

    def is_up(self, master: Master) -> None:
        """Note that a master has started to listen."""
        self._master = master

    def families(self) -> list[measures.Family]:
        """Return what the master has counted; nothing before it listens."""
        return self._master.counts.families() if self._master else []

    def problem(self) -> str:
        """Return what keeps the daemon from acknowledging changes, empty if nothing does."""
        return master_status.problem(self._master.candidates) if self._master else self._waits_for


async def _run(runtime: interface.Runtime, folders: paths.Paths, settings: config_file.Settings) -> None:
    options = settings.options
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "master-daemon", debug=options.debug)
    settings.follow(runtime.disk, lambda changed: logs.set_debug(debug=changed.debug))
    if options.action == "init":
        await bootstrap.init(runtime, folders, bootstrap.decode(sys.stdin.buffer.read()))
    elif options.action == "import":
        print(*await ganeti_import.run(runtime, folders, ganeti_import.decode(sys.stdin.buffer.read())), sep="\n")
    elif options.action == "recover":
        await repair.recover(runtime, folders, source=options.source, accepts_loss=options.accept_loss)
    else:
        with trace_option.recorded(options, "gantry-masterd", runtime.host):
            await _serve(runtime, folders, options)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    runtime = RealRuntime()
    settings = config_file.load(CONFIGURATION, argv, runtime.disk)
    open_files.raise_limit()
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    try:
        folders = paths.Paths.below(settings.options.root)
        asyncio.run(_run(RealRuntime(membership.name(runtime.disk, folders)), folders, settings))
    except errors.GantryError as error:
        # Standard error gets the error once, as one line; a log message of this level goes to the log file only.
        log.info("ended by: %s", error)
        print(f"gantry-masterd: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        log.info("ended by: %s%s", error.strerror or error, where)
        remedy = "; run the command as root" if isinstance(error, PermissionError) else ""
        print(f"gantry-masterd: {error.strerror or error}{where}{remedy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
