"""The form of a message, by the libraries of its two standards: CloudEvents and Standard Webhooks."""

import base64
import time

import pytest
import standardwebhooks
from tests.doors.webhooks import fake_receiver

from gantry.doors.webhooks import message
from gantry.runtime import http_interface

CLUSTER = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
SECRET, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
EVENT = message.Event(
    serial=17,
    time=1_800_000_000.25,
    cause=message.Cause(job=5, opcode="OP_INSTANCE_CREATE", user="gnt:luxi:root", reason='order "ä" 17'),
    changes=(
        message.Change("instance", "u-1", "web1.example", "added"),
        message.Change("job", "5", "5", "running"),
        message.Change("port", "u-2", "", "removed"),
    ),
)


def sent(content: message.Message, *secrets: str, now: float | None = None) -> http_interface.Request:
    headers = message.headers(content, secrets or (SECRET,), time.time() if now is None else now)
    return http_interface.Request("POST", "/", content.body, headers)


def verify(request: http_interface.Request, secret: str) -> object:
    verified: object = standardwebhooks.Webhook(f"whsec_{secret}").verify(request.body, dict(request.headers))
    return verified


def test_the_body_is_a_cloud_event_for_one_change() -> None:
    event = fake_receiver.parsed(sent(message.of_change(CLUSTER, EVENT, 0)))
    assert event.get_id() == f"{CLUSTER}-17-0-1800000000250"
    assert event.get_source() == f"urn:uuid:{CLUSTER}"
    assert event.get_type() == "gantry.instance.added"
    assert event.get_subject() == "web1.example"
    assert event.get_datacontenttype() == "application/json"
    moment = event.get_time()
    assert moment is not None
    assert moment.timestamp() == 1_800_000_000.25
    assert fake_receiver.contents(event) == {
        "serial": 17,
        "kind": "instance",
        "key": "u-1",
        "name": "web1.example",
        "what": "added",
        "job": 5,
        "opcode": "OP_INSTANCE_CREATE",
        "user": "gnt:luxi:root",
        "reason": 'order "ä" 17',
    }


def test_an_object_without_a_name_is_named_by_its_key() -> None:
    assert fake_receiver.parsed(sent(message.of_change(CLUSTER, EVENT, 2))).get_subject() == "u-2"


def test_missing_events_are_an_event_of_their_own() -> None:
    event = fake_receiver.parsed(sent(message.of_gap(CLUSTER, 3, EVENT)))
    assert event.get_type() == "gantry.history.pruned"
    assert event.get_subject() is None
    assert fake_receiver.contents(event) == {"after": 3, "begin": 17}


def test_the_signature_is_that_of_standard_webhooks() -> None:
    content = message.of_change(CLUSTER, EVENT, 0)
    request = sent(content)
    assert verify(request, SECRET) == fake_receiver.decoded(content.body)
    assert request.headers["webhook-id"] == content.id
    assert "." not in content.id
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(request, OTHER)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(http_interface.Request("POST", "/", content.body + b" ", request.headers), SECRET)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(http_interface.Request("POST", "/", content.body, {**request.headers, "webhook-id": "other"}), SECRET)


def test_two_secrets_verify_while_one_takes_the_place_of_the_other() -> None:
    request = sent(message.of_change(CLUSTER, EVENT, 0), SECRET, OTHER)
    for secret in (SECRET, OTHER):
        verify(request, secret)


def test_an_old_request_is_refused_by_its_time() -> None:
    request = sent(message.of_change(CLUSTER, EVENT, 0), now=time.time() - 301)
    with pytest.raises(standardwebhooks.WebhookVerificationError, match="too old"):
        verify(request, SECRET)


def test_ids_differ_by_change_by_event_by_cluster_and_by_the_time_of_a_reused_serial() -> None:
    later = message.Event(EVENT.serial, EVENT.time + 1, EVENT.cause, EVENT.changes)
    after = message.Event(EVENT.serial + 1, EVENT.time, EVENT.cause, EVENT.changes)
    contents = [
        message.of_change(CLUSTER, EVENT, 0),
        message.of_change(CLUSTER, EVENT, 1),
        message.of_change(CLUSTER, after, 0),
        message.of_change(CLUSTER, later, 0),
        message.of_change("other", EVENT, 0),
        message.of_gap(CLUSTER, 1, EVENT),
    ]
    assert len({content.id for content in contents}) == len(contents)
    assert message.of_change(CLUSTER, EVENT, 0) == contents[0]
