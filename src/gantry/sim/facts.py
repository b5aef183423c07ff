"""The clients' knowledge of the cluster's objects, from the results of their jobs only.

Clients submit at most one job for an object at a time (``claim``), so the jobs end in the order of their effects. The
success of a job defines the fields of its objects; a refusal means that nothing has changed; after any other end, the
state of the job's objects is unknown. ``outcome`` compares this knowledge with the state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]
"""Kind (``instance``, ``network``, ``node``, ``cluster``) and name."""

THERE = "there"
"""The field with whether the object exists."""

UNSEEN = ("content", "copied")
"""Fields that are not in the state, but on the nodes' disks (``node_disks``)."""

Fields = Mapping[str, object]


@dataclass
class Thing:
    """An object: its known fields, and the numbers of the acknowledgements (``acknowledged``) that they rely on.

    ``untidy`` is whether any job about it failed, after which a volume of it may be left over; ``loose`` is whether a
    job warned of a disk that is left over, or the end of a master interrupted one: then it may be a file too.
    """

    fields: dict[str, object] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
    claimed: bool = False
    untidy: bool = False
    loose: bool = False


class Facts:
    """All objects that clients have ever named."""

    def __init__(self) -> None:
        self.things: dict[Key, Thing] = {}
        # Jobs that may move instances which other clients have claimed.
        self._moving = 0

    def thing(self, key: Key) -> Thing:
        """Return an object; a new one without known fields if it was never named."""
        return self.things.setdefault(key, Thing())

    def get(self, key: Key, name: str) -> object:
        """Return a field; None if it is unknown."""
        return self.thing(key).fields.get(name)

    def known(self, kind: str, *, there: bool | None = None, free: bool = True) -> list[str]:
        """Return the sorted names of a kind's objects: existing, missing or all; only unclaimed if ``free``."""
        return sorted(
            name
            for (of, name), thing in self.things.items()
            if of == kind and not (free and thing.claimed) and there in (None, thing.fields.get(THERE))
        )

    def claim(self, keys: Iterable[Key]) -> bool:
        """Claim objects for a job; return False if another job has claimed any of them."""
        things = [self.thing(key) for key in keys]
        if any(thing.claimed for thing in things):
            return False
        for thing in things:
            thing.claimed = True
        return True

    def release(self, keys: Iterable[Key]) -> None:
        """Release claimed objects."""
        for key in keys:
            self.thing(key).claimed = False

    def begin(self, known: Mapping[Key, Fields]) -> None:
        """Add the knowledge about the initial state, before any job."""
        for key, fields in known.items():
            self.thing(key).fields.update(fields)

    def learn(self, effects: Mapping[Key, Fields], source: int) -> None:
        """Add the effects of a successful job; an object that it creates or removes loses all earlier fields."""
        for key, fields in effects.items():
            thing = self.thing(key)
            if THERE in fields:
                thing.fields, thing.sources = {}, []
            thing.fields.update(fields)
            thing.sources.append(source)
        if self._moving:
            self._forget_nodes()

    def begin_moving(self) -> None:
        """Forget where instances and their copies are, until ``end_moving``: a job may move any of them."""
        self._moving += 1
        self._forget_nodes()

    def end_moving(self) -> None:
        """End what ``begin_moving`` began."""
        self._moving -= 1

    def _forget_nodes(self) -> None:
        for thing in self.things.values():
            for name in [name for name in thing.fields if name in ("node", "copied") or name.startswith("on ")]:
                del thing.fields[name]

    def rely(self, keys: Iterable[Key], source: int) -> None:
        """Record that objects are unchanged by an acknowledgement: if it is lost, so is the knowledge of them."""
        for key in keys:
            self.thing(key).sources.append(source)

    def tidy_no_more(self, keys: Iterable[Key], *, files: bool) -> None:
        """Record that volumes of objects, and with ``files`` also files, may be left over."""
        for key in keys:
            thing = self.thing(key)
            thing.untidy, thing.loose = True, thing.loose or files

    def doubt(self, keys: Iterable[Key]) -> None:
        """Forget all knowledge about objects."""
        for key in keys:
            self.thing(key).fields.clear()
            self.thing(key).sources.clear()
            self.thing(key).untidy = True
