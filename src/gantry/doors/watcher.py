"""The watcher: periodic jobs that restart instances, archive jobs, and react to failed nodes and disks.

``daemons.watcher`` runs a ``Watcher`` once or at an interval, on every node; only the one on the master node acts. A
round only submits jobs, and logs the submission, not the result:

1. It submits a start job for each instance that should run but does not (status ``ERROR_down``), except for those that
   their users switched off (``USER_down``), at most ``ATTEMPTS`` times in ``MEMORY_SECONDS``. It logs once that it
   gives up an instance, and tries again later. An instance whose guest runs on another node, as a stray guest, is not
   started: it would run twice.
2. It archives jobs that ended more than ``ARCHIVE_AGE_SECONDS`` ago.
3. It reports nodes that do not answer, with what to do. If enabled, it submits a job that marks a node offline after
   some rounds without an answer, and a job that marks the node online when it answers again. A node that others have
   marked offline stays offline.
4. It reports stray guests (explanation/replication.md#after-the-heal). If the cluster's rule is to stop or to adopt
   them, it submits a job that does.
5. It submits a job that renews certificates which end soon: those of nodes that answer, and the cluster's authority.
6. If enabled, it submits a job that checks the volume groups of all nodes, and repairs one that has just lost a disk.

A paused watcher does nothing. While the queue is drained, it submits nothing. ``lib/watcher.data`` records the
attempts.

See contracts/cluster-design.md#logging.
"""

import logging
from collections.abc import Collection, Mapping

import msgspec

from gantry import errors, security
from gantry.rpc import luxi
from gantry.runtime import interface

log = logging.getLogger(__name__)

ARCHIVE_AGE_SECONDS = 6 * 3600.0
ARCHIVE_TIMEOUT_SECONDS = 30.0
RETURN_INTERVAL_SECONDS = 900.0
"""Interval between two jobs that try to mark a node online again; such a job fails while the node does not answer."""

MAX_DISPLAYED = 10
"""The number of nodes that a message names."""

MEMORY_SECONDS = 8 * 3600.0
ATTEMPTS = 5

RENEWAL_SECONDS = 60 * 86400.0
"""How long before its end a node's certificate is renewed."""
AUTHORITY_RENEWAL_SECONDS = 180 * 86400.0
"""How long before its end the authority is renewed: clients of the remote API need its new certificate by then."""

NO_DATA, OFFLINE = 2, 4
"""The status of a cell whose node did not answer, or is marked offline (contracts/query.md#value-status)."""

Cell = tuple[int, object]


class _Table(msgspec.Struct):
    data: list[list[Cell]]


class Attempt(msgspec.Struct, frozen=True):
    """The attempts to start an instance: number, time of the last, and whether giving up was logged."""

    count: int = 0
    last: float = 0.0
    given_up: bool = False


class Absence(msgspec.Struct, frozen=True):
    """A node that does not answer: for how many rounds, and when a job was submitted for it."""

    rounds: int = 0
    submitted: float | None = None


class Memory(msgspec.Struct, frozen=True):
    """The watcher's memory from one round to the next: instances and nodes by name.

    ``look`` is the last job that checked the volume groups; ``whole`` is the result of the job before, whether all
    volume groups were complete.
    """

    instances: dict[str, Attempt] = {}
    nodes: dict[str, Absence] = {}
    whole: bool = True
    look: int = 0


