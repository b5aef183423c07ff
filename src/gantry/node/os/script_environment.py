"""The environments of scripts: the variables with which OS scripts and interface scripts run. Pure.

The names are those that existing scripts read (contracts/os-interface.md#environment,
contracts/interface-scripts.md#environment). ``rpc.variables`` has the variables of a NIC and its addresses, which hooks
get too. A variable whose value is unknown is omitted. Booleans are ``True`` and ``False``, sizes MiB, lists are
separated by blanks.
"""

from collections.abc import Mapping

from gantry.rpc import calls, variables

PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
Environment = variables.Environment


def nic(instance: calls.Instance, plugged_nic: calls.Nic, *, interface: str, action: str) -> Environment:
    """Return the environment of an interface script; ``action`` is ``up`` or ``down``."""
    identity = {
        "PATH": PATH,
        "ACTION": action,
        "INSTANCE": instance.name,
        "TAGS": " ".join(instance.tags),
        "INTERFACE": interface,
        "INTERFACE_INDEX": str(plugged_nic.index),
        "INTERFACE_UUID": plugged_nic.uuid,
        "VLAN": plugged_nic.vlan,
    }
    return identity | variables.known(INTERFACE_NAME=plugged_nic.name) | variables.nic(plugged_nic)


def _nics(instance: calls.Instance) -> Environment:
    environment = {"NIC_COUNT": str(len(instance.nics))}
    model = str(instance.hvparams.get("nic_type", ""))
    for plugged_nic in instance.nics:
        values = {"UUID": plugged_nic.uuid} | variables.nic(plugged_nic)
        values |= variables.known(NAME=plugged_nic.name, VLAN=plugged_nic.vlan, FRONTEND_TYPE=model)
        environment |= {f"NIC_{plugged_nic.index}_{name}": value for name, value in values.items()}
    return environment


def _disks(instance: calls.Instance, paths: Mapping[str, str]) -> Environment:
    environment = {"DISK_COUNT": str(len(instance.disks))}
    model = str(instance.hvparams.get("disk_type", ""))
    for disk in instance.disks:
        values = {
            "PATH": paths[disk.uuid],
            "SIZE": str(disk.size),
            "ACCESS": disk.mode,
            "ACCESS_LETTER": "W" if disk.mode == "rw" else "R",
            "UUID": disk.uuid,
            "BACKEND_TYPE": "file:loop" if disk.dev_type in ("file", "sharedfile") else "block",
        } | variables.known(NAME=disk.name, FRONTEND_TYPE=model)
        environment |= {f"DISK_{disk.index}_{name}": value for name, value in values.items()}
    return environment


def _parameters(prefix: str, values: Mapping[str, calls.Value]) -> Environment:
    """Return parameters under their own names and in capitals: existing scripts read both."""
    return {f"{prefix}{spelling}": str(value) for name, value in values.items() for spelling in (name, name.upper())}


def os_script(
    instance: calls.Instance, paths: Mapping[str, str], *, api_version: int, debug: int, reinstall: bool
) -> Environment:
    """Return the environment of an OS script; ``paths`` has the disks' paths by UUID."""
    name, _, variant = instance.os.partition("+")
    identity = {
        "PATH": PATH,
        "OS_API_VERSION": str(api_version),
        "OS_NAME": name,
        "OS_VARIANT": variant,
        "DEBUG_LEVEL": str(debug),
        "HYPERVISOR": instance.hypervisor,
        "INSTANCE_NAME": instance.name,
        "INSTANCE_OS": instance.os,
        "INSTANCE_UUID": instance.uuid,
        "INSTANCE_CTIME": str(instance.ctime),
        "INSTANCE_MTIME": str(instance.mtime),
        "INSTANCE_PRIMARY_NODE": instance.primary_node,
        "INSTANCE_SECONDARY_NODES": " ".join(instance.secondary_nodes),
    } | ({"INSTANCE_REINSTALL": "1"} if reinstall else {})
    return (
        identity
        | _disks(instance, paths)
        | _nics(instance)
        | _parameters("INSTANCE_BE_", instance.beparams)
        | _parameters("INSTANCE_HV_", instance.hvparams)
        | {f"OSP_{name.upper()}": str(value) for name, value in instance.osparams.items()}
    )
