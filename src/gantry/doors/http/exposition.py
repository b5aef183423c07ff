"""Figures in the formats that a monitoring system reads: the text of Prometheus, or OpenMetrics if it asks for that."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prometheus_client import core, exposition
from prometheus_client.utils import floatToGoString

from gantry.runtime import http_interface, measures

_OPENMETRICS = "application/openmetrics-text"


class _Families(NamedTuple):
    """Metrics in the form that the encoders of prometheus_client expect."""

    families: Sequence[core.Metric]

    def collect(self) -> Iterable[core.Metric]:
        """Return the metrics with their values."""
        return self.families


def response(families: Sequence[core.Metric], accept: str) -> http_interface.Response:
    """Return the answer with these metrics, in the format for this Accept header."""
    # The encoder gets no other part of the header: it fails on versions that are not numbers.
    encode, content_type = exposition.choose_encoder(_OPENMETRICS if _OPENMETRICS in accept.lower() else "")
    return http_interface.Response(200, encode(_Families(families)), content_type)


def measured(family: measures.Family) -> core.Metric:
    """Return what was counted in the form of prometheus_client."""
    if family.kind is measures.Kind.DURATION:
        durations = core.HistogramMetricFamily(family.name, family.text, labels=family.labels)
        bounds = (*map(floatToGoString, family.bounds), "+Inf")
        for sample in family.samples:
            totals = itertools.accumulate(sample.classes)
            buckets = [(bound, float(total)) for bound, total in zip(bounds, totals, strict=True)]
            durations.add_metric(sample.labels, buckets, sample.value)
        return durations
    kind = core.CounterMetricFamily if family.kind is measures.Kind.COUNTER else core.GaugeMetricFamily
    numbers = kind(family.name, family.text, labels=family.labels)
    for sample in family.samples:
        numbers.add_metric(sample.labels, sample.value)
    return numbers
