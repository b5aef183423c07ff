"""What the receiver of a webhook gets: the event as a CloudEvent, and the headers with its signature; pure.

The body is one CloudEvent 1.0 in the structured mode of JSON, for one change of an object. The headers are those of
Standard Webhooks 1.0: ``webhook-id``, which is the CloudEvent's ``id``, ``webhook-timestamp``, the time of the attempt,
and ``webhook-signature``, an HMAC-SHA256 over both and the body for each secret that counts. The id of an event is the
same at each attempt and for each receiver. The time of the record is a part of it, so that a state that was recovered
from an older copy does not use an id again for another event.
"""

import base64
import datetime
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gantry import __version__

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
USER_AGENT = f"gantry-rapi/{__version__}"

PRUNED = "gantry.history.pruned"
"""The type of the event about events that are not kept any more."""


class Cause(msgspec.Struct, frozen=True):
    """The cause of an event, as far as its readers may know it."""

    job: int = 0
    opcode: str = ""
    user: str = ""
    reason: str = ""


class Change(msgspec.Struct, frozen=True):
    """A change of an object, as in ``gantry events``."""

    kind: str
    key: str
    name: str
    what: str


class Event(msgspec.Struct, frozen=True):
    """An event, as the master answers to ``WaitForEvents``."""

    serial: int
    time: float
    cause: Cause
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Message:
    """A request to a receiver, without what depends on the time of the attempt."""

    id: str
    body: bytes


def of_change(cluster: str, event: Event, index: int) -> Message:
    """Return the message about one change of an event; ``cluster`` is the UUID of the cluster."""
    change, cause = event.changes[index], event.cause
    data = {
        "serial": event.serial,
        "kind": change.kind,
        "key": change.key,
        "name": change.name,
        "what": change.what,
        "job": cause.job or None,
        "opcode": cause.opcode,
        "user": cause.user,
        "reason": cause.reason,
    }
    return _message(
        cluster,
        f"{event.serial}-{index}-{round(event.time * 1000)}",
        kind=f"gantry.{change.kind}.{change.what}",
        subject=change.name or change.key,
        time=event.time,
        data=data,
    )


def of_gap(cluster: str, after: int, first: Event) -> Message:
    """Return the message about events that are missing between the serial ``after`` and the first that is kept."""
    data: dict[str, object] = {"after": after, "begin": first.serial}
    number = f"pruned-{after}-{first.serial}-{round(first.time * 1000)}"
    return _message(cluster, number, kind=PRUNED, subject="", time=first.time, data=data)


def _message(cluster: str, number: str, *, kind: str, subject: str, time: float, data: dict[str, object]) -> Message:
    identifier = f"{cluster}-{number}"
    content = {
        "specversion": "1.0",
        "id": identifier,
        "source": f"urn:uuid:{cluster}",
        "type": kind,
        # An attribute of a CloudEvent is never an empty text.
        **({"subject": subject} if subject else {}),
        "time": _timestamp(time),
        "datacontenttype": "application/json",
        "data": data,
    }
    return Message(identifier, msgspec.json.encode(content))


def _timestamp(seconds: float) -> str:
    text = datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def headers(message: Message, secrets: Sequence[str], now: float) -> dict[str, str]:
    """Return the headers of an attempt; ``secrets`` are in base64."""
    timestamp = str(int(now))
    signed = b".".join((message.id.encode(), timestamp.encode(), message.body))
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": USER_AGENT,
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signatures(signed, secrets)),
    }


def _signatures(signed: bytes, secrets: Sequence[str]) -> Iterator[str]:
    for secret in secrets:
        digest = hmac.new(base64.b64decode(secret), signed, hashlib.sha256).digest()
        yield f"v1,{base64.b64encode(digest).decode()}"