class Watcher:
    """The logic of a round; ``path`` is the file that records the attempts, ``authority`` that of the authority.

    A node is marked offline after ``offline_after`` rounds without an answer, with 0 never. Volume groups are checked
    if ``repairs`` is true.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        path: str,
        *,
        master: luxi.Caller,
        authority: str,
        offline_after: int = 0,
        repairs: bool = False,
    ) -> None:
        self._authority = authority
        self._runtime = runtime
        self._path = path
        self._master = master
        self._offline_after = offline_after
        self._repairs = repairs

    async def run(self) -> None:
        """Do one round; raises the master's errors, RemoteError if no master daemon runs on this node."""
        names = ["watcher_pause", "drain_flag"]
        until, drained = await self._master.call(tuple[float | None, bool], "QueryConfigValues", names)
        now = self._runtime.clock.now()
        if until is not None and until > now:
            log.info("the watcher is paused for another %.0f s", until - now)
            return
        await self._archive()
        before = self._memory()
        nodes = await self._nodes()
        self._report(nodes)
        strays = await self._strays()
        if drained:
            log.info("the job queue is drained: the watcher submits no jobs")
            return
        await self._reconcile(strays)
        absences = await self._update_offline(nodes, before.nodes, now) if self._offline_after else {}
        restarted = await self._restart(
            before.instances, now, but={name for names in strays.values() for name in names}
        )
        await self._renew_certificates(now)
        whole, look = await self._repair(before) if self._repairs else (True, 0)
        after = Memory(restarted, absences, whole, look)
        if after != before:
            await self._runtime.disk.write(self._path, msgspec.json.encode(after))

    async def _archive(self) -> None:
        archived, remaining = await self._master.call(
            tuple[int, int], "AutoArchiveJobs", ARCHIVE_AGE_SECONDS, ARCHIVE_TIMEOUT_SECONDS
        )
        if archived or remaining:
            log.info("archived %d jobs; the next round archives %d more", archived, remaining)

    async def _nodes(self) -> dict[str, int]:
        """Return the status of each node's answer by its name (contracts/query.md#value-status)."""
        table = await self._master.call(_Table, "Query", "node", ["name", "bootid"], None)
        return {str(name): status for (_, name), (status, _) in table.data}

    def _report(self, nodes: Mapping[str, int]) -> None:
        for name in _silent(nodes):
            log.warning(
                "node %s does not answer calls: check that it is up and gantry-noded runs there; if it is "
                "broken, mark it offline: gnt-node modify -f --offline yes %s; then run gnt-node failover %s",
                name,
                name,
                name,
            )

    async def _strays(self) -> dict[str, list[str]]:
        """Return the names of stray guests by their node, and log them."""
        table = await self._master.call(_Table, "Query", "node", ["name", "stray_guests"], None)
        strays = {
            str(name): [str(guest) for guest in names]
            for (_, name), (_, names) in table.data
            if names and isinstance(names, list)
        }
        for name, names in strays.items():
            log.warning(
                "node %s runs guests that it should not run by the state: %s; see gnt-cluster verify, and "
                "gnt-cluster repair-stray-guests",
                name,
                ", ".join(names),
            )
        return strays

    async def _reconcile(self, nodes: Collection[str]) -> None:
        """Submit a job that applies the cluster's rule to the stray guests."""
        if not nodes:
            return
        rule, *_ = await self._master.call(list[object], "QueryConfigValues", ["stray_guests"])
        pending = await self._pending()
        if rule not in ("stop", "adopt") or "REPAIR_STRAY_GUESTS" in pending or "STRAY_GUEST_REPAIR" in pending:
            return
        job = await self._submit({"OP_ID": "OP_CLUSTER_REPAIR_STRAY_GUESTS"}, "stray guests", f"{rule} stray guests")
        if job is not None:
            log.info("submitted job %d to %s the stray guests on %s", job, rule, ", ".join(nodes))

    async def _update_offline(
        self, nodes: Mapping[str, int], known: Mapping[str, Absence], now: float
    ) -> dict[str, Absence]:
        """Mark silent nodes offline, and nodes that this watcher marked offline online again."""
        silent = _silent(nodes)
        online = sum(status != OFFLINE for status in nodes.values())
        absences = {name: known.get(name, Absence()) for name in silent}
        absences = {
            name: msgspec.structs.replace(absence, rounds=absence.rounds + 1) for name, absence in absences.items()
        }
        due = [
            name
            for name, absence in absences.items()
            if absence.rounds >= self._offline_after and absence.submitted is None
        ]
        if due and 2 * len(silent) >= online:
            log.error("%d of %d nodes do not answer: this node may be cut off, so no node is marked offline",
                      len(silent), online)  # fmt: skip
            due = []
        for name in due:
            if await self._set_offline(name, True, f"no answer for {absences[name].rounds} rounds"):
                absences[name] = msgspec.structs.replace(absences[name], submitted=now)
        for name, absence in known.items():
            if nodes.get(name) == OFFLINE and absence.submitted is not None:
                absences[name] = absence
                if now - absence.submitted >= RETURN_INTERVAL_SECONDS and await self._set_offline(
                    name, False, "check whether it answers again"
                ):
                    absences[name] = msgspec.structs.replace(absence, submitted=now)
        return absences

    async def _set_offline(self, name: str, offline: bool, why: str) -> bool:
        """Submit a job that changes the offline flag; return whether it was submitted."""
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": offline, "auto_promote": True}
        job = await self._submit(op, f"node {name}", why)
        if job is not None:
            log.info(
                "node %s: submitted job %d to mark it %s", name, job, "offline" if offline else "online if it answers"
            )
        return job is not None

    async def _restart(self, before: Mapping[str, Attempt], now: float, *, but: Collection[str]) -> dict[str, Attempt]:
        """Submit start jobs for instances that are down, except for those named; return the attempts to remember."""
        table = await self._master.call(_Table, "Query", "instance", ["name", "status"], None)
        down = sorted(str(name) for (_, name), (_, status) in table.data if status == "ERROR_down")
        running = {str(name) for (_, name), (_, status) in table.data if status == "running"}
        tried = {
            name: attempt
            for name, attempt in before.items()
            if now - attempt.last < MEMORY_SECONDS and name not in running
        }
        pending = await self._pending() if down else ""
        for name in down:
            if name in but:
                log.warning("instance %s is not started on its primary node: a guest of its name runs elsewhere", name)
            elif f"({name})" in pending:
                log.info("instance %s is down; a job in the queue already handles it", name)
            else:
                tried[name] = await self._try(name, tried.get(name, Attempt()), now)
        return tried

    async def _renew_certificates(self, now: float) -> None:
        """Submit a job that renews the authority if that ends soon, otherwise nodes whose certificates end soon.

        Nodes that joined before the cluster recorded certificates are renewed too.
        """
        table = await self._master.call(_Table, "Query", "node", ["name", "certificate_end", "bootid"], None)
        due = [
            str(name)
            for (_, name), (_, end), (status, _) in table.data
            if status not in (NO_DATA, OFFLINE) and (not isinstance(end, int | float) or end - now < RENEWAL_SECONDS)
        ]
        disk, end = self._runtime.disk, float("inf")
        if disk.exists(self._authority):
            end = security.end_of(disk.read(self._authority))
        op: dict[str, object] = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "keep_keys": True}
        if end - now < AUTHORITY_RENEWAL_SECONDS:
            op, what = op | {"cluster_certificate": True}, "the cluster's authority"
        elif due:
            op, what = op | {"nodes": due}, f"the certificates of {', '.join(due[:MAX_DISPLAYED])}"
        else:
            return
        if "CLUSTER_RENEW_CRYPTO" in await self._pending():
            log.info("a job in the queue renews certificates already")
        elif job := await self._submit(op, "certificates", "they end soon"):
            log.info("submitted job %d to renew %s", job, what)

    async def _repair(self, before: Memory) -> tuple[bool, int]:
        """Submit the next check of the volume groups; return the result of the last check, and the job."""
        whole = before.whole
        if before.look:
            rows = await self._master.call(
                list[tuple[str, list[object]] | None], "QueryJobs", [before.look], ["status", "opresult"]
            )
            status, results = rows[0] if rows and rows[0] else ("", [])
            if status in ("queued", "waiting", "running"):
                return whole, before.look
            # A failed check has no result.
            whole = bool(results[0]) if status == "success" and results else whole
        op = {"OP_ID": "OP_CLUSTER_REPAIR_STORAGE", "whole_before": whole}
        return whole, await self._submit(op, "storage", "check for volume groups that lost a disk") or 0

    async def _pending(self) -> str:
        """Return the summaries of all jobs that have not ended, in one text."""
        rows = await self._master.call(list[tuple[str, str]], "QueryJobs", None, ["status", "summary"])
        return " ".join(summary for status, summary in rows if status not in ("success", "error", "canceled"))

    async def _try(self, name: str, before: Attempt, now: float) -> Attempt:
        if before.count >= ATTEMPTS:
            if not before.given_up:
                log.error(
                    "instance %s is given up after %d attempts to start it: check why its jobs fail", name, ATTEMPTS
                )
            return msgspec.structs.replace(before, given_up=True)
        op = {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name}
        job = await self._submit(op, f"instance {name}", "it should run but does not")
        if job is None:
            return before
        log.info("instance %s is down: submitted job %d to start it, attempt %d", name, job, before.count + 1)
        return Attempt(before.count + 1, now)

    async def _submit(self, op: Mapping[str, object], what: str, why: str) -> int | None:
        """Submit a job for an object and return its number; log an error and return None if the queue refuses it."""
        reason = ["gantry:watcher", why, int(self._runtime.clock.now() * 1e9)]
        try:
            return await self._master.call(int, "SubmitJob", [{**op, "reason": [reason]}])
        except (errors.PrerequisiteError, errors.QueueFullError) as error:
            log.error("%s: the job queue refused a job: %s", what, error)
            return None

    def _memory(self) -> Memory:
        try:
            return msgspec.json.decode(self._runtime.disk.read(self._path), type=Memory)
        except FileNotFoundError:
            return Memory()
        except msgspec.DecodeError as error:
            log.warning("%s is damaged and will be rewritten: %s", self._path, error)
            return Memory()


def _silent(nodes: Mapping[str, int]) -> list[str]:
    return [name for name, status in nodes.items() if status == NO_DATA]
