"""The clock as a door: what has to be done again and again without anybody asking.

``daemons.watcher`` runs a ``Watcher`` once or at an interval, on every node; it acts where the master daemon is. A run
only submits jobs, never does anything by itself, and logs what it submitted, not what came of it:

1. instances that should run and do not (status ``ERROR_down``) get a start job, ``TRIES`` times at most in ``MEMORY``
   seconds; one that was given up is said once and looked at again later,
2. jobs that ended more than ``ARCHIVE_AGE`` seconds ago are archived,
3. nodes that do not answer are reported, with what to do; if that is wanted, a job puts one offline that has not
   answered for some rounds, and takes it back when it answers again. One that somebody else put offline stays so.

4. if that is wanted, a job looks at the volume groups of all nodes, and repairs one that has just lost a disk.

A paused watcher does nothing; a drained queue takes no jobs, so there is nothing to submit. What was tried is in
``lib/watcher.data``.

See contracts/cluster-design.md#logging.
"""

import logging
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.rpc import luxi
from gantry.runtime import interface

log = logging.getLogger(__name__)

ARCHIVE_AGE = 6 * 3600.0
ARCHIVE_LIMIT = 30.0
RETURN_PAUSE = 900.0
"""Seconds between two jobs that look whether a node is back: each that finds it silent fails."""

MEMORY = 8 * 3600.0
TRIES = 5

NO_DATA, OFFLINE = 2, 4
"""The status of a cell whose node did not answer, or is marked offline (contracts/query.md#value-status)."""

Cell = tuple[int, object]


class _Table(msgspec.Struct):
    data: list[list[Cell]]


class Attempt(msgspec.Struct, frozen=True):
    """What was tried for an instance: how often, when last, whether that it was given up has been said."""

    count: int = 0
    last: float = 0.0
    given_up: bool = False


class Absence(msgspec.Struct, frozen=True):
    """What is known of a node that fails: for how many rounds it has not answered, when a job was submitted for it."""

    rounds: int = 0
    submitted: float | None = None


class Memory(msgspec.Struct, frozen=True):
    """What the watcher keeps from one round to the next: instances and nodes by name.

    ``look`` is the job that looked at the volume groups last, and ``whole`` what the one before found.
    """

    instances: dict[str, Attempt] = {}
    nodes: dict[str, Absence] = {}
    whole: bool = True
    look: int = 0


