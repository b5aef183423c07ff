"""A wish: a job that a client may submit, with the objects that it concerns and the effects of its success."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gantry.sim import cluster, facts

Effects = Mapping[facts.Key, facts.Fields]


@dataclass(frozen=True)
class Wish:
    """A job to submit: ``text`` for the story, ``keys`` of the objects that it claims, ``effects`` of its success.

    The job of a wish that ``moves`` submits further jobs, which move instances that the client has not claimed;
    ``judge`` returns the effects of these jobs from the job's result, in place of ``effects``. ``user`` submits
    the job, as ``cluster.luxi`` takes it; None is root.
    """

    text: str
    ops: Sequence[cluster.Opcode]
    keys: Sequence[facts.Key] = ()
    effects: Effects = field(default_factory=dict)
    moves: bool = False
    judge: Callable[[object], Effects] | None = None
    user: Mapping[str, object] | None = None


def single(text: str, op: cluster.Opcode, key: facts.Key, effect: facts.Fields) -> Wish:
    """Return the wish for one opcode about one object."""
    return Wish(text, [op], [key], {key: effect})
