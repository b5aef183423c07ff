"""The wire of a network: the segment that its opcode names, or the next free id; or a flat or local network.

Called by ``network``, for a new and for a changed network. An explicit id may be outside all ranges, or in the range of
another project: only administrators may name ids (contracts/segment-ranges.md#explicit-ids).

See contracts/segment-ranges.md#allocation.
"""

from collections.abc import Iterator

from msgspec import structs

from gantry import errors
from gantry.address import segments
from gantry.ipam import segments as ledgers
from gantry.model import network, opcodes
from gantry.operations import base
from gantry.state.objects import snapshot as states

Wire = network.Segment | network.Unsegmented | None

UNSEGMENTED = (network.FLAT, network.LOCAL)
"""The network types without segmentation ids."""


def wired(net: network.Network, wire: Wire) -> network.Network:
    """Return a network with another wire."""
    segment = wire if isinstance(wire, network.Segment) else None
    return structs.replace(net, segment=segment, unsegmented=wire if isinstance(wire, network.Unsegmented) else None)


def chosen(
    environment: base.Environment,
    snapshot: states.Snapshot,
    op: opcodes.NetworkAdd | opcodes.NetworkSetParams,
    *,
    project: str,
) -> Wire:
    """Return the requested wire, None without a request; raises InvalidError, NoRoomError, NotUniqueError.

    The ledger holds the segment as soon as its plan is carried out, in the same turn of the event loop.
    """
    if not (op.network_type or op.physical_network or op.segment is not None or op.segmented):
        return None
    if op.network_type in UNSEGMENTED:
        return _unsegmented(environment, snapshot, op)
    ledger = environment.ledger.segments
    wish = ledgers.Request(op.network_type, op.physical_network)
    _check(ledger, snapshot, wish)
    if op.segment is None:
        return ledger.pick(snapshot.the_cluster, wish, project=project)
    if not op.network_type:
        raise errors.InvalidError(f"segment {op.segment} needs a network type", hint="specify both")
    segments.check_scope(op.network_type, op.physical_network)
    segments.checked_run(op.network_type, op.segment, maximum=op.segment)
    segment = network.Segment(
        network_type=op.network_type, physical_network=op.physical_network, segmentation_id=op.segment
    )
    ledger.check_free(snapshot, segment)
    return segment


def _unsegmented(
    environment: base.Environment, snapshot: states.Snapshot, op: opcodes.NetworkAdd | opcodes.NetworkSetParams
) -> network.Unsegmented:
    """Return a flat or local network; the state refuses a second flat one of a physical network.

    See contracts/neutron-api.md#networks.
    """
    kind, physical = op.network_type, op.physical_network
    if op.segment is not None:
        raise errors.InvalidError(f"a {kind} network has no segmentation id", hint="omit it, or use the type vlan")
    if kind == network.LOCAL and physical:
        raise errors.InvalidError("a local network has no physical network", hint="omit it, or use the type flat")
    if kind == network.FLAT and not physical:
        raise errors.InvalidError("a flat network needs a physical network", hint="name one, or use the type local")
    _check_known(environment.ledger.segments, snapshot, physical)
    return network.Unsegmented(network_type=kind, physical_network=physical)


def _check(ledger: ledgers.Segments, snapshot: states.Snapshot, wish: ledgers.Request) -> None:
    """Refuse a type that does not exist, and an unknown physical network."""
    physical = wish.physical_network
    if wish.network_type:
        segments.check_scope(wish.network_type, physical or ("?" if wish.network_type == "vlan" else ""))
    _check_known(ledger, snapshot, physical)


def _check_known(ledger: ledgers.Segments, snapshot: states.Snapshot, physical: str) -> None:
    """Refuse an unknown physical network: probably a typing error."""
    the_cluster = snapshot.the_cluster
    is_configured = physical in the_cluster.physical_networks or physical in the_cluster.bridge_mappings
    if physical and not is_configured and not ledger.is_known(("vlan", physical)):
        raise errors.InvalidError(
            f"physical network {physical} is not known",
            hint=f"gantry segment set --bridge-mappings {physical}:BRIDGE or --vlan-ranges makes it known",
        )


def text(wire: Wire) -> str:
    """Return a wire as text for a dry run."""
    if wire is None:
        return "none"
    where = f" of physical network {wire.physical_network}" if wire.physical_network else ""
    number = f" {wire.segmentation_id}" if isinstance(wire, network.Segment) else ""
    return f"{wire.network_type}{number}{where}"


def changed(
    environment: base.Environment, snapshot: states.Snapshot, net: network.Network, op: opcodes.NetworkSetParams
) -> Wire:
    """Return a network's wire after a change: the present one if that matches the request."""
    own, wish = net.wire, ledgers.Request(op.network_type, op.physical_network)
    requested = op.network_type or op.physical_network or op.segment is not None
    if requested and op.segmented is False:
        raise errors.InvalidError(
            f"network {net.name} cannot have a segment and no segment", hint="request only one of both"
        )
    if not requested and op.segmented is None:
        return own
    if op.segmented is not False and own and _fits(own, op, wish):
        return own
    new = chosen(environment, snapshot, op, project=net.project)
    groups = [*_groups(snapshot, net)]
    if new != own and groups:
        raise errors.WrongStateError(
            f"network {net.name} is connected to node group {', '.join(groups)}",
            hint=f"gnt-network disconnect {net.name} {groups[0]}",
        )
    return new


def _fits(own: network.Segment | network.Unsegmented, op: opcodes.NetworkSetParams, wish: ledgers.Request) -> bool:
    """Return whether a wire is what an opcode requests."""
    if isinstance(own, network.Unsegmented) and (op.segmented or op.segment is not None):
        return False
    number = own.segmentation_id if isinstance(own, network.Segment) else None
    return op.segment in (None, number) and wish.fits((own.network_type, own.physical_network))


def _groups(snapshot: states.Snapshot, net: network.Network) -> Iterator[str]:
    return (group.name for group in snapshot.nodegroups.values() if net.uuid in group.networks)
