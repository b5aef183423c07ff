"""The clock as a door: what has to be done again and again without anybody asking (seed "Logging", "Node flags").

``daemons.watcher`` runs a ``Watcher`` once or at an interval, on every node; it acts where the master daemon is. A run
only submits jobs, never does anything by itself, and logs what it submitted, not what came of it:

1. instances that should run and do not (status ``ERROR_down``) get a start job, ``TRIES`` times at most in ``MEMORY``
   seconds; one that was given up is said once and looked at again later,
2. jobs that ended more than ``ARCHIVE_AGE`` seconds ago are archived,
3. nodes that do not answer are reported, with what to do.

A paused watcher does nothing; a drained queue takes no jobs, so there is nothing to submit. What was tried is in
``lib/watcher.data``.
"""

import logging

import msgspec

from gantry import errors
from gantry.rpc import luxi
from gantry.runtime import interface

log = logging.getLogger(__name__)

ARCHIVE_AGE = 6 * 3600.0
ARCHIVE_LIMIT = 30.0
MEMORY = 8 * 3600.0
TRIES = 5

NO_DATA = 2
"""The status of a cell whose node did not answer (contract: value status)."""

Cell = tuple[int, object]


class _Table(msgspec.Struct):
    data: list[list[Cell]]


class Attempt(msgspec.Struct, frozen=True):
    """What was tried for an instance: how often, when last, whether that it was given up has been said."""

    count: int = 0
    last: float = 0.0
    given_up: bool = False


class Watcher:
    """A run's logic; ``path`` is the file that keeps what was tried."""

    def __init__(self, runtime: interface.Runtime, path: str, *, master: luxi.Caller) -> None:
        self._runtime = runtime
        self._path = path
        self._master = master

    async def run(self) -> None:
        """Do one round; raises the master's errors, RemoteError when there is no master daemon here."""
        names = ["watcher_pause", "drain_flag"]
        until, drained = await self._master.call(tuple[float | None, bool], "QueryConfigValues", names)
        now = self._runtime.clock.now()
        if until is not None and until > now:
            log.info("paused for another %.0f s", until - now)
            return
        await self._archive()
        await self._report_nodes()
        if drained:
            log.info("the job queue is drained: nothing is submitted")
            return
        await self._restart(now)

    async def _archive(self) -> None:
        done, left = await self._master.call(tuple[int, int], "AutoArchiveJobs", ARCHIVE_AGE, ARCHIVE_LIMIT)
        if done or left:
            log.info("archived %d jobs, %d are left for the next time", done, left)

    async def _report_nodes(self) -> None:
        table = await self._master.call(_Table, "Query", "node", ["name", "bootid"], None)
        for (_, name), (status, _) in table.data:
            if status == NO_DATA:
                log.warning(
                    "node %s does not answer its calls: see that it is up and gantry-noded runs there; if it is "
                    "broken, move its instances away and mark it: gnt-node modify --offline yes %s",
                    name,
                    name,
                )

    async def _restart(self, now: float) -> None:
        table = await self._master.call(_Table, "Query", "instance", ["name", "status"], None)
        down = sorted(str(name) for (_, name), (_, status) in table.data if status == "ERROR_down")
        known = {name: one for name, one in self._tried().items() if now - one.last < MEMORY}
        running = {str(name) for (_, name), (_, status) in table.data if status == "running"}
        tried = {name: one for name, one in known.items() if name not in running}
        pending = await self._pending() if down else ""
        for name in down:
            if f"({name})" in pending:
                log.info("instance %s is down; a job that is in the queue already deals with it", name)
            else:
                tried[name] = await self._try(name, tried.get(name, Attempt()), now)
        if tried != known or len(known) != len(self._tried()):
            await self._runtime.disk.write(self._path, msgspec.json.encode(tried))

    async def _pending(self) -> str:
        """Return the summaries of the jobs that have not ended."""
        rows = await self._master.call(list[tuple[str, str]], "QueryJobs", None, ["status", "summary"])
        return " ".join(summary for status, summary in rows if status not in ("success", "error", "canceled"))

    async def _try(self, name: str, before: Attempt, now: float) -> Attempt:
        if before.count >= TRIES:
            if not before.given_up:
                log.error("instance %s is given up after %d attempts to start it: see why its jobs fail", name, TRIES)
            return msgspec.structs.replace(before, given_up=True)
        reason = ["gantry:watcher", "it should run and does not", int(now * 1e9)]
        op = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name, "reason": [reason]}
        try:
            job = await self._master.call(int, "SubmitJob", [op])
        except (errors.PrerequisiteError, errors.QueueFullError) as error:
            log.error("instance %s is down, and no job could be submitted: %s", name, error)
            return before
        log.info("instance %s is down: job %d is to start it, attempt %d", name, job, before.count + 1)
        return Attempt(before.count + 1, now)

    def _tried(self) -> dict[str, Attempt]:
        try:
            return msgspec.json.decode(self._runtime.disk.read(self._path), type=dict[str, Attempt])
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            log.warning("%s is written anew: %s", self._path, error)
            return {}
