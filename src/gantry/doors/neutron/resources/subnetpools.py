"""Subnet pools (contracts/neutron-api.md#subnet-pools): prefixes from which the CIDRs of subnets are allocated."""

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
    standard.text("name", "Its name, which need not be unique", sort=True),
    standard.PROJECT,
    attributes.Attribute(
        "prefixes", "The prefixes that CIDRs are allocated from; they may only grow", ("prefixes",),
        standard.plain("prefixes", []),
        post=True, put=True, default=attributes.REQUIRED, validate=values.list_of(values.cidr),
    ),
    _length("default_prefixlen", "Default prefix length of a subnet"),
    _length("min_prefixlen", "Minimum prefix length of a subnet"),
    _length("max_prefixlen", "Maximum prefix length of a subnet"),
    standard.flag("is_default", "Whether it is the default subnet pool", default=False, reserved=True),
    standard.flag("shared", "Whether all projects can use it", default=False, put=False, reserved=True),
    standard.read_only(
        "ip_version", "4 or 6", "ip_version", show=standard.plain("ip_version", 4), filtered=True, sort=True
    ),
    attributes.Attribute(
        "default_quota", "Maximum amount for each project, in /32 of IPv4 or /64 of IPv6", ("default_quota",),
        lambda row: row.get("default_quota") or None, post=True, put=True, convert=values.integer_or_none,
        validate=values.or_none(values.between(0, 2**31 - 1)), filter=True, sort=True,
    ),
    standard.constant("address_scope_id", None, "Always null", filtered=True),
    standard.DESCRIPTION,
    standard.TENANT,
    *standard.STANDARD,
)  # fmt: skip

_FIELDS = (
    "name", "prefixes", "default_prefixlen", "min_prefixlen", "max_prefixlen", "is_default", "shared", "description",
    "tags",
)  # fmt: skip


def _common(requested: attributes.Values) -> master.Op:
    op: master.Op = {name: requested[name] for name in _FIELDS if name in requested}
    if "default_quota" in requested:
        op["default_quota"] = requested["default_quota"] or 0
    return op


def create_ops(requested: Sequence[attributes.Values]) -> list[master.Op]:
    """Return an opcode for each new subnet pool."""
    return [
        {"OP_ID": "OP_SUBNET_POOL_ADD", "uuid": new["id"], "project": new["project_id"], **_common(new)}
        for new in requested
    ]


def change_op(row: attributes.Row, changes: attributes.Values) -> master.Op:
    """Return the opcode for changes of a subnet pool."""
    return {"OP_ID": "OP_SUBNET_POOL_SET_PARAMS", "subnet_pool": row["uuid"], **_common(changes)}


def remove_op(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a subnet pool."""
    return {"OP_ID": "OP_SUBNET_POOL_REMOVE", "subnet_pool": row["uuid"]}


RESOURCE = resource.Resource(
    name="subnetpool",
    collection="subnetpools",
    title="Subnet pool",
    kind="subnetpool",
    table=TABLE,
    create_ops=create_ops,
    results=standard.results_of,
    change_op=change_op,
    remove_op=remove_op,
    refusals=(
        resource.Refusal(
            errors.WrongStateError, 400, "SubnetPoolDeleteError",
            "Unable to delete subnet pool: Subnet pool has existing allocations.", "use|has subnet|subnets",
        ),
    ),
)  # fmt: skip
