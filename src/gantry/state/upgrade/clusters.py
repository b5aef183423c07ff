"""Cluster, node groups and nodes of an old configuration; pure."""

from collections.abc import Iterable, Mapping

import msgspec

from gantry.model import base, cluster, parameters
from gantry.state.upgrade import document, findings, levels

TEMPLATES = ("file", "diskless", "plain", "drbd")
"""The disk templates that are converted."""

_WITHOUT_VOLUMES = ("file", "diskless")
"""Those of them for a cluster without a volume group."""

DEFAULT_GROUP = "default"
"""The node group of a cluster that had none, and the class under which the cluster's own parameters are listed."""

POLICIES = ("preferred", "last_resort", "unallocable")


def identities(kind: str, objects: Mapping[str, document.Entity]) -> dict[str, str]:
    """Return the UUID of each object by everything that may refer to it: key, name, UUID."""
    uuids = {}
    for key, entity in objects.items():
        uuid = entity.uuid or findings.identifier(kind, entity.name or key)
        uuids.update({name: uuid for name in (key, entity.name, uuid) if name})
    return uuids


def header(old: document.Entity, uuid: str, *, name: str) -> dict[str, object]:
    """Return the fields that all objects have."""
    return {
        "uuid": uuid,
        "name": name,
        "serial_no": old.serial_no or 1,
        "ctime": old.ctime or 0.0,
        "mtime": old.mtime or old.ctime or 0.0,
        "tags": old.tags or (),
    }


def memory(old_values: document.Parameters | None) -> document.Parameters:
    """Return backend parameters with today's two bounds where 2.0 had one ``memory``."""
    both = dict(old_values or {})
    if "memory" in both:
        both = {"maxmem": both["memory"], "minmem": both.pop("memory")} | both
    return both


def owner(old: document.Cluster, nodes: Mapping[str, str], report: findings.Findings) -> cluster.Cluster:
    """Return the cluster. What it enables and does not exist here is left out; an instance that uses it is refused."""
    name = old.cluster_name
    if old.master_node not in nodes:
        report.refuse("the master is not one of the nodes", old.master_node)
    hypervisors = _known(old.enabled_hypervisors, parameters.HYPERVISORS, report, what="hypervisors")
    if not hypervisors:
        report.refuse("no hypervisor that exists here is enabled", f"cluster {name}")
    usual = TEMPLATES if old.volume_group_name else _WITHOUT_VOLUMES
    templates = _known(old.enabled_disk_templates or usual, TEMPLATES, report, what="disk templates")
    own = header(old, old.uuid or findings.identifier("cluster", name), name=name) | {
        "master_node": nodes.get(old.master_node, ""),
        "mac_prefix": old.mac_prefix or "aa:00:00",
        "master_netdev": old.master_netdev or "",
        "enabled_hypervisors": hypervisors,
        "enabled_disk_templates": templates or usual,
        **({"vg_name": old.volume_group_name} if old.volume_group_name else {}),
        "candidate_pool_size": old.candidate_pool_size or 10,
        "ndparams": levels.differing(old.ndparams, parameters.NODE, report, what="the cluster's nodes"),
        "diskparams": levels.disks(old.diskparams, report, what="the cluster"),
        "os_hvp": levels.systems(old.os_hvp, report),
        "hidden_os": old.hidden_os or (),
        "blacklisted_os": old.blacklisted_os or (),
        "ipolicy": levels.limits(old.ipolicy, report, what="the cluster"),
    }
    return msgspec.convert(own | _parameters(old, hypervisors, report), cluster.Cluster)


def _parameters(
    old: document.Cluster, hypervisors: Iterable[str], report: findings.Findings
) -> dict[str, dict[str, base.Parameters]]:
    """Return the parameters that the cluster sets: the old lineage stores all of them, here only what differs."""
    nics = dict((old.nicparams or {}).get(DEFAULT_GROUP) or {})
    if old.default_bridge:
        nics = {"mode": "bridged", "link": old.default_bridge} | nics
    backend = memory((old.beparams or {}).get(DEFAULT_GROUP))
    by_hypervisor = {name: (old.hvparams or {}).get(name) for name in hypervisors}
    classes = {
        "nicparams": {DEFAULT_GROUP: levels.differing(nics, parameters.NIC, report, what="the cluster's NICs")},
        "beparams": {
            DEFAULT_GROUP: levels.differing(backend, parameters.BACKEND, report, what="the cluster's instances")
        },
        "hvparams": {
            name: levels.differing(
                old_values, parameters.HYPERVISORS[name], report, what=f"the cluster's {name} instances"
            )
            for name, old_values in by_hypervisor.items()
        },
        **{
            field: {
                name: plain(old_values, report, what=f"OS {name}") for name, old_values in (by_system or {}).items()
            }
            for field, by_system in (
                ("osparams", old.osparams),
                ("osparams_private_cluster", old.osparams_private_cluster),
            )
        },
    }
    return {kind: {name: values for name, values in levels.items() if values} for kind, levels in classes.items()}


