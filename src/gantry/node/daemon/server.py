"""The node daemon's server: one HTTPS port, a call per POST, the same port before and after joining a cluster.

    POST /<procedure>   body: the call's fields as a JSON object
    answer              [true, result] or [false, [error class, arguments]] (``calls``)

Before the node joined it answers ``Version``, ``Join`` and ``Enrol`` to anybody; afterwards everything, to the master
alone: TLS demands a client certificate of the cluster's authority, and its common name is checked here, so that neither
another cluster's certificate nor a node's own opens anything. A master that has been replaced shows the same
certificate: ``membership.fence`` tells it by the epoch that its calls carry. A bootstrap connection that outlives the
joining shows no certificate and is refused. Every request runs in a task of its own (the runtime's server sees to
that).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

from gantry import errors, security
from gantry.node import call_table
from gantry.node.membership import enrollment, fence
from gantry.rpc import calls
from gantry.runtime import interface

logger = logging.getLogger(__name__)

BODY_LIMIT = 64 << 20
# After leaving, the answer still has to go out before its connection is closed.
LINGER = 0.5


class Agent:
    """Serves one node; ``table`` holds what a member answers, ``forget`` removes what a cluster left behind.

    ``barrier`` keeps out masters of the past. ``prepare`` runs once, beside the first calls.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        identity: enrollment.Enrolment,
        *,
        table: call_table.Table,
        barrier: fence.Fence,
        forget: Callable[[], Awaitable[None]],
        prepare: Callable[[], Coroutine[None, None, None]],
        software: str,
    ) -> None:
        self._runtime = runtime
        self._identity = identity
        self._barrier = barrier
        self._forget = forget
        self._prepare = prepare
        self._software = software
        self._reopen = asyncio.Event()
        self._member = table
        self._member.add(calls.Version, self._version)
        self._member.add(calls.NodeLeave, self._leave)
        self._newcomer = call_table.Table()
        self._newcomer.add(calls.Version, self._version)
        self._newcomer.add(calls.Join, self._identity.join)
        self._newcomer.add(calls.Enrol, self._identity.enrol)

    def procedures(self) -> set[str]:
        """Return the names of all calls that are answered, before or after joining."""
        return self._newcomer.procedures() | self._member.procedures()

    async def run(self, host: str, port: int, *, ready: Callable[[], None] = lambda: None) -> None:
        """Listen until cancelled; ``ready`` is called each time that connections are taken. OSError: port in use."""
        preparing = asyncio.ensure_future(self._prepare())
        try:
            await self._serve(host, port, ready=ready)
        finally:
            preparing.cancel()
            await asyncio.wait([preparing])

    async def _serve(self, host: str, port: int, *, ready: Callable[[], None]) -> None:
        while True:
            await self._identity.prepare()
            tls = self._identity.context()
            self._reopen.clear()
            server = await self._runtime.network.serve_http(host, port, self.answer, tls=tls, body_limit=BODY_LIMIT)
            try:
                ready()
                await self._reopen.wait()
                await self._runtime.clock.sleep(LINGER)
            finally:
                await server.close()

    async def answer(self, request: interface.HttpRequest) -> interface.HttpResponse:
        """Answer one request, whatever happens."""
        procedure = request.path.removeprefix("/")
        try:
            result = await self._dispatch(procedure, request)
        except errors.GantryError as error:
            failure = error
        except OSError as error:
            failure = _from_system(procedure, error)
        except Exception as error:  # the wall between one call's bug and the daemon
            logger.exception("%s failed", procedure)
            failure = errors.InternalError(f"{procedure}: {type(error).__name__}: {error}")
        else:
            return interface.HttpResponse(200, msgspec.json.encode((True, result)))
        logger.info("%s: %s", procedure, failure)
        return interface.HttpResponse(failure.status, msgspec.json.encode((False, failure.luxi_pair())))

    async def _dispatch(self, procedure: str, request: interface.HttpRequest) -> object:
        if request.method != "POST":
            raise errors.ProtocolError(f"{request.method} is no way to call a node, POST is")
        if not self._identity.joined:
            return await self._newcomer.answer(procedure, request.body)
        if not _from_master(request):
            raise errors.ProtocolError("only the cluster's master may call this node")
        logger.debug("%s, %d bytes", procedure, len(request.body))
        epoch = request.headers.get(calls.EPOCH_HEADER, "0")
        if not epoch.isdecimal():
            raise errors.ProtocolError(f"{epoch!r} is no epoch")
        await self._barrier.admit(int(epoch), fenced=self._member.is_fenced(procedure))
        return await self._member.answer(procedure, request.body)

    async def _version(self, call: calls.Version) -> calls.VersionInfo:
        member = self._identity.member()
        if member is None:
            return calls.VersionInfo(software=self._software)
        return calls.VersionInfo(software=self._software, node=member.node, uuid=member.uuid, cluster=member.cluster)

    async def _leave(self, call: calls.NodeLeave) -> None:
        await self._forget()
        await self._barrier.forget()
        await self._identity.leave()
        self._reopen.set()


def _from_master(request: interface.HttpRequest) -> bool:
    certificate = request.peer_certificate
    return certificate is not None and security.common_name(certificate) == security.MASTER


def _from_system(procedure: str, error: OSError) -> errors.GantryError:
    """Turn what no driver expected of the system into the error that says so."""
    if isinstance(error, TimeoutError):
        return errors.EnvironmentFaultError(f"{procedure}: a program on the node took too long")
    where = f": {error.filename}" if error.filename else ""
    return errors.EnvironmentFaultError(f"{procedure}: {error.strerror or error}{where}")
