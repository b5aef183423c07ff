"""How far the receivers of webhooks are, from their stored positions; pure.

``doors.webhooks`` stores a position a few seconds after it has moved, and only if the receiver got something or many
changes have passed. So a small distance from the newest change means nothing.
"""

from gantry.model import webhook
from gantry.state.objects import snapshot as states

BEHIND_CHANGES = 1000
"""From this distance on, a receiver counts as behind; positions are stored at half of it."""

DISABLED, FAILING, BEHIND, OK = "disabled", "failing", "behind", "ok"


def position(snapshot: states.Snapshot, hook: webhook.Webhook) -> webhook.Position:
    """Return the position of a webhook."""
    return snapshot.webhookpositions.get(hook.uuid) or webhook.Position(uuid=hook.uuid, name=hook.name)


def status(snapshot: states.Snapshot, hook: webhook.Webhook) -> str:
    """Return whether a webhook is disabled, its receiver is failing or behind, or neither."""
    known = position(snapshot, hook)
    if not hook.enabled:
        return DISABLED
    if known.waiting_since is not None:
        return FAILING
    return BEHIND if snapshot.serial - known.serial >= BEHIND_CHANGES else OK


def lag(snapshot: states.Snapshot, hook: webhook.Webhook) -> int:
    """Return the number of changes after the position of a webhook; 0 if nothing is wrong."""
    return 0 if status(snapshot, hook) == OK else max(0, snapshot.serial - position(snapshot, hook).serial)


def pruned(snapshot: states.Snapshot, hook: webhook.Webhook, *, begin: int) -> int:
    """Return the number of these changes that a journal which begins with the serial ``begin`` does not keep."""
    return min(lag(snapshot, hook), max(0, begin - 1 - position(snapshot, hook).serial))
