"""``gantry-masterd recover --from NODE``: replaces the state on this machine by the copy of a master candidate.

Instead of a node it may be a folder of this machine with a copy that was kept aside (``node.membership.kept_copies``,
``state.start.replacement``).

No master daemon runs. The copy is fetched with the authority on this machine, beside the present files, and checked:
every checksum and the whole chain. Then it is compared with what this machine and the other candidates know of the
past; a copy that lacks something is installed only if the administrator accepts the loss. ``state.start.replacement``
installs it so that a crash leaves the old state or the new one, and keeps the replaced files.
"""

from dataclasses import dataclass

from gantry import errors
from gantry.mastership import membership, survey
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state.files import ownership
from gantry.state.journal import journal
from gantry.state.start import evidence, recovery, replacement
from gantry.state.store import transaction


@dataclass(frozen=True)
class Request:
    """The node or the folder whose copy is installed; with ``accepts_loss`` even a copy that lacks records."""

    node: str
    accepts_loss: bool = False

    @property
    def folder(self) -> str:
        """Return the folder, empty for a node."""
        return self.node.rstrip("/") if self.node.startswith("/") else ""

    @property
    def description(self) -> str:
        """Return whose copy it is, as text for people."""
        return f"the copy in {self.folder}" if self.folder else f"the copy of node {self.node}"


@dataclass(frozen=True)
class Result:
    """The end of the installed copy, the next job's number, and the folder of the replaced files.

    ``losses`` are the accepted ones, ``silent`` the nodes that did not say how far their copies reach.
    """

    end: journal.Position
    next_job: int
    previous: str
    losses: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


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
                retrieval = _Retrieval(runtime, folders, request, nodes=nodes)
                installed = await retrieval.run(copy)
            finally:
                # Without an installation, nothing of the copy remains.
                await copy.recover()
        finally:
            lock.release()
    if not installed.losses:
        return installed
    return await _with_numbers(
        runtime, folders, installed, last_job=retrieval.highest_job, epoch=retrieval.highest_epoch
    )


async def _with_numbers(
    runtime: interface.Runtime, folders: paths.Paths, installed: Result, *, last_job: int, epoch: int
) -> Result:
    """Raise job number and epoch above those that were used, because the copy does not know them."""
    store = await transaction.Store.open(runtime, folders, behind=recovery.Behind.ACCEPTED)
    try:
        await store.accept_loss(installed.losses, last_job=last_job, epoch=epoch)
        next_job = store.snapshot.last_job + 1
    finally:
        await store.close()
    return Result(store.position, next_job, installed.previous, installed.losses, installed.silent)


class _Retrieval:
    """One retrieval, with the queue's lock held; after ``run``, it has the highest numbers that were reported."""

    def __init__(
        self, runtime: interface.Runtime, folders: paths.Paths, request: Request, *, nodes: client.Client
    ) -> None:
        self._runtime = runtime
        self._folders = folders
        self._request = request
        self._nodes = nodes
        self.highest_job = 0
        self.highest_epoch = 0

    async def run(self, copy: replacement.Replacement) -> Result:
        """Fetch, check and install the copy."""
        local = survey.local(self._runtime.disk, self._folders)
        past = evidence.read(self._runtime.disk, self._folders)
        own = membership.read(self._runtime.disk, self._folders).node
        source = None if self._request.folder else self._source(local, own)
        if source is None:
            await copy.copy_from(self._request.folder)
            theirs = _extent(await recovery.recover(self._runtime, copy.where))
        else:
            theirs = await self._status(source, past)
        apart = (own, source.name if source else own)
        known_epoch = max(theirs.epoch, theirs.heard, past.highest_epoch, local.end.epoch if local.end else 0)
        answers = await survey.ask(self._nodes, local.nodes.values(), apart=apart, epoch=known_epoch)
        missing = [survey.described(answer) for answer in answers.newer(theirs)]
        if source is not None:
            await self._fetch(copy, source, theirs)
        recovered = await self._checked(copy, theirs)
        missing += [*_missing_here(local, recovered), *past.losses(recovered.state, recovered.replay.end)]
        lost_records = answers.lost_records(
            source.name if source else own, theirs, own=max(past.acknowledged, theirs.acknowledged)
        )
        missing += [str(lost_records)] if lost_records else []
        if missing and not self._request.accepts_loss:
            raise errors.WrongStateError(
                f"{self._request.description} was not installed: {'; '.join(missing)}",
                hint="take the copy of another candidate, or add --accept-loss to install this one",
            )
        unknown_jobs = evidence.UNKNOWN_JOBS if lost_records and not past.reaches(lost_records.last) else 0
        self.highest_job = max(past.highest_job, local.last_job, answers.last_job, theirs.job) + unknown_jobs
        self.highest_epoch = max(known_epoch, answers.epoch)
        previous = await copy.install(highest_job=self.highest_job if missing else past.job_serial)
        next_job = recovered.state.last_job + 1
        return Result(recovered.replay.end, next_job, previous, tuple(missing), tuple(answers.silent))

    async def _status(self, source: targets.Target, past: evidence.Evidence) -> calls.CandidateState:
        theirs = await survey.status(self._nodes, source)
        if isinstance(theirs, errors.GantryError):
            raise theirs
        if not theirs.serial:
            raise errors.WrongStateError(
                f"node {source.name} has no copy of the state", hint=f"name a master candidate: {_names(past)}"
            )
        return theirs

    def _source(self, local: survey.Local, own: str) -> targets.Target:
        name = self._request.node
        if name == own:
            raise errors.InvalidError(f"{name} is this machine", hint="name another master candidate")
        if name not in local.nodes:
            raise errors.NotFoundError(
                f"no such node: {name}", hint=f"the nodes that are known here are {', '.join(sorted(local.nodes))}"
            )
        return local.nodes[name]

    async def _fetch(self, copy: replacement.Replacement, source: targets.Target, theirs: calls.CandidateState) -> None:
        """Fetch the copy of a node; WrongStateError if it does not end as ``theirs`` says any more."""
        await self._fetch_parts(copy, source)
        if await survey.status(self._nodes, source) != theirs:
            raise errors.WrongStateError(
                f"the copy of node {source.name} changed while it was fetched",
                hint="a master runs: nothing was changed",
            )

    async def _fetch_parts(self, copy: replacement.Replacement, source: targets.Target) -> None:
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
                f"{self._request.description} ends at serial {end.serial} epoch {end.epoch}, "
                f"and the node says serial {theirs.serial} epoch {theirs.epoch}",
                hint="take the copy of another master candidate",
            )
        return recovered


def _extent(recovered: recovery.Recovered) -> calls.CandidateState:
    end = recovered.replay.end
    return calls.CandidateState(
        serial=end.serial, digest=end.digest, epoch=end.epoch, job=recovered.state.last_job, master=""
    )


def _missing_here(local: survey.Local, recovered: recovery.Recovered) -> list[str]:
    end, here = recovered.replay.end, local.end
    if here is None or (end.epoch, end.serial) > (here.epoch, here.serial):
        return []
    return [
        f"it ends at serial {end.serial} epoch {end.epoch}, and the copy here, at serial {here.serial} "
        f"epoch {here.epoch}, is not older"
    ]


def _names(past: evidence.Evidence) -> str:
    return ", ".join(past.candidates) or "(none is known here)"
