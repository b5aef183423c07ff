"""The permits of the calls that a daemon makes: until when a node may carry each out (``calls.permits``).

The end of a permit is computed from the last moment of the node's clock that an answer told, and from the time when the
answer arrived: the node's clock showed that moment before. So a permit never lasts longer than the master's right
(``state.candidates.lease``), except for the difference of the two clocks' speeds since then; a moment older than
``MAX_AGE_SECONDS`` does not count. With the 4 s of a right after that, the permit ends before the lease as long as
neither clock runs 1.4 times as fast as the other.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from gantry import errors
from gantry.rpc import calls, targets
from gantry.rpc.calls import permits

PERMIT_SECONDS = 4.0
"""How long a permit lasts at most, if it is not extended."""

MAX_AGE_SECONDS = 10.0
EXTENSION_SECONDS = 1.0
"""Time between two extensions of the permits of the calls at one node."""
END_SECONDS = 1.0
"""For a node to end a call that its caller has given up."""

_Node = tuple[str, int]


def _unlimited() -> float:
    return float("inf")


class Permits:
    """The calls under way that need permits.

    ``run`` is a token of this run of the daemon, ``ask`` makes a call without a permit.
    """

    def __init__(self, run: str, ask: Callable[[targets.Target, calls.Call[None]], Awaitable[None]]) -> None:
        self._run = run
        self._ask = ask
        self._right: Callable[[], float] = _unlimited
        self._moments: dict[_Node, tuple[permits.Moment | None, float]] = {}
        self._numbers = itertools.count(1)
        self._under_way: dict[_Node, set[int]] = {}
        self._extending: dict[_Node, asyncio.Task[None]] = {}

    def limit(self, right: Callable[[], float]) -> None:
        """End all permits when the right of the master ends: ``right`` returns for how many seconds it lasts."""
        self._right = right

    def note(self, target: targets.Target, headers: Mapping[str, str]) -> None:
        """Note the moment in an answer of a node that arrived now."""
        moment = permits.decode_moment(headers.get(permits.MOMENT_HEADER))
        self._moments[_node(target)] = moment, asyncio.get_running_loop().time()

    def needs_moment(self, target: targets.Target) -> bool:
        """Return whether an answer of the node is needed before a call with a permit."""
        _, received = self._moments.get(_node(target), (None, float("-inf")))
        return received + MAX_AGE_SECONDS < asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def permit(self, target: targets.Target) -> AsyncGenerator[dict[str, str], None]:
        """Yield the headers of a call with a permit, which is extended until the block ends.

        They are empty for a node of an earlier version, which does not tell its moment.
        """
        node, number = _node(target), next(self._numbers)
        until = self._until(node)
        if until is None:
            yield {}
            return
        numbers = self._under_way.setdefault(node, set())
        numbers.add(number)
        if node not in self._extending:
            self._extending[node] = asyncio.create_task(self._extend(target), name=f"permits {target.name}")
        try:
            yield {permits.PERMIT_HEADER: permits.Permit(self._run, number, until).encode()}
        except (asyncio.CancelledError, errors.RemoteError):
            numbers.discard(number)
            await self._end(target, number)
            raise
        finally:
            numbers.discard(number)

    async def _end(self, target: targets.Target, number: int) -> None:
        """End a call that nobody waits for any more, so that what follows does not meet it at work on the node."""
        call = permits.EndCalls(run=self._run, numbers=(number,))
        with contextlib.suppress(errors.GantryError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._ask(target, call)

    def _until(self, node: _Node) -> permits.Moment | None:
        """Return the moment of the node's clock at which a permit that is given now ends."""
        moment, received = self._moments.get(node, (None, 0.0))
        if moment is None:
            return None
        since = asyncio.get_running_loop().time() - received
        return moment.later(since + min(PERMIT_SECONDS, self._right()))

    async def _extend(self, target: targets.Target) -> None:
        """Extend the permits of all calls at a node again and again, as long as there are any and the right lasts."""
        node = _node(target)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EXTENSION_SECONDS):
                        await asyncio.Event().wait()
                numbers = self._under_way[node]
                if not numbers:
                    return
                until = self._until(node)
                if until is not None and self._right() > 0:
                    # A node that does not answer extends nothing, and the answers of others do not wait for it.
                    with contextlib.suppress(errors.GantryError):
                        call = permits.ExtendPermits(
                            run=self._run, numbers=tuple(sorted(numbers)), until=until.encode()
                        )
                        await self._ask(target, call)
        finally:
            del self._extending[node]

    async def close(self) -> None:
        """Extend no permit any more."""
        tasks = list(self._extending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _node(target: targets.Target) -> _Node:
    return target.address, target.port
