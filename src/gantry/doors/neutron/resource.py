"""What a resource of the Neutron door is; the modules of ``resources`` declare one each, ``collection`` serves them.

A resource is data: its table of attributes, how opcodes are made of an object to be, of its changes and of its end, and
how the errors of the master are told to a client.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gantry import errors
from gantry.doors.neutron import attributes, faults, master

_MISSING = re.compile(r"no such (?P<noun>[a-z ]+): (?P<name>[^\s;,]+)")
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The pattern of a UUID."""

_NOUNS = {"network": "Network", "subnet": "Subnet", "port": "Port", "subnet pool": "SubnetPool"}


@dataclass(frozen=True)
class Refusal:
    """How an error of the master is told: the first row that fits the class, and the text if there is a ``pattern``.

    In ``message`` stand ``{id}``, ``{text}`` for what the master said, ``{uuids}`` for the objects that it named, the
    groups of the pattern, and the attributes of the request with two underscores for a colon.
    """

    error: type[errors.GantryError]
    status: int
    kind: str
    message: str = "{text}"
    pattern: str = ""


@dataclass(frozen=True)
class Resource:
    """A kind of object; ``kind`` is the master's word for it, ``title`` the one in messages.

    ``make`` returns the opcodes for objects to be, which have their ``id``, and ``made`` the objects in the results.
    ``needs`` are fields without which an object cannot be changed, ``computed`` those that no result of a job has.
    ``for_admins`` hides all of it from others; what is ``inside`` a network can be made where that is seen, or owned.
    ``nulls`` are attributes that only the answer to a POST shows when they have no value; a PUT of nothing is a change
    of its own for what ``counts_nothing`` (recorded).
    """

    name: str
    collection: str
    title: str
    kind: str
    table: attributes.Table
    make: Callable[[Sequence[attributes.Values]], list[master.Op]]
    made: Callable[[Sequence[attributes.Values], list[object]], list[attributes.Row]]
    change: Callable[[attributes.Row, attributes.Values], master.Op]
    remove: Callable[[attributes.Row], master.Op]
    refusals: Sequence[Refusal] = ()
    needs: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    for_admins: bool = False
    inside: Literal["", "seen", "owned"] = ""
    nulls: tuple[str, ...] = ()
    counts_nothing: bool = False

    @property
    def not_found(self) -> str:
        """Return the type of the fault when there is no such object."""
        return "".join(word.capitalize() for word in self.title.split()) + "NotFound"

    def missing(self, key: str | None) -> faults.FaultError:
        """Return the fault when there is no such object."""
        return faults.FaultError(404, self.not_found, f"{self.title} {key} could not be found.")

    def fault(self, error: errors.GantryError, told: attributes.Values) -> faults.FaultError:
        """Return how an error of the master is told for a request with these values."""
        for row in self.refusals:
            found = re.search(row.pattern, error.message)
            if isinstance(error, row.error) and found:
                uuids = ", ".join(one for one in re.findall(UUID, error.message) if one != told.get("id"))
                words = {name.replace(":", "__"): value for name, value in told.items()}
                words |= {"text": str(error), "uuids": uuids}
                message = row.message.format_map(_Words({**words, **found.groupdict()}))
                return faults.FaultError(row.status, row.kind, message)
        missing = _MISSING.search(error.message)
        if isinstance(error, errors.NotFoundError) and missing:
            noun, name = missing["noun"], missing["name"]
            if name == told.get("id"):
                return self.missing(name)
            if noun in _NOUNS:
                return faults.FaultError(
                    404, f"{_NOUNS[noun]}NotFound", f"{noun.capitalize()} {name} could not be found."
                )
        return faults.of_error(error)


class _Words(dict[str, object]):
    """Words of a message; one that is not known is left out."""

    def __missing__(self, key: str) -> str:
        return ""
