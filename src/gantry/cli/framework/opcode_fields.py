"""The fields of all opcodes, for the options of commands: kind, help text, default, bounds, choices.

``PARAMETERS`` has what options of parameters accept first; ``SETTINGS`` the settings of the cluster.

Made by tools/opcode_fields.py from ``model/opcodes`` and ``model/cluster_settings``; ``make golden`` rewrites it.
"""

from typing import NamedTuple


class Field(NamedTuple):
    """A field of an opcode; ``kind`` is flag, number, text, choice, texts or structure."""

    kind: str
    help: str
    default: object = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


class Setting(NamedTuple):
    """A setting of the cluster: the names of its option, what the option says, and the line of ``gnt-cluster info``.

    ``kind`` is switch, number, seconds, percentages, parameters or text; ``reported_as`` is the key in the answer of
    QueryClusterInfo. A setting without names is set by another option, one without a label is in no line.
    """

    names: tuple[str, ...]
    metavar: str
    kind: str
    help: str
    label: str
    reported_as: str


Row = tuple[str, str, object, int | None, int | None, tuple[str, ...]]


def field(opcode: str, name: str) -> Field:
    """Return a field by the opcode's name on the wire (``OP_INSTANCE_CREATE``) and its own."""
    return Field(*FIELDS[opcode][name])


