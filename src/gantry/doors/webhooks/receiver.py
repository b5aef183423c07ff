"""The delivery to one receiver: reads its events from the master, and sends each until it is accepted.

Events are sent one after the other, in their order. ``position`` moves over an event when all of its changes are
accepted or not selected. At most ``AT_ONCE`` events are in memory, whatever the distance to the newest one is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from gantry import errors
from gantry.doors.webhooks import attempts, message
from gantry.model import urls, webhook
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, measures, repeated_logs
from gantry.runtime.measures import Kind, Measure

log = logging.getLogger(__name__)

AT_ONCE = 100
"""How many events are read from the master at a time."""
RETRY_SECONDS = 1.0
"""The wait before another question to a master that has not answered."""
UNREAD_CHANGES = 500
"""The number of changes after which a position is stored, even if the receiver got none (``operations.webhook``)."""

DELIVERED = Measure(
    "gantry_webhook_delivered_total", Kind.COUNTER, ("webhook",), "Events that the receiver of a webhook has accepted."
)
FAILED = Measure(
    "gantry_webhook_failed_total",
    Kind.COUNTER,
    ("webhook",),
    "Attempts to deliver an event that the receiver of a webhook has not accepted.",
)


class _Answer(msgspec.Struct):
    """The master's answer: the next events, and the newest serial."""

    events: list[message.Event]
    serial: int


class Receiver:
    """A receiver; ``run`` sends its events until it is cancelled, or until the receiver has answered 410.

    ``head`` returns the newest serial that is known, and ``news`` returns when it has changed or may have.
    ``store_soon`` is called when the position should not wait for the next time that positions are stored.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        master: luxi.Caller,
        client: http_interface.Client,
        *,
        hook: webhook.Webhook,
        cluster: str,
        position: webhook.Position,
        head: Callable[[], int],
        news: Callable[[], Awaitable[None]],
        store_soon: Callable[[], None],
        counts: measures.Measures,
        log_lines: repeated_logs.RepeatedLog,
    ) -> None:
        self.hook = hook
        self.position = position.serial
        self.failure = position.failure
        self.waiting_since = position.waiting_since
        self.is_gone = False
        self._stored = (position.serial, position.failure, position.waiting_since)
        self._has_delivered = False
        self._runtime = runtime
        self._master = master
        self._client = client
        self._cluster = cluster
        self._url = urls.Url.parse(hook.secret_url, "the URL", without_tls=True, confidential=True)
        self._head = head
        self._news = news
        self._store_soon = store_soon
        self._counts = counts
        self._log = log_lines

    @property
    def lag(self) -> int:
        """Return the number of events that it has not processed."""
        return max(0, self._head() - self.position)

    @property
    def lag_seconds(self) -> float:
        """Return for how long its first event that was not accepted has waited, 0 if there is none."""
        return 0.0 if self.waiting_since is None else max(0.0, self._runtime.clock.now() - self.waiting_since)

    def to_store(self) -> tuple[int, str, float | None] | None:
        """Return position, failure and time of the waiting event if they should be stored, otherwise None."""
        current = (self.position, self.failure, self.waiting_since)
        is_far = self.position - self._stored[0] >= UNREAD_CHANGES
        return current if self._has_delivered or is_far or current[1:] != self._stored[1:] else None

    def has_stored(self, stored: tuple[int, str, float | None]) -> None:
        """Note what the master has stored."""
        self._stored = stored
        self._has_delivered = self.position != stored[0]

    async def run(self) -> None:
        """Send events until the receiver is gone."""
        while True:
            while self.position >= self._head():
                await self._news()
                if self.position > self._head():
                    # The master may have an older state than before: the question for events answers that.
                    break
            try:
                events = await self._next_events()
            except errors.GantryError as error:
                self._log.write(
                    logging.INFO, "reading for webhooks", "webhook %s cannot read events: %s", self.hook.name, error
                )
                await self._runtime.clock.sleep(RETRY_SECONDS)
                continue
            if not events:
                # The position is ahead of the master, or the master has nothing that it should have.
                await self._runtime.clock.sleep(RETRY_SECONDS)
                continue
            if events[0].serial != self.position + 1 and not await self._report_gap(events[0]):
                return
            for event in events:
                if not await self._deliver(event):
                    return

    async def _next_events(self) -> list[message.Event]:
        """Return the next events; the first one has another serial than the next if events are missing."""
        try:
            answer = await self._master.call(_Answer, "WaitForEvents", self.position, AT_ONCE, 0.0)
        except errors.PrunedError:
            answer = await self._master.call(_Answer, "WaitForEvents", 0, AT_ONCE, 0.0)
        if answer.serial < self.position:
            # The state was recovered from an older copy: what follows are other events with the same serials.
            answer = await self._master.call(_Answer, "WaitForEvents", answer.serial - 1, AT_ONCE, 0.0)
        return answer.events

    async def _report_gap(self, first: message.Event) -> bool:
        """Inform the receiver that the events before ``first`` are missing; return whether it accepts that."""
        log.warning(
            "webhook %s: the events after %d are not kept any more; the receiver gets those from %d on",
            self.hook.name,
            self.position,
            first.serial,
        )
        if not await self._send(message.of_gap(self._cluster, self.position, first), first.time):
            return False
        self.position = first.serial - 1
        return True

    async def _deliver(self, event: message.Event) -> bool:
        """Send the selected changes of an event; return whether the receiver accepts them."""
        for index, change in enumerate(event.changes):
            if self.hook.selects(change.kind, change.key, change.what):
                content = message.of_change(self._cluster, event, index)
                if not await self._send(content, event.time):
                    return False
        self.position = event.serial
        if any((change.kind, change.key) == ("webhook", self.hook.uuid) for change in event.changes):
            # Somebody may wait for the outcome of a test.
            self._store_soon()
        return True

    async def _send(self, content: message.Message, time: float) -> bool:
        """Send a message until the receiver accepts it; False if the receiver is gone."""
        clock, failures = self._runtime.clock, 0
        while True:
            now = clock.now()
            headers = message.headers(content, self.hook.secrets(now), now)
            outcome = await attempts.attempt(self._client, self._url, headers=headers, body=content.body, now=now)
            if outcome.result is attempts.Result.ACCEPTED:
                self._counts.count(DELIVERED, self.hook.name)
                if self.failure:
                    cause = f"webhook {self.hook.name}: success"
                    self._log.write(logging.INFO, cause, "webhook %s: the receiver accepts events", self.hook.name)
                self.failure, self.waiting_since, self._has_delivered = "", None, True
                return True
            failures += 1
            self._note_failure(outcome, time)
            if outcome.result is attempts.Result.GONE:
                self.is_gone = True
                return False
            await clock.sleep(attempts.wait_seconds(self._runtime.random, failures, outcome))

    def _note_failure(self, outcome: attempts.Outcome, time: float) -> None:
        self._counts.count(FAILED, self.hook.name)
        self.failure, self.waiting_since = outcome.reason, time
        self._log.write(
            logging.WARNING,
            f"webhook {self.hook.name}: {outcome.reason}",
            "webhook %s: the receiver at %s has not accepted an event: %s",
            self.hook.name,
            self.hook.origin,
            outcome.reason,
        )


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and return when it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
