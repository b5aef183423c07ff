"""Webhooks: each event of the cluster is posted to the receivers that want it, by gantry-rapi on the master's machine.

One task asks the master for news of all receivers; each receiver has a task and connections of its own
(``receiver``), so that a slow one delays no other. Every ``STORE_SECONDS`` the positions that have moved are stored in
the state, by one transaction for all: after a restart of this daemon, or on another master, delivery continues from
there. What a receiver accepted since then, it gets twice, with the same ``webhook-id``.

See explanation/decisions/0072-webhooks.md. Life cycle: ``daemons.remote`` creates ``Webhooks`` and calls ``run``.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from gantry import errors, security
from gantry.doors.webhooks import receiver
from gantry.model import webhook
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, measures, repeated_logs
from gantry.runtime.measures import Family, Kind, Measure, Sample

log = logging.getLogger(__name__)

STORE_SECONDS = 10.0
"""How often positions are stored."""
SHORTEST_SECONDS = 1.0
"""The shortest time between two transactions with positions, after tests too."""
NEWS_SECONDS = 30.0
"""How long a request to the master waits for an event."""
NEWS_INTERVAL_SECONDS = 0.2
"""The wait between two requests for news: events that come together are one piece of news."""
RETRY_SECONDS = 1.0
"""The wait until a master that does not answer is asked again."""
FAULT_SECONDS = 60.0
"""The wait after a fault of the program, before it continues."""
LAST_STORE_SECONDS = 5.0
"""How long the end of the daemon waits until the last positions are stored."""

LAG = Measure(
    "gantry_webhook_lag_events", Kind.GAUGE, ("webhook",), "Changes of the state that a webhook has not processed yet."
)
LAG_TIME = Measure(
    "gantry_webhook_lag_seconds",
    Kind.GAUGE,
    ("webhook",),
    "For how long the first event that the receiver of a webhook has not accepted has waited; 0 if there is none.",
)
MEASURES = (receiver.DELIVERED, receiver.FAILED, LAG, LAG_TIME)
"""All measures of webhooks; the reference page is generated from this table."""


class _Receivers(msgspec.Struct):
    """The master's answer to ``ReadWebhooks``: the cluster's UUID, the newest serial, webhooks and positions."""

    cluster: str
    serial: int
    webhooks: list[webhook.Webhook]
    positions: list[webhook.Position]


class _News(msgspec.Struct):
    """The part of an answer to ``WaitForEvents`` that says whether there is news."""

    serial: int


@dataclass(frozen=True)
class _Running:
    """A receiver, its task, and its connections."""

    receiver: receiver.Receiver
    task: asyncio.Task[None]
    client: http_interface.Client

    async def close(self) -> None:
        await receiver.cancelled(self.task)
        await self.client.close()


class Webhooks:
    """The receivers of a cluster; ``master`` is called as a peer that may do everything, and names no user."""

    def __init__(self, runtime: interface.Runtime, master: luxi.Caller, *, counts: measures.Measures) -> None:
        self._runtime = runtime
        self._master = master
        self._counts = counts
        self._running: dict[str, _Running] = {}
        self._head = 0
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()
        self._log = repeated_logs.RepeatedLog(log, burst=1)
        counts.add_source(self._families)

    async def run(self) -> None:
        """Deliver events until cancelled; then store the last positions."""
        storing = asyncio.create_task(self._keep_storing())
        try:
            await self._follow()
        finally:
            await receiver.cancelled(storing)
            for running in self._running.values():
                await running.close()
            with contextlib.suppress(TimeoutError, errors.GantryError):
                async with asyncio.timeout(LAST_STORE_SECONDS):
                    await self._store()

    async def _follow(self) -> None:
        """Read which receivers there are, and wait for news of the state, which may be news of them."""
        is_answering = False
        while True:
            try:
                await self._read()
                is_answering = True
                news = await self._master.call(_News, "WaitForEvents", self._head, 1, NEWS_SECONDS)
            except errors.GantryError as error:
                if is_answering:
                    log.info("webhooks cannot read events: %s", error)
                is_answering = False
                await self._runtime.clock.sleep(RETRY_SECONDS)
                continue
            except Exception:  # as for one receiver
                log.exception("webhooks failed")
                await self._runtime.clock.sleep(FAULT_SECONDS)
                continue
            if news.serial != self._head:
                await self._runtime.clock.sleep(NEWS_INTERVAL_SECONDS)

    async def _read(self) -> None:
        """Begin and end receivers as the webhooks say; one that was changed continues from where it is."""
        answer = await self._master.call(_Receivers, "ReadWebhooks")
        self._head = answer.serial
        enabled = {hook.uuid: hook for hook in answer.webhooks if hook.enabled}
        stored = {position.uuid: position for position in answer.positions}
        for uuid, running in list(self._running.items()):
            if running.receiver.hook == enabled.get(uuid):
                continue
            await running.close()
            with contextlib.suppress(errors.GantryError):
                # A receiver that is enabled again later continues from the stored position.
                await self._store()
            del self._running[uuid]
            stored[uuid] = _position_of(running.receiver)
        for uuid, hook in enabled.items():
            if uuid not in self._running:
                position = stored.get(uuid) or webhook.Position(uuid=uuid, name=hook.name, serial=self._head)
                self._begin(hook, answer.cluster, position)
        self._wake()

    def _begin(self, hook: webhook.Webhook, cluster: str, position: webhook.Position) -> None:
        is_secure = hook.secret_url.startswith("https:")
        tls = security.outside_client_context(authority=hook.authorities) if is_secure else None
        client = self._runtime.network.http_client(tls=tls)
        new = receiver.Receiver(
            self._runtime,
            self._master,
            client,
            hook=hook,
            cluster=cluster,
            position=position,
            head=lambda: self._head,
            news=self._wait,
            store_soon=self._hurry.set,
            counts=self._counts,
            log_lines=self._log,
        )
        self._running[hook.uuid] = _Running(new, asyncio.create_task(self._serve(new)), client)

    async def _serve(self, own: receiver.Receiver) -> None:
        """Deliver to a receiver; disable the webhook of one that is gone."""
        while not own.is_gone:
            try:
                await own.run()
            except Exception:  # a fault about one event must end neither the daemon nor the other receivers
                log.exception("webhook %s failed", own.hook.name)
                await self._runtime.clock.sleep(FAULT_SECONDS)
        log.warning("webhook %s is disabled: the receiver answered 410, Gone", own.hook.name)
        op = {"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": own.hook.name, "enabled": False}
        op["reason"] = [("gnt:webhook", "the receiver answered 410, Gone", int(self._runtime.clock.now() * 1e9))]
        while True:
            try:
                await self._store()
                await self._master.call(int, "SubmitJob", [op])
            except errors.NotFoundError:
                return
            except errors.GantryError as error:
                self._log.write(
                    logging.INFO, "disabling webhooks", "webhook %s is not disabled: %s", own.hook.name, error
                )
                await self._runtime.clock.sleep(RETRY_SECONDS)
            else:
                return

    async def _keep_storing(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STORE_SECONDS):
                    await self._hurry.wait()
            self._hurry.clear()
            await self._runtime.clock.sleep(SHORTEST_SECONDS)
            try:
                await self._store()
            except errors.GantryError as error:
                self._log.write(
                    logging.INFO, "the positions of webhooks", "the positions of webhooks are not stored: %s", error
                )

    async def _store(self) -> None:
        """Store the positions that have moved."""
        moved = {
            uuid: values
            for uuid, running in self._running.items()
            if (values := running.receiver.to_store()) is not None
        }
        if not moved:
            return
        await self._master.call(object, "StoreWebhookPositions", [(uuid, *values) for uuid, values in moved.items()])
        for uuid, values in moved.items():
            if uuid in self._running:
                self._running[uuid].receiver.has_stored(values)

    async def _wait(self) -> None:
        await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _families(self) -> Iterator[Family]:
        if not self._running:
            return
        receivers = sorted((running.receiver for running in self._running.values()), key=lambda each: each.hook.name)
        for measure, value in ((LAG, _lag), (LAG_TIME, _lag_seconds)):
            samples = [Sample([each.hook.name], value(each)) for each in receivers]
            yield Family(measure.name, measure.kind, list(measure.labels), measure.text, samples)


def _lag(own: receiver.Receiver) -> float:
    return float(own.lag)


def _lag_seconds(own: receiver.Receiver) -> float:
    return own.lag_seconds


def _position_of(own: receiver.Receiver) -> webhook.Position:
    return webhook.Position(
        uuid=own.hook.uuid,
        name=own.hook.name,
        serial=own.position,
        failure=own.failure,
        waiting_since=own.waiting_since,
    )
