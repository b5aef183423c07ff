"""Networks: the same networks as in ``gnt-network``, with their segment as provider attributes.

Names of Neutron's networks need not be unique: the name that a client sets is the label of the network, and also its
name if that is possible. A network without provider attributes gets the next free id of its project's ranges. The type
``flat`` is the untagged network of a physical network, ``local`` is a network without a wire. A new network is
connected to the node groups by the link of its physical network, if the cluster has one (decision 59).

See contracts/neutron-api.md#networks.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.doors.neutron import attributes, faults, master, resource, values
from gantry.doors.neutron.resources import standard

_PROVIDER = {
    "provider:network_type": "network_type",
    "provider:physical_network": "physical_network",
    "provider:segmentation_id": "segment",
}


_TYPES = ("vlan", "vxlan", "gre", "geneve", "flat", "local")


def _type(value: object) -> object:
    if value not in _TYPES:
        raise faults.invalid_input(f"network_type value '{value}' not supported; there are {', '.join(_TYPES)}.")
    return value


def _provider(
    name: str,
    about: str,
    *,
    convert: attributes.Converter = lambda value: value,
    validate: attributes.Validator = lambda value: None,
) -> attributes.Attribute:
    """Return an attribute of the segment; null is the same as unset."""
    field = _PROVIDER[name]
    return attributes.Attribute(
        name, about, (field,), lambda row: row.get(field) or None, post=True,
        convert=lambda value: None if value is None else convert(value), validate=values.or_none(validate),
        filter=True, admin=True,
    )  # fmt: skip


TABLE = attributes.table(
    standard.ID,
    standard.text("name", "Its name, which need not be unique", field="label", sort=True),
    standard.TENANT,
    standard.PROJECT,
    standard.flag("admin_state_up", "Whether it is in operation", default=True),
    standard.read_only("mtu", "Maximum size of a packet (MTU), in bytes", "mtu", show=standard.plain("mtu")),
    standard.read_only("status", "Always ACTIVE", show=lambda row: "ACTIVE", filtered=True, sort=True),
    standard.read_only("subnets", "Its subnets", "subnet_list", show=standard.plain("subnet_list", [])),
    attributes.Attribute(
        "shared", "Whether all projects can use it", ("shared",), standard.plain("shared", False), post=True, put=True,
        convert=values.boolean, filter=True, sort=True, reserved=True,
    ),
    standard.constant("router:external", False, "Always false", filtered=True),
    _provider("provider:network_type", "Type of its segment, or flat or local", convert=_type),
    _provider("provider:physical_network", "Its physical network", validate=values.text(64)),
    _provider(
        "provider:segmentation_id", "Id of its segment", convert=values.integer,
        validate=values.between(0, 2**32 - 1),
    ),
    standard.constant("vlan_transparent", False, "Always false"),
    standard.constant("qinq", False, "Always false"),
    standard.constant("availability_zone_hints", [], "Always empty"),
    standard.read_only("availability_zones", "Always empty", show=lambda row: []),
    standard.read_only("ipv4_address_scope", "Always null", show=lambda row: None),
    standard.read_only("ipv6_address_scope", "Always null", show=lambda row: None),
    standard.DESCRIPTION,
    *standard.STANDARD,
)  # fmt: skip


_MAXIMUM_IDS = {"vlan": 4094, "vxlan": 2**24 - 1, "geneve": 2**24 - 1}


def _segment(requested: attributes.Values) -> master.Op:
    """Return the fields of the requested segment; without provider attributes, any segment."""
    kind = str(requested.get("provider:network_type"))
    if requested.get("provider:segmentation_id") == 0:
        if kind not in ("flat", "local"):
            most = _MAXIMUM_IDS.get(kind, 2**32 - 1)
            raise faults.invalid_input(f"segmentation_id out of range (1 through {most}).")
        requested = {**requested, "provider:segmentation_id": None}
    fields = {field: requested[name] for name, field in _PROVIDER.items() if requested.get(name) is not None}
    return fields or {"segmented": True}


def _common(requested: attributes.Values) -> master.Op:
    names = {"name": "label", "shared": "shared", "description": "description", "admin_state_up": "admin_state_up"}
    return {field: requested[name] for name, field in names.items() if name in requested}


def create_ops(requested: Sequence[attributes.Values]) -> list[master.Op]:
    """Return an opcode for each new network."""
    return [
        {
            "OP_ID": "OP_NETWORK_ADD",
            "uuid": new["id"],
            "project": new["project_id"],
            "connect": True,
            **_common(new),
            **_segment(new),
        }
        for new in requested
    ]


def change_op(row: attributes.Row, changes: attributes.Values) -> master.Op:
    """Return the opcode for changes of a network."""
    tags = {"tags": changes["tags"]} if "tags" in changes else {}
    return {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": row["uuid"], **_common(changes), **tags}


def remove_op(row: attributes.Row) -> master.Op:
    """Return the opcode that removes a network."""
    return {"OP_ID": "OP_NETWORK_REMOVE", "network_name": row["uuid"], "disconnect": True}


RESOURCE = resource.Resource(
    name="network",
    collection="networks",
    title="Network",
    kind="network",
    table=TABLE,
    create_ops=create_ops,
    results=standard.results_of,
    change_op=change_op,
    remove_op=remove_op,
    refusals=(
        resource.Refusal(
            errors.NoRoomError, 503, "NoNetworkAvailable",
            "Unable to create the network. No tenant network is available for allocation. {text}",
            "no segment ranges yet",
        ),
        resource.Refusal(
            errors.NoRoomError, 503, "NoNetworkAvailable",
            "Unable to create the network. No tenant network is available for allocation.",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "FlatNetworkInUse",
            "Unable to create the flat network. Physical network {provider__physical_network} is in use.",
            "already has the flat network",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput",
            "Invalid input for operation: physical_network required for flat provider network.",
            "^a flat network needs a physical network",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput",
            "Invalid input for operation: physical_network prohibited for local provider network.",
            "^a local network has no physical network",
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput",
            "Invalid input for operation: segmentation_id prohibited for {kind} provider network.",
            "^a (?P<kind>flat|local) network has no segmentation id",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "VlanIdInUse",
            "Unable to create the network. The VLAN {provider__segmentation_id} on physical network "
            "{provider__physical_network} is in use.", "vlan",
        ),
        resource.Refusal(
            errors.NotUniqueError, 409, "TunnelIdInUse",
            "Unable to create the network. The tunnel ID {provider__segmentation_id} is in use.", "vxlan|gre|geneve",
        ),
        resource.Refusal(errors.BusyError, 409, "VlanIdInUse", pattern="^vlan segment .* is held"),
        resource.Refusal(errors.BusyError, 409, "TunnelIdInUse", pattern=" segment .* is held"),
        resource.Refusal(
            errors.WrongStateError, 409, "NetworkInUse",
            "Unable to complete operation on network {id}. There are one or more ports still in use on the network, id "
            "for these ports is: {uuids}.", "in use by port",
        ),
        resource.Refusal(
            errors.WrongStateError, 409, "InvalidSharedSetting",
            "Unable to reconfigure sharing settings for network {id}. Multiple tenants are using it.",
            "for its own project alone",
        ),
        resource.Refusal(
            errors.WrongStateError, 409, "NetworkInUse", "Unable to complete operation on network {id}. {text}"
        ),
        resource.Refusal(
            errors.InvalidError, 400, "InvalidInput", "Invalid input for operation: {text}", "segment|physical|type"
        ),
    ),
)  # fmt: skip
