"""Network segment ranges (contracts/segment-ranges.md#attributes).

``available`` lists the free ids one by one, as clients expect, up to ``AVAILABLE_LIMIT``; where there are more,
``available_count`` and ``available_ranges`` stand beside it. Whoever does not ask for them by ``fields`` does not pay.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.doors.neutron import attributes, faults, master, resource, values
from gantry.doors.neutron.resources import standard

TYPES = ("vlan", "vxlan", "gre", "geneve")
LARGEST = 2**32 - 1


def _unless_default(name: str, otherwise: object) -> attributes.Attribute:
    """Return a text that default ranges, which the configuration has without one, do not show, or show as this."""
    plain = standard.text(name, f"Its {name}", sort=name == "name")
    return attributes.Attribute(
        name, plain.text, (name, "default"), lambda row: otherwise if row.get("default") else row.get(name, ""),
        post=True, put=True, default="", validate=plain.validate, filter=True, sort=plain.sort, field=name,
    )  # fmt: skip


def _of_private(row: attributes.Row) -> object:
    """Return whose a range is; a shared one does not say."""
    return attributes.UNSET if row.get("shared", True) else row.get("project", "")


def _bound(name: str, about: str) -> attributes.Attribute:
    return attributes.Attribute(
        name, about, (name,), standard.plain(name), post=True, put=True, default=attributes.REQUIRED,
        convert=values.integer, validate=values.between(1, LARGEST),
    )  # fmt: skip


def _if_bounded(name: str) -> attributes.Attribute:
    """Return what is beside ``available`` where that has not all of them."""

    def show(row: attributes.Row) -> object:
        listed = row.get("available")
        known = len(listed) if isinstance(listed, list) else 0
        return row.get(name) if standard.number(row.get("available_count", 0)) > known else attributes.UNSET

    about = "How many free ids there are" if name.endswith("count") else "The first free ids as ranges"
    return standard.shown(name, f"{about}, where `available` has not all", name, *_COUNTED, show=show)


_COUNTED = ("available", "available_count")

TABLE = attributes.table(
    standard.ID,
    _unless_default("name", attributes.UNSET),
    standard.shown("default", "Whether it is from the configuration", "default", show=standard.plain("default", False)),
    attributes.Attribute(
        "shared", "Whether all projects take from it", ("shared",), standard.plain("shared", True), post=True,
        default=True, convert=values.boolean,
    ),
    attributes.Attribute(
        "project_id", "Whose it is, unless it is shared", ("project", "shared"), _of_private, post=True,
        validate=values.text(values.PROJECT_LENGTH), filter=True, sort=True, field="project",
    ),
    attributes.Attribute(
        "network_type", "vlan, vxlan, gre or geneve", ("network_type",), standard.plain("network_type"), post=True,
        validate=values.one_of(*TYPES), filter=True, field="network_type",
    ),
    attributes.Attribute(
        "physical_network", "For vlan: of which physical network", ("physical_network",),
        standard.plain("physical_network", ""), post=True, validate=values.text(64), filter=True,
    ),
    _bound("minimum", "Its first id"),
    _bound("maximum", "Its last id"),
    standard.REVISION,
    _unless_default("description", None),
    standard.CREATED,
    standard.shown(
        "updated_at", "When it was changed last", "mtime", "default",
        show=lambda row: attributes.UNSET if row.get("default") else standard.seconds(row, "mtime"),
    ),
    standard.shown("available", "Free ids", "available", show=standard.plain("available", [])),
    standard.shown("used", "Used ids with the projects of their networks", "used", show=standard.plain("used", {})),
    _if_bounded("available_count"),
    _if_bounded("available_ranges"),
    standard.TAGS,
)  # fmt: skip


def _spec(made: attributes.Values) -> master.Op:
    kind, shared = made.get("network_type"), made["shared"]
    if kind is None:
        raise faults.FaultError(
            400, "NetworkSegmentRangeNetTypeNotSupported", "Network type None does not support network segment ranges."
        )
    if kind == "vlan" and not made.get("physical_network"):
        raise faults.FaultError(
            400, "BadRequest",
            "Bad network_segment_range request: Network type vlan requires 'physical_network' to be specified while "
            "creating new range.",
        )  # fmt: skip
    return {
        "uuid": made["id"],
        "name": made["name"],
        "network_type": kind,
        "physical_network": made.get("physical_network", "") if kind == "vlan" else "",
        "minimum": made["minimum"],
        "maximum": made["maximum"],
        "shared": shared,
        "project": "" if shared else made["project_id"],
        "description": made["description"],
    }


def make(made: Sequence[attributes.Values]) -> list[master.Op]:
    """Return the opcode for ranges to be."""
    return [{"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [_spec(one) for one in made]}]


def change(row: attributes.Row, changed: attributes.Values) -> master.Op:
    """Return the opcode for a change."""
    return {"OP_ID": "OP_SEGMENT_RANGE_SET_PARAMS", "range": row["uuid"], **changed}


def remove(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a range."""
    return {"OP_ID": "OP_SEGMENT_RANGE_REMOVE", "range": row["uuid"]}


RESOURCE = resource.Resource(
    name="network_segment_range",
    collection="network_segment_ranges",
    title="Network Segment Range",
    kind="segmentrange",
    table=TABLE,
    make=make,
    made=standard.made,
    change=change,
    remove=remove,
    computed=("used", "available", "available_count", "available_ranges"),
    for_admins=True,
    nulls=("project_id",),
    counts_nothing=True,
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
