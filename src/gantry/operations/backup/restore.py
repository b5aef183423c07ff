"""Create an instance from an export: find the export, complete the opcode from it, and fill the disks.

``create`` uses it for the mode ``import``. Values in the opcode take precedence over those of the export. An instance
that keeps its old name also keeps its MAC and IP addresses; under another name it gets new ones, because the old
instance may still exist.

A dump is read once: its checksum is known only when it is written to the disk completely. A wrong checksum fails the
step, which removes what was created. Computing it first would double the time of a large import.
"""

import contextlib
from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.model import opcodes, parameters
from gantry.operations import base
from gantry.operations.backup import manifest
from gantry.operations.disk_planning import transfer
from gantry.operations.os import os_check
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Source:
    """An export: its node, its name there, and its contents."""

    node: targets.Target
    name: str
    content: manifest.Export


async def find(environment: base.Environment, snapshot: states.Snapshot, op: opcodes.InstanceCreate) -> Source:
    """Return the export that an opcode requests, with a dump for every disk.

    Raises NotFoundError, WrongStateError if a dump or the description is missing.
    """
    name = (op.src_path or op.instance_name).rstrip("/").rpartition("/")[2]
    node = await _node(environment, snapshot, name, named=op.src_node)
    text = await environment.nodes.call(node, calls.ExportInfo(export=name))
    content = manifest.read(text, where=f"export {name} on node {node.name}")
    export = Source(node, name, content)
    dumps = await environment.nodes.call(node, calls.ExportDumpList(export=name))
    for index, dump in enumerate(content.dumps):
        if dump.file not in dumps:
            raise errors.WrongStateError(f"{_damaged(export, index)} is missing")
    return export


async def _node(
    environment: base.Environment, snapshot: states.Snapshot, name: str, *, named: str | None
) -> targets.Target:
    """Return the node that has the export: the requested node, or the only node with it."""
    if named:
        return snapshot.target(snapshot.node(named))
    online = [snapshot.target(node) for node in snapshot.nodes.values() if not node.offline]
    targets_online = sorted(online, key=lambda target: target.name)
    answers = await environment.nodes.fan_out(targets_online, calls.ExportList())
    nodes = [answer.target for answer in answers if name in (answer.value or ())]
    if len(nodes) == 1:
        return nodes[0]
    if nodes:
        raise errors.InvalidError(
            f"several nodes have an export {name}: {', '.join(target.name for target in nodes)}",
            hint="choose a node with --src-node",
        )
    raise errors.NotFoundError(f"no node has an export {name}", hint="gnt-backup list shows the exports")


def _damaged(export: Source, index: int) -> str:
    dump = export.content.dumps[index].file
    return f"export {export.name} on node {export.node.name} is damaged: disk {index} ({dump})"


def _check(export: Source, index: int, digest: str) -> None:
    """Raise WrongStateError if a dump's checksum differs from the recorded one, if any."""
    recorded = export.content.dumps[index].digest
    if recorded and digest != recorded:
        raise errors.WrongStateError(
            f"{_damaged(export, index)} has the checksum {digest}, but {recorded} is recorded",
            hint="the new instance was removed again; use another export",
        )


async def _explain(environment: base.Environment, export: Source, index: int) -> None:
    """Raise WrongStateError if a dump whose copy failed is damaged; a node that does not answer is ignored."""
    dump = export.content.dumps[index].file
    with contextlib.suppress(errors.RemoteError):
        digests = await environment.nodes.call(export.node, calls.ExportVerify(export=export.name, dumps=(dump,)))
        _check(export, index, digests.get(dump, "of nothing"))


