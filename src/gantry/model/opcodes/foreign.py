"""Fields of opcodes that existing clients send and that no opcode here has (contracts/opcodes.md#common-parameters).

Clients fill in every field that they know. One that asks for nothing is let pass and forgotten, one that asks for what
is not built is refused with what that is. A field moves out of here when its opcode gets it; the opcode's own fields
always count first.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Foreign(NamedTuple):
    """What a field asks for, and with which values it asks for nothing, besides null and empty ones.

    A field with no ``about`` only tunes or loosens what is not there, and may have any value.
    """

    about: str
    idle: tuple[object, ...] = ()

    def asks(self, value: object) -> bool:
        """Tell whether a value asks for something."""
        return bool(self.about) and value is not None and value not in ("", [], {}, *self.idle)


_MEANINGLESS: Final = Foreign("")

_OFF: Final = (False, "false", "no")
_BY_UUID: Final = Foreign("naming objects by UUID in a field of its own")
_SECONDARY: Final = Foreign("disks that are mirrored to a secondary node")
_FILE_FOLDER: Final = Foreign("a folder of its own for an instance's files")
_FILE_DRIVER: Final = Foreign("another driver for files", ("loop",))
_IMPORT: Final = Foreign("moving an instance from another cluster")
_NETWORK: Final = Foreign("a network between the instance and its node", _OFF)
_HARDWARE: Final = Foreign("overriding what a node says of its hardware")
_OFFLINE: Final = Foreign("working on an instance whose node is offline", _OFF)
_SIMULATED: Final = Foreign("simulated errors", _OFF)
_VOLUMES: Final = Foreign("logical volumes")
_USERS: Final = Foreign("a user of its own for each guest")
_MASTER_ADDRESS: Final = Foreign("the master's own address")

FIELDS: Final[Mapping[str, Mapping[str, Foreign]]] = {
    "OP_CLUSTER_SET_PARAMS": {
        "reserved_lvs": _VOLUMES,
        "drbd_helper": _SECONDARY,
        "hv_state": _HARDWARE,
        "disk_state": _HARDWARE,
        "max_tracked_jobs": _MEANINGLESS,
        "uid_pool": _USERS,
        "add_uids": _USERS,
        "remove_uids": _USERS,
        "maintain_node_health": Foreign("ending what should not run on a node", _OFF),
        "master_netmask": _MASTER_ADDRESS,
        "use_external_mip_script": Foreign("the master's own address", _OFF),
        "modify_etc_hosts": Foreign("writing /etc/hosts", _OFF),
        "file_storage_dir": _FILE_FOLDER,
        "shared_file_storage_dir": _FILE_FOLDER,
        "gluster_storage_dir": _FILE_FOLDER,
        "install_image": Foreign("installing by a helper virtual machine"),
        "zeroing_image": Foreign("zeroing disks by a helper virtual machine"),
        "compression_tools": Foreign("programs that compress exports"),
        "instance_communication_network": _NETWORK,
        "enabled_user_shutdown": Foreign("telling a shutdown by the guest from a crash", _OFF),
        "enabled_data_collectors": _MEANINGLESS,
        "data_collector_interval": _MEANINGLESS,
    },
    "OP_CLUSTER_VERIFY": {
        "skip_checks": _MEANINGLESS,
        "debug_simulate_errors": _SIMULATED,
        "ignore_errors": Foreign("errors that count as warnings"),
        "group_name": Foreign("the verification of one node group alone"),
        "verify_clutter": Foreign("looking for files that belong to nobody", _OFF),
    },
    "OP_NODE_ADD": {
        "secondary_ip": Foreign("a second address of a node"),
        "readd": Foreign("taking a node in again that the cluster knows", _OFF),
        "node_setup": Foreign("setting a node up by SSH", _OFF),
        "hv_state": _HARDWARE,
        "disk_state": _HARDWARE,
    },
    "OP_NODE_REMOVE": {"node_uuid": _BY_UUID},
    "OP_GROUP_ADD": {"hv_state": _HARDWARE, "disk_state": _HARDWARE},
    "OP_GROUP_SET_PARAMS": {"hv_state": _HARDWARE, "disk_state": _HARDWARE},
    "OP_GROUP_ASSIGN_NODES": {"node_uuids": _BY_UUID},
    "OP_NODE_SET_PARAMS": {
        "node_uuid": _BY_UUID,
        "secondary_ip": Foreign("a second address of a node"),
        "powered": Foreign("a node's power"),
        "hv_state": _HARDWARE,
        "disk_state": _HARDWARE,
    },
    "OP_INSTANCE_CREATE": {
        "pnode_uuid": _BY_UUID,
        "snode_uuid": _BY_UUID,
        "ip_check": _MEANINGLESS,
        "name_check": _MEANINGLESS,
        "opportunistic_locking": _MEANINGLESS,
        "file_storage_dir": _FILE_FOLDER,
        "file_driver": _FILE_DRIVER,
        "src_node_uuid": _BY_UUID,
        "source_handshake": _IMPORT,
        "source_instance_name": _IMPORT,
        "source_x509_ca": _IMPORT,
        "source_shutdown_timeout": _MEANINGLESS,
        "compress": _MEANINGLESS,
        "identify_defaults": Foreign("forgetting parameters that equal the defaults", _OFF),
        "forthcoming": Foreign("an instance that is only planned", _OFF),
        "commit": Foreign("an instance that is only planned", _OFF),
        "instance_communication": _NETWORK,
        "helper_startup_timeout": _MEANINGLESS,
        "helper_shutdown_timeout": _MEANINGLESS,
    },
    "OP_INSTANCE_REMOVE": {"instance_uuid": _BY_UUID},
    "OP_INSTANCE_STARTUP": {
        "instance_uuid": _BY_UUID,
        "ignore_offline_nodes": _OFFLINE,
        "shutdown_timeout": _MEANINGLESS,
    },
    "OP_INSTANCE_SHUTDOWN": {
        "instance_uuid": _BY_UUID,
        "ignore_offline_nodes": _OFFLINE,
        "admin_state_source": Foreign("remembering that the guest's own user stopped it", ("admin",)),
    },
    "OP_INSTANCE_REBOOT": {"instance_uuid": _BY_UUID, "ignore_secondaries": _MEANINGLESS},
    "OP_INSTANCE_CONSOLE": {"instance_uuid": _BY_UUID},
    "OP_INSTANCE_SET_PARAMS": {
        "instance_uuid": _BY_UUID,
        "file_driver": _FILE_DRIVER,
        "file_storage_dir": _FILE_FOLDER,
        "remote_node_uuid": _BY_UUID,
        "pnode": Foreign("naming another primary node"),
        "pnode_uuid": Foreign("naming another primary node"),
        "os_name": Foreign("recording another operating system"),
        "force_variant": _MEANINGLESS,
        "instance_communication": _NETWORK,
    },
    "OP_INSTANCE_REINSTALL": {
        "instance_uuid": _BY_UUID,
    },
    "OP_INSTANCE_RENAME": {"instance_uuid": _BY_UUID, "ip_check": _MEANINGLESS, "name_check": _MEANINGLESS},
    "OP_BACKUP_EXPORT": {
        "instance_uuid": _BY_UUID,
        "target_node_uuid": _BY_UUID,
        "x509_key_name": _IMPORT,
        "destination_x509_ca": _IMPORT,
        "zero_free_space": Foreign("zeroing disks by a helper virtual machine", _OFF),
        "zeroing_timeout_fixed": _MEANINGLESS,
        "zeroing_timeout_per_mib": _MEANINGLESS,
        "long_sleep": _MEANINGLESS,
    },
    "OP_INSTANCE_FAILOVER": {"instance_uuid": _BY_UUID, "target_node_uuid": _BY_UUID},
    "OP_INSTANCE_MIGRATE": {"instance_uuid": _BY_UUID, "target_node_uuid": _BY_UUID},
    "OP_INSTANCE_MOVE": {"instance_uuid": _BY_UUID, "target_node_uuid": _BY_UUID},
    "OP_INSTANCE_CHANGE_GROUP": {"instance_uuid": _BY_UUID},
    "OP_NODE_EVACUATE": {"node_uuid": _BY_UUID, "remote_node_uuid": _BY_UUID},
    "OP_NODE_MIGRATE": {"node_uuid": _BY_UUID, "target_node_uuid": _BY_UUID},
    "OP_TEST_DELAY": {
        "interruptible": Foreign("a delay that can be interrupted", _OFF),
        "on_node_uuids": _BY_UUID,
    },
}
"""By opcode and field."""
