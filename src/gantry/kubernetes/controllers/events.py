"""Event recorder: writes Kubernetes Events about objects; a repeated Event increments its count.

``apply`` adds events. A separate task writes them, at most ``PER_SECOND``; losing one does no harm, so events beyond
the queue limit are dropped and counted.
"""

import asyncio
import collections
import datetime
import logging

from gantry.kubernetes.api import meta, schema
from gantry.kubernetes.claims import actions
from gantry.kubernetes.controllers import client, metrics, rate_limit
from gantry.runtime import interface

log = logging.getLogger(__name__)

MAX_EVENTS = 1000
"""Maximum number of queued events, and of written events remembered for their count."""
PER_SECOND = 25.0
"""Maximum events per second; up to ``BURST`` at once after a pause."""
BURST = 100
COMPONENT = "gantry-kube"

_Known = tuple[str, int]


class Recorder:
    """Writes events while ``run`` runs."""

    def __init__(self, runtime: interface.Runtime, server: client.Client, *, counts: metrics.Metrics) -> None:
        self._runtime = runtime
        self._server = server
        self._counts = counts
        self._waiting: collections.deque[actions.Report] = collections.deque()
        self._written: collections.OrderedDict[actions.Report, _Known] = collections.OrderedDict()
        self._added = asyncio.Event()
        self._limit = rate_limit.RateLimit(runtime.clock, per_second=PER_SECOND, burst=BURST)

    def add(self, report: actions.Report) -> None:
        """Queue an event."""
        if len(self._waiting) >= MAX_EVENTS:
            self._counts.count("gantry_kube_events_lost_total")
            return
        self._waiting.append(report)
        self._added.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            while self._waiting:
                await self._limit.take()
                await self._write(self._waiting.popleft())
            self._added.clear()
            await self._added.wait()

    async def _write(self, report: actions.Report) -> None:
        name, count = self._written.pop(report, ("", 0))
        collection = f"/api/v1/namespaces/{report.about.namespace}/events"
        try:
            if name:
                body: schema.Json = {"count": count + 1, "lastTimestamp": self._now}
                await self._server.send("PATCH", f"{collection}/{name}", body, content_type=client.MERGE)
            else:
                name = f"{report.about.name[:200].rstrip('.-')}.{self._runtime.random.token(8).hex()}"
                await self._server.send("POST", collection, self._event_body(report, name))
        except (client.RefusedError, client.UnknownError) as error:
            # The Event may have expired, after an hour; the next one like it creates a new Event.
            log.debug("event not written: %s", error)
            self._counts.count("gantry_kube_events_lost_total")
            return
        self._written[report] = (name, count + 1)
        while len(self._written) > MAX_EVENTS:
            self._written.popitem(last=False)

    @property
    def _now(self) -> str:
        return meta.stamp(datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC))

    def _event_body(self, report: actions.Report, name: str) -> schema.Json:
        about = report.about
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": report.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": report.uid,
            },
            "type": "Warning" if report.warning else "Normal",
            "reason": report.reason,
            "message": report.message[:1024],
            "source": {"component": COMPONENT, "host": self._runtime.host},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._runtime.host,
            "firstTimestamp": self._now,
            "lastTimestamp": self._now,
            "count": 1,
        }
