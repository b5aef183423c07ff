"""Metrics of the controllers for Prometheus: ``client``, ``reflector`` and the controllers count."""

from collections.abc import Iterable
from typing import Literal

from prometheus_client import core

_Labels = tuple[tuple[str, str], ...]

METRICS: dict[str, tuple[Literal["counter", "gauge"], str]] = {
    "gantry_kube_requests_total": ("counter", "Requests to the API server, by method and status (0: no answer)."),
    "gantry_kube_throttled_seconds_total": ("counter", "Seconds that requests waited for the rate limit."),
    "gantry_kube_lists_total": ("counter", "Full lists, by kind."),
    "gantry_kube_watches_total": ("counter", "Watches started, by kind."),
    "gantry_kube_unreadable_total": ("counter", "Objects that could not be read, by kind."),
    "gantry_kube_decisions_total": (
        "counter",
        "Decisions applied, by result: done, changed, refused, unknown, foreign.",
    ),
    "gantry_kube_events_lost_total": ("counter", "Events that were not written."),
    "gantry_kube_objects": ("gauge", "Cached objects, by kind."),
    "gantry_kube_queue": ("gauge", "Queued pools."),
    "gantry_kube_leader": ("gauge", "1 while this controller holds the lease."),
}
"""Type and help text of each metric, by name."""


class Metrics:
    """Values by name and labels; a collector of prometheus_client."""

    def __init__(self) -> None:
        self._values: dict[str, dict[_Labels, float]] = {name: {} for name in METRICS}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        series, key = self._values[name], tuple(sorted(labels.items()))
        series[key] = series.get(key, 0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._values[name][tuple(sorted(labels.items()))] = value

    def collect(self) -> Iterable[core.Metric]:
        """Return the metrics in the form that the encoders of prometheus_client expect."""
        for name, (kind, text) in METRICS.items():
            family = core.Metric(name.removesuffix("_total"), text, kind)
            for labels, value in sorted(self._values[name].items()):
                family.add_sample(name, dict(labels), value)
            yield family
