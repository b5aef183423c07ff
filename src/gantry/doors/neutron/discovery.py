"""The description of the API: versions, collections, extensions (contracts/neutron-api.md#clients).

An extension is listed if the stock client or SDK checks for it before use; names and times are those of Neutron.
"""

from collections.abc import Sequence

from gantry.doors.neutron import faults

RANGES = "network-segment-range"
"""The extension that exists while the cluster manages segment ranges."""

_EXTENSIONS: tuple[tuple[str, str, str, str], ...] = (
    ("default-subnetpools", "Default Subnetpools", "A subnet pool can be the default", "2016-02-18T18:00:00-00:00"),
    ("empty-string-filtering", "Empty String Filtering Extension",
     "Filters may be for an empty value", "2018-05-01T10:00:00-00:00"),
    ("filter-validation", "Filter parameters validation", "Unknown filters are refused", "2018-07-04T10:00:00-00:00"),
    ("ip-substring-filtering", "IP address substring filtering",
     "Ports are found by a part of an address", "2017-11-28T09:00:00-00:00"),
    ("network-ip-availability", "Network IP Availability",
     "How many addresses of networks and subnets are free", "2015-09-24T00:00:00-00:00"),
    (RANGES, "Neutron Network Segment Range",
     "Provides support for the network segment range management", "2018-11-29T00:00:00-00:00"),
    ("pagination", "Pagination support", "Lists come in pages", "2016-06-12T00:00:00-00:00"),
    ("project-id", "project_id field enabled", "Objects have a project_id", "2016-09-09T09:09:09-09:09"),
    ("provider", "Provider Network", "Networks tell their segment to administrators", "2012-09-07T10:00:00-00:00"),
    ("sorting", "Sorting support", "Lists can be sorted", "2016-06-12T00:00:00-00:00"),
    ("standard-attr-description", "standard-attr-description", "Objects have descriptions",
     "2016-02-10T10:00:00-00:00"),
    ("standard-attr-revisions", "Resource revision numbers", "Objects count their changes",
     "2016-04-11T10:00:00-00:00"),
    ("standard-attr-tag", "Tag support for resources with standard attribute: port, subnet, subnetpool, network, "
     "network_segment_range", "Objects have tags", "2017-01-01T00:00:00-00:00"),
    ("standard-attr-timestamp", "Resource timestamps", "Objects tell when they were made and changed",
     "2016-09-12T10:00:00-00:00"),
    ("subnet_allocation", "Subnet Allocation", "Subnets are cut from subnet pools", "2015-03-30T10:00:00-00:00"),
)  # fmt: skip


def _extension(row: tuple[str, str, str, str]) -> dict[str, object]:
    alias, name, about, updated = row
    return {"name": name, "alias": alias, "description": about, "updated": updated, "links": []}


def extensions(*, ranges: bool) -> dict[str, object]:
    """Return all extensions; with ``ranges`` including that of segment ranges."""
    return {"extensions": [_extension(row) for row in _EXTENSIONS if ranges or row[0] != RANGES]}


def extension(alias: str, *, ranges: bool) -> dict[str, object]:
    """Return an extension; MiddlewareError 404."""
    for row in _EXTENSIONS:
        if row[0] == alias and (ranges or alias != RANGES):
            return {"extension": _extension(row)}
    raise faults.no_extension(alias)


def versions(base: str) -> dict[str, object]:
    """Return the versions of the API; ``base`` is the URL of the front end."""
    links = [{"rel": "self", "href": f"{base}/v2.0/"}]
    return {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}


def collections(base: str, names: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the collections; each is named by a pair, for one object and for many."""
    return {
        "resources": [
            {"name": name, "collection": plural, "links": [{"rel": "self", "href": f"{base}/v2.0/{plural}"}]}
            for name, plural in names
        ]
    }
