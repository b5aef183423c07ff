"""The page of the remote API, from its routes and its table of metrics."""

import msgspec

from gantry.doors import http, rapi, webhooks
from gantry.doors.luxi import figures
from gantry.doors.rapi import metrics
from gantry.doors.rapi import openapi as description
from tools.reference import page

ABOUT = """
The resources of `gantry-rapi`, over HTTPS on port 5080; [how to use it](../how-to/remote-api.md). A row that says *job*
answers the number of the job that does the work; its body is a JSON object with the fields of that
[opcode](opcodes.md) which the path does not have already. Every other request is answered at once. A query argument
is 0 or 1, or a text; `reason` is kept with the job.

*open* means everybody unless the daemon demands a password, *read* users with the option `read` or `write`, *write*
users with `write`. `/CLUSTER/...` and `/2/CLUSTER/...` mean `/2/...`, with `tag` for `tags`, where CLUSTER is the
cluster's name.

`GET /openapi.json` answers an OpenAPI 3.1 description of all this, for *open* requests; it is also
{download}`in this documentation <openapi/remote-api.json>`. Clients and tests can be generated from it.
"""


METRICS = """## Metrics

`GET /metrics` answers *open* requests with these metrics, as text for Prometheus, or in the format OpenMetrics if the
header `Accept` has `application/openmetrics-text`. [How to scrape them](../how-to/remote-api.md#metrics).
"""

MEASURES = """
The master and this daemon also count and time what they do; the values begin with the start of the daemon that counts.
Durations are histograms: the name stands for three metrics, with `_bucket`, `_sum` and `_count` at its end. A counter
has `_total` at its end.
"""


def openapi() -> str:
    """Return the OpenAPI description, indented."""
    return msgspec.json.format(description.encoded()).decode() + "\n"


def render() -> str:
    """Return the page."""
    rows = [
        (route.method, page.code(route.path), route.access.value, ", ".join(map(page.code, route.query)), route.text)
        for route in sorted(rapi.ROUTES, key=lambda route: route.path)
    ]
    metric_rows = [
        (page.code(name), ", ".join(map(page.code, metric.labels)), metric.text)
        for name, metric in metrics.METRICS.items()
    ]
    resources = page.table(("method", "path", "who", "query", ""), rows)
    measure_rows = [
        (page.code(measure.name), measure.kind.value, ", ".join(map(page.code, measure.labels)), measure.text)
        for measure in (*figures.MEASURES, http.REQUESTS, *webhooks.MEASURES)
    ]
    return page.render(
        "Remote API",
        ABOUT,
        [
            *resources,
            METRICS,
            *page.table(("metric", "labels", ""), metric_rows),
            MEASURES,
            *page.table(("measure", "kind", "labels", ""), measure_rows),
        ],
    )
