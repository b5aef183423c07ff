"""Nobody reads the secret or the URL of a webhook but gantry-rapi and who sets a receiver up."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import talk
from tests.doors.webhooks import fake_receiver

from gantry.sim import cluster
from gantry.state.store import audit

URL = "https://hooks.example/T0/sesame"
JOB_FOLDERS = (f"{cluster.FOLDERS.queue}",)


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=6, nodes=1) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.done({"OP_ID": "OP_WEBHOOK_ADD", "name": "hook", "url": URL}))
        simulated.run(
            simulated.done({"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": "hook", "url": URL, "new_secret": True})
        )
        yield simulated


def secrets(lab: cluster.SimulatedCluster) -> list[str]:
    answer = lab.run(lab.luxi("ReadWebhooks"))
    assert isinstance(answer, dict)
    (hook,) = answer["webhooks"]
    return [hook["secret"], hook["previous_secret"]]


def readings(lab: cluster.SimulatedCluster) -> Iterator[str]:
    fields = [
        each["name"]
        for each in msgspec.convert(lab.run(lab.luxi("QueryFields", "webhook", None)), dict[str, list[dict[str, str]]])[
            "fields"
        ]
    ]
    job_fields = ["id", "ops", "opresult", "oplog", "summary", "error"]
    for method, *arguments in (
        ("Query", "webhook", fields, None),
        ("Query", "job", job_fields, None),
        ("QueryHistory", None, None, None, None, 1000),
        ("QueryAudit", {"limit": 1000}),
        ("WaitForEvents", 0, 1000, 0.0),
        ("ExportConfig",),
    ):
        yield json.dumps(lab.run(lab.luxi(method, *arguments)))


def test_no_reading_has_them(lab: cluster.SimulatedCluster) -> None:
    texts = list(readings(lab))
    assert all("hook" in text for text in texts)
    for hidden in ("sesame", *secrets(lab)):
        assert hidden
        assert not [text for text in texts if hidden in text]


def test_no_job_file_has_the_secret(lab: cluster.SimulatedCluster) -> None:
    first, second = secrets(lab)
    # The files of jobs are written a little later than their jobs end.
    lab.run(lab.world.clock.sleep(10))
    disk = lab.master.disk
    contents = [
        disk.read(f"{folder}/{name}")
        for folder in JOB_FOLDERS
        for name in disk.names(folder)
        if name.startswith("job-")
    ]
    assert any(b"OP_WEBHOOK_ADD" in content for content in contents)
    assert not [content for content in contents if first.encode() in content or second.encode() in content]


def test_the_secret_is_read_by_administrators_on_the_master_and_the_audit_has_that(
    lab: cluster.SimulatedCluster,
) -> None:
    assert lab.run(lab.luxi("ReadWebhookSecret", "hook")) == f"whsec_{secrets(lab)[0]}"
    assert "secret of webhook hook read" in json.dumps(lab.run(lab.luxi("QueryAudit", {"limit": 10})))


@pytest.mark.parametrize(
    ("method", "write"),
    [
        ("ReadWebhooks", True),
        ("ReadWebhooks", False),
        ("ReadWebhookSecret", False),
        ("StoreWebhookPositions", True),
        ("StoreWebhookPositions", False),
    ],
)
def test_users_of_the_remote_api_may_not_use_the_methods(
    lab: cluster.SimulatedCluster, method: str, write: bool
) -> None:
    request = {"method": method, "args": talk.METHODS[method], "user": {"name": "bob", "write": write}}
    (answer,) = lab.run(talk.conversation(lab, json.dumps(request).encode() + talk.ETX))
    assert answer["success"] is False
    assert "ForbiddenError" in str(answer) or "may not" in str(answer) or "changes the cluster" in str(answer)


def test_an_administrator_of_the_remote_api_reads_one_secret_and_the_audit_says_who(
    lab: cluster.SimulatedCluster,
) -> None:
    request = {"method": "ReadWebhookSecret", "args": ["hook"], "user": {"name": "bob", "write": True}}
    (answer,) = lab.run(talk.conversation(lab, json.dumps(request).encode() + talk.ETX))
    assert answer["result"] == f"whsec_{secrets(lab)[0]}"
    entries = msgspec.convert(lab.run(lab.luxi("QueryAudit", {"user": "bob"})), audit.Answer).entries
    assert [entry.what for entry in entries] == ["secret of webhook hook read"]


def test_positions_of_removed_webhooks_are_not_stored(lab: cluster.SimulatedCluster) -> None:
    before = lab.run(fake_receiver.row(lab, "hook", "position", "failure"))
    lab.run(lab.luxi("StoreWebhookPositions", [["unknown", 5000, "broken", 1.0]]))
    assert lab.run(fake_receiver.row(lab, "hook", "position", "failure")) == before
