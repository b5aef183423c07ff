"""Metrics of the cluster: nodes, instances, networks with their pools, segment ranges, unfinished jobs.

``QUERIES`` are the queries of a scrape, and ``families`` makes metrics of their answers. A value that the master does
not have, as of a node that does not answer, is missing instead of being 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
from prometheus_client import core

from gantry.doors.rapi import routes
from gantry.model import fields

MIB = float(1 << 20)

STATUSES = ("running", "ADMIN_down", "ERROR_down", "ERROR_nodedown")
"""The statuses of instances that have a value on each node, so that an alert sees them rise from 0."""

QUERIES: Mapping[str, tuple[Sequence[str], object]] = {
    "node": (
        ("name", "role", "certificate_end", "ctotal", "mtotal", "mfree", "dtotal", "dfree", "pinst_cnt"),
        None,
    ),
    "instance": (("pnode", "status"), None),
    "network": (("name", "pool_usage", "used_count", "quarantined_count"), None),
    "segmentrange": (("name", "network_type", "used_count", "available_count"), None),
    "job": (("status", "received_ts"), ["|", *(["=", "status", status] for status in routes.UNFINISHED)]),
}
"""The fields and the filter of each query."""


class Metric(NamedTuple):
    """A metric: its labels, and a text that explains it."""

    labels: tuple[str, ...]
    text: str


METRICS: Mapping[str, Metric] = {
    "gantry_node_role": Metric(
        ("node", "role"), "1 for the role of a node: M master, C candidate, R regular, D drained, O offline."
    ),
    "gantry_node_up": Metric(
        ("node",), "1 if the node answers, 0 if it does not; missing for a node that is offline or not asked."
    ),
    "gantry_node_processors": Metric(("node",), "Processors of a node."),
    "gantry_node_memory_bytes": Metric(("node",), "Memory of a node."),
    "gantry_node_memory_free_bytes": Metric(("node",), "Free memory of a node."),
    "gantry_node_disk_bytes": Metric(("node",), "Size of the storage for disks of a node."),
    "gantry_node_disk_free_bytes": Metric(("node",), "Free space of that storage."),
    "gantry_instances": Metric(("node", "status"), "Instances by primary node and status."),
    "gantry_pool_addresses": Metric(("network", "subnet", "range", "pool"), "Addresses of a pool."),
    "gantry_pool_free_addresses": Metric(("network", "subnet", "range", "pool"), "Free addresses of a pool."),
    "gantry_network_used_addresses": Metric(
        ("network",), "Addresses that NICs, running guests and ports use, in pools or not."
    ),
    "gantry_network_quarantined_addresses": Metric(("network",), "Addresses in quarantine."),
    "gantry_segment_range_ids": Metric(("range", "type"), "Segmentation ids of a segment range."),
    "gantry_segment_range_free_ids": Metric(("range", "type"), "Free ids of a segment range."),
    "gantry_jobs": Metric(("status",), "Jobs that have not ended, by status."),
    "gantry_jobs_oldest_timestamp_seconds": Metric(
        ("status",), "When the oldest of these jobs was submitted, in seconds since the epoch; missing without one."
    ),
}
"""All metrics of the cluster by name; the reference page is generated from this table."""

USED: Mapping[str, tuple[str, str]] = {
    "processor": ("processor_seconds_total", "Seconds of processors that {} used, of all processors together."),
    "memory": ("memory_used_bytes", "Memory that {} uses."),
    "read": ("disk_read_bytes_total", "Bytes that {} read from disks."),
    "written": ("disk_written_bytes_total", "Bytes that {} wrote to disks."),
    "received": ("network_received_bytes_total", "Bytes that {} received."),
    "sent": ("network_sent_bytes_total", "Bytes that {} sent."),
}
"""For each field of ``Used`` the end of the metric's name, and its text. Nodes measure once a minute."""

USAGE_METRICS: Mapping[str, Metric] = {
    f"gantry_{kind}_{name}": Metric(labels, text.format(subject))
    for kind, subject, labels in (
        ("node", "a node", ("node",)),
        ("instance", "an instance", ("instance", "node")),
    )
    for name, text in USED.values()
}
"""The metrics of what nodes and instances use, by name."""


class Used(msgspec.Struct):
    """What a node (``instance`` is empty) or an instance uses, as the master says it; sizes in bytes."""

    node: str
    instance: str
    processor: float
    memory: int
    read: int
    written: int
    received: int
    sent: int


def usage_families(values: Iterable[Used]) -> list[core.Metric]:
    """Return the metrics of what nodes and instances use; counters begin at 0 when one starts again or moves."""
    families = {
        name: (core.CounterMetricFamily if name.endswith("_total") else core.GaugeMetricFamily)(
            name, metric.text, labels=metric.labels
        )
        for name, metric in USAGE_METRICS.items()
    }
    for used in values:
        kind, labels = ("instance", [used.instance, used.node]) if used.instance else ("node", [used.node])
        for field, (name, _) in USED.items():
            families[f"gantry_{kind}_{name}"].add_metric(labels, getattr(used, field))
    return list(families.values())


