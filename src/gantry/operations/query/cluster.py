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
    the_cluster = state.the_cluster
    master = state.nodes.get(the_cluster.master_node)
    return {
        **_WITHOUT,
        **{setting.reported_as or name: getattr(the_cluster, name) for name, setting in cluster_settings.ALL.items()},
        "software_version": __version__,
        "os_api_version": OS_API_VERSION,
        "protocol_version": PROTOCOL_VERSION,
        "config_version": checkpoint.VERSION,
        "architecture": ["64bit", "x86_64"],
        "name": the_cluster.name,
        "master": master.name if master else None,
        "uuid": the_cluster.uuid,
        "ctime": the_cluster.ctime,
        "mtime": the_cluster.mtime,
        "tags": the_cluster.tags,
        "default_hypervisor": the_cluster.enabled_hypervisors[0],
        "enabled_hypervisors": the_cluster.enabled_hypervisors,
        "hvparams": {
            name: parameters.fill(parameters.HYPERVISORS[name], the_cluster.hvparams.get(name, {}))
            for name in the_cluster.enabled_hypervisors
        },
        "beparams": {"default": parameters.fill(parameters.BACKEND, the_cluster.beparams.get("default", {}))},
        "nicparams": {"default": parameters.fill(parameters.NIC, the_cluster.nicparams.get("default", {}))},
        "ndparams": parameters.fill(parameters.NODE, the_cluster.ndparams),
        "diskparams": {template: parameters.fill_disk(the_cluster, None, template) for template in parameters.DISK},
        "osparams": {
            name: the_cluster.osparams.get(name, {})
            | confidential.blanked(the_cluster.osparams_private_cluster.get(name, {}))
            for name in {**the_cluster.osparams, **the_cluster.osparams_private_cluster}
        },
        "own_parameters": {
            "hvparams": the_cluster.hvparams,
            "beparams": the_cluster.beparams,
            "nicparams": the_cluster.nicparams,
            "ndparams": the_cluster.ndparams,
            "diskparams": the_cluster.diskparams,
        },
        "os_hvp": the_cluster.os_hvp,
        "hidden_os": the_cluster.hidden_os,
        "blacklisted_os": the_cluster.blacklisted_os,
        "allowed": {name: allowed.entries(the_cluster, name) for name in allowed.LISTS},
        "ipolicy": msgspec.to_builtins(_policy(the_cluster)),
        "replication": (the_cluster.replication or None) if is_part else state.replication_policy,
        "max_tracked_jobs": the_cluster.max_running_jobs,
        "primary_ip_version": ranges.parse_address(master.primary_ip).family.value if master else 4,
        "file_storage_dir": file_storage_dir,
        "enabled_disk_templates": the_cluster.enabled_disk_templates,
        # Clients expect None if no such template is enabled.
        "volume_group_name": the_cluster.vg_name
        if {*templates.IN_VOLUME_GROUPS} & {*the_cluster.enabled_disk_templates}
        else None,
        "ipam_driver": the_cluster.ipam_driver,
        "ipam_database": confidential.database(the_cluster.ipam_database),
        "tenant_network_types": the_cluster.tenant_network_types,
        "physical_networks": the_cluster.physical_networks,
        "segment_source": the_cluster.segment_source,
        "bridge_mappings": the_cluster.bridge_mappings,
        "tunnel_link": the_cluster.tunnel_link,
    }


def _policy(the_cluster: cluster.Cluster) -> cluster.Policy:
    """Return the cluster's policy; without a list of its own it allows the enabled disk templates."""
    filled = policy.filled(the_cluster.ipolicy)
    return (
        filled
        if the_cluster.ipolicy.disk_templates
        else replace(filled, disk_templates=the_cluster.enabled_disk_templates)
    )


def values(state: states.Snapshot) -> dict[str, object]:
    """Return the values for QueryConfigValues, except for those of the queue."""
    the_cluster = state.the_cluster
    master = state.nodes.get(the_cluster.master_node)
    return {
        "cluster_name": the_cluster.name,
        "master_node": master.name if master else None,
        "watcher_pause": the_cluster.watcher_pause,
        "stray_guests": the_cluster.stray_guests,
        "modify_ssh_setup": False,
    }