def plain(old_values: document.Parameters | None, report: findings.Findings, *, what: str) -> base.Parameters:
    """Return parameters of an operating system, which are anything that is a value."""
    values = {name: value for name, value in (old_values or {}).items() if isinstance(value, str | int | float | bool)}
    if len(values) < len(old_values or {}):
        report.note(f"{what}: left out, no values: {', '.join(sorted(set(old_values or ()) - set(values)))}")
    return values


def _known(
    enabled: Iterable[str] | None, known: Iterable[str], report: findings.Findings, *, what: str
) -> tuple[str, ...]:
    listed = tuple(enabled or ())
    strange = [name for name in listed if name not in known]
    if strange:
        report.note(f"{what} that cannot be upgraded are no longer enabled: {', '.join(strange)}")
    return tuple(name for name in listed if name in known)


def groups(
    old: Mapping[str, document.NodeGroup], networks: Mapping[str, str], report: findings.Findings
) -> list[cluster.NodeGroup]:
    """Return the node groups; one, called default, for a cluster that had none."""
    if not old:
        return [cluster.NodeGroup(uuid=findings.identifier("nodegroup", DEFAULT_GROUP), name=DEFAULT_GROUP)]
    uuids = identities("nodegroup", old)
    return [_group(group, uuids[key], networks, report, name=group.name or key) for key, group in old.items()]


def _group(
    old: document.NodeGroup, uuid: str, networks: Mapping[str, str], report: findings.Findings, *, name: str
) -> cluster.NodeGroup:
    plugs = {}
    for key, plug in (old.networks or {}).items():
        if plug.mode not in parameters.NIC["mode"].choices:
            report.refuse(
                f"networks are connected with mode {plug.mode}, which does not exist here", f"node group {name}"
            )
        elif key not in networks:
            report.refuse(f"there is no network {key}", f"node group {name}")
        else:
            vlan = (plug.vlan or "").removeprefix(".")
            plugs[networks[key]] = cluster.Connection(mode=plug.mode, link=plug.link, vlan=vlan)
    if old.alloc_policy not in (None, *POLICIES):
        report.refuse(f"there is no allocation policy {old.alloc_policy}", f"node group {name}")
    policy = old.alloc_policy if old.alloc_policy in POLICIES else POLICIES[0]
    own = header(old, uuid, name=name) | {
        "alloc_policy": policy,
        "networks": plugs,
        "ndparams": report.carried(old.ndparams, parameters.NODE, what=f"node group {name}"),
        "diskparams": levels.disks(old.diskparams, report, what=f"node group {name}"),
        "ipolicy": levels.limits(old.ipolicy, report, what=f"node group {name}"),
    }
    return msgspec.convert(own, cluster.NodeGroup)


def node(
    old: document.Node, uuid: str, groups: Mapping[str, str], report: findings.Findings, *, name: str
) -> cluster.Node:
    """Return a node; one without a group goes to the default group."""
    group = groups.get(old.group or DEFAULT_GROUP)
    if group is None:
        report.refuse(f"there is no node group {old.group}", f"node {name}")
    own = header(old, uuid, name=name) | {
        "primary_ip": report.address(old.primary_ip, what=f"node {name}"),
        "secondary_ip": report.address(old.secondary_ip, what=f"node {name}"),
        "group": group or "",
        "master_candidate": bool(old.master_candidate),
        "offline": bool(old.offline),
        "drained": bool(old.drained),
        "master_capable": old.master_capable is not False,
        "vm_capable": old.vm_capable is not False,
        "ndparams": report.carried(old.ndparams, parameters.NODE, what=f"node {name}"),
    }
    return msgspec.convert(own, cluster.Node)
