"""The upgrade of a whole configuration: from the bytes of an old ``config.data`` to today's objects; pure.

``files`` calls it. All or nothing: one error lists everything that cannot be converted. The same bytes give the same
objects, including generated UUIDs, so that an import can be tried and repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.lib_files import frame
from gantry.model import instance
from gantry.state.objects import snapshot
from gantry.state.upgrade import clusters, document, findings, instances, networks

LINEAGE = range(2_000_000, 4_000_000)
"""The supported versions of Ganeti's configuration: 2.0 to 3.x."""


@dataclass(frozen=True)
class Upgraded:
    """The result of an upgrade; ``notes`` describe what was changed or left out."""

    version: int
    serial: int
    objects: tuple[snapshot.Stored, ...]
    notes: tuple[str, ...]


class _Version(msgspec.Struct, frozen=True):
    version: int = 0


def version(data: bytes) -> int:
    """Return the version of a ``config.data`` of the old lineage; 0 for anything else."""
    try:
        format_version = msgspec.json.decode(data, type=_Version).version
    except frame.UNREADABLE:
        return 0
    return format_version if format_version in LINEAGE else 0


def upgrade(data: bytes, *, path: str, storage: str) -> Upgraded:
    """Return the objects of an old configuration; ``storage`` is the folder for files of disks.

    Raises ConfigurationError that lists everything that cannot be converted.
    """
    report = findings.Findings()
    try:
        old = msgspec.json.decode(data, type=document.Document)
        objects = _objects(old, report, storage=storage)
    except frame.UNREADABLE as error:
        raise refused(data, path=path, why=str(error)) from None
    reasons = report.refusals()
    if reasons:
        raise refused(data, path=path, why="; ".join(reasons))
    return Upgraded(old.version, old.serial_no, objects, (*_left_out(data), *report.notes))


def refused(data: bytes, *, path: str, why: str) -> errors.ConfigurationError:
    """Return the error for an old configuration that cannot be upgraded."""
    return errors.ConfigurationError(
        f"{path} has the format version {version(data)} and cannot be upgraded: {why}",
        hint="nothing was changed; fix this with the software that wrote the file, then try again",
    )


def _objects(old: document.Document, report: findings.Findings, *, storage: str) -> tuple[snapshot.Stored, ...]:
    old_networks, nodes = old.networks or {}, clusters.identities("node", old.nodes)
    network_names = clusters.identities("network", old_networks)
    groups = clusters.groups(old.nodegroups or {}, network_names, report)
    group_names = {name: group.uuid for group in groups for name in (group.name, group.uuid)}
    machines = [
        clusters.node(old_node, nodes[key], group_names, report, name=old_node.name or key)
        for key, old_node in old.nodes.items()
    ]
    by_uuid = {group.uuid: group for group in groups}
    around = instances.Surroundings(
        nodes=nodes,
        networks=network_names,
        groups={node.uuid: by_uuid[node.group] for node in machines if node.group},
        disks=old.disks or {},
        old_storage=(old.cluster.file_storage_dir or instances.STORAGE).rstrip("/"),
        storage=storage,
    )
    vms = _instances(old.instances or {}, around, report)
    listed = {disk for vm in (old.instances or {}).values() for disk in vm.disks or () if isinstance(disk, str)}
    if loose := sorted({*(old.disks or {})} - listed):
        report.note(f"left out, disks that no instance has: {', '.join(loose)}")
    used = _used(vms)
    nets = [
        networks.network_of(
            old_network, network_names[key], used.get(network_names[key], ()), report, name=old_network.name or key
        )
        for key, old_network in old_networks.items()
    ]
    owner = clusters.owner(old.cluster, nodes, report)
    return owner, *groups, *machines, *nets, *vms


def _instances(
    old: Mapping[str, document.Instance], around: instances.Surroundings, report: findings.Findings
) -> list[instance.Instance]:
    uuids = clusters.identities("instance", old)
    return [
        instances.Conversion(old_instance, uuids[key], old_instance.name or key, around, report).result()
        for key, old_instance in old.items()
    ]


def _used(vms: list[instance.Instance]) -> dict[str, list[str]]:
    used: dict[str, list[str]] = {}
    for vm in vms:
        for nic in vm.nics:
            used.setdefault(nic.network, []).extend(nic.ip)
    return used


def _left_out(data: bytes) -> list[str]:
    raw = msgspec.json.decode(data, type=dict[str, object])
    return ["left out, not supported: filters"] if raw.get("filters") else []
