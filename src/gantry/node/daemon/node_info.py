"""The resources of a node, as its kernel reports them (memory, processors, boot id, free disk space), and its faults.

``handlers`` calls it. If the kernel's files are missing, as on a simulated node, the numbers are zero.
"""

from gantry import errors, security
from gantry.node import drivers
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.node.membership import ssconf
from gantry.rpc import calls
from gantry.runtime import interface

MEMORY = "/proc/meminfo"
PROCESSORS = "/proc/cpuinfo"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
CLOCK_SKEW_SECONDS = 150.0
DAY_SECONDS = 86400.0
"""The limit of contracts/commands.md#cluster-verify; certificates and timestamps are unreliable beyond it."""


def _text(disk: interface.Disk, path: str) -> str:
    return disk.read(path).decode() if disk.exists(path) else ""


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split lines of ``key : value``."""
    split = [line.partition(":") for line in text.splitlines()]
    return [(key.strip(), value.strip()) for key, _, value in split]


def _memory(disk: interface.Disk) -> tuple[int, int]:
    """Return total and free memory in MiB; memory that the kernel can reclaim for a guest counts as free."""
    amounts = dict(_pairs(_text(disk, MEMORY)))
    total, free = (int(amounts.get(key, "0 kB").split()[0]) // 1024 for key in ("MemTotal", "MemAvailable"))
    return total, free


async def _hypervisor_memory(registry: drivers.Registry) -> tuple[int, int] | None:
    """Return total and free MiB of the machine if a hypervisor manages them, and the kernel has only a part (Xen)."""
    for hypervisor in registry.hypervisors.values():
        try:
            amounts = await hypervisor.memory()
        except errors.GantryError:
            continue  # ``verify`` reports what is wrong with the hypervisor
        if amounts:
            return amounts
    return None


def boot_id(disk: interface.Disk) -> str:
    """Return the kernel's random id of this boot, which is different after each boot; empty if unknown."""
    return _text(disk, BOOT_ID).strip()


async def status(
    disk: interface.Disk,
    registry: drivers.Registry,
    *,
    accelerators: accelerator_probe.Accelerators,
    request: calls.NodeInfo,
) -> calls.NodeStatus:
    """Return the node's resources, with its accelerator if the call requests a probe."""
    total, free = await _hypervisor_memory(registry) or _memory(disk)
    processors = _pairs(_text(disk, PROCESSORS))
    sockets = {value for key, value in processors if key == "physical id"}
    probed = await accelerators.current(again=True) if request.probe else accelerator_probe.UNKNOWN
    return calls.NodeStatus(
        bootid=boot_id(disk),
        memory_total=total,
        memory_free=free,
        memory_node=total - free,
        cpu_total=sum(key == "processor" for key, _ in processors),
        cpu_sockets=len(sockets) or 1,
        storage=tuple([await _storage_info(registry, unit) for unit in request.storage]),
        accelerator=probed.accelerator,
        accelerator_reason=probed.reason,
    )


async def _storage_info(registry: drivers.Registry, unit: calls.StorageUnit) -> calls.StorageInfo:
    try:
        return await registry.block_device(unit.kind).storage(unit.name)
    except (errors.GantryError, OSError) as error:
        return calls.StorageInfo(kind=unit.kind, path=unit.name, free=0, total=0, problem=str(error))


async def verify(
    runtime: interface.Runtime,
    registry: drivers.Registry,
    *,
    files: ssconf.Files,
    lib: str,
    request: calls.NodeVerify,
) -> dict[str, list[str]]:
    """Check a node against the cluster's expectations; return the complaints by check, empty lists included.

    ``lib`` is the folder with the node's certificates.
    """
    return {
        "hypervisor": await _hypervisors(registry, request.hypervisors),
        "bridges": await missing_bridges(registry, request),
        "filelist": files.differences(request.ssconf),
        "time": _time(runtime.clock.now(), request.now),
        "storage": await _storage(registry, request.storage),
        "certificates": _certificates(runtime, lib, request),
    }


def _certificates(runtime: interface.Runtime, lib: str, request: calls.NodeVerify) -> list[str]:
    names = ["certs/node.pem", "rapi.pem", *(["certs/authority.pem"] if request.authority else [])]
    complaints: list[str] = []
    for path in (f"{lib}/{name}" for name in names):
        if not runtime.disk.exists(path):
            continue
        try:
            seconds = security.end_of(runtime.disk.read(path)) - runtime.clock.now()
        except ValueError as error:
            complaints.append(f"{path} is not a certificate: {error}")
            continue
        if seconds < request.certificate_seconds:
            complaints.append(
                f"{path} {calls.ENDS_SOON} {seconds / DAY_SECONDS:.0f} days" if seconds > 0 else f"{path} has ended"
            )
    return complaints


async def _hypervisors(registry: drivers.Registry, names: tuple[str, ...]) -> list[str]:
    complaints: list[str] = []
    for name in names:
        try:
            complaints += await registry.hypervisor(name).verify()
        except errors.GantryError as error:
            complaints.append(str(error))
    return complaints


async def missing_bridges(registry: drivers.Registry, request: calls.NodeVerify) -> list[str]:
    """Return why NICs cannot be plugged in on the bridges and in the networks of a request."""
    complaints: list[str] = []
    plain = [calls.Nic(index=0, uuid="", mac="", mode="bridged", link=name) for name in request.bridges]
    for nic in (*plain, *request.nics):
        try:
            await registry.nic(nic.mode).validate(nic)
        except errors.GantryError as error:
            what = f"network {nic.network.name}: " if nic.network else ""
            complaints.append(what + str(error).removeprefix(f"NIC {nic.index}: "))
    return complaints


def _time(node_time: float, master_time: float) -> list[str]:
    skew = node_time - master_time
    return [f"the node's clock is {skew:+.0f} s off"] if master_time and abs(skew) > CLOCK_SKEW_SECONDS else []


async def _storage(registry: drivers.Registry, units: tuple[calls.StorageUnit, ...]) -> list[str]:
    complaints: list[str] = []
    for unit in units:
        try:
            complaints += await registry.block_device(unit.kind).verify(unit.name)
        except errors.GantryError as error:
            complaints.append(f"{unit.kind}: {error}")
        except OSError as error:
            complaints.append(f"{unit.kind}: {error.strerror}: {error.filename}")
    return complaints
