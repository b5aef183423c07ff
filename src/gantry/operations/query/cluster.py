"""The cluster as a whole for queries: its version and its settings (contracts/luxi.md#queryclusterinfo)."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from gantry import __version__
from gantry.address import ranges
from gantry.model import allowed, cluster, cluster_settings, confidential, parameters, policy, templates
from gantry.state.files import checkpoint
from gantry.state.objects import snapshot as states

PROTOCOL_VERSION = 2_000_000
"""The protocol of Ganeti 2.0, as clients calculate the number: major * 1000000 + minor * 10000 + revision.

See contracts/luxi.md#queryclusterinfo.
"""

OS_API_VERSION = 20

_WITHOUT: Final[Mapping[str, object]] = {
    "vcs_version": "",
    "export_version": 0,
    "master_netmask": 32,
    "use_external_mip_script": False,
    "instance_communication_network": "",
    "drbd_usermode_helper": None,
    "shared_file_storage_dir": "",
    "gluster_storage_dir": "",
    "reserved_lvs": [],
    "install_image": "",
    "zeroing_image": "",
    "compression_tools": [],
    "maintain_node_health": False,
    "uid_pool": [],
    "enabled_user_shutdown": False,
    "enabled_data_collectors": {},
    "data_collector_interval": {},
    "modify_ssh_setup": False,
    "ssh_key_type": None,
    "ssh_key_bits": None,
}
"""Values that clients request and Gantry does not have, each with its neutral value."""


def info(state: states.Snapshot, *, file_storage_dir: str, is_part: bool = False) -> dict[str, object]:
    """Describe the cluster; values that Gantry does not have are neutral.

    A part of the state may lack the master, and does not say which policy of replication the number of nodes gives.
    """
    owner = state.the_cluster
    master = state.nodes.get(owner.master_node)
    return {
        **_WITHOUT,
        **{setting.reported_as or name: getattr(owner, name) for name, setting in cluster_settings.ALL.items()},
        "software_version": __version__,
        "os_api_version": OS_API_VERSION,
        "protocol_version": PROTOCOL_VERSION,
        "config_version": checkpoint.VERSION,
        "architecture": ["64bit", "x86_64"],
        "name": owner.name,
        "master": master.name if master else None,
        "uuid": owner.uuid,
        "ctime": owner.ctime,
        "mtime": owner.mtime,
        "tags": owner.tags,
        "default_hypervisor": owner.enabled_hypervisors[0],
        "enabled_hypervisors": owner.enabled_hypervisors,
        "hvparams": {
            name: parameters.fill(parameters.HYPERVISORS[name], owner.hvparams.get(name, {}))
            for name in owner.enabled_hypervisors
        },
        "beparams": {"default": parameters.fill(parameters.BACKEND, owner.beparams.get("default", {}))},
        "nicparams": {"default": parameters.fill(parameters.NIC, owner.nicparams.get("default", {}))},
        "ndparams": parameters.fill(parameters.NODE, owner.ndparams),
        "diskparams": {template: parameters.fill_disk(owner, None, template) for template in parameters.DISK},
        "osparams": {
            name: owner.osparams.get(name, {}) | confidential.blanked(owner.osparams_private_cluster.get(name, {}))
            for name in {**owner.osparams, **owner.osparams_private_cluster}
        },
        "own_parameters": {
            "hvparams": owner.hvparams,
            "beparams": owner.beparams,
            "nicparams": owner.nicparams,
            "ndparams": owner.ndparams,
            "diskparams": owner.diskparams,
        },
        "os_hvp": owner.os_hvp,
        "hidden_os": owner.hidden_os,
        "blacklisted_os": owner.blacklisted_os,
        "allowed": {name: allowed.entries(owner, name) for name in allowed.LISTS},
        "ipolicy": msgspec.to_builtins(_policy(owner)),
        "replication": (owner.replication or None) if is_part else state.replication_policy,
        "max_tracked_jobs": owner.max_running_jobs,
        "primary_ip_version": ranges.parse_address(master.primary_ip).family.value if master else 4,
        "file_storage_dir": file_storage_dir,
        "enabled_disk_templates": owner.enabled_disk_templates,
        # Clients expect None if no such template is enabled.
        "volume_group_name": owner.vg_name if {*templates.IN_VOLUME_GROUPS} & {*owner.enabled_disk_templates} else None,
        "ipam_driver": owner.ipam_driver,
        "ipam_database": confidential.database(owner.ipam_database),
        "tenant_network_types": owner.tenant_network_types,
        "physical_networks": owner.physical_networks,
        "segment_source": owner.segment_source,
        "bridge_mappings": owner.bridge_mappings,
        "tunnel_link": owner.tunnel_link,
    }


def _policy(owner: cluster.Cluster) -> cluster.Policy:
    """Return the cluster's policy; without a list of its own it allows the enabled disk templates."""
    filled = policy.filled(owner.ipolicy)
    return filled if owner.ipolicy.disk_templates else replace(filled, disk_templates=owner.enabled_disk_templates)


def values(state: states.Snapshot) -> dict[str, object]:
    """Return the values for QueryConfigValues, except for those of the queue."""
    owner = state.the_cluster
    master = state.nodes.get(owner.master_node)
    return {
        "cluster_name": owner.name,
        "master_node": master.name if master else None,
        "watcher_pause": owner.watcher_pause,
        "stray_guests": owner.stray_guests,
        "modify_ssh_setup": False,
    }