def completed(op: opcodes.InstanceCreate, content: manifest.Export) -> opcodes.InstanceCreate:
    """Return the opcode completed from the export; raises InvalidError if the disks are too few or too small."""
    same = op.instance_name == content.instance
    disks = _requested(op.disks, content) or tuple(
        opcodes.DiskSpec(size=dump.size, mode="ro" if dump.mode == "ro" else "rw", name=dump.name or None)
        for dump in content.dumps
    )
    hypervisor = op.hypervisor or content.hypervisor
    return structs.replace(
        op,
        disks=disks,
        nics=op.nics or tuple(_nic(spec, same=same) for spec in content.nics),
        disk_template=op.disk_template or content.disk_template,
        os_type=op.os_type or content.os or None,
        hypervisor=hypervisor,
        hvparams={**(content.hvparams if hypervisor == content.hypervisor else {}), **op.hvparams},
        beparams={**_backend(content, op), **op.beparams},
        osparams={**content.osparams, **op.osparams},
        tags=op.tags or tuple(content.tags),
    )


def _backend(content: manifest.Export, op: opcodes.InstanceCreate) -> dict[str, str]:
    """Return the export's backend parameters without those that ``memory`` in the opcode sets."""
    replaced = parameters.MEMORY if "memory" in op.beparams else ()
    return {name: value for name, value in content.beparams.items() if name not in replaced}


def _requested(disks: tuple[opcodes.DiskSpec, ...], content: manifest.Export) -> tuple[opcodes.DiskSpec, ...]:
    """Return requested disks, those without a size with that of the export; InvalidError for too few or too small."""
    if disks and len(disks) < len(content.dumps):
        raise errors.InvalidError(
            f"the export has {len(content.dumps)} disks, the request only {len(disks)}", hint="omit --disk"
        )
    sized = [
        structs.replace(disk, size=dump.size) if disk.size == "auto" else disk
        for disk, dump in zip(disks, content.dumps, strict=False)
    ]
    for index, (disk, dump) in enumerate(zip(sized, content.dumps, strict=False)):
        size = parameters.size(disk.size)
        if size < dump.size:
            raise errors.InvalidError(f"disk {index} had {dump.size} MiB when it was exported, {size} MiB is too small")
    return (*sized, *disks[len(sized) :])


def _nic(spec: opcodes.NicSpec, *, same: bool) -> opcodes.NicSpec:
    return spec if same else structs.replace(spec, mac="auto", ip=None)


def steps(
    environment: base.Environment, export: Source, whole: calls.Instance, *, target: targets.Target, debug: int
) -> list[base.Step]:
    """Return the steps that fill an instance's new disks on ``target``."""
    return [
        _step(environment, export, whole, index, target=target, debug=debug)
        for index in range(len(export.content.dumps))
    ]


def _step(
    environment: base.Environment,
    export: Source,
    whole: calls.Instance,
    index: int,
    *,
    target: targets.Target,
    debug: int,
) -> base.Step:
    stream = transfer.Transfer(environment, source=export.node, sink=target)
    content, disk = export.content, whole.disks[index]
    begin = calls.StreamEnd(export=export.name, dump=content.dumps[index].file)
    end = calls.StreamEnd(
        instance=whole, disk=disk, scripted=content.scripted, compress=content.compression, debug=debug
    )

    async def copy() -> None:
        try:
            await stream.run(begin, end)
        except errors.JobCanceledError:
            raise
        except errors.GantryError:
            await _explain(environment, export, index)
            raise
        if stream.done:
            _check(export, index, stream.done.digest)

    text = f"import disk {index} from {export.name} on {export.node.name}"
    return base.Step(text, (stream.procedure(copy),), (stream.undo,))


def rename_step(
    environment: base.Environment, export: Source, whole: calls.Instance, *, target: targets.Target, debug: int
) -> base.Step:
    """Return the step that renames the imported operating system, if its OS has a rename script."""
    old = export.content.instance

    async def rename() -> None:
        definition = await environment.nodes.call(target, calls.OsValidate(name=whole.os.partition("+")[0]))
        if "rename" in definition.scripts:
            call = calls.OsRename(instance=whole, old=old, debug=debug)
            await os_check.run(environment, target, call, whole=whole)
        else:
            environment.log.warning(f"OS {definition.name} has no rename script: its disks keep the name {old}")

    action = base.Procedure("depends on the scripts of the OS definition", rename)
    return base.Step(f"rename the operating system from {old} to {whole.name}", (action,))
