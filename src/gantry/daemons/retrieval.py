"""``gantry-masterd recover --from NODE``: replaces the state on this machine by the copy of a master candidate.

No master daemon runs. The copy is fetched with the authority on this machine, beside the present files, and checked:
every checksum and the whole chain. Then it is compared with what this machine and the other candidates know of the
past; a copy that lacks something is installed only if the administrator accepts the loss. ``state.replacement``
installs it so that a crash leaves the old state or the new one, and keeps the replaced files.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.daemons import role, vote
from gantry.model import cluster
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state import checkpoint, evidence, journal, ownership, recovery, replacement, transaction

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""How long a node has to say how far its copy reaches."""

DEFAULT_PORT = 1811
"""The port of a node daemon if neither state nor ssconf says another: earlier versions had no ports in ssconf."""


@dataclass(frozen=True)
class Request:
    """The node whose copy is installed; with ``accepts_loss`` also a copy that lacks records."""

    node: str
    accepts_loss: bool = False


@dataclass(frozen=True)
class Result:
    """The end of the installed copy, the next job's number, and the folder of the replaced files.

    ``losses`` are the accepted ones.
    """

    end: journal.Position
    next_job: int
    previous: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Local:
    """What this machine says of the cluster: its nodes, and the highest job number in what can be read of its copy.

    ``end`` is where its copy ends, None if not all of the copy can be read.
    """

    nodes: Mapping[str, targets.Target]
    last_job: int = 0
    end: journal.Position | None = None


async def retrieve(
    runtime: interface.Runtime, folders: paths.Paths, request: Request, *, nodes: client.Client
) -> Result:
    """Replace the state by the copy of a node.

    Raises WrongStateError for a copy that is not newer, and if a master daemon runs; RemoteError if the node does not
    answer, ConfigurationError if its copy is damaged. Then the state here is as before.
    """
    with ownership.disk_faults(folders):
        lock = await ownership.take(runtime, folders)
        try:
            copy = replacement.Replacement(runtime.disk, folders)
            await copy.recover()
            try:
                installed = await _Retrieval(runtime, folders, request, nodes=nodes).run(copy)
            finally:
                # Without an installation, nothing of the copy remains.
                await copy.recover()
        finally:
            lock.release()
    return await _with_numbers(runtime, folders, installed) if installed.losses else installed


async def _with_numbers(runtime: interface.Runtime, folders: paths.Paths, installed: Result) -> Result:
    """Raise job number and epoch above those that were used, because the copy does not know them."""
    store = await transaction.Store.open(runtime, folders, behind=recovery.Behind.ACCEPTED)
    try:
        if not await _accept(store):
            return installed
        last_job = store.snapshot.last_job
    finally:
        await store.close()
    return Result(store.position, last_job + 1, installed.previous, installed.losses)


async def _accept(store: transaction.Store) -> bool:
    try:
        await store.accept_loss()
    except errors.WrongStateError:
        # Nothing but the replaced copy itself told of more.
        return False
    return True


class _Retrieval:
    """One retrieval, with the queue's lock held."""

    def __init__(
        self, runtime: interface.Runtime, folders: paths.Paths, request: Request, *, nodes: client.Client
    ) -> None:
        self._runtime = runtime
        self._folders = folders
        self._request = request
        self._nodes = nodes

    async def run(self, copy: replacement.Replacement) -> Result:
        """Fetch, check and install the copy."""
        local = _local(self._runtime.disk, self._folders)
        past = evidence.read(self._runtime.disk, self._folders)
        source = self._source(local)
        apart = (source.name, role.member(self._runtime.disk, self._folders).node)
        other_nodes = [target for name, target in sorted(local.nodes.items()) if name not in apart]
        theirs, *answers = await asyncio.gather(self._status(source), *(self._status(other) for other in other_nodes))
        if isinstance(theirs, errors.GantryError):
            raise theirs
        if not theirs.serial:
            raise errors.WrongStateError(
                f"node {source.name} has no copy of the state", hint=f"name a master candidate: {_names(past)}"
            )
        missing = list(_missing_elsewhere(theirs, other_nodes, answers))
        await self._fetch(copy, source)
        if await self._status(source) != theirs:
            raise errors.WrongStateError(
                f"the copy of node {source.name} changed while it was fetched",
                hint="a master runs: nothing was changed",
            )
        recovered = await self._checked(copy, theirs)
        missing += [*_missing_here(local, recovered, source.name), *past.losses(recovered.state, recovered.replay.end)]
        if missing and not self._request.accepts_loss:
            raise errors.WrongStateError(
                f"the copy of node {source.name} was not installed: {'; '.join(missing)}",
                hint="take the copy of another candidate, or add --accept-loss to install this one",
            )
        highest_job = max(past.highest_job, local.last_job) if missing else past.job_serial
        previous = await copy.install(highest_job=highest_job)
        last_job = recovered.state.last_job
        return Result(recovered.replay.end, last_job + 1, previous, tuple(missing))

    def _source(self, local: _Local) -> targets.Target:
        name = self._request.node
        if name == role.member(self._runtime.disk, self._folders).node:
            raise errors.InvalidError(f"{name} is this machine", hint="name another master candidate")
        if name not in local.nodes:
            raise errors.NotFoundError(
                f"no such node: {name}", hint=f"the nodes that are known here are {', '.join(sorted(local.nodes))}"
            )
        return local.nodes[name]

    async def _status(self, target: targets.Target) -> calls.CandidateState | errors.GantryError:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._nodes.call(target, calls.CandidateStatus())
        except errors.GantryError as error:
            return error
        except TimeoutError:
            return errors.RemoteError(f"node {target.name} did not answer within {TIMEOUT_SECONDS:g} s")

    async def _fetch(self, copy: replacement.Replacement, source: targets.Target) -> None:
        await copy.begin()
        request = calls.CopyFetch()
        while True:
            part = await self._nodes.call(source, request)
            await copy.write(part.pieces)
            if part.following is None:
                return
            name, offset = part.following
            request = calls.CopyFetch(name=name, offset=offset)

    async def _checked(self, copy: replacement.Replacement, theirs: calls.CandidateState) -> recovery.Recovered:
        """Return the state that the copy gives; ConfigurationError for damage, or if it ends elsewhere."""
        recovered = await recovery.recover(self._runtime, copy.where)
        copy.check_history()
        end = recovered.replay.end
        if (end.epoch, end.serial, end.digest) != (theirs.epoch, theirs.serial, theirs.digest):
            raise errors.ConfigurationError(
                f"the copy of node {self._request.node} ends at serial {end.serial} epoch {end.epoch}, "
                f"and the node says serial {theirs.serial} epoch {theirs.epoch}",
                hint="take the copy of another master candidate",
            )
        return recovered


