"""LUXI: the master's own protocol, JSON messages that end in ETX on a UNIX socket (contracts/luxi.md#framing).

The permissions of the socket, the groups of a user and the access rules (``model.access``) are the access control: the
group ``gantry`` may use the methods that change nothing, root and the group ``gantry-admin`` all, and users with rules
those about jobs. On a machine without the group ``gantry-admin``, who may connect may use all methods, and that is root
and the daemons' group. Only a peer that may use all methods may name another user, for whom it makes a request:
gantry-rapi does so with each of its requests. A connection carries any number of requests, which are
answered in order. The answer to an invalid message is an error, and then the connection ends; a message longer than
``MESSAGE_LIMIT`` is never completely in memory. The methods and their arguments are in contracts/luxi.md#methods, in
two classes: methods in ``jobs`` change the cluster or its jobs, methods in ``queries`` change nothing. Who may use the
methods that change nothing reads everything, or on a cluster whose setting ``reading`` is ``rules`` what the access
rules let this subject see (``reading``).

While the master reaches too few master candidates (``state.candidates.replication``), methods that change something are
refused with NotMasterError, also those that already wait for their change to be acknowledged: those continue in the
background. An answer then has a ``notice``, and so has each answer while the newest changes have too few copies. Only a
change that gives a candidate up is possible then (``jobs.brief``).

Life cycle: the master daemon creates a Door and calls ``open``; ``close`` ends the connections.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gantry import errors
from gantry.doors.luxi import figures, jobs, queries, reading, services
from gantry.doors.luxi.services import Methods, Services
from gantry.model import access
from gantry.operations.access import check, views
from gantry.runtime import bounded_json, bytestream, interface, limits, repeated_logs, request_ids, traces
from gantry.state.objects import access_rules

log = logging.getLogger(__name__)

ETX = b"\x03"
MESSAGE_LIMIT = 16 << 20
"""In bytes; enough for about 40,000 opcodes. Decoded, a message of empty objects needs 27 times as much: 440 MiB."""

METHODS: Methods = jobs.METHODS | queries.METHODS
READERS = "gantry"
ADMINISTRATORS = "gantry-admin"

GIVE_UP_SECONDS = 10.0
"""How long the master tries to end a wait for candidates before the client is answered."""

_CHANGES = jobs.METHODS.keys() - jobs.WAITING

_DECODERS = {name: msgspec.json.Decoder(arguments, strict=False) for name, (arguments, _) in METHODS.items()}

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for arguments of another type than expected."""


class _NamedUser(msgspec.Struct, forbid_unknown_fields=True):
    """A user of the remote API, as ``rpc.luxi.NamedUser`` has it: ``token`` is the UUID of an API token.

    A master that knows no tokens, or no groups, refuses a request with them, because it allows no other keys.
    """

    name: str
    write: bool = False
    peer: Annotated[str, msgspec.Meta(max_length=100)] = ""
    groups: tuple[str, ...] = ()
    token: str = ""


class _Request(msgspec.Struct):
    """A request of a client; other keys are ignored. ``remote``: it passes on what a client elsewhere asked for.

    ``user`` is the user for whom the peer makes it, with the rights of that user. ``request`` is the id that a front
    end or a command has given it (``runtime.request_ids``).
    """

    method: str
    args: msgspec.Raw
    remote: bool = False
    user: _NamedUser | None = None
    request: str = ""


@dataclass(frozen=True)
class _Peer:
    """The process at the other end of a connection, as the kernel recorded it."""

    subject: access.Subject
    is_root: bool


