"""A wish: what a client submits as one job, which objects that concerns, and what its success would mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gantry.sim import cluster, facts


@dataclass(frozen=True)
class Wish:
    """A job to be: ``text`` for the story, ``keys`` for whom nothing else may be wished meanwhile, ``effects``."""

    text: str
    ops: Sequence[cluster.Opcode]
    keys: Sequence[facts.Key] = ()
    effects: Mapping[facts.Key, facts.Fields] = field(default_factory=dict)


def one(text: str, op: cluster.Opcode, key: facts.Key, effect: facts.Fields) -> Wish:
    """Return the wish for one opcode about one object."""
    return Wish(text, [op], [key], {key: effect})
