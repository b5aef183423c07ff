"""Metrics for a monitoring system such as Prometheus: GET /metrics on the port of the remote API.

A scrape costs the master one query for each kind of object (``cluster_metrics``), one for what nodes and instances use,
and one for what it has counted itself, such as its calls to nodes (``runtime.measures``); this daemon adds what it has
counted. What this machine knows by itself, from its certificate files, is in the answer even if the master does not
answer; ``gantry_up`` says whether it did.

The format is the text of Prometheus, or OpenMetrics for a client whose Accept header has it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from prometheus_client import core

from gantry import __version__, errors, security
from gantry.doors.http import exposition
from gantry.doors.rapi import cluster_metrics
from gantry.doors.rapi.cluster_metrics import Metric
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, measures, paths

T = TypeVar("T")

log = logging.getLogger(__name__)

PATH = ("metrics",)

MASTER_TIMEOUT_SECONDS = 5.0
"""Seconds that a scrape waits for the master; Prometheus itself waits for ten by default."""

_BUILD = "gantry_build"


UP = "gantry_up"
BUILD = f"{_BUILD}_info"
CERTIFICATE_END = "gantry_certificate_end_timestamp_seconds"

METRICS = {
    UP: Metric((), "1 if the master daemon answered this request, otherwise 0."),
    BUILD: Metric(("version",), "The version of the remote API daemon; the value is always 1."),
    CERTIFICATE_END: Metric(
        ("certificate", "node", "serial"),
        "When a certificate ends, in seconds since the epoch, by kind: node, authority, remote_api. For a node, the "
        "label node is its name; otherwise it is the machine whose file was read, and serial is the serial number.",
    ),
    **cluster_metrics.METRICS,
    **cluster_metrics.USAGE_METRICS,
}
"""All metrics by name; the reference page is generated from this table."""


class _Own(msgspec.Struct):
    """What the user of a scrape sees; the answer of an older master lacks it, and that shows everything."""

    sees_all: bool = True


class Metrics:
    """The metrics of the cluster, as this machine sees it."""

    def __init__(
        self, disk: interface.Disk, master: luxi.Caller, folders: paths.Paths, counts: measures.Measures
    ) -> None:
        self._counts = counts
        self._disk = disk
        self._master = master
        self._folders = folders

    async def response(self, accept: str) -> http_interface.Response:
        """Return the present values, in the format for this Accept header."""
        return exposition.response(await self._families(), accept)

    async def _families(self) -> list[core.Metric]:
        name, own_end = self._own_node()
        deadline = asyncio.get_running_loop().time() + MASTER_TIMEOUT_SECONDS
        objects = await self._objects(deadline)
        measured = await self._answer(list[measures.Family], "QueryMeasures", deadline) if objects else []
        used = await self._answer(list[cluster_metrics.Used], "QueryUsage", deadline) if objects else []
        sees_all = await self._sees_all(deadline) if objects else True
        ends = core.GaugeMetricFamily(
            CERTIFICATE_END, METRICS[CERTIFICATE_END].text, labels=METRICS[CERTIFICATE_END].labels
        )
        for node, end in (own_end if objects is None else _recorded_ends(objects["node"])).items():
            ends.add_metric(("node", node, ""), end)
        for facts in self._facts(f"{self._folders.certificates}/authority.pem") if sees_all else ():
            ends.add_metric(("authority", name, facts.serial), facts.end)
        if sees_all and self._disk.exists(self._folders.remote_certificate):
            # Certificates that follow the first one are those of its issuers.
            for facts in self._facts(self._folders.remote_certificate)[:1]:
                ends.add_metric(("remote_api", name, facts.serial), facts.end)
        return [
            core.GaugeMetricFamily(UP, METRICS[UP].text, value=float(objects is not None)),
            core.InfoMetricFamily(_BUILD, METRICS[BUILD].text, value={"version": __version__}),
            ends,
            *(cluster_metrics.families(objects) if objects else ()),
            *(cluster_metrics.usage_families(used) if objects else ()),
            *map(exposition.measured, (*(self._counts.families() if sees_all else ()), *measured)),
        ]

    async def _sees_all(self, deadline: float) -> bool:
        """Return whether the user sees the whole cluster, and so may know this machine and what it has counted."""
        try:
            async with asyncio.timeout_at(deadline):
                return (await self._master.call(_Own, "QueryOwnAccess")).sees_all
        except errors.ProtocolError:
            # A master without this method limits no reader.
            return True
        except (TimeoutError, errors.GantryError) as error:
            log.warning("/metrics has only what every user may see: %s", error)
            return False

    async def _answer(self, kind: type[list[T]], method: str, deadline: float) -> list[T]:
        """Return the answer of the master to a question, empty without one, as from a master that is older."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._master.call(kind, method)
        except (TimeoutError, errors.GantryError) as error:
            log.warning("/metrics has nothing of the answer to %s: %s", method, error)
            return []

    async def _objects(self, deadline: float) -> Mapping[str, Sequence[cluster_metrics.Row]] | None:
        """Return the objects of the cluster by kind, None if the master does not answer before a time of the loop."""
        try:
            async with asyncio.timeout_at(deadline):
                return {kind: await self._rows(kind) for kind in cluster_metrics.QUERIES}
        except TimeoutError:
            log.warning("/metrics has no values of the master, which did not answer in %g s", MASTER_TIMEOUT_SECONDS)
        except errors.GantryError as error:
            log.warning("/metrics has no values of the master: %s", error)
        return None

    async def _rows(self, kind: str) -> Sequence[cluster_metrics.Row]:
        fields, filter_ = cluster_metrics.QUERIES[kind]
        return cluster_metrics.rows(
            kind, await self._master.call(cluster_metrics.Answer, "Query", kind, fields, filter_)
        )

    def _own_node(self) -> tuple[str, dict[str, float]]:
        """Return the name of this machine, empty if it is not known, and the end of its certificate by its name."""
        path = f"{self._folders.certificates}/node.pem"
        try:
            certificate = self._disk.read(path)
            name = security.name_of(certificate)
            return name, {name: security.facts_of(certificate).end}
        except (OSError, ValueError) as error:
            log.warning("/metrics has no values of %s: %s", path, error)
            return "", {}

    def _facts(self, path: str) -> list[security.Facts]:
        try:
            return security.facts_of_each(self._disk.read(path))
        except (OSError, ValueError) as error:
            log.warning("/metrics has no values of %s: %s", path, error)
            return []


def _recorded_ends(nodes: Sequence[cluster_metrics.Row]) -> dict[str, float]:
    """Return the end of each node's certificate as the master recorded it."""
    return {str(node["name"]): end for node in nodes if isinstance(end := node.get("certificate_end"), int | float)}
