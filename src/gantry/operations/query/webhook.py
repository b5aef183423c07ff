"""Getters of the fields of webhooks; their URLs and secrets are no fields."""

from gantry.model import webhook
from gantry.operations.query import cells
from gantry.operations.webhook import progress

GETTERS: dict[str, cells.Getter[webhook.Webhook]] = {
    "name": lambda _, hook: hook.name,
    "origin": lambda _, hook: hook.origin,
    "events": lambda _, hook: list(hook.events),
    "enabled": lambda _, hook: hook.enabled,
    "status": lambda context, hook: progress.status(context.state, hook),
    "lag": lambda context, hook: progress.lag(context.state, hook),
    "pruned": lambda context, hook: progress.pruned(context.state, hook, begin=context.live.journal_begin),
    "waiting_since": lambda context, hook: cells.or_none(progress.position(context.state, hook).waiting_since),
    "failure": lambda context, hook: cells.or_none(progress.position(context.state, hook).failure),
    "position": lambda context, hook: progress.position(context.state, hook).serial,
    "uuid": lambda _, hook: hook.uuid,
    "ctime": lambda _, hook: hook.ctime,
}
