"""The environments of scripts: what an OS script and an interface script are told of an instance. Pure.

The names are those that today's scripts read (contracts: OS definitions, interface scripts). What a NIC with several
addresses adds comes twice: under the seed's names with a colon (``IP:1``, ``NETWORK_SUBNET:1``), which a shell can
neither set nor read, and under names that it can (``IP_1``, ``NETWORK_SUBNET_1``). The index is that of the address; a
value that is not known is left out. Truth values are ``True`` and ``False``, sizes MiB, lists separated by blanks.
"""

from collections.abc import Mapping

from gantry.rpc import calls

PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
Environment = dict[str, str]


def _given(**values: str) -> Environment:
    return {name: value for name, value in values.items() if value}


def _first_subnets(nic: calls.Nic) -> Environment:
    """Return the first subnet of each family under the names of the time when a network had one of each."""
    found: Environment = {}
    for address in reversed(nic.addresses):
        family = "6" if ":" in address.ip else ""
        found |= _given(**{f"NETWORK_SUBNET{family}": address.subnet, f"NETWORK_GATEWAY{family}": address.gateway})
    return found


def _network(nic: calls.Nic) -> Environment:
    if nic.network is None:
        return {}
    return _first_subnets(nic) | _given(
        NETWORK_NAME=nic.network.name,
        NETWORK_UUID=nic.network.uuid,
        NETWORK_MAC_PREFIX=nic.network.mac_prefix,
        NETWORK_TAGS=" ".join(nic.network.tags),
    )


def _link(nic: calls.Nic) -> Environment:
    bridge = nic.link if nic.mode == "bridged" else ""
    ip = nic.addresses[0].ip if nic.addresses else ""
    return {"MAC": nic.mac, "MODE": nic.mode} | _given(IP=ip, LINK=nic.link, BRIDGE=bridge, VLAN=nic.vlan)


def _subnet(address: calls.Address) -> Environment:
    return _given(SUBNET=address.subnet, GATEWAY=address.gateway, DHCP=str(address.dhcp) if address.subnet else "")


def _seed_addresses(nic: calls.Nic) -> Environment:
    """Return the addresses under the seed's names (networks seed "Exported variables")."""
    found: Environment = {}
    for index, address in enumerate(nic.addresses):
        found[f"IP:{index}"] = address.ip
        found |= {f"NETWORK_{name}:{index}": value for name, value in _subnet(address).items()}
    return found


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
        "IP_COUNT": str(len(plugged.addresses)),
    }
    addresses = _seed_addresses(plugged)
    readable = {name.replace(":", "_"): value for name, value in addresses.items()}
    return identity | _given(INTERFACE_NAME=plugged.name) | _link(plugged) | _network(plugged) | addresses | readable


def _nics(instance: calls.Instance) -> Environment:
    found = {"NIC_COUNT": str(len(instance.nics))}
    model = str(instance.hvparams.get("nic_type", ""))
    for plugged in instance.nics:
        values = {"UUID": plugged.uuid, "IP_COUNT": str(len(plugged.addresses))}
        values |= _link(plugged) | _network(plugged) | _seed_addresses(plugged)
        values |= _given(NAME=plugged.name, FRONTEND_TYPE=model)
        for index, address in enumerate(plugged.addresses):
            values[f"IP_{index}"] = address.ip
            values |= {f"IP_{index}_{name}": value for name, value in _subnet(address).items()}
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
        } | _given(NAME=disk.name, FRONTEND_TYPE=model)
        found |= {f"DISK_{disk.index}_{name}": value for name, value in values.items()}
    return found


def _parameters(prefix: str, values: Mapping[str, calls.Value]) -> Environment:
    return {f"{prefix}{name.upper()}": str(value) for name, value in values.items()}


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
        | _parameters("OSP_", instance.osparams)
    )
