"""GET /2/events: what changes in the cluster, as server-sent events (HTML Standard, section 9.2).

    begin     {"serial": N}: the events after this one follow
    change    an event, in the form of ``gantry events``; the id of the message is its serial
    lost      {}: events are missing; read the present state again
    job       with ?job=N: status, progress and new log messages of the job, for each change until it ends
    webhooks  with ?webhooks=1: {}, first and when anything about them has changed: read /2/webhooks again

A client that reconnects sends the id of its last message (the header Last-Event-ID), and gets what happened since then
if it is not more than ``feed.KEPT`` events; ``?after=N`` does the same. A stream without news sends a comment every
``PING_SECONDS``, so that both sides notice a lost connection.

On a cluster whose setting ``reading`` is ``rules``, a user who does not see everything gets the events that the master
lets this user see. When other objects are visible than before, ``lost`` makes the client read the state again, and so
forget what is not visible any more.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import msgspec

from gantry import errors
from gantry.doors.rapi import feed, routes, webhooks, wire
from gantry.rpc import jobs, luxi
from gantry.runtime import bounded_json, http_interface, interface

_PATH = "/2/events"
_FORM = "text/event-stream"

ROUTES = (
    routes.Route(
        "GET",
        _PATH,
        wire.Access.READ,
        None,
        "a stream of server-sent events: `begin`, `change`, `lost`, with the number of a `job` its changes, and with "
        "`webhooks=1` how far receivers are",
        ("after", "job", "webhooks"),
        form=_FORM,
    ),
)

PING_SECONDS = 15.0

JOB_WAIT_SECONDS = 5.0
"""How long a request to the master waits for a change of a job; as many as the pool has connections wait at a time."""

JOB_FIELDS = ("status", "summary", "received_ts", "start_ts", "end_ts", "progress")
ENDED = ("canceled", "error", "success")

WEBHOOKS_SECONDS = 2.0
"""How often a stream reads how far receivers are: that has no events, which would be delivered to them in turn."""

_WAITING_PIECES = 100
"""Messages that wait for a client which reads slowly; after these, the feed is what it is behind of."""

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Neither a cache nor a proxy may keep the messages."""


def calls(
    gate: wire.Gate, master: luxi.Caller, waiting: luxi.Caller, clock: interface.Clock
) -> Mapping[tuple[str, str], routes.Call]:
    """Return the function of the route; ``waiting`` is for requests to the master that wait for a job."""
    streams = _Streams(master, waiting, clock)

    async def call(_: routes.Master, request: wire.Request, names: Mapping[str, str]) -> http_interface.Response:
        return streams.response(request, gate.watch(request.raw, request.user))

    return {("GET", _PATH): call}


class _Streams:
    """The streams of a server."""

    def __init__(self, master: luxi.Caller, waiting: luxi.Caller, clock: interface.Clock) -> None:
        self._feed = feed.Feed(master, clock)
        self._master = master
        self._waiting = waiting
        self._clock = clock

    def response(self, request: wire.Request, is_live: Callable[[], Awaitable[bool]]) -> http_interface.Response:
        """Return a stream that lasts as long as ``is_live``; InvalidError for an argument that is not a number."""
        after = _number("Last-Event-ID", request.raw.headers.get("last-event-id", "")) or _argument(request, "after")
        user = luxi.USER.get(luxi.WITHOUT_RIGHTS)
        with_webhooks = bool(_argument(request, "webhooks"))
        pieces = self._pieces(after, _argument(request, "job"), is_live, user=user, with_webhooks=with_webhooks)
        return http_interface.Response(200, b"", _FORM, _HEADERS, pieces=pieces)

    async def _pieces(
        self,
        after: int | None,
        job: int | None,
        is_live: Callable[[], Awaitable[bool]],
        *,
        user: luxi.NamedUser | None,
        with_webhooks: bool,
    ) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_PIECES)
        # The tasks call the master for the user of the request, whichever task reads the pieces.
        context = contextvars.copy_context()
        context.run(luxi.USER.set, user)
        tasks = [asyncio.create_task(self._changes(queue, after), context=context)]
        if job is not None:
            tasks.append(asyncio.create_task(self._follow_job(queue, job), context=context))
        if with_webhooks:
            tasks.append(asyncio.create_task(self._follow_webhooks(queue), context=context))
        try:
            while True:
                piece = b":\n\n"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PING_SECONDS):
                        piece = await queue.get()
                if not await is_live():
                    return
                # All that waits is one piece: the user is looked up once for it, and it is written once.
                yield b"".join([piece, *(queue.get_nowait() for _ in range(queue.qsize()))])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _changes(self, queue: asyncio.Queue[bytes], after: int | None) -> None:
        visible = _VisibleEvents(self._master, self._clock)
        async with contextlib.aclosing(self._feed.follow(after)) as followed:
            async for item in followed:
                if item is None:
                    visible.skip()
                    await queue.put(_LOST)
                elif isinstance(item, int):
                    await visible.begin(item)
                    await queue.put(_message("begin", msgspec.json.encode({"serial": item})))
                    if after is not None and visible.is_limited:
                        await queue.put(_LOST)
                else:
                    for message in await visible.messages(item):
                        await queue.put(message)

    async def _follow_job(self, queue: asyncio.Queue[bytes], number: int) -> None:
        """Report each change of a job until it ends, or until the master does not know it."""
        previous: list[object] | None = None
        serial: int | None = None
        while True:
            arguments = number, JOB_FIELDS, previous, serial, JOB_WAIT_SECONDS
            try:
                change = await self._waiting.call(object, "WaitForJobChange", *arguments)
            except (errors.NotFoundError, errors.JobLostError):
                await queue.put(_message("job", msgspec.json.encode({"id": number, "status": None})))
                return
            except errors.GantryError:
                await self._clock.sleep(feed.RETRY_SECONDS)
                continue
            if change == "nochange":
                continue
            previous, entries = msgspec.convert(change, tuple[list[object], list[tuple[int, object, str, object]]])
            serial = entries[-1][0] if entries else serial
            values = dict(zip(JOB_FIELDS, previous, strict=True))
            content = msgspec.json.encode({"id": number, **values, "log": entries})
            await queue.put(_message("job", content))
            if values["status"] in ENDED:
                return

    async def _follow_webhooks(self, queue: asyncio.Queue[bytes]) -> None:
        """Report at the begin, and when something about the webhooks is not as before, to a user who may read them."""
        before: list[jobs.Row] | None = None
        while True:
            try:
                present = await webhooks.read(self._master)
            except errors.ForbiddenError:
                return
            except errors.GantryError:
                await self._clock.sleep(feed.RETRY_SECONDS)
                continue
            if present != before:
                await queue.put(_WEBHOOKS)
            before = present
            await self._clock.sleep(WEBHOOKS_SECONDS)


