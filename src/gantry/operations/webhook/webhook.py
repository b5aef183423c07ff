"""Units that add, change, test and remove webhooks (``model.webhook``).

The secret is made here and is in the state alone: neither a job nor its result has it. ``doors.webhooks`` sends the
events; a change counts for it within a second.
"""

import base64
import ipaddress
from collections.abc import Sequence

from gantry import errors, security
from gantry.model import opcodes, urls, webhook
from gantry.operations import base, config_part, draws
from gantry.state.objects import snapshot as states
from gantry.state.store import events

LIMIT = 20
"""The maximum number of webhooks: each reads the events by itself."""

SECRET_BITS = 256


class WebhookAdd(config_part.Change[opcodes.WebhookAdd]):
    """Adds a webhook."""

    OPCODE = opcodes.WebhookAdd
    PART = "webhooks"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the webhook, and its position before the first event that it gets."""
        del facts
        op, inputs = self.op, self.environment.inputs
        if len(snapshot.webhooks) >= LIMIT:
            raise errors.NoRoomError(f"the cluster has {LIMIT} webhooks, the maximum", hint="remove one of them")
        if op.begin is not None and op.begin > snapshot.serial + 1:
            raise errors.InvalidError(
                f"there is no event {op.begin} yet: the newest is {snapshot.serial}", hint="omit the first event"
            )
        url = _checked_url(op.name, op.url, without_tls=op.without_tls)
        _check_events(op.events)
        _check_authorities(op.authorities)
        hook = webhook.Webhook(
            uuid=inputs.uuid(),
            name=op.name,
            origin=url.origin,
            secret_url=url.text,
            secret=_secret(inputs),
            events=op.events,
            authorities=op.authorities,
            ctime=inputs.now,
            mtime=inputs.now,
        )
        serial = snapshot.serial if op.begin is None else op.begin - 1
        position = webhook.Position(uuid=hook.uuid, name=op.name, serial=serial, ctime=inputs.now, mtime=inputs.now)
        return base.Plan(
            lines=[f"send {_words(op.events)} after serial {serial} to {url.origin}, as webhook {op.name}"],
            changes=[states.Put(hook), states.Put(position)],
        )


class WebhookSetParams(config_part.Change[opcodes.WebhookSetParams]):
    """Changes a webhook."""

    OPCODE = opcodes.WebhookSetParams
    PART = "webhooks"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the webhook with its new values; InvalidError if nothing is to change."""
        del facts
        op, inputs = self.op, self.environment.inputs
        hook = find(snapshot, op.name)
        fields: dict[str, object] = {}
        lines = []
        if op.url is not None:
            url = _checked_url(op.name, op.url, without_tls=op.without_tls)
            fields |= {"origin": url.origin, "secret_url": url.text}
            lines.append(f"send the events of webhook {op.name} to {url.origin}")
        if op.events is not None:
            _check_events(op.events)
            fields["events"] = op.events
            lines.append(f"send {_words(op.events)} to webhook {op.name}")
        if op.authorities is not None:
            _check_authorities(op.authorities)
            fields["authorities"] = op.authorities
            lines.append(f"trust {'other' if op.authorities else 'only system'} authorities for webhook {op.name}")
        if op.enabled is not None:
            fields["enabled"] = op.enabled
            lines.append(f"{'enable' if op.enabled else 'disable'} webhook {op.name}")
        if op.new_secret:
            fields |= {"secret": _secret(inputs), "previous_secret": hook.secret}
            fields["previous_secret_end"] = inputs.now + webhook.ROTATION_SECONDS
            lines.append(f"make a new secret for webhook {op.name}")
        if not fields:
            raise errors.InvalidError(f"no change of webhook {op.name} is named", hint="name what to change")
        return base.Plan(lines=lines, changes=[states.Put(base.changed(hook, inputs.now, **fields))])


class WebhookRemove(config_part.Change[opcodes.WebhookRemove]):
    """Removes a webhook."""

    OPCODE = opcodes.WebhookRemove
    PART = "webhooks"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the webhook and its position; NotFoundError."""
        del facts
        hook = find(snapshot, self.op.name)
        positions = ["webhookpositions"] if hook.uuid in snapshot.webhookpositions else []
        return base.Plan(
            lines=[f"remove webhook {hook.name}"],
            changes=[states.Delete(collection, hook.uuid) for collection in (*positions, "webhooks")],
        )


class WebhookTest(config_part.Change[opcodes.WebhookTest]):
    """Changes a webhook in nothing but its count of tests: its receiver gets the event about that."""

    OPCODE = opcodes.WebhookTest
    PART = "webhooks"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the webhook; WrongStateError if it is disabled. The result is the newest serial before the event."""
        del facts
        hook = find(snapshot, self.op.name)
        if not hook.enabled:
            raise errors.WrongStateError(
                f"webhook {hook.name} is disabled", hint=f"run gantry webhook modify --enable {hook.name}"
            )
        tested = base.changed(hook, self.environment.inputs.now, tests=hook.tests + 1)
        return base.Plan(
            lines=[f"send a test to webhook {hook.name}"],
            changes=[states.Put(tested)],
            result=lambda: snapshot.serial,
        )


def find(snapshot: states.Snapshot, name: str) -> webhook.Webhook:
    """Return the webhook with a name; NotFoundError."""
    uuid = snapshot.names.get(("webhooks", name))
    if uuid is None:
        raise errors.NotFoundError(f"no such webhook: {name}", hint="gantry webhook list shows all")
    return snapshot.webhooks[uuid]


def _secret(inputs: draws.Inputs) -> str:
    return base64.b64encode(inputs.below(1 << SECRET_BITS).to_bytes(SECRET_BITS // 8, "big")).decode()


def _words(names: Sequence[str]) -> str:
    return f"the events {', '.join(names)}" if names else "all events"


def _checked_url(name: str, text: str, *, without_tls: bool) -> urls.Url:
    """Return a URL; InvalidError for one without TLS on another machine, or at an address that no receiver has."""
    url = urls.Url.parse(text, f"the URL of webhook {name}", without_tls=without_tls, confidential=True)
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        return url
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise errors.InvalidError(
            f"the URL of webhook {name} has the address {url.host}, which no receiver has",
            hint="services of the machine's own network answer there, such as metadata of a cloud",
        )
    return url


def _check_events(names: Sequence[str]) -> None:
    for name in names:
        kind = name.partition(".")[0]
        if kind not in events.KINDS:
            raise errors.InvalidError(
                f"no events are about a {kind}: {name}", hint=f"the kinds are {', '.join(events.KINDS)}"
            )


def _check_authorities(authorities: str) -> None:
    if not authorities:
        return
    try:
        security.outside_client_context(authority=authorities)
    except ValueError as error:
        raise errors.InvalidError(f"the authorities of the receiver are not certificates: {error}") from None
