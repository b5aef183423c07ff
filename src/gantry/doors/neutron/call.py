"""A request to the Neutron API: its user, query and body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry.doors.neutron import access, faults, master
from gantry.runtime import bounded_json


@dataclass(frozen=True)
class Call:
    """A request; ``address`` is the URL of the collection, ``raw_query`` the query before decoding."""

    person: access.Person
    origin: master.Origin
    address: str
    query: Mapping[str, Sequence[str]]
    raw_query: str
    body: bytes
    content_type: str

    def decode_body(self) -> object:
        """Return the decoded body, None without a body; FaultError 400 if it is not a JSON object."""
        if not self.body:
            return None
        kind = self.content_type.partition(";")[0].strip().lower()
        try:
            value = bounded_json.decode(self.body)
        except bounded_json.UnreadableError:
            value = None
        if not isinstance(value, dict) or kind != "application/json":
            raise faults.bad_request("Body contains invalid data")
        return value
