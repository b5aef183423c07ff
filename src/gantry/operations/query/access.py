"""Getters of the fields of access rules, with the present names of their objects."""

from gantry.model import access
from gantry.operations.access import scopes
from gantry.operations.query import cells

GETTERS: dict[str, cells.Getter[access.Rule]] = {
    "who": lambda _, rule: rule.who,
    "role": lambda _, rule: rule.role.value,
    "on": lambda context, rule: scopes.title(context.state, rule.scope, rule.object),
    "uuid": lambda _, rule: rule.uuid,
    "ctime": lambda _, rule: rule.ctime,
}


def order(rule: object) -> tuple[object, ...]:
    """Return the sort key of a rule: by user or group, then by role and scope."""
    assert isinstance(rule, access.Rule)
    return rule.who, rule.role, rule.scope, rule.object
