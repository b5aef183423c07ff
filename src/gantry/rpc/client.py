"""The master's side of the node calls: pooled HTTPS connections, fan-out, and the errors for failures.

``Client`` answers the ``Nodes`` protocol of the operations. A call to an offline node fails at once; an
unreachable node gives a RemoteError with its name, its address and what to do; a node that refuses gives its own error,
with its name before the message. The client never repeats a call; callers may (all node calls can be repeated).

The calls of a confirmed master carry its epoch (``fence``). A node that has seen a higher epoch refuses them; then
``replaced`` is called, and the master finds out whether another node has become the master. Calls that change something
wait while the master does not have its lease (``state.candidates.lease``). A node that does not know the master's key
refuses its calls: then ``introduce`` may help, and the call is made once more. Before the first call with an epoch to a
node, the client brings the proof of the epoch (``prove``), and again when the node does not know it. When a node obeys
another master that may not have replaced this one, the call waits until this one has its next epoch. Each call that
changes something has a permit: the node carries it out only while its caller waits for it and has the right
(``permits``). A node whose protocol numbers do not overlap with those of this version is refused (``calls.protocol``).
A node that is too busy for a call says so before it has done anything: the client sends the call again, until its
timeout.

``Queued`` is the client of jobs: it limits how many of their calls are under way at one node (``call_queue``), and a
job that calls many nodes gives up those that answer nothing (``liveness``).
"""

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from gantry import errors, security
from gantry.rpc import call_queue, calls, exchange, liveness, permits, silence, targets
from gantry.rpc.calls import reach
from gantry.runtime import interface, measures, request_ids, traces

Result = TypeVar("Result")


CALLS = measures.Measure(
    "gantry_node_call_duration_seconds",
    measures.Kind.DURATION,
    ("call", "outcome"),
    "Calls of the master to node daemons, by the call and its outcome: done, or the kind of the error.",
)

PROOF_SECONDS = 60.0
"""For how long a node counts as knowing the proof of an epoch."""
DOUBT_SECONDS = 10.0
"""For how long a node counts as not convinced by the proof: meanwhile the candidates may sign it again."""
CONFIRMATION_SECONDS = 15
"""How long a call waits for a later epoch of this master, when a node does not obey the present one."""
SHARED_CHECK_SECONDS = 1.0
"""For how long after its beginning a ``Version`` call answers others too: an older one may wait for a lost answer."""


class _Visit(NamedTuple):
    """The last time when a node was shown the proof of an epoch, and until when it is not shown again.

    ``failure`` is the error of a node that did not answer: then it is shown the proof again by the next call.
    """

    epoch: int
    at: float
    until: float
    is_convinced: bool = False
    failure: errors.RemoteError | None = None


