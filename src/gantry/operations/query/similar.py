"""Names of objects that a user may have meant by a name that no object has; pure.

The door for commands asks for them, because only its users may list all objects: an error that passes through another
door has no names of other objects.

A name is similar if one typing error separates the two: a character too many, too few or wrong, or two neighbours
exchanged. Names that differ in digits alone are different objects, as node1 and node9. Cost: the names that one error
away from the typed name could be are looked up in the index of names, some thousand at most, whatever the number of
objects. Only a name without a dot is looked for in a walk, because objects are also known by the beginning of a dotted
name, and it takes a look into a set for each object of the kind.
"""

import itertools
import re
from collections.abc import Iterator

from gantry import errors
from gantry.model import base
from gantry.state.objects import snapshot as states

COLLECTIONS = {"instance": "instances", "node": "nodes", "group": "nodegroups", "network": "networks"}
"""The kinds of objects, by their names in queries, whose names are unique."""

MAX_LENGTH = 100
"""Longer names have no similar ones."""

MAX_NAMES = 20
"""The maximum number of similar names that are returned."""

_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-._"


def names(state: states.Snapshot, what: str, typed: str) -> list[str]:
    """Return the names of objects that are similar to a typed name, in order; InvalidError for other kinds of objects.

    A name without a dot is also similar to the beginning of a dotted name, which is returned without its end.
    """
    if what not in COLLECTIONS:
        raise errors.InvalidError(f"no similar names for {what}", hint=f"the kinds are {', '.join(COLLECTIONS)}")
    if not 1 < len(typed) <= MAX_LENGTH:
        return []
    kind, variants = COLLECTIONS[what], set(_variants(typed))
    if "." in typed:
        known = (name for name in variants if (kind, name) in state.names)
    else:
        known = (name for name in _beginnings(state, kind) if name in variants)
    distinct = dict.fromkeys(name for name in known if _without_digits(name) != _without_digits(typed))
    return sorted(itertools.islice(distinct, MAX_NAMES))


def _beginnings(state: states.Snapshot, kind: str) -> Iterator[str]:
    for entity in state.collection(kind).values():
        if isinstance(entity, base.Entity):
            yield entity.name.partition(".")[0]


def _without_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)


def _variants(typed: str) -> Iterator[str]:
    """Yield all names that are one typing error away."""
    for index in range(len(typed) + 1):
        begin, end = typed[:index], typed[index:]
        yield from (begin + character + end for character in _CHARACTERS)
        if end:
            yield begin + end[1:]
            yield from (begin + character + end[1:] for character in _CHARACTERS)
        if len(end) > 1:
            yield begin + end[1] + end[0] + end[2:]
