"""What clients know of the cluster's objects: what the ends of their jobs told them, and nothing else.

A client submits at most one job for an object at a time (``claim``), so the order of their ends is the order of what
happened to it. The success of a job says what holds from then on; a refusal, that nothing has changed; any other end,
that the client knows nothing more of what the job touched. ``invariants`` compares what is known with the state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]
"""Kind (``instance``, ``network``, ``node``, ``cluster``) and name."""

THERE = "there"
"""The field that tells whether the object exists."""

Fields = Mapping[str, object]


@dataclass
class Thing:
    """An object: what is known of it, and from which acknowledgements (numbers that ``acknowledged`` gave out)."""

    fields: dict[str, object] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
    claimed: bool = False


class Facts:
    """All objects that clients ever named."""

    def __init__(self) -> None:
        self.things: dict[Key, Thing] = {}

    def thing(self, key: Key) -> Thing:
        """Return an object, one that is not known to exist if it was never named."""
        return self.things.setdefault(key, Thing())

    def get(self, key: Key, name: str) -> object:
        """Return a field; None when it is not known."""
        return self.thing(key).fields.get(name)

    def known(self, kind: str, *, there: bool | None = None, free: bool = True) -> list[str]:
        """Return the names of a kind, in order; those that are (not) there, or all; free ones, or claimed ones too."""
        return sorted(
            name
            for (of, name), one in self.things.items()
            if of == kind and not (free and one.claimed) and there in (None, one.fields.get(THERE))
        )

    def claim(self, keys: Iterable[Key]) -> bool:
        """Take objects for a job; False when another job has one of them."""
        wanted = [self.thing(key) for key in keys]
        if any(one.claimed for one in wanted):
            return False
        for one in wanted:
            one.claimed = True
        return True

    def release(self, keys: Iterable[Key]) -> None:
        """Give objects back."""
        for key in keys:
            self.thing(key).claimed = False

    def begin(self, known: Mapping[Key, Fields]) -> None:
        """Take in what holds when nobody has done anything yet."""
        for key, fields in known.items():
            self.thing(key).fields.update(fields)

    def learn(self, effects: Mapping[Key, Fields], source: int) -> None:
        """Take in what the success of a job means; what begins or ends to exist has no other fields than those."""
        for key, fields in effects.items():
            one = self.thing(key)
            if THERE in fields:
                one.fields, one.sources = {}, []
            one.fields.update(fields)
            one.sources.append(source)

    def rely(self, keys: Iterable[Key], source: int) -> None:
        """Note that an acknowledgement said that nothing has changed: if it is lost, so is that."""
        for key in keys:
            self.thing(key).sources.append(source)

    def doubt(self, keys: Iterable[Key]) -> None:
        """Forget all that is known of objects."""
        for key in keys:
            self.thing(key).fields.clear()
            self.thing(key).sources.clear()
