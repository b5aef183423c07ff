"""Making an instance from an export: finding it, filling in what was not asked for, its steps.

``create`` uses it for the mode ``import``. What the opcode says counts; what it leaves out comes from the export. An
instance that gets its old name back gets its MAC addresses and IP addresses back too; under another name it gets new
ones, for the old instance may still be there.

A dump is read once: its checksum is known when all of it has gone into the disk, and what does not fit fails the step,
which takes all that was made away again. To compute it before would make a large import twice as long.
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
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Found:
    """An export: where it is, and what is in it."""

    node: targets.Target
    name: str
    content: manifest.Export


async def find(environment: base.Environment, snapshot: states.Snapshot, op: opcodes.InstanceCreate) -> Found:
    """Return the export that an opcode asks for, with a dump for every disk.

    NotFoundError, WrongStateError where a dump or the description is missing.
    """
    name = (op.src_path or op.instance_name).rstrip("/").rpartition("/")[2]
    node = await _node(environment, snapshot, name, named=op.src_node)
    text = await environment.nodes.call(node, calls.ExportInfo(export=name))
    content = manifest.read(text, where=f"export {name} on node {node.name}")
    found = Found(node, name, content)
    there = await environment.nodes.call(node, calls.ExportDumpList(export=name))
    for index, dump in enumerate(content.dumps):
        if dump.file not in there:
            raise errors.WrongStateError(f"{_damaged(found, index)} is not there")
    return found


async def _node(
    environment: base.Environment, snapshot: states.Snapshot, name: str, *, named: str | None
) -> targets.Target:
    """Return the node that has the export: the one named, or the only one."""
    if named:
        return snapshot.target(snapshot.node(named))
    online = [snapshot.target(node) for node in snapshot.nodes.values() if not node.offline]
    where = sorted(online, key=lambda target: target.name)
    answers = await environment.nodes.fan_out(where, calls.ExportList())
    found = [answer.target for answer in answers if name in (answer.value or ())]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.InvalidError(
            f"several nodes have an export {name}: {', '.join(target.name for target in found)}",
            hint="say which with --src-node",
        )
    raise errors.NotFoundError(f"no node has an export {name}", hint="gnt-backup list shows those there are")


def _damaged(found: Found, index: int) -> str:
    dump = found.content.dumps[index].file
    return f"export {found.name} on node {found.node.name} is damaged: disk {index} ({dump})"


def _check(found: Found, index: int, digest: str) -> None:
    """Raise WrongStateError when a dump has another checksum than was written down, if one was."""
    wanted = found.content.dumps[index].digest
    if wanted and digest != wanted:
        raise errors.WrongStateError(
            f"{_damaged(found, index)} has the checksum {digest}, {wanted} was written down",
            hint="nothing that was made is left; take another export",
        )


async def _explain(environment: base.Environment, found: Found, index: int) -> None:
    """Raise WrongStateError when a dump that did not go through is damaged; a node that is away has no answer."""
    dump = found.content.dumps[index].file
    with contextlib.suppress(errors.RemoteError):
        there = await environment.nodes.call(found.node, calls.ExportVerify(export=found.name, dumps=(dump,)))
        _check(found, index, there.get(dump, "of nothing"))


def completed(op: opcodes.InstanceCreate, content: manifest.Export) -> opcodes.InstanceCreate:
    """Return the opcode with all that it leaves to the export; InvalidError when the disks cannot hold it."""
    same = op.instance_name == content.instance
    disks = op.disks or tuple(
        opcodes.DiskSpec(size=dump.size, mode="ro" if dump.mode == "ro" else "rw", name=dump.name or None)
        for dump in content.dumps
    )
    _check_disks(disks, content)
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


def _check_disks(disks: tuple[opcodes.DiskSpec, ...], content: manifest.Export) -> None:
    if len(disks) < len(content.dumps):
        raise errors.InvalidError(
            f"the export has {len(content.dumps)} disks, {len(disks)} are not enough", hint="leave --disk out"
        )
    for index, (disk, dump) in enumerate(zip(disks, content.dumps, strict=False)):
        size = parameters.size(disk.size) if disk.size != "auto" else dump.size
        if size < dump.size:
            raise errors.InvalidError(f"disk {index} had {dump.size} MiB when it was exported, {size} is not enough")


def _nic(spec: opcodes.NicSpec, *, same: bool) -> opcodes.NicSpec:
    return spec if same else structs.replace(spec, mac="auto", ip=None)


def steps(
    environment: base.Environment, found: Found, whole: calls.Instance, *, target: targets.Target, debug: int
) -> list[base.Step]:
    """Return the steps that fill an instance's new disks on ``target``."""
    return [
        _step(environment, found, whole, index, target=target, debug=debug) for index in range(len(found.content.dumps))
    ]


def _step(
    environment: base.Environment,
    found: Found,
    whole: calls.Instance,
    index: int,
    *,
    target: targets.Target,
    debug: int,
) -> base.Step:
    carrier = transfer.Transfer(environment, source=found.node, sink=target)
    content, disk = found.content, whole.disks[index]
    begin = calls.StreamEnd(export=found.name, dump=content.dumps[index].file)
    into = calls.StreamEnd(
        instance=whole, disk=disk, scripted=content.scripted, compress=content.compression, debug=debug
    )

    async def copy() -> None:
        try:
            await carrier.run(begin, into)
        except errors.JobCanceledError:
            raise
        except errors.GantryError:
            await _explain(environment, found, index)
            raise
        if carrier.done:
            _check(found, index, carrier.done.digest)

    text = f"import disk {index} from {found.name} on {found.node.name}"
    return base.Step(text, (carrier.procedure(copy),), (carrier.undo,))


def rename_step(
    environment: base.Environment, found: Found, whole: calls.Instance, *, target: targets.Target, debug: int
) -> base.Step:
    """Return the step that tells the imported system its new name, where its OS has a script for that."""
    old = found.content.instance

    async def rename() -> None:
        definition = await environment.nodes.call(target, calls.OsValidate(name=whole.os.partition("+")[0]))
        if "rename" in definition.scripts:
            call = calls.OsRename(instance=whole, old=old, debug=debug)
            await os_check.run(environment, target, call, whole=whole)
        else:
            environment.log.warning(f"OS {definition.name} has no rename script: on its disks the name is still {old}")

    action = base.Procedure("depends on the scripts of the OS definition", rename)
    return base.Step(f"rename the system from {old} to {whole.name}", (action,))
