"""What units require before they change the disks of an instance: locks, its state, free space, sources."""

from collections.abc import Collection, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, templates
from gantry.operations import base, fill
from gantry.operations.disk_planning import disk_owners, volumes
from gantry.operations.placement import builtin_allocator
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


def locks(snapshot: states.Snapshot, vm: instance.Instance) -> lock.LockSet:
    """Lock the instance exclusively, its nodes shared."""
    return {
        (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
        **{(lock.Level.NODE, node): lock.Mode.SHARED for node in vm.nodes},
    }


async def check_free_space(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, *, only: Collection[str]
) -> None:
    """Refuse new disks (UUIDs) that exceed the free space of the primary node; raises NoRoomError.

    Logical volumes are not checked here but by ``choose_physical_volumes``; storage providers do not report free space.
    """
    disks = [disk for disk in vm.disks if disk.uuid in only and disk.dev_type in templates.BY_NAME]
    if not disks:
        return
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    ask = calls.NodeInfo(storage=(calls.StorageUnit(kind=disks[0].dev_type),))
    if reason := builtin_allocator.full(await environment.nodes.call(target, ask), sum(disk.size for disk in disks)):
        raise errors.NoRoomError(f"node {target.name} cannot take the disks of instance {vm.name}: {reason}")


async def running(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance
) -> calls.RunningInstance | None:
    """Ask the primary node whether the instance runs; raises EnvironmentFaultError when the node is offline."""
    node = snapshot.nodes[vm.primary_node]
    if node.offline:
        raise errors.EnvironmentFaultError(f"primary node {node.name} of instance {vm.name} is offline")
    ask = calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name)
    return await environment.nodes.call(snapshot.target(node), ask)


def check_stopped(vm: instance.Instance, running_instance: calls.RunningInstance | None) -> None:
    """Refuse an instance that runs."""
    if running_instance:
        raise errors.WrongStateError(f"instance {vm.name} is running", hint=f"gnt-instance stop {vm.name}")


def index_of(vm: instance.Instance, index: int) -> int:
    """Return the index of a disk that exists; raises NotFoundError."""
    if index >= len(vm.disks):
        raise errors.NotFoundError(
            f"instance {vm.name} has no disk {index}", hint=f"it has {len(vm.disks)} disks, numbered from 0"
        )
    return index


async def adoptable(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, specs: Sequence[opcodes.DiskSpec]
) -> tuple[list[int], volumes.Sources]:
    """Return the sizes that the disks will have, and the sources of adopted disks.

    NotFoundError if a source does not exist, NotUniqueError if it is a disk already (``disk_owners``).
    """
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    sizes, adopted, indexes = [], {}, dict[str, int]()
    for spec, disk in zip(specs, fill.fill(snapshot, vm).disks, strict=True):
        size = disk.size
        if spec.adopt:
            source = (*disk.logical_id[:-1], spec.adopt)
            disk_owners.check(snapshot, vm.disks[disk.index], disk.index, node=vm.primary_node, source=source)
            existing = await environment.nodes.call(
                target, calls.BlockdevFind(disk=structs.replace(disk, logical_id=source))
            )
            if existing is None:
                raise errors.NotFoundError(f"disk {disk.index}: {spec.adopt} does not exist on node {target.name}")
            for alias in existing.aliases:
                disk_owners.check(
                    snapshot,
                    vm.disks[disk.index],
                    disk.index,
                    node=vm.primary_node,
                    source=(*source[:-1], alias),
                    link=spec.adopt,
                )
                if alias in indexes:
                    first = indexes[alias]
                    raise errors.InvalidError(
                        f"disks {first} and {disk.index} name the same file: {spec.adopt} is a link to {alias}",
                        hint="name each source once",
                    )
            indexes[spec.adopt] = disk.index
            size, adopted[disk.uuid] = existing.size, source
        sizes.append(size)
    return sizes, adopted
