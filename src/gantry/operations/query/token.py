"""Getters of the fields of API tokens; the hashes of their secrets are no fields."""

from gantry.model import access
from gantry.operations.access import scopes
from gantry.operations.query import cells

GETTERS: dict[str, cells.Getter[access.Token]] = {
    "name": lambda _, token: token.name,
    "user": lambda _, token: token.user,
    "label": lambda _, token: token.label,
    "allows": lambda context, token: scopes.allows(context.state, token),
    "end": lambda _, token: cells.or_none(token.end),
    "id": lambda _, token: token.id,
    "uuid": lambda _, token: token.uuid,
    "ctime": lambda _, token: token.ctime,
}
