"""A whole node, put together from its parts: what the node daemon runs, and what a simulation runs many of.

A new driver gets a line here.
"""

import dataclasses

from gantry.node import drivers
from gantry.node.daemon import disk_calls, handlers, hooks, node_info, server
from gantry.node.hypervisors import chroot, fake
from gantry.node.hypervisors.kvm import accelerator_probe, driver
from gantry.node.hypervisors.xen import driver as xen
from gantry.node.hypervisors.xen import machine
from gantry.node.membership import enrollment, fence, replica, ssconf
from gantry.node.network import segment_bridges, taps
from gantry.node.os import backup, os_definitions
from gantry.node.storage import external, file, lvm, plain, programs, qcow2_export
from gantry.node.storage.drbd import driver as drbd
from gantry.node.storage.drbd import setup
from gantry.runtime import interface, paths


def registry(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    accelerators: accelerator_probe.Accelerators,
    secure: bool = True,
) -> drivers.Registry:
    """Return all drivers; ``secure`` as in ``membership.enrollment.Enrolment``."""
    tools, shown = programs.Programs(runtime), qcow2_export.Views(runtime, f"{folders.run}/views")
    volumes = plain.Plain(lvm.Lvm(tools), tools)
    made = segment_bridges.Segments(runtime)
    mirrored = drbd.Drbd(setup.Setup(runtime, tools), tools, volumes=volumes)
    parts = drivers.Registry(
        node=runtime.host,
        storage={
            file.OWN: file.FileStorage(runtime, folders.file_storage, shown=shown),
            file.SHARED: file.FileStorage(runtime, folders.shared_file_storage, shown=shown, kind=file.SHARED),
            plain.KIND: volumes,
            drbd.KIND: mirrored,
            external.KIND: external.External(
                runtime, folders, providers=external.Providers(runtime, folders.storage_providers)
            ),
        },
        mirrors={drbd.KIND: mirrored},
        nics={
            "bridged": taps.Bridged(runtime, folders.etc, made=made),
            "routed": taps.Routed(runtime, folders.etc, made=made),
        },
    )
    hypervisors: dict[str, drivers.Hypervisor] = {
        driver.NAME: driver.Kvm(runtime, folders, parts=parts, accelerators=accelerators),
        chroot.NAME: chroot.Chroot(runtime, folders, parts=parts),
        fake.NAME: fake.Fake(runtime.disk, folders.instances),
    }
    for kind in (machine.PARAVIRTUAL, machine.FULL):
        hypervisors[kind] = xen.Xen(kind, runtime, folders, parts=parts, secure=secure)
    return dataclasses.replace(parts, hypervisors=hypervisors)


def node(runtime: interface.Runtime, folders: paths.Paths, *, software: str, secure: bool = True) -> server.Agent:
    """Return a node's server, whose ``run`` is the node's whole life; ``secure`` as in ``enrollment.Enrolment``."""
    accelerators = accelerator_probe.Accelerators(runtime, folders, bootid=node_info.boot_id(runtime.disk))
    found = registry(runtime, folders, accelerators=accelerators, secure=secure)
    files = ssconf.Files(runtime.disk, folders)
    barrier = fence.Fence(runtime, folders, files=files)
    definitions = os_definitions.Definitions(runtime, folders, registry=found)
    parts = handlers.Handlers(
        runtime,
        found,
        queue=folders.queue,
        files=files,
        copy=replica.Replica(runtime, folders, files=files, barrier=barrier),
        definitions=definitions,
        hook_scripts=hooks.Hooks(runtime, folders),
        accelerators=accelerators,
        disks=disk_calls.Disks(
            found,
            volumes=lvm.Lvm(programs.Programs(runtime)),
            providers=external.Providers(runtime, folders.storage_providers),
        ),
        exports=backup.Backup(runtime, folders, registry=found, definitions=definitions, secure=secure),
    )
    return server.Agent(
        runtime,
        enrollment.Enrolment(runtime, folders, secure=secure),
        table=parts.table(),
        barrier=barrier,
        forget=parts.forget,
        prepare=parts.prepare,
        software=software,
    )
