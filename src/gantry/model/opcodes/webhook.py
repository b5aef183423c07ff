"""The opcodes of webhooks (``model.webhook``)."""

from typing import Annotated

from msgspec import Meta

from gantry.model.opcodes.base import EVENT, LABEL, Opcode

WebhookName = Annotated[str, Meta(max_length=64, pattern=LABEL, description="Name of the webhook")]
Url = Annotated[str, Meta(min_length=1, max_length=2000, description="URL to which events are posted; never displayed")]
Events = Annotated[
    tuple[Annotated[str, Meta(max_length=40, pattern=EVENT)], ...],
    Meta(max_length=50, description="Events that it gets, each as KIND or KIND.CHANGE; all if there are none"),
]
Authorities = Annotated[
    str, Meta(max_length=65536, description="Authorities of the receiver's certificate, in PEM; empty: the system's")
]
WithoutTls = Annotated[bool, Meta(description="Allow a URL without TLS on another machine")]


class WebhookAdd(Opcode, frozen=True):
    """Add a webhook: events are posted to a URL, signed with a secret that the master makes."""

    DESCRIBES = "name"

    name: WebhookName
    url: Url
    events: Events = ()
    authorities: Authorities = ""
    without_tls: WithoutTls = False
    begin: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Serial of the first event that it gets; by default the next one"),
    ] = None


class WebhookSetParams(Opcode, frozen=True):
    """Change a webhook; its receiver gets the events after those that it has."""

    DESCRIBES = "name"

    name: WebhookName
    url: Url | None = None
    events: Events | None = None
    authorities: Authorities | None = None
    without_tls: WithoutTls = False
    enabled: Annotated[bool | None, Meta(description="Send events; otherwise keep them for later")] = None
    new_secret: Annotated[
        bool, Meta(description="Make a new secret; for a day, requests are signed with the previous one too")
    ] = False


class WebhookRemove(Opcode, frozen=True):
    """Remove a webhook."""

    DESCRIBES = "name"

    name: WebhookName


class WebhookTest(Opcode, frozen=True):
    """Record an event that the receiver of a webhook gets, whatever its events are."""

    DESCRIBES = "name"

    name: WebhookName