def _local(disk: interface.Disk, where: paths.Paths) -> _Local:
    """Read what is here, without a change; damage makes the end unknown, and then ssconf has the nodes."""
    try:
        loaded = checkpoint.decode(disk.read(where.config), path=where.config)
    except (errors.ConfigurationError, OSError) as error:
        log.warning("the state here cannot be read: %s", error)
        return _Local(_from_ssconf(disk, where))
    own = {value.name: value for value in loaded.objects if isinstance(value, cluster.Node)}
    known = {name: targets.Target(node.uuid, name, node.primary_ip, node.port) for name, node in own.items()}
    replay = journal.Replay(disk, where.journal, loaded.position)
    last_job, end = loaded.last_job, None
    try:
        for record in replay:
            last_job = max([last_job, *(int(change.key) for change in record.changes if change.kind == "jobs")])
        end = replay.end
    except (errors.ConfigurationError, OSError) as error:
        log.warning("the journal here cannot be read: %s", error)
    return _Local({**_from_ssconf(disk, where), **known}, last_job, end)


def _from_ssconf(disk: interface.Disk, where: paths.Paths) -> dict[str, targets.Target]:
    """Return the nodes in the ssconf files."""
    ports = {name: int(port) for name, port in _pairs(disk, f"{where.ssconf}/ssconf_node_ports") if port.isdecimal()}
    addresses = _pairs(disk, f"{where.ssconf}/ssconf_node_primary_ips")
    return {name: targets.Target("", name, address, ports.get(name, DEFAULT_PORT)) for name, address in addresses}


def _pairs(disk: interface.Disk, path: str) -> list[tuple[str, str]]:
    """Return the lines of a file that have two words."""
    lines = disk.read(path).decode(errors="replace").splitlines() if disk.exists(path) else []
    return [(words[0], words[1]) for words in map(str.split, lines) if len(words) == 2]


def _missing_elsewhere(
    theirs: calls.CandidateState,
    other_nodes: Sequence[targets.Target],
    answers: Sequence[calls.CandidateState | errors.GantryError],
) -> list[str]:
    """Return which other nodes hold more than the copy; WrongStateError if a master daemon runs on one of them."""
    missing = []
    for other, answer in zip(other_nodes, answers, strict=True):
        if isinstance(answer, errors.WrongStateError):
            raise errors.WrongStateError(
                f"{answer.message}", hint="a state can only be replaced while no master daemon runs"
            )
        if isinstance(answer, errors.GantryError):
            log.warning("node %s cannot say whether it holds more: %s", other.name, answer)
        elif vote.is_newer(answer, theirs):
            missing.append(f"node {other.name} holds a newer one, serial {answer.serial} epoch {answer.epoch}")
    return missing


def _missing_here(local: _Local, recovered: recovery.Recovered, node: str) -> list[str]:
    end, here = recovered.replay.end, local.end
    if here is None or (end.epoch, end.serial) > (here.epoch, here.serial):
        return []
    return [
        f"it ends at serial {end.serial} epoch {end.epoch}, and the copy here, at serial {here.serial} "
        f"epoch {here.epoch}, is not older"
    ]


def _names(past: evidence.Evidence) -> str:
    return ", ".join(past.candidates) or "(none is known here)"
