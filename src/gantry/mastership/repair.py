"""The repair of a damaged or incomplete state before the master daemon starts: ``gantry-masterd recover``.

``--from NODE`` installs the copy of a master candidate (``retrieval``), and ``--accept-loss`` continues without the
lost end of the journal, unless another node has it. ``master`` calls ``recover``; no master daemon runs meanwhile.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.mastership import identity, membership, retrieval, survey
from gantry.rpc import calls, client
from gantry.runtime import interface, paths
from gantry.state.start import evidence, recovery
from gantry.state.store import transaction

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Accepted:
    """The last serial before the loss, the next job's number, what is lost, and the nodes that did not answer."""

    serial: int
    next_job: int
    losses: tuple[str, ...]
    silent: tuple[str, ...] = ()


async def recover(runtime: interface.Runtime, folders: paths.Paths, *, source: str, accepts_loss: bool) -> None:
    """Install the copy of the node ``source``, or without one continue without the lost records, and print the outcome.

    InvalidError if neither is asked for.
    """
    if source:
        await _retrieve(runtime, folders, retrieval.Request(source, accepts_loss=accepts_loss))
    elif accepts_loss:
        await _go_on(runtime, folders)
    else:
        raise errors.InvalidError(
            "recover needs --from NODE, to install the copy of a master candidate, or --accept-loss, to continue "
            "without the records that the journal lost",
            hint="use --from if any candidate has them",
        )


async def _retrieve(runtime: interface.Runtime, folders: paths.Paths, request: retrieval.Request) -> None:
    """Install the copy of a node, and print how far it goes."""
    async with _client(runtime, folders) as nodes:
        result = await retrieval.retrieve(runtime, folders, request, nodes=nodes)
    for line in result.losses:
        log.warning("records were lost, and the loss was accepted: %s", line)
    losses = f" Lost: {'; '.join(result.losses)}." if result.losses else ""
    print(f"T{request.description[1:]} is installed: serial {result.end.serial} epoch {result.end.epoch}.{losses}")
    if result.losses:
        _print_silent(result.silent)
    print(f"The replaced files are in {result.previous}.")
    print(f"The next job is {result.next_job}; start gantry-masterd now.")


async def _go_on(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Continue without the lost end of the journal, and print what is lost."""
    async with _client(runtime, folders) as nodes:
        accepted = await accept_loss(runtime, folders, nodes=nodes)
    for line in accepted.losses:
        log.warning("records were lost, and the loss was accepted: %s", line)
    print(f"Records after serial {accepted.serial} are lost: {'; '.join(accepted.losses)}.")
    _print_silent(accepted.silent)
    print(f"The next job is {accepted.next_job}; start gantry-masterd now.")


def _print_silent(silent: Sequence[str]) -> None:
    if silent:
        print(f"These nodes did not say what they have, and records that only they have are lost: {'; '.join(silent)}.")


@contextlib.asynccontextmanager
async def _client(runtime: interface.Runtime, folders: paths.Paths) -> AsyncIterator[client.Client]:
    """Yield a client with the authority's credentials, which calls the nodes as a master."""
    authority = identity.load(runtime, folders)
    credentials = identity.Credentials(runtime, folders, authority, secure=True)
    await credentials.renew()
    nodes = client.Client(runtime.network, credentials.context)
    try:
        yield nodes
    finally:
        await nodes.close()


async def accept_loss(runtime: interface.Runtime, folders: paths.Paths, *, nodes: client.Client) -> Accepted:
    """Continue without the lost end of the journal; the checkpoint that closes the store has the new numbers.

    WrongStateError if no record is missing, if a node that answers has more, or if a master daemon runs on it. Records
    are missing too if nodes have heard that more was acknowledged.
    """
    store = await transaction.Store.open(runtime, folders, behind=recovery.Behind.ACCEPTED)
    try:
        serial = store.position.serial
        answers = await _answers(runtime, folders, store, nodes)
        past = evidence.read(runtime.disk, folders)
        own, here = membership.read(runtime.disk, folders).node, _copy(store)
        lost_records = answers.lost_records(own, here, own=past.acknowledged)
        # Without a word of other nodes, the files here have to tell of a loss.
        losses = (*store.losses(is_known=lost_records is not None), *([str(lost_records)] if lost_records else []))
        # What is beyond the end mark, too, was lost with all that told which job numbers it had.
        unknown_jobs = evidence.UNKNOWN_JOBS if lost_records and not past.reaches(lost_records.last) else 0
        last_job = max(answers.last_job, past.highest_job, here.job)
        await store.accept_loss(losses, last_job=last_job + unknown_jobs, epoch=answers.epoch)
        next_job = store.snapshot.last_job + 1
    finally:
        await store.close()
    return Accepted(serial, next_job, losses, tuple(answers.silent))


async def _answers(
    runtime: interface.Runtime, folders: paths.Paths, store: transaction.Store, nodes: client.Client
) -> survey.Survey:
    """Ask the other nodes; WrongStateError if a master candidate has records that the store lacks.

    The state and the ssconf files of this machine say which nodes are candidates. The word of another node, which has
    no copy, must not keep the operator from continuing.
    """
    own = membership.read(runtime.disk, folders).node
    stored = {node.name: survey.target(node) for node in store.snapshot.nodes.values()}
    known_nodes = survey.local(runtime.disk, folders).nodes | stored
    past = evidence.read(runtime.disk, folders)
    known_epoch = max(store.epoch, past.highest_epoch)
    answers = await survey.ask(nodes, known_nodes.values(), apart=(own,), epoch=known_epoch)
    end, here = store.position, _copy(store)
    candidates = {node.name for node in store.snapshot.nodes.values() if node.master_candidate}.union(past.candidates)
    for answer in answers.newer(here):
        if answer.node not in candidates:
            log.warning("%s, but is no master candidate in what this machine knows", survey.described(answer))
    if newer := [answer for answer in answers.newer(here) if answer.node in candidates]:
        raise errors.WrongStateError(
            f"the loss was not accepted: the copy here ends at serial {end.serial} epoch {end.epoch}, and "
            f"{'; '.join(map(survey.described, newer))}",
            hint=f"install that copy: gnt-cluster recover --from {newer[-1].node}",
        )
    return answers


def _copy(store: transaction.Store) -> calls.CandidateState:
    end = store.position
    return calls.CandidateState(
        serial=end.serial, digest=end.digest, epoch=end.epoch, job=store.durable.last_job, master=""
    )
