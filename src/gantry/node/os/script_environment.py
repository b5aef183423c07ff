"""The environments of scripts: what an OS script and an interface script are told of an instance. Pure.

The names are those that today's scripts read (contracts/os-interface.md#environment,
contracts/interface-scripts.md#environment); ``rpc.variables`` says how a NIC and its addresses are told, to hooks as
well. A value that is not known is left out. Truth values are ``True`` and ``False``, sizes MiB, lists separated by
blanks.
"""

from collections.abc import Mapping

from gantry.rpc import calls, variables

PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
Environment = variables.Environment


def nic(instance: calls.Instance, plugged: calls.Nic, *, interface: str, action: str) -> Environment:
    """Return the environment of an interface script; ``action`` is ``up`` or ``down``."""
    identity = {
        "PATH": PATH,
        "ACTION": action,
        "INSTANCE": instance.name,
        "TAGS": " ".join(instance.tags),
        "INTERFACE": interface,
        "INTERFACE_INDEX": str(plugged.index),
        "INTERFACE_UUID": plugged.uuid,
        "VLAN": plugged.vlan,
    }
    return identity | variables.known(INTERFACE_NAME=plugged.name) | variables.nic(plugged)


def _nics(instance: calls.Instance) -> Environment:
    found = {"NIC_COUNT": str(len(instance.nics))}
    model = str(instance.hvparams.get("nic_type", ""))
    for plugged in instance.nics:
        values = {"UUID": plugged.uuid} | variables.nic(plugged)
        values |= variables.known(NAME=plugged.name, VLAN=plugged.vlan, FRONTEND_TYPE=model)
        found |= {f"NIC_{plugged.index}_{name}": value for name, value in values.items()}
    return found


def _disks(instance: calls.Instance, paths: Mapping[str, str]) -> Environment:
    found = {"DISK_COUNT": str(len(instance.disks))}
    model = str(instance.hvparams.get("disk_type", ""))
    for disk in instance.disks:
        values = {
            "PATH": paths[disk.uuid],
            "SIZE": str(disk.size),
            "ACCESS": disk.mode,
            "UUID": disk.uuid,
            "BACKEND_TYPE": "file:loop" if disk.dev_type in ("file", "sharedfile") else "block",
        } | variables.known(NAME=disk.name, FRONTEND_TYPE=model)
        found |= {f"DISK_{disk.index}_{name}": value for name, value in values.items()}
    return found


def _parameters(prefix: str, values: Mapping[str, calls.Value]) -> Environment:
    """Return parameters under their own names, which today's scripts read, and in capitals."""
    return {f"{prefix}{spelling}": str(value) for name, value in values.items() for spelling in (name, name.upper())}


def os_script(
    instance: calls.Instance, paths: Mapping[str, str], *, api_version: int, debug: int, reinstall: bool
) -> Environment:
    """Return the environment of an OS script; ``paths`` maps the disks' UUIDs to where they are."""
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
