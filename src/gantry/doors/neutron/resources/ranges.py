"""Network segment ranges (contracts/segment-ranges.md#attributes).

``available`` lists the free ids one by one, as clients expect, up to ``AVAILABLE_LIMIT``; if there are more, the object
also has ``available_count`` and ``available_ranges``. These are computed only if ``fields`` of a query includes them.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.doors.neutron import attributes, faults, master, resource, values
from gantry.doors.neutron.resources import standard

TYPES = ("vlan", "vxlan", "gre", "geneve")
MAX_ID = 2**32 - 1


def _unless_default(name: str, otherwise: object) -> attributes.Attribute:
    """Return a text attribute; default ranges, which have no such text, show ``otherwise``."""
    plain = standard.text(name, f"Its {name}", sort=name == "name")
    return attributes.Attribute(
        name, plain.text, (name, "default"), lambda row: otherwise if row.get("default") else row.get(name, ""),
        post=True, put=True, default="", validate=plain.validate, filter=True, sort=plain.sort, field=name,
    )  # fmt: skip


def _private_project(row: attributes.Row) -> object:
    """Return the project of a range, unset for a shared range."""
    return attributes.UNSET if row.get("shared", True) else row.get("project", "")


def _bound(name: str, about: str) -> attributes.Attribute:
    return attributes.Attribute(
        name, about, (name,), standard.plain(name), post=True, put=True, default=attributes.REQUIRED,
        convert=values.integer, validate=values.between(1, MAX_ID),
    )  # fmt: skip


def _if_bounded(name: str) -> attributes.Attribute:
    """Return an attribute that is set only if ``available`` does not list all free ids."""

    def show(row: attributes.Row) -> object:
        listed = row.get("available")
        known = len(listed) if isinstance(listed, list) else 0
        return row.get(name) if standard.number(row.get("available_count", 0)) > known else attributes.UNSET

    about = "The number of free ids" if name.endswith("count") else "The first free ids as ranges"
    return standard.read_only(name, f"{about}, if `available` does not list all", name, *_COUNTED, show=show)


_COUNTED = ("available", "available_count")

TABLE = attributes.table(
    standard.ID,
    _unless_default("name", attributes.UNSET),
    standard.read_only("default", "Whether it is from segments.ini", "default", show=standard.plain("default", False)),
    attributes.Attribute(
        "shared", "Whether all projects can use it", ("shared",), standard.plain("shared", True), post=True,
        default=True, convert=values.boolean,
    ),
    attributes.Attribute(
        "project_id", "The project that owns it, unless it is shared", ("project", "shared"), _private_project,
        post=True,
        validate=values.text(values.PROJECT_LENGTH), filter=True, sort=True, field="project",
    ),
    attributes.Attribute(
        "network_type", "vlan, vxlan, gre or geneve", ("network_type",), standard.plain("network_type"), post=True,
        validate=values.one_of(*TYPES), filter=True, field="network_type",
    ),
    attributes.Attribute(
        "physical_network", "For vlan: its physical network", ("physical_network",),
        standard.plain("physical_network", ""), post=True, validate=values.text(64), filter=True,
    ),
    _bound("minimum", "Its first id"),
    _bound("maximum", "Its last id"),
    standard.REVISION,
    _unless_default("description", None),
    standard.CREATED,
    standard.read_only(
        "updated_at", "When it was last changed", "mtime", "default",
        show=lambda row: attributes.UNSET if row.get("default") else standard.seconds(row, "mtime"),
    ),
    standard.read_only("available", "Free ids", "available", show=standard.plain("available", [])),
    standard.read_only("used", "Used ids with the projects of their networks", "used", show=standard.plain("used", {})),
    _if_bounded("available_count"),
    _if_bounded("available_ranges"),
    standard.TAGS,
)  # fmt: skip


def _spec(new: attributes.Values) -> master.Op:
    kind, shared = new.get("network_type"), new["shared"]
    if kind is None:
        raise faults.FaultError(
            400, "NetworkSegmentRangeNetTypeNotSupported", "Network type None does not support network segment ranges."
        )
    if kind == "vlan" and not new.get("physical_network"):
        raise faults.FaultError(
            400, "BadRequest",
            "Bad network_segment_range request: Network type vlan requires 'physical_network' to be specified while "
            "creating new range.",
        )  # fmt: skip
    return {
        "uuid": new["id"],
        "name": new["name"],
        "network_type": kind,
        "physical_network": new.get("physical_network", "") if kind == "vlan" else "",
        "minimum": new["minimum"],
        "maximum": new["maximum"],
        "shared": shared,
        "project": "" if shared else new["project_id"],
        "description": new["description"],
    }


def create_ops(requested: Sequence[attributes.Values]) -> list[master.Op]:
    """Return the opcode for all new ranges."""
    return [{"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [_spec(new) for new in requested]}]


def change_op(row: attributes.Row, changes: attributes.Values) -> master.Op:
    """Return the opcode for changes of a range."""
    return {"OP_ID": "OP_SEGMENT_RANGE_SET_PARAMS", "range": row["uuid"], **changes}


def remove_op(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a range."""
    return {"OP_ID": "OP_SEGMENT_RANGE_REMOVE", "range": row["uuid"]}


RESOURCE = resource.Resource(
    name="network_segment_range",
    collection="network_segment_ranges",
    title="Network Segment Range",
    kind="segmentrange",
    table=TABLE,
    create_ops=create_ops,
    results=standard.results_of,
    change_op=change_op,
    remove_op=remove_op,
    computed=("used", "available", "available_count", "available_ranges"),
    for_admins=True,
    nulls=("project_id",),
    counts_empty_changes=True,
    managed="managed",
    refusals=(
        resource.Refusal(
            errors.NotUniqueError, 409, "NetworkSegmentRangeOverlaps",
            "Network segment range overlaps with range(s) with id {uuids}", resource.UUID,
        ),
        resource.Refusal(errors.NotUniqueError, 409, "NetworkSegmentRangeOverlaps"),
        resource.Refusal(
            errors.InvalidError, 400, "NetworkSegmentRangeDefaultReadOnly",
            "Network Segment Range {id} is a default segment range which could not be updated or deleted.", "default",
        ),
        resource.Refusal(
            errors.WrongStateError, 409, "NetworkSegmentRangeReferencedByProject",
            "Network Segment Range {id} is referenced by one or more project networks.", "use|held",
        ),
        resource.Refusal(errors.InvalidError, 400, "NetworkVlanRangeError", pattern="[Vv][Ll][Aa][Nn]"),
        resource.Refusal(errors.InvalidError, 400, "NetworkTunnelRangeError", pattern="vxlan|gre|geneve"),
    ),
)  # fmt: skip