class Watcher:
    """A run's logic; ``path`` is the file that keeps what was tried.

    A node is put offline after ``offline_after`` rounds without an answer; 0 is never. Volume groups are looked at
    where ``repairs`` is set.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        path: str,
        *,
        master: luxi.Caller,
        offline_after: int = 0,
        repairs: bool = False,
    ) -> None:
        self._runtime = runtime
        self._path = path
        self._master = master
        self._offline_after = offline_after
        self._repairs = repairs

    async def run(self) -> None:
        """Do one round; raises the master's errors, RemoteError when there is no master daemon here."""
        names = ["watcher_pause", "drain_flag"]
        until, drained = await self._master.call(tuple[float | None, bool], "QueryConfigValues", names)
        now = self._runtime.clock.now()
        if until is not None and until > now:
            log.info("paused for another %.0f s", until - now)
            return
        await self._archive()
        before = self._memory()
        nodes = await self._nodes()
        self._report(nodes)
        if drained:
            log.info("the job queue is drained: nothing is submitted")
            return
        absences = await self._judge(nodes, before.nodes, now) if self._offline_after else {}
        restarted = await self._restart(before.instances, now)
        whole, look = await self._repair(before) if self._repairs else (True, 0)
        after = Memory(restarted, absences, whole, look)
        if after != before:
            await self._runtime.disk.write(self._path, msgspec.json.encode(after))

    async def _archive(self) -> None:
        done, left = await self._master.call(tuple[int, int], "AutoArchiveJobs", ARCHIVE_AGE, ARCHIVE_LIMIT)
        if done or left:
            log.info("archived %d jobs, %d are left for the next time", done, left)

    async def _nodes(self) -> dict[str, int]:
        """Return the status of each node's answer by its name (contracts/query.md#value-status)."""
        table = await self._master.call(_Table, "Query", "node", ["name", "bootid"], None)
        return {str(name): status for (_, name), (status, _) in table.data}

    def _report(self, nodes: Mapping[str, int]) -> None:
        for name in _silent(nodes):
            log.warning(
                "node %s does not answer its calls: see that it is up and gantry-noded runs there; if it is "
                "broken, mark it: gnt-node modify -f --offline yes %s; then gnt-node failover %s",
                name,
                name,
                name,
            )

    async def _judge(self, nodes: Mapping[str, int], known: Mapping[str, Absence], now: float) -> dict[str, Absence]:
        """Put nodes offline that have been silent for long, take those back that we put there."""
        silent = _silent(nodes)
        online = sum(status != OFFLINE for status in nodes.values())
        absences = {name: known.get(name, Absence()) for name in silent}
        absences = {name: msgspec.structs.replace(one, rounds=one.rounds + 1) for name, one in absences.items()}
        due = [name for name, one in absences.items() if one.rounds >= self._offline_after and one.submitted is None]
        if due and 2 * len(silent) >= online:
            log.error("%d of %d nodes do not answer: it may be this one that is cut off, none is put offline",
                      len(silent), online)  # fmt: skip
            due = []
        for name in due:
            if await self._set_offline(name, True, f"no answer for {absences[name].rounds} rounds"):
                absences[name] = msgspec.structs.replace(absences[name], submitted=now)
        for name, one in known.items():
            if nodes.get(name) == OFFLINE and one.submitted is not None:
                absences[name] = one
                if now - one.submitted >= RETURN_PAUSE and await self._set_offline(name, False, "is it back?"):
                    absences[name] = msgspec.structs.replace(one, submitted=now)
        return absences

    async def _set_offline(self, name: str, offline: bool, why: str) -> bool:
        """Submit a job that changes the flag; tell whether that went well."""
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": offline, "auto_promote": True}
        job = await self._submit(op, f"node {name}", why)
        if job is not None:
            log.info(
                "node %s: job %d is to %s", name, job, "put it offline" if offline else "take it back if it answers"
            )
        return job is not None

    async def _restart(self, before: Mapping[str, Attempt], now: float) -> dict[str, Attempt]:
        """Start what is down; return what is to be kept of all attempts."""
        table = await self._master.call(_Table, "Query", "instance", ["name", "status"], None)
        down = sorted(str(name) for (_, name), (_, status) in table.data if status == "ERROR_down")
        running = {str(name) for (_, name), (_, status) in table.data if status == "running"}
        tried = {name: one for name, one in before.items() if now - one.last < MEMORY and name not in running}
        pending = await self._pending() if down else ""
        for name in down:
            if f"({name})" in pending:
                log.info("instance %s is down; a job that is in the queue already deals with it", name)
            else:
                tried[name] = await self._try(name, tried.get(name, Attempt()), now)
        return tried

    async def _repair(self, before: Memory) -> tuple[bool, int]:
        """Submit the next look at the volume groups; return what the last one found, and the job."""
        whole = before.whole
        if before.look:
            rows = await self._master.call(
                list[tuple[str, list[object]] | None], "QueryJobs", [before.look], ["status", "opresult"]
            )
            status, results = rows[0] if rows and rows[0] else ("", [])
            if status in ("queued", "waiting", "running"):
                return whole, before.look
            # A look that failed has found out nothing.
            whole = bool(results[0]) if status == "success" and results else whole
        op = {"OP_ID": "OP_CLUSTER_REPAIR_STORAGE", "whole_before": whole}
        return whole, await self._submit(op, "storage", "a volume group may have lost a disk") or 0

    async def _pending(self) -> str:
        """Return the summaries of the jobs that have not ended."""
        rows = await self._master.call(list[tuple[str, str]], "QueryJobs", None, ["status", "summary"])
        return " ".join(summary for status, summary in rows if status not in ("success", "error", "canceled"))

    async def _try(self, name: str, before: Attempt, now: float) -> Attempt:
        if before.count >= TRIES:
            if not before.given_up:
                log.error("instance %s is given up after %d attempts to start it: see why its jobs fail", name, TRIES)
            return msgspec.structs.replace(before, given_up=True)
        op = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name}
        job = await self._submit(op, f"instance {name}", "it should run and does not")
        if job is None:
            return before
        log.info("instance %s is down: job %d is to start it, attempt %d", name, job, before.count + 1)
        return Attempt(before.count + 1, now)

    async def _submit(self, op: Mapping[str, object], what: str, why: str) -> int | None:
        """Submit a job for an object, and return its number; None, and a line in the log, when it is not taken."""
        reason = ["gantry:watcher", why, int(self._runtime.clock.now() * 1e9)]
        try:
            return await self._master.call(int, "SubmitJob", [{**op, "reason": [reason]}])
        except (errors.PrerequisiteError, errors.QueueFullError) as error:
            log.error("%s: no job could be submitted: %s", what, error)
            return None

    def _memory(self) -> Memory:
        try:
            return msgspec.json.decode(self._runtime.disk.read(self._path), type=Memory)
        except FileNotFoundError:
            return Memory()
        except msgspec.DecodeError as error:
            log.warning("%s is written anew: %s", self._path, error)
            return Memory()


def _silent(nodes: Mapping[str, int]) -> list[str]:
    return [name for name, status in nodes.items() if status == NO_DATA]
