"""The name that a user may have meant by the name of an object that does not exist.

The master returns similar names to commands only (QuerySimilarNames): an error that other clients get has none, as
some of them may not see all objects.
"""

import re

from gantry.cli import client, errors
from gantry.cli.framework import command

_UNKNOWN = re.compile(
    r"(?P<problem>no such (?P<noun>instance|node group|node|network):"
    r"|no instance, port, node or network with an address is named)"
    r" (?P<name>[^\s;,]+)(?:; (?P<hint>[^;]+))?$"
)
_KINDS = {"node group": ("group",), None: ("instance", "node", "network")}
"""The kinds of objects whose names are compared, by the noun of the error; other nouns are kinds themselves."""


def hinted(error: errors.ServerError, luxi: client.Client) -> errors.ServerError:
    """Return an error about an unknown name with the most similar name as its hint; any other error unchanged."""
    match = _UNKNOWN.match(error.message)
    if match is None or "unknown_entity" not in error.arguments:
        return error
    noun, name = match["noun"], match["name"]
    names: list[str] = []
    try:
        for kind in _KINDS.get(noun, (noun,)):
            names += map(str, client.expect(luxi.call("QuerySimilarNames", kind, name), list))
    except errors.CommandError:  # the master daemon has just ended, or is of an earlier version
        return error
    similar = command.most_similar(name, names)
    if not similar:
        return error
    # The hint of an error about a noun is to list all names; another hint is about something else.
    more = f" {match['hint']}" if match["hint"] and not noun else ""
    message = f"{match['problem']} {name}; did you mean {similar}?{more}"
    return errors.ServerError(error.name, [message, *error.arguments[1:]], prefix=error.prefix)
