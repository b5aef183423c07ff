"""The node daemon's server: one HTTPS port, one call per POST, the same port before and after joining a cluster.

    POST /<procedure>   body: the call's fields as a JSON object
    answer              [true, result] or [false, [error class, arguments]] (``calls``)

Before the node joins a cluster, it answers ``Version``, ``NodeClock``, ``Join`` and ``Enrol`` to any client; afterwards
all calls, but only to the master. TLS accepts client certificates of the cluster's authority only, and
``membership.callers`` checks at each call that it still is the authority, and that the key is that of a master
candidate. A former master may be one; ``membership.fence`` recognizes it by the epoch in its calls, also in those that
only read. A call with a permit is carried out as that allows (``node.permits``). A caller whose protocol numbers
(``calls.protocol``) do not overlap with those of this version is refused. A client without a certificate, such as one
that connected before the joining, is refused before its body is read, unless its call is one of a machine with an
invitation: those go to ``visitors``. Each answer has headers with the node's version, protocol numbers and time, even a
refusal. The runtime's server runs every request in a task of its own.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Protocol

import msgspec

from gantry import errors
from gantry.node import call_table, permits
from gantry.node.daemon import departure
from gantry.node.membership import callers, enrollment, fence
from gantry.rpc import calls
from gantry.rpc.calls import protocol, reach
from gantry.runtime import http_interface, interface, limits, measures, repeated_logs, request_ids, traces

logger = logging.getLogger(__name__)

_INTRODUCTION = calls.MastersStore.procedure()
_LEAVE = calls.NodeLeave.procedure()
_PROOF, _USE = calls.ProveInvitation.procedure(), calls.UseInvitation.procedure()
BODY_LIMIT = 64 << 20
STRANGER_BODY_LIMIT = 1 << 20
"""For the calls of a node without a cluster, and of a master whose key the node does not know yet."""
CALLS = measures.Measure(
    "gantry_served_call_duration_seconds",
    measures.Kind.DURATION,
    ("call", "outcome"),
    "Calls that this node has answered, by procedure and outcome: done or failed; failed if they are refused, too.",
)
UNKNOWN_CALL = "other"
"""What a call is counted by that is not in the table, which the caller may choose."""
LINGER_SECONDS = 0.5
"""Time to send the answer to ``NodeLeave`` before its connection is closed."""


class Visitors(Protocol):
    """Answers machines that want to join with an invitation (``daemons.invitations``); ``peer`` is their address."""

    async def prove(self, call: calls.ProveInvitation, peer: str) -> calls.Proven:
        """Prove that the cluster has made an invitation."""
        ...

    async def use(self, call: calls.UseInvitation, peer: str) -> calls.JoinProgress:
        """Let the machine be added."""
        ...


class Agent:
    """The server of a node.

    ``table`` has the calls that the node answers while it belongs to a cluster; ``forget`` removes the cluster's files.
    ``visitors`` answers machines with an invitation; without it they are refused. ``clients`` refuses strangers,
    ``barrier`` former masters, ``call_permits`` calls that are too late. ``beside`` are run concurrently with the
    calls, and ``settle`` before them. ``counts`` gets the calls.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        identity: enrollment.Enrolment,
        *,
        table: call_table.Table,
        clients: callers.Callers,
        barrier: fence.Fence,
        call_permits: permits.Permits,
        forget: Callable[[], Awaitable[None]],
        beside: Sequence[Callable[[], Coroutine[None, None, None]]],
        settle: Callable[[], Awaitable[None]],
        software: str,
        visitors: Visitors | None = None,
        counts: measures.Measures | None = None,
    ) -> None:
        self._counts = counts or measures.Measures()
        self._runtime = runtime
        self._identity = identity
        self._clients = clients
        self._barrier = barrier
        self._permits = call_permits
        self._forget = forget
        self._beside = beside
        self._settle = settle
        self._software = software
        self._visitors = visitors
        self._allowed: limits.HttpLimits | None = None
        self._failures = repeated_logs.RepeatedLog(logger)
        self._reopen = asyncio.Event()
        self._departure = departure.Departure()
        self._server: interface.HttpServer | None = None
        self._member_calls = table
        self._member_calls.add(calls.Version, self._version)
        self._member_calls.add(calls.ExtendPermits, self._extend)
        self._member_calls.add(calls.EndCalls, self._permits.end)
        self._member_calls.add(calls.NodeLeave, self._leave)
        self._member_calls.add(calls.CertificateRequest, self._identity.request)
        self._member_calls.add(calls.CertificateStore, self._store)
        self._member_calls.add_for_caller(calls.Vouch, self._clients.vouch)
        self._member_calls.add_for_caller(calls.ProveEpoch, self._clients.prove)
        self._bootstrap_calls = call_table.Table()
        self._bootstrap_calls.add(calls.Version, self._version)
        self._bootstrap_calls.add(calls.NodeClock, self._clock)
        self._bootstrap_calls.add(calls.Join, self._identity.join)
        self._bootstrap_calls.add(calls.Enrol, self._enrol)

    def problem(self) -> str:
        """Return what keeps the node from work for a cluster, empty if nothing does."""
        if self._server is None:
            return "does not listen yet"
        return "" if self._identity.joined else "belongs to no cluster"

    @functools.cached_property
    def _names(self) -> set[str]:
        return self.procedures()

    def procedures(self) -> set[str]:
        """Return the names of all calls that are answered, before or after joining."""
        more_calls = {_INTRODUCTION, _PROOF, _USE}
        return self._bootstrap_calls.procedures() | self._member_calls.procedures() | more_calls

    async def run(
        self,
        host: str,
        port: int,
        *,
        ready: Callable[[], None] = lambda: None,
        allowed: limits.HttpLimits | None = None,
    ) -> None:
        """Serve until cancelled; call ``ready`` each time the port accepts connections. OSError: port in use."""
        self._allowed = allowed
        await self._settle()
        work = [*self._beside, self._barrier.acknowledged.keep]
        beside = [asyncio.ensure_future(each()) for each in work]
        try:
            await self._serve(host, port, ready=ready)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _serve(self, host: str, port: int, *, ready: Callable[[], None]) -> None:
        while True:
            await self._identity.prepare()
            tls = self._identity.context()
            self._reopen.clear()
            self._server = server = await self._runtime.network.serve_http(
                host, port, self.answer, tls=tls, body_limit=BODY_LIMIT, allowed=self._allowed, guard=self
            )
            try:
                ready()
                await self._until_due()
            finally:
                await server.close()

    async def _until_due(self) -> None:
        """Return when the node has left its cluster, or when its join token has ended: both need a new certificate."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._identity.token_seconds()):
                    await self._reopen.wait()
                await self._runtime.clock.sleep(LINGER_SECONDS)
                return
            if not self._identity.joined:
                return

    async def admit(self, request: http_interface.Request) -> limits.Admission | http_interface.Response:
        """Decide about a call by its headers: only the master of a node that belongs to a cluster may send much."""
        procedure = request.path.removeprefix("/")
        if not self._identity.joined or (procedure == _INTRODUCTION and request.peer_certificate):
            return limits.Admission(STRANGER_BODY_LIMIT)
        if procedure in (_PROOF, _USE):
            return limits.Admission(limits.STRANGER_BODY_BYTES)
        try:
            self._clients.identify(request.peer_certificate)
        except errors.GantryError as error:
            return self._failed(procedure, error, is_stranger=not request.peer_certificate)
        return limits.Admission(BODY_LIMIT, known=True)

    def knows(self, certificate: bytes) -> bool:
        """Return whether a client certificate is that of a master candidate now."""
        try:
            self._clients.identify(certificate)
        except (errors.GantryError, OSError, ValueError):  # a list of keys that cannot be read, too
            return False
        return True

    def refuse(self, status: int, message: str) -> http_interface.Response:
        """Return the answer for a call that the server refuses before it is read."""
        return http_interface.Response(status, _encoded(errors.BusyError(message)))

    def _failed(self, procedure: str, failure: errors.GantryError, *, is_stranger: bool) -> http_interface.Response:
        if self._identity.joined and not is_stranger:
            # An error may quote what the call contains, which the caller chooses.
            logger.info("%.100s: %.1000s", procedure, failure)
        else:  # anybody may call, whatever procedure
            self._failures.write(logging.INFO, "failed calls of strangers", "%.40s: %.1000s", procedure, failure)
        headers = self._headers()
        if isinstance(failure, errors.UnknownCallerError):
            headers[calls.OBEYED_HEADER] = calls.obeyed_to_header(*failure.obeyed)
        return http_interface.Response(failure.status, _encoded(failure), headers=headers)

    async def answer(self, request: http_interface.Request) -> http_interface.Response:
        """Answer a request; any exception becomes an error answer."""
        request_ids.CURRENT.set(request_ids.accepted(request.headers.get(request_ids.HEADER, "")))
        loop = asyncio.get_running_loop()
        begin, procedure = loop.time(), request.path.removeprefix("/")
        name = procedure if procedure in self._names else UNKNOWN_CALL
        with self._span(name, request) as span:
            answer, outcome = await self._answer(procedure, request)
            if outcome != "done":
                span.fail(outcome)
        self._counts.took(CALLS, loop.time() - begin, name, outcome)
        return answer

    def _span(self, name: str, request: http_interface.Request) -> contextlib.AbstractContextManager[traces.Span]:
        """Begin the span of a call that a master records; others of the cluster and strangers make no traces here."""
        parent = request.headers.get(traces.HEADER, "") if request.peer_certificate else ""
        if not parent:
            return contextlib.nullcontext(traces.NO_SPAN)
        return traces.entry(name, parent=parent, request=request_ids.CURRENT.get())

    async def _answer(self, procedure: str, request: http_interface.Request) -> tuple[http_interface.Response, str]:
        """Return the answer to a call, and its outcome for ``CALLS``."""
        try:
            result = await self._dispatch(procedure, request)
        except errors.GantryError as error:
            failure = error
        except OSError as error:
            failure = _system_error(procedure, error)
        except Exception as error:  # a bug in one call must not end the daemon
            logger.exception("%s failed", procedure)
            failure = errors.InternalError(f"{procedure}: {type(error).__name__}: {error}")
        else:
            done = http_interface.Response(200, msgspec.json.encode((True, result)), headers=self._headers())
            return done, "done"
        return self._failed(procedure, failure, is_stranger=not request.peer_certificate), "failed"

    def _headers(self) -> dict[str, str]:
        """Return what a caller may know of this node, even if the node refuses the call."""
        now = self._runtime.clock.now()
        return {
            calls.SOFTWARE_HEADER: self._software,
            protocol.HEADER: str(protocol.OWN),
            calls.TIME_HEADER: f"{now:.3f}",
            calls.MOMENT_HEADER: self._permits.moment().encode(),
        }

    async def _dispatch(self, procedure: str, request: http_interface.Request) -> object:
        if request.method != "POST":
            raise errors.ProtocolError(f"{request.method} is not supported for calls to a node, use POST")
        if not self._member_calls.takes_any_protocol(procedure):
            _check_protocol(request, self._software)
        if not self._identity.joined:
            return await self._bootstrap_calls.answer(procedure, request.body)
        if procedure == _LEAVE:
            return await self._answer_master(procedure, request)
        with self._departure.work():
            if procedure in (_PROOF, _USE):
                return await self._visit(procedure, request)
            return await self._answer_master(procedure, request)

    async def _answer_master(self, procedure: str, request: http_interface.Request) -> object:
        if procedure == _INTRODUCTION:
            introduction = call_table.decoded(calls.MastersStore, request.body)
            await self._clients.learn(introduction, request.peer_certificate)
            return None
        caller = self._clients.identify(request.peer_certificate)
        logger.debug("%s, %d bytes", procedure, len(request.body))
        epoch = _epoch(request)
        is_fenced = self._member_calls.is_fenced(procedure)
        if is_fenced:
            await self._barrier.admit(epoch, caller)
        if self._barrier.is_certified(epoch, caller):  # others may claim what was never acknowledged
            self._barrier.acknowledged.note(_acknowledged(request, epoch))
        permit = _permit(request)
        if permit is None:
            return await self._member_calls.answer(procedure, request.body, caller=caller)
        if is_fenced:
            await self._permits.end_former(permit.run, epoch)
        return await self._permits.carry_out(
            lambda: self._member_calls.answer(procedure, request.body, caller=caller),
            procedure=procedure,
            permit=permit,
            epoch=epoch if is_fenced else None,
            caller=caller,
        )

    async def _visit(self, procedure: str, request: http_interface.Request) -> object:
        """Answer a machine with an invitation; it has no certificate of this cluster."""
        if self._visitors is None:
            raise errors.WrongStateError("this node admits no machines", hint="use gnt-node add --join-token-file")
        if procedure == _PROOF:
            return await self._visitors.prove(call_table.decoded(calls.ProveInvitation, request.body), request.peer)
        return await self._visitors.use(call_table.decoded(calls.UseInvitation, request.body), request.peer)

    async def _version(self, call: calls.Version) -> calls.VersionInfo:
        member = self._identity.member()
        if member is None:
            return calls.VersionInfo(software=self._software)
        return calls.VersionInfo(software=self._software, node=member.node, uuid=member.uuid, cluster=member.cluster)

    async def _extend(self, call: calls.ExtendPermits) -> None:
        self._permits.extend(call)

    async def _clock(self, call: calls.NodeClock) -> float:
        return self._runtime.clock.now()

    async def _enrol(self, call: calls.Enrol) -> None:
        await self._identity.enrol(call)
        self._renew_tls()

    async def _store(self, call: calls.CertificateStore) -> None:
        if call.authority.encode() != self._identity.authority():
            self._barrier.check_trust("replace the authorities that it trusts")
        await self._identity.store(call)
        self._renew_tls()

    def _renew_tls(self) -> None:
        """Use the stored certificates from the next connection on."""
        if self._server is not None:
            self._server.renew_tls(self._identity.context())

    async def _leave(self, call: calls.NodeLeave) -> None:
        async with self._departure.leave():
            if not self._identity.joined:  # another call was first
                return
            await self._forget()
            await self._barrier.forget()
            await self._identity.leave()
            self._reopen.set()


def _encoded(failure: errors.GantryError) -> bytes:
    return msgspec.json.encode((False, failure.luxi_pair()))


def _check_protocol(request: http_interface.Request, software: str) -> None:
    header = request.headers.get(protocol.HEADER)
    if protocol.are_too_far_apart(header):
        caller = protocol.described(request.headers.get(calls.SOFTWARE_HEADER, ""), header)
        own_version = protocol.described(software, str(protocol.OWN))
        raise errors.IncompatibleError(
            f"this node runs {own_version}, the caller {caller}: they do not understand each other",
            hint="upgrade the older of the two, one release at a time (gnt-cluster upgrade)",
        )


def _epoch(request: http_interface.Request) -> int:
    text = request.headers.get(calls.EPOCH_HEADER, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= calls.EPOCH_DIGITS):
        raise errors.ProtocolError(
            f"the epoch of a call must be a number with at most {calls.EPOCH_DIGITS} digits, not {text[:20]!r}"
        )
    return int(text)


def _acknowledged(request: http_interface.Request, epoch: int) -> reach.Reach:
    """Return how far the master's changes are acknowledged; nothing of a later epoch than its own can be."""
    position = reach.from_header(request.headers.get(reach.HEADER, ""))
    return position if position and position[0] <= epoch else reach.UNKNOWN


def _permit(request: http_interface.Request) -> calls.Permit | None:
    """Return the permit of a call, None if it has none; ProtocolError if it cannot be read."""
    header = request.headers.get(calls.PERMIT_HEADER)
    permit = calls.decode_permit(header) if header is not None else None
    if header is not None and permit is None:
        raise errors.ProtocolError(f"the permit of a call must be as {calls.PERMIT_HEADER} says, not {header[:40]!r}")
    return permit


def _system_error(procedure: str, error: OSError) -> errors.GantryError:
    """Return the error that reports an operating system error which no driver has handled."""
    if isinstance(error, TimeoutError):
        return errors.EnvironmentFaultError(f"{procedure}: a program on the node timed out")
    where = f": {error.filename}" if error.filename else ""
    return errors.EnvironmentFaultError(f"{procedure}: {error.strerror or error}{where}")