class _Visible(msgspec.Struct):
    """The master's answer: the events that a user sees after a serial, up to another one.

    ``mark`` says which objects the user sees; it is missing if those are all.
    """

    events: list[msgspec.Raw]
    serial: int
    mark: str | None = None


class _Serial(msgspec.Struct):
    serial: int


class _VisibleEvents:
    """The events of a stream that its user sees, by what the master says of them; the task names the user.

    While a user sees everything, the master is asked only about events on which that depends (``feed.OF_READING``).
    """

    def __init__(self, master: luxi.Caller, clock: interface.Clock) -> None:
        self._master = master
        self._clock = clock
        self._position: int | None = None
        self._mark: str | None = None

    @property
    def is_limited(self) -> bool:
        """Return whether the user does not see everything."""
        return self._mark is not None

    async def begin(self, serial: int) -> None:
        """Begin after a serial; waits until the master answers."""
        self._position = serial
        while True:
            try:
                self._mark = (await self._ask(feed.END)).mark
                return
            except errors.GantryError:
                await self._clock.sleep(feed.RETRY_SECONDS)

    def skip(self) -> None:
        """Continue with the next event, wherever that is: the client reads the state again."""
        self._position = None

    async def messages(self, event: feed.Event) -> list[bytes]:
        """Return the messages for an event: none if the user does not see it, or has it already."""
        position = event.serial - 1 if self._position is None else self._position
        self._position = max(position, event.serial)
        if not self.is_limited and not event.is_of_reading:
            return [_message("change", event.content, event.serial)]
        messages: list[bytes] = []
        while position < event.serial:
            try:
                answer = await self._ask(position)
            except errors.GantryError:
                return [*messages, _LOST]
            if answer.mark != self._mark:
                self._mark = answer.mark
                messages.append(_LOST)
            if answer.mark is None:
                return [*messages, _message("change", event.content, event.serial)]
            messages += (
                _message("change", bytes(content), msgspec.json.decode(content, type=_Serial).serial)
                for content in answer.events
            )
            # The answer of a master that begins with an earlier serial does not lead on.
            position = max(answer.serial, position + 1)
        self._position = position
        return messages

    async def _ask(self, serial: int) -> _Visible:
        return await self._master.call(_Visible, "WaitForEvents", serial, feed.AT_ONCE, 0.0)


def _message(kind: str, content: bytes, serial: int | None = None) -> bytes:
    """Return a message; its content is JSON, and so has no line breaks."""
    number = b"" if serial is None else b"id: %d\n" % serial
    return b"event: %s\n%sdata: %s\n\n" % (kind.encode(), number, content)


_LOST = _message("lost", b"{}")
_WEBHOOKS = _message("webhooks", b"{}")


def _argument(request: wire.Request, name: str) -> int | None:
    return _number(f"the query argument {name}", (request.query.get(name) or [""])[-1])


def _number(name: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return bounded_json.number(text)
    except bounded_json.UnreadableError as error:
        raise errors.InvalidError(f"{name} is {error}") from None
