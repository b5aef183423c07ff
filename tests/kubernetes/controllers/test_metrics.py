"""The metrics of the controllers, as Prometheus reads them."""

from prometheus_client import parser

from gantry.doors.http import exposition
from gantry.kubernetes.controllers import metrics

REQUESTS = "gantry_kube_requests_total"


def scraped(counts: metrics.Metrics) -> str:
    return exposition.response([*counts.collect()], "").body.decode()


def test_a_large_counter_keeps_its_digits() -> None:
    counts = metrics.Metrics()
    counts.count(REQUESTS, 1_234_567, method="GET", status="200")
    counts.count(REQUESTS, method="GET", status="200")
    families = {family.name: family for family in parser.text_string_to_metric_families(scraped(counts))}
    (sample,) = families["gantry_kube_requests"].samples
    assert (sample.name, sample.labels, sample.value) == (REQUESTS, {"method": "GET", "status": "200"}, 1_234_568)


def test_each_metric_has_its_type_and_text_even_without_a_value() -> None:
    families = {family.name: family for family in parser.text_string_to_metric_families(scraped(metrics.Metrics()))}
    declared = {name.removesuffix("_total"): declaration for name, declaration in metrics.METRICS.items()}
    assert {name: (family.type, family.documentation) for name, family in families.items()} == declared


def test_a_label_is_escaped() -> None:
    counts = metrics.Metrics()
    counts.count(REQUESTS, method='G"\nT', status="0")
    (family,) = (each for each in parser.text_string_to_metric_families(scraped(counts)) if each.samples)
    assert family.samples[0].labels["method"] == 'G"\nT'
