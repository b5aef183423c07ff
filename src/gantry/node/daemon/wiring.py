"""Assembles a whole node from its components, for the node daemon and for each node of a simulation.

A new driver needs a line here.
"""

import dataclasses

from gantry.node import drivers, permits
from gantry.node.daemon import console_streams, disk_calls, handlers, hooks, node_info, packages, server, usage
from gantry.node.hypervisors import chroot, fake
from gantry.node.hypervisors.kvm import accelerator_probe, driver
from gantry.node.hypervisors.xen import driver as xen
from gantry.node.hypervisors.xen import machine
from gantry.node.membership import callers, enrollment, fence, replica, ssconf
from gantry.node.network import segment_bridges, taps
from gantry.node.os import backup, os_definitions, stream_tls
from gantry.node.storage import external, file, lvm, plain, programs, qcow2_export
from gantry.node.storage.drbd import driver as drbd
from gantry.node.storage.drbd import setup
from gantry.runtime import interface, paths
from gantry.runtime import measures as runtime_measures


def registry(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    accelerators: accelerator_probe.Accelerators,
    secure: bool = True,
) -> drivers.Registry:
    """Return the registry of all drivers; ``secure`` as in ``membership.enrollment.Enrolment``."""
    tools, views = programs.Programs(runtime), qcow2_export.Views(runtime, f"{folders.run}/views")
    volumes = plain.Plain(lvm.Lvm(tools), tools)
    segments = segment_bridges.Segments(runtime)
    mirrors = drbd.Drbd(setup.Setup(runtime, tools), tools, volumes=volumes)
    parts = drivers.Registry(
        runtime,
        storage={
            file.OWN: file.FileStorage(runtime, folders.file_storage, views=views),
            file.SHARED: file.FileStorage(runtime, folders.shared_file_storage, views=views, kind=file.SHARED),
            plain.KIND: volumes,
            drbd.KIND: mirrors,
            external.KIND: external.External(
                runtime, folders, providers=external.Providers(runtime, folders.storage_providers)
            ),
        },
        mirrors={drbd.KIND: mirrors},
        nics={
            "bridged": taps.Bridged(runtime, folders.etc, segments=segments),
            "routed": taps.Routed(runtime, folders.etc, segments=segments),
        },
    )
    hypervisors: dict[str, drivers.Hypervisor] = {
        driver.NAME: driver.Kvm(runtime, folders, parts=parts, accelerators=accelerators),
        chroot.NAME: chroot.Chroot(runtime, folders, parts=parts),
        fake.NAME: fake.Fake(runtime.disk, folders.instances, runtime.network),
    }
    for kind in (machine.PARAVIRTUAL, machine.FULL):
        hypervisors[kind] = xen.Xen(kind, runtime, folders, parts=parts, secure=secure)
    return dataclasses.replace(parts, hypervisors=hypervisors)


def node(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    software: str,
    secure: bool = True,
    visitors: server.Visitors | None = None,
    measures: bool = False,
    counts: runtime_measures.Measures | None = None,
) -> server.Agent:
    """Return a node's server, whose ``run`` serves until cancelled; ``secure`` as in ``enrollment.Enrolment``.

    ``visitors`` and ``counts`` as in ``server.Agent``. Only with ``measures`` the node reads once a minute what it and
    its guests use.
    """
    identity = enrollment.Enrolment(runtime, folders, secure=secure)
    runtime = permits.Machine(runtime, name=identity.name)
    accelerators = accelerator_probe.Accelerators(runtime, folders, bootid=node_info.boot_id(runtime.disk))
    node_drivers = registry(runtime, folders, accelerators=accelerators, secure=secure)
    files = ssconf.Files(runtime.disk, folders)
    barrier = fence.Fence(runtime, folders, files=files)
    clients = callers.Callers(files, identity, barrier)
    definitions = os_definitions.Definitions(runtime, folders, registry=node_drivers)
    own_packages = packages.Packages(runtime)
    recorder = usage.Recorder(runtime, node_drivers, folders.usage)
    parts = handlers.Handlers(
        runtime,
        node_drivers,
        queue=folders.queue,
        lib=folders.lib,
        files=files,
        barrier=barrier,
        replica_store=replica.Replica(runtime, folders, files=files, barrier=barrier, sign=clients.grant),
        definitions=definitions,
        hook_scripts=hooks.Hooks(runtime, folders),
        accelerators=accelerators,
        disks=disk_calls.Disks(
            node_drivers,
            disk=runtime.disk,
            folders=folders,
            volumes=lvm.Lvm(programs.Programs(runtime)),
            providers=external.Providers(runtime, folders.storage_providers),
        ),
        own_packages=own_packages,
        recorder=recorder,
        consoles=console_streams.Consoles(
            runtime,
            node_drivers,
            certificates=folders.certificates,
            tls=stream_tls.Contexts(runtime.disk, folders, secure=secure),
        ),
        exports=backup.Backup(runtime, folders, registry=node_drivers, definitions=definitions, secure=secure),
    )

    async def settle() -> None:
        await runtime.processes.track(f"{folders.run}/programs")
        await own_packages.remember()

    return server.Agent(
        runtime,
        identity,
        table=parts.table(),
        clients=clients,
        barrier=barrier,
        call_permits=permits.Permits(runtime.clock, runtime.random.uuid(), check=barrier.check_successor),
        forget=parts.forget,
        beside=(parts.prepare, *((recorder.run,) if measures else ())),
        settle=settle,
        software=software,
        visitors=visitors,
        counts=counts,
    )
