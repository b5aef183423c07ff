"""A wish: a job that a client may submit, with the objects that it concerns and the effects of its success."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gantry.sim import cluster, facts


@dataclass(frozen=True)
class Wish:
    """A job to submit: ``text`` for the story, ``keys`` of the objects that it claims, ``effects`` of its success."""

    text: str
    ops: Sequence[cluster.Opcode]
    keys: Sequence[facts.Key] = ()
    effects: Mapping[facts.Key, facts.Fields] = field(default_factory=dict)


def single(text: str, op: cluster.Opcode, key: facts.Key, effect: facts.Fields) -> Wish:
    """Return the wish for one opcode about one object."""
    return Wish(text, [op], [key], {key: effect})
