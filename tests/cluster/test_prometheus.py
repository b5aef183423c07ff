"""A real Prometheus scrapes a cluster: it loads the alerts, and has an answer to each question of the dashboard."""

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests import ports
from tests.cluster import lab, test_rapi

from gantry.doors import http
from gantry.doors.luxi import figures
from gantry.doors.rapi import metrics

PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: Debian package prometheus"
)
ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy/grafana/gantry.json"
RULES = ROOT / "deploy/prometheus/gantry.rules.yml"
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: gantry
    scheme: https
    tls_config: {{ca_file: "{authority}"}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
    basic_auth: {{username: bob, password: secret}}
"""


UNUSUAL = ("quarantined_addresses", 'outcome!="done"', "lock_wait", "segment_range")
"""Words of questions without an answer here: no quarantine, failed call, wait for a lock or segment range exists."""


class Target(msgspec.Struct):
    expr: str


class Panel(msgspec.Struct):
    title: str
    type: str
    targets: list[Target] = []


class Dashboard(msgspec.Struct):
    panels: list[Panel]


def questions() -> list[str]:
    """Return the expressions of the dashboard, with an interval in place of Grafana's own."""
    panels = msgspec.json.decode(DASHBOARD.read_bytes(), type=Dashboard).panels
    return [target.expr.replace("$__rate_interval", "1m") for panel in panels for target in panel.targets]


def test_the_dashboard_reads_metrics_that_exist() -> None:
    measures = (*figures.MEASURES, http.REQUESTS)
    suffixes = ("", "_bucket", "_count", "_sum", "_total")
    known = {*metrics.METRICS, *(measure.name + suffix for measure in measures for suffix in suffixes)}
    for question in questions():
        used = set(re.findall(r"gantry_\w+", question))
        assert used, question
        assert used <= known, question


@contextlib.contextmanager
def scraping(folder: Path, remote: test_rapi.Remote) -> Iterator[int]:
    """Run a Prometheus that scrapes a remote API; the value is its port."""
    authority = remote.cluster.master / "lib/certs/authority.pem"
    configuration = folder / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(rules=RULES, authority=authority, port=remote.port))
    port = ports.free()
    arguments = [f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(
            ["prometheus", *arguments, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
    try:
        yield port
    finally:
        program.terminate()
        program.wait(60)


def ask(port: int, path: str, **query: str) -> object:
    """Return the data of an answer of Prometheus, None while it does not answer."""
    address = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with contextlib.suppress(ConnectionError, urllib.error.URLError), urllib.request.urlopen(address) as answer:
        body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]
    return None


def result(port: int, question: str) -> list[object]:
    """Return the series that Prometheus answers a question with."""
    data = ask(port, "query", query=question)
    return msgspec.convert(data, dict[str, object])["result"] if data else []  # type: ignore[return-value]


@PROMETHEUS
@pytest.mark.slow
def test_a_real_prometheus_has_the_metrics_the_alerts_and_the_answers_of_the_dashboard(tmp_path: Path) -> None:
    with lab.lab() as cluster:
        cluster.init()
        cluster.add_node()
        cluster.add_network()
        cluster.add_instance("vm1")
        with test_rapi.served(cluster) as remote, scraping(tmp_path, remote) as port:
            lab.wait_until(lambda: bool(result(port, "gantry_up == 1")), "the first scrape")
            cluster.run("gnt-instance", "reboot", "vm1")
            lab.wait_until(lambda: bool(result(port, "rate(gantry_job_duration_seconds_count[1m]) > 0")), "a job")
            groups = msgspec.convert(ask(port, "rules"), dict[str, list[dict[str, object]]])["groups"]
            rules = [rule for group in groups for rule in msgspec.convert(group["rules"], list[dict[str, object]])]
            assert rules
            assert {rule["health"] for rule in rules} == {"ok"}
            assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
            usual = [question for question in questions() if not any(word in question for word in UNUSUAL)]
            lab.wait_until(lambda: all(result(port, question) for question in usual), "all answers of the dashboard")
