"""The segment of a network: the one that its opcode names, or the next free id.

Called by ``network``, for a new and for a changed network. An explicit id may be outside all ranges, or in the range of
another project: only administrators may name ids (contracts/segment-ranges.md#explicit-ids).

See contracts/segment-ranges.md#allocation.
"""

from collections.abc import Iterator

from gantry import errors
from gantry.address import segments
from gantry.ipam import segments as ledgers
from gantry.model import network, opcodes
from gantry.operations import base
from gantry.state import snapshot as states


def chosen(
    environment: base.Environment,
    snapshot: states.Snapshot,
    op: opcodes.NetworkAdd | opcodes.NetworkSetParams,
    *,
    project: str,
) -> network.Segment | None:
    """Return the requested segment, None without a request; raises InvalidError, NoRoomError, NotUniqueError.

    The ledger holds the segment as soon as its plan is carried out, in the same turn of the event loop.
    """
    if not (op.network_type or op.physical_network or op.segment is not None or op.segmented):
        return None
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


def _check(ledger: ledgers.Segments, snapshot: states.Snapshot, wish: ledgers.Request) -> None:
    """Refuse a type that does not exist, and an unknown physical network: probably a typing error."""
    physical = wish.physical_network
    if wish.network_type:
        segments.check_scope(wish.network_type, physical or ("?" if wish.network_type == "vlan" else ""))
    if physical and not (ledger.is_known(("vlan", physical)) or physical in snapshot.the_cluster.physical_networks):
        raise errors.InvalidError(
            f"physical network {physical} is not known",
            hint="add it to network_vlan_ranges in segments.ini, or create a segment range in it",
        )


def text(segment: network.Segment | None) -> str:
    """Return a segment as text for a dry run."""
    if segment is None:
        return "none"
    where = f" of physical network {segment.physical_network}" if segment.physical_network else ""
    return f"{segment.network_type} {segment.segmentation_id}{where}"


def changed(
    environment: base.Environment, snapshot: states.Snapshot, net: network.Network, op: opcodes.NetworkSetParams
) -> network.Segment | None:
    """Return a network's segment after a change: the present one if that matches the request."""
    own, wish = net.segment, ledgers.Request(op.network_type, op.physical_network)
    requested = op.network_type or op.physical_network or op.segment is not None
    if requested and op.segmented is False:
        raise errors.InvalidError(
            f"network {net.name} cannot have a segment and no segment", hint="request only one of both"
        )
    if not requested and op.segmented is None:
        return own
    fits = own and op.segment in (None, own.segmentation_id) and wish.fits((own.network_type, own.physical_network))
    if fits and op.segmented is not False:
        return own
    new = chosen(environment, snapshot, op, project=net.project)
    groups = [*_groups(snapshot, net)]
    if new != own and groups:
        raise errors.WrongStateError(
            f"network {net.name} is connected to node group {', '.join(groups)}",
            hint=f"gnt-network disconnect {net.name} {groups[0]}",
        )
    return new


def _groups(snapshot: states.Snapshot, net: network.Network) -> Iterator[str]:
    return (group.name for group in snapshot.nodegroups.values() if net.uuid in group.networks)
