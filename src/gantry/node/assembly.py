"""A whole node, put together from its parts: what the node daemon runs, and what a simulation runs many of.

A new driver gets a line here.
"""

import dataclasses

from gantry.node import (
    agent,
    backup,
    blockdevs,
    chroot,
    drivers,
    enrolment,
    external,
    fake,
    fence,
    file,
    handlers,
    hooks,
    kvm,
    lvm,
    nic,
    plain,
    probe,
    programs,
    replica,
    resources,
    scripts,
    segments,
    ssconf,
    views,
)
from gantry.node.drbd import driver as drbd
from gantry.node.drbd import setup
from gantry.node.xen import driver as xen
from gantry.node.xen import machine
from gantry.runtime import interface, paths


def registry(
    runtime: interface.Runtime, folders: paths.Paths, *, accelerators: probe.Accelerators, secure: bool = True
) -> drivers.Registry:
    """Return all drivers; ``secure`` as in ``enrolment.Enrolment``."""
    tools, shown = programs.Programs(runtime), views.Views(runtime, f"{folders.run}/views")
    volumes = plain.Plain(lvm.Lvm(tools), tools)
    made = segments.Segments(runtime)
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
            "bridged": nic.Bridged(runtime, folders.etc, made=made),
            "routed": nic.Routed(runtime, folders.etc, made=made),
        },
    )
    hypervisors: dict[str, drivers.Hypervisor] = {
        kvm.NAME: kvm.Kvm(runtime, folders, parts=parts, accelerators=accelerators),
        chroot.NAME: chroot.Chroot(runtime, folders, parts=parts),
        fake.NAME: fake.Fake(runtime.disk, folders.instances),
    }
    for kind in (machine.PARAVIRTUAL, machine.FULL):
        hypervisors[kind] = xen.Xen(kind, runtime, folders, parts=parts, secure=secure)
    return dataclasses.replace(parts, hypervisors=hypervisors)


def node(runtime: interface.Runtime, folders: paths.Paths, *, software: str, secure: bool = True) -> agent.Agent:
    """Return the agent of a node, whose ``run`` is the node's whole life; ``secure`` as in ``enrolment.Enrolment``."""
    accelerators = probe.Accelerators(runtime, folders, bootid=resources.boot_id(runtime.disk))
    found = registry(runtime, folders, accelerators=accelerators, secure=secure)
    files = ssconf.Files(runtime.disk, folders)
    barrier = fence.Fence(runtime, folders, files=files)
    definitions = scripts.Definitions(runtime, folders, registry=found)
    parts = handlers.Handlers(
        runtime,
        found,
        queue=folders.queue,
        files=files,
        copy=replica.Replica(runtime, folders, files=files, barrier=barrier),
        definitions=definitions,
        hook_scripts=hooks.Hooks(runtime, folders),
        accelerators=accelerators,
        disks=blockdevs.Disks(
            found,
            volumes=lvm.Lvm(programs.Programs(runtime)),
            providers=external.Providers(runtime, folders.storage_providers),
        ),
        exports=backup.Backup(runtime, folders, registry=found, definitions=definitions, secure=secure),
    )
    return agent.Agent(
        runtime,
        enrolment.Enrolment(runtime, folders, secure=secure),
        table=parts.table(),
        barrier=barrier,
        forget=parts.forget,
        prepare=parts.prepare,
        software=software,
    )
