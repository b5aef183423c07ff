"""Plans of the units that export, import, reinstall and rename."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import instance, opcodes
from gantry.operations import fill
from gantry.operations.backup import manifest
from gantry.rpc import calls

EXPORT = opcodes.BackupExport(instance_name="vm1", target_node="node2", compress="gzip")
IMPORT = opcodes.InstanceCreate(instance_name="vm1", mode="import", pnode="node3")
REINSTALL = opcodes.InstanceReinstall(instance_name="vm1")
RENAME = opcodes.InstanceRename(instance_name="vm1", new_name="vm2")


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def vm(lab: build.MemoryCluster, name: str = "vm1") -> instance.Instance:
    return lab.state.instance(name)


def run_it(lab: build.MemoryCluster) -> None:
    lab.machine("node1").running["vm1"] = fill.fill(lab.state, vm(lab))


def order(lab: build.MemoryCluster) -> list[str]:
    """Return what was done to the instance and its disks, in order."""
    kinds = calls.InstanceShutdown, calls.InstanceStart, calls.BlockdevSnapshot, calls.StreamSend, calls.BlockdevRemove
    return [type(call).__name__ for _, call in lab.nodes.made if isinstance(call, kinds)]


async def test_with_snapshots_an_instance_is_down_only_while_they_are_taken(lab: build.MemoryCluster) -> None:
    run_it(lab)
    assert await lab.run(EXPORT) == [True, [True]]
    assert order(lab) == ["InstanceShutdown", "BlockdevSnapshot", "InstanceStart", "StreamSend", "BlockdevRemove"]
    (sent,) = lab.nodes.calls_of(calls.StreamSend)
    assert isinstance(sent, calls.StreamSend)
    assert sent.end.disk
    assert sent.end.disk.logical_id[-1].endswith(".snap")


async def test_without_snapshots_it_is_down_until_all_is_copied(lab: build.MemoryCluster) -> None:
    run_it(lab)
    lab.machine("node1").keeps_snapshots = False
    await lab.run(EXPORT)
    assert order(lab) == ["InstanceShutdown", "BlockdevSnapshot", "StreamSend", "InstanceStart"]
    assert any("stays stopped for the whole copy" in line for line in lab.log.lines)


async def test_without_a_shutdown_it_is_not_stopped_at_all(lab: build.MemoryCluster) -> None:
    run_it(lab)
    await lab.run(msgspec.structs.replace(EXPORT, shutdown=False))
    assert order(lab) == ["BlockdevSnapshot", "StreamSend", "BlockdevRemove"]


@pytest.mark.parametrize("failure", [errors.RemoteError("no answer"), errors.NoRoomError("no room")])
async def test_snapshots_that_were_taken_before_a_failure_are_removed(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch, failure: errors.GantryError
) -> None:
    second = msgspec.structs.replace(build.DISK, uuid="d2", logical_id=("file", "/file/vm1/d2"))
    lab.put(msgspec.structs.replace(vm(lab), disks=(build.DISK, second)))
    run_it(lab)
    machine, answer = lab.machine("node1"), build.Machine.answer
    lost = [failure]

    def lose(self: build.Machine, call: calls.Call[object]) -> object:
        if isinstance(call, calls.BlockdevSnapshot) and call.disk.uuid == "d2" and lost:
            if isinstance(failure, errors.RemoteError):
                answer(self, call)
            raise lost.pop()
        return answer(self, call)

    monkeypatch.setattr(build.Machine, "answer", lose)
    before = dict(machine.disks)
    plan = await lab.plan(EXPORT)
    (step,) = (step for step in plan.steps if step.text.startswith("take snapshots"))
    with pytest.raises(type(failure)):
        await lab.do(step)
    await lab.undo(step)
    assert machine.disks == before
    removed = [call.disk.logical_id[-1] for call in lab.nodes.calls_of(calls.BlockdevRemove)]
    assert len(removed) == 1 + isinstance(failure, errors.RemoteError)


async def test_one_that_is_down_is_neither_stopped_nor_started(lab: build.MemoryCluster) -> None:
    await lab.run(EXPORT)
    assert order(lab) == ["StreamSend"]


async def test_what_was_exported_is_imported_with_all_it_had(lab: build.MemoryCluster) -> None:
    before = vm(lab)
    await lab.run(EXPORT)
    await lab.run(opcodes.InstanceRemove(instance_name="vm1"))
    await lab.run(IMPORT)
    after = vm(lab)
    assert (after.os, after.hypervisor, after.disk_template) == (before.os, before.hypervisor, before.disk_template)
    assert [(nic.mac, nic.ip, nic.network) for nic in after.nics] == [
        (nic.mac, nic.ip, nic.network) for nic in before.nics
    ]
    assert [disk.size for disk in after.disks] == [64]
    opened = lab.nodes.calls_of(calls.StreamOpen, "node3")[0]
    assert isinstance(opened, calls.StreamOpen)
    assert (opened.end.compress, opened.end.scripted) == ("gzip", False)


async def test_what_the_opcode_says_counts_more_than_the_export(lab: build.MemoryCluster) -> None:
    await lab.run(EXPORT)
    op = msgspec.structs.replace(
        IMPORT, instance_name="vm2", src_path="vm1", disks=(opcodes.DiskSpec(size=128),), beparams={"memory": "64"}
    )
    await lab.run(op)
    assert [disk.size for disk in vm(lab, "vm2").disks] == [128]
    assert vm(lab, "vm2").beparams == {"minmem": 64, "maxmem": 64}
    assert vm(lab, "vm2").nics[0].mac != vm(lab).nics[0].mac
    assert vm(lab, "vm2").nics[0].ip == ()
    (rename_call,) = lab.nodes.calls_of(calls.OsRename)
    assert isinstance(rename_call, calls.OsRename)
    assert (rename_call.old, rename_call.instance.name) == ("vm1", "vm2")


@pytest.mark.parametrize("default", [0, 32, 128])
async def test_a_disk_without_a_size_has_that_of_the_export_whatever_the_clusters_default_is(
    lab: build.MemoryCluster, default: int
) -> None:
    lab.put(msgspec.structs.replace(lab.state.the_cluster, default_disk_size=default))
    await lab.run(EXPORT)
    again = msgspec.structs.replace(IMPORT, instance_name="vm2", src_path="vm1")
    await lab.run(msgspec.structs.replace(again, disks=(opcodes.DiskSpec(), opcodes.DiskSpec(size=8))))
    assert [disk.size for disk in vm(lab, "vm2").disks] == [64, 8]
    more = msgspec.structs.replace(again, instance_name="vm3", disks=(opcodes.DiskSpec(), opcodes.DiskSpec()))
    if default:
        await lab.run(more)
        assert [disk.size for disk in vm(lab, "vm3").disks] == [64, default]
    else:
        with pytest.raises(errors.InvalidError, match="disk 1 has no size, and the cluster has no default"):
            await lab.run(more)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [((32,), "disk 0 had 64 MiB when it was exported, 32 MiB is too small"), ((64, 0), "disk 1: size 0 is not above")],
)
async def test_a_disk_that_is_too_small_is_refused(lab: build.MemoryCluster, sizes: tuple[int, ...], text: str) -> None:
    await lab.run(EXPORT)
    disks = tuple(opcodes.DiskSpec(size=size) for size in sizes)
    with pytest.raises(errors.InvalidError, match=text):
        await lab.run(msgspec.structs.replace(IMPORT, instance_name="vm2", src_path="vm1", disks=disks))


async def test_a_dump_with_another_checksum_is_named(lab: build.MemoryCluster) -> None:
    await lab.run(EXPORT)
    await lab.run(opcodes.InstanceRemove(instance_name="vm1"))
    machine = lab.machine("node2")
    machine.exports["vm1"] = machine.exports["vm1"].replace("sha256 = d", "sha256 = e")
    with pytest.raises(errors.WrongStateError) as caught:
        await lab.run(IMPORT)
    message = "export vm1 on node node2 is damaged: disk 0 (d1) has the checksum d, but e is recorded"
    assert message in str(caught.value)


async def test_of_two_exports_with_one_name_the_node_has_to_be_said(lab: build.MemoryCluster) -> None:
    await lab.run(EXPORT)
    await lab.run(opcodes.InstanceRemove(instance_name="vm1"))
    lab.machine("node3").exports["vm1"] = lab.machine("node2").exports["vm1"]
    assert "several nodes have an export vm1: node2, node3" in str(await lab.refused(IMPORT))
    await lab.run(msgspec.structs.replace(IMPORT, src_node="node3"))


@pytest.mark.parametrize(
    "text", ["", "no ini", "[export]\nversion = 1\n[instance]\n", "[export]\nversion = 0\nos = x\n"]
)
def test_a_description_that_cannot_be_read_is_damaged(text: str) -> None:
    with pytest.raises(errors.WrongStateError, match=r"the export is damaged: its config\.ini cannot be read"):
        manifest.read(text, where="the export")


async def test_a_reinstallation_with_another_system_forgets_the_parameters_of_the_old_one(
    lab: build.MemoryCluster,
) -> None:
    lab.put(msgspec.structs.replace(vm(lab), os="other", osparams={"greeting": "hi"}))
    await lab.run(REINSTALL)
    assert (vm(lab).os, vm(lab).osparams) == ("other", {"greeting": "hi"})
    await lab.run(msgspec.structs.replace(REINSTALL, os_type="plain"))
    assert (vm(lab).os, vm(lab).osparams) == ("plain", {})
    last = lab.nodes.calls_of(calls.OsAdd)[-1]
    assert isinstance(last, calls.OsAdd)
    assert (last.reinstall, last.instance.os) == (True, "plain")


async def test_a_system_or_parameter_that_is_not_there_is_refused_with_the_nearest_name(
    lab: build.MemoryCluster,
) -> None:
    def reinstall(**fields: object) -> opcodes.InstanceReinstall:
        return msgspec.structs.replace(REINSTALL, **fields)

    assert "no OS definition nothing" in str(await lab.refused(reinstall(os_type="nothing")))
    message = str(await lab.refused(reinstall(os_type="other", osparams={"greetin": "hi"})))
    assert "unknown parameter of OS other: greetin; did you mean greeting?" in message
    machine = lab.machine("node1")
    large = calls.OsScript(name="plain", path="/os/plain", api_versions=(20,), variants=("large", "small"))
    machine.systems = (large,)
    message = str(await lab.refused(reinstall(os_type="plain+larg")))
    assert "OS plain has no variant larg; did you mean large?" in message
    await lab.run(reinstall(os_type="plain+larg", force_variant=True))


async def test_neither_is_done_to_an_instance_that_runs(lab: build.MemoryCluster) -> None:
    run_it(lab)
    for op in (REINSTALL, RENAME):
        assert "instance vm1 is running" in str(await lab.refused(op))


async def test_a_renamed_instance_takes_its_files_along(lab: build.MemoryCluster) -> None:
    assert await lab.run(RENAME) == "vm2"
    assert vm(lab, "vm2").disks[0].logical_id == ("file", "/file/vm2/d1")
    assert lab.machine("node1").places == {"d1": ("file", "/file/vm2/d1")}
    (rename_call,) = lab.nodes.calls_of(calls.OsRename)
    assert isinstance(rename_call, calls.OsRename)
    assert (rename_call.old, rename_call.instance.name) == ("vm1", "vm2")
    assert lab.machine("node1").owners == {"d1": "vm2"}
    assert "instance vm2 exists already" in str(
        await lab.refused(opcodes.InstanceRename(instance_name="vm2", new_name="vm2"))
    )
