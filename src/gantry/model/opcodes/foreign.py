"""Opcode fields that existing clients send but that Gantry does not support (contracts/opcodes.md#common-parameters).

Clients set every field that they know. A field that requests nothing is ignored; a field that requests an unsupported
feature is refused, and the error names the feature. When an opcode gets a field, remove it here; the opcode's own
fields take precedence.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Foreign(NamedTuple):
    """The feature that a field requests, and the ``idle`` values with which it requests nothing, as null and empty do.

    A field without ``about`` only tunes an unsupported feature, so any value is ignored.
    """

    about: str
    idle: tuple[object, ...] = ()

    def requests(self, value: object) -> bool:
        """Return whether a value requests the feature."""
        return bool(self.about) and value is not None and value not in ("", [], {}, *self.idle)


_MEANINGLESS: Final = Foreign("")

_OFF: Final = (False, "false", "no")
_BY_UUID: Final = Foreign("a separate field for an object's UUID")
_SECONDARY: Final = Foreign("disks that are mirrored to a secondary node")
_FILE_FOLDER: Final = Foreign("a separate folder for an instance's files")
_FILE_DRIVER: Final = Foreign("another driver for file disks", ("loop",))
_IMPORT: Final = Foreign("moving an instance from another cluster")
_NETWORK: Final = Foreign("a network between the instance and its node", _OFF)
_HARDWARE: Final = Foreign("overriding the hardware values that a node reports")
_OFFLINE: Final = Foreign("an operation on an instance whose node is offline", _OFF)
_SIMULATED: Final = Foreign("simulated errors", _OFF)
_VOLUMES: Final = Foreign("reserved logical volumes")
_USERS: Final = Foreign("a separate user for each guest")
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
        "maintain_node_health": Foreign("stopping instances that should not run on a node", _OFF),
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
        "enabled_user_shutdown": Foreign("distinguishing a shutdown by the guest from a crash", _OFF),
        "enabled_data_collectors": _MEANINGLESS,
        "data_collector_interval": _MEANINGLESS,
    },
    "OP_CLUSTER_VERIFY": {
        "skip_checks": _MEANINGLESS,
        "debug_simulate_errors": _SIMULATED,
        "ignore_errors": Foreign("errors that count as warnings"),
        "group_name": Foreign("the verification of a single node group"),
        "verify_clutter": Foreign("a search for files without an owner", _OFF),
    },
    "OP_NODE_ADD": {
        "secondary_ip": Foreign("a second address of a node"),
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
        "powered": Foreign("recording a node's power state"),
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
        "identify_defaults": Foreign("dropping parameters that equal the defaults", _OFF),
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
        "admin_state_source": Foreign("recording that the guest's user stopped it", ("admin",)),
    },
    "OP_INSTANCE_REBOOT": {"instance_uuid": _BY_UUID},
    "OP_INSTANCE_CONSOLE": {"instance_uuid": _BY_UUID},
    "OP_INSTANCE_SET_PARAMS": {
        "instance_uuid": _BY_UUID,
        "file_driver": _FILE_DRIVER,
        "file_storage_dir": _FILE_FOLDER,
        "remote_node_uuid": _BY_UUID,
        "pnode": Foreign("recording another primary node"),
        "pnode_uuid": Foreign("recording another primary node"),
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
"""The unsupported fields by opcode and field name."""
