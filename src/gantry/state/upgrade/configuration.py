"""The upgrade of a whole configuration: from the bytes of an old ``config.data`` to today's objects; pure.

``adoption`` calls it and does what has to be done with files. All or nothing: whatever cannot be carried over is
looked for first, and one error lists it. The same bytes give the same objects, UUIDs that there were none of included,
so that an upgrade that a crash interrupted can simply be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.model import instance
from gantry.state import frame, snapshot
from gantry.state.upgrade import clusters, document, findings, instances, networks

LINEAGE = range(2_000_000, 4_000_000)
"""The versions of Ganeti's configuration that are understood: 2.0 to 3.x."""


@dataclass(frozen=True)
class Upgraded:
    """What an old configuration becomes; ``notes`` is what was changed or left out on the way."""

    version: int
    serial: int
    objects: tuple[snapshot.Stored, ...]
    notes: tuple[str, ...]


class _Version(msgspec.Struct, frozen=True):
    version: int = 0


def version(data: bytes) -> int:
    """Return the version of a ``config.data`` of the old lineage; 0 for anything else."""
    try:
        found = msgspec.json.decode(data, type=_Version).version
    except frame.UNREADABLE:
        return 0
    return found if found in LINEAGE else 0


def upgrade(data: bytes, *, path: str, storage: str) -> Upgraded:
    """Return the objects of an old configuration; ``storage`` is where files of disks are to be.

    Raises ConfigurationError that lists what cannot be carried over.
    """
    found = findings.Findings()
    try:
        old = msgspec.json.decode(data, type=document.Document)
        objects = _objects(old, found, storage=storage)
    except frame.UNREADABLE as error:
        raise refused(data, path=path, why=str(error)) from None
    reasons = found.refusals()
    if reasons:
        raise refused(data, path=path, why="; ".join(reasons))
    return Upgraded(old.version, old.serial_no, objects, (*_left_out(data), *found.notes))


def refused(data: bytes, *, path: str, why: str) -> errors.ConfigurationError:
    """Return the error for an old configuration that cannot become ours."""
    return errors.ConfigurationError(
        f"{path} has the format version {version(data)} and cannot be upgraded: {why}",
        hint="nothing was changed; mend this with the software that wrote the file, then try again",
    )


def _objects(old: document.Document, found: findings.Findings, *, storage: str) -> tuple[snapshot.Stored, ...]:
    cables, nodes = old.networks or {}, clusters.identities("node", old.nodes)
    network_names = clusters.identities("network", cables)
    groups = clusters.groups(old.nodegroups or {}, network_names, found)
    group_names = {name: group.uuid for group in groups for name in (group.name, group.uuid)}
    machines = [
        clusters.node(one, nodes[key], group_names, found, name=one.name or key) for key, one in old.nodes.items()
    ]
    by_uuid = {group.uuid: group for group in groups}
    around = instances.Surroundings(
        nodes=nodes,
        networks=network_names,
        groups={one.uuid: by_uuid[one.group] for one in machines if one.group},
        disks=old.disks or {},
        old_storage=(old.cluster.file_storage_dir or instances.STORAGE).rstrip("/"),
        storage=storage,
    )
    vms = _instances(old.instances or {}, around, found)
    listed = {one for vm in (old.instances or {}).values() for one in vm.disks or () if isinstance(one, str)}
    if loose := sorted({*(old.disks or {})} - listed):
        found.note(f"left out, disks that no instance has: {', '.join(loose)}")
    used = _used(vms)
    nets = [
        networks.network_of(one, network_names[key], used.get(network_names[key], ()), found, name=one.name or key)
        for key, one in cables.items()
    ]
    owner = clusters.owner(old.cluster, nodes, found)
    return owner, *groups, *machines, *nets, *vms


def _instances(
    old: Mapping[str, document.Instance], around: instances.Surroundings, found: findings.Findings
) -> list[instance.Instance]:
    uuids = clusters.identities("instance", old)
    return [instances.Conversion(one, uuids[key], one.name or key, around, found).result() for key, one in old.items()]


def _used(vms: list[instance.Instance]) -> dict[str, list[str]]:
    used: dict[str, list[str]] = {}
    for vm in vms:
        for nic in vm.nics:
            used.setdefault(nic.network, []).extend(nic.ip)
    return used


def _left_out(data: bytes) -> list[str]:
    raw = msgspec.json.decode(data, type=dict[str, object])
    return ["left out, nothing here is like it: filters"] if raw.get("filters") else []
