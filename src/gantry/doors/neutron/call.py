"""A request to the Neutron door, as what serves it sees it: who asks, the query, the body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gantry.doors.neutron import access, faults, master


@dataclass(frozen=True)
class Call:
    """A request; ``address`` is that of the collection, ``raw_query`` the query as it came."""

    person: access.Person
    asked: master.Asked
    address: str
    query: Mapping[str, Sequence[str]]
    raw_query: str
    body: bytes
    content_type: str

    def decoded(self) -> object:
        """Return the body, None when there is none; FaultError 400 for what is no object."""
        if not self.body:
            return None
        kind = self.content_type.partition(";")[0].strip().lower()
        try:
            value: object = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if not isinstance(value, dict) or kind != "application/json":
            raise faults.bad_request("Body contains invalid data")
        return value