class Client:
    """Calls nodes; all connections use one TLS context until ``reconnect`` replaces it.

    ``run`` is a token of this run of the daemon (``permits``); without it, calls have no permits. ``counts`` gets what
    is measured.
    """

    def __init__(
        self,
        network: interface.Network,
        tls: ssl.SSLContext | None,
        *,
        run: str = "",
        counts: measures.Measures | None = None,
    ) -> None:
        self._counts = counts or measures.Measures()
        self._network = network
        self._http = network.http_client(tls=tls)
        self._epoch: Callable[[], int] | None = None
        self._replaced: Callable[[errors.FencedError], None] | None = None
        self._permitted: Callable[[], Awaitable[None]] | None = None
        self._introduce: Callable[[targets.Target], Awaitable[bool]] | None = None
        self._acknowledged: Callable[[], reach.Reach] = lambda: reach.UNKNOWN
        self._prove: Callable[[targets.Target, int], Awaitable[bool]] | None = None
        self._visits: dict[tuple[str, int], _Visit] = {}
        self._proving: dict[tuple[str, int], asyncio.Lock] = {}
        self._answered: dict[tuple[str, int], float] = {}
        self._permits = permits.Permits(run, self._ask) if run else None

    def fence(
        self,
        epoch: Callable[[], int],
        replaced: Callable[[errors.FencedError], None],
        *,
        permitted: Callable[[], Awaitable[None]],
        right: Callable[[], float] | None = None,
        introduce: Callable[[targets.Target], Awaitable[bool]] | None = None,
        acknowledged: Callable[[], reach.Reach] = lambda: reach.UNKNOWN,
    ) -> None:
        """Send the epoch of a confirmed master with all calls; call ``replaced`` when a node refuses the epoch.

        Calls that change something wait until ``permitted`` returns, and their permits end with the right of the
        master: ``right`` returns for how many seconds it lasts. ``introduce`` is called when a node does not know this
        master, and returns whether it does then. ``acknowledged`` returns how far changes are acknowledged: all calls
        tell the nodes.
        """
        if self._permits and right:
            self._permits.limit(right)
        self._epoch, self._replaced, self._permitted = epoch, replaced, permitted
        self._introduce = introduce
        self._acknowledged = acknowledged

    def prove(self, bring: Callable[[targets.Target, int], Awaitable[bool]]) -> None:
        """Call ``bring`` before the first call of an epoch to a node, with the proof; it returns whether that helps."""
        self._prove = bring

    async def reconnect(self, tls: ssl.SSLContext) -> None:
        """Make all connections by another TLS context from now on; calls under way continue with theirs."""
        before, self._http = self._http, self._network.http_client(tls=tls)
        await before.retire()

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; raises its error, or RemoteError when it is offline or does not answer."""
        is_introduced = is_confirmed = False
        while True:
            epoch = self._epoch_of(call)
            try:
                return await self.attempt(target, call)
            except errors.UnknownCallerError:
                if is_introduced or self._introduce is None or not await self._introduce(target):
                    raise
                is_introduced = True
                self._visits.pop(_node(target), None)
            except errors.NotGrantedError:
                # The master has heard of it (``replaced``), and asks the nodes to confirm it in another epoch.
                if is_confirmed or not call.FENCED or not await self._is_confirmed_again(epoch):
                    raise
                is_confirmed = True

    async def _is_confirmed_again(self, epoch: int) -> bool:
        """Wait until this master has a later epoch; return False if that takes too long."""
        for _ in range(CONFIRMATION_SECONDS):
            if self._epoch is not None and self._epoch() > epoch > 0:
                return True
            await _pause()
        return False

    async def attempt(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node as ``call`` does, without an introduction."""
        if target.offline:
            raise errors.RemoteError(f"node {target.name} is marked offline", hint="the node was not called")
        epoch, loop = self._epoch_of(call), asyncio.get_running_loop()
        await self._bring_proof(target, epoch)
        begin = loop.time()
        while True:
            try:
                return await self._make(target, call)
            except errors.UnprovenError:
                # The node may have lost the proof, with the run of its daemon that was shown it.
                if await self._bring_proof(target, epoch, since=begin):
                    return await self._make(target, call)
                if self._prove is None or not epoch or loop.time() > begin + calls.LEASE_SECONDS:
                    raise
            # The node obeys this master when it has not heard of the former one for some time.
            await _pause()

    def _epoch_of(self, call: calls.Call[Result]) -> int:
        """Return the epoch of a call, 0 if the node does not ask for one."""
        if isinstance(call, calls.LeaseRenew | calls.JournalAppend | calls.CheckpointStore):
            return call.epoch
        return self._epoch() if self._epoch and call.FENCED else 0

    async def _bring_proof(self, target: targets.Target, epoch: int, *, since: float = liveness.NEVER) -> bool:
        """Show a node the proof of an epoch, unless it has seen it ``since`` a time; return whether it is convinced.

        RemoteError if the node does not answer. The call itself is not made then: if the node heard of the epoch by the
        call alone, it would obey a former master that has the proof of an earlier epoch.
        """
        if not epoch or self._prove is None:
            return False
        node, loop = _node(target), asyncio.get_running_loop()
        begin = loop.time()
        async with self._proving.setdefault(node, asyncio.Lock()):
            last = self._visits.get(node)
            if last and last.epoch == epoch and last.at > since and (last.until > begin or last.at >= begin):
                if last.failure:
                    raise errors.RemoteError(last.failure.message, hint=last.failure.hint)
                return last.is_convinced
            try:
                is_convinced = await self._prove(target, epoch)
            except errors.RemoteError as error:  # those that wait here meanwhile do not ask the node again
                self._visits[node] = _Visit(epoch, loop.time(), liveness.NEVER, failure=error)
                raise
            seconds = PROOF_SECONDS if is_convinced else DOUBT_SECONDS
            self._visits[node] = _Visit(epoch, loop.time(), loop.time() + seconds, is_convinced=is_convinced)
            return is_convinced

    async def _make(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        if not call.needs_permit():
            return await self._ask(target, call)
        await self._wait_for_right(call)
        if self._permits is None:
            return await self._ask(target, call)
        while self._permits.needs_moment(target):
            await self._ask(target, calls.Version())
            await self._wait_for_right(call)
        async with self._permits.permit(target) as headers:
            return await self._ask(target, call, headers={**headers, **request_ids.header()})

    async def _wait_for_right(self, call: calls.Call[Result]) -> None:
        if self._permitted and call.FENCED:
            await self._permitted()

    async def _ask(
        self, target: targets.Target, call: calls.Call[Result], *, headers: Mapping[str, str] | None = None
    ) -> Result:
        of_master = {calls.EPOCH_HEADER: str(self._epoch())} if self._epoch else {}
        if (acknowledged := self._acknowledged()) != reach.UNKNOWN:
            of_master[reach.HEADER] = reach.to_header(acknowledged)
        sent = {**of_master, **(headers or {})}
        loop = asyncio.get_running_loop()
        begin, outcome = loop.time(), "canceled"
        try:
            with traces.part(call.procedure(), {"server.address": target.name}, kind=traces.Kind.CLIENT):
                sent |= traces.header()
                answer = await exchange.make(self._http, target, call, headers=sent, on_answer=self._note)
            outcome = "done"
        except errors.GantryError as error:
            outcome = type(error).__name__
            if self._replaced and isinstance(error, errors.FencedError):
                self._replaced(error)
            raise
        finally:
            self._counts.took(CALLS, loop.time() - begin, call.procedure(), outcome)
        return answer

    def last_answer(self, target: targets.Target) -> float:
        """Return when a node last answered any call, also with an error, by the time of the event loop."""
        return self._answered.get((target.address, target.port), liveness.NEVER)

    def silence(self) -> silence.Silence | None:
        """Return None: this client remembers nothing about nodes that do not answer."""
        return None

    def _note(self, target: targets.Target, headers: Mapping[str, str]) -> None:
        self._answered[target.address, target.port] = asyncio.get_running_loop().time()
        if self._permits:
            self._permits.note(target, headers)

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        """Call many nodes at once; the answers are in the order of ``where``, failures among them."""
        return await asyncio.gather(*(liveness.answer(self, target, call) for target in where))

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        """Call a node that has not joined, over the certificate in its join token; InvalidError for a bad token.

        RemoteError, too, if the node presents another certificate: each token has one of its own.
        """
        try:
            tls = security.bootstrap_client_context(security.JoinToken.decode(token).certificate)
        except ValueError as error:
            raise errors.InvalidError(
                f"node {target.name}: {error}", hint="copy the line that is in lib/join-token on the node"
            ) from None
        http = self._network.http_client(tls=tls)
        try:
            return await exchange.make(http, target, call, headers={})
        except errors.RemoteError as error:
            if "certificate verify failed" in error.message:
                raise _other_token(target) from error
            raise
        finally:
            await http.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._permits:
            await self._permits.close()
        await self._http.close()


class Queued(liveness.Relay):
    """Calls nodes for jobs: at each node, only some of the calls are under way at a time (``call_queue``)."""

    def __init__(self, nodes: Client, silent: silence.Silence | None = None) -> None:
        super().__init__(nodes)
        self._silent = silent
        self._slots = call_queue.Slots(call_queue.JOB_SLOTS)
        self._checks: dict[targets.Target, tuple[float, asyncio.Task[calls.VersionInfo]]] = {}
        self._tasks: set[asyncio.Task[calls.VersionInfo]] = set()

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node in its turn; raises its error, or RemoteError when it is offline or does not answer.

        Many jobs may ask at a time whether a node answers (``Version``): those of one second share a call.
        """
        if target.offline:
            return await self._nodes.call(target, call)
        if isinstance(call, calls.Version):
            return cast("Result", await asyncio.shield(self._check(target, call)))
        async with self._slots.slot(target):
            return await self._nodes.call(target, call)

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        """Call many nodes at once; a node that answers no call at all meanwhile is given up."""
        return await liveness.attend(self, where, call)

    def silence(self) -> silence.Silence | None:
        """Return the nodes that are known not to answer."""
        return self._silent

    def _check(self, target: targets.Target, call: calls.Version) -> asyncio.Task[calls.VersionInfo]:
        now = asyncio.get_running_loop().time()
        begin, check = self._checks.get(target, (liveness.NEVER, None))
        if check is None or begin + SHARED_CHECK_SECONDS < now:
            check = asyncio.create_task(self._nodes.call(target, call))
            self._checks[target] = now, check
            self._tasks.add(check)
            check.add_done_callback(functools.partial(self._forget_check, target))
        return check

    def _forget_check(self, target: targets.Target, check: asyncio.Task[calls.VersionInfo]) -> None:
        self._tasks.discard(check)
        if self._checks.get(target, (0.0, None))[1] is check:
            del self._checks[target]
        if not check.cancelled():
            check.exception()  # those who asked may have stopped waiting

    async def close(self) -> None:
        """End the calls that nobody waits for."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pause() -> None:
    """Wait for a second."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.Event().wait()


def _node(target: targets.Target) -> tuple[str, int]:
    return target.address, target.port


def _other_token(target: targets.Target) -> errors.RemoteError:
    return errors.RemoteError(
        f"node {target.name} ({target.address} port {target.port}) does not present the certificate in this join "
        "token: the token has ended, was used, or is that of another machine, or another machine answers there",
        hint=f"run gantry-node join there with a token that gnt-node add {target.name} prints now, or copy the line "
        "that is in lib/join-token there now; if it has joined a cluster, gnt-node remove it from that first",
    )
