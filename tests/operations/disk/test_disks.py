"""Disks of all templates over an instance's life: made, started, stopped, removed; what is refused."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.operations import fill
from gantry.rpc import calls

Disk = opcodes.DiskSpec
TEMPLATES = ("file", "diskless", "sharedfile", "plain", "drbd", "ext")
OWNER = msgspec.structs.replace(build.OWNER, enabled_disk_templates=TEMPLATES)


def op(template: str, *disks: opcodes.DiskSpec, **fields: object) -> opcodes.InstanceCreate:
    plain = opcodes.InstanceCreate(
        instance_name="new", os_type="plain", disk_template=template, disks=disks, pnode="node2", start=False
    )
    return msgspec.structs.replace(plain, **fields)


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster(*(OWNER if value is build.OWNER else value for value in build.FIRST))


def names(node_calls: Sequence[tuple[str, calls.Call[object]]]) -> list[tuple[str, str]]:
    return [(node, type(call).__name__) for node, call in node_calls]


async def mirrored(lab: build.MemoryCluster, name: str = "new", **fields: object) -> instance.Instance:
    await lab.run(op("drbd", Disk(size=64), Disk(size=128), snode="node3", instance_name=name, **fields))
    return lab.state.instance(name)


@pytest.mark.promise("cluster-139")
@pytest.mark.parametrize(
    ("template", "spec", "expected", "params"),
    [
        ("sharedfile", Disk(size=64), ("sharedfile", "/file/new/u1"), {}),
        ("file", Disk(size=64, path="root.img", format="qcow2"), ("file", "/file/new/root.img"), {"format": "qcow2"}),
        ("file", Disk(size=64, path="/file/a/b"), ("file", "/file/a/b"), {}),
        ("plain", Disk(size=64), ("xenvg", "u1.disk0"), {}),
        ("plain", Disk(size=64, vg="fast"), ("fast", "u1.disk0"), {}),
        (
            "ext",
            Disk(size=64, provider="san", access="userspace", params={"tier": "gold"}),
            ("san", "u1.disk0"),
            {"provider": "san", "access": "userspace", "tier": "gold"},
        ),
    ],
)
async def test_a_disk_of_each_template_is_made_where_it_belongs(
    lab: build.MemoryCluster,
    template: str,
    spec: opcodes.DiskSpec,
    expected: tuple[str, ...],
    params: dict[str, object],
) -> None:
    lab.numbers = iter(range(1, 10_000))  # type: ignore[assignment]
    await lab.run(op(template, spec))
    (disk,) = lab.state.instance("new").disks
    assert (disk.dev_type, disk.logical_id, disk.params) == (template, expected, params)
    (create_call,) = lab.nodes.calls_of(calls.BlockdevCreate)
    assert create_call.disk.logical_id == expected
    assert create_call.disk.params.items() >= params.items()


async def test_a_mirrored_disk_is_made_on_both_nodes_and_opened_on_the_first(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    assert vm.nodes == ("n2", "n3")
    first, second = vm.disks
    assert first.mirror
    assert second.mirror
    assert [child.logical_id[1] for child in first.children] == [f"{first.uuid}.disk0_data", f"{first.uuid}.disk0_meta"]
    assert [child.size for child in first.children] == [64, 128]
    assert first.mirror.minors == {"n2": 0, "n3": 0}
    assert second.mirror.minors == {"n2": 1, "n3": 1}
    assert len({first.mirror.port, second.mirror.port}) == 2
    assert first.mirror.secret != second.mirror.secret
    for name in ("node2", "node3"):
        assert lab.machine(name).disks == {first.uuid: 64, second.uuid: 128}
    (opened, _) = lab.nodes.calls_of(calls.BlockdevOpen, "node2")
    assert opened.force
    assert lab.nodes.calls_of(calls.BlockdevOpen, "node3") == []
    ends = {name: fill.fill(lab.state, vm, node=uuid).disks[0].mirror for name, uuid in (("a", "n2"), ("b", "n3"))}
    assert ends["a"]
    assert ends["b"]
    assert (ends["a"].local, ends["a"].remote) == ("203.0.113.2", "203.0.113.3")
    assert (ends["b"].local, ends["b"].remote) == ("203.0.113.3", "203.0.113.2")
    assert ends["a"].secret == ends["b"].secret == first.mirror.secret


@pytest.mark.promise("cluster-100")
async def test_minors_and_ports_are_given_out_once_and_again_when_they_are_free(lab: build.MemoryCluster) -> None:
    first, second = await mirrored(lab, "one"), await mirrored(lab, "two")
    assert len({*first.numbers(), *second.numbers()}) == 12
    await lab.run(opcodes.InstanceRemove(instance_name="one"))
    three = await mirrored(lab, "three")
    assert [*three.numbers()] == [*first.numbers()]


async def test_the_state_refuses_a_minor_and_a_port_twice(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab, "one")
    minor = instance.Mirror(minors={"n2": 0, "n1": 9}, port=1, secret="")
    port = instance.Mirror(minors={"n2": 8, "n1": 9}, port=11000, secret="")
    for mirror, message in ((minor, "minor 0 of node node2"), (port, "port 11000")):
        disk = msgspec.structs.replace(vm.disks[0], mirror=mirror)
        with pytest.raises(errors.NotUniqueError, match=f"{message} is in use by a disk of instance one"):
            lab.put(msgspec.structs.replace(vm, uuid="other", name="other", disks=(disk,), nics=()))


async def test_creation_waits_for_synchronization_unless_the_user_declines(lab: build.MemoryCluster) -> None:
    lab.machine("node2").degraded = 5
    await mirrored(lab)
    assert lab.machine("node2").degraded == 0
    assert any("50.0 % synchronized" in line for line in lab.log.lines)
    lab.machine("node2").degraded = 5
    vm = await mirrored(lab, "other", wait_for_sync=False)
    assert lab.machine("node2").degraded == 5
    assert lab.machine("node2").active[vm.disks[0].uuid] == "primary"


async def test_a_disk_that_never_synchronises_ends_the_creation(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = calls.DiskState(path="/dev/drbd0", size=64, active=True, degraded=True, problem="split brain")
    monkeypatch.setattr(build.Machine, "find", lambda *_: stuck)
    with pytest.raises(errors.ExecutionError, match="split brain"):
        await mirrored(lab)


async def test_new_disks_are_wiped_part_by_part_when_the_cluster_says_so(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(OWNER, prealloc_wipe_disks=True))
    await lab.run(op("plain", Disk(size=100)))
    wiped = lab.nodes.calls_of(calls.BlockdevWipe)
    assert [(call.offset, call.size) for call in wiped] == [(offset, 10) for offset in range(0, 100, 10)]
    assert [text.partition(", ")[0] for text in lab.log.progresses] == [
        *(f"wipe disk 0: {done} of 100 MiB ({done} %)" for done in range(10, 101, 10)),
        "",
    ]
    assert "disk 0 of new: wiped 100 MiB" in lab.log.lines


@pytest.mark.promise("cluster-104")
async def test_volumes_of_an_instance_are_placed_together(lab: build.MemoryCluster) -> None:
    await lab.run(op("plain", Disk(size=64), Disk(size=64)))
    (place_call,) = lab.nodes.calls_of(calls.BlockdevPlace)
    assert len(place_call.disks) == 2
    assert {call.on for call in lab.nodes.calls_of(calls.BlockdevCreate)} == {("pv1",)}


async def test_what_is_there_is_adopted_with_its_size(lab: build.MemoryCluster) -> None:
    lab.machine("node2").strays["old"] = 320
    await lab.run(op("plain", Disk(adopt="old"), Disk(size=64), no_install=True))
    vm = lab.state.instance("new")
    assert [disk.size for disk in vm.disks] == [320, 64]
    assert [call.source for call in lab.nodes.calls_of(calls.BlockdevAdopt)] == ["old"]
    assert len(lab.nodes.calls_of(calls.BlockdevCreate)) == 1


async def test_an_instance_starts_with_its_disks_and_stops_without_them(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    primary, secondary = lab.machine("node2"), lab.machine("node3")
    assert (primary.active, secondary.active) == ({}, {})
    await lab.run(opcodes.InstanceStartup(instance_name="new"))
    assert {*primary.active.values()} == {"primary"}
    assert {*secondary.active.values()} == {"secondary"}
    await lab.run(opcodes.InstanceShutdown(instance_name="new"))
    assert (primary.active, secondary.active) == ({}, {})
    await lab.run(opcodes.InstanceRemove(instance_name=vm.name))
    assert (primary.disks, secondary.disks) == ({}, {})


async def test_a_secondary_node_that_is_offline_does_not_keep_an_instance_down(lab: build.MemoryCluster) -> None:
    await mirrored(lab)
    lab.put(msgspec.structs.replace(lab.state.node("node3"), offline=True))
    await lab.run(opcodes.InstanceStartup(instance_name="new"))
    assert "new" in lab.machine("node2").running
    assert any(line.startswith("WARNING") and "node3" in line for line in lab.log.lines)


@pytest.mark.parametrize("kind", ["hard", "full"])
async def test_a_reboot_without_an_answer_of_the_secondary_node_must_be_requested(
    lab: build.MemoryCluster, kind: str
) -> None:
    await mirrored(lab)
    await lab.run(opcodes.InstanceStartup(instance_name="new"))
    lab.machine("node3").down = True
    reboot = msgspec.structs.replace(opcodes.InstanceReboot(instance_name="new"), reboot_type=kind)
    with pytest.raises(errors.RemoteError):
        await lab.run(reboot)
    assert "new" not in lab.machine("node2").running
    await lab.run(msgspec.structs.replace(reboot, ignore_secondaries=True))
    assert "new" in lab.machine("node2").running
    assert {*lab.machine("node2").active.values()} == {"primary"}
    assert any(line.startswith("WARNING") and "node3" in line for line in lab.log.lines)
    await lab.run(msgspec.structs.replace(reboot, ignore_secondaries=True))
    assert "new" in lab.machine("node2").running


async def test_disks_that_cannot_be_activated_leave_none_active(lab: build.MemoryCluster) -> None:
    await mirrored(lab)
    lab.machine("node2").down = True
    lab.nodes.made.clear()
    with pytest.raises(errors.RemoteError):
        await lab.run(opcodes.InstanceStartup(instance_name="new", force=True))
    lab.machine("node2").down = False
    assert lab.machine("node3").active == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"disk_template": "plian"}, "unknown disk template plian; did you mean plain?"),
        ({"disks": (Disk(size=64, provider="san"),)}, "disk 0: disks of template plain have no parameter provider"),
        ({"disks": (Disk(size=64, vg="-x"),)}, "disk 0: '-x' is not a valid volume group name"),
        ({"disks": (Disk(size=64, adopt="old"),)}, "disk 0: an adopted disk keeps its size"),
        ({"disks": (Disk(adopt="nothing"),)}, "disk 0: nothing does not exist on node node2"),
        ({"disks": (Disk(adopt="old"),), "pnode": None}, "adopting disks requires an explicit node"),
        ({"snode": "node3"}, "template plain has no secondary node: omit node node3"),
        ({"disk_template": "drbd", "snode": "node2"}, "cannot be both"),
        ({"disk_template": "ext"}, "disk 0: no provider specified"),
        ({"disk_template": "drbd", "snode": "nobody"}, "no such node: nobody"),
    ],
)
async def test_what_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    error = await lab.refused(op("plain", Disk(size=64), no_install=True, **fields))
    assert message in str(error)
    assert isinstance(error, errors.PrerequisiteError)


async def test_a_missing_volume_group_is_reported(lab: build.MemoryCluster) -> None:
    gone = calls.StorageInfo(kind="plain", path="xenvg", free=0, total=0, problem="there is no volume group xenvg")
    lab.machine("node2").status = msgspec.structs.replace(build.STATUS, storage=(gone,))
    error = await lab.refused(op("plain", Disk(size=64)))
    assert "there is no volume group xenvg" in str(error)


@pytest.mark.promise("cluster-95")
async def test_a_secondary_node_is_chosen_beside_the_primary_one(lab: build.MemoryCluster) -> None:
    other = cluster.NodeGroup(uuid="g2", name="other")
    lab.put(other, msgspec.structs.replace(lab.state.node("node1"), group="g2"))
    await lab.run(op("drbd", Disk(size=64)))
    assert lab.state.instance("new").nodes == ("n2", "n3")
    lab.put(msgspec.structs.replace(lab.state.node("node3"), drained=True))
    assert "no node can take the instance: node3: the node is drained" in str(
        await lab.refused(op("drbd", Disk(size=64), instance_name="next"))
    )


async def test_a_node_with_copies_is_not_sent_away(lab: build.MemoryCluster) -> None:
    await mirrored(lab)
    error = await lab.refused(opcodes.NodeRemove(node_name="node3"))
    assert "node node3 is the secondary node of instance new" in str(error)
    error = await lab.refused(opcodes.NodeSetParams(node_name="node3", vm_capable=False))
    assert "it is the secondary node of instance new" in str(error)
