"""Names that clients choose freely, of networks: what can be the name becomes it, the rest is a label.

Networks have unique names of a form that commands can be written with. A client that knows no such rule gives a label;
it finds the network by that, whatever the name is. Called by the units of networks. Pure.
"""

import msgspec

from gantry.model import network, opcodes
from gantry.state import snapshot as states


def shown(one: network.Network | network.Subnet) -> str:
    """Return what clients call a network or subnet that know labels."""
    return one.name if one.label is None else one.label


def named(snapshot: states.Snapshot, label: str, *, uuid: str, current: str = "") -> tuple[str, str | None]:
    """Return the name that a label gives a network, and what is left as its label.

    Where the label cannot be the name that is the ``current`` one, or one made of as much of the UUID as it takes.
    """
    if _can_name(snapshot, label) and snapshot.names.get(("networks", label), uuid) == uuid:
        return label, None
    if current:
        return current, label
    parts = uuid.split("-")
    made = (f"net-{'-'.join(parts[:size])}" for size in range(1, len(parts) + 1))
    return next((name for name in made if ("networks", name) not in snapshot.names), uuid), label


def _can_name(snapshot: states.Snapshot, label: str) -> bool:
    try:
        msgspec.convert(label, opcodes.Name)
    except msgspec.ValidationError:
        return False
    return label != "none" and label not in snapshot.networks