Row = Mapping[str, object]
"""The values of an object by field; a value that the master does not have is missing."""


_UNAVAILABLE = int(fields.ResultStatus.UNAVAILABLE)


class Answer(msgspec.Struct):
    """The master's answer to a query: status and value of each field, for each object."""

    data: list[list[tuple[int, object]]]


class _Pool(msgspec.Struct):
    subnet: str
    name: str
    range: str
    size: int
    free: int


def rows(kind: str, answer: Answer) -> list[Row]:
    """Return the objects of an answer; the memory of a node that is not asked is None."""
    names = QUERIES[kind][0]
    named = (list(zip(names, cells, strict=True)) for cells in answer.data)
    return [
        {
            name: value
            for name, (status, value) in cells
            if (status == 0 and value is not None) or (name == "mtotal" and status == _UNAVAILABLE)
        }
        for cells in named
    ]


def families(objects: Mapping[str, Sequence[Row]]) -> list[core.Metric]:
    """Return the metrics of these objects, by kind as in ``QUERIES``."""
    gauges = {name: core.GaugeMetricFamily(name, metric.text, labels=metric.labels) for name, metric in METRICS.items()}

    def add(name: str, labels: Sequence[str], value: object, *, unit: float = 1.0) -> None:
        if isinstance(value, int | float):
            gauges[f"gantry_{name}"].add_metric(labels, value * unit)

    for describe, kind in _DESCRIBERS:
        describe(objects[kind], add)
    return list(gauges.values())


class _Add(Protocol):
    """Adds a value of a metric, without its prefix; nothing for a value that is not a number."""

    def __call__(self, name: str, labels: Sequence[str], value: object, *, unit: float = 1.0) -> None: ...


_SIZES = {"memory": "mtotal", "memory_free": "mfree", "disk": "dtotal", "disk_free": "dfree"}
"""The fields of nodes in MiB."""


def _nodes(nodes: Sequence[Row], add: _Add) -> None:
    for node in nodes:
        name, role = str(node["name"]), str(node["role"])
        add("node_role", [name, role], 1)
        is_asked = node.get("mtotal", 0) is not None
        if role != "O" and is_asked:
            add("node_up", [name], int("mtotal" in node))
        add("node_processors", [name], node.get("ctotal"))
        for metric, field in _SIZES.items():
            add(f"node_{metric}_bytes", [name], node.get(field), unit=MIB)


def _instances(instances: Sequence[Row], add: _Add) -> None:
    numbers = Counter((str(each.get("pnode", "")), str(each.get("status", "unknown"))) for each in instances)
    nodes = {node for node, _ in numbers}
    for node, status in sorted({*numbers, *((node, status) for node in nodes for status in STATUSES)}):
        add("instances", [node, status], numbers[node, status])


def _networks(networks: Sequence[Row], add: _Add) -> None:
    for network in networks:
        name = str(network["name"])
        for pool in msgspec.convert(network.get("pool_usage", []), list[_Pool]):
            labels = [name, pool.subnet, pool.range, pool.name]
            add("pool_addresses", labels, pool.size)
            add("pool_free_addresses", labels, pool.free)
        add("network_used_addresses", [name], network.get("used_count"))
        add("network_quarantined_addresses", [name], network.get("quarantined_count"))


def _ranges(ranges: Iterable[Row], add: _Add) -> None:
    for each in ranges:
        labels = [str(each.get("name", "")), str(each.get("network_type", ""))]
        used, free = each.get("used_count"), each.get("available_count")
        if isinstance(used, int) and isinstance(free, int):
            add("segment_range_ids", labels, used + free)
            add("segment_range_free_ids", labels, free)


def _jobs(jobs: Sequence[Row], add: _Add) -> None:
    numbers = Counter(str(job["status"]) for job in jobs)
    for status in routes.UNFINISHED:
        add("jobs", [status], numbers[status])
        times = [_seconds(job.get("received_ts")) for job in jobs if job["status"] == status]
        add("jobs_oldest_timestamp_seconds", [status], min(filter(None, times), default=None))


def _seconds(stamp: object) -> float | None:
    """Return a time in seconds, which jobs have as seconds and microseconds."""
    try:
        seconds, microseconds = msgspec.convert(stamp, tuple[int, int])
    except msgspec.ValidationError:
        return None
    return seconds + microseconds / 1e6


_DESCRIBERS: Sequence[tuple[Callable[[Sequence[Row], _Add], None], str]] = (
    (_nodes, "node"),
    (_instances, "instance"),
    (_networks, "network"),
    (_ranges, "segmentrange"),
    (_jobs, "job"),
)
