"""gantry-masterd: the only one that changes the cluster's state and commands its nodes (seed "Master daemon").

``gantry-masterd init`` makes a cluster (``bootstrap``); ``gantry-masterd`` runs it. Life cycle: take the queue's lock
and recover the state, begin a new epoch, load the papers, wire queue, processor, nodes and LUXI, serve until a signal
or the end of the cluster, then stop in reverse. Running jobs are broken off by a stop; the next start marks them.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import cast

from gantry import __version__, errors
from gantry.daemons import bootstrap, distribution, identity, logs
from gantry.doors import luxi
from gantry.ipam import embedded
from gantry.jobs import environment, lock_table, locks, processor, queue, records
from gantry.model import job, opcodes
from gantry.operations import cluster, create, delay, instance, network, node, system
from gantry.operations.query import engine
from gantry.rpc import client
from gantry.runtime import interface, paths
from gantry.runtime.real import RealRuntime
from gantry.state import jobfiles, replication, snapshot, transaction

log = logging.getLogger(__name__)

UNITS = (
    cluster.ClusterDestroy,
    cluster.ClusterVerify,
    create.InstanceCreate,
    delay.TestDelay,
    instance.InstanceConsole,
    instance.InstanceQueryData,
    instance.InstanceReboot,
    instance.InstanceRemove,
    instance.InstanceShutdown,
    instance.InstanceStartup,
    network.NetworkAdd,
    network.NetworkConnect,
    network.NetworkDisconnect,
    network.NetworkRemove,
    node.NodeAdd,
    node.NodeRemove,
    system.OsDiagnose,
)

# The registry holds units of different opcodes, which no one type but this one is common to.
REGISTRY = cast("processor.Registry", {unit.OPCODE: unit for unit in UNITS})

FAREWELL = 2.0
"""Seconds that clients have to fetch the end of the job that destroyed the cluster."""


class Master:
    """A running master daemon: made by ``start``, ended by ``close``."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._runtime = runtime
        self._folders = folders
        self._closing: list[object] = []
        self.destroyed = asyncio.Event()

    async def start(self) -> None:
        """Recover the state, wire everything, and listen."""
        runtime, folders = self._runtime, self._folders
        authority = identity.load(runtime, folders)
        self.nodes = client.Client(runtime.network, await identity.client_context(runtime, folders, authority))
        candidates = replication.Candidates(runtime, self.nodes)
        self.store = await transaction.Store.open(runtime, folders, candidates=candidates)
        ledger = embedded.Ledger()
        ledger.follow(self.store.snapshot, self.store.snapshot, ())
        self.store.observe(ledger.follow)
        self.distribution = distribution.Distribution(self.nodes, candidates, lambda: self.store.snapshot)
        self.store.observe(self.distribution.follow)
        self.store.observe(self._watch_for_the_end)
        await self.store.begin_epoch()
        self._wire_queue(authority, ledger)
        self.distribution.start()
        await self.queue.start()
        await self.door.open()
        log.info("master of cluster %s is up", self.store.snapshot.the_cluster.name)

    def _wire_queue(self, authority: identity.Authority, ledger: embedded.Ledger) -> None:
        runtime = self._runtime
        services = environment.Services(nodes=self.nodes, ledger=ledger, authority=authority, runtime=runtime)
        book = records.Records(self.store, runtime.clock)
        manager = locks.LockManager()
        runner = processor.Processor(book, manager, units=REGISTRY, services=services)
        drain_file = f"{self._folders.queue}/drain"
        archived = _archived(runtime.disk, self._folders.queue)
        self.queue = queue.Queue(book, runner, runtime, archived=archived, drain_file=drain_file)
        source = engine.Source(
            snapshot=lambda: self.store.snapshot,
            ledger=ledger,
            nodes=self.nodes,
            jobs=self.queue.jobs,
            archived_job=archived,
            locks=lambda: [_lock_row(usage) for usage in manager.owners_and_waiters()],
        )
        self.door = luxi.Door(
            runtime, self._folders, luxi.Services(queue=self.queue, source=source, snapshot=lambda: self.store.snapshot)
        )

    def _watch_for_the_end(
        self, before: snapshot.Snapshot, after: snapshot.Snapshot, changes: Sequence[snapshot.Change]
    ) -> None:
        """Notice the success of the job that takes the cluster apart."""
        del before, after
        for change in changes:
            one = change.value if isinstance(change, snapshot.Put) else None
            last = one.ops[-1].input if isinstance(one, job.Job) and one.status is job.Status.SUCCESS else None
            if isinstance(last, opcodes.ClusterDestroy) and not last.dry_run:
                self.destroyed.set()

    async def close(self) -> None:
        """Stop listening, then the queue, then the state."""
        await self.door.close()
        await self.queue.close()
        await self.distribution.close()
        await self.store.close()
        await self.nodes.close()

    async def forget(self) -> None:
        """Remove what a cluster that was destroyed leaves on its master."""
        disk, folders = self._runtime.disk, self._folders
        for folder in (folders.journal, folders.queue, folders.certificates):
            await disk.remove_tree(folder)
        await disk.remove(folders.config)


def _archived(disk: interface.Disk, folder: str) -> Callable[[int], job.Job | None]:
    def read(number: int) -> job.Job | None:
        found = jobfiles.read(disk, f"{folder}/archive/{number // jobfiles.ARCHIVE_SIZE}", number)
        return found if isinstance(found, job.Job) else None

    return read


def _lock_row(usage: lock_table.Usage) -> engine.LockRow:
    owners = [f"job/{owner}" for owner in usage.owners]
    pending = [(mode, [f"job/{owner}" for owner in waiting]) for mode, waiting in usage.pending]
    return usage.name, usage.mode, owners or None, pending


async def serve(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Run the master until a signal comes or the cluster is destroyed."""
    master = Master(runtime, folders)
    await master.start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    waiting = [asyncio.create_task(stop.wait()), asyncio.create_task(master.destroyed.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    destroyed = master.destroyed.is_set()
    if destroyed:
        await runtime.clock.sleep(FAREWELL)
    await master.close()
    if destroyed:
        await master.forget()
    log.info("master has stopped")


async def _run(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> None:
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "master-daemon", debug=options.debug)
    if options.action == "init":
        await bootstrap.init(runtime, folders, bootstrap.decode(sys.stdin.buffer.read()))
    else:
        await serve(runtime, folders)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gantry-masterd", description="The master daemon of a Gantry cluster.")
    parser.add_argument("action", nargs="?", choices=("run", "init"), default="run", help="init reads JSON from stdin")
    parser.add_argument("--root", default=os.environ.get("GANTRY_ROOT", ""), help="folder that holds all of its files")
    parser.add_argument("--debug", action="store_true", help="log more")
    parser.add_argument("--version", action="version", version=f"gantry-masterd {__version__}")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = _arguments(argv)
    try:
        asyncio.run(_run(RealRuntime(), paths.Paths.below(options.root), options))
    except errors.GantryError as error:
        # Standard error gets it once, as one line; at this level the log keeps it to its file.
        log.info("ended by: %s", error)
        print(f"gantry-masterd: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