class Door:
    """The server side of LUXI."""

    def __init__(
        self, runtime: interface.Runtime, provided: Services, *, allowed: limits.UnixLimits | None = None
    ) -> None:
        self._runtime = runtime
        self._allowed = allowed
        self._path = provided.folders.luxi_socket
        self._services = provided
        self._server: interface.Server | None = None
        self._refusals = repeated_logs.RepeatedLog(log)
        self._unanswered: set[asyncio.Future[object]] = set()
        self._views = views.Views()

    async def open(self) -> None:
        """Listen; root, the daemons' group and the two groups of users have access to the socket."""
        network = self._runtime.network
        self._server = await network.serve_unix(
            self._path,
            self._serve,
            mode=0o660,
            limit=MESSAGE_LIMIT,
            allowed=self._allowed,
            groups=(READERS, ADMINISTRATORS),
        )

    async def close(self) -> None:
        """Stop listening and end the connections."""
        if self._server:
            await self._server.close()
        for work in self._unanswered:
            work.cancel()

    async def _serve(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        """Answer the requests of a connection until the client disconnects, possibly in the middle of a message."""
        peer = self._peer(writer)
        try:
            while True:
                message = await reader.readuntil(ETX)
                answer, valid = await self._answer(message[:-1], peer)
                writer.write(msgspec.json.encode(answer) + ETX)
                await writer.drain()
                if not valid:
                    break
        except asyncio.LimitOverrunError:
            await _refuse(writer, errors.ProtocolError(f"message is longer than {MESSAGE_LIMIT} bytes"))
        except bytestream.RefusedError as error:
            busy = errors.BusyError(f"the master daemon refuses the message: {error}")
            await _refuse(writer, busy, retry_after=limits.RETRY_SECONDS)
        except (asyncio.IncompleteReadError, OSError) as error:
            log.debug("client disconnected: %s", error)
        finally:
            writer.close()

    def _peer(self, writer: bytestream.Writer) -> _Peer:
        network = self._runtime.network
        is_root = network.is_privileged(writer)
        # None: the machine does not have the group.
        is_admin = is_root or network.is_member(writer, ADMINISTRATORS) is not False
        groups = () if is_admin else network.peer_groups(writer)
        subject = access.Subject(user=network.peer_user(writer), groups=groups, is_admin=is_admin)
        return _Peer(subject, is_root)

    async def _answer(self, message: bytes, peer: _Peer) -> tuple[dict[str, object], bool]:
        """Return the answer to a message, and whether the message was a valid request."""
        try:
            request = bounded_json.decode(message, _Request)
        except bounded_json.UnreadableError as error:
            text = f"Failed to parse request: {errors.readable(str(error))}"
            return self._noticed({"success": False, "result": text}, None, b""), False
        subject: access.Subject | None = None
        services.BY_ROOT.set(peer.is_root and not request.remote and request.user is None)
        request_ids.CURRENT.set(request_ids.accepted(request.request))
        begin, outcome = self._runtime.clock.monotonic(), "canceled"
        try:
            subject = self._subject(request, peer.subject)
            services.SUBJECT.set(subject)
            self._check_method(request, subject)
            with traces.entry(f"luxi {_counted(request.method)}", request=request_ids.CURRENT.get()):
                result, outcome = await self._call(request, subject), "done"
            return self._noticed({"success": True, "result": result}, subject, message), True
        except errors.GantryError as error:
            outcome = type(error).__name__
            if isinstance(error, errors.ForbiddenError):
                who = f"user {(request.user.name if request.user else peer.subject.user)!r}"
                self._refusals.write(logging.INFO, f"requests of {who}", "a request of %s is refused: %s", who, error)
            failure = {"success": False, "result": self._visible(error.luxi_pair(), subject, message)}
            return self._noticed(failure, subject, message), True
        except Exception:  # a bug in one method must not end the daemon
            outcome = errors.InternalError.__name__
            log.exception("method %s failed", request.method)
            failure = _failure(errors.InternalError(f"method {request.method} failed", hint="see the master's log"))
            return self._noticed(failure, subject, message), True
        finally:
            seconds = self._runtime.clock.monotonic() - begin
            self._services.counts.took(figures.REQUESTS, seconds, _counted(request.method), outcome)

    def _noticed(self, answer: dict[str, object], subject: access.Subject | None, message: bytes) -> dict[str, object]:
        """Return an answer with what the client has to know beside it."""
        if notice := self._services.candidates.notice():
            answer["notice"] = self._visible(notice, subject, message)
        return answer

    def _visible(self, value: object, subject: access.Subject | None, message: bytes) -> object:
        """Return a text, or a failure, that names no object which is neither in the request nor visible."""
        view = self._views.of(self._services.snapshot(), subject) if subject else None
        return view.veil(message)(value) if view else value

    def _subject(self, request: _Request, peer: access.Subject) -> access.Subject:
        """Return who makes a request; ForbiddenError if a peer names another user without being allowed to."""
        if request.user is None:
            return msgspec.structs.replace(peer, groups=self._with_rules(peer.groups)) if peer.groups else peer
        if not peer.is_admin:
            raise errors.ForbiddenError(
                f"user {peer.user} may not make a request for user {request.user.name}: only root and the group "
                f"{ADMINISTRATORS}, as gantry-rapi, may name another user",
                hint="omit the user: the request is then made for your own",
            )
        user = request.user
        if user.token:
            return self._token_subject(user)
        groups = self._with_rules(user.groups)
        return access.Subject(user=user.name, door="rapi", groups=groups, is_admin=user.write, peer=user.peer)

    def _with_rules(self, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of some groups that have access rules: a job stores them."""
        rules_of = self._services.snapshot().rules_of if groups else {}
        return tuple(name for name in groups if f"group:{name}" in rules_of)

    def _token_subject(self, user: _NamedUser) -> access.Subject:
        """Return the subject of a request with a token; ForbiddenError if the token was revoked or has ended."""
        token = self._services.snapshot().apitokens.get(user.token)
        if token is None or token.user != user.name or token.has_ended(self._services.now()):
            raise errors.ForbiddenError(
                f"the API token of user {user.name} was revoked, or has ended", hint="use another token"
            )
        use = access.TokenUse(token.uuid, token.label, is_admin=user.write)
        return access.Subject(user=user.name, door="rapi", peer=user.peer, token=use)

    def _check_method(self, request: _Request, subject: access.Subject) -> None:
        """Refuse a method that changes something; users with rules may call those that decide about a job.

        gantry-rapi lets a user without rules submit only what reads, or is about own API tokens; it refuses all else.
        """
        if request.method not in _CHANGES or subject.is_admin:
            return
        state = self._services.snapshot()
        may_submit = request.user is not None or access_rules.has_rules(state, subject.names)
        if (request.method in jobs.BY_RULES and may_submit) or check.may_administer(state, subject):
            return
        raise errors.ForbiddenError(
            f"method {request.method} changes the cluster: only root and the group {ADMINISTRATORS} may use it",
            hint=f"run the command as root, or add your user to {ADMINISTRATORS} and log in again",
        )

    async def _call(self, request: _Request, subject: access.Subject) -> object:
        if request.method not in METHODS:
            raise errors.ProtocolError(f"no such method: {request.method}")
        services_of_call = reading.services_of(self._services, self._views, subject, request.method)
        arguments, method = _DECODERS[request.method], METHODS[request.method][1]
        try:
            values = arguments.decode(request.args)
        except _UNREADABLE as error:
            raise errors.InvalidError(
                f"arguments of {request.method} are not valid: {errors.readable(str(error))}"
            ) from None
        if request.method not in _CHANGES:
            return await method(services_of_call, *values)
        if self._services.candidates.stalled.is_set() and (answer := await self._given_up(request.method, values)):
            return answer
        self._services.candidates.check_ready()
        return await self._while_ready(asyncio.ensure_future(method(services_of_call, *values)))

    async def _given_up(self, method: str, values: Sequence[object]) -> object:
        """Return the answer to a request that ends the wait for candidates, None for any other request."""
        work: asyncio.Future[object] = asyncio.ensure_future(jobs.give_up(self._services, method, values))
        try:
            await asyncio.wait({work}, timeout=GIVE_UP_SECONDS)
        except asyncio.CancelledError:
            work.cancel()
            raise
        return self._result(work)

    async def _while_ready(self, work: asyncio.Future[object]) -> object:
        """Return the result of a change; NotMasterError if it cannot be acknowledged in time."""
        stalled: asyncio.Future[object] = asyncio.ensure_future(self._services.candidates.stalled.wait())
        try:
            await asyncio.wait({work, stalled}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            stalled.cancel()
        return self._result(work)

    def _result(self, work: asyncio.Future[object]) -> object:
        """Return the result of a change; UnacknowledgedError if it continues without its client."""
        if work.done():
            return work.result()
        self._unanswered.add(work)
        work.add_done_callback(self._forget)
        raise self._services.candidates.unacknowledged()

    def _forget(self, work: asyncio.Future[object]) -> None:
        self._unanswered.discard(work)
        if not work.cancelled() and (error := work.exception()):
            log.info("a request whose client was answered before it ended: %s", error)


def _counted(method: str) -> str:
    """Return the method that a request is counted by: of others a client may have any number."""
    return method if method in METHODS else "unknown"


async def _refuse(writer: bytestream.Writer, error: errors.GantryError, *, retry_after: int = 0) -> None:
    """Answer a message that is not carried out; the client may have disconnected.

    ``retry_after`` says after how many seconds the client may send the message again, on a new connection.
    """
    answer = _failure(error) | ({"retry_after": retry_after} if retry_after else {})
    with contextlib.suppress(OSError):
        writer.write(msgspec.json.encode(answer) + ETX)
        await writer.drain()


def _failure(error: errors.GantryError) -> dict[str, object]:
    return {"success": False, "result": error.luxi_pair()}


__all__ = ["METHODS", "Door", "Services"]
