"""A whole node, put together from its parts: what the node daemon runs, and what a simulation runs many of.

A new driver gets a line here.
"""

import dataclasses

from gantry.node import (
    agent,
    drivers,
    enrolment,
    fake,
    file,
    handlers,
    hooks,
    kvm,
    nic,
    probe,
    replica,
    resources,
    scripts,
    ssconf,
)
from gantry.runtime import interface, paths


def registry(runtime: interface.Runtime, folders: paths.Paths, *, accelerators: probe.Accelerators) -> drivers.Registry:
    """Return all drivers."""
    parts = drivers.Registry(
        node=runtime.host,
        storage={"file": file.FileStorage(runtime.disk, folders.file_storage, node=runtime.host)},
        nics={"bridged": nic.Bridged(runtime, folders.etc), "routed": nic.Routed(runtime, folders.etc)},
    )
    hypervisors: dict[str, drivers.Hypervisor] = {
        kvm.NAME: kvm.Kvm(runtime, folders, parts=parts, accelerators=accelerators),
        fake.NAME: fake.Fake(runtime.disk, folders.instances),
    }
    return dataclasses.replace(parts, hypervisors=hypervisors)


def node(runtime: interface.Runtime, folders: paths.Paths, *, software: str, secure: bool = True) -> agent.Agent:
    """Return the agent of a node, whose ``run`` is the node's whole life; ``secure`` as in ``enrolment.Enrolment``."""
    accelerators = probe.Accelerators(runtime, folders, bootid=resources.boot_id(runtime.disk))
    found = registry(runtime, folders, accelerators=accelerators)
    files = ssconf.Files(runtime.disk, folders)
    parts = handlers.Handlers(
        runtime,
        found,
        queue=folders.queue,
        files=files,
        copy=replica.Replica(runtime, folders, files=files),
        definitions=scripts.Definitions(runtime, folders, registry=found),
        hook_scripts=hooks.Hooks(runtime, folders),
        accelerators=accelerators,
    )
    return agent.Agent(
        runtime,
        enrolment.Enrolment(runtime, folders, secure=secure),
        table=parts.table(),
        forget=parts.forget,
        prepare=parts.prepare,
        software=software,
    )
