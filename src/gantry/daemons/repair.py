"""The repair of a damaged or incomplete state before the master daemon starts: ``gantry-masterd recover``.

``--from NODE`` installs the copy of a master candidate (``retrieval``), and ``--accept-loss`` goes on without the lost
end of the journal. ``master`` calls ``recover``; no master daemon runs meanwhile.
"""

import logging

from gantry import errors
from gantry.daemons import identity, retrieval
from gantry.rpc import client
from gantry.runtime import interface, paths
from gantry.state import recovery, transaction

log = logging.getLogger(__name__)


async def recover(runtime: interface.Runtime, folders: paths.Paths, *, source: str, accepts_loss: bool) -> None:
    """Install the copy of the node ``source``, or without one go on without the lost records, and print the outcome.

    InvalidError if neither is asked for.
    """
    if source:
        await _retrieve(runtime, folders, retrieval.Request(source, accepts_loss=accepts_loss))
    elif accepts_loss:
        await _accept_loss(runtime, folders)
    else:
        raise errors.InvalidError(
            "recover needs --from NODE, to install the copy of a master candidate, or --accept-loss, to go on without "
            "the records that the journal lost",
            hint="use --from if any candidate has them",
        )


async def _retrieve(runtime: interface.Runtime, folders: paths.Paths, request: retrieval.Request) -> None:
    """Install the copy of a node, and print how far it goes."""
    authority = identity.load(runtime, folders)
    credentials = identity.Credentials(runtime, folders, authority, secure=True)
    await credentials.renew()
    nodes = client.Client(runtime.network, credentials.context)
    try:
        result = await retrieval.retrieve(runtime, folders, request, nodes=nodes)
    finally:
        await nodes.close()
    for line in result.losses:
        log.warning("records were lost, and the loss was accepted: %s", line)
    losses = f" Lost: {'; '.join(result.losses)}." if result.losses else ""
    print(f"The copy of node {request.node} is installed: serial {result.end.serial} epoch {result.end.epoch}.{losses}")
    print(f"The replaced files are in {result.previous}.")
    print(f"The next job is {result.next_job}; start gantry-masterd now.")


async def _accept_loss(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Go on without the lost end of the journal; the checkpoint that closes the store has the new numbers."""
    store = await transaction.Store.open(runtime, folders, behind=recovery.Behind.ACCEPTED)
    try:
        losses = await store.accept_loss()
        last_job = store.snapshot.last_job
    finally:
        await store.close()
    for line in losses:
        log.warning("records were lost, and the loss was accepted: %s", line)
    print(f"Records after serial {store.position.serial - 1} are lost: {'; '.join(losses)}.")
    print(f"The next job is {last_job + 1}; start gantry-masterd now.")
