"""Subnet pools (contracts/neutron-api.md#subnet-pools): prefixes that the CIDRs of subnets are cut from."""

from collections.abc import Sequence

from gantry import errors
from gantry.doors.neutron import attributes, master, resource, values
from gantry.doors.neutron.resources import standard


def _length(name: str, about: str) -> attributes.Attribute:
    return attributes.Attribute(
        name, about, (name,), lambda row: str(row.get(name, "")), post=True, put=True, convert=values.integer,
        validate=values.between(0, 128),
    )  # fmt: skip


TABLE = attributes.table(
    standard.ID,
    standard.text("name", "Its name, which others may have too", sort=True),
    standard.PROJECT,
    attributes.Attribute(
        "prefixes", "What subnets are cut from; may only grow", ("prefixes",), standard.plain("prefixes", []),
        post=True, put=True, default=attributes.REQUIRED, validate=values.listed(values.cidr),
    ),
    _length("default_prefixlen", "Length of a subnet's prefix that is not asked for"),
    _length("min_prefixlen", "The shortest prefix of a subnet"),
    _length("max_prefixlen", "The longest prefix of a subnet"),
    standard.flag("is_default", "Whether it is used where none is named", default=False, reserved=True),
    standard.flag("shared", "Whether it is for all projects", default=False, put=False, reserved=True),
    standard.shown("ip_version", "4 or 6", "ip_version", show=standard.plain("ip_version", 4)),
    attributes.Attribute(
        "default_quota", "How much of it a project may have, in /32 of IPv4 or /64 of IPv6", ("default_quota",),
        lambda row: row.get("default_quota") or None, post=True, put=True, convert=values.integer_or_none,
        validate=values.or_none(values.between(0, 2**31 - 1)),
    ),
    standard.constant("address_scope_id", None, "Always null"),
    standard.DESCRIPTION,
    standard.TENANT,
    *standard.STANDARD,
)  # fmt: skip

_FIELDS = (
    "name", "prefixes", "default_prefixlen", "min_prefixlen", "max_prefixlen", "is_default", "shared", "description",
    "tags",
)  # fmt: skip


def _common(given: attributes.Values) -> master.Op:
    op: master.Op = {name: given[name] for name in _FIELDS if name in given}
    if "default_quota" in given:
        op["default_quota"] = given["default_quota"] or 0
    return op


def make(made: Sequence[attributes.Values]) -> list[master.Op]:
    """Return an opcode for each pool to be."""
    return [
        {"OP_ID": "OP_SUBNET_POOL_ADD", "uuid": one["id"], "project": one["project_id"], **_common(one)} for one in made
    ]


def change(row: attributes.Row, changed: attributes.Values) -> master.Op:
    """Return the opcode for a change."""
    return {"OP_ID": "OP_SUBNET_POOL_SET_PARAMS", "subnet_pool": row["uuid"], **_common(changed)}


def remove(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a pool."""
    return {"OP_ID": "OP_SUBNET_POOL_REMOVE", "subnet_pool": row["uuid"]}


RESOURCE = resource.Resource(
    name="subnetpool",
    collection="subnetpools",
    title="Subnet pool",
    kind="subnetpool",
    table=TABLE,
    make=make,
    made=standard.made,
    change=change,
    remove=remove,
    refusals=(
        resource.Refusal(
            errors.WrongStateError, 400, "SubnetPoolDeleteError",
            "Unable to delete subnet pool: Subnet pool has existing allocations.", "use|has subnet|subnets",
        ),
    ),
)  # fmt: skip
