"""The alert rules for Prometheus in ``deploy/prometheus``: which metrics they read, and when they fire."""

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml

from gantry.doors import webhooks
from gantry.doors.luxi import figures
from gantry.doors.rapi import metrics

ROOT = Path(__file__).parent.parent
RULES = ROOT / "deploy/prometheus/gantry.rules.yml"
PROMTOOL = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: Debian package prometheus"
)
LABELS = {
    **{name: metric.labels for name, metric in metrics.METRICS.items()},
    **{measure.name: measure.labels for measure in (*figures.MEASURES, *webhooks.MEASURES)},
}
"""The labels of each metric by name."""
DAY = 1440
"""Minutes of a day; promtool counts from 1970."""

SCENARIO = """
rule_files: [{rules}]
evaluation_interval: 1d
tests:
  - interval: 1d
    input_series:
      - series: 'gantry_certificate_end_timestamp_seconds{{certificate="node",node="node1",serial=""}}'
        values: "{end}x99"
    alert_rule_test: [{checks}]
"""
CHECK = """
      {{eval_time: {minutes}m, alertname: {name}, exp_alerts: [{alerts}]}}"""
ALERT = """{{exp_labels: {{severity: {severity}, certificate: node, node: node1}}, exp_annotations: {{
        summary: "The node certificate of node1 ends in {remaining}",
        description: {description}}}}}"""
NAMES = {"warning": "GantryCertificateEndsSoon", "critical": "GantryCertificateEnds"}


class Rule(msgspec.Struct):
    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]


def rules() -> list[Rule]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [msgspec.convert(rule, Rule) for group in groups for rule in group["rules"]]


def test_each_rule_reads_metrics_that_the_remote_api_serves_and_says_what_to_do() -> None:
    for rule in rules():
        used = set(re.findall(r"gantry_\w+", rule.expr))
        assert used, rule.alert
        assert used <= LABELS.keys(), rule.alert
        description = rule.annotations["description"]
        assert re.search(r"`(gnt-|gantry |systemctl )", description), rule.alert
        (page,) = re.findall(r"\((docs/[\w/-]+\.md)\)", description)
        assert (ROOT / page).exists(), rule.alert
        labels = {label for text in rule.annotations.values() for label in re.findall(r"\$labels\.(\w+)", text)}
        assert labels <= {label for name in used for label in LABELS[name]}


@PROMTOOL
@pytest.mark.parametrize(
    ("days_left", "severities"),
    [(31, set()), (29, {"warning"}), (8, {"warning"}), (6, {"warning", "critical"}), (-1, {"warning", "critical"})],
)
def test_a_certificate_warns_30_days_before_its_end_and_is_critical_7_days_before(
    tmp_path: Path, days_left: int, severities: set[str]
) -> None:
    descriptions = {rule.alert: rule.annotations["description"] for rule in rules()}
    checks = []
    for severity, name in NAMES.items():
        description = msgspec.json.encode(descriptions[name]).decode()
        remaining = f"{'-' if days_left < 0 else ''}{abs(days_left)}d 0h 0m 0s"
        alert = ALERT.format(severity=severity, remaining=remaining, description=description)
        alerts = alert if severity in severities else ""
        checks.append(CHECK.format(minutes=50 * DAY, name=name, alerts=alerts))
    scenario = SCENARIO.format(rules=RULES, end=(50 + days_left) * 86400, checks=",".join(checks))
    (tmp_path / "scenario.yml").write_text(scenario)
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "scenario.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


POOL = '{network="net1",subnet="192.0.2.0/24",range="192.0.2.10-192.0.2.19",pool="web"}'
HOOK = '{instance="a",webhook="tickets"}'
MASTER = 'gantry_up{instance="a"}'
STATES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
{series}
    promql_expr_test:
      - expr: 'count by (alertname) (ALERTS{{alertstate="firing"}})'
        eval_time: {minutes}m
        exp_samples: [{samples}]
"""


@PROMTOOL
@pytest.mark.parametrize(
    ("series", "minutes", "alert"),
    [
        ({'gantry_up{instance="a"}': 0, 'gantry_up{instance="b"}': 0}, 6, "GantryMasterDoesNotAnswer"),
        ({'gantry_up{instance="a"}': 0, 'gantry_up{instance="b"}': 1}, 60, ""),
        ({'gantry_replication_stalled{instance="a"}': 1}, 2, "GantryNothingCanBeChanged"),
        ({'gantry_replication_stalled{instance="a"}': 0}, 60, ""),
        ({'gantry_replication_lag_records{node="node2"}': 1001}, 6, "GantryCandidateLags"),
        ({'gantry_replication_lag_records{node="node2"}': 100}, 60, ""),
        ({'gantry_node_up{node="node2"}': 0}, 6, "GantryNodeDoesNotAnswer"),
        ({'gantry_node_up{node="node2"}': 0}, 4, ""),
        ({'gantry_instances{node="node2",status="ERROR_down"}': 2}, 16, "GantryInstanceIsDown"),
        ({'gantry_instances{node="node2",status="ADMIN_down"}': 2}, 60, ""),
        (
            {f"gantry_pool_free_addresses{POOL}": 0, f"gantry_pool_addresses{POOL}": 10},
            16,
            "GantryPoolIsNearlyFull",
        ),
        ({f"gantry_pool_free_addresses{POOL}": 1, f"gantry_pool_addresses{POOL}": 10}, 60, ""),
        ({'gantry_jobs_oldest_timestamp_seconds{status="waiting"}': 60}, 62, "GantryJobsWait"),
        ({'gantry_jobs_oldest_timestamp_seconds{status="running"}': 60}, 120, ""),
        ({f"gantry_webhook_lag_seconds{HOOK}": 901, MASTER: 1}, 1, "GantryWebhookDoesNotDeliver"),
        ({f"gantry_webhook_lag_seconds{HOOK}": 900, MASTER: 1}, 60, ""),
        ({f"gantry_webhook_lag_seconds{HOOK}": 901, MASTER: 0, 'gantry_up{instance="b"}': 1}, 60, ""),
    ],
)
def test_an_alert_of_the_cluster_fires_when_its_state_lasts(
    tmp_path: Path, series: dict[str, int], minutes: int, alert: str
) -> None:
    lines = "\n".join(f"      - {{series: '{name}', values: '{value}x200'}}" for name, value in series.items())
    samples = f"{{labels: '{{alertname=\"{alert}\"}}', value: 1}}" if alert else ""
    (tmp_path / "states.yml").write_text(STATES.format(rules=RULES, series=lines, minutes=minutes, samples=samples))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "states.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@PROMTOOL
def test_promtool_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
