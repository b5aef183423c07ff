"""The name that a user may have meant by the name of an object that does not exist.

The master returns similar names to commands only (QuerySimilarNames): an error that other clients get has none, as
some of them may not see all objects.
"""

import re

from gantry.cli import client, errors
from gantry.cli.framework import command

_UNKNOWN = re.compile(r"no such (?P<noun>instance|node group|node|network): (?P<name>[^\s;,]+)(?P<hint>; [^;]+)?$")
_KINDS = {"node group": "group"}


def hinted(error: errors.ServerError, luxi: client.Client) -> errors.ServerError:
    """Return an error about an unknown name with the most similar name as its hint; any other error unchanged."""
    match = _UNKNOWN.match(error.message)
    if match is None or "unknown_entity" not in error.arguments:
        return error
    noun, name = match["noun"], match["name"]
    try:
        names = client.expect(luxi.call("QuerySimilarNames", _KINDS.get(noun, noun), name), list)
    except errors.CommandError:  # the master daemon has just ended, or is of an earlier version
        return error
    similar = command.most_similar(name, [str(each) for each in names])
    if not similar:
        return error
    message = f"no such {noun}: {name}; did you mean {similar}?"
    return errors.ServerError(error.name, [message, *error.arguments[1:]], prefix=error.prefix)