# ruff: noqa: E501
# fmt: off
PARAMETERS: dict[str, tuple[str, ...]] = {'backend-parameter': ('always_failover=', 'auto_balance=', 'maxmem=', 'memory=', 'minmem=', 'spindle_use=', 'vcpus='), 'nic-parameter': ('link=', 'mode=', 'vlan='), 'node-parameter': ('cpu_speed=', 'exclusive_storage=', 'oob_program=', 'ovs=', 'ovs_link=', 'ovs_name=', 'spindle_count=', 'ssh_port='), 'hypervisor-parameter': ('accel=', 'acpi=', 'blockdev_prefix=', 'boot_order=', 'bootloader_args=', 'bootloader_path=', 'cdrom2_image_path=', 'cdrom_disk_type=', 'cdrom_image_path=', 'cpu_cap=', 'cpu_cores=', 'cpu_mask=', 'cpu_sockets=', 'cpu_threads=', 'cpu_type=', 'cpu_weight=', 'cpuid=', 'device_model=', 'disk_aio=', 'disk_cache=', 'disk_discard=', 'disk_type=', 'firmware=', 'firmware_path=', 'floppy_image_path=', 'init_script=', 'initrd_path=', 'kernel_args=', 'kernel_path=', 'keymap=', 'kvm_extra=', 'kvm_path=', 'kvm_pci_reservations=', 'machine_version=', 'mem_path=', 'migration_bandwidth=', 'migration_caps=', 'migration_downtime=', 'migration_mode=', 'migration_port=', 'nic_type=', 'pae=', 'pci_pass=', 'reboot_behavior=', 'root_path=', 'scsi_controller_type=', 'security_domain=', 'security_model=', 'serial_console=', 'serial_speed=', 'soundhw=', 'spice_bind=', 'spice_image_compression=', 'spice_ip_version=', 'spice_jpeg_wan_compression=', 'spice_password_file=', 'spice_playback_compression=', 'spice_streaming_video=', 'spice_tls_ciphers=', 'spice_use_tls=', 'spice_use_vdagent=', 'spice_zlib_glz_wan_compression=', 'usb_devices=', 'usb_mouse=', 'use_bootloader=', 'use_chroot=', 'use_guest_agent=', 'use_localtime=', 'user_shutdown=', 'vga=', 'vhost_net=', 'vif_script=', 'vif_type=', 'viridian=', 'virtio_net_queues=', 'vnc_bind_address=', 'vnc_password_file=', 'vnc_tls=', 'vnc_x509_path=', 'vnc_x509_verify=', 'vnet_hdr='), 'by-hypervisor-parameter': ('chroot:', 'fake:', 'kvm:', 'xen-hvm:', 'xen-pvm:')}
SETTINGS: dict[str, Setting] = {
    'mac_prefix': Setting(('-m', '--mac-prefix'), 'PREFIX', 'text', 'Set the first half of generated MAC addresses, as in aa:00:00', 'mac prefix', 'mac_prefix'),
    'candidate_pool_size': Setting(('-C', '--candidate-pool-size'), 'COUNT', 'number', 'Set how many nodes keep a copy of the state, the master included', 'candidate pool size', 'candidate_pool_size'),
    'replication': Setting(('--replication',), 'POLICY', 'text', 'Acknowledge a change when a majority of master candidates, all, or as many as answer (seed) have it', 'replication of changes', 'replication'),
    'journal_retention': Setting(('--journal-retention',), 'AGE,SIZE', 'text', 'Keep the journal, and with it the history, up to this age and size, as in 30d,4G, or forever', 'retention of the journal', 'journal_retention'),
    'archive_retention': Setting(('--archive-retention',), 'AGE,SIZE', 'text', 'Keep archived jobs up to this age and size, as in 30d,2G, or forever', 'retention of archived jobs', 'archive_retention'),
    'stray_guests': Setting(('--stray-guests',), 'RULE', 'text', 'Set what the watcher does with guests that the state does not have: report, stop, adopt', 'stray guests', 'stray_guests'),
    'reading': Setting(('--reading',), 'RULE', 'text', 'Let users read all objects, or those that access rules let them see: all, rules', 'reading', 'reading'),
    'max_running_jobs': Setting(('--max-running-jobs',), 'COUNT', 'number', 'Limit how many jobs run at the same time', 'maximal number of jobs running simultaneously', 'max_running_jobs'),
    'ipam_hold_time': Setting(('--ipam-hold-time',), 'TIME', 'seconds', 'Quarantine released addresses for this time, as in 3600 or 1h; 0 by default', 'hold time of addresses', 'ipam_hold_time'),
    'network_thresholds': Setting(('--network-thresholds',), 'WARNING,CRITICAL', 'percentages', "Let verify warn, and fail, when this percentage of a network's pools is in use; 80,95 by default", 'network thresholds', 'network_thresholds'),
    'default_iallocator': Setting(('-I', '--default-iallocator'), 'NAME', 'text', 'Set the program that places instances, such as hail; empty for the built-in allocator', 'default instance allocator', 'default_iallocator'),
    'default_iallocator_params': Setting(('--default-iallocator-params',), 'PARAMS', 'parameters', 'Set the options of the default allocator program, as in algorithm=tight', '', 'default_iallocator_params'),
    'default_disk_size': Setting((), '', 'number', 'Size of a disk without a size, in MiB or with a unit; 0 for no default', 'default disk size', 'default_disk_size'),
    'vg_name': Setting(('--vg-name',), 'GROUP', 'text', 'Set the volume group of disks that name none; xenvg by default', 'lvm volume group', 'volume_group_name'),
    'prealloc_wipe_disks': Setting(('--prealloc-wipe-disks',), 'YES|NO', 'switch', 'Overwrite new disks with zeros before use: yes or no', 'preallocation wipe disks', 'prealloc_wipe_disks'),
    'segment_ranges': Setting(('--segment-ranges',), 'YES|NO', 'switch', 'Allow segment ranges besides the default ranges of segments.ini or gantry segment: yes or no', 'segment ranges of projects', 'segment_ranges'),
    'segment_fallback': Setting(('--segment-fallback',), 'YES|NO', 'switch', 'Let a project without free ids in its own segment ranges use the shared ranges: yes or no', 'shared segment ranges after those of a project', 'segment_fallback'),
    'master_netdev': Setting(('--master-netdev',), 'DEVICE', 'text', "Set the network device of the master's own address", 'master netdev', 'master_netdev'),
}
FIELDS: dict[str, dict[str, Row]] = {
    'OP_ACCESS_ADD': {
        'who': ('text', 'user:NAME or group:NAME', None, None, None, ()),
        'role': ('choice', 'Role: viewer, operator, admin or network-admin', None, None, None, ('admin', 'network-admin', 'operator', 'viewer')),
        'on': ('text', 'cluster, or group:NAME of a node group, tag:TAG, project:ID, instance:NAME or network:NAME', None, None, None, ()),
    },
    'OP_ACCESS_REMOVE': {
        'who': ('text', 'user:NAME or group:NAME', None, None, None, ()),
        'role': ('choice', 'Role: viewer, operator, admin or network-admin', None, None, None, ('admin', 'network-admin', 'operator', 'viewer')),
        'on': ('text', 'cluster, or group:NAME of a node group, tag:TAG, project:ID, instance:NAME or network:NAME', None, None, None, ()),
    },
    'OP_CLUSTER_DESTROY': {
    },
    'OP_CLUSTER_POST_INIT': {
    },
    'OP_CLUSTER_REDIST_CONF': {
    },
    'OP_CLUSTER_RENEW_CRYPTO': {
        'node_certificates': ('flag', 'Give all nodes new keys and certificates', False, None, None, ()),
        'nodes': ('texts', 'Give only these nodes new keys and certificates', None, None, None, ()),
        'keep_keys': ('flag', 'Keep the keys of the nodes, and issue only new certificates', False, None, None, ()),
        'cluster_certificate': ('flag', 'Replace the authority, and issue all certificates again', False, None, None, ()),
        'rapi_certificate': ('flag', 'Issue a certificate of its own for the remote API', False, None, None, ()),
    },
    'OP_CLUSTER_SET_PARAMS': {
        'enabled_hypervisors': ('texts', 'Enabled hypervisors, the default one first; those in use cannot be disabled', None, None, None, ()),
        'default_hypervisor': ('text', 'Hypervisor of new instances', None, None, None, ()),
        'enabled_disk_templates': ('texts', 'Enabled disk templates, the default one first; those in use cannot be disabled', None, None, None, ()),
        'default_disk_size': ('structure', 'Size of a disk without a size, in MiB or with a unit; 0 for no default', None, None, None, ()),
        'vg_name': ('text', 'Set the volume group of disks that name none; xenvg by default', None, None, None, ()),
        'default_iallocator': ('text', 'Set the program that places instances, such as hail; empty for the built-in allocator', None, None, None, ()),
        'default_iallocator_params': ('structure', 'Set the options of the default allocator program, as in algorithm=tight', None, None, None, ()),
        'prealloc_wipe_disks': ('structure', 'Overwrite new disks with zeros before use: yes or no', None, None, None, ()),
        'candidate_pool_size': ('structure', 'Set how many nodes keep a copy of the state, the master included', None, None, None, ()),
        'replication': ('text', 'Acknowledge a change when a majority of master candidates, all, or as many as answer (seed) have it', None, None, None, ()),
        'journal_retention': ('text', 'Keep the journal, and with it the history, up to this age and size, as in 30d,4G, or forever', None, None, None, ()),
        'archive_retention': ('text', 'Keep archived jobs up to this age and size, as in 30d,2G, or forever', None, None, None, ()),
        'stray_guests': ('text', 'Set what the watcher does with guests that the state does not have: report, stop, adopt', None, None, None, ()),
        'reading': ('text', 'Let users read all objects, or those that access rules let them see: all, rules', None, None, None, ()),
        'max_running_jobs': ('structure', 'Limit how many jobs run at the same time', None, None, None, ()),
        'mac_prefix': ('text', 'Set the first half of generated MAC addresses, as in aa:00:00', None, None, None, ()),
        'master_netdev': ('text', "Set the network device of the master's own address", None, None, None, ()),
        'ipam_hold_time': ('structure', 'Quarantine time of released addresses, in seconds; 0 for none', None, None, None, ()),
        'network_thresholds': ('structure', "Let verify warn, and fail, when this percentage of a network's pools is in use; 80,95 by default", None, None, None, ()),
        'segment_ranges': ('structure', 'Allow segment ranges besides the default ranges of segments.ini or gantry segment: yes or no', None, None, None, ()),
        'segment_fallback': ('structure', 'Let a project without free ids in its own segment ranges use the shared ranges: yes or no', None, None, None, ()),
        'ipam_driver': ('choice', "Set what decides allocations: embedded, the cluster's state; sql, a database shared with others", None, None, None, ('embedded', 'sql')),
        'ipam_database': ('text', 'URL of the IPAM database; its password is never shown', None, None, None, ()),
        'hvparams': ('structure', 'Defaults of hypervisor parameters, by hypervisor', None, None, None, ()),
        'beparams': ('structure', 'Defaults of backend parameters', None, None, None, ()),
        'nicparams': ('structure', 'Defaults of NICs without a network', None, None, None, ()),
        'ndparams': ('structure', 'Defaults of node parameters', None, None, None, ()),
        'diskparams': ('structure', 'Disk parameters by disk template, as in {"plain": {"stripes": 2}}', None, None, None, ()),
        'osparams': ('structure', 'Default OS parameters, by operating system', None, None, None, ()),
        'osparams_private_cluster': ('structure', 'OS parameters that are stored but never shown, by operating system', None, None, None, ()),
        'os_hvp': ('structure', 'Hypervisor parameters, by operating system and hypervisor', None, None, None, ()),
        'hidden_os': ('structure', 'Operating systems or variants that lists omit: [["add", "busybox"], ["remove", ...]]', None, None, None, ()),
        'blacklisted_os': ('structure', 'Operating systems or variants that cannot be installed, in the same form', None, None, None, ()),
        'allowed': ('structure', 'Entries of allow-lists, which only root on the master may change: [["add", "images", "/srv/cd"], ...]', None, None, None, ()),
        'ipolicy': ('structure', 'Instance policy: bounds for the size of instances', None, None, None, ()),
        'force': ('flag', 'Continue although nodes do not answer or lack a bridge', False, None, None, ()),
    },
    'OP_CLUSTER_VERIFY': {
        'error_codes': ('flag', 'Log errors in a form for programs, ERROR:code:kind:name: text', False, None, None, ()),
        'verbose': ('flag', 'Accepted for older clients; has no effect', False, None, None, ()),
    },
    'OP_NODE_ADD': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'primary_ip': ('text', 'Address of the node daemon', '', None, None, ()),
        'port': ('number', 'Set the port of the node daemon', 1811, 1, 65535, ()),
        'join_token': ('text', "Content of the node's join-token file", '', None, None, ()),
        'invitation': ('text', 'Id of the invitation that the machine shows', '', None, None, ()),
        'group': ('text', 'Node group; by default the group named default', '', None, None, ()),
        'master_capable': ('flag', 'Allow the node to be a master candidate', True, None, None, ()),
        'vm_capable': ('flag', 'Allow the node to run instances', True, None, None, ()),
        'ndparams': ('structure', "Node parameters that differ from the node group's and the cluster's", None, None, None, ()),
        'conflicts_check': ('flag', "Refuse an address that a guest has, and reserve the node's address in networks", True, None, None, ()),
        'readd': ('flag', 'Whether the node is one of the cluster, whose machine has lost its files or was replaced', False, None, None, ()),
    },
    'OP_NODE_INVITE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'secret_hash': ('text', 'SHA-256 of the secret that the machine will show, in hex', None, None, None, ()),
        'primary_ip': ('text', 'Address of the node daemon', '', None, None, ()),
        'port': ('number', 'Set the port of the node daemon', 1811, 1, 65535, ()),
        'group': ('text', 'Node group; by default the group named default', '', None, None, ()),
        'master_capable': ('flag', 'Allow the node to be a master candidate', True, None, None, ()),
        'vm_capable': ('flag', 'Allow the node to run instances', True, None, None, ()),
        'ndparams': ('structure', "Node parameters that differ from the node group's and the cluster's", None, None, None, ()),
        'readd': ('flag', 'Whether the node is one of the cluster, whose machine has lost its files or was replaced', False, None, None, ()),
    },
    'OP_NODE_QUERY_INVITATIONS': {
    },
    'OP_NODE_REMOVE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
    },
    'OP_NODE_REVOKE_INVITATION': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
    },
    'OP_NODE_SET_PARAMS': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'master_candidate': ('flag', 'Make the node a master candidate: it keeps a copy of the state and can become the master', None, None, None, ()),
        'offline': ('flag', 'Mark the node offline: it is not called, and is neither a candidate nor a primary node', None, None, None, ()),
        'drained': ('flag', 'Mark the node drained: it gets no new instances', None, None, None, ()),
        'auto_promote': ('flag', 'Accepted for older clients; a missing candidate is always replaced', False, None, None, ()),
        'master_capable': ('flag', 'Allow the node to be a master candidate', None, None, None, ()),
        'vm_capable': ('flag', 'Allow the node to run instances', None, None, None, ()),
        'ndparams': ('structure', "Node parameters that differ from the node group's and the cluster's", None, None, None, ()),
        'force': ('flag', 'Remove a candidate from the pool although no node can replace it', False, None, None, ()),
    },
    'OP_GROUP_ADD': {
        'group_name': ('text', 'Name of the node group', None, None, None, ()),
        'alloc_policy': ('structure', 'Set whether the allocator uses the group: always, only if no other group has capacity, or never', None, None, None, ()),
        'ndparams': ('structure', "Node parameters that differ from the node group's and the cluster's", None, None, None, ()),
        'diskparams': ('structure', 'Disk parameters by disk template, as in {"plain": {"stripes": 2}}', None, None, None, ()),
        'ipolicy': ('structure', 'Instance policy: bounds for the size of instances', None, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
    },
    'OP_GROUP_SET_PARAMS': {
        'group_name': ('text', 'Node group', None, None, None, ()),
        'alloc_policy': ('structure', 'Set whether the allocator uses the group: always, only if no other group has capacity, or never', None, None, None, ()),
        'ndparams': ('structure', "Node parameters that differ from the node group's and the cluster's", None, None, None, ()),
        'diskparams': ('structure', 'Disk parameters by disk template, as in {"plain": {"stripes": 2}}', None, None, None, ()),
        'ipolicy': ('structure', 'Instance policy: bounds for the size of instances', None, None, None, ()),
    },
    'OP_GROUP_RENAME': {
        'group_name': ('text', 'Node group', None, None, None, ()),
        'new_name': ('text', 'New name', None, None, None, ()),
    },
    'OP_GROUP_REMOVE': {
        'group_name': ('text', 'Node group', None, None, None, ()),
    },
    'OP_GROUP_ASSIGN_NODES': {
        'group_name': ('text', 'Node group that the nodes join', None, None, None, ()),
        'nodes': ('texts', 'Nodes', None, None, None, ()),
        'force': ('flag', 'Continue although an instance loses a network or has disks in two node groups', False, None, None, ()),
    },
    'OP_GROUP_EVACUATE': {
        'group_name': ('text', 'Node group', None, None, None, ()),
        'target_groups': ('texts', 'Set the node groups that instances may move to; empty for any', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'early_release': ('flag', 'Release the old copy of a disk before the new copy is complete', False, None, None, ()),
        'sequential': ('flag', 'Run one job after the other', False, None, None, ()),
        'force_failover': ('flag', 'Fail over instead of migrating', False, None, None, ()),
    },
    'OP_NETWORK_ADD': {
        'network_name': ('text', 'Name of the network', '', None, None, ()),
        'subnets': ('structure', 'Subnets', None, None, None, ()),
        'pools': ('structure', 'Pools, each in the subnet that contains its range', None, None, None, ()),
        'network': ('text', 'Add an IPv4 subnet with this CIDR, and one pool of all its addresses', None, None, None, ()),
        'gateway': ('text', 'Gateway of the IPv4 subnet', None, None, None, ()),
        'network6': ('text', 'Add an IPv6 subnet with this CIDR, and one pool of all its addresses', None, None, None, ()),
        'gateway6': ('text', 'Gateway of the IPv6 subnet', None, None, None, ()),
        'mac_prefix': ('text', "First half of the MAC addresses of NICs, instead of the cluster's", None, None, None, ()),
        'add_reserved_ips': ('texts', 'Addresses and ranges to reserve externally', None, None, None, ()),
        'conflicts_check': ('flag', 'Refuse addresses that instances outside of the network have, and reserve those of nodes', True, None, None, ()),
        'force': ('flag', 'Allow ranges of more than 65,536 addresses', False, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'uuid': ('text', 'UUID; generated by default', None, None, None, ()),
        'label': ('text', 'Name that a client chose; becomes the name if it is valid and unique', None, None, None, ()),
        'shared': ('flag', 'Share the object with every project', False, None, None, ()),
        'description': ('text', 'Set the description', '', None, None, ()),
        'admin_state_up': ('flag', 'Administrative state, reported to clients; has no other effect', True, None, None, ()),
        'network_type': ('text', 'Set the network type: vlan, vxlan, gre, geneve, flat or local', '', None, None, ()),
        'physical_network': ('text', 'Physical network of VLANs or a flat network; empty for other network types', '', None, None, ()),
        'segment': ('number', "Segmentation id; by default the next free id of the project's segment ranges", None, 1, 4294967295, ()),
        'segmented': ('flag', 'Allocate a segment even if no network type is given', False, None, None, ()),
        'project': ('text', 'Project that owns the object', '', None, None, ()),
        'connect': ('flag', 'Connect the network in every node group, by the link of its physical network if it has one', False, None, None, ()),
    },
    'OP_NETWORK_SET_PARAMS': {
        'network_name': ('text', 'Name of the network', None, None, None, ()),
        'subnets': ('structure', 'Changes of subnets, applied in order', None, None, None, ()),
        'pools': ('structure', 'Changes of pools, applied in order', None, None, None, ()),
        'add_reserved_ips': ('texts', 'Addresses and ranges to reserve externally', None, None, None, ()),
        'remove_reserved_ips': ('texts', 'Remove external reservations of these addresses and ranges', None, None, None, ()),
        'gateway': ('text', 'Gateway of the IPv4 subnet', None, None, None, ()),
        'network6': ('text', 'CIDR of the first IPv6 subnet, which is added if there is none', None, None, None, ()),
        'gateway6': ('text', 'Gateway of the IPv6 subnet', None, None, None, ()),
        'mac_prefix': ('text', "First half of the MAC addresses of NICs, instead of the cluster's", None, None, None, ()),
        'conflicts_check': ('flag', 'Refuse addresses that instances outside of the network have, and reserve those of nodes', True, None, None, ()),
        'force': ('flag', 'Allow ranges of more than 65,536 addresses', False, None, None, ()),
        'label': ('text', 'Name that a client chose; becomes the name if it is valid and unique', None, None, None, ()),
        'shared': ('flag', 'Share the object with every project', None, None, None, ()),
        'description': ('text', 'Set the description', None, None, None, ()),
        'admin_state_up': ('flag', 'Administrative state, reported to clients; has no other effect', None, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'network_type': ('text', 'Set the network type: vlan, vxlan, gre, geneve, flat or local', '', None, None, ()),
        'physical_network': ('text', 'Physical network of VLANs or a flat network; empty for other network types', '', None, None, ()),
        'segment': ('number', "Segmentation id; by default the next free id of the project's segment ranges", None, 1, 4294967295, ()),
        'segmented': ('flag', "Allocate a segment, or release the network's segment", None, None, None, ()),
    },
    'OP_NETWORK_RENAME': {
        'network_name': ('text', 'Name of the network', None, None, None, ()),
        'new_name': ('text', 'New name', None, None, None, ()),
    },
    'OP_NETWORK_REMOVE': {
        'network_name': ('text', 'Name of the network', None, None, None, ()),
        'force': ('flag', 'Accepted for older clients; a connected network is never removed', False, None, None, ()),
        'disconnect': ('flag', 'Remove the connections that the network got when it was created', False, None, None, ()),
    },
    'OP_NETWORK_CONNECT': {
        'network_name': ('text', 'Name of the network', None, None, None, ()),
        'group_name': ('text', 'Node group', None, None, None, ()),
        'network_mode': ('choice', 'NIC mode: bridged or routed', None, None, None, ('bridged', 'routed')),
        'network_link': ('text', 'Bridge, or routing table of routed NICs', None, None, None, ()),
        'network_vlan': ('text', 'VLAN on the bridge', '', None, None, ()),
        'conflicts_check': ('flag', 'Refuse addresses that instances outside of the network have, and reserve those of nodes', True, None, None, ()),
    },
    'OP_NETWORK_DISCONNECT': {
        'network_name': ('text', 'Name of the network', None, None, None, ()),
        'group_name': ('text', 'Node group', None, None, None, ()),
    },
    'OP_PORT_ADD': {
        'ports': ('structure', 'The ports to create', None, None, None, ()),
    },
    'OP_PORT_SET_PARAMS': {
        'port': ('text', 'Port, by its UUID or unique name', None, None, None, ()),
        'name': ('text', 'New name', None, None, None, ()),
        'mac': ('text', 'MAC address; auto generates one', None, None, None, ()),
        'fixed': ('structure', 'Addresses: a list, each item with a subnet, an address or both', None, None, None, ()),
        'device_id': ('text', 'What uses the port', None, None, None, ()),
        'device_owner': ('text', 'Kind of user of the port, as network:dhcp', None, None, None, ()),
        'admin_state_up': ('flag', 'Administrative state, reported to clients; has no other effect', None, None, None, ()),
        'description': ('text', 'Set the description', None, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
    },
    'OP_PORT_REMOVE': {
        'port': ('text', 'Port, by its UUID or unique name', None, None, None, ()),
    },
    'OP_SUBNET_POOL_ADD': {
        'prefixes': ('texts', 'CIDRs, all of one IP version', None, None, None, ()),
        'name': ('text', 'Name; need not be unique', '', None, None, ()),
        'default_prefixlen': ('number', 'Prefix length of a subnet whose request has none', None, 0, 128, ()),
        'min_prefixlen': ('number', 'Shortest prefix of a subnet', None, 0, 128, ()),
        'max_prefixlen': ('number', 'Longest prefix of a subnet', None, 0, 128, ()),
        'shared': ('flag', 'Share the object with every project', False, None, None, ()),
        'project': ('text', 'Project that owns the object', '', None, None, ()),
        'is_default': ('flag', 'Make this the default subnet pool of its IP version', False, None, None, ()),
        'default_quota': ('number', 'Quota of a project, counted in /32 of IPv4 or /64 of IPv6; 0 for unlimited', 0, 0, 9223372036854775807, ()),
        'description': ('text', 'Set the description', '', None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'uuid': ('text', 'UUID; generated by default', None, None, None, ()),
    },
    'OP_SUBNET_POOL_SET_PARAMS': {
        'subnet_pool': ('text', 'Subnet pool, by its UUID or unique name', None, None, None, ()),
        'name': ('text', 'New name', None, None, None, ()),
        'prefixes': ('texts', 'CIDRs, all of one IP version', None, None, None, ()),
        'default_prefixlen': ('number', 'Prefix length of a subnet whose request has none', None, 0, 128, ()),
        'min_prefixlen': ('number', 'Shortest prefix of a subnet', None, 0, 128, ()),
        'max_prefixlen': ('number', 'Longest prefix of a subnet', None, 0, 128, ()),
        'is_default': ('flag', 'Make this the default subnet pool of its IP version', None, None, None, ()),
        'default_quota': ('number', 'Quota of a project, counted in /32 of IPv4 or /64 of IPv6; 0 for unlimited', None, 0, 9223372036854775807, ()),
        'description': ('text', 'Set the description', None, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
    },
    'OP_SUBNET_POOL_REMOVE': {
        'subnet_pool': ('text', 'Subnet pool, by its UUID or unique name', None, None, None, ()),
    },
    'OP_SEGMENT_DEFAULTS_SET': {
        'tenant_network_types': ('texts', 'Set the network types of networks without a type, in the order of preference', None, None, None, ()),
        'vlan_ranges': ('texts', 'Set the VLANs of physical networks: NAME:FIRST:LAST, or NAME to make one known', None, None, None, ()),
        'vxlan_ranges': ('texts', 'Set the VXLAN ids: FIRST:LAST', None, None, None, ()),
        'gre_ranges': ('texts', 'Set the GRE ids: FIRST:LAST', None, None, None, ()),
        'geneve_ranges': ('texts', 'Set the Geneve ids: FIRST:LAST', None, None, None, ()),
        'bridge_mappings': ('texts', 'Set the bridge or network card of physical networks, PHYSICAL-NETWORK:LINK, that connects new networks of the Neutron API in every node group', None, None, None, ()),
        'tunnel_link': ('text', 'Set the network device that connects new VXLAN networks of the Neutron API', None, None, None, ()),
        'file': ('text', 'Content of a segments.ini, which sets all of this', None, None, None, ()),
        'force': ('flag', 'Set the segments although they are from segments.ini, which is ignored from then on', False, None, None, ()),
    },
    'OP_SEGMENT_RANGE_ADD': {
        'ranges': ('structure', 'The segment ranges to create', None, None, None, ()),
    },
    'OP_SEGMENT_RANGE_SET_PARAMS': {
        'range': ('text', 'UUID of the segment range, or its name if the name is unique', None, None, None, ()),
        'name': ('text', 'Set the name, which need not be unique', None, None, None, ()),
        'minimum': ('number', 'Set the lowest segmentation id', None, 1, 4294967295, ()),
        'maximum': ('number', 'Set the highest segmentation id', None, 1, 4294967295, ()),
        'description': ('text', 'Set the description', None, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
    },
    'OP_SEGMENT_RANGE_REMOVE': {
        'range': ('text', 'UUID of the segment range, or its name if the name is unique', None, None, None, ()),
    },
    'OP_INSTANCE_CREATE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'mode': ('choice', 'Create a new instance, or import an export', 'create', None, None, ('create', 'import')),
        'disks': ('structure', 'Disks', None, None, None, ()),
        'nics': ('structure', 'NICs', None, None, None, ()),
        'disk_template': ('text', "Disk template; by default the cluster's first", None, None, None, ()),
        'os_type': ('text', 'Operating system, with its variant as in debian+minimal', None, None, None, ()),
        'pnode': ('text', 'Primary node; by default the allocator chooses one', None, None, None, ()),
        'snode': ('text', 'Secondary node of mirrored disks', None, None, None, ()),
        'group_name': ('text', 'Node group; by default any node group', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'hypervisor': ('text', "Hypervisor; by default the cluster's first", None, None, None, ()),
        'hvparams': ('structure', "Hypervisor parameters that differ from the cluster's", None, None, None, ()),
        'beparams': ('structure', "Backend parameters that differ from the cluster's", None, None, None, ()),
        'osparams': ('structure', 'Parameters of the operating system', None, None, None, ()),
        'osparams_private': ('structure', 'OS parameters that are stored but never shown', None, None, None, ()),
        'osparams_secret': ('structure', 'OS parameters for this job only; they are not stored', None, None, None, ()),
        'start': ('flag', 'Start the instance', True, None, None, ()),
        'wait_for_sync': ('flag', 'Wait until mirrored disks are in sync', True, None, None, ()),
        'no_install': ('flag', "Do not run the operating system's scripts", None, None, None, ()),
        'force': ('flag', 'Allow externally reserved addresses', False, None, None, ()),
        'conflicts_check': ('flag', 'Refuse addresses that instances outside of the network have, and reserve those of nodes', True, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
        'force_variant': ('flag', 'Accept an OS variant that the OS definition does not list', False, None, None, ()),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'src_node': ('text', 'Set the node that has the export; by default all nodes are searched', None, None, None, ()),
        'src_path': ('text', "Set the name of the export; by default the instance's name", None, None, None, ()),
    },
    'OP_INSTANCE_REMOVE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'ignore_failures': ('flag', 'Continue although the node cannot stop the instance or remove its disks', False, None, None, ()),
        'shutdown_timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
    },
    'OP_INSTANCE_STARTUP': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'force': ('flag', 'Start the instance even if the node has too little free memory', False, None, None, ()),
        'hvparams': ('structure', 'Hypervisor parameters for this start only', None, None, None, ()),
        'beparams': ('structure', 'Backend parameters for this start only', None, None, None, ()),
        'no_remember': ('flag', 'Do not change the recorded admin state', False, None, None, ()),
        'startup_paused': ('flag', 'Start the guest paused', False, None, None, ()),
    },
    'OP_INSTANCE_SHUTDOWN': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'force': ('flag', 'Power off at once, even if the node is marked offline', False, None, None, ()),
        'timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
        'no_remember': ('flag', 'Do not change the recorded admin state', False, None, None, ()),
    },
    'OP_INSTANCE_REBOOT': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'reboot_type': ('choice', 'Reboot type: soft asks the guest, hard stops and starts it, full activates its disks again too', 'hard', None, None, ('full', 'hard', 'soft')),
        'ignore_secondaries': ('flag', 'Restart the instance even if a secondary node does not answer', False, None, None, ()),
        'shutdown_timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
    },
    'OP_INSTANCE_CONSOLE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
    },
    'OP_INSTANCE_REINSTALL': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'os_type': ('text', 'Operating system, with its variant as in debian+minimal', None, None, None, ()),
        'osparams': ('structure', 'Parameters of the operating system', None, None, None, ()),
        'osparams_private': ('structure', 'OS parameters that are stored but never shown', None, None, None, ()),
        'osparams_secret': ('structure', 'OS parameters for this job only; they are not stored', None, None, None, ()),
        'force_variant': ('flag', 'Accept an OS variant that the OS definition does not list', False, None, None, ()),
    },
    'OP_INSTANCE_RENAME': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'new_name': ('text', 'New name', None, None, None, ()),
    },
    'OP_INSTANCE_CHANGE_GROUP': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'target_groups': ('texts', 'Set the node groups that the instance may move to; empty for any', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'early_release': ('flag', 'Release the old copy of a disk before the new copy is complete', False, None, None, ()),
    },
    'OP_INSTANCE_FAILOVER': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'target_node': ('text', 'Set the target node', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'ignore_consistency': ('flag', 'Continue although the source node does not answer, or a copy of the disks is out of date', False, None, None, ()),
        'shutdown_timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
        'cleanup': ('flag', 'Clean up after an interrupted move: find where the instance runs', False, None, None, ()),
        'keep': ('choice', 'Set which node keeps its copy of mirrored disks when the target is a third node', None, None, None, ('primary', 'secondary')),
        'wait_for_sync': ('flag', 'Start the instance only when the new copy of its disks is complete', False, None, None, ()),
    },
    'OP_INSTANCE_MIGRATE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'mode': ('choice', 'Set the migration mode: live keeps the guest running while its memory is sent', None, None, None, ('live', 'non-live')),
        'live': ('flag', 'Older form of mode', None, None, None, ()),
        'target_node': ('text', 'Set the target node', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'cleanup': ('flag', 'Clean up after an interrupted move: find where the instance runs', False, None, None, ()),
        'allow_failover': ('flag', 'Fail over if the instance does not run or cannot be migrated', False, None, None, ()),
        'allow_runtime_changes': ('flag', 'Accepted for older clients; the memory stays unchanged', True, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
        'ignore_hvversions': ('flag', 'Accepted for older clients; has no effect', False, None, None, ()),
    },
    'OP_INSTANCE_MOVE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'target_node': ('text', 'Set the target node, which the disks are copied to', None, None, None, ()),
        'shutdown_timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
        'ignore_consistency': ('flag', 'Continue although the instance cannot be shut down cleanly', False, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
        'compress': ('choice', 'Set the program that compresses the copy', 'none', None, None, ('gzip', 'none')),
    },
    'OP_NODE_EVACUATE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'mode': ('choice', 'Move instances that run on the node, copies of disks on it, or both', None, None, None, ('all', 'primary-only', 'secondary-only')),
        'remote_node': ('text', 'Set the node that everything moves to', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'early_release': ('flag', 'Release the old copy of a disk before the new copy is complete', False, None, None, ()),
        'ignore_soft_errors': ('flag', 'Accepted for older clients; has no effect', False, None, None, ()),
    },
    'OP_NODE_MIGRATE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'mode': ('choice', 'Set the migration mode: live keeps the guest running while its memory is sent', None, None, None, ('live', 'non-live')),
        'live': ('flag', 'Older form of mode', None, None, None, ()),
        'target_node': ('text', 'Set the target node of all instances', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'allow_runtime_changes': ('flag', 'Accepted for older clients; the memory stays unchanged', True, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
    },
    'OP_BACKUP_EXPORT': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'target_node': ('text', 'Set the target node', None, None, None, ()),
        'mode': ('choice', 'Kind of export: local, on a node of this cluster', 'local', None, None, ('local',)),
        'shutdown': ('flag', 'Stop the instance if it runs', True, None, None, ()),
        'shutdown_timeout': ('number', 'Wait this many seconds for the guest to shut down before powering it off', 120, 0, 86400, ()),
        'compress': ('choice', 'Set the program that compresses the dumps', 'none', None, None, ('gzip', 'gzip-fast', 'gzip-slow', 'lzop', 'none', 'zstd')),
        'remove_instance': ('flag', 'Remove the instance when the export is complete', False, None, None, ()),
        'ignore_remove_failures': ('flag', 'Remove the instance even if a disk cannot be removed', False, None, None, ()),
    },
    'OP_BACKUP_REMOVE': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
    },
    'OP_INSTANCE_SET_PARAMS': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'nics': ('structure', 'Changes of NICs, applied in order', None, None, None, ()),
        'disks': ('structure', 'Changes of disks, applied in order', None, None, None, ()),
        'disk_template': ('text', 'Disk template to convert the disks of a stopped instance to', None, None, None, ()),
        'remote_node': ('text', 'Secondary node of converted disks', None, None, None, ()),
        'iallocator': ('text', 'Let an allocator choose the secondary node', None, None, None, ()),
        'ext_params': ('structure', 'Storage provider of the converted disks, and its parameters', None, None, None, ()),
        'wait_for_sync': ('flag', 'Wait until new disks are in sync', True, None, None, ()),
        'hvparams': ('structure', "Hypervisor parameters that differ from the cluster's", None, None, None, ()),
        'beparams': ('structure', "Backend parameters that differ from the cluster's", None, None, None, ()),
        'osparams': ('structure', 'Parameters of the operating system', None, None, None, ()),
        'osparams_private': ('structure', 'OS parameters that are stored but never shown', None, None, None, ()),
        'force': ('flag', 'Allow externally reserved addresses, and keep a disk copy that may be incomplete', False, None, None, ()),
        'hotplug': ('flag', 'Change the NICs of a running instance at once, if possible', True, None, None, ()),
        'hotplug_if_possible': ('flag', 'Older form of hotplug', False, None, None, ()),
        'conflicts_check': ('flag', 'Refuse addresses that instances outside of the network have, and reserve those of nodes', True, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
        'runtime_mem': ('structure', 'New memory of the running guest, in MiB', None, None, None, ()),
        'offline': ('flag', 'Mark a stopped instance offline: nothing will start it', None, None, None, ()),
    },
    'OP_INSTANCE_QUERY_DATA': {
        'instances': ('texts', 'Names; empty for all', None, None, None, ()),
        'static': ('flag', 'Do not ask the nodes', False, None, None, ()),
        'use_locking': ('flag', 'Accepted for older clients; queries need no lock', False, None, None, ()),
    },
    'OP_CLUSTER_REPAIR_STORAGE': {
        'whole_before': ('flag', 'Whether all volume groups were complete at the last check', True, None, None, ()),
    },
    'OP_CLUSTER_REPAIR_STRAY_GUESTS': {
        'rule': ('choice', "Report, stop or adopt the guests; by default as the cluster's setting says", None, None, None, ('adopt', 'report', 'stop')),
    },
    'OP_STRAY_GUEST_REPAIR': {
        'guest_name': ('text', 'Name of the guest', None, None, None, ()),
        'guest_uuid': ('text', 'UUID of the guest', None, None, None, ()),
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'rule': ('choice', 'Stop or adopt the guest', None, None, None, ('adopt', 'stop')),
    },
    'OP_CLUSTER_VERIFY_DISKS': {
        'group_name': ('text', 'Node group; by default any node group', None, None, None, ()),
        'is_strict': ('flag', 'Accepted for older clients; has no effect', True, None, None, ()),
    },
    'OP_GROUP_VERIFY_DISKS': {
        'group_name': ('text', 'Node group', None, None, None, ()),
        'is_strict': ('flag', 'Accepted for older clients; has no effect', True, None, None, ()),
    },
    'OP_INSTANCE_ACTIVATE_DISKS': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'ignore_size': ('flag', 'Accepted for older clients; sizes are not compared', False, None, None, ()),
        'wait_for_sync': ('flag', 'Wait until mirrored disks are in sync', False, None, None, ()),
    },
    'OP_INSTANCE_DEACTIVATE_DISKS': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'force': ('flag', 'Do not check whether the instance runs', False, None, None, ()),
    },
    'OP_INSTANCE_GROW_DISK': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'disk': ('number', 'Disk number, from 0', None, 0, None, ()),
        'amount': ('structure', 'Amount to grow by, or the new size, in MiB or with a unit', None, None, None, ()),
        'absolute': ('flag', 'Treat the amount as the new size', False, None, None, ()),
        'wait_for_sync': ('flag', 'Wait until mirrored disks are in sync', True, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
    },
    'OP_INSTANCE_RECREATE_DISKS': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'disks': ('structure', 'Disks, each by its index or as [index, {...}]; empty for all', None, None, None, ()),
        'nodes': ('texts', 'New nodes, the primary node first', None, None, None, ()),
        'iallocator': ('text', 'Allocator that chooses new nodes', None, None, None, ()),
    },
    'OP_INSTANCE_REPLACE_DISKS': {
        'instance_name': ('text', 'Name of the instance', None, None, None, ()),
        'mode': ('choice', 'Replace the volumes on the primary or the secondary node, the secondary node itself, or the broken side', None, None, None, ('replace_auto', 'replace_new_secondary', 'replace_on_primary', 'replace_on_secondary')),
        'disks': ('structure', 'Disks; empty for all', None, None, None, ()),
        'remote_node': ('text', 'The new secondary node', None, None, None, ()),
        'iallocator': ('text', "Let an allocator choose: a program, . for the cluster's default, gantry for the built-in one", None, None, None, ()),
        'early_release': ('flag', 'Release the old copy before the new copy is complete', False, None, None, ()),
        'ignore_ipolicy': ('flag', 'Ignore the instance policy of the node group', False, None, None, ()),
    },
    'OP_NODE_MODIFY_STORAGE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'name': ('text', 'Device of the physical volume', None, None, None, ()),
        'changes': ('structure', 'Attributes to change', None, None, None, ()),
        'storage_type': ('choice', 'Storage type', 'lvm-pv', None, None, ('lvm-pv',)),
    },
    'OP_NODE_QUERY_STORAGE': {
        'nodes': ('texts', 'Nodes; empty for all', None, None, None, ()),
        'storage_type': ('choice', 'Storage type', None, None, None, ('file', 'lvm-pv', 'lvm-vg', 'sharedfile')),
        'name': ('text', 'Query only the storage unit with this name', None, None, None, ()),
        'output_fields': ('texts', 'Columns, of node, type, name, size, used, free, allocatable', None, None, None, ()),
    },
    'OP_NODE_QUERYVOLS': {
        'nodes': ('texts', 'Nodes; empty for all', None, None, None, ()),
        'output_fields': ('texts', 'Columns, of node, phys, vg, name, size, instance', None, None, None, ()),
    },
    'OP_REPAIR_NODE_STORAGE': {
        'node_name': ('text', 'Name of the node', None, None, None, ()),
        'name': ('text', 'Volume group', None, None, None, ()),
        'storage_type': ('choice', 'Storage type', 'lvm-vg', None, None, ('lvm-vg',)),
        'ignore_consistency': ('flag', 'Continue even if the only complete copy of a disk is lost', False, None, None, ()),
    },
    'OP_TAGS_SET': {
        'kind': ('choice', 'Object type', None, None, None, ('cluster', 'instance', 'network', 'node', 'nodegroup')),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'name': ('text', 'Name of the object; empty for the cluster', '', None, None, ()),
    },
    'OP_TAGS_DEL': {
        'kind': ('choice', 'Object type', None, None, None, ('cluster', 'instance', 'network', 'node', 'nodegroup')),
        'tags': ('texts', 'Tags', None, None, None, ()),
        'name': ('text', 'Name of the object; empty for the cluster', '', None, None, ()),
    },
    'OP_TAGS_SEARCH': {
        'pattern': ('text', 'Regular expression; lists the tags that contain a match', None, None, None, ()),
    },
    'OP_OS_DIAGNOSE': {
        'output_fields': ('texts', 'Fields of the resource os to return', None, None, None, ()),
        'names': ('texts', 'Names; empty for all', None, None, None, ()),
    },
    'OP_TEST_DELAY': {
        'duration': ('structure', 'Seconds to sleep', None, None, None, ()),
        'on_master': ('flag', 'Sleep on the master', True, None, None, ()),
        'on_nodes': ('texts', 'Nodes to sleep on', None, None, None, ()),
        'repeat': ('number', 'Sleep this many times; 0 means once', 0, 0, 1000, ()),
        'no_locks': ('flag', 'Do not lock the nodes', False, None, None, ()),
    },
    'OP_TOKEN_ADD': {
        'user': ('text', 'User of the remote API whose token it is', None, None, None, ()),
        'name': ('text', "Name, unique among the user's tokens", None, None, None, ()),
        'id': ('text', "Public part of the token's text, by which it is found", None, None, None, ()),
        'secret_hash': ('text', "SHA-256 of the token's text, in hex", None, None, None, ()),
        'extent': ('choice', 'What it allows of what its user may: everything, no change, or what its roles include', 'everything', None, None, ('everything', 'read', 'roles')),
        'roles': ('structure', 'Roles of a token that allows roles', None, None, None, ()),
        'until': ('structure', 'End, in seconds since the epoch; 90 days from now by default, at most 366; or never', None, None, None, ()),
    },
    'OP_TOKEN_REVOKE': {
        'user': ('text', 'User of the remote API whose token it is', None, None, None, ()),
        'name': ('text', "Name, unique among the user's tokens", None, None, None, ()),
    },
    'OP_WEBHOOK_ADD': {
        'name': ('text', 'Name of the webhook', None, None, None, ()),
        'url': ('text', 'URL to which events are posted; never displayed', None, None, None, ()),
        'events': ('texts', 'Events that it gets, each as KIND or KIND.CHANGE; all if there are none', None, None, None, ()),
        'authorities': ('text', "Authorities of the receiver's certificate, in PEM; empty: the system's", '', None, None, ()),
        'without_tls': ('flag', 'Allow a URL without TLS on another machine', False, None, None, ()),
        'begin': ('number', 'Serial of the first event that it gets; by default the next one', None, 1, None, ()),
    },
    'OP_WEBHOOK_REMOVE': {
        'name': ('text', 'Name of the webhook', None, None, None, ()),
    },
    'OP_WEBHOOK_SET_PARAMS': {
        'name': ('text', 'Name of the webhook', None, None, None, ()),
        'url': ('text', 'URL to which events are posted; never displayed', None, None, None, ()),
        'events': ('texts', 'Events that it gets, each as KIND or KIND.CHANGE; all if there are none', None, None, None, ()),
        'authorities': ('text', "Authorities of the receiver's certificate, in PEM; empty: the system's", None, None, None, ()),
        'without_tls': ('flag', 'Allow a URL without TLS on another machine', False, None, None, ()),
        'enabled': ('flag', 'Send events; otherwise keep them for later', None, None, None, ()),
        'new_secret': ('flag', 'Make a new secret; for a day, requests are signed with the previous one too', False, None, None, ()),
    },
    'OP_WEBHOOK_TEST': {
        'name': ('text', 'Name of the webhook', None, None, None, ()),
    },
}
