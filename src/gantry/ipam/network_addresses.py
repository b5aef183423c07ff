"""The network addresses that changes of the state release, and those that they allocate; pure.

A network address is a network's UUID with an address in canonical text. ``quarantine`` and ``shared`` call this module.
"""

from collections.abc import Iterable

from gantry.model import instance, network
from gantry.state.objects import snapshot as states

NetworkAddress = tuple[str, str]


def before_and_after(
    state: states.Snapshot, changes: Iterable[states.Change]
) -> tuple[dict[NetworkAddress, states.Owner], dict[NetworkAddress, states.Owner]]:
    """Return the addresses of the changed instances and ports, with their owners: in ``state``, and after the changes.

    An address that its owner keeps is in both.
    """
    owners_before: dict[NetworkAddress, states.Owner] = {}
    owners_after: dict[NetworkAddress, states.Owner] = {}
    for change in changes:
        if change.kind in ("instances", "ports"):
            old = state.ports.get(change.key) if change.kind == "ports" else state.instances.get(change.key)
            new = change.value if isinstance(change, states.Put) else None
            owners_before |= of_owner(old) if old else {}
            owners_after |= of_owner(new) if isinstance(new, instance.Instance | network.Port) else {}
    return owners_before, owners_after


def of_owner(owner: states.Owner) -> dict[NetworkAddress, states.Owner]:
    """Return the network addresses of an instance or port, with that owner."""
    return {(nic.network, nic.ip): owner for nic in owner.allocations() if nic.network}
