"""What a node has, as its kernel tells: memory, processors, boot id, room for disks. And what is wrong with it.

``handlers`` calls. Where the kernel's files are missing (a node that is simulated) the numbers are zero.
"""

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.node.membership import ssconf
from gantry.rpc import calls
from gantry.runtime import interface

MEMORY = "/proc/meminfo"
PROCESSORS = "/proc/cpuinfo"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The limit of contracts/commands.md#cluster-verify; certificates and timestamps go wrong beyond it.
CLOCK_SKEW = 150.0


def _text(disk: interface.Disk, path: str) -> str:
    return disk.read(path).decode() if disk.exists(path) else ""


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split lines of ``key : value``."""
    split = [line.partition(":") for line in text.splitlines()]
    return [(key.strip(), value.strip()) for key, _, value in split]


def _memory(disk: interface.Disk) -> tuple[int, int]:
    """Return total and free memory in MiB; what the kernel would give up for a guest counts as free."""
    found = dict(_pairs(_text(disk, MEMORY)))
    total, free = (int(found.get(key, "0 kB").split()[0]) // 1024 for key in ("MemTotal", "MemAvailable"))
    return total, free


async def _below(registry: drivers.Registry) -> tuple[int, int] | None:
    """Return the memory of a machine whose kernel does not have all of it, because it runs on a hypervisor itself."""
    for hypervisor in registry.hypervisors.values():
        try:
            found = await hypervisor.memory()
        except errors.GantryError:
            continue  # ``verify`` tells what is wrong with it
        if found:
            return found
    return None


def boot_id(disk: interface.Disk) -> str:
    """Return what changes with each boot of the machine."""
    return _text(disk, BOOT_ID).strip()


async def status(
    disk: interface.Disk,
    registry: drivers.Registry,
    *,
    accelerators: accelerator_probe.Accelerators,
    wanted: calls.NodeInfo,
) -> calls.NodeStatus:
    """Return the node's resources, its accelerator when that is asked for."""
    total, free = await _below(registry) or _memory(disk)
    processors = _pairs(_text(disk, PROCESSORS))
    sockets = {value for key, value in processors if key == "physical id"}
    found = await accelerators.current(again=True) if wanted.probe else accelerator_probe.UNKNOWN
    return calls.NodeStatus(
        bootid=boot_id(disk),
        memory_total=total,
        memory_free=free,
        memory_node=total - free,
        cpu_total=sum(key == "processor" for key, _ in processors),
        cpu_sockets=len(sockets) or 1,
        storage=tuple([await _room(registry, unit) for unit in wanted.storage]),
        accelerator=found.accelerator,
        accelerator_reason=found.reason,
    )


async def _room(registry: drivers.Registry, unit: calls.StorageUnit) -> calls.StorageInfo:
    try:
        return await registry.block_device(unit.kind).storage(unit.name)
    except (errors.GantryError, OSError) as error:
        return calls.StorageInfo(kind=unit.kind, path=unit.name, free=0, total=0, problem=str(error))


async def verify(
    runtime: interface.Runtime, registry: drivers.Registry, *, files: ssconf.Files, wanted: calls.NodeVerify
) -> dict[str, list[str]]:
    """Check a node for what the cluster expects; checks without complaints are there, with an empty list."""
    return {
        "hypervisor": await _hypervisors(registry, wanted.hypervisors),
        "bridges": await _bridges(registry, wanted),
        "filelist": files.differences(wanted.ssconf),
        "time": _time(runtime.clock.now(), wanted.now),
        "storage": await _storage(registry, wanted.storage),
    }


async def _hypervisors(registry: drivers.Registry, names: tuple[str, ...]) -> list[str]:
    complaints: list[str] = []
    for name in names:
        try:
            complaints += await registry.hypervisor(name).verify()
        except errors.GantryError as error:
            complaints.append(str(error))
    return complaints


async def _bridges(registry: drivers.Registry, wanted: calls.NodeVerify) -> list[str]:
    complaints: list[str] = []
    plain = [calls.Nic(index=0, uuid="", mac="", mode="bridged", link=name) for name in wanted.bridges]
    for nic in (*plain, *wanted.nics):
        try:
            await registry.nic(nic.mode).validate(nic)
        except errors.GantryError as error:
            complaints.append(str(error))
    return complaints


def _time(here: float, there: float) -> list[str]:
    skew = here - there
    return [f"the node's clock is {skew:+.0f} s off"] if there and abs(skew) > CLOCK_SKEW else []


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
