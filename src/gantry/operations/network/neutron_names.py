"""Names of networks that clients choose freely: a valid unique name becomes the name, any other the label.

Networks have unique names in a form that commands accept. A client without such a rule (Neutron) sets a label, finding
the network by that label, whatever its name is. Called by the units of networks. Pure.
"""

import msgspec

from gantry.model import network, opcodes
from gantry.state.objects import snapshot as states


def display_name(entity: network.Network | network.Subnet) -> str:
    """Return the name of a network or subnet for clients that know labels."""
    return entity.name if entity.label is None else entity.label


def name_and_label(snapshot: states.Snapshot, label: str, *, uuid: str, current: str = "") -> tuple[str, str | None]:
    """Return the name that results from a label, and the remaining label, None if the label is the name.

    If the label cannot be the name, the name is ``current``, or made of as many parts of the UUID as it needs.
    """
    if _can_name(snapshot, label) and snapshot.names.get(("networks", label), uuid) == uuid:
        return label, None
    if current:
        return current, label
    parts = uuid.split("-")
    candidates = (f"net-{'-'.join(parts[:size])}" for size in range(1, len(parts) + 1))
    return next((name for name in candidates if ("networks", name) not in snapshot.names), uuid), label


def _can_name(snapshot: states.Snapshot, label: str) -> bool:
    try:
        msgspec.convert(label, opcodes.Name)
    except msgspec.ValidationError:
        return False
    return label != "none" and label not in snapshot.networks
