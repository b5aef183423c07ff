"""The lines in which the plan of a new instance describes it: what ``--dry-run`` and the console show.

A person who reads them knows where the instance will be, what it may use and which addresses it takes. They are for
people: a program reads the instance itself after the job.
"""

from collections.abc import Mapping, Sequence

from gantry.address import ranges
from gantry.model import instance, network, parameters
from gantry.state.objects import snapshot as states


def lines(snapshot: states.Snapshot, vm: instance.Instance, nodes: Sequence[str]) -> list[str]:
    """Return the lines about a new instance on nodes, given by name; sizes are in MiB."""
    backend = parameters.fill_backend(snapshot.the_cluster, vm)
    described = [
        f"create instance {vm.name} on {' and '.join(nodes)}, hypervisor {vm.hypervisor}",
        f"memory {_memory(backend)} MiB, virtual processors {backend['vcpus']}",
    ]
    described += [f"create disk {index} of {disk.size} MiB ({disk.dev_type})" for index, disk in enumerate(vm.disks)]
    described += [
        _nic(index, nic, net=snapshot.networks.get(nic.network) if nic.network else None)
        for index, nic in enumerate(vm.nics)
    ]
    if vm.os and vm.disks:
        described.append(f"install {vm.os}")
    if vm.admin_state is instance.AdminState.UP:
        described.append("start the instance")
    return described


def _memory(backend: Mapping[str, object]) -> str:
    """Return the memory, as a range if the guest may give some of it back."""
    smallest, largest = backend["minmem"], backend["maxmem"]
    return str(largest) if smallest == largest else f"{smallest} to {largest}"


def _nic(index: int, nic: instance.Nic, *, net: network.Network | None) -> str:
    where = f", network {net.name}" if net else ""
    texts = [ip + (_pool(net, ip) if net else "") for ip in nic.ip]
    return f"NIC {index}: {nic.mac}, addresses {', '.join(texts) or 'none'}{where}"


def _pool(net: network.Network, ip: str) -> str:
    """Return which pool of a network an address is from; empty for an address that is in no pool."""
    address = ranges.parse_address(ip)
    for subnet in net.subnets:
        for pool in subnet.pools:
            family, run = ranges.known_range(pool.range)
            if family is address.family and address.value in run:
                return f" (pool {pool.name or pool.range})"
    return ""
